//! JSON answers of the mock hub: what is tried again and after which pause, where redirects may lead, and what errors say.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use frank_hub::http::{Client, Delay, HttpError, Missing, Page, Patience, TokenUse, Tokens};
use frank_testkit::mock_hub::{Answer, Fault, Host, MockHub, Place, Repository, Rule};
use serde_json::{Value, json};
use url::Url;

const TOKEN: &str = "hf_ThisIsTheSecretOfTheTest";

struct Scene {
    hub: MockHub,
    tokens: Tokens,
    interrupt: Arc<AtomicBool>,
    pauses: Arc<Mutex<Vec<u64>>>,
}

impl Scene {
    fn new() -> Scene {
        let repository = Repository::new("org/repo").git("config.json", "{}");
        let hub = MockHub::start(vec![repository]);
        Scene { hub, tokens: Tokens::none(), interrupt: Arc::default(), pauses: Arc::default() }
    }

    fn with_token(mut self) -> Scene {
        self.tokens = Tokens::new(TOKEN, "a test", self.hub.endpoint().parse().unwrap()).unwrap();
        self
    }

    fn url(&self) -> Url {
        format!("{}/api/models/org/repo/revision/main", self.hub.endpoint()).parse().unwrap()
    }

    /// Every question about the repository is answered so, as often as `times` says.
    fn answering(&self, answer: Answer, times: u32) {
        let rule = Rule::new(Place::Api, "/org/repo", Fault::Answer(answer));
        self.hub.add(rule.times(times));
    }

    fn ask(&self) -> Result<Page<Value>, HttpError> {
        let pauses = Arc::clone(&self.pauses);
        let pause = Arc::new(move |pause: Duration| {
            pauses.lock().unwrap().push(pause.as_secs());
            Duration::ZERO
        });
        let patience = Patience { pause, ..Patience::default() };
        let client = Client::new(self.tokens.clone(), Some(Arc::clone(&self.interrupt))).unwrap();
        client.with_patience(patience).unwrap().json(&self.url(), &|_| ())
    }

    fn pauses(&self) -> Vec<u64> {
        self.pauses.lock().unwrap().clone()
    }
}

#[test]
fn a_busy_hub_is_asked_again_after_the_pause_it_wants() {
    let scene = Scene::new();
    scene.answering(Answer::status(429).header("retry-after", "7"), 1);
    scene.answering(Answer::status(503).header("retry-after", "99999"), 1);
    scene.answering(Answer::status(500), 1);
    assert_eq!(scene.ask().unwrap().value["id"], "org/repo");
    // What is wanted is bounded; where nothing is wanted, the pause is the usual one of at most 2 s after three failures.
    let pauses = scene.pauses();
    assert_eq!(pauses[..2], [7, 300]);
    assert!(pauses.len() == 3 && pauses[2] <= 2, "{pauses:?}");
}

#[test]
fn a_hub_that_stays_broken_is_given_up_after_a_number_of_tries() {
    let scene = Scene::new();
    scene.answering(Answer::status(502).body("  the upstream\n is away "), u32::MAX);
    let error = scene.ask().unwrap_err();
    assert!(
        error.to_string().ends_with("/org/repo/revision/main: HTTP 502: the upstream is away"),
        "{error}"
    );
    assert_eq!(scene.hub.requests().len(), 10);
    assert_eq!(scene.pauses().len(), 9);
}

#[test]
fn a_hub_that_is_not_there_is_tried_again_and_named() {
    let scene = Scene::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url: Url = format!("http://{closed}/").parse().unwrap();
    let client = Client::new(Tokens::none(), None).unwrap();
    let pause = Arc::new(|_| Duration::ZERO);
    let client =
        client.with_patience(Patience { attempts: 3, pause, ..Patience::default() }).unwrap();
    let error = client.json::<Value>(&url, &|_| ()).unwrap_err();
    assert_eq!(error.reason(), "http");
    assert!(
        error.to_string().starts_with(&format!("no answer from {closed}: Connection refused")),
        "{error}"
    );
    drop(scene);
}

/// The error of a question to `url`, and what was told while it was waited for.
fn told(url: &Url, patience: Patience) -> (HttpError, Vec<Delay>) {
    let told = RefCell::new(Vec::new());
    let client = Client::new(Tokens::none(), None).unwrap().with_patience(patience).unwrap();
    let tell = |delay: &Delay| told.borrow_mut().push(delay.clone());
    let error = client.json::<Value>(url, &tell).unwrap_err();
    (error, told.into_inner())
}

#[test]
fn a_hub_that_is_not_there_is_told_of_at_each_try_and_given_up_after_20_s() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url: Url = format!("http://{closed}/").parse().unwrap();
    let pause = Arc::new(|_| Duration::ZERO);
    let (error, told) = told(&url, Patience { pause, ..Patience::default() });
    let mut pauses = Duration::ZERO;
    for (index, delay) in told.iter().enumerate() {
        let Delay::Retry { error, attempt, pause } = delay else { panic!("{delay:?}") };
        assert_eq!((*attempt as usize, error.reason()), (index + 2, "http"));
        pauses += *pause;
    }
    // Longer pauses of half a second to 16 s, and never one that would go beyond.
    assert!((4..=6).contains(&told.len()), "{told:?}");
    assert!(pauses > Duration::from_secs(7) && pauses < Duration::from_secs(20), "{pauses:?}");
    assert!(told[0].to_string().contains(&format!("s: no answer from {closed}")), "{}", told[0]);
    assert!(error.hint().unwrap().contains("HF_ENDPOINT"), "{error}");
}

