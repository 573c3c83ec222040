//! MODEL on the command line: from its text to an open header. Never loads a weight.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

use frank_hub::store::{Payload, PullError};
use frank_hub::{
    Expected, FailureKind, FetchError, ModelFile, OpenError, Progress, Reference, Stage, Store,
    UrlReference, words_of,
};
use frank_os::OsError;
use frank_plan::Size;

use crate::pulling::{LockPlace, Puller, of_store, ready, store};
use crate::report::{Failure, known};

/// Opens the header of `model`. What a hub or a web server has and the store has not is not pulled for it: a header is
/// not worth hundreds of gigabytes.
///
/// # Errors
/// When it is no reference, is not here, or is no model.
pub(crate) fn open_header(model: &(impl AsRef<OsStr> + ?Sized)) -> anyhow::Result<ModelFile> {
    ModelFile::open_header(&path_of(model.as_ref(), held)?).map_err(of_open)
}

/// Opens `model` to load it: every tensor must be there in full. What is here is taken when it is what the `frank.lock` in
/// this folder pins; what is not is pulled as `frank pull` does, unless it was called by its name in the store.
///
/// # Errors
/// As [`open_header`], when the file is cut off or the pull fails, and when the pins are of other bytes.
pub(crate) fn open(model: &OsStr) -> anyhow::Result<ModelFile> {
    ModelFile::open(&path_of(model, pinned)?).map_err(of_open)
}

/// Where a part of `model` lies; `stored` is asked for what belongs in the store. A name that is not UTF-8 can only be that
/// of a file.
fn path_of(
    model: &OsStr,
    stored: impl Fn(&Reference) -> anyhow::Result<PathBuf>,
) -> anyhow::Result<PathBuf> {
    let Some(text) = model.to_str() else { return Ok(PathBuf::from(model)) };
    let reference = text.parse().map_err(|error| known(error, FailureKind::Input, None))?;
    match &reference {
        Reference::Path(path) => Ok(path.clone()),
        _ => stored(&reference),
    }
}

/// Where the model lies that is here, whatever is pinned: nothing but its header is of interest.
fn held(reference: &Reference) -> anyhow::Result<PathBuf> {
    if let Reference::Pip(_) = reference {
        return fetch(reference).map_err(of_fetch);
    }
    match here(reference)? {
        Some(payload) => payload.usable_model().map_err(of_store),
        None => {
            // What signs an address is not shown.
            let words = words_of(reference);
            let hint =
                format!("`frank pull {words}` brings it; `frank pull --list` shows what there is");
            let failure = Failure::usage(format!("{words} is not in the store"));
            Err(failure.hint(hint).into())
        }
    }
}

/// Where the model lies that is pinned, or that is here where nothing is. A name never leads to the network.
fn pinned(reference: &Reference) -> anyhow::Result<PathBuf> {
    let mut lock = LockPlace::open(None)?;
    // The packages of a payload are looked at by a pull, without asking anybody while they are as they were.
    let is_looked_at = !matches!(reference, Reference::Pip(_));
    let payload = is_looked_at.then(|| here(reference)).transpose()?.flatten();
    if let Some(payload) = payload.filter(|payload| has_demanded_bytes(payload, reference)) {
        payload.usable_model().map_err(of_store)?;
        let store = store()?;
        let checked = |pins| payload.check_pins(pins).and_then(|()| payload.check_places(pins));
        match lock.pins(&store, reference).map(checked) {
            None | Some(Ok(())) => return ready(&payload),
            Some(Err(error)) if matches!(reference, Reference::Name(_)) => {
                return Err(of_pins(reference, error));
            }
            // The source tells whether it is the payload that is another, or the pins that are wrong.
            Some(Err(_)) => {}
        }
    }
    let puller = Puller::new(None)?;
    let pulled = puller.pull(reference, false, &mut lock)?;
    let payload = puller.store.payload(&pulled.payload).map_err(of_store)?;
    payload.usable_model().map_err(of_store)
}

/// Whether a payload has the bytes whose digest stands in the reference itself, where one does.
fn has_demanded_bytes(payload: &Payload, reference: &Reference) -> bool {
    let Reference::Url(UrlReference { sha256: Some(sha256), .. }) = reference else { return true };
    payload.files.iter().flat_map(|file| &file.locked).any(|locked| locked.sha256 == *sha256)
}

/// The payload of the store that `reference` names.
fn here(reference: &Reference) -> anyhow::Result<Option<Payload>> {
    let store = store()?;
    let payload = match reference {
        Reference::Name(name) => store.payload(name).map(Some),
        other => store.held(other),
    };
    payload.map_err(of_store)
}

/// A payload that is called by its name and is not what is pinned.
fn of_pins(name: &Reference, error: PullError) -> anyhow::Error {
    let hint =
        format!("`frank pull {name}` brings what is pinned, or says what is wrong with the pins");
    let kind = error.kind();
    known(error, kind, Some(hint))
}

fn fetch(reference: &Reference) -> Result<PathBuf, FetchError> {
    let store = Store::at(Store::default_dir()?);
    let is_said = Cell::new(false);
    let say_download = |progress: Progress| {
        if progress.stage == Stage::Download && !is_said.replace(true) {
            let size =
                progress.total.map_or_else(String::new, |bytes| format!(", {}", Size(bytes)));
            let _unheard = writeln!(std::io::stderr(), "fetching {reference}{size}");
        }
    };
    store.fetch(reference, &Expected::default(), &say_download)
}

/// A fetch that failed, with its exit code and the way out.
pub(crate) fn of_fetch(error: FetchError) -> anyhow::Error {
    let (kind, hint) = (error.kind(), error.hint());
    known(error, kind, hint)
}

fn of_open(error: OpenError) -> anyhow::Error {
    let hint = match &error {
        OpenError::Os(OsError::NotAFile { kind: "directory", .. }) => {
            Some("give the path of a .gguf file inside it")
        }
        other => other.hint(),
    };
    let (kind, hint) = (error.kind(), hint.map(str::to_owned));
    known(error, kind, hint)
}

/// A warning for each part of the model that ends before its tensors do, and one for those that are not there.
pub(crate) fn cut_off(file: &ModelFile) -> Vec<String> {
    let header = &file.header;
    let missing = (!file.missing_parts().is_empty()).then(|| lacking(file.missing_parts()));
    let parts = file.paths().iter().zip(&header.parts).enumerate();
    let cut = parts.filter_map(|(index, (path, part))| {
        let tensors = header.tensors.iter().filter(|tensor| tensor.part == index);
        let ends = tensors.filter_map(|tensor| {
            let end = part.data_start.saturating_add(tensor.offset);
            Some(end.saturating_add(tensor.bytes()?))
        });
        let missing = ends.max()?.checked_sub(part.file_bytes).filter(|&missing| missing > 0)?;
        Some(format!("{} is cut off: {missing} bytes are missing at its end", path.display()))
    });
    missing.into_iter().chain(cut).collect()
}

/// Says which parts are not there: the first of them, and how many.
fn lacking(missing: &[String]) -> String {
    match missing {
        [one] => format!("a part of the model is not here: {one}"),
        [first, ..] => {
            format!("{} parts of the model are not here, from {first} on", missing.len())
        }
        [] => String::new(),
    }
}
