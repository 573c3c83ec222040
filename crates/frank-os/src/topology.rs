//! What the processors of this machine are: model, instruction sets, last cache, memory nodes. Never how fast.

use std::fs;
use std::path::Path;

const CPUINFO: &str = "/proc/cpuinfo";
const CPU0_CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";
const NODES: &str = "/sys/devices/system/node";

/// Model name of the first processor; `None` where Linux does not say.
pub fn cpu_model() -> Option<String> {
    let text = fs::read_to_string(CPUINFO).ok()?;
    cpuinfo_field(&text, "model name").filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Those of `names` that the first processor has among its flags, as `/proc/cpuinfo` spells them.
pub fn cpu_flags<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let text = fs::read_to_string(CPUINFO).unwrap_or_default();
    let flags = cpuinfo_field(&text, "flags").or_else(|| cpuinfo_field(&text, "Features"));
    let flags: Vec<&str> = flags.unwrap_or_default().split_whitespace().collect();
    names.iter().copied().filter(|name| flags.contains(name)).collect()
}

/// Bytes of the largest cache of the first processor, whoever shares it; `None` where Linux does not say. In a virtual
/// machine it is the host's.
pub fn last_cache_bytes() -> Option<u64> {
    let entries = fs::read_dir(CPU0_CACHES).ok()?.filter_map(Result::ok);
    entries
        .filter_map(|entry| cache_size(&fs::read_to_string(entry.path().join("size")).ok()?))
        .max()
}

/// Nodes of memory, each nearer to some of the processors; 1 where Linux does not say.
pub fn numa_node_count() -> usize {
    node_count_in(Path::new(NODES))
}

fn node_count_in(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_node =
        |name: &str| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count().max(1)
}

/// The value of the first line `name : value`.
fn cpuinfo_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// Reads `480K` or `36M`, as sysfs writes sizes of caches.
fn cache_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1 << 20),
            None => (text, 1),
        },
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_cpuinfo_are_found_by_their_whole_name() {
        let text =
            "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some CPU: fast\nflags\t\t: fpu avx2\n";
        assert_eq!(cpuinfo_field(text, "model name"), Some("Some CPU: fast"));
        assert_eq!(cpuinfo_field(text, "flags"), Some("fpu avx2"));
        assert_eq!(cpuinfo_field(text, "Features"), None);
    }

    #[test]
    fn sizes_of_caches_have_their_unit() {
        assert_eq!(cache_size("2048K\n"), Some(2 << 20));
        assert_eq!(cache_size("36M"), Some(36 << 20));
        assert_eq!(cache_size("512"), Some(512));
        assert_eq!(cache_size("lots"), None);
    }

    #[test]
    fn nodes_are_counted_and_there_is_always_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(node_count_in(folder.path()), 1);
        for name in ["node0", "node1", "node10", "nodes", "has_memory"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert_eq!(node_count_in(folder.path()), 3);
        assert_eq!(node_count_in(Path::new("/no/such/folder")), 1);
    }

    #[test]
    fn a_flag_that_no_processor_has_is_not_found() {
        assert_eq!(cpu_flags(&["no_such_flag"]), [""; 0]);
    }
}
