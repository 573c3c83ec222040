//! Where the files of a model lie on a host. Never fetches one.

use crate::fault::Fault;
use crate::fleet_file::{Endpoint, Host, Model};
use crate::generation::sha256_hex;
use crate::plan::input::{Payload, PlanInput};
use crate::plan::placing::Placed;
use crate::targets::RenderedFile;

/// Characters of a digest that tell versions of a file apart.
const DIGEST_CHARS: usize = 16;

/// Where the files of a model lie on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::plan) struct Paths {
    pub(in crate::plan) model: String,
    pub(in crate::plan) draft: Option<String>,
    pub(in crate::plan) projector: Option<String>,
    /// The template, which is brought with the other files.
    pub(in crate::plan) template: Option<RenderedFile>,
}

/// A payload's file on a host, and the payload that it is in, where it is in one.
pub(super) struct Found<'a> {
    path: String,
    payload: Option<&'a Payload>,
}

/// Where the files of a model lie on `host`; `None` where the model's own are unknown. Payloads and faults go to `placed`.
pub(super) fn find(
    input: &PlanInput<'_>,
    (endpoint, model): (&Endpoint, &Model),
    host: &Host,
    placed: &mut Placed,
) -> Option<Paths> {
    let at = format!("models.{}", endpoint.model);
    let main = payload(input, &model.payload, host);
    let Some(main) = main else {
        placed.faults.push(not_pinned(&model.payload, &format!("{at}.payload")));
        return None;
    };
    let mut payloads: Vec<&Payload> = main.payload.into_iter().collect();
    let mut part = |text: &Option<String>, key: &str| {
        let text = text.as_ref()?;
        let inside = main.payload.filter(|it| it.files.iter().any(|file| file.name == *text));
        let found = match inside {
            Some(inside) => Some(Found { path: path(host, inside, text), payload: None }),
            None => payload(input, text, host),
        };
        match found {
            Some(found) => {
                payloads.extend(found.payload);
                Some(found.path)
            }
            None => {
                placed.faults.push(not_pinned(text, &format!("{at}.{key}")));
                None
            }
        }
    };
    let draft = part(&model.draft, "draft");
    let projector = part(&model.projector, "projector");
    let template = model.template.as_deref().and_then(|name| {
        let file = template(input, host, name);
        if file.is_none() {
            let message = format!("there is no text file `{name}` beside frank.toml");
            placed.faults.push(Fault::error("missing_file", format!("{at}.template"), message));
        }
        file
    });
    placed.payloads = payloads.into_iter().cloned().collect();
    placed.payloads.dedup();
    Some(Paths { model: main.path, draft, projector, template })
}

/// The file of a reference: a path of the host, or in a payload that is known.
fn payload<'a>(input: &PlanInput<'a>, reference: &str, host: &Host) -> Option<Found<'a>> {
    let plain = reference.strip_prefix("file:").unwrap_or(reference);
    if plain.starts_with('/') {
        return Some(Found { path: plain.to_owned(), payload: None });
    }
    let payload = input.payloads.get(reference)?;
    Some(Found { path: path(host, payload, &payload.model_file), payload: Some(payload) })
}

fn path(host: &Host, payload: &Payload, file: &str) -> String {
    let folder = host.folder().trim_end_matches('/');
    format!("{folder}/models/{}/{file}", payload.name)
}

fn not_pinned(reference: &str, at: &str) -> Fault {
    let message = format!("nothing says which files `{}` is", reference.escape_debug());
    let hint = format!("`frank pull {reference}` beside frank.toml pins them in frank.lock");
    Fault::error("not_pinned", at, message).hint(hint)
}

/// A template under its digest, so that one generation's is not written over by that of the next.
fn template(input: &PlanInput<'_>, host: &Host, name: &str) -> Option<RenderedFile> {
    let content = String::from_utf8(input.files.get(name)?.clone()).ok()?;
    let digest = sha256_hex(content.as_bytes());
    let base = name.rsplit('/').next().unwrap_or(name);
    let folder = host.folder().trim_end_matches('/');
    let path = format!("{folder}/files/{}/{base}", &digest[..DIGEST_CHARS]);
    Some(RenderedFile { path, mode: 0o644, content })
}
