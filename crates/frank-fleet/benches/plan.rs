//! Cost of a plan of 20 hosts with 5 endpoints each, from the text of `frank.toml` to the text of the plan. It must stay
//! below a second beside the round trips of ssh. Run with `cargo bench -p frank-fleet`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use divan::Bencher;
use frank_fleet::{Fleet, HostFacts, Payload, PayloadFile, Pins, PlanInput, Tables, check, plan};

const HOSTS: usize = 20;
const ENDPOINTS: usize = 5;

fn main() {
    divan::main();
}

fn text() -> String {
    let mut text = String::from("[models.qwen]\npayload = \"hf:org/qwen:Q4_K_M\"\n");
    for host in 0..HOSTS {
        write!(text, "[hosts.h{host}]\nssh = \"h{host}\"\naddress = \"10.0.0.{host}\"\n")
            .expect("a text");
        for endpoint in 0..ENDPOINTS {
            write!(
                text,
                "[endpoints.e{host}-{endpoint}]\nhost = \"h{host}\"\nport = {}\nalias = \"chat\"\nmodel = \"qwen\"\n\
                 runtime = \"frank\"\nprogram = \"/usr/bin/frank\"\ntarget = \"systemd\"\ncontext = 8192\nslots = 4\n",
                7000 + endpoint
            )
            .expect("a text");
        }
    }
    text
}

#[divan::bench]
fn twenty_hosts_and_a_hundred_endpoints(bencher: Bencher<'_, '_>) {
    let facts =
        HostFacts { ram: 1 << 38, ram_free: 1 << 38, systemd: Some(257), ..HostFacts::default() };
    let facts: BTreeMap<String, HostFacts> =
        (0..HOSTS).map(|host| (format!("h{host}"), facts.clone())).collect();
    let file = PayloadFile {
        name: "m.gguf".to_owned(),
        bytes: Some(1 << 33),
        sha256: Some("ab".repeat(32)),
    };
    let payload =
        Payload { name: "qwen".to_owned(), model_file: "m.gguf".to_owned(), files: vec![file] };
    let payloads = BTreeMap::from([("hf:org/qwen:Q4_K_M".to_owned(), payload)]);
    let text = text();
    bencher.bench(|| {
        let fleet = Fleet::read(&text).expect("a fleet");
        let faults = check(&fleet.file, &Tables::all());
        assert_eq!(faults, []);
        let input = PlanInput {
            file: &fleet.file,
            facts: &facts,
            payloads: &payloads,
            needs: &BTreeMap::new(),
            known: &BTreeMap::new(),
            pins: &Pins::default(),
            applied: &BTreeMap::new(),
            files: &BTreeMap::new(),
            host_files: &BTreeMap::new(),
            missing_files: &std::collections::BTreeSet::new(),
            tables: Tables::all(),
        };
        let plan = plan(&input);
        assert!(plan.is_allowed());
        plan.to_string()
    });
}
