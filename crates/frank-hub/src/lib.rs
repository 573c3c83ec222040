//! References, sources, verified download, the model store, and opening model files. Never tensor maths.

mod beside;
pub mod digest;
pub mod fetch;
pub mod frank_lock;
pub mod http;
pub mod listing;
pub mod model_file;
pub mod reference;
mod rewrite;
pub mod sources;
mod stamp;
pub mod store;
pub mod transfer;

pub use beside::{path_beside, read_beside, update_beside};
pub use digest::Sha256;
pub use fetch::{Expected, FailureKind, FetchError, Progress, Stage};
pub use listing::{
    ChooseError, Chosen, ChosenFile, Group, Listing, RemoteFile, Role, Scheme, choose, groups,
};
pub use model_file::{ModelFile, OpenError};
pub use reference::{
    HubReference, Package, PipReference, Reference, ReferenceError, UrlReference, printable,
    words_of,
};
pub use rewrite::{RewriteError, RewriteProgress, RewriteStage, TensorCopy, Watch, rewrite};
pub use sources::ListError;
pub use sources::pip::PipError;
pub use store::Store;
pub use transfer::{Brought, Notice, Segment, TransferError};
