//! Behaviour of fetching into the store and of opening model files.
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod damage;
mod fake_pip;
mod fetching;
mod http_client;
mod hub_references;
mod interruption;
mod listing;
mod opening;
mod refusals;
mod rewriting;
mod store_copy;
mod store_in_use;
mod store_packaged;
mod store_pull;
mod store_scene;
mod store_touched;
mod store_trash;
mod store_unreadable;
mod store_unvouched;
mod store_upstream;
mod store_words;
mod transfer_faults;
mod transferring;
