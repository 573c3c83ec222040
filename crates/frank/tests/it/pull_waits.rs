//! What `frank pull` says while a hub is long in answering.

use frank_testkit::mock_hub::{Answer, Fault, Place, Rule};

use crate::hub_home::{HubHome, TINY};

#[test]
fn a_hub_that_fails_in_passing_is_told_of_on_stderr_with_try_pause_and_reason() {
    for args in [&["pull", TINY][..], &["pull", "--list", TINY]] {
        let home = HubHome::tiny();
        let busy = Answer::status(503);
        home.hub.add(Rule::new(Place::Api, "/revision/", Fault::Answer(busy)).times(1));
        let run = home.frank(args).ended(0);
        let first = run.stderr.lines().next().expect("a line");
        assert!(first.starts_with("list: try 2 in 0.") && first.contains("HTTP 503"), "{run:?}");
        assert!(!run.stdout.contains("try 2"), "{run:?}");
    }
}
