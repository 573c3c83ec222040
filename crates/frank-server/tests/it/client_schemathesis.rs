//! schemathesis asks for everything that the OpenAPI document has, and for much that it has not.

use std::process::Command;

use frank_testkit::assets;

use crate::client_programs::{Base, run};

/// Of generated requests: enough for every operation with every value at its bounds, and then for some at random.
const SECONDS: &str = "60";

/// Faults come back, as far as the time that each request takes lets them.
const SEED: &str = "1";

#[tokio::test(flavor = "multi_thread")]
async fn generated_requests_find_no_server_error_and_no_breach_of_the_document() {
    let mut command = Command::new(assets::schemathesis_python());
    command.env_clear();
    run(command, "schemathesis_routes.py", Base::Root, &[SECONDS, SEED]).await;
}
