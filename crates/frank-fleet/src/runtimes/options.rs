//! Options of a runtime: its own list, near matches, defaults, and values as arguments. Never knows which runtime it is.

mod list;
mod values;

use serde_json::Value;

use super::Arg;
use crate::fault::Fault;
use crate::placement::Placement;

pub(super) use list::{Kind, OptionList};
pub(super) use values::is_same;

/// An option of an endpoint, found in the list of its runtime.
pub(super) struct Given<'a> {
    /// Its first name in the list.
    pub(super) name: &'a str,
    /// As this build spells it.
    pub(super) spelling: String,
    /// How its value is written.
    pub(super) kind: Kind,
    /// What it is without being given.
    pub(super) default: Option<String>,
    /// Its value in `frank.toml`.
    pub(super) value: &'a Value,
    /// Where it stands there.
    pub(super) place: String,
}

impl Given<'_> {
    /// Its value as one text, where it is a number or a text.
    pub(super) fn text(&self) -> Option<String> {
        values::text(self.value)
    }

    /// Its value as a whole number.
    pub(super) fn number(&self) -> Option<u64> {
        self.text()?.parse().ok()
    }

    /// Whether it says what would be without it.
    pub(super) fn is_default(&self) -> bool {
        self.default.as_deref().is_some_and(|default| values::says(self.value, default))
    }

    /// Files on the host that it names, and folders, which are made where they are missing.
    pub(super) fn paths(&self) -> (Vec<String>, bool) {
        match self.kind {
            Kind::File | Kind::Folder => {
                (self.text().into_iter().collect(), self.kind == Kind::Folder)
            }
            Kind::Files => (values::texts(self.value), false),
            _ => (Vec::new(), false),
        }
    }
}

/// Place of an option of an endpoint.
pub(super) fn place(placement: &Placement<'_>, name: &str) -> String {
    format!("endpoints.{}.options.{name}", placement.name)
}

/// The options of an endpoint that are in the list, or that the build itself lists.
pub(super) fn given<'a>(placement: &'a Placement<'_>, list: &'a OptionList) -> Vec<Given<'a>> {
    let build = placement.known.build.and_then(|build| build.learned.as_ref());
    let options = placement.endpoint.options.iter();
    options
        .filter_map(|(name, value)| {
            let place = place(placement, name);
            if let Some(row) = list.find(name) {
                let spelling = list.spelling(row.name, build);
                let default = list.default(row.name, build);
                return Some(Given {
                    name: row.name,
                    spelling,
                    kind: row.kind,
                    default,
                    value,
                    place,
                });
            }
            let option = build?.find(name)?;
            let kind = if option.takes_value { Kind::Value } else { Kind::Flag };
            let default = option.default.clone();
            Some(Given { name, spelling: name.clone(), kind, default, value, place })
        })
        .collect()
}

/// The value of an option by any of its names, as a text; its default where it is not given.
pub(super) fn value_of(given: &[Given<'_>], list: &OptionList, name: &str) -> Option<String> {
    match given.iter().find(|option| option.name == name) {
        Some(option) => option.text(),
        None => list.find(name)?.default.map(str::to_owned),
    }
}

/// What is wrong with the options of an endpoint by themselves.
pub(super) fn check(placement: &Placement<'_>, list: &OptionList) -> Vec<Fault> {
    let mut faults = Vec::new();
    for name in placement.endpoint.options.keys() {
        faults.extend(name_fault(placement, list, name));
    }
    let given = given(placement, list);
    for (index, option) in given.iter().enumerate() {
        if given[..index].iter().any(|earlier| earlier.name == option.name) {
            let message = format!("`{}` is given twice, by two of its names", option.name);
            faults.push(Fault::error("option_twice", &option.place, message));
        }
        if let Err(message) = values::words(option) {
            faults.push(Fault::error("bad_value", &option.place, message));
        }
    }
    faults
}

/// What is wrong with an option's name.
fn name_fault(placement: &Placement<'_>, list: &OptionList, name: &str) -> Option<Fault> {
    let place = place(placement, name);
    let runtime = &placement.endpoint.runtime;
    if name.starts_with('-') {
        let message = format!("options stand without dashes: `{}`", name.trim_start_matches('-'));
        return Some(Fault::error("dashes", place, message));
    }
    let build = placement.known.build.and_then(|build| build.learned.as_ref());
    let is_learned = build.is_some_and(|build| build.find(name).is_some());
    let Some(row) = list.find(name) else {
        let unknown = || unknown(list, build, place, runtime, name);
        return (!is_learned).then(unknown);
    };
    if let Some(field) = row.field {
        return Some(field_fault(place, name, field));
    }
    match row.kind {
        Kind::Removed => {
            let message = format!("{runtime} took `{name}` out, and does not start with it");
            return Some(Fault::error("removed_option", place, message));
        }
        Kind::Never => {
            let message = format!("with `{name}` {runtime} is no server that is kept running");
            return Some(Fault::error("not_for_a_server", place, message));
        }
        Kind::Ignored => {
            let message = format!("{runtime} takes `{name}` and does nothing with it");
            return Some(Fault::warning("ignored_option", place, message));
        }
        _ => {}
    }
    let build =
        build.filter(|build| !list.spellings(row.name).any(|name| build.find(name).is_some()))?;
    let message = format!(
        "this build of {runtime}{} has no option `{name}`",
        version(build.version.as_deref())
    );
    Some(Fault::error("unknown_option", place, message))
}

/// An option that an endpoint sets by a field of its own.
fn field_fault(place: String, name: &str, field: &str) -> Fault {
    if field == "secret" {
        let message =
            format!("the value of `{name}` is a secret, which does not belong on a command line");
        return Fault::error("secret_option", place, message)
            .hint("give it in `env`, as `env:NAME`, `file:PATH` or `credential:NAME`");
    }
    if field == "metrics" {
        let message = format!("`{name}` is on for every endpoint");
        return Fault::error("contract_option", place, message).hint("take it out");
    }
    if field == "path" {
        let message = format!("`{name}` would move what clients and checks ask for");
        return Fault::error("contract_option", place, message);
    }
    let message = format!("`{name}` is set by `{field}` of the endpoint or its model");
    Fault::error("contract_option", place, message)
        .hint(format!("give `{field}`, which stays what it is under every runtime"))
}

/// An option that nobody knows, with what may have been meant.
fn unknown(
    list: &OptionList,
    build: Option<&super::Learned>,
    place: String,
    runtime: &str,
    name: &str,
) -> Fault {
    let learned = build.map(|build| build.names()).unwrap_or_default();
    let near = list.nearest(name, &learned);
    let known_by = match build {
        Some(build) => format!("this build of {runtime}{}", version(build.version.as_deref())),
        None => runtime.to_owned(),
    };
    let fault = Fault::error("unknown_option", place, format!("{known_by} has no option `{name}`"));
    match near {
        near if !near.is_empty() => fault.hint(format!("did you mean {}?", near.join(" or "))),
        _ if build.is_none() => {
            fault.hint("`frank probe` reads the options of the build on the host")
        }
        _ => fault,
    }
}

fn version(version: Option<&str>) -> String {
    version.map(|version| format!(" ({version})")).unwrap_or_default()
}

/// Arguments of options. One that says what would be without it is not written, so that writing a default down changes nothing.
pub(super) fn args(given: &[Given<'_>]) -> Vec<Arg> {
    let mut args = Vec::new();
    for option in given.iter().filter(|option| !option.is_default()) {
        for words in values::words(option).unwrap_or_default() {
            args.push(Arg { place: option.place.clone(), words });
        }
    }
    args
}
