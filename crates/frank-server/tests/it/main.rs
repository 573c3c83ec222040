//! The endpoint as a client sees it: over loopback, with a model that follows a script.

mod access;
mod answers;
mod cancelling;
mod choices;
mod failing_reads;
mod formats;
mod lifecycle;
mod logprobs;
mod openai_client;
mod prefix_cache;
mod refusals;
mod sampling;
mod script;
mod server;
mod summary;
