//! A step that cannot read something of the model: who hears of it, who goes on, and what stays.

use frank_engine::{EngineEvent, Health};

use crate::script::{UNREAD, wait_until};
use crate::together::{assert_idle, events, mates, request, start, submitted, together};

const REASON: &str = "a step failed: cannot read expert 7 of layer 2: cannot read 512 bytes at offset 4096 of \
                      model.gguf: Input/output error (os error 5)";

fn failed() -> EngineEvent {
    EngineEvent::Failed(REASON.to_owned())
}

fn expected() -> Vec<Vec<EngineEvent>> {
    let (engine, controls) = start();
    together(&engine, &controls, mates())
}

#[test]
fn a_read_that_fails_once_in_a_step_of_several_costs_nobody_an_answer() {
    let (engine, controls) = start();
    let taken = submitted(&engine, mates());
    controls.allow(1);
    wait_until("the first step", || engine.stats().steps == 1);
    controls.break_reads(1);
    controls.allow(1000);
    let got: Vec<_> = taken.into_iter().map(events).collect();
    assert_eq!(got, expected());
    assert_eq!(controls.drive().n_failing, 0, "a read failed");
    assert_eq!(engine.health(), Health::Ok);
    assert_idle(&engine);
}

#[test]
fn an_expert_that_only_one_request_needs_fails_that_one_and_the_others_go_on_with_the_same_tokens()
{
    let (engine, controls) = start();
    controls.break_own_reads(usize::MAX);
    let mut requests = mates();
    // Its mates have had a step when it comes to the token that cannot be read.
    requests.insert(1, request(vec![UNREAD - 2]));
    let mut got = together(&engine, &controls, requests);
    let own = got.remove(1);
    assert_eq!((own.len(), own.last()), (4, Some(&failed())), "{own:?}");
    assert_eq!(got, expected());
    // The steps after it went well.
    assert_eq!(engine.health(), Health::Ok);
    assert_idle(&engine);
}

#[test]
fn when_nothing_can_be_read_every_request_fails_and_the_next_one_is_answered_when_reads_work_again()
{
    let (engine, controls) = start();
    controls.break_reads(usize::MAX);
    for got in together(&engine, &controls, mates()) {
        assert_eq!(got.last(), Some(&failed()), "{got:?}");
    }
    assert_eq!(engine.health(), Health::Failing(REASON.to_owned()));
    assert_idle(&engine);
    controls.break_reads(0);
    // Nothing but a step says that reads work again.
    assert_eq!(engine.health(), Health::Failing(REASON.to_owned()));
    assert_eq!(together(&engine, &controls, mates()), expected());
    assert_eq!(engine.health(), Health::Ok);
}

#[test]
fn what_a_failed_step_wrote_is_found_by_nobody() {
    let (engine, controls) = start();
    controls.break_reads(1);
    let prompt = vec![5; 100];
    let got = together(&engine, &controls, vec![request(prompt.clone())]);
    assert_eq!(got, [[EngineEvent::Started { cached_tokens: 0 }, failed()]]);
    let got = together(&engine, &controls, vec![request(prompt)]);
    assert_eq!(got[0][0], EngineEvent::Started { cached_tokens: 0 });
}

#[test]
fn a_failing_engine_says_that_it_has_stopped_when_it_has() {
    let (engine, controls) = start();
    controls.break_reads(usize::MAX);
    together(&engine, &controls, mates());
    engine.shutdown();
    assert_eq!(engine.health(), Health::Stopped);
}
