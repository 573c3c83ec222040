//! Programs made by hand for the tests of targets: plain ones, and ones that try to break out of what is written of them.

use std::collections::BTreeMap;

use frank_fleet::{
    Device, Env, EnvValue, Fault, HostFacts, Image, Mount, Program, Published, Readiness,
    RenderedFile, Severity, Target, TargetInput, WorkerArg, Workers, Workload,
};

/// Texts that mean something else to a shell, a unit file or a document than to the program that gets them.
pub(crate) const HOSTILE: &[&str] = &[
    "two words",
    " blanks around ",
    "it's \"quoted\" `here`",
    "$HOME ${HOME} $$ $(id) $",
    "%h %% %",
    "back\\slash\\",
    "line\nbreak\ttab",
    "-leading-dash",
    "@at :colon +plus !bang",
    "ünïcödé ✓ 日本",
    "; rm -rf / #",
    "a=b,c={d}[e]",
    "~/home *?",
    "no",
    "\u{1b}[0m",
];

/// A host that has all that targets want.
pub(crate) fn facts() -> HostFacts {
    HostFacts {
        systemd: Some(257),
        podman: Some("5.4.2".to_owned()),
        user_id: Some(1000),
        linger: Some(true),
        ..HostFacts::default()
    }
}

pub(crate) fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn plain(name: &str, value: &str) -> Env {
    Env { name: name.to_owned(), value: EnvValue::Plain(value.to_owned()) }
}

pub(crate) fn secret(name: &str, source: &str) -> Env {
    Env { name: name.to_owned(), value: EnvValue::Secret(source.to_owned()) }
}

fn mount(source: &str, target: &str, read_only: bool) -> Mount {
    Mount { source: source.to_owned(), target: target.to_owned(), read_only, is_folder: false }
}

fn labels(endpoint: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("endpoint".to_owned(), endpoint.to_owned()),
        ("alias".to_owned(), "chat".to_owned()),
    ])
}

pub(crate) fn container(entrypoint: Option<&str>, args: &[&str]) -> Program {
    let reference = format!("registry.example/serve@sha256:{}", "ab".repeat(32));
    Program::Container {
        image: Image { reference },
        entrypoint: entrypoint.map(str::to_owned),
        args: texts(args),
    }
}

/// A program of the host, whose path is there on every machine that tests.
pub(crate) fn host_program() -> Workload {
    Workload {
        name: "frank-chat".to_owned(),
        description: "chat on port 7770".to_owned(),
        program: Program::Host {
            argv: texts(&["/usr/bin/env", "frank", "serve", "/models/chat.gguf", "--port", "7770"]),
        },
        env: vec![plain("RUST_LOG", "info")],
        published: vec![Published { address: "192.168.1.10".to_owned(), port: 7770, inner: 7770 }],
        readiness: Readiness {
            path: "/health".to_owned(),
            port: 7770,
            start_period: 1800,
            command: None,
        },
        locks_memory: true,
        labels: labels("chat"),
        ..Workload::default()
    }
}

/// A container with all that a container may have, images among it.
pub(crate) fn vision_container() -> Workload {
    let ask = texts(&["curl", "--fail", "--silent", "http://127.0.0.1:8000/health"]);
    Workload {
        name: "frank-vision".to_owned(),
        description: "vision on port 7771".to_owned(),
        program: container(
            Some("/usr/bin/serve"),
            &["--model", "/models/v.gguf", "--mmproj", "/models/mmproj.gguf"],
        ),
        env: vec![
            plain("HF_HUB_OFFLINE", "1"),
            secret("SERVE_API_KEY", "env:CHAT_KEY"),
            secret("TOKEN", "file:/k"),
        ],
        mounts: vec![
            mount("/srv/models/v.gguf", "/models/v.gguf", true),
            mount("/srv/models/mmproj.gguf", "/models/mmproj.gguf", true),
            mount("/srv/templates/chat.jinja", "/templates/chat.jinja", true),
        ],
        devices: vec![
            Device::Cdi("nvidia.com/gpu=0".to_owned()),
            Device::Cdi("nvidia.com/gpu=1".to_owned()),
        ],
        published: vec![Published { address: "192.168.1.10".to_owned(), port: 7771, inner: 8000 }],
        readiness: Readiness {
            path: "/health".to_owned(),
            port: 8000,
            start_period: 2400,
            command: Some(ask),
        },
        memory_limit: Some(48 << 30),
        locks_memory: true,
        shared_memory: Some(8 << 30),
        storage: Some(100 << 30),
        labels: labels("vision"),
        ..Workload::default()
    }
}

