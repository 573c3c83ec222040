//! Who reaches whom over the network of a fleet: which address leads from a container or a process to a port of this host
//! or another. Never sends a packet.
//!
//! What a container in a bridge network can reach was measured: not its own host's address where a process of the host
//! listens, nor the bridge's gateway; the alias of the host, ports that containers publish, and other machines.

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::fault::Fault;
use crate::fleet_file::{FleetFile, Host};

/// Names of the host inside a container. The address cannot be bound.
pub const HOST_ALIASES: [&str; 3] =
    ["host.containers.internal", "169.254.1.2", "host.docker.internal"];

/// The gateway of podman's default bridge.
pub(crate) const BRIDGE_GATEWAY: &str = "10.88.0.1";

/// The network of podman's default bridge.
pub const BRIDGE_SUBNET: &str = "10.88.0.0/16";

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name in `frank.toml`.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Whether it is a container in a network of its own, and not a process in that of its host.
    pub is_bridged: bool,
}

/// What listens at a port of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name in `frank.toml`.
    pub name: String,
    /// Where it stands, as `endpoints.chat`.
    pub at: String,
    /// Its host.
    pub host: String,
    /// The address on the host.
    pub address: String,
    /// The port on the host.
    pub port: u16,
    /// The port inside, for a container.
    pub inner: u16,
    /// Who listens there.
    pub listening: Listening,
}

/// Who listens at a port of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// A process of the host, or a container in the host's network.
    HostProcess,
    /// A container whose port is published.
    Published,
}

/// The address that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// The address by which others reach this host.
    Host(String),
    /// `127.0.0.1` or `localhost`.
    Loopback,
    /// The host's name inside a container.
    HostAlias,
    /// The gateway of the bridge.
    Gateway,
}

/// Whether `client` reaches `listener` by the address `via`.
pub fn reaches(client: &Client, via: &Via, listener: &Listener) -> bool {
    let is_loopback = is_loopback(&listener.address);
    let is_same_host = client.host == listener.host;
    match via {
        Via::Host(host) if *host != listener.host => false,
        // Nothing that listens on loopback only is reached by another address.
        Via::Host(_) if is_loopback => false,
        Via::Host(_) if is_same_host && client.is_bridged => {
            listener.listening == Listening::Published
        }
        Via::Host(_) => true,
        // Inside a container that is the container.
        Via::Loopback => {
            let is_answered = is_loopback || is_unspecified(&listener.address);
            is_same_host && !client.is_bridged && is_answered
        }
        Via::HostAlias => is_same_host && client.is_bridged && !is_loopback,
        Via::Gateway => false,
    }
}

/// The addresses by which `client` reaches `listener`, the best first.
pub fn ways(client: &Client, listener: &Listener) -> Vec<Via> {
    let all = [Via::Loopback, Via::HostAlias, Via::Host(listener.host.clone())];
    all.into_iter().filter(|via| reaches(client, via, listener)).collect()
}

/// An address in a text that does not lead where it is meant to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    line: usize,
    message: String,
    hint: String,
}

impl Wrong {
    /// The fault, in the text that stands at `place` or in the file of that path.
    pub(crate) fn at(self, place: &str, owner: &str) -> Fault {
        if place.starts_with('/') {
            let message = format!("{place}, line {}: {}", self.line, self.message);
            return Fault::error("unreachable", owner, message).hint(self.hint);
        }
        Fault::error("unreachable", place, self.message).hint(self.hint)
    }
}

/// Addresses in `text`, read by `client`, that name a listener of the fleet in a way in which the client does not reach it.
pub(crate) fn lint(
    file: &FleetFile,
    client: &Client,
    listeners: &[Listener],
    text: &str,
) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (address, port) in addresses(line) {
            let Some(via) = via(file, address) else { continue };
            let at_host = match &via {
                Via::Host(host) => host.as_str(),
                Via::Loopback | Via::HostAlias | Via::Gateway => client.host.as_str(),
            };
            let meant = listeners.iter().find(|it| it.host == at_host && it.port == port);
            // What a program says of its own port is where it listens.
            let is_own =
                |it: &Listener| it.name == client.name && (it.port == port || it.inner == port);
            let Some(meant) = meant.filter(|it| !is_own(it)) else { continue };
            if !reaches(client, &via, meant) {
                wrong.push(told(file, client, meant, (address, index + 1)));
            }
        }
    }
    wrong
}

