//! Plans: what changes, what it is because of, what must hold before, what stops.

use frank_fleet::{Change, EndpointPlan, FleetPlan, PayloadFile};

use crate::given::{FLEET, Given, card};

fn endpoint<'p>(plan: &'p FleetPlan, name: &str) -> &'p EndpointPlan {
    let mut all = plan.hosts.iter().flat_map(|host| &host.endpoints);
    all.find(|endpoint| endpoint.name == name).unwrap_or_else(|| panic!("{name} is not there"))
}

/// What was applied is the fleet, and then `old` is written as `new`: which endpoints change.
fn changed(old: &str, new: &str) -> Vec<String> {
    let mut given = Given::new(FLEET);
    given.apply();
    assert!(FLEET.contains(old), "{old} is not in the fleet");
    given.rewritten(&FLEET.replacen(old, new, 1));
    given.plan().changed().into_iter().map(str::to_owned).collect()
}

#[test]
fn a_first_plan_adds_everything_and_a_second_one_nothing() {
    let mut given = Given::new(FLEET);
    let plan = given.plan();
    assert!(plan.is_allowed(), "{plan}");
    assert_eq!(plan.hosts[0].next_generation, Some(1));
    insta::assert_snapshot!(plan.to_string());
    given.apply();
    let plan = given.plan();
    assert_eq!(plan.hosts[0].next_generation, None);
    assert_eq!((plan.hosts[0].generation, plan.changed().len()), (1, 0));
    assert!(plan.hosts[0].files.is_empty() && plan.hosts[0].payloads.is_empty());
    insta::assert_snapshot!(plan.to_string());
}

#[test]
fn a_changed_endpoint_says_why_what_is_looked_at_and_what_stops() {
    let mut given = Given::new(FLEET);
    given.apply();
    let text = FLEET.replacen("context = 8192", "context = 16384", 1);
    given.rewritten(&text);
    let plan = given.plan();
    assert_eq!(plan.hosts[0].next_generation, Some(2));
    insta::assert_snapshot!(plan.to_string());
    let json = serde_json::to_string_pretty(&plan).unwrap();
    insta::assert_snapshot!(json);
    let applied = given.applied.get_mut("box").unwrap();
    applied.endpoints.get_mut("chat").unwrap().ready_seconds = Some(41);
    let plan = given.plan();
    let stop = endpoint(&plan, "chat").stop.clone().unwrap();
    assert_eq!((stop.seconds, stop.from), (Some(41), Some("last start")));
}

#[test]
fn only_endpoints_whose_inputs_changed_are_picked() {
    assert_eq!(changed("context = 8192", "context = 8193"), ["chat"]);
    assert_eq!(changed("command = []", "command = [\"-v\"]"), ["metrics"]);
    assert_eq!(changed("memory = \"512MiB\"", "memory = \"513MiB\""), ["metrics"]);
    assert_eq!(changed("[apps.metrics]", "[apps.scrape]"), ["metrics", "scrape"]);
    // What does not reach the host changes nothing there.
    assert_eq!(changed("# A fleet.", "# My fleet."), [""; 0]);
    assert_eq!(changed("address = ", "notes = \"by the door\"\naddress = "), [""; 0]);
}

#[test]
fn a_default_that_is_written_out_changes_nothing() {
    assert_eq!(changed("slots = 2", "slots = 2\nbind = \"127.0.0.1\"\nvision = false"), [""; 0]);
    assert_eq!(changed("slots = 2", "slots = 2\nverify = { no-tool-call = false }"), [""; 0]);
    assert_eq!(changed("slots = 2", "slots = 2\nverify = { no-tool-call = true }"), ["chat"]);
}

#[test]
fn a_template_or_a_payload_that_is_another_changes_what_reads_it() {
    let mut given = Given::new(FLEET);
    given.apply();
    given.files.insert("qwen.jinja".to_owned(), b"{{ messages | last }}".to_vec());
    let plan = given.plan();
    assert_eq!(plan.changed().into_iter().collect::<Vec<_>>(), ["chat"]);
    assert!(plan.hosts[0].files.iter().any(|file| file.change == Change::Removed), "{plan}");
    given.apply();
    let payload = given.payloads.get_mut("hf:org/qwen:Q4_K_M").unwrap();
    payload.files[0].sha256 = Some("cd".repeat(32));
    let plan = given.plan();
    assert_eq!(endpoint(&plan, "chat").changed_inputs, ["payload hf-org-qwen-Q4_K_M/m.gguf"]);
    let fetch = &plan.hosts[0].payloads[0];
    assert_eq!((fetch.files.as_slice(), fetch.bytes), (&["m.gguf".to_owned()][..], Some(1 << 30)));
}