/// A host without a toolkit for containers: its devices and its driver's libraries by hand. And it keeps a cache.
pub(crate) fn manual_gpu() -> Workload {
    let nodes = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"];
    let library = "/usr/lib/x86_64-linux-gnu/libcuda.so.1";
    Workload {
        name: "frank-manual".to_owned(),
        description: "a container with the devices of its host".to_owned(),
        program: container(None, &["--port", "8080"]),
        mounts: vec![
            mount("/srv/models", "/models", true),
            mount(library, library, true),
            mount("/srv/cache", "/cache", false),
        ],
        devices: nodes.map(|node| Device::Node(node.to_owned())).to_vec(),
        published: vec![Published { address: "::1".to_owned(), port: 7772, inner: 8080 }],
        readiness: Readiness {
            path: "/health".to_owned(),
            port: 8080,
            start_period: 600,
            command: None,
        },
        ..Workload::default()
    }
}

/// A program of the host with hostile arguments and values.
pub(crate) fn hostile_program() -> Workload {
    let argv =
        ["/usr/bin/env", "", ";"].iter().chain(HOSTILE).map(|word| (*word).to_owned()).collect();
    Workload {
        name: "frank-hostile".to_owned(),
        description: "100 % \"hostile\"\n[Service]\nExecStart=/bin/false \\".to_owned(),
        program: Program::Host { argv },
        env: hostile_env(),
        labels: BTreeMap::from([("alias".to_owned(), "a\nRestart=no".to_owned())]),
        ..Workload::default()
    }
}

/// A container with hostile arguments, values and paths.
pub(crate) fn hostile_container() -> Workload {
    Workload {
        program: container(Some("/bin/entry point"), HOSTILE),
        mounts: vec![mount("/srv/it's \"50%\" $HOME ü", "/in/-a b\\c", true)],
        readiness: Readiness {
            path: "/health".to_owned(),
            port: 8080,
            start_period: 10,
            command: Some(texts(&["ask", "it's \"$HOME\" 50%\n"])),
        },
        ..hostile_program()
    }
}

fn hostile_env() -> Vec<Env> {
    HOSTILE.iter().enumerate().map(|(i, value)| plain(&format!("HOSTILE_{i}"), value)).collect()
}

/// One model on many machines: workers join the program.
pub(crate) fn joined_workers() -> Workload {
    let rank = [WorkerArg::Plain("--nnodes".to_owned()), WorkerArg::Count]
        .into_iter()
        .chain([WorkerArg::Plain("--node-rank".to_owned()), WorkerArg::Rank])
        .chain([WorkerArg::Plain("--master-addr".to_owned()), WorkerArg::FirstAddress]);
    let headless =
        ["serve", "/models/v", "--headless"].map(|word| WorkerArg::Plain(word.to_owned()));
    Workload {
        name: "frank-large".to_owned(),
        workers: Some(Workers {
            count: 3,
            port: None,
            entrypoint: Some("vllm".to_owned()),
            args: headless.into_iter().chain(rank.clone()).collect(),
            first_args: rank.collect(),
        }),
        ..vision_container()
    }
}

/// One model on many machines: the program calls workers.
pub(crate) fn called_workers() -> Workload {
    let arg = |word: &str| WorkerArg::Plain(word.to_owned());
    Workload {
        name: "frank-rpc".to_owned(),
        workers: Some(Workers {
            count: 2,
            port: Some(50_052),
            entrypoint: Some("/app/rpc-server".to_owned()),
            args: ["--host", "0.0.0.0", "--port", "50052"].map(arg).to_vec(),
            first_args: vec![arg("--rpc"), WorkerArg::WorkerAddresses],
        }),
        storage: None,
        ..vision_container()
    }
}

/// All of them, by name.
pub(crate) fn workloads() -> Vec<(&'static str, Workload)> {
    vec![
        ("host_program", host_program()),
        ("vision_container", vision_container()),
        ("manual_gpu", manual_gpu()),
        ("hostile_program", hostile_program()),
        ("hostile_container", hostile_container()),
        ("joined_workers", joined_workers()),
        ("called_workers", called_workers()),
    ]
}

/// What a target says of a program, and its files where nothing is wrong with it.
pub(crate) fn put(
    target: &Target,
    workload: &Workload,
    facts: &HostFacts,
) -> (Vec<Fault>, Vec<RenderedFile>) {
    let input = TargetInput { workload, facts, place: "endpoints.chat" };
    let faults = (target.check)(&input);
    let is_refused = faults.iter().any(|fault| fault.severity == Severity::Error);
    let files = if is_refused { Vec::new() } else { (target.render)(&input) };
    (faults, files)
}

/// The only file of a program that a target takes.
pub(crate) fn file(target: &str, workload: &Workload, facts: &HostFacts) -> RenderedFile {
    let (faults, mut files) = put(named(target), workload, facts);
    assert_eq!((faults.len(), files.len()), (0, 1), "{target}: {faults:?}");
    files.remove(0)
}

pub(crate) fn named(target: &str) -> &'static Target {
    let mut targets = frank_fleet::TARGETS.iter();
    targets.find(|row| row.name == target).expect("a name of the table")
}
