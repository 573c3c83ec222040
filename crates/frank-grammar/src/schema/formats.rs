//! Formats of strings and numbers: those that the compiler checks, those that are regular expressions here, and those
//! that say nothing about an answer.

/// What is done about a format of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// The compiler has an expression under this name.
    Compiled(&'static str),
    /// An expression for the whole string, and the most characters that the string has.
    Expression(&'static str, Option<u64>),
    /// It says how a string is shown.
    Annotation,
}

/// A day, with the 29th of February in leap years alone.
macro_rules! date {
    () => {
        concat!(
            "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])",
            "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))",
            "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
        )
    };
}

/// A time with its zone. A leap second, which only one minute of some days has, is none.
macro_rules! time {
    () => {
        concat!(
            "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?",
            "(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
        )
    };
}

/// Labels of at most 63 characters without two hyphens in a row.
macro_rules! hostname {
    () => {
        concat!(
            "[a-zA-Z0-9]{1,15}(?:-?[a-zA-Z0-9]{1,15}){0,3}",
            "(?:\\.[a-zA-Z0-9]{1,15}(?:-?[a-zA-Z0-9]{1,15}){0,3})*"
        )
    };
}

/// Words between dots, of at most 62 characters in all, before a hostname.
macro_rules! email {
    () => {
        concat!(
            "^[a-zA-Z0-9!#$%&'*+/=?^_{|}~-]{1,20}(?:\\.[a-zA-Z0-9!#$%&'*+/=?^_{|}~-]{1,20}){0,2}@",
            hostname!(),
            "$"
        )
    };
}

/// A relative path, or one after a scheme and a host.
macro_rules! uri_reference {
    () => {
        concat!(
            "^(?:(?:[a-zA-Z][a-zA-Z0-9+.-]*://[a-zA-Z0-9._~-]+(?::[0-9]{1,5})?)?",
            "(?:/(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})*)*",
            "|(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})+",
            "(?:/(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})*)*)",
            "(?:\\?(?:[a-zA-Z0-9._~!$&'()*+,;=:@/?-]|%[0-9a-fA-F]{2})*)?",
            "(?:#(?:[a-zA-Z0-9._~!$&'()*+,;=:@/?-]|%[0-9a-fA-F]{2})*)?$"
        )
    };
}

/// What an international form allows beyond the plain one is left out.
static FORMATS: &[(&str, Format)] = &[
    ("date-time", Format::Expression(concat!("^", date!(), "[tT]", time!(), "$"), None)),
    ("date", Format::Expression(concat!("^", date!(), "$"), None)),
    ("time", Format::Expression(concat!("^", time!(), "$"), None)),
    ("duration", Format::Compiled("duration")),
    ("email", Format::Expression(email!(), Some(254))),
    ("idn-email", Format::Expression(email!(), Some(254))),
    ("hostname", Format::Expression(concat!("^", hostname!(), "$"), Some(253))),
    ("idn-hostname", Format::Expression(concat!("^", hostname!(), "$"), Some(253))),
    ("ipv4", Format::Compiled("ipv4")),
    ("ipv6", Format::Compiled("ipv6")),
    ("uuid", Format::Compiled("uuid")),
    ("uri", Format::Compiled("uri")),
    ("iri", Format::Compiled("uri")),
    ("uri-reference", Format::Expression(uri_reference!(), None)),
    ("iri-reference", Format::Expression(uri_reference!(), None)),
    ("json-pointer", Format::Expression("^(?:/(?:[^/~]|~[01])*)*$", None)),
    (
        "relative-json-pointer",
        Format::Expression("^(?:0|[1-9][0-9]{0,8})(?:#|(?:/(?:[^/~]|~[01])*)*)$", None),
    ),
    (
        "byte",
        Format::Expression(
            "^(?:[a-zA-Z0-9+/]{4})*(?:[a-zA-Z0-9+/]{2}==|[a-zA-Z0-9+/]{3}=)?$",
            None,
        ),
    ),
    ("binary", Format::Annotation),
    ("password", Format::Annotation),
];

/// Whole numbers that a double holds exactly, a little within the bounds of 64 bits.
const INT64: i64 = 9_000_000_000_000_000_000;

/// Numbers of formats: the least and the greatest, where there are such.
static NUMBERS: &[(&str, Option<(i64, i64)>)] = &[
    ("int8", Some((-128, 127))),
    ("int16", Some((-32_768, 32_767))),
    ("int32", Some((-2_147_483_648, 2_147_483_647))),
    ("int64", Some((-INT64, INT64))),
    ("uint8", Some((0, 255))),
    ("uint16", Some((0, 65_535))),
    ("uint32", Some((0, 4_294_967_295))),
    ("uint64", Some((0, INT64))),
    ("uint", Some((0, INT64))),
    ("float", None),
    ("double", None),
    ("decimal", None),
];

/// The format of strings of this name.
pub(super) fn of_strings(name: &str) -> Option<Format> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
}

/// The bounds of numbers of the format of this name.
pub(super) fn of_numbers(name: &str) -> Option<(i64, i64)> {
    NUMBERS.iter().find(|(known, _)| *known == name).and_then(|(_, bounds)| *bounds)
}

/// The names of all formats of strings.
pub(super) fn names() -> String {
    FORMATS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
