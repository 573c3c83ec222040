//! What a plan is made from: `frank.lock`, what hosts have, what was applied, headers and files. Never a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use frank_fleet::{
    Endpoint, FleetFile, Generation, HostFacts, Known, Payload, PayloadFile, Pins, PlanInput,
    Tables,
};
use frank_hub::frank_lock::{FRANK_LOCK, FrankLock, PinnedPayload};
use frank_hub::store::FileState;
use frank_hub::{Reference, Role};
use frank_models::KvTypes;
use frank_os::read_small_file;
use frank_plan::ModelNeeds;

use super::Plan;
use crate::model::open_header;
use crate::options::parse_kv_types;
use crate::pulling::store;
use crate::report::{Failure, known};
use crate::this_host::this_host;

/// No record, template or configuration of a container is larger.
const SMALL_BYTES_MAX: u64 = 16 << 20;

/// The folder beside `frank.toml` with what was applied.
const STATE_DIR: &str = ".frank";

/// How frank keeps keys and values where nobody says.
const KV_DEFAULT: &str = "f16";

/// What a plan is made from, owned.
#[derive(Debug, Default)]
pub(super) struct Given {
    facts: BTreeMap<String, HostFacts>,
    payloads: BTreeMap<String, Payload>,
    needs: BTreeMap<String, ModelNeeds>,
    known: BTreeMap<String, Known<'static>>,
    pins: Pins,
    applied: BTreeMap<String, Generation>,
    files: BTreeMap<String, Vec<u8>>,
    host_files: BTreeMap<(String, String), Vec<u8>>,
    missing_files: BTreeSet<(String, String)>,
}

impl Given {
    /// Reads everything that `file` names and that is here.
    ///
    /// # Errors
    /// When a lock, a record or the facts of a host are there and cannot be used.
    pub(super) fn collect(file: &FleetFile, plan: &Plan) -> anyhow::Result<Self> {
        let folder = match plan.file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let lock_path = folder.join(FRANK_LOCK);
        let lock = FrankLock::read(&lock_path).map_err(|error| {
            let (kind, hint) = (error.kind(), error.hint().map(str::to_owned));
            known(error, kind, hint)
        })?;
        let lock = lock.unwrap_or_default();
        let state = plan.state.clone().unwrap_or_else(|| folder.join(STATE_DIR));
        let mut given = Self { pins: pins(&lock), ..Self::default() };
        given.facts = facts(file, plan.facts.as_deref())?;
        given.applied = applied(&state)?;
        for model in file.models.values() {
            let texts = [Some(&model.payload), model.draft.as_ref(), model.projector.as_ref()];
            for text in texts.into_iter().flatten() {
                given.payloads.extend(payload(text, &lock).map(|it| (text.clone(), it)));
            }
            if let Some(name) = &model.template
                && let Ok(content) = read_small_file(&folder.join(name), SMALL_BYTES_MAX)
            {
                given.files.insert(name.clone(), content);
            }
        }
        given.needs = needs(file);
        given.read_mounts(file);
        Ok(given)
    }

    pub(super) fn input<'a>(&'a self, file: &'a FleetFile) -> PlanInput<'a> {
        PlanInput {
            file,
            facts: &self.facts,
            payloads: &self.payloads,
            needs: &self.needs,
            known: &self.known,
            pins: &self.pins,
            applied: &self.applied,
            files: &self.files,
            host_files: &self.host_files,
            missing_files: &self.missing_files,
            tables: Tables::all(),
        }
    }

    /// Files of this machine that containers on it see.
    fn read_mounts(&mut self, file: &FleetFile) {
        let is_here = |host: &String| file.hosts.get(host).is_some_and(|host| host.ssh == "local");
        for app in file.apps.values().filter(|app| is_here(&app.host)) {
            for source in app.mounts.iter().filter_map(|mount| mount.split(':').next()) {
                let (key, path) = ((app.host.clone(), source.to_owned()), Path::new(source));
                if !path.exists() {
                    self.missing_files.insert(key);
                } else if path.is_file()
                    && let Ok(content) = read_small_file(path, SMALL_BYTES_MAX)
                {
                    self.host_files.insert(key, content);
                }
            }
        }
    }
}

fn pins(lock: &FrankLock) -> Pins {
    let images = lock.image.iter().map(|it| (it.name.clone(), it.digest.clone()));
    let runtimes = lock.runtime.iter().map(|it| (it.name.clone(), it.version.clone()));
    Pins { images: images.collect(), runtimes: runtimes.collect() }
}

