//! Broken model files by the kind of their breakage, each with what its error has to name. Never reads one itself.
//!
//! [`headers`] and [`models`] are breakages with a name, many of them reported against other programs; [`limits`] are
//! all numbers of a header at the limits of their width. Whoever reads model files tests with all of them.

mod field;
mod headers;
mod limits;
mod models;
mod tokenizers;

pub use limits::{Limit, all_types, limits};
pub use models::{families, valid};

/// A broken file.
#[derive(Debug, Clone)]
pub struct Broken {
    /// What is wrong with it.
    pub name: String,
    /// The file.
    pub bytes: Vec<u8>,
    /// Who notices.
    pub refused: Refused,
    /// One of these stands in the error.
    pub names: Vec<String>,
}

/// Who refuses a broken file first. All who read more of it refuse it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Whoever reads the header.
    Header,
    /// Whoever looks for the other parts of the model.
    Parts,
    /// Whoever wants all parts of the model; the first alone can be inspected and planned.
    OtherParts,
    /// Whoever wants all tensors in full; a header alone can be inspected and planned.
    Data,
    /// Whoever makes a model or its tokenizer of it; it can still be inspected and planned.
    Model,
}

/// Every kind of breakage that shows in a header alone, in the number of parts or in the bytes of the file.
pub fn headers() -> Vec<Broken> {
    headers::kinds()
}

/// Every kind of breakage of what the model families and the tokenizers read. Each is made when it is asked for: they
/// are whole models.
pub fn models() -> impl Iterator<Item = Broken> {
    models::kinds().chain(tokenizers::kinds())
}

/// Models whose chat template refuses every conversation; all else about them is whole.
pub fn templates() -> Vec<Broken> {
    tokenizers::templates()
}

/// Every number that a model family reads from the metadata, at the limits of its type.
pub fn model_limits() -> impl Iterator<Item = Limit> {
    models::limits()
}

/// Memory that opening a file of so many bytes may take, whatever stands in it.
///
/// The worst honest case is a list of empty strings: 8 bytes in the file, 24 in memory, twice that while the list grows.
/// Keys and tensors stay below that, names included. On top come the read buffer of 64 KiB and one chunk of a string
/// that turns out to be cut off.
pub fn memory_max(file_bytes: usize) -> u64 {
    (192 << 10) + 16 * file_bytes as u64
}

impl Broken {
    fn new(refused: Refused, name: impl Into<String>, bytes: Vec<u8>, names: &[&str]) -> Broken {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Broken { name: name.into(), bytes, refused, names }
    }
}
