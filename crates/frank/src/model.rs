//! MODEL on the command line: from its text to an open header. Never loads a weight.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

use frank_hub::store::PullOptions;
use frank_hub::{
    Expected, FailureKind, FetchError, ModelFile, OpenError, Progress, Reference, Stage, Store,
};
use frank_os::OsError;
use frank_plan::Size;

use crate::pulling::{Puller, of_pull, of_store, store};
use crate::report::{Failure, known};

/// Opens the header of `model`. What a hub or a web server has and the store has not is not pulled for it: a header is
/// not worth hundreds of gigabytes.
///
/// # Errors
/// When it is no reference, is not here, or is no model.
pub(crate) fn open_header(model: &(impl AsRef<OsStr> + ?Sized)) -> anyhow::Result<ModelFile> {
    let path = path_of(model.as_ref(), |reference| {
        let hint =
            format!("`frank pull {reference}` brings it; `frank pull --list` shows what there is");
        Err(Failure::usage(format!("{reference} is not in the store")).hint(hint).into())
    })?;
    ModelFile::open_header(&path).map_err(of_open)
}

/// Opens `model` to load it: every tensor must be there in full. It is pulled when it is a reference to what is not here.
///
/// # Errors
/// As [`open_header`], and when the file is cut off or the pull fails.
pub(crate) fn open(model: &OsStr) -> anyhow::Result<ModelFile> {
    ModelFile::open(&path_of(model, pull)?).map_err(of_open)
}

/// Where a part of `model` lies; `absent` is asked for what the store does not have. A name that is not UTF-8 can only be
/// that of a file.
fn path_of(
    model: &OsStr,
    absent: impl Fn(&Reference) -> anyhow::Result<PathBuf>,
) -> anyhow::Result<PathBuf> {
    let Some(text) = model.to_str() else { return Ok(PathBuf::from(model)) };
    let reference = text.parse().map_err(|error| known(error, FailureKind::Input, None))?;
    match &reference {
        Reference::Path(path) => Ok(path.clone()),
        Reference::Pip(_) => fetch(&reference).map_err(of_fetch),
        Reference::Name(name) => {
            let payload = store()?.payload(name).map_err(of_store)?;
            payload.usable_model().map_err(of_store)
        }
        Reference::Hub(_) | Reference::Url(_) => {
            match store()?.held(&reference).map_err(of_store)? {
                Some(payload) => payload.usable_model().map_err(of_store),
                None => absent(&reference),
            }
        }
    }
}

/// Pulls what is not here, and says where its model lies.
fn pull(reference: &Reference) -> anyhow::Result<PathBuf> {
    let puller = Puller::new(None)?;
    let pulled = puller.pull(reference, PullOptions::default()).map_err(of_pull)?;
    let payload = puller.store.payload(&pulled.payload).map_err(of_store)?;
    payload.usable_model().map_err(of_store)
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
