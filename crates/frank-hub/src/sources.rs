//! Where payloads come from: one file per source. Never decides where a payload belongs.

pub(crate) mod pip;
