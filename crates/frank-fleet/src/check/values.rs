//! Values that are texts of a form: sizes, addresses, arguments of programs.

use std::net::IpAddr;

use frank_plan::parse_size;

use crate::fault::Fault;

/// A size with a unit.
pub(super) fn check_size(text: Option<&str>, at: &str, faults: &mut Vec<Fault>) {
    let Some(text) = text else { return };
    match parse_size(text) {
        Err(error) => faults.push(Fault::error("bad_size", at, error.to_string())),
        Ok(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let message = format!("`{text}` has no unit");
            faults.push(Fault::error("bad_size", at, message).hint("as `4GiB` or `500MB`"));
        }
        Ok(_) => {}
    }
}

/// A text that a program gets as an argument or the environment: none holds a zero byte, and a name or a path has no other
/// control character either.
pub(super) fn check_text(text: &str, at: &str, faults: &mut Vec<Fault>) {
    if text.is_empty() {
        faults.push(Fault::error("empty", at, "it is empty"));
    } else if text.contains(|char: char| char.is_control()) {
        faults.push(Fault::error("control_character", at, "it holds a control character"));
    }
}

/// A value that may have several lines, and not a zero byte.
pub(super) fn check_value(text: &str, at: &str, faults: &mut Vec<Fault>) {
    if text.contains('\0') {
        let message = "it holds a zero byte, which no program can be given";
        faults.push(Fault::error("control_character", at, message));
    }
}

/// An address to listen on.
pub(super) fn check_bind(text: Option<&str>, at: &str, faults: &mut Vec<Fault>) {
    let Some(text) = text else { return };
    if text.parse::<IpAddr>().is_err() {
        let message = format!("`{}` is no IP address", text.escape_debug());
        let hint = "as `127.0.0.1`, `192.168.1.10` or `::`";
        faults.push(Fault::error("bad_address", at, message).hint(hint));
    }
}

/// A count that makes no sense when it is 0.
pub(super) fn check_count(count: Option<u32>, at: &str, faults: &mut Vec<Fault>) {
    if count == Some(0) {
        faults.push(Fault::error("zero", at, "0 makes no sense here"));
    }
}
