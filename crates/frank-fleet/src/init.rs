//! A first `frank.toml`, with comments, from what hosts have. Never writes a file.

use std::fmt::Write as _;

use frank_plan::{Size, default_headroom};

use crate::host_facts::{DeviceFacts, HostFacts};

/// A host to begin with.
#[derive(Clone, Copy, Debug)]
pub struct InitHost<'a> {
    /// Its name in the file.
    pub name: &'a str,
    /// Where ssh finds it, or `local`.
    pub ssh: &'a str,
    /// What it has.
    pub facts: &'a HostFacts,
}

const HEAD: &str = "\
# The fleet: which host serves which model with which runtime.
#   frank plan            says what would change, and changes nothing
#   frank plan --schema   says all that may stand here
# Sizes have a unit (GiB is 2^30 bytes, GB is 10^9). No value is a secret: env:NAME, file:PATH and credential:NAME say
# where one is. frank.lock beside this file pins the bytes of models and images.
";

const MODEL: &str = "
# A payload, as `frank pull` takes it.
# [models.qwen]
# payload = \"hf:org/repo:Q4_K_M\"
# template = \"qwen.jinja\"            # a chat template in the place of the model's own, a file beside this one
# draft = \"draft.gguf\"               # for speculation: a file of the payload, or a payload
# projector = \"mmproj.gguf\"          # for images, likewise
";

/// The text of a `frank.toml` for `hosts`. It is read as it is, and its examples are comments.
pub fn init(hosts: &[InitHost<'_>]) -> String {
    let mut text = HEAD.to_owned();
    for host in hosts {
        text.push_str(&of_host(host));
    }
    text.push_str(MODEL);
    let name = hosts.first().map_or("box", |host| host.name);
    text.push_str(&of_endpoint(name, hosts.first().map(|host| host.facts)));
    text
}

fn of_host(host: &InitHost<'_>) -> String {
    let facts = host.facts;
    let mut text = format!("\n# {}", line(&facts.hostname));
    let parts = [
        (!facts.platform.is_empty()).then(|| facts.platform.clone()),
        Some(format!("{} of memory, {} of it free", Size(facts.ram), Size(facts.ram_free))),
        Some(format!("{} cores", facts.cores)),
        facts.systemd.map(|version| format!("systemd {version}")),
        facts.podman.as_ref().map(|version| format!("podman {version}")),
    ];
    for part in parts.into_iter().flatten() {
        push(&mut text, &format!(", {}", line(&part)));
    }
    push(&mut text, "\n");
    for unknown in &facts.unknown {
        push(&mut text, &format!("# not known: {}\n", line(unknown)));
    }
    push(&mut text, &format!("[hosts.{}]\nssh = {}\n", key(host.name), quoted(host.ssh)));
    let headroom = default_headroom(facts.ram);
    push(&mut text, &format!("headroom = \"{}\"    # stays free\n", Size(headroom).exact()));
    push(&mut text, "# address = \"192.168.1.10\"          # by which other machines reach it\n");
    for device in &facts.devices {
        text.push_str(&of_device(device, host.name));
    }
    text
}

fn of_device(device: &DeviceFacts, host: &str) -> String {
    let total = device.shared.map_or(device.total, |shared| shared.max(device.total));
    let mut about = format!("{}: {}", line(&device.name), Size(total));
    if device.shared.is_some() {
        about.push_str(" of the host's memory");
    }
    if let Some(arch) = &device.arch {
        push(&mut about, &format!(", {}", line(arch)));
    }
    if let Some(link) = &device.link {
        let (whole, tenth) = (link.speed_tenth_gts / 10, link.speed_tenth_gts % 10);
        push(&mut about, &format!(", x{} at {whole}.{tenth} GT/s", link.width));
    }
    format!(
        "\n# {about}\n[[hosts.{}.devices]]\nid = {}\nheadroom = \"{}\"\n",
        key(host),
        quoted(&device.id),
        Size(default_headroom(total)).exact(),
    )
}

fn of_endpoint(host: &str, facts: Option<&HostFacts>) -> String {
    let target = match facts {
        Some(facts) if facts.systemd.is_none() => "process",
        _ => "systemd-user",
    };
    format!(
        "
# What answers requests. Port and alias stay while models and runtimes change.
# [endpoints.chat]
# host = {}
# port = 7770
# alias = \"chat\"                     # the name that clients ask for
# model = \"qwen\"
# runtime = \"frank\"                  # or llama.cpp, vllm, lucebox, command
# target = \"{target}\"
# context = 32768                    # tokens of each request, never divided
# slots = 2                          # requests at once
# memory-budget = \"16GiB\"
# api-keys = \"file:/etc/frank/keys\"

# Any other container or command.
# [apps.exporter]
# host = {}
# image = \"registry/exporter@sha256:...\"
# target = \"quadlet\"
# ports = [\"127.0.0.1:9100:9100\"]
# health = \"http://127.0.0.1:9100/\"
",
        quoted(host),
        quoted(host)
    )
}

fn push(text: &mut String, more: &str) {
    text.write_str(more).expect("a text takes what is written");
}

/// A text of a host on one line of a comment.
fn line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A key, quoted where it must be.
fn key(name: &str) -> String {
    let is_bare = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}
