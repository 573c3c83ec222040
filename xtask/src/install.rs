//! Installing what the tests need, outside the checkout. Does nothing where everything is there.

mod model;
mod python;

use anyhow::Result;

/// Installs the Python environment and the model that `frank_testkit::assets` points tests to.
/// # Errors
/// Something is missing and cannot be installed; the error says what a person can do.
pub(crate) fn all() -> Result<()> {
    python::install()?;
    model::install()
}
