//! Behaviour of fetching into the store and of opening model files.
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod damage;
mod fake_pip;
mod fetching;
mod interruption;
mod opening;
mod refusals;
mod rewriting;
