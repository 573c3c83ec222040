//! What each target writes: golden files of every program by every target, and what the readers of these files say of them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use frank_fleet::{
    Fault, HostFacts, NeededSecret, RUNTIMES, RenderedFile, SecretStore, TARGETS, TargetInput,
    Workload, quadlet_key_faults, unit_key_faults,
};
use frank_testkit::assets;
use serde_json::{Value, json};

use crate::runtimes::goldens::full;
use crate::target_workloads::{
    called_workers, facts, file, host_program, hostile_container, joined_workers, manual_gpu,
    named, put, vision_container, workloads,
};

#[test]
fn every_program_by_every_target_is_as_it_was() {
    for (name, workload) in workloads() {
        for target in TARGETS {
            let (faults, files) = put(target, &workload, &facts());
            insta::assert_snapshot!(format!("{name}@{}", target.name), shown(&faults, &files));
        }
    }
}

#[test]
fn every_runtime_by_every_target_is_as_it_was() {
    for runtime in RUNTIMES {
        for target in TARGETS {
            let workload = endpoint(runtime.name, takes_images(target.name));
            let (faults, files) = put(target, &workload, &facts());
            assert!(!files.is_empty(), "{} {}: {faults:?}", runtime.name, target.name);
            insta::assert_snapshot!(
                format!("{}@{}", runtime.name, target.name),
                shown(&faults, &files)
            );
        }
    }
}

/// The program of an endpoint that uses much of what its runtime has.
fn endpoint(runtime: &str, in_image: bool) -> Workload {
    let case = full(runtime);
    // systemd refuses a program that is not there.
    let case = if in_image { case.in_image() } else { case.with("program", "/usr/bin/env") };
    case.workload()
}

fn takes_images(target: &str) -> bool {
    ["quadlet", "kubernetes"].contains(&target)
}

/// Every program of these tests: those made by hand, and one of each runtime for this target.
fn programs(target: &str) -> Vec<(&'static str, Workload)> {
    let of_runtimes =
        RUNTIMES.iter().map(|runtime| (runtime.name, endpoint(runtime.name, takes_images(target))));
    workloads().into_iter().chain(of_runtimes).collect()
}

fn shown(faults: &[Fault], files: &[RenderedFile]) -> String {
    let mut text = String::new();
    for fault in faults {
        writeln!(text, "{:?} {fault}", fault.severity).unwrap();
    }
    for file in files {
        writeln!(text, "=== {} {:o}\n{}", file.path, file.mode, file.content).unwrap();
    }
    text
}

#[test]
fn a_secret_is_named_where_it_is_and_never_in_a_file() {
    let mut program = host_program();
    program.env = vision_container().env;
    for target in TARGETS {
        let workload =
            if target.name.starts_with(['q', 'k']) { vision_container() } else { program.clone() };
        let facts = facts();
        let (_, files) = put(target, &workload, &facts);
        assert!(!files.is_empty(), "{}", target.name);
        let input = TargetInput { workload: &workload, facts: &facts, place: "endpoints.chat" };
        let secrets = (target.secrets)(&input);
        let sources: Vec<&str> = secrets.iter().map(|secret| secret.source.as_str()).collect();
        assert_eq!(sources, ["env:CHAT_KEY", "file:/k"], "{}", target.name);
        for file in &files {
            assert!(!file.content.contains("CHAT_KEY"), "{}", file.content);
        }
        let all: String = files.iter().map(|file| file.content.as_str()).collect();
        secrets
            .iter()
            .for_each(|secret| assert!(all.contains(&told(secret)), "{secret:?} in {all}"));
    }
}

/// What a file holds where the program shall get the secret.
fn told(secret: &NeededSecret) -> String {
    let variable = &secret.variable;
    match &secret.store {
        SecretStore::EnvFile(path) => format!("EnvironmentFile={}", path.replacen('~', "%h", 1)),
        SecretStore::File(path) => {
            format!("{variable}=$(cat \"{}\")", path.replacen('~', "$HOME", 1))
        }
        SecretStore::Podman(name) => format!("Secret={name},type=env,target={variable}\n"),
        SecretStore::Kubernetes { key, .. } => format!("\"key\": \"{key}\""),
    }
}