#[test]
fn a_hub_that_says_nothing_is_told_of_while_it_is_waited_for() {
    // Connections are taken by the system, and nobody answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url: Url = format!("http://{}/", silent.local_addr().unwrap()).parse().unwrap();
    let patience = Patience {
        connect: Duration::from_millis(50),
        idle: Duration::from_millis(50),
        quiet: Duration::from_millis(10),
        silent: Duration::from_secs(5),
        pause: Arc::new(|_| Duration::ZERO),
        ..Patience::default()
    };
    let (error, told) = told(&url, patience);
    assert!(matches!(error, HttpError::Stalled { .. }), "{error}");
    let is_silence = |delay: &Delay| matches!(delay, Delay::Silence { .. });
    assert!(is_silence(&told[0]) && !is_silence(&told[1]) && is_silence(&told[2]), "{told:?}");
    assert!(told.len() < 12, "{told:?}");
    assert!(told[0].to_string().starts_with("waiting for 127.0.0.1:"), "{}", told[0]);
}

#[test]
fn refusals_say_what_is_missing_and_are_not_tried_again() {
    let missing = |answer: Answer| {
        let scene = Scene::new();
        scene.answering(answer, u32::MAX);
        let error = scene.ask().unwrap_err();
        assert_eq!(scene.hub.requests().len(), 1, "{error}");
        error
    };
    let coded = |status, code| missing(Answer::status(status).header("x-error-code", code));
    let what = |error| match error {
        HttpError::NotFound { missing, .. } => missing,
        error => panic!("{error}"),
    };
    assert_eq!(what(coded(401, "RepoNotFound")), Missing::Repository);
    assert_eq!(what(coded(404, "RevisionNotFound")), Missing::Revision);
    assert_eq!(what(coded(404, "EntryNotFound")), Missing::File);
    assert_eq!(what(missing(Answer::status(410))), Missing::File);
    let gated = coded(403, "GatedRepo");
    assert!(matches!(gated, HttpError::Refused { token: TokenUse::Absent, .. }), "{gated}");
    let said = missing(Answer::status(400).header("x-error-message", "Bad  idea"));
    assert!(said.to_string().ends_with("HTTP 400: Bad idea"), "{said}");
}

#[test]
fn a_token_that_does_not_open_the_repository_is_said_apart() {
    let scene = Scene::new().with_token();
    scene.answering(Answer::status(403), u32::MAX);
    let error = scene.ask().unwrap_err();
    assert!(error.to_string().contains("the token that was sent does not open it"), "{error}");
    assert!(error.hint().unwrap().starts_with("accept the terms"));
}

#[test]
fn no_message_shows_the_token_even_where_the_server_does() {
    for status in [401, 403, 404, 400, 500] {
        let scene = Scene::new().with_token();
        let said = format!("{{\"error\":\"who is Bearer {TOKEN}?\"}}");
        let answer = Answer::status(status).body(said).header("x-request-id", TOKEN);
        scene.answering(answer, u32::MAX);
        let error = scene.ask().unwrap_err();
        let all = format!("{error} {error:?} {:?} {:?}", error.hint(), scene.tokens);
        assert!(!all.contains(TOKEN) && all.contains("[token]"), "{all}");
    }
}

#[test]
fn a_redirect_to_another_host_is_followed_without_the_token() {
    let scene = Scene::new().with_token();
    let elsewhere = format!("{}/somewhere", scene.hub.storage());
    scene.answering(Answer::redirect(302, &elsewhere), u32::MAX);
    let error = scene.ask().unwrap_err();
    assert!(matches!(error, HttpError::NotFound { .. }), "{error}");
    let requests = scene.hub.requests();
    let shown: Vec<_> =
        requests.iter().map(|request| (request.host, request.header("authorization"))).collect();
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(shown, [(Host::Hub, Some(bearer.as_str())), (Host::Storage, None)]);
}

#[test]
fn redirects_end_after_a_number_of_hops_and_never_lead_to_plain_http_elsewhere() {
    let scene = Scene::new();
    scene.answering(Answer::redirect(307, scene.url().path()), u32::MAX);
    assert!(matches!(scene.ask().unwrap_err(), HttpError::Redirects { .. }));
    assert_eq!(scene.hub.requests().len(), 9);
    scene.hub.behave();
    scene.answering(Answer::redirect(302, "http://192.0.2.1/model?key=secret"), u32::MAX);
    let error = scene.ask().unwrap_err();
    assert!(
        error.to_string().ends_with("redirected to http://192.0.2.1/model, which is not followed"),
        "{error}"
    );
}

#[test]
fn what_is_no_json_or_too_much_of_it_is_refused() {
    let scene = Scene::new();
    scene.answering(Answer::html(), 1);
    let error = scene.ask().unwrap_err();
    assert!(error.to_string().contains("the answer is not the JSON that was expected"), "{error}");
    scene.answering(Answer::status(200).body(vec![b' '; (16 << 20) + 1]), 1);
    let error = scene.ask().unwrap_err();
    assert!(error.to_string().ends_with("the answer is longer than 16777216 bytes"), "{error}");
}

#[test]
fn the_next_page_is_named_by_the_link_header() {
    let scene = Scene::new();
    let page = Answer::json(200, &json!([1])).header("link", "</api/next?cursor=2>; rel=\"next\"");
    scene.answering(page, 1);
    let page = scene.ask().unwrap();
    assert_eq!(page.value, json!([1]));
    assert_eq!(page.next.unwrap().as_str(), format!("{}/api/next?cursor=2", scene.hub.endpoint()));
    assert_eq!(scene.ask().unwrap().next, None);
}

#[test]
fn a_raised_flag_ends_a_call() {
    let scene = Scene::new();
    scene.interrupt.store(true, Ordering::Relaxed);
    scene.answering(Answer::status(500), u32::MAX);
    assert_eq!(scene.ask().unwrap_err(), HttpError::Interrupted);
}
