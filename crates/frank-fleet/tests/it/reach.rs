//! Addresses in a fleet that do not lead where they are meant to, as a plan tells them.

use crate::given::Given;

/// Two hosts: an endpoint as a process or a container on one, and a container that asks `address` on `asker`.
fn fleet(image: &str, bind: &str, asker: &str, address: &str) -> String {
    format!(
        r#"
[hosts.box]
ssh = "me@box.lan"
address = "192.168.1.10"
[hosts.other]
ssh = "other.lan"
[models.m]
payload = "/srv/m.gguf"
[endpoints.chat]
host = "box"
port = 7770
bind = "{bind}"
alias = "chat"
model = "m"
runtime = "plain"
target = "files"
{image}
[apps.scraper]
host = "{asker}"
image = "registry.lan/scraper@sha256:00"
target = "files"
command = ["--target", "http://{address}:7770/metrics", "--listen=localhost:9090"]
ports = ["9090"]
"#
    )
}

const PROCESS: &str = "";
const CONTAINER: &str = "image = \"registry.lan/chat@sha256:00\"";

fn faults(text: &str) -> Vec<(String, Option<String>)> {
    let plan = Given::new(text).plan();
    let faults = plan.faults().filter(|fault| fault.code == "unreachable");
    faults.map(|fault| (fault.place.clone(), fault.hint.clone())).collect()
}

/// V17, each row with the form that is right for it, which has no fault; every other form of the address has one.
#[test]
fn the_right_address_passes_and_each_wrong_one_fails() {
    let (alias, lan, loopback, gateway) =
        ("host.containers.internal", "192.168.1.10", "127.0.0.1", "10.88.0.1");
    let rows: [(&str, &str, &str, &[&str]); 5] = [
        (PROCESS, "192.168.1.10", "box", &[alias]),
        (PROCESS, "0.0.0.0", "box", &[alias]),
        (CONTAINER, "0.0.0.0", "box", &[alias, lan]),
        (PROCESS, "0.0.0.0", "other", &[lan]),
        (CONTAINER, "0.0.0.0", "other", &[lan]),
    ];
    for (image, bind, asker, right) in rows {
        for address in [alias, lan, loopback, gateway] {
            // From another host, names of the host itself mean that one, where nothing listens.
            let is_meant = asker == "box" || address == lan;
            let is_wrong = !right.contains(&address) && is_meant;
            let told = faults(&fleet(image, bind, asker, address));
            assert_eq!(told.is_empty(), !is_wrong, "{image} {bind} {asker} {address}: {told:?}");
        }
    }
}

#[test]
fn the_fault_stands_at_the_argument_and_says_what_to_write() {
    let told = faults(&fleet(PROCESS, "192.168.1.10", "box", "192.168.1.10"));
    let hint = "use `host.containers.internal:7770`".to_owned();
    assert_eq!(told, [("apps.scraper.command.1".to_owned(), Some(hint))]);
}

#[test]
fn nobody_else_reaches_what_listens_on_loopback() {
    for (asker, address) in [("box", "host.containers.internal"), ("other", "192.168.1.10")] {
        let told = faults(&fleet(PROCESS, "127.0.0.1", asker, address));
        let hint = told[0].1.clone().unwrap();
        assert!(hint.contains("listens on 127.0.0.1 only"), "{asker}: {hint}");
    }
}

/// A file of targets that a container sees, as a plan of a host whose files can be read finds it.
#[test]
fn a_target_that_is_red_by_construction_is_found_in_the_scraper_s_own_file() {
    let text = fleet(PROCESS, "192.168.1.10", "box", "host.containers.internal")
        + "mounts = [\"/etc/prometheus.yml:/p.yml:ro\"]\n";
    let check = |target: &str| {
        let mut given = Given::new(&text);
        let config = format!(
            "scrape_configs:\n  - job_name: llm\n    static_configs:\n      - targets: ['{target}']\n"
        );
        let key = ("box".to_owned(), "/etc/prometheus.yml".to_owned());
        given.host_files.insert(key, config.into_bytes());
        let plan = given.plan();
        let told: Vec<String> = plan
            .faults()
            .filter(|it| it.code == "unreachable")
            .map(|it| it.message.clone())
            .collect();
        told
    };
    assert_eq!(check("host.containers.internal:7770"), [""; 0]);
    assert_eq!(check("192.168.1.10:9999"), [""; 0], "nobody of the fleet listens there");
    let told = check("192.168.1.10:7770");
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with("/etc/prometheus.yml, line 4: a container on `box` does not reach"),
        "{told:?}"
    );
}

#[test]
fn a_process_that_listens_beyond_its_host_gets_rules_that_keep_its_own_probe() {
    let plan = Given::new(&fleet(PROCESS, "192.168.1.10", "other", "192.168.1.10")).plan();
    let chat = plan.hosts[0].endpoints.iter().find(|it| it.name == "chat").unwrap();
    insta::assert_snapshot!(chat.firewall.clone().unwrap());
    let plan = Given::new(&fleet(PROCESS, "127.0.0.1", "box", "example.org")).plan();
    assert!(plan.hosts[0].endpoints.iter().all(|it| it.firewall.is_none()));
}
