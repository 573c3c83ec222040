//! Addresses that carry a signature or a key in their query, and what is left of them without. Never asks a server.

use percent_encoding::percent_decode_str;
use url::Url;

/// How the names of parameters begin that are part of a signature, or are keys to one request.
const PREFIXES: &[&str] = &["x-amz-", "x-goog-", "x-oss-", "x-cos-", "q-sign", "hdnts", "hdnea"];

/// Names of parameters that are keys, or say how long and for whom a signature holds.
const NAMES: &[&str] = &[
    "access-key",
    "access-token",
    "accesskey",
    "accesstoken",
    "api-key",
    "apikey",
    "auth",
    "auth-key",
    "auth-token",
    "authorization",
    "awsaccesskeyid",
    "credential",
    "credentials",
    "exp",
    "expire",
    "expires",
    "expiry",
    "googleaccessid",
    "hash-algorithm",
    "hmac",
    "jwt",
    "key",
    "key-pair-id",
    "ossaccesskeyid",
    "password",
    "policy",
    "q-ak",
    "q-header-list",
    "q-key-time",
    "q-url-param-list",
    "secret",
    "security-token",
    "session",
    "session-token",
    "sig",
    "sign",
    "signature",
    "signed-headers",
    "token",
    "x-api-key",
];

/// What stands beside a `sig` in a shared access signature. Alone these may be anything.
const BESIDE_SIG: &[&str] = &[
    "saoid", "scid", "sdd", "se", "ses", "si", "sip", "ske", "skoid", "sks", "skt", "sktid", "skv",
    "sp", "spr", "sr", "srt", "ss", "st", "suoid", "sv",
];

/// The address without what signs a request for it, which neither lasts nor may be kept. What is left names the file, and can
/// be asked again by whoever may read it.
pub(super) fn unsigned(url: &Url) -> Url {
    let Some(query) = url.query() else { return url.clone() };
    let parameters: Vec<&str> = query.split('&').collect();
    let is_shared = parameters.iter().any(|parameter| name(parameter) == "sig");
    let kept = parameters.into_iter().filter(|parameter| {
        let name = name(parameter);
        let is_beside = is_shared && BESIDE_SIG.contains(&name.as_str());
        !(is_beside || is_signing(&name))
    });
    let kept: Vec<&str> = kept.collect();
    if kept.join("&") == query {
        return url.clone();
    }
    let mut plain = url.clone();
    plain.set_query(Some(kept.join("&").as_str()).filter(|query| !query.is_empty()));
    plain
}

fn is_signing(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The name of a parameter in small letters, with `-` for `_`.
fn name(parameter: &str) -> String {
    let name = parameter.split('=').next().unwrap_or_default();
    let name = percent_decode_str(name).decode_utf8_lossy();
    name.to_ascii_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_without_what_signs_it() {
        let check = |query: &str, kept: &str| {
            let url: Url = format!("https://h.example/d/m.gguf{query}").parse().unwrap();
            assert_eq!(
                unsigned(&url).as_str(),
                format!("https://h.example/d/m.gguf{kept}"),
                "{query}"
            );
        };
        check("", "");
        check("?download=true", "?download=true");
        check("?versionId=a%20b&x=1&&y", "?versionId=a%20b&x=1&&y");
        check(
            "?X-Amz-Algorithm=A&X-Amz-Credential=s%2Ft&x-amz-signature=s&X-Amz-Security-Token=s",
            "",
        );
        check("?versionId=3&X%2DAmz%2DSignature=s&id=4", "?versionId=3&id=4");
        check("?X-Goog-Signature=s&generation=7", "?generation=7");
        check("?Expires=9&Signature=s&Key-Pair-Id=K&Policy=p", "");
        check("?AWSAccessKeyId=s&Expires=9&Signature=s", "");
        check("?sv=2024&st=a&se=b&sr=b&sp=r&sig=s&snapshot=5", "?snapshot=5");
        check("?sp=3&st=a", "?sp=3&st=a");
        check("?token=s&access_token=s&api_key=s&file=1", "?file=1");
        check("?q-sign-algorithm=sha1&q-ak=s&q-signature=s&q=1", "?q=1");
    }
}