#[test]
fn a_quadlet_boots_by_its_install_section_and_waits_longer_than_its_health() {
    let text = file("quadlet", &vision_container(), &facts()).content;
    for line in [
        "WantedBy=default.target",
        "LimitMEMLOCK=infinity",
        "HealthStartPeriod=2400s",
        "Notify=healthy",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    let timeout = text.lines().find_map(|line| line.strip_prefix("TimeoutStartSec=")).unwrap();
    assert!(timeout.parse::<u64>().unwrap() > 2400, "{timeout}");
    let root = HostFacts { user_id: Some(0), linger: None, ..facts() };
    let unit = file("quadlet", &vision_container(), &root);
    assert_eq!(unit.path, "/etc/containers/systemd/frank-vision.container");
    assert!(unit.content.contains("\nWantedBy=multi-user.target\n"), "{}", unit.content);
}

#[test]
fn only_what_is_published_is_published_and_what_is_mounted_read_only_stays_so() {
    let text = file("quadlet", &vision_container(), &facts()).content;
    let values = |key: &str| -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix(key)).collect()
    };
    assert_eq!(values("PublishPort="), ["192.168.1.10:7771:8000"]);
    assert_eq!(values("Network="), [""; 0]);
    let template = "/srv/templates/chat.jinja:/templates/chat.jinja:ro";
    let projector = "/srv/models/mmproj.gguf:/models/mmproj.gguf:ro";
    assert_eq!(values("Volume="), ["/srv/models/v.gguf:/models/v.gguf:ro", projector, template]);
}

#[test]
fn a_vision_endpoint_mounts_model_and_projector_each_by_a_line_that_the_real_generator_takes() {
    let text = file("quadlet", &endpoint("llama.cpp", true), &facts()).content;
    let model = "Volume=/srv/models/m:/srv/models/m:ro";
    let projector = "Volume=/srv/models/p/mmproj.gguf:/srv/models/p/mmproj.gguf:ro";
    for line in [model, projector] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    let output = generate("x.container", &text);
    let service = String::from_utf8(output.stdout).unwrap();
    for volume in [model, projector].map(|line| line.replace("Volume=", "-v ")) {
        assert!(service.contains(&volume), "{volume} in {service}");
    }
}

#[test]
fn every_unit_lifts_the_limit_on_locked_memory() {
    for target in ["systemd", "systemd-user", "quadlet"] {
        for (name, workload) in programs(target) {
            for file in put(named(target), &workload, &facts()).1 {
                let lines = file.content.lines();
                assert_eq!(
                    lines.filter(|line| *line == "LimitMEMLOCK=infinity").count(),
                    1,
                    "{name} {target}"
                );
            }
        }
    }
}

#[test]
fn an_old_podman_gets_the_same_container_by_keys_that_it_knows() {
    let old = HostFacts { podman: Some("4.9.4-rhel".to_owned()), ..facts() };
    let text = file("quadlet", &vision_container(), &old).content;
    assert!(text.contains("\nPodmanArgs=\"--entrypoint=/usr/bin/serve\"\n"), "{text}");
    assert!(!text.contains("\nEntrypoint=") && !text.contains("\nNotify="), "{text}");
    let text = file("quadlet", &manual_gpu(), &old).content;
    assert!(text.contains("\nPodmanArgs=\"--group-add=keep-groups\"\n"), "{text}");
}

#[test]
fn a_key_that_the_hosts_podman_does_not_know_is_an_error_with_key_line_and_version() {
    let older = HostFacts { podman: Some("4.4.1".to_owned()), ..facts() };
    let (faults, files) = put(named("quadlet"), &vision_container(), &older);
    assert_eq!(files, []);
    let messages: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    let expected = "line 15 of frank-vision.container: podman 4.4.1 does not know the key Secret in [Container]; 4.5 is the first \
                    that does";
    assert_eq!(messages[0], expected);
    for (podman, says) in [
        (None, "no podman is known"),
        (Some("4.3.1"), "has no quadlets"),
        (Some("new"), "no version"),
    ] {
        let facts = HostFacts { podman: podman.map(str::to_owned), ..facts() };
        let (faults, _) = put(named("quadlet"), &vision_container(), &facts);
        assert!(faults.iter().any(|fault| fault.message.contains(says)), "{faults:?}");
    }
}

#[test]
fn the_real_generator_takes_every_quadlet() {
    for (name, workload) in programs("quadlet") {
        let (_, files) = put(named("quadlet"), &workload, &facts());
        for file in &files {
            let output = generate("frank-test.container", &file.content);
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            let service = String::from_utf8(output.stdout).unwrap();
            assert!(service.contains("\nExecStart=/usr/bin/podman run "), "{name}: {service}");
        }
    }
    for port in ["192.168.1.10:7771:8000", "[::1]:7772:8080"] {
        let found = |(_, workload)| put(named("quadlet"), &workload, &facts()).1;
        let mut files = workloads().into_iter().flat_map(found);
        assert!(files.any(|file| file.content.contains(port)), "no quadlet publishes {port}");
    }
}

