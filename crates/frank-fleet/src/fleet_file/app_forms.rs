//! The texts of an app that have a form: ports, mounts, the address of its health.

use std::net::IpAddr;

use crate::workload::{Mount, Published};

/// `8080`, `8080:80` or `127.0.0.1:8080:80`, where an IPv6 address stands in brackets; all addresses of the host where none
/// stands there.
pub(crate) fn app_port(text: &str) -> Option<Published> {
    let (rest, inner) = match text.rsplit_once(':') {
        None => ("", text),
        Some((rest, inner)) => (rest, inner),
    };
    let inner = port(inner)?;
    let (address, outer) = match rest.rsplit_once(':') {
        _ if rest.is_empty() => {
            return text.find(':').is_none().then(|| published("0.0.0.0", inner, inner));
        }
        None => ("0.0.0.0", rest),
        Some((address, outer)) => (address, outer),
    };
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address: IpAddr = bare.unwrap_or(address).parse().ok()?;
    (address.is_ipv6() == bare.is_some()).then_some(())?;
    Some(published(&address.to_string(), port(outer)?, inner))
}

fn published(address: &str, port: u16, inner: u16) -> Published {
    Published { address: address.to_owned(), port, inner }
}

/// Digits only: `+80` is no port.
fn port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// `/on/host:/in/container`, with `:ro` or `:rw` behind it. A source that ends with `/` is a folder.
pub(crate) fn app_mount(text: &str) -> Option<Mount> {
    let (text, read_only) = match text.rsplit_once(':') {
        Some((rest, "ro")) => (rest, true),
        Some((rest, "rw")) => (rest, false),
        _ => (text, false),
    };
    let (source, target) = text.split_once(':')?;
    let is_path = |path: &str| {
        path.starts_with('/') && !path.contains(|char: char| char.is_control() || char == ':')
    };
    (is_path(source) && is_path(target)).then(|| Mount {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only,
        is_folder: source.ends_with('/'),
    })
}

/// Port and path of `http://HOST:PORT/path`.
pub(crate) fn app_health(text: &str) -> Option<(u16, String)> {
    let rest = text.strip_prefix("http://")?;
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (rest, "/".to_owned()),
    };
    let is_bad = |char: char| char.is_control() || char.is_whitespace();
    let (host, number) = authority.rsplit_once(':')?;
    (!host.is_empty() && !text.contains(is_bad)).then_some((port(number)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_read_in_each_of_its_forms_and_nothing_else_is_one() {
        let check = |text: &str, told: Option<(&str, u16, u16)>| {
            let read = app_port(text).map(|it| (it.address, it.port, it.inner));
            assert_eq!(
                read,
                told.map(|(address, port, inner)| (address.to_owned(), port, inner)),
                "{text}"
            );
        };
        check("8080", Some(("0.0.0.0", 8080, 8080)));
        check("8080:80", Some(("0.0.0.0", 8080, 80)));
        check("127.0.0.1:8080:80", Some(("127.0.0.1", 8080, 80)));
        check("[::1]:8080:80", Some(("::1", 8080, 80)));
        for bad in
            ["", ":80", "80:", "x", "+80", "65536", "a:1:2", "::1:8080:80", "1.2.3:1:2", "8080/udp"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn a_mount_has_two_absolute_paths() {
        let mount = app_mount("/srv/a b:/data:ro").unwrap();
        assert_eq!((mount.source.as_str(), mount.target.as_str()), ("/srv/a b", "/data"));
        assert!(mount.read_only && !mount.is_folder);
        assert!(app_mount("/srv/:/data").unwrap().is_folder);
        for bad in ["", "/a", "a:/b", "/a:b", "/a:/b:/c", "/a:/b:rx", "/a\n:/b"] {
            assert!(app_mount(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_health_address_has_a_port() {
        assert_eq!(
            app_health("http://127.0.0.1:9090/-/healthy"),
            Some((9090, "/-/healthy".into()))
        );
        assert_eq!(app_health("http://[::1]:9090"), Some((9090, "/".into())));
        for bad in ["", "http://h/x", "https://h:1/", "http://:1/", "http://h:1/a b"] {
            assert!(app_health(bad).is_none(), "{bad}");
        }
    }
}
