//! Ports that two want on one host.

use std::net::IpAddr;

use crate::fault::Fault;
use crate::fleet_file::FleetFile;
use crate::fleet_file::app_port;

/// A port that somebody listens on.
struct Taken<'a> {
    host: &'a str,
    address: Option<IpAddr>,
    port: u16,
    owner: String,
    at: String,
}

pub(super) fn check(file: &FleetFile, faults: &mut Vec<Fault>) {
    let taken: Vec<Taken<'_>> = of_endpoints(file).chain(of_apps(file)).collect();
    for (index, one) in taken.iter().enumerate() {
        if one.port == 0 {
            faults.push(Fault::error("bad_port", &one.at, "port 0 is none"));
            continue;
        }
        if let Some(other) = taken[..index].iter().find(|other| one.meets(other)) {
            let message =
                format!("port {} of `{}` is that of {} too", one.port, one.host, other.owner);
            faults.push(Fault::error("port_taken", &one.at, message));
        }
    }
}

fn of_endpoints(file: &FleetFile) -> impl Iterator<Item = Taken<'_>> {
    file.endpoints.iter().map(|(name, endpoint)| Taken {
        host: &endpoint.host,
        address: endpoint.address().parse().ok(),
        port: endpoint.port,
        owner: format!("endpoints.{name}"),
        at: format!("endpoints.{name}.port"),
    })
}

fn of_apps(file: &FleetFile) -> impl Iterator<Item = Taken<'_>> {
    file.apps.iter().flat_map(|(name, app)| {
        app.ports.iter().enumerate().filter_map(move |(index, text)| {
            let published = app_port(text)?;
            Some(Taken {
                host: &app.host,
                address: published.address.parse().ok(),
                port: published.port,
                owner: format!("apps.{name}"),
                at: format!("apps.{name}.ports.{index}"),
            })
        })
    })
}

impl Taken<'_> {
    /// Whether both cannot listen: an address that is none is taken for any.
    fn meets(&self, other: &Taken<'_>) -> bool {
        let is_any = |address: Option<IpAddr>| address.is_none_or(|it| it.is_unspecified());
        self.host == other.host
            && self.port == other.port
            && (is_any(self.address) || is_any(other.address) || self.address == other.address)
    }
}
