//! Which keys of unit files are known from which version on, and what is wrong with a file that has others.

use crate::fault::Fault;

use super::unit_file::{Entry, entries};

/// Keys of a section, and the first version that knows them.
pub(super) type Keys<V> = &'static [(V, &'static str, &'static [&'static str])];

/// Keys of systemd that frank writes, with the first version of systemd that knows them; 0 is older than any in use.
///
/// A key that is not here is refused: systemd itself passes over one that it does not know.
pub(super) const SYSTEMD_KEYS: Keys<u32> = &[
    (0, "Unit", &["After", "Description", "Documentation", "Wants"]),
    (
        0,
        "Service",
        &[
            "Environment",
            "EnvironmentFile",
            "ExecStart",
            "LimitMEMLOCK",
            "NoNewPrivileges",
            "Restart",
            "RestartSec",
        ],
    ),
    (0, "Service", &["TimeoutStartSec", "TimeoutStopSec", "Type"]),
    (214, "Service", &["ProtectSystem"]),
    (231, "Service", &["MemoryMax"]),
    (0, "Install", &["WantedBy"]),
];

/// The first version that knows the key of an entry.
pub(super) fn first_version<V: Copy>(keys: Keys<V>, entry: &Entry<'_>) -> Option<V> {
    let row = keys
        .iter()
        .find(|(_, section, names)| *section == entry.section && names.contains(&entry.key));
    row.map(|(version, ..)| *version)
}

/// A file and the program that reads it, for the sentences of faults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read<'a> {
    /// Where its program stands in `frank.toml`.
    pub(super) place: &'a str,
    /// Name of the file.
    pub(super) file: &'a str,
    /// The program with its version, as `podman 5.4`.
    pub(super) reader: &'a str,
}

/// A fault for each key of a file that `first` does not know, or only of a version above `version`.
pub(super) fn key_faults<V: PartialOrd + std::fmt::Display>(
    text: &str,
    read: Read<'_>,
    version: &V,
    first: impl Fn(&Entry<'_>) -> Option<V>,
) -> Vec<Fault> {
    let fault = |entry: &Entry<'_>| {
        let Read { place, file, reader } = read;
        let Entry { line, section, key } = entry;
        let since = match first(entry) {
            Some(known) if known <= *version => return None,
            Some(known) => format!("; {known} is the first that does"),
            None => String::new(),
        };
        let message = format!(
            "line {line} of {file}: {reader} does not know the key {key} in [{section}]{since}"
        );
        Some(Fault::error("unknown_key", place, message))
    };
    entries(text).iter().filter_map(fault).collect()
}
