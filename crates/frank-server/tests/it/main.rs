//! The endpoint as a client sees it: over loopback, with a model that follows a script.

mod access;
mod answers;
mod cancelling;
mod lifecycle;
mod openai_client;
mod refusals;
mod script;
mod server;
