//! Every runtime on every target, through the whole plan: what stands in `frank.toml` and what is written on the host.

use frank_fleet::{Fleet, FleetPlan, RUNTIMES, TARGETS, Tables, check, plan};

use crate::given::Given;

/// A fleet of one endpoint, with a program of the host or an image as the target wants it.
fn fleet(runtime: &str, target: &str) -> String {
    let what = match target {
        "quadlet" | "kubernetes" => {
            format!("image = \"registry.lan/{runtime}@sha256:{}\"", "ab".repeat(32))
        }
        _ => format!("program = \"/opt/{runtime}/bin/serve\""),
    };
    let options = match runtime {
        "command" => "options = { args = [\"--port\", \"{port}\", \"--model\", \"{model}\"] }",
        _ => "",
    };
    format!(
        r#"[hosts.box]
ssh = "local"

[models.qwen]
payload = "hf:org/qwen:Q4_K_M"

[endpoints.chat]
host = "box"
port = 7770
alias = "chat"
model = "qwen"
runtime = "{runtime}"
target = "{target}"
context = 8192
slots = 2
{what}
{options}
"#
    )
}

fn planned(given: &Given) -> FleetPlan {
    let mut input = given.input();
    input.tables = Tables::all();
    plan(&input)
}

#[test]
fn every_runtime_is_planned_on_every_target() {
    for runtime in RUNTIMES {
        for target in TARGETS {
            let text = fleet(runtime.name, target.name);
            let faults = check(&Fleet::read(&text).unwrap().file, &Tables::all());
            assert_eq!(faults, [], "{} on {}", runtime.name, target.name);
            let plan = planned(&Given::new(&text));
            let host = &plan.hosts[0];
            let mut told = plan.to_string();
            for fault in &host.faults {
                told.push_str(&format!("{}: {fault}\n", fault.code));
            }
            for file in &host.rendered {
                told.push_str(&format!("\n==> {} {:o}\n{}", file.path, file.mode, file.content));
            }
            let name = format!("{}@{}", runtime.name.replace('.', "_"), target.name);
            insta::assert_snapshot!(name, told);
        }
    }
}

/// Port and alias are the endpoint's and not the runtime's.
#[test]
fn the_contract_stays_while_the_runtime_changes() {
    for target in ["systemd", "quadlet"] {
        for runtime in RUNTIMES.iter().filter(|runtime| runtime.name != "command") {
            let plan = planned(&Given::new(&fleet(runtime.name, target)));
            assert!(plan.is_allowed(), "{} on {target}: {:?}", runtime.name, plan.hosts[0].faults);
            let files = &plan.hosts[0].rendered;
            let all: String = files.iter().map(|file| file.content.as_str()).collect();
            assert!(all.contains("7770"), "{} on {target}\n{all}", runtime.name);
            assert!(all.contains("frank-chat"), "{} on {target}\n{all}", runtime.name);
        }
    }
}
