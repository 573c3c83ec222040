//! The name of this machine. Never asks a name server.

/// The host name as the kernel has it; `None` where `/proc` does not say, or it is empty.
pub fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_name_of_one_word() {
        let name = host_name().expect("Linux names every machine");
        assert!(!name.contains(char::is_whitespace), "{name:?}");
    }
}