/// What hosts have, from the files of `dir`, and else of this machine only.
fn facts(file: &FleetFile, dir: Option<&Path>) -> anyhow::Result<BTreeMap<String, HostFacts>> {
    let mut facts = BTreeMap::new();
    let Some(dir) = dir else {
        for (name, _) in file.hosts.iter().filter(|(_, host)| host.ssh == "local") {
            facts.insert(name.clone(), this_host()?);
        }
        return Ok(facts);
    };
    for name in file.hosts.keys() {
        let path = dir.join(format!("{name}.json"));
        if path.exists() {
            let text = small_text(&path)?;
            let read: HostFacts = serde_json::from_str(&text).with_context(|| {
                Failure::usage(format!("{} is not what a host has", path.display()))
            })?;
            facts.insert(name.clone(), read);
        }
    }
    Ok(facts)
}

/// What was applied to each host that has a record in `dir`.
fn applied(dir: &Path) -> anyhow::Result<BTreeMap<String, Generation>> {
    let mut applied = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(applied) };
    for entry in entries {
        let path = entry.with_context(|| format!("read {}", dir.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let generation = Generation::from_json(&small_text(&path)?)
            .with_context(|| Failure::usage(format!("cannot use {}", path.display())))?;
        applied.insert(generation.host.clone(), generation);
    }
    Ok(applied)
}

fn small_text(path: &Path) -> anyhow::Result<String> {
    let fact = || Failure::usage(format!("cannot read {}", path.display()));
    let bytes = read_small_file(path, SMALL_BYTES_MAX).with_context(fact)?;
    String::from_utf8(bytes).context("it is not UTF-8 text").with_context(fact)
}

/// The files of a reference: those that are pinned, or those of the store where nothing is.
fn payload(text: &str, lock: &FrankLock) -> Option<Payload> {
    let reference: Reference = text.parse().ok()?;
    match lock.pins(&reference) {
        Some(pinned) if !pinned.file.is_empty() => Some(of_pins(text, pinned)),
        _ => of_store(text, &reference),
    }
}

fn of_pins(text: &str, pinned: &PinnedPayload) -> Payload {
    let is_model = |role: Option<Role>| role.is_none_or(|role| role == Role::Model);
    let first = pinned.file.iter().filter(|file| is_model(file.role)).map(|file| &file.name).min();
    let files = pinned.file.iter().map(|file| PayloadFile {
        name: file.name.clone(),
        bytes: file.bytes,
        sha256: file.sha256.map(|sha256| sha256.to_string()),
    });
    let model_file = first.or(pinned.file.first().map(|file| &file.name)).cloned();
    Payload {
        name: folder_name(text),
        model_file: model_file.unwrap_or_default(),
        files: files.collect(),
    }
}

fn of_store(text: &str, reference: &Reference) -> Option<Payload> {
    let store = store().ok()?;
    let payload = match reference {
        Reference::Name(name) => store.payload(name).ok()?,
        other => store.held(other).ok()??,
    };
    let model_file = payload.usable_model().ok()?.file_name()?.to_str()?.to_owned();
    let whole = payload.files.iter().filter(|file| matches!(file.state, FileState::Verified));
    let files = whole.map(|file| PayloadFile {
        name: file.name.clone(),
        bytes: file.bytes,
        sha256: file.locked.as_ref().map(|locked| locked.sha256.to_string()),
    });
    Some(Payload { name: folder_name(text), model_file, files: files.collect() })
}

/// A payload's folder on a host: the words that lead to it, in characters that every system takes.
fn folder_name(text: &str) -> String {
    let text = text.split('#').next().unwrap_or(text);
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    let name: String = text.chars().map(|char| if is_plain(char) { char } else { '-' }).collect();
    name.trim_start_matches(['.', '-']).to_owned()
}

/// What the models of endpoints need whose headers are here.
fn needs(file: &FleetFile) -> BTreeMap<String, ModelNeeds> {
    let mut headers = BTreeMap::new();
    let mut needs = BTreeMap::new();
    for (name, endpoint) in &file.endpoints {
        let Some(model) = file.models.get(&endpoint.model) else { continue };
        let header =
            headers.entry(&model.payload).or_insert_with(|| open_header(&model.payload).ok());
        let found = header
            .as_ref()
            .and_then(|header| frank_models::needs(&header.header, kv_types(endpoint)?).ok());
        needs.extend(found.map(|found| (name.clone(), found)));
    }
    needs
}

/// How the endpoint keeps keys and values, for the planner of frank; estimates for others begin from the default.
fn kv_types(endpoint: &Endpoint) -> Option<KvTypes> {
    let asked = endpoint.options.get("kv-type").and_then(|value| value.as_str());
    parse_kv_types(asked.filter(|_| endpoint.runtime == "frank").unwrap_or(KV_DEFAULT)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_s_name_is_one_on_every_system_and_has_no_secret() {
        let check = |text: &str, name: &str| assert_eq!(folder_name(text), name);
        check("hf:org/repo:Q4_K_M", "hf-org-repo-Q4_K_M");
        check("../../etc", "etc");
        check("https://h/m.gguf#sha256=00", "https---h-m.gguf");
        check("a b$c", "a-b-c");
    }
}