#[test]
fn the_real_generator_and_frank_refuse_the_same_keys() {
    let good = file("quadlet", &vision_container(), &facts()).content;
    for (right, wrong) in
        [("Image=", "Imag="), ("Entrypoint=", "EntryPoint="), ("HealthCmd=", "HealthCommand=")]
    {
        let text = good.replacen(right, wrong, 1);
        let faults = quadlet_key_faults("endpoints.chat", "x.container", &text, "5.4.2");
        let output = generate("x.container", &text);
        assert!(!output.status.success(), "{wrong}");
        let line = text.lines().position(|line| line.starts_with(wrong)).unwrap() + 1;
        let key = wrong.trim_end_matches('=');
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].message.contains(&format!(
            "line {line} of x.container: podman 5.4.2 does not know the key {key} "
        )));
        let says = String::from_utf8(output.stderr).unwrap();
        assert!(says.contains(&format!("unsupported key '{key}' in group 'Container'")), "{says}");
    }
}

/// Every name that a release of podman up to 5.8 knows in a `[Container]`, and some that none does.
const NAMES: &str = "AddCapability AddDevice AddHost Annotation AppArmor AutoUpdate CgroupsMode ContainerName \
    ContainersConfModule DNS DNSOption DNSSearch DropCapability Entrypoint Environment EnvironmentFile EnvironmentHost \
    Exec ExposeHostPort GIDMap GlobalArgs Group GroupAdd HealthCmd HealthInterval HealthLogDestination \
    HealthMaxLogCount HealthMaxLogSize HealthOnFailure HealthRetries HealthStartPeriod HealthStartupCmd \
    HealthStartupInterval HealthStartupRetries HealthStartupSuccess HealthStartupTimeout HealthTimeout HostName \
    HttpProxy IP IP6 Image Label LogDriver LogOpt Mask Memory Mount Network NetworkAlias NoNewPrivileges Notify \
    PidsLimit Pod PodmanArgs PublishPort Pull ReadOnly ReadOnlyTmpfs ReloadCmd ReloadSignal RemapGid RemapUid \
    RemapUidSize RemapUsers Retry RetryDelay Rootfs RunInit SeccompProfile Secret SecurityLabelDisable \
    SecurityLabelFileType SecurityLabelLevel SecurityLabelNested SecurityLabelType ServiceName ShmSize StartWithPod \
    StopSignal StopTimeout SubGIDMap SubUIDMap Sysctl Timezone Tmpfs UIDMap Ulimit Unmask User UserNS VolatileTmp \
    Volume WorkingDir EntryPoint Command Cmd Ports Env image Devices Restart";

#[test]
fn the_table_of_keys_is_that_of_the_real_generator() {
    let mut unknown = Vec::new();
    for name in NAMES.split_whitespace() {
        let text = format!("[Container]\n{name}=a\n");
        let says = String::from_utf8(generate("x.container", &text).stderr).unwrap();
        let is_refused = says.contains(&format!("unsupported key '{name}'"));
        let faults = quadlet_key_faults("p", "x.container", &text, "5.4.2");
        assert_eq!(faults.len(), usize::from(is_refused), "{name}: {says}");
        unknown.extend(is_refused.then_some(name));
    }
    let newer =
        ["AppArmor", "HttpProxy", "Memory", "ReloadCmd", "ReloadSignal", "Retry", "RetryDelay"];
    assert_eq!(unknown[..newer.len()], newer);
    assert_eq!(unknown.len(), newer.len() + 8, "{unknown:?}");
}

/// The real generator on one file.
pub(crate) fn generate(name: &str, text: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), text).unwrap();
    let mut command = Command::new(assets::quadlet_generator());
    command.args(["--user", "--dryrun"]).env_clear().env("QUADLET_UNIT_DIRS", folder.path());
    command.output().unwrap()
}

#[test]
fn systemd_takes_every_unit() {
    for target in ["systemd", "systemd-user"] {
        for (name, workload) in programs(target) {
            let (_, files) = put(named(target), &workload, &facts());
            for file in &files {
                let output = verify(target, &file.content);
                assert!(
                    output.status.success(),
                    "{name} {target}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name} {target}");
            }
        }
    }
}

