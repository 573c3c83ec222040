//! A panic ends the request that caused it, and nobody else's.

use frank_engine::{Constraint, ConstraintError, Engine, EngineEvent, Health, Request};

use crate::script::POISON;
use crate::together::{assert_idle, events, mates, request, start, together};

/// What these requests get from an engine of their own, and that engine.
fn in_one_engine(requests: Vec<Request>) -> (Vec<Vec<EngineEvent>>, Engine) {
    let (engine, controls) = start();
    (together(&engine, &controls, requests), engine)
}

#[test]
fn the_mates_of_a_request_that_panics_go_on_with_the_same_tokens() {
    let (expected, _) = in_one_engine(mates());
    // The poison comes at once, and again as the last token of a longer prompt.
    let mut requests = mates();
    requests.insert(0, request(vec![POISON]));
    requests.push(request([vec![3; 60], vec![POISON]].concat()));
    let (mut got, engine) = in_one_engine(requests);
    let failed = EngineEvent::Failed("a step failed: the poisoned token".to_owned());
    for poisoned in [got.pop(), Some(got.remove(0))] {
        assert_eq!(poisoned.expect("four answers").last(), Some(&failed));
    }
    assert_eq!(got, expected);
    assert_eq!(engine.health(), Health::Ok);
    assert_idle(&engine);
}

#[test]
fn a_request_that_fails_leaves_no_page_of_the_failing_step() {
    let (engine, controls) = start();
    controls.allow(1000);
    // Two pages are computed in the first step; the second holds the poison.
    let prompt = [vec![5; 70], vec![POISON], vec![5; 29]].concat();
    let got = events(engine.submit(request(prompt)).expect("taken"));
    assert!(matches!(got.last(), Some(EngineEvent::Failed(_))), "{got:?}");
    let got = events(engine.submit(request(vec![5; 100])).expect("taken"));
    assert_eq!(got[0], EngineEvent::Started { cached_tokens: 64 });
}

#[derive(Debug)]
struct Faulty {
    panics: bool,
    n_left: usize,
}

impl Constraint for Faulty {
    fn allowed(&mut self, mask: &mut [u32]) -> Result<(), ConstraintError> {
        mask.fill(u32::MAX);
        Ok(())
    }

    fn accept(&mut self, _: u32) -> Result<(), ConstraintError> {
        if self.n_left > 0 {
            self.n_left -= 1;
            return Ok(());
        }
        assert!(!self.panics, "a constraint, expected in this test");
        Err(ConstraintError("too deep".to_owned()))
    }
}

#[test]
fn a_constraint_that_panics_or_gives_up_ends_its_own_request_only() {
    let (expected, _) = in_one_engine(mates());
    for (panics, reason) in [
        (true, "the choice of a token failed: a constraint, expected in this test"),
        (false, "the answer cannot be kept to its grammar: too deep"),
    ] {
        let constraint: Box<dyn Constraint> = Box::new(Faulty { panics, n_left: 2 });
        let faulty = Request { constraint: Some(constraint), ..request(vec![10]) };
        let (mut got, engine) =
            in_one_engine(mates().into_iter().chain(std::iter::once(faulty)).collect());
        let faulty = got.pop().expect("three answers");
        assert_eq!(faulty.len(), 1 + 2 + 1, "{faulty:?}");
        assert_eq!(faulty.last(), Some(&EngineEvent::Failed(reason.to_owned())));
        assert_eq!(got, expected);
        assert_eq!(engine.stats().kv_blocks_used, 0);
    }
}

/// Allows each token of a list in turn, then nothing.
#[derive(Debug)]
struct List(Vec<u32>);

impl Constraint for List {
    fn allowed(&mut self, mask: &mut [u32]) -> Result<(), ConstraintError> {
        mask.fill(0);
        if let Some(&token_id) = self.0.first() {
            mask[token_id as usize / 32] |= 1 << (token_id % 32);
        }
        Ok(())
    }

    fn accept(&mut self, token_id: u32) -> Result<(), ConstraintError> {
        assert_eq!(self.0.remove(0), token_id);
        Ok(())
    }
}

fn answer(request: Request) -> Vec<EngineEvent> {
    let (mut got, _) = in_one_engine(vec![request]);
    got.pop().expect("one answer").split_off(1)
}

fn token_ids(events: &[EngineEvent]) -> Vec<u32> {
    let token_id = |event: &EngineEvent| match event {
        EngineEvent::Token(token) => Some(token.token_id),
        _ => None,
    };
    events.iter().filter_map(token_id).collect()
}

#[test]
fn a_constraint_chooses_among_what_it_allows_and_ends_the_answer_when_that_is_nothing() {
    let constraint: Box<dyn Constraint> = Box::new(List(vec![40, 7, 900]));
    let got = answer(Request { constraint: Some(constraint), ..request(vec![10]) });
    assert_eq!(token_ids(&got), [40, 7, 900]);
    assert!(matches!(
        got.last(),
        Some(EngineEvent::Finished(frank_engine::FinishReason::Stop, usage)) if usage.completion_tokens == 3
    ));
}

#[test]
fn no_end_token_comes_before_an_answer_has_its_least_length() {
    let short = Request { end_tokens: vec![11], ..request(vec![10]) };
    assert_eq!(token_ids(&answer(short)), [] as [u32; 0]);
    let longer = Request { end_tokens: vec![11], min_tokens: 3, ..request(vec![10]) };
    let got = token_ids(&answer(longer));
    assert!(got.len() >= 3 && !got.contains(&11), "{got:?}");
}
