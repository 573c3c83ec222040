//! Files and folders of a program: which must be there before anything stops, and how a container sees them.

use std::path::Path;

use super::{Parts, devices, keys};
use crate::placement::Placement;
use crate::runtimes::options::Kind;
use crate::workload::{Gate, Mount};

/// What must be there before anything stops.
pub(super) fn gates(placement: &Placement<'_>, parts: &Parts<'_>) -> Vec<Gate> {
    let program = placement.endpoint.program.as_deref().unwrap_or(parts.program);
    let mut gates = vec![match &placement.endpoint.image {
        Some(image) => Gate::Image(image.clone()),
        None => Gate::Program(program.to_owned()),
    }];
    gates.push(Gate::Model(placement.model_path.to_owned()));
    let words: Vec<&String> = parts.args.iter().flat_map(|arg| &arg.words).collect();
    let is_used = |path: &&str| words.iter().any(|word| word.contains(*path));
    let used = |path: Option<&str>| path.filter(is_used).map(str::to_owned);
    gates.extend(used(placement.draft_path).map(Gate::Draft));
    gates.extend(used(placement.projector_path).map(Gate::Projector));
    gates.extend(used(placement.template_path).map(Gate::Template));
    for option in parts.given {
        let (paths, is_folder) = option.paths();
        gates.extend(paths.into_iter().filter(|_| !is_folder).map(Gate::File));
    }
    if let Some(path) = keys::key_file(placement, parts.keys) {
        gates.push(Gate::File(path));
    }
    gates.extend(
        parts.gates.iter().filter(|gate| !gates.contains(gate)).cloned().collect::<Vec<_>>(),
    );
    gates
}

/// Files and folders that a container sees, each at its own path, so that an argument means the same inside and outside.
pub(super) fn mounts(placement: &Placement<'_>, parts: &Parts<'_>, gates: &[Gate]) -> Vec<Mount> {
    let same = |path: &str, read_only, is_folder| {
        let path = path.to_owned();
        Mount { source: path.clone(), target: path, read_only, is_folder }
    };
    // The parts of a split model lie beside its first.
    let mut mounts = vec![same(&model_folder(placement.model_path), true, true)];
    for gate in gates {
        match gate {
            Gate::Draft(path) => mounts.push(same(&model_folder(path), true, true)),
            Gate::Projector(path) | Gate::Template(path) | Gate::File(path) => {
                mounts.push(same(path, true, false));
            }
            _ => {}
        }
    }
    for option in parts.given.iter().filter(|option| option.kind == Kind::Folder) {
        mounts.extend(option.paths().0.iter().map(|path| same(path, false, true)));
    }
    for library in devices::libraries(placement) {
        mounts.push(same(library, true, false));
    }
    let mut kept: Vec<Mount> = Vec::new();
    for mount in mounts {
        let is_covered = |earlier: &Mount| {
            earlier.is_folder
                && (earlier.read_only == mount.read_only)
                && Path::new(&mount.source).starts_with(&earlier.source)
        };
        if !kept.iter().any(|earlier| is_covered(earlier) || earlier.source == mount.source) {
            kept.push(mount);
        }
    }
    kept
}

/// The folder of a model: its own path where that is no file.
pub(in super::super) fn model_folder(path: &str) -> String {
    let parent = Path::new(path).parent().and_then(Path::to_str);
    match parent {
        Some(parent) if is_file(path) && !parent.is_empty() => parent.to_owned(),
        _ => path.to_owned(),
    }
}

/// Whether a path of a payload is that of a file, as its ending says.
fn is_file(path: &str) -> bool {
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ["gguf", "safetensors", "json", "jinja", "bin"].contains(&ending))
}
