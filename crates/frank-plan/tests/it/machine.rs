//! Machines written down in TOML: what is read, what is refused and how it is named.

use frank_plan::{Device, Drive, Host, Machine};

use crate::made_up::GIB;

const DESKTOP: &str = r#"
[host]
ram = "64GiB"
cores = 16

[[device]]
id = "cpu:0"
kind = "cpu"
total = "64GiB"
free = 60000000000
headroom = "2GiB"
bandwidth = "51.2GB"
arithmetic = 140000000000

[[device]]
id = "cuda:0"
kind = "cuda"
total = "24 GiB"
free = "23GiB"

[[drive]]
path = "/"
bandwidth = "7GB"

[[drive]]
path = "/mnt/models"
"#;

#[test]
fn a_machine_is_read_with_sizes_of_both_forms() {
    let machine = Machine::from_toml(DESKTOP).unwrap();
    assert_eq!(machine.host, Host { ram: 64 * GIB, cores: 16 });
    let cpu = Device {
        id: "cpu:0".to_owned(),
        kind: "cpu".to_owned(),
        total: 64 * GIB,
        free: 60_000_000_000,
        headroom: Some(2 * GIB),
        bandwidth: Some(51_200_000_000),
        arithmetic: Some(140_000_000_000),
        part_of: None,
        is_declared: false,
    };
    assert_eq!(machine.devices[0], cpu);
    assert_eq!((machine.devices[1].headroom, machine.devices[1].bandwidth), (None, None));
    let drive = |path: &str, bandwidth| Drive { path: path.to_owned(), bandwidth };
    assert_eq!(machine.drives, [drive("/", Some(7_000_000_000)), drive("/mnt/models", None)]);
    assert_eq!(machine.primary().map(|device| device.id.as_str()), Some("cpu:0"));
}

#[test]
fn a_machine_that_is_written_is_read_back() {
    let machine = Machine::from_toml(DESKTOP).unwrap();
    let text = toml::to_string(&machine).unwrap();
    assert_eq!(Machine::from_toml(&text), Ok(machine));
}

#[test]
fn the_first_cpu_device_is_the_primary_one_wherever_it_stands() {
    let with_cpu_last = DESKTOP.replace("cpu", "npu").replace("cuda", "cpu");
    assert_eq!(Machine::from_toml(&with_cpu_last).unwrap().primary().unwrap().id, "cpu:0");
}

/// `DESKTOP` with `from` replaced by `to` is refused with `expected`.
fn check(from: &str, to: &str, expected: &str) {
    assert!(DESKTOP.contains(from), "{from}");
    let text = DESKTOP.replacen(from, to, 1);
    let message = Machine::from_toml(&text).expect_err(to).to_string();
    assert_eq!(message, expected, "{to}");
}

#[test]
fn unknown_keys_are_named() {
    check(
        "cores = 16",
        "cores = 16\ncolour = 1",
        "line 5: unknown field `colour`, expected `ram` or `cores`",
    );
    check(
        "[[drive]]",
        "[[gpu]]",
        "line 21: unknown field `gpu`, expected one of `host`, `device`, `drive`",
    );
    check(
        "bandwidth = \"51.2GB\"",
        "bandwith = \"51.2GB\"",
        "line 12: unknown field `bandwith`, expected one of `id`, `kind`, `total`, `free`, `headroom`, `bandwidth`, `arithmetic`, `part_of`",
    );
}

#[test]
fn missing_keys_are_named() {
    check("cores = 16", "", "line 2: missing field `cores`");
    check("free = 60000000000", "", "line 6: missing field `free`");
    check("kind = \"cpu\"", "", "line 6: missing field `kind`");
    assert_eq!(Machine::from_toml("").unwrap_err().to_string(), "line 1: missing field `host`");
    let no_device = "[host]\nram = 1\ncores = 1\n";
    assert_eq!(
        Machine::from_toml(no_device).unwrap_err().to_string(),
        "line 1: missing field `device`"
    );
}

#[test]
fn values_that_cannot_be_are_named() {
    check(
        "ram = \"64GiB\"",
        "ram = \"64 gigs\"",
        "line 3: `64 gigs` is not a size: a number with one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, or plain bytes",
    );
    check(
        "ram = \"64GiB\"",
        "ram = -1",
        "line 3: invalid value: integer `-1`, expected a size: bytes as an integer that is not negative, or a text like \"64GiB\"",
    );
    check(
        "ram = \"64GiB\"",
        "ram = nan",
        "line 3: invalid type: floating point `NaN`, expected a size: bytes as an integer that is not negative, or a text like \"64GiB\"",
    );
    check("id = \"cuda:0\"", "id = \"cpu:0\"", "two devices are called `cpu:0`");
    check(
        "free = \"23GiB\"",
        "free = \"25GiB\"",
        "device `cuda:0` has 25.00 GiB free of 24.00 GiB",
    );
    check("kind = \"cpu\"", "kind = \"npu\"", "no device is of kind `cpu`");
    check(
        "ram = \"64GiB\"",
        "ram = ",
        "line 3: string values must be quoted, expected literal string",
    );
}
