//! Why a file is no model that frank can run, or a step was not computed. States the fact and the place; advice is the
//! binary's.

use frank_experts::StoreError;
use frank_gguf::GgufError;
use frank_hub::OpenError;
use frank_kernels::PackError;
use frank_os::OsError;
use thiserror::Error;

/// What a header lacks, or says that cannot be.
#[derive(Debug, Error)]
pub enum ArchError {
    /// No family of this name is known.
    #[error("architecture {name:?} is not known (known: {known})")]
    Unknown {
        /// As the file spells it.
        name: String,
        /// All that are known.
        known: String,
    },
    /// A key that the family cannot do without.
    #[error("metadata key {key} is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A key with a value that cannot be.
    #[error("metadata key {key} is {value}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What it breaks.
        reason: &'static str,
    },
    /// A tensor that the family cannot do without.
    #[error("tensor {name} is missing")]
    MissingTensor {
        /// The tensor.
        name: String,
    },
    /// A tensor of another shape than the metadata says.
    #[error("tensor {name} has shape {got:?}, {want:?} expected")]
    TensorShape {
        /// The tensor.
        name: String,
        /// Its dimensions, fastest first.
        got: Vec<u64>,
        /// Those that the metadata gives.
        want: Vec<u64>,
    },
    /// A tensor of a type that the kernels do not multiply.
    #[error("tensor {name} has type {type_name} (id {type_id}), one of {known} expected")]
    TensorType {
        /// The tensor.
        name: String,
        /// Name of its type, and whether it was removed from the format.
        type_name: String,
        /// Id of its type.
        type_id: u32,
        /// Types that would do.
        known: &'static str,
    },
    /// Tensors that this family does not have: the file is of a variant that would compute wrongly.
    #[error("tensor {name} is not part of {arch} ({n_more} more like it)")]
    UnusedTensor {
        /// Architecture of the file.
        arch: &'static str,
        /// The first such tensor.
        name: String,
        /// Others beside it.
        n_more: usize,
    },
    /// Experts of one layer whose matrices are not of one type.
    #[error("tensor {name} is not of the type of {first}")]
    ExpertTypes {
        /// The tensor.
        name: String,
        /// That of the layer's first expert.
        first: String,
    },
    /// Heads that a quantized type of keys or values does not divide.
    #[error(
        "{side} heads have {dim} components, and keys and values in {kv_type} need a multiple of {multiple}"
    )]
    KvHead {
        /// `key` or `value`.
        side: &'static str,
        /// Components of such a head.
        dim: usize,
        /// The type that was asked for.
        kv_type: &'static str,
        /// What it takes.
        multiple: usize,
    },
    /// A matrix whose rows are not whole blocks.
    #[error("tensor {name}")]
    Pack {
        /// The tensor.
        name: String,
        /// What does not fit.
        source: PackError,
    },
    /// The metadata cannot be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
}

/// Why a model was not loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file is no such model.
    #[error(transparent)]
    Arch(#[from] ArchError),
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] OpenError),
    /// The memory that was planned is not given.
    #[error(transparent)]
    Memory(#[from] OsError),
    /// The experts cannot be read, or their memory is not given.
    #[error(transparent)]
    Experts(#[from] StoreError),
    /// The process may not have the threads that are to compute.
    #[error("cannot start {n_threads} threads that compute")]
    Threads {
        /// Threads asked for.
        n_threads: usize,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Why a step was not computed.
#[derive(Debug, Error)]
pub enum StepError {
    /// The experts of a layer cannot be had. Says the reason too, so it is no source.
    #[error("{}", with_causes(.0))]
    Experts(StoreError),
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Experts(error)
    }
}

/// An error and all that lies behind it, as one sentence.
fn with_causes(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