#[test]
fn a_mounted_file_of_a_host_is_an_input() {
    let text = FLEET.replacen("command = []", "mounts = [\"/etc/m.yml:/m.yml:ro\"]", 1);
    let mut given = Given::new(&text);
    let key = ("box".to_owned(), "/etc/m.yml".to_owned());
    given.host_files.insert(key.clone(), b"a: 1".to_vec());
    given.apply();
    assert!(given.plan().changed().is_empty());
    given.host_files.insert(key, b"a: 2".to_vec());
    let plan = given.plan();
    assert_eq!(endpoint(&plan, "metrics").changed_inputs, ["mount /etc/m.yml"]);
}

#[test]
fn a_folder_is_made_and_a_file_that_is_missing_is_refused() {
    let text =
        FLEET.replacen("command = []", "mounts = [\"/srv/d/:/d\", \"/etc/m.yml:/m.yml:ro\"]", 1);
    let mut given = Given::new(&text);
    let plan = given.plan();
    assert_eq!(plan.hosts[0].folders, ["/srv/d/"]);
    let gates = &endpoint(&plan, "metrics").gates;
    assert!(gates.iter().any(|gate| (gate.kind, gate.what.as_str()) == ("file", "/etc/m.yml")));
    given.missing_files.insert(("box".to_owned(), "/etc/m.yml".to_owned()));
    assert_eq!(given.codes(), ["missing_file"]);
    given.missing_files = [("box".to_owned(), "/srv/d/".to_owned())].into();
    assert!(given.plan().is_allowed());
}

#[test]
fn paths_lead_to_the_endpoints_that_are_made_from_them() {
    let plan = Given::new(FLEET).plan();
    let paths = plan.paths();
    let of = |path: &str| paths[path].iter().copied().collect::<Vec<_>>();
    assert_eq!(of("/etc/frank-chat.unit"), ["chat"]);
    assert_eq!(of("/etc/frank-metrics.unit"), ["metrics"]);
    assert_eq!(of("hf-org-qwen-Q4_K_M/m.gguf"), ["chat"]);
}

#[test]
fn what_is_no_longer_in_the_file_is_removed_even_with_its_host() {
    let mut given = Given::new(FLEET);
    given.apply();
    given.rewritten("[hosts.box]\nssh = \"local\"\n");
    let plan = given.plan();
    let changes: Vec<Change> = plan.hosts[0].endpoints.iter().map(|it| it.change).collect();
    assert_eq!(changes, [Change::Removed, Change::Removed]);
    assert_eq!(endpoint(&plan, "chat").stop.as_ref().unwrap().seconds, None);
    assert_eq!(plan.hosts[0].files.len(), 3);
    given.rewritten("");
    let plan = given.plan();
    assert_eq!((plan.hosts[0].host.as_str(), plan.changed().len()), ("box", 2));
    assert_eq!(plan.hosts[0].next_generation, Some(2));
}

#[test]
fn port_and_alias_stay_while_the_model_changes() {
    let mut given = Given::new(FLEET);
    let before = given.plan().hosts[0].rendered.clone();
    given.rewritten(&FLEET.replacen("hf:org/qwen:Q4_K_M", "/srv/other.gguf", 1));
    let after = given.plan().hosts[0].rendered.clone();
    let unit = |files: &[frank_fleet::RenderedFile]| {
        let file = files.iter().find(|file| file.path == "/etc/frank-chat.unit");
        file.unwrap().content.clone()
    };
    let (before, after) = (unit(&before), unit(&after));
    assert_ne!(before, after);
    for kept in ["\"7770\"", "\"--alias\",\n            \"chat\"", "frank-chat"] {
        assert!(before.contains(kept) && after.contains(kept), "{kept}\n{after}");
    }
    assert!(after.contains("/srv/other.gguf"));
}

#[test]
fn nothing_is_rendered_of_what_is_refused_and_what_is_there_stays() {
    let mut given = Given::new(FLEET);
    given.apply();
    given.rewritten(&FLEET.replacen("slots = 2", "options = { refused = 1 }", 1));
    let plan = given.plan();
    assert_eq!(endpoint(&plan, "chat").change, Change::Refused);
    assert_eq!(plan.hosts[0].next_generation, None);
    assert!(plan.hosts[0].files.is_empty(), "{plan}");
    assert_eq!(given.codes(), ["refused_option"]);
    assert!(!plan.is_allowed());
}

#[test]
fn an_option_that_is_dropped_on_the_way_is_found() {
    let text = FLEET.replacen("slots = 2", "options = { kept = 1, dropped = 2, off = false }", 1);
    let given = Given::new(&text);
    let plan = given.plan();
    let faults: Vec<_> = plan
        .faults()
        .filter(|fault| fault.is_error())
        .map(|fault| (fault.code, fault.place.as_str()))
        .collect();
    assert_eq!(faults, [("declared_but_absent", "endpoints.chat.options.dropped")]);
}

