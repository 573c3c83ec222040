//! A build of a runtime against the model and the devices that it meets.

use frank_fleet::{BuildFacts, learn};

use super::{IMAGE, NAMES, case};

#[test]
fn an_architecture_that_the_build_does_not_know_is_refused() {
    for name in NAMES {
        let mut case = case(name);
        case.architecture = Some("qwen99".to_owned());
        case.build = Some(BuildFacts {
            architectures: vec!["llama".to_owned(), "qwen35".to_owned()],
            ..BuildFacts::default()
        });
        assert_eq!(case.errors(), ["unknown_architecture"], "{name}");
        case.build.as_mut().unwrap().architectures.push("qwen99".to_owned());
        assert_eq!(case.errors(), Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn a_build_for_another_device_is_refused() {
    for (built, device, is_refused) in [
        (&["gfx1151"][..], ("rocm:0", "gfx1201"), true),
        (&["gfx1151", "gfx1201"], ("rocm:0", "gfx1201"), false),
        (&["sm_80", "sm_86"], ("cuda:0", "sm_86"), false),
        (&["sm_80"], ("cuda:0", "sm_86"), true),
        (&["gfx1151"], ("cuda:0", "sm_86"), true),
        (&[], ("cuda:0", "sm_86"), false),
    ] {
        let mut case = case("llama.cpp").on(&[device]).in_image();
        let device_archs = built.iter().map(|arch| (*arch).to_owned()).collect();
        case.build = Some(BuildFacts { device_archs, ..BuildFacts::default() });
        let expected: &[&str] = if is_refused { &["device_arch"] } else { &[] };
        assert_eq!(case.errors(), expected, "{built:?} {device:?}");
    }
}

#[test]
fn only_devices_that_the_endpoint_uses_count() {
    let mut case = case("llama.cpp").on(&[("rocm:0", "gfx1201"), ("rocm:1", "gfx1151")]);
    case.build =
        Some(BuildFacts { device_archs: vec!["gfx1201".to_owned()], ..BuildFacts::default() });
    assert_eq!(case.errors(), ["device_arch"]);
    assert_eq!(case.with("devices", serde_json::json!(["rocm:0"])).errors(), Vec::<&str>::new());
}

#[test]
fn a_user_space_of_another_line_than_the_driver_is_refused() {
    let mut case = case("llama.cpp").on(&[("rocm:0", "gfx1151")]).in_image();
    case.build = Some(BuildFacts { rocm_major: Some(6), ..BuildFacts::default() });
    assert_eq!(case.errors(), Vec::<&str>::new(), "nobody knows the driver");
    case.facts.devices[0].driver = Some("7.2.2".to_owned());
    assert_eq!(case.errors(), ["driver_line"]);
    case.build.as_mut().unwrap().rocm_major = Some(7);
    assert_eq!(case.errors(), Vec::<&str>::new());
}

#[test]
fn an_image_is_pinned_by_its_digest_and_may_keep_its_tag() {
    for name in NAMES {
        assert_eq!(case(name).in_image().errors(), Vec::<&str>::new());
        for image in ["registry.example/llm:latest", "llm@sha256:12", "llm@sha512:0"] {
            assert_eq!(case(name).with("image", image).errors(), ["image_not_pinned"], "{image}");
        }
    }
    let workload = case("vllm").in_image().workload();
    let frank_fleet::Program::Container { image, .. } = workload.program else {
        panic!("a container")
    };
    assert_eq!(image.reference, IMAGE, "tag and digest");
}

#[test]
fn an_option_that_this_build_lacks_is_refused_and_one_that_it_has_is_taken() {
    let help = "--port PORT            port to listen (default: 8080)\n--brand-new N          number (default: 7)\n";
    let with = |name: &str, value: serde_json::Value| {
        let mut case = case("llama.cpp").option(name, value);
        case.build = Some(BuildFacts {
            learned: Some(learn(help, "version: 0.9 (build 1)")),
            ..BuildFacts::default()
        });
        case
    };
    assert_eq!(with("brand-new", 8.into()).value("--brand-new").as_deref(), Some("8"));
    assert_eq!(with("brand-new", 7.into()).value("--brand-new"), None, "its own default");
    let lacking = with("cache-ram", 100.into());
    assert_eq!(lacking.errors(), ["unknown_option"]);
    assert!(
        lacking.said()[0].contains("this build of llama.cpp (0.9 (build 1))"),
        "{:?}",
        lacking.said()
    );
    let near = with("brand-knew", 8.into());
    assert!(near.said()[0].ends_with("(did you mean `brand-new`?)"), "{:?}", near.said());
}

#[test]
fn versions_live_side_by_side_and_switching_changes_the_program_alone() {
    let old = case("llama.cpp").with("program", "/opt/llama/b10605/llama-server").workload();
    let new = case("llama.cpp").with("program", "/opt/llama/b11434/llama-server").workload();
    assert_eq!(old.program.args(), new.program.args());
    assert_ne!(old.program, new.program);
    assert_ne!(old.gates, new.gates, "the gate runs the new program");
    assert_eq!((&old.name, &old.readiness, &old.labels), (&new.name, &new.readiness, &new.labels));
}
