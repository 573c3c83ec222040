//! Where secrets are, and what looks like one. Never holds one.

use std::fmt;

/// Where a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretPlace<'a> {
    /// A variable of the environment of whoever deploys: `env:NAME`.
    Env(&'a str),
    /// A file on the host: `file:PATH`.
    File(&'a str),
    /// A credential of systemd or a secret of podman or of the cluster: `credential:NAME`.
    Credential(&'a str),
}

impl fmt::Display for SecretPlace<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretPlace::Env(name) => write!(out, "env:{name}"),
            SecretPlace::File(path) => write!(out, "file:{path}"),
            SecretPlace::Credential(name) => write!(out, "credential:{name}"),
        }
    }
}

/// Where the secret is that `text` names; `None` when it is a plain value.
pub fn secret_place(text: &str) -> Option<SecretPlace<'_>> {
    let (kind, rest) = text.split_once(':')?;
    match kind {
        _ if rest.is_empty() => None,
        "env" => Some(SecretPlace::Env(rest)),
        "file" => Some(SecretPlace::File(rest)),
        "credential" => Some(SecretPlace::Credential(rest)),
        _ => None,
    }
}

/// Words whose presence in a name makes its value a secret.
const SECRET_WORDS: [&str; 9] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
    "PWD",
];

/// Last words of a name that say that its value is where something is.
const PLACE_WORDS: [&str; 5] = ["FILE", "PATH", "DIR", "URL", "ID"];

/// What keys of well-known services begin with.
const SECRET_PREFIXES: [&str; 11] = [
    "hf_",
    "sk-",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "Bearer ",
    "-----BEGIN ",
];

/// Characters of the shortest key of a well-known service; shorter is a word that begins alike.
const SECRET_CHARS_MIN: usize = 16;

/// Whether the value of a variable or option of this name is a secret: `HF_TOKEN`, `api-key`, `DB_PASSWORD`, and not
/// `api-key-file`, `max-tokens` or `PWD`.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let upper = name.trim_start_matches('-').to_uppercase().replace(['-', '.'], "_");
    let words: Vec<&str> = upper.split('_').filter(|word| !word.is_empty()).collect();
    let Some(last) = words.last() else { return false };
    if PLACE_WORDS.contains(last) || words == ["PWD"] {
        return false;
    }
    matches!(*last, "KEY" | "KEYS") || words.iter().any(|word| SECRET_WORDS.contains(word))
}

/// Whether a value looks like a secret whatever it is called: a key of a well-known service, or an address with a
/// password in it or with a signature.
pub(crate) fn is_secret_value(value: &str) -> bool {
    let is_key = |prefix: &&str| value.starts_with(*prefix) && value.len() >= SECRET_CHARS_MIN;
    SECRET_PREFIXES.iter().any(is_key) || has_password(value) || is_signed(value)
}

/// Whether it is an address as `scheme://user:password@host`.
fn has_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| {
        user.split_once(':').is_some_and(|(_, password)| !password.is_empty())
    })
}

/// Whether it is an address that carries a signature or a token in its query.
fn is_signed(value: &str) -> bool {
    let Some((_, query)) = value.split_once("://").and_then(|(_, rest)| rest.split_once('?'))
    else {
        return false;
    };
    query.split('&').filter_map(|pair| pair.split_once('=')).any(|(name, value)| {
        let lower = name.to_lowercase();
        !value.is_empty() && (lower.ends_with("signature") || is_secret_name(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_names_of_files_and_counts() {
        for name in
            ["HF_TOKEN", "api-key", "OPENAI_API_KEY", "db.password", "MY_SECRET", "--api-key"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "api-key-file",
            "SSL_KEY_PATH",
            "max-tokens",
            "PWD",
            "tokenizer",
            "cache-type-k",
            "KEYBOARD",
            "",
            "AWS_ACCESS_KEY_ID",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn values_of_secrets_are_known_by_their_form() {
        for value in [
            "hf_abcdefghijklmnop",
            "sk-abcdefghijklmnopq",
            "postgres://me:pw@db/x",
            "-----BEGIN PRIVATE KEY-----",
            "https://h/m?X-Amz-Signature=00ff",
            "https://h/m?a=1&token=x",
        ] {
            assert!(is_secret_value(value), "{value}");
        }
        for value in [
            "hf_transfer",
            "https://h/m?version=2",
            "ssh://me@box",
            "sk-en",
            "http://[::1]:7770/x@y",
        ] {
            assert!(!is_secret_value(value), "{value}");
        }
    }
}