#[test]
fn what_nobody_pinned_is_refused_with_the_way_out() {
    let mut given = Given::new(FLEET);
    given.payloads.clear();
    assert_eq!(given.codes(), ["not_pinned"]);
    let plan = given.plan();
    let hint = plan.faults().find(|fault| fault.is_error()).unwrap().hint.clone().unwrap();
    assert!(hint.starts_with("`frank pull hf:org/qwen:Q4_K_M`"), "{hint}");
    let mut given = Given::new(&FLEET.replacen("@sha256:00", ":v1", 1));
    assert_eq!(given.codes(), ["image_not_pinned"]);
    given.pins.images.insert("registry.lan/metrics:v1".to_owned(), "sha256:11".to_owned());
    let plan = given.plan();
    assert!(plan.is_allowed(), "{plan}");
    let unit = &plan.hosts[0].rendered.iter().find(|it| it.path.contains("metrics")).unwrap();
    // The digest says which bytes; a tag beside it would say nothing.
    assert!(unit.content.contains("\"registry.lan/metrics@sha256:11\""), "{}", unit.content);
    let mut given = Given::new(FLEET);
    given.files.clear();
    assert_eq!(given.codes(), ["missing_file"]);
    given.facts.clear();
    assert_eq!(given.codes(), ["no_facts"]);
}

#[test]
fn a_draft_is_a_file_of_the_payload_or_a_payload() {
    let text = FLEET.replacen("template =", "draft = \"draft.gguf\"\ntemplate =", 1);
    let given = Given::new(&text);
    let unit = given.plan().hosts[0].rendered[1].content.clone();
    assert!(unit.contains("/var/lib/frank/models/hf-org-qwen-Q4_K_M/draft.gguf"), "{unit}");
    let given = Given::new(&text.replacen("\"draft.gguf\"", "\"hf:org/draft\"", 1));
    assert_eq!(given.codes(), ["not_pinned"]);
}

#[test]
fn a_version_of_a_runtime_that_is_pinned_anew_is_an_input() {
    let mut given = Given::new(FLEET);
    given.pins.runtimes.insert("plain".to_owned(), "b1".to_owned());
    given.apply();
    given.pins.runtimes.insert("plain".to_owned(), "b2".to_owned());
    assert_eq!(endpoint(&given.plan(), "chat").changed_inputs, ["version plain"]);
}

#[test]
fn a_device_that_the_host_lacks_is_refused() {
    let text = FLEET.replacen("slots = 2", "devices = [\"cuda:0\"]", 1);
    let mut given = Given::new(&text);
    assert_eq!(given.codes()[0], "unknown_device");
    given.facts.get_mut("box").unwrap().devices.push(card("cuda:0", 24 << 30));
    assert!(given.plan().is_allowed());
}

#[test]
fn a_payload_without_digests_is_always_looked_at() {
    let mut given = Given::new(FLEET);
    let payload = given.payloads.get_mut("hf:org/qwen:Q4_K_M").unwrap();
    payload.files = vec![PayloadFile { name: "m.gguf".to_owned(), bytes: None, sha256: None }];
    given.apply();
    let plan = given.plan();
    assert!(plan.changed().is_empty());
    assert_eq!(plan.hosts[0].payloads[0].bytes, None);
}

#[test]
fn the_work_of_a_plan_grows_with_its_endpoints_and_no_faster() {
    let mut text = String::from("[models.qwen]\npayload = \"hf:org/qwen:Q4_K_M\"\n");
    for host in 0..20 {
        text.push_str(&format!(
            "[hosts.h{host}]\nssh = \"h{host}\"\naddress = \"10.0.0.{host}\"\n"
        ));
        for endpoint in 0..5 {
            text.push_str(&format!(
                "[endpoints.e{host}-{endpoint}]\nhost = \"h{host}\"\nport = {}\nalias = \"a\"\nmodel = \"qwen\"\n\
                 runtime = \"plain\"\ntarget = \"files\"\nenv = {{ PEER = \"http://10.0.0.{host}:1\" }}\n",
                7000 + endpoint
            ));
        }
    }
    let mut given = Given::new(&text);
    let plan = given.plan();
    assert!(plan.is_allowed(), "{plan}");
    assert_eq!(plan.changed().len(), 100);
    // Every file is rendered once, and what is told of one endpoint is bounded.
    let rendered: usize = plan.hosts.iter().map(|host| host.rendered.len()).sum();
    assert_eq!(rendered, 100);
    assert!(serde_json::to_vec(&plan).unwrap().len() < 100 * 2000);
    given.apply();
    assert!(given.plan().changed().is_empty());
}