fn told(
    file: &FleetFile,
    client: &Client,
    listener: &Listener,
    (address, line): (&str, usize),
) -> Wrong {
    let who = if client.is_bridged { "a container" } else { "a process" };
    let port = listener.port;
    let message =
        format!("{who} on `{}` does not reach {} at {address}:{port}", client.host, listener.at);
    let ways = ways(client, listener).into_iter().filter_map(|via| spelled(file, &via));
    let ways: Vec<String> = ways.map(|address| format!("`{address}:{port}`")).collect();
    let hint = if ways.is_empty() {
        format!(
            "{} listens on {} only; give it a `bind` that others reach",
            listener.at, listener.address
        )
    } else {
        format!("use {}", ways.join(" or "))
    };
    Wrong { line, message, hint }
}

/// How an address is written.
fn spelled(file: &FleetFile, via: &Via) -> Option<String> {
    match via {
        Via::Host(host) => host_address(file.hosts.get(host)?).map(str::to_owned),
        Via::Loopback => Some("127.0.0.1".to_owned()),
        Via::HostAlias => Some(HOST_ALIASES[0].to_owned()),
        Via::Gateway => Some(BRIDGE_GATEWAY.to_owned()),
    }
}

/// The address by which others reach a host: what it says itself, or else where ssh finds it.
pub(crate) fn host_address(host: &Host) -> Option<&str> {
    if let Some(address) = &host.address {
        return Some(address);
    }
    let destination = host.ssh.strip_prefix("ssh://").unwrap_or(&host.ssh);
    let name = destination.rsplit_once('@').map_or(destination, |(_, name)| name);
    let name = match name.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => name,
    };
    (name != "local" && !name.is_empty()).then_some(name)
}

/// What an address in a text means; `None` for one outside the fleet.
fn via(file: &FleetFile, address: &str) -> Option<Via> {
    let is_of = |(name, host): (&String, &Host)| {
        (host_address(host) == Some(address)).then(|| Via::Host(name.clone()))
    };
    match address {
        _ if HOST_ALIASES.contains(&address) => Some(Via::HostAlias),
        BRIDGE_GATEWAY => Some(Via::Gateway),
        "localhost" => Some(Via::Loopback),
        _ if is_loopback(address) => Some(Via::Loopback),
        _ => file.hosts.iter().find_map(is_of),
    }
}

/// Every `host:port` in a line.
fn addresses(line: &str) -> impl Iterator<Item = (&str, u16)> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || ".:-_[]".contains(char);
    line.split(move |char| !is_part(char)).filter_map(|word| {
        let (host, port) = word.trim_end_matches(['.', ':']).rsplit_once(':')?;
        let host = host.rsplit_once("]").map_or(host, |_| host.trim_matches(['[', ']']));
        Some((host, port.parse().ok()?)).filter(|_| !host.is_empty())
    })
}

