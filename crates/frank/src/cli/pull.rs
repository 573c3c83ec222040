//! `frank pull`: models into the store, whole and verified, and what a source has to offer.

mod check;
mod facts;
mod lock;
mod offer;

use std::path::PathBuf;

use clap::Args;
use frank_hub::store::{PullError, PullOptions};
use frank_hub::{FailureKind, Reference};

use self::check::check;
use self::facts::{Answer, FailedPull, PayloadFacts, VerifiedPayload};
use self::lock::LockPlace;
use self::offer::offer;
use crate::pulling::{Puller, of_pull, of_store};
use crate::report::{Code, Failure, known, print};

const EXAMPLES: &str = "\
Examples:
  frank pull hf:org/repo:Q4_K_M          one quant, with its projector and template
  frank pull hf:org/repo@v1.0:'*Q8_0*'   files by name, at a tag, branch or commit
  frank pull --list hf:org/repo          what there is
  frank pull https://host/model.gguf#sha256=DIGEST
  frank pull --verify-only NAME          read every byte of a payload of the store again
  frank pull --refresh NAME              bring only what has other bytes upstream now
  frank pull                             everything in frank.lock
  frank pull --check model.gguf          whether a file is a whole model, rightly named

A pull that was broken off, by Ctrl-C or by a crash, goes on where it was. Files get their names when \
size and digest are right. Tokens come from HF_TOKEN, HF_TOKEN_PATH, the file of the hub's own tools or \
a systemd credential (hf_token), and go to the host of HF_ENDPOINT alone; never write one into a command \
line.

frank.lock pins revision, size and digests of what a project runs; every pull writes what it brought. A \
pull whose source says something else than the pins fails with exit code 4 (manifest_mismatch) and leaves \
all files as they are.";

/// Bring models into the store, resumed and verified
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pull {
    /// hf:org/repo[@revision][:quant, file or glob], https://…[#sha256=HEX], file:PATH, pip:…, or a name from the store
    #[arg(value_name = "REF")]
    references: Vec<String>,

    /// Show what the source has, grouped by model, quant and scheme, and fetch nothing
    #[arg(long, conflicts_with_all = ["verify_only", "refresh", "check"])]
    list: bool,

    /// Read every byte of what is here and compare it with payload.lock; fetch nothing
    #[arg(long, conflicts_with_all = ["refresh", "check"])]
    verify_only: bool,

    /// Compare digests upstream, file by file, and fetch only what differs; old files go to the trash
    #[arg(long, conflicts_with = "check")]
    refresh: bool,

    /// Say whether this file is a whole model; fetch nothing
    #[arg(long, value_name = "FILE", conflicts_with = "references")]
    check: Option<PathBuf>,

    /// The file with the pins [default: frank.lock in this folder, where there is one]
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,

    /// Read the token of the hub from this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Pull {
    /// Does what the options say, for one reference after the other; the first that fails ends it.
    ///
    /// # Errors
    /// Exit code 4 when bytes are not the right ones or the pins disagree with the source, 130 for Ctrl-C; what came in
    /// stays for the next pull.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(path) = &self.check {
            return check(path, self.json);
        }
        let mut lock = LockPlace::open(self.lock.as_deref())?;
        let references = self.references(&lock)?;
        let puller = Puller::new(self.token_file.as_deref())?;
        let references: Vec<Reference> =
            references.into_iter().map(|reference| sourced(&puller, reference)).collect();
        if self.list {
            return offer(&puller, &references, self.json);
        }
        if self.verify_only {
            return verify(&puller, &references, &lock, self.json);
        }
        let mut answer = Answer::default();
        for reference in &references {
            let options = PullOptions { refresh: self.refresh, pins: lock.pins(reference) };
            match puller.pull(reference, options) {
                Ok(pulled) => {
                    lock.set(&pulled.lock)?;
                    answer.payloads.push(PayloadFacts::of(&pulled));
                }
                Err(error) => return self.failed(answer, reference, error),
            }
        }
        if self.json {
            return print(&(serde_json::to_string_pretty(&answer)? + "\n"));
        }
        print(&answer.payloads.iter().map(PayloadFacts::line).collect::<String>())
    }

    fn references(&self, lock: &LockPlace) -> anyhow::Result<Vec<Reference>> {
        if self.references.is_empty() {
            let all = lock.references()?;
            if all.is_empty() {
                let failure = Failure::usage(
                    "nothing to pull: no reference is given, and frank.lock names none",
                );
                return Err(failure.hint("usage: frank pull REF").into());
            }
            return Ok(all);
        }
        let parsed = self.references.iter().map(|text| text.parse());
        parsed.collect::<Result<_, _>>().map_err(|error| known(error, FailureKind::Input, None))
    }

    fn failed(
        &self,
        mut answer: Answer,
        reference: &Reference,
        error: PullError,
    ) -> anyhow::Result<()> {
        if self.json {
            answer.failed = Some(FailedPull::of(reference, &error));
            print(&(serde_json::to_string_pretty(&answer)? + "\n"))?;
        }
        Err(of_pull(error))
    }
}

/// Reads what the references name in the store.
fn verify(
    puller: &Puller,
    references: &[Reference],
    lock: &LockPlace,
    json: bool,
) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for reference in references {
        let name = puller.store.find(reference).map_err(of_store)?.name;
        let show = |file: &str, progress: frank_hub::Progress| {
            puller.show.progress(
                frank_hub::store::Step::Verify,
                file,
                progress.bytes,
                progress.total,
            );
        };
        let files = puller.store.verify(&name, &show);
        puller.show.end();
        let files = files.map_err(self::facts::of_verify)?;
        all.push(VerifiedPayload::new(name, files, lock.pins(reference)));
    }
    if json {
        print(&(serde_json::to_string_pretty(&serde_json::json!({ "payloads": all }))? + "\n"))?;
    } else {
        print(&all.iter().map(VerifiedPayload::text).collect::<String>())?;
    }
    match all.iter().find_map(VerifiedPayload::fault) {
        None => Ok(()),
        Some(fault) => {
            let failure = Failure::new(Code::Verification, format!("verify failed: {fault}"));
            Err(failure
                .hint("`frank pull` with the same name brings what is damaged or missing")
                .into())
        }
    }
}

/// The reference that a payload of the store came from, where a name is given: pins are of sources.
fn sourced(puller: &Puller, reference: Reference) -> Reference {
    let Reference::Name(name) = &reference else { return reference };
    let source = puller.store.payload(name).ok().and_then(|payload| payload.source);
    source.and_then(|source| source.parse().ok()).unwrap_or(reference)
}