#[test]
fn a_misspelt_key_of_a_unit_is_refused_by_systemd_and_by_frank() {
    let good = file("systemd", &host_program(), &facts()).content;
    assert_eq!(unit_key_faults("p", "x.service", &good, 257), []);
    for (right, wrong) in [
        ("RestartSec=", "RestartSek="),
        ("LimitMEMLOCK=", "LimitMemlock="),
        ("WantedBy=", "WantedBye="),
    ] {
        let text = good.replacen(right, wrong, 1);
        assert!(!verify("systemd", &text).status.success(), "{wrong}");
        let line = text.lines().position(|line| line.starts_with(wrong)).unwrap() + 1;
        let key = wrong.trim_end_matches('=');
        let faults = unit_key_faults("endpoints.chat", "x.service", &text, 257);
        assert_eq!(faults.len(), 1, "{faults:?}");
        let says =
            format!("line {line} of x.service: systemd 257 does not know the key {key} in [");
        assert!(faults[0].message.starts_with(&says), "{faults:?}");
    }
    let old = unit_key_faults("p", "x.service", "[Service]\nMemoryMax=1\n", 219);
    assert!(old[0].message.ends_with("; 231 is the first that does"), "{old:?}");
}

#[test]
fn a_host_that_cannot_keep_a_program_running_is_refused_with_the_way_out() {
    let check = |target: &str, facts: HostFacts, code: &str, hint: &str| {
        let workload = if target == "quadlet" { vision_container() } else { host_program() };
        let (faults, files) = put(named(target), &workload, &facts);
        assert_eq!((files.len(), faults.len()), (0, 1), "{faults:?}");
        assert_eq!(faults[0].code, code);
        assert!(faults[0].hint.as_ref().unwrap().contains(hint), "{faults:?}");
    };
    check("systemd", HostFacts { systemd: None, ..facts() }, "no_systemd", "process");
    check(
        "systemd-user",
        HostFacts { linger: Some(false), ..facts() },
        "no_linger",
        "enable-linger",
    );
    check("quadlet", HostFacts { linger: Some(false), ..facts() }, "no_linger", "enable-linger");
}

/// systemd's verdict on a unit.
fn verify(target: &str, text: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frank-test.service");
    fs::write(&path, text).unwrap();
    let mut command = Command::new(assets::systemd_analyze());
    command.args(["verify", "--recursive-errors=yes", "--man=no"]);
    if target == "systemd-user" {
        command.arg("--user").env("XDG_RUNTIME_DIR", folder.path());
    }
    command.arg(path).output().unwrap()
}

#[test]
fn every_object_follows_the_schemas_of_kubernetes() {
    let mut objects = Vec::new();
    for (name, workload) in programs("kubernetes") {
        let (_, files) = put(named("kubernetes"), &workload, &facts());
        for file in &files {
            let object: Value = serde_json::from_str(&file.content).unwrap();
            objects.extend(
                known_objects(object).map(|object| (format!("{name} {}", file.path), object)),
            );
        }
    }
    assert!(objects.len() > 12, "{}", objects.len());
    for version in ["1.25", "1.37"] {
        assert_eq!(kubernetes_faults(version, &objects), "", "{version}");
    }
    let mut misspelt = objects.swap_remove(0);
    misspelt.1["spec"]["replica"] = json!(1);
    assert!(kubernetes_faults("1.37", &[misspelt]).contains("'replica' was unexpected"));
}