fn is_loopback(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_unspecified(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
}

/// Rules for nftables that let the host itself, its own address and the containers of its bridge reach a port, and nobody
/// else. Those who may come first: the check of the host's own health comes from its own address.
pub(crate) fn accept_rules(name: &str, port: u16, own: IpAddr, bridge: &str) -> String {
    let (family, loopback) = if own.is_ipv6() { ("ip6", "::1") } else { ("ip", "127.0.0.1") };
    let table = name.replace('-', "_");
    let mut sources = vec![loopback.to_owned(), own.to_string()];
    sources.extend(own.is_ipv4().then(|| bridge.to_owned()));
    let mut rules = format!("table inet frank_{table} {{\n  chain input {{\n");
    rules.push_str("    type filter hook input priority filter; policy accept;\n");
    let sources = sources.join(", ");
    writeln!(rules, "    tcp dport {port} {family} saddr {{ {sources} }} accept")
        .expect("a text takes what is written");
    writeln!(rules, "    tcp dport {port} drop\n  }}\n}}").expect("a text takes what is written");
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(host: &str, is_bridged: bool) -> Client {
        Client { name: "scraper".to_owned(), host: host.to_owned(), is_bridged }
    }

    fn listener(host: &str, address: &str, listening: Listening) -> Listener {
        Listener {
            name: "chat".to_owned(),
            at: "endpoints.chat".to_owned(),
            host: host.to_owned(),
            address: address.to_owned(),
            port: 7770,
            inner: 7770,
            listening,
        }
    }

    /// Who asks, by which address, whom, and whether it is answered: V17 first, and what follows from it.
    fn truth() -> Vec<(Client, Via, Listener, bool)> {
        use Listening::{HostProcess, Published};
        let (inside, process) = (client("h", true), client("h", false));
        let lan = |host: &str| Via::Host(host.to_owned());
        vec![
            (inside.clone(), lan("h"), listener("h", "192.168.1.10", HostProcess), false),
            (inside.clone(), Via::Gateway, listener("h", "0.0.0.0", HostProcess), false),
            (inside.clone(), Via::HostAlias, listener("h", "192.168.1.10", HostProcess), true),
            (inside.clone(), lan("h"), listener("h", "0.0.0.0", Published), true),
            (inside.clone(), lan("other"), listener("other", "0.0.0.0", HostProcess), true),
            (inside.clone(), lan("other"), listener("other", "0.0.0.0", Published), true),
            // A loopback bind refuses container traffic, and other machines.
            (inside.clone(), Via::HostAlias, listener("h", "127.0.0.1", HostProcess), false),
            (inside.clone(), lan("other"), listener("other", "127.0.0.1", HostProcess), false),
            (inside.clone(), lan("h"), listener("h", "127.0.0.1", Published), false),
            (inside.clone(), Via::Loopback, listener("h", "0.0.0.0", HostProcess), false),
            (inside.clone(), Via::HostAlias, listener("h", "0.0.0.0", Published), true),
            (inside, Via::HostAlias, listener("other", "0.0.0.0", HostProcess), false),
            // A process of the host.
            (process.clone(), Via::Loopback, listener("h", "127.0.0.1", HostProcess), true),
            (process.clone(), Via::Loopback, listener("h", "192.168.1.10", HostProcess), false),
            (process.clone(), lan("h"), listener("h", "192.168.1.10", HostProcess), true),
            (process.clone(), Via::HostAlias, listener("h", "0.0.0.0", HostProcess), false),
            (process, lan("other"), listener("other", "0.0.0.0", Published), true),
        ]
    }

    #[test]
    fn who_reaches_whom_is_as_it_was_measured() {
        for (client, via, listener, expected) in truth() {
            assert_eq!(
                reaches(&client, &via, &listener),
                expected,
                "{client:?} {via:?} {listener:?}"
            );
        }
    }

    /// Rules that were believed once, each wrong in one way.
    #[test]
    fn each_wrong_form_of_the_rules_fails_the_table() {
        type Rules = fn(&Client, &Via, &Listener) -> bool;
        let wrong: [(&str, Rules); 5] = [
            ("the LAN address always leads to its host", |client, via, listener| match via {
                Via::Host(host) => host == &listener.host && !is_loopback(&listener.address),
                _ => reaches(client, via, listener),
            }),
            ("the gateway is the host", |client, via, listener| match via {
                Via::Gateway => client.host == listener.host,
                _ => reaches(client, via, listener),
            }),
            ("the alias reaches loopback", |client, via, listener| match via {
                Via::HostAlias => client.is_bridged && client.host == listener.host,
                _ => reaches(client, via, listener),
            }),
            ("a container shares loopback", |client, via, listener| {
                let client = Client {
                    is_bridged: client.is_bridged && *via != Via::Loopback,
                    ..client.clone()
                };
                reaches(&client, via, listener)
            }),
            ("the alias works anywhere", |client, via, listener| match via {
                Via::HostAlias => !is_loopback(&listener.address),
                _ => reaches(client, via, listener),
            }),
        ];
        for (name, rules) in wrong {
            let same = truth()
                .iter()
                .all(|(client, via, listener, expected)| rules(client, via, listener) == *expected);
            assert!(!same, "{name}: the table does not tell it from the truth");
        }
    }

    #[test]
    fn who_may_come_is_let_in_before_the_rest_is_dropped() {
        let rules = accept_rules("my-chat", 7770, "192.168.1.10".parse().unwrap(), BRIDGE_SUBNET);
        let at =
            |part: &str| rules.find(part).unwrap_or_else(|| panic!("{part} is not in\n{rules}"));
        for source in ["127.0.0.1", "192.168.1.10", "10.88.0.0/16"] {
            assert!(at(source) < at("drop"), "{source} is dropped\n{rules}");
        }
        assert!(rules.starts_with("table inet frank_my_chat {"), "{rules}");
        assert_eq!(rules.matches("dport 7770").count(), 2);
    }

    #[test]
    fn addresses_are_found_in_any_text() {
        let check = |text: &str, expected: &[(&str, u16)]| {
            assert_eq!(addresses(text).collect::<Vec<_>>(), expected, "{text}");
        };
        check(
            "  - targets: ['192.168.1.10:7770', \"box.lan:80\"]",
            &[("192.168.1.10", 7770), ("box.lan", 80)],
        );
        check("http://localhost:7770/metrics?x=1:2", &[("localhost", 7770), ("1", 2)]);
        check("http://[::1]:7770/", &[("::1", 7770)]);
        check("12:30:45 a: b", &[("12:30", 45)]);
        check("no address: 70000:99999", &[]);
    }
}
