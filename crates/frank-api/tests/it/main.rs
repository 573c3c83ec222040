//! Dialects read what clients send and write what they expect.

mod answers;
mod docs;
mod messages;
mod messages_agent;
mod messages_docs;
mod messages_order;
mod messages_stream;
mod models;
mod openapi;
mod properties;
mod requests;
mod responses;
mod responses_any;
mod responses_docs;
mod responses_order;
mod sampling;
mod streams;
mod thinking;
mod tools;
mod transcripts;

use frank_api::{DIALECTS, Dialect};

fn dialect(name: &str) -> &'static Dialect {
    DIALECTS.iter().find(|dialect| dialect.name == name).expect("the table has this dialect")
}
