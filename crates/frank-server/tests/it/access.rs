//! Who may ask: keys, hosts, origins.

use std::io::Write;

use frank_server::{ApiKeys, KeyFileError, ServerOptions};
use reqwest::header::{HOST, ORIGIN};
use serde_json::json;

use crate::server::{Setup, TestServer, ask, server_that_says};

fn keys(text: &str) -> Result<ApiKeys, KeyFileError> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("a file that can be written");
    ApiKeys::from_file(file.path())
}

async fn server_with_keys() -> TestServer {
    let api_keys = keys("# for the laptop\nfirst-key\n\n  second-key  \n").expect("two keys");
    Setup { options: ServerOptions { api_keys, ..ServerOptions::default() }, ..Setup::default() }
        .start()
        .await
}

#[tokio::test]
async fn keys_guard_everything_but_health_and_the_page() {
    let server = server_with_keys().await;
    let body = ask("Hi", json!({}));
    let status = async |name: &str, value: &str| {
        let request = server.post("/v1/chat/completions", &body).header(name, value);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("authorization", "Bearer first-key").await, 200);
    assert_eq!(status("authorization", "bearer second-key").await, 200);
    assert_eq!(status("x-api-key", "second-key").await, 200);
    for (name, value) in [
        ("authorization", "Bearer wrong-key"),
        ("authorization", "Bearer first-ke"),
        ("authorization", "Bearer first-key2"),
        ("authorization", "Bearer "),
        ("authorization", "Basic first-key"),
        ("authorization", "first-key"),
        ("x-api-key", ""),
        ("x-api-key", "# for the laptop"),
        ("x-other", "first-key"),
    ] {
        assert_eq!(status(name, value).await, 401, "{name}: {value}");
    }
    let both = server.post("/v1/chat/completions", &body).header("x-api-key", "first-key");
    let both = both.header("authorization", "Bearer of-the-client-library").send().await.unwrap();
    assert_eq!(both.status(), 200, "a bearer does not hide the other header");
    for path in ["/v1/models", "/metrics", "/nothing"] {
        let response = server.get(path).send().await.unwrap();
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert_eq!(response.status(), 401, "{path}");
    }
    for path in ["/", "/health"] {
        assert_eq!(server.get(path).send().await.unwrap().status(), 200, "{path}");
    }
}

#[test]
fn a_key_file_that_cannot_be_used_is_named_with_its_line_and_without_its_keys() {
    let message = |text: &str| keys(text).unwrap_err().to_string();
    assert!(message("# only comments\n\n").ends_with("holds no key"));
    for line in ["se cret three words", "name secret none", "name secret 0", "clé secret"] {
        let malformed = message(&format!("good\n{line}\n"));
        assert!(malformed.contains("line 2") && !malformed.contains("cret"), "{malformed}");
    }
    let repeated = message("laptop first-key\nphone first-key\n");
    assert!(repeated.contains("line 2") && !repeated.contains("first"), "{repeated}");
    assert!(message("laptop first-key\nlaptop second-key\n").contains("line 2"));
    assert!(message("clé\n").contains("line 1"));
    let missing =
        ApiKeys::from_file(std::path::Path::new("/no/such/keys")).unwrap_err().to_string();
    assert!(missing.starts_with("key file /no/such/keys: "), "{missing}");
    assert_eq!(format!("{:?}", keys("hidden").unwrap()), "ApiKeys(1 keys)");
}

#[tokio::test]
async fn a_host_name_that_was_rebound_to_loopback_is_refused() {
    let server = server_that_says("Hello.").await;
    let status = async |host: &str| {
        let response = server.get("/v1/models").header(HOST, host).send().await.unwrap();
        response.status().as_u16()
    };
    assert_eq!(status("localhost:7770").await, 200);
    assert_eq!(status("evil.example:7770").await, 403);
    let body = ask("Hi", json!({}));
    let post = server
        .post("/v1/chat/completions", &body)
        .header(HOST, "evil.example")
        .send()
        .await
        .unwrap();
    assert_eq!(post.json::<serde_json::Value>().await.unwrap()["error"]["code"], "unknown_host");
}

#[tokio::test]
async fn a_page_of_a_stranger_cannot_post_and_an_allowed_one_can() {
    let options = ServerOptions {
        allowed_origins: vec!["https://chat.example.com".parse().unwrap()],
        ..ServerOptions::default()
    };
    let server = Setup { options, ..Setup::default() }.start().await;
    let body = ask("Hi", json!({}));
    let post = |origin: &str| {
        server.post("/v1/chat/completions", &body).header(ORIGIN, origin.to_owned()).send()
    };
    let stranger = post("https://evil.example").await.unwrap();
    assert_eq!(stranger.status(), 403);
    assert!(stranger.headers().get("access-control-allow-origin").is_none());
    let allowed = post("https://chat.example.com").await.unwrap();
    assert_eq!(allowed.status(), 200);
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://chat.example.com");
    assert_eq!(allowed.headers()["vary"], "origin");
}

#[tokio::test]
async fn a_browser_that_asks_first_is_told_what_an_allowed_page_may_send() {
    let api_keys = keys("secret").unwrap();
    let server = Setup {
        options: ServerOptions { api_keys, ..ServerOptions::default() },
        ..Setup::default()
    }
    .start()
    .await;
    let ask_first = |origin: &str| {
        let request =
            server.client.request(reqwest::Method::OPTIONS, server.url("/v1/chat/completions"));
        let request = request
            .header(ORIGIN, origin.to_owned())
            .header("access-control-request-method", "POST");
        request.header("access-control-request-headers", "authorization, content-type").send()
    };
    let allowed = ask_first("http://localhost:3000").await.unwrap();
    assert_eq!(allowed.status(), 204);
    assert_eq!(allowed.headers()["access-control-allow-origin"], "http://localhost:3000");
    assert_eq!(allowed.headers()["access-control-allow-headers"], "authorization, content-type");
    assert_eq!(ask_first("https://evil.example").await.unwrap().status(), 403);
    // Without an origin it is an ordinary request, and the route does not answer it.
    let plain = server.client.request(reqwest::Method::OPTIONS, server.url("/v1/models"));
    assert_eq!(plain.header("x-api-key", "secret").send().await.unwrap().status(), 405);
}
