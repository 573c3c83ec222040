//! Dialects read what clients send and write what they expect.

mod answers;
mod docs;
mod models;
mod properties;
mod requests;
mod sampling;
mod transcripts;

use frank_api::{DIALECTS, Dialect};

fn dialect(name: &str) -> &'static Dialect {
    DIALECTS.iter().find(|dialect| dialect.name == name).expect("the table has this dialect")
}
