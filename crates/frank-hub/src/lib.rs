//! References, sources, verified download, the model store, and opening model files. Never tensor maths.

mod beside;
pub mod digest;
pub mod fetch;
pub mod model_file;
pub mod reference;
mod rewrite;
mod sources;
pub mod store;

pub use beside::{path_beside, read_beside, write_beside};
pub use digest::Sha256;
pub use fetch::{Expected, FailureKind, FetchError, Progress, Stage};
pub use model_file::{ModelFile, OpenError};
pub use reference::{Package, PipReference, Reference, ReferenceError};
pub use rewrite::{RewriteError, RewriteProgress, RewriteStage, TensorCopy, Watch, rewrite};
pub use sources::pip::PipError;
pub use store::Store;