/// An object; of a `LeaderWorkerSet`, whose schema is none of Kubernetes' own, the two templates.
fn known_objects(object: Value) -> impl Iterator<Item = Value> {
    let is_known = object["kind"] != "LeaderWorkerSet";
    let template = |name: &str| {
        let template = &object["spec"]["leaderWorkerTemplate"][name];
        json!({ "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "t" }, "template": template })
    };
    let templates = if is_known {
        Vec::new()
    } else {
        vec![template("leaderTemplate"), template("workerTemplate")]
    };
    is_known.then_some(object).into_iter().chain(templates)
}

/// What is wrong with objects, a line each.
fn kubernetes_faults(version: &str, objects: &[(String, Value)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.json");
    fs::write(&path, json!(objects).to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/kubernetes.py");
    let mut command = Command::new(assets::kubernetes_python());
    let output = command.arg(script).arg(version).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn workers_of_a_model_get_their_places_from_the_cluster() {
    let (_, files) = put(named("kubernetes"), &joined_workers(), &facts());
    let set: Value = serde_json::from_str(&files[0].content).unwrap();
    let group = &set["spec"]["leaderWorkerTemplate"];
    assert_eq!(group["size"], 4);
    let args = |template: &str| group[template]["spec"]["containers"][0]["args"].clone();
    let places =
        ["--nnodes", "$(LWS_GROUP_SIZE)", "--node-rank", "$(LWS_WORKER_INDEX)", "--master-addr"];
    let worker = json!(
        ["serve", "/models/v", "--headless"]
            .iter()
            .chain(&places)
            .chain(&["$(LWS_LEADER_ADDRESS)"])
            .collect::<Vec<_>>()
    );
    assert_eq!(args("workerTemplate"), worker);
    assert_eq!(
        args("leaderTemplate").as_array().unwrap()[4..9],
        json!(places).as_array().unwrap()[..]
    );
    let (_, files) = put(named("kubernetes"), &called_workers(), &facts());
    let program: Value = serde_json::from_str(&files[0].content).unwrap();
    let args = program["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    assert_eq!(
        args.last().unwrap(),
        "frank-rpc-rpc-0.frank-rpc-rpc:50052,frank-rpc-rpc-1.frank-rpc-rpc:50052"
    );
    for target in TARGETS.iter().filter(|target| target.name != "kubernetes") {
        let (faults, _) = put(target, &called_workers(), &facts());
        assert!(faults.iter().any(|fault| fault.code == "workers"), "{}: {faults:?}", target.name);
    }
}

#[test]
fn a_program_for_a_target_that_cannot_run_it_is_refused() {
    for target in TARGETS {
        let takes_images = takes_images(target.name);
        let wrong = if takes_images { host_program() } else { manual_gpu() };
        let (faults, files) = put(target, &wrong, &facts());
        assert_eq!(files, [], "{}", target.name);
        let code = if takes_images { "no_image" } else { "container" };
        assert!(
            faults.iter().any(|fault| fault.code == code && fault.hint.is_some()),
            "{}: {faults:?}",
            target.name
        );
    }
}

#[test]
fn names_and_paths_that_cannot_be_written_are_refused_by_name() {
    let refused = |target: &str, change: &dyn Fn(&mut Workload), code: &str| {
        let mut workload = if takes_images(target) { hostile_container() } else { host_program() };
        change(&mut workload);
        let (faults, files) = put(named(target), &workload, &facts());
        assert_eq!(files, [], "{target} {code}");
        assert!(faults.iter().any(|fault| fault.code == code), "{target} {code}: {faults:?}");
    };
    for target in TARGETS {
        for name in ["", "-x", "a/b", "a b", "a\n", "ü"] {
            refused(target.name, &|workload| workload.name = name.to_owned(), "name");
        }
        for name in ["", "1A", "A B", "A=", "A-B", "A\n"] {
            refused(target.name, &|workload| workload.env[0].name = name.to_owned(), "variable");
        }
        refused(
            target.name,
            &|workload| workload.env[0] = crate::target_workloads::plain("A", "a\0b"),
            "zero_byte",
        );
    }
    refused("quadlet", &|workload| workload.mounts[0].source = "/a:b".to_owned(), "mount");
    refused("quadlet", &|workload| workload.mounts[0].target = "/a\nb".to_owned(), "mount");
    refused("quadlet", &|workload| workload.mounts[0].source = "/a ".to_owned(), "mount");
    refused("quadlet", &|workload| workload.mounts[0].source = "models".to_owned(), "mount");
    refused(
        "quadlet",
        &|workload| workload.program = crate::target_workloads::container(None, &["a", ""]),
        "argument",
    );
    refused("kubernetes", &|workload| workload.mounts[0].source = "/a/../b".to_owned(), "mount");
    refused("kubernetes", &|workload| workload.name = "Frank".to_owned(), "name");
    refused(
        "process",
        &|workload| {
            workload.program = frank_fleet::Program::Host { argv: vec!["frank".to_owned()] }
        },
        "program_path",
    );
}

#[test]
fn names_of_targets_are_those_of_frank_toml() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, ["systemd", "systemd-user", "quadlet", "process", "kubernetes"]);
    let runtimes: Vec<&str> = RUNTIMES.iter().map(|runtime| runtime.name).collect();
    assert!(runtimes.iter().all(|name| !names.contains(name)), "{runtimes:?}");
}
