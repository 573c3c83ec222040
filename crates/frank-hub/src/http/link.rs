//! How much the network links of this machine can bring. Never opens a connection.

use std::fs;
use std::path::Path;

/// Bytes a second of a megabit a second.
const MEGABIT: u64 = 125_000;

/// Bytes a second that all links together bring at most, as the kernel says it in `interfaces` (`/sys/class/net`). `None`
/// where it does not say it of one that is up, as of wireless and of most virtual ones.
pub(super) fn bytes_max(interfaces: &Path) -> Option<u64> {
    let mut sum = 0_u64;
    for entry in fs::read_dir(interfaces).ok()? {
        let link = entry.ok()?.path();
        // What goes through a bridge, a tunnel or a bond goes through a link with a device too.
        if link.join("device").exists() && read(&link, "operstate")? != "down" {
            let megabits: u64 = read(&link, "speed")?.parse().ok()?;
            sum = sum.checked_add(megabits.checked_mul(MEGABIT)?)?;
        }
    }
    (sum > 0).then_some(sum)
}

fn read(link: &Path, name: &str) -> Option<String> {
    Some(fs::read_to_string(link.join(name)).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of some links: name, state, speed, and whether there is a device.
    fn said(links: &[(&str, &str, &str, bool)]) -> Option<u64> {
        let dir = tempfile::tempdir().unwrap();
        for (name, state, speed, has_device) in links {
            let link = dir.path().join(name);
            fs::create_dir_all(if *has_device { link.join("device") } else { link.clone() })
                .unwrap();
            fs::write(link.join("operstate"), format!("{state}\n")).unwrap();
            fs::write(link.join("speed"), format!("{speed}\n")).unwrap();
        }
        bytes_max(dir.path())
    }

    #[test]
    fn links_that_are_up_count_together_and_one_that_is_not_known_makes_all_unknown() {
        let (lo, one, ten) = (
            ("lo", "unknown", "", false),
            ("eth0", "up", "1000", true),
            ("eth1", "up", "10000", true),
        );
        assert_eq!(said(&[lo, one]), Some(125_000_000));
        assert_eq!(said(&[lo, one, ten]), Some(1_375_000_000));
        assert_eq!(said(&[one, ("wlan0", "down", "", true)]), Some(125_000_000));
        assert_eq!(said(&[one, ("wlan0", "up", "", true)]), None);
        assert_eq!(said(&[one, ("tun0", "unknown", "10", false)]), Some(125_000_000));
        assert_eq!(said(&[lo, ("eth0", "up", "-1", true)]), None);
        assert_eq!(said(&[lo]), None);
        assert_eq!(bytes_max(Path::new("/nonexistent")), None);
    }
}
