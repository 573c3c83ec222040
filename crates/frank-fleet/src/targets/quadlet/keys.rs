//! Versions of podman, and the keys of a quadlet's `[Container]` by the version that first knew them.

use std::fmt;

use super::super::unit_keys::Keys;

/// A version of podman; patches add no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodmanVersion(u32, u32);

impl PodmanVersion {
    pub(super) const FIRST_WITH_QUADLETS: Self = Self(4, 4);
    pub(super) const FIRST_THAT_WAITS_FOR_HEALTH: Self = Self(5, 0);

    /// The version in a text as `5.4.2` or `4.9.4-rhel`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (major, rest) = text.trim().split_once('.')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
        Some(Self(major.parse().ok()?, digits.parse().ok()?))
    }

    /// Whether it knows a key of `[Container]`.
    pub(super) fn knows(self, key: &str) -> bool {
        CONTAINER_KEYS.iter().any(|(first, section, keys)| {
            *section == "Container" && *first <= self && keys.contains(&key)
        })
    }
}

impl fmt::Display for PodmanVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Every key of `[Container]` and `[Quadlet]`. No version has taken one away.
///
/// Source: the lists of supported keys in podman's generator at each release from 4.4.0 to 5.8.2.
pub(super) const CONTAINER_KEYS: Keys<PodmanVersion> = &[
    (
        PodmanVersion(4, 4),
        "Container",
        &[
            "AddCapability",
            "AddDevice",
            "Annotation",
            "ContainerName",
            "DropCapability",
            "Environment",
            "EnvironmentFile",
            "EnvironmentHost",
            "Exec",
            "ExposeHostPort",
            "Group",
            "Image",
            "Label",
            "Network",
            "NoNewPrivileges",
            "Notify",
            "PodmanArgs",
            "PublishPort",
            "ReadOnly",
            "RemapGid",
            "RemapUid",
            "RemapUidSize",
            "RemapUsers",
            "RunInit",
            "SeccompProfile",
            "Timezone",
            "User",
            "VolatileTmp",
            "Volume",
        ],
    ),
    (
        PodmanVersion(4, 5),
        "Container",
        &[
            "HealthCmd",
            "HealthInterval",
            "HealthOnFailure",
            "HealthRetries",
            "HealthStartPeriod",
            "HealthStartupCmd",
            "HealthStartupInterval",
            "HealthStartupRetries",
            "HealthStartupSuccess",
            "HealthStartupTimeout",
            "HealthTimeout",
            "IP",
            "IP6",
            "LogDriver",
            "Mount",
            "Rootfs",
            "Secret",
            "SecurityLabelDisable",
            "SecurityLabelFileType",
            "SecurityLabelLevel",
            "SecurityLabelType",
            "Tmpfs",
            "UserNS",
        ],
    ),
    (
        PodmanVersion(4, 6),
        "Container",
        &[
            "AutoUpdate",
            "HostName",
            "Mask",
            "Pull",
            "SecurityLabelNested",
            "Sysctl",
            "Unmask",
            "WorkingDir",
        ],
    ),
    (
        PodmanVersion(4, 7),
        "Container",
        &["DNS", "DNSOption", "DNSSearch", "PidsLimit", "ShmSize", "Ulimit"],
    ),
    (
        PodmanVersion(4, 8),
        "Container",
        &[
            "ContainersConfModule",
            "GIDMap",
            "GlobalArgs",
            "ReadOnlyTmpfs",
            "SubGIDMap",
            "SubUIDMap",
            "UIDMap",
        ],
    ),
    (PodmanVersion(5, 0), "Container", &["Entrypoint", "Pod", "StopTimeout"]),
    (PodmanVersion(5, 1), "Container", &["GroupAdd"]),
    (PodmanVersion(5, 2), "Container", &["LogOpt", "NetworkAlias", "StopSignal"]),
    (
        PodmanVersion(5, 3),
        "Container",
        &[
            "AddHost",
            "CgroupsMode",
            "HealthLogDestination",
            "HealthMaxLogCount",
            "HealthMaxLogSize",
            "ServiceName",
            "StartWithPod",
        ],
    ),
    (PodmanVersion(5, 3), "Quadlet", &["DefaultDependencies"]),
    (
        PodmanVersion(5, 5),
        "Container",
        &["Memory", "ReloadCmd", "ReloadSignal", "Retry", "RetryDelay"],
    ),
    (PodmanVersion(5, 7), "Container", &["HttpProxy"]),
    (PodmanVersion(5, 8), "Container", &["AppArmor"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_podman_says_them() {
        assert_eq!(PodmanVersion::read("5.4.2"), Some(PodmanVersion(5, 4)));
        assert_eq!(PodmanVersion::read("4.9.4-rhel"), Some(PodmanVersion(4, 9)));
        assert_eq!(PodmanVersion::read("5.10.0-dev"), Some(PodmanVersion(5, 10)));
        assert!(PodmanVersion(5, 10) > PodmanVersion(5, 9));
        for wrong in ["", "five", "5", "5.x"] {
            assert_eq!(PodmanVersion::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_key_is_known_from_its_first_version_on() {
        for (key, before, from) in [
            ("Secret", PodmanVersion(4, 4), PodmanVersion(4, 5)),
            ("Entrypoint", PodmanVersion(4, 9), PodmanVersion(5, 0)),
            ("GroupAdd", PodmanVersion(5, 0), PodmanVersion(5, 1)),
            ("Memory", PodmanVersion(5, 4), PodmanVersion(5, 5)),
        ] {
            assert!(!before.knows(key) && from.knows(key), "{key}");
        }
        assert!(!PodmanVersion(99, 0).knows("EntryPoint"), "a name that never was a key");
    }
}
