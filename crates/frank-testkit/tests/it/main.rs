//! What the test support does that other crates build on.
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod mock_hub;
mod referee;
