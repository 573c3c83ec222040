//! The steps of a pull, as people and programs know them. Never takes one.

use std::fmt;

use serde::Serialize;

/// The steps of a pull, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The source is asked what it has.
    List,
    /// The wanted files are found in it.
    Choose,
    /// What `frank.lock` says is compared with what the source says.
    Manifest,
    /// Another process has the payload.
    Wait,
    /// What is here already is looked at, and hashed where it was touched.
    Held,
    /// The room on the drive is compared with what is to come.
    Room,
    /// Bytes come in.
    Transfer,
    /// Sizes and digests are compared; fragments are checked for being fragments.
    Verify,
    /// Files get their names.
    Finalize,
    /// The lock file is written.
    Lock,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Step::List => "list",
            Step::Choose => "choose",
            Step::Manifest => "manifest",
            Step::Wait => "wait",
            Step::Held => "held",
            Step::Room => "room",
            Step::Transfer => "transfer",
            Step::Verify => "verify",
            Step::Finalize => "finalize",
            Step::Lock => "lock",
        })
    }
}
