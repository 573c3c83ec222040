//! `frank pull`: models into the store, whole and verified, and what a source has to offer.

mod check;
mod demanded;
mod facts;
mod offer;

use std::path::PathBuf;

use clap::Args;
use frank_hub::Reference;
use frank_hub::store::Step;
use serde::Serialize;

use self::check::check;
use self::demanded::Demanded;
use self::facts::{PayloadFacts, VerifiedPayload};
use self::offer::{Offer, offer};
use crate::pulling::{BEGIN, Ended, LockPlace, Puller, Reader};
use crate::report::{Failure, print};

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

frank.lock pins revision, size and digests of what a project runs; every pull writes what it brought, and \
`frank serve` and `frank run` keep to it too. A pull whose source says something else than the pins fails \
with exit code 4 (manifest_mismatch) and leaves all files as they are.";

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
        if self.list {
            let mut offers = Vec::new();
            let ended = self.offer(&mut offers);
            return self.tell("sources", &offers, Offer::text, ended);
        }
        if self.verify_only {
            let mut verified = Vec::new();
            let ended = self.verify(&mut verified);
            // What was read is told, be it right or not.
            if !self.json {
                print(&verified.iter().map(VerifiedPayload::text).collect::<String>())?;
            }
            return self.tell("payloads", &verified, |_| String::new(), ended);
        }
        let mut pulled = Vec::new();
        let ended = self.pull(&mut pulled);
        self.tell("payloads", &pulled, PayloadFacts::line, ended)
    }

    /// Prints what there is: all of it for programs, with what ended it, and for people when all went well.
    fn tell<T: Serialize>(
        &self,
        key: &str,
        items: &[T],
        line: impl Fn(&T) -> String,
        ended: Result<(), Ended>,
    ) -> anyhow::Result<()> {
        if self.json {
            let failed = ended.as_ref().err().map(|ended| &ended.facts);
            let answer = serde_json::json!({ key: items, "failed": failed });
            print(&(serde_json::to_string_pretty(&answer)? + "\n"))?;
        } else if ended.is_ok() {
            print(&items.iter().map(line).collect::<String>())?;
        }
        ended.map_err(anyhow::Error::from)
    }

    fn pull(&self, pulled: &mut Vec<PayloadFacts>) -> Result<(), Ended> {
        let mut lock = LockPlace::open(self.lock.as_deref())?;
        let references = self.references(&lock)?;
        let puller = Puller::new(self.token_file.as_deref())?;
        for reference in &references {
            pulled.push(PayloadFacts::of(&puller.pull(reference, self.refresh, &mut lock)?));
        }
        Ok(())
    }

    fn offer(&self, offers: &mut Vec<Offer>) -> Result<(), Ended> {
        let references = self.references(&LockPlace::open(self.lock.as_deref())?)?;
        let puller = Puller::new(self.token_file.as_deref())?;
        for reference in references {
            offers.push(offer(&puller, &sourced(&puller, reference))?);
        }
        Ok(())
    }

    /// Reads what the references name in the store; a name stands for the payload of that name, whatever it came from.
    fn verify(&self, verified: &mut Vec<VerifiedPayload>) -> Result<(), Ended> {
        let lock = LockPlace::open(self.lock.as_deref())?;
        let references = self.references(&lock)?;
        let reader = Reader::new()?;
        let mut fault = None;
        for reference in &references {
            let payload = reader.store.find(reference);
            let payload = payload
                .map_err(|error| Ended::store(Step::Verify.to_string(), error).about(reference))?;
            let found = reader.verify(&payload.name).map_err(|ended| ended.about(reference))?;
            let demanded = Demanded::by(reference).and_then(|demanded| demanded.fault(&payload));
            let pins = lock.pins(&reader.store, reference);
            let differing = |pins| [payload.disagreements(pins), payload.misplaced(pins)].concat();
            let mismatches = pins.map(differing).unwrap_or_default();
            let payload = VerifiedPayload::new(payload.name, found, demanded, &mismatches);
            fault = fault.or_else(|| Some((reference, payload.fault()?)));
            verified.push(payload);
        }
        match fault {
            None => Ok(()),
            Some((reference, fault)) => Err(fault.ended().about(reference)),
        }
    }

    fn references(&self, lock: &LockPlace) -> Result<Vec<Reference>, Ended> {
        if self.references.is_empty() {
            let all = lock.references()?;
            if all.is_empty() {
                let failure = Failure::usage(
                    "nothing to pull: no reference is given, and frank.lock names none",
                );
                return Err(Ended::told(
                    BEGIN.to_owned(),
                    "nothing",
                    failure.hint("usage: frank pull REF"),
                ));
            }
            return Ok(all);
        }
        let parsed = self
            .references
            .iter()
            .map(|text| text.parse().map_err(|error| Ended::reference(text, error)));
        parsed.collect()
    }
}

/// The reference that a payload of the store came from, where a name is given: only a source has something to offer.
fn sourced(puller: &Puller, reference: Reference) -> Reference {
    let Reference::Name(name) = &reference else { return reference };
    let source = puller.store.payload(name).ok().and_then(|payload| payload.source);
    source.and_then(|source| source.parse().ok()).unwrap_or(reference)
}
