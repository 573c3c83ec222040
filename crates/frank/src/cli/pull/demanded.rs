//! The digest that stands in a reference itself, against what the store has. Never reads a file.

use frank_hub::store::Payload;
use frank_hub::{Reference, Sha256};

use super::facts::Fault;

/// Which file of a payload has to have which digest.
pub(super) struct Demanded {
    file: String,
    sha256: Sha256,
}

impl Demanded {
    /// What `reference` demands, where it does.
    pub(super) fn by(reference: &Reference) -> Option<Self> {
        match reference {
            Reference::Url(url) => Some(Self { file: url.file_name(), sha256: url.sha256? }),
            Reference::Pip(pip) => {
                Some(Self { file: pip.file_name().to_owned(), sha256: pip.sha256? })
            }
            Reference::Hub(_) | Reference::Path(_) | Reference::Name(_) => None,
        }
    }

    /// What is wrong with a payload by this; of what was joined, a slice may have been all that was named.
    pub(super) fn fault(self, payload: &Payload) -> Option<Fault> {
        let locked = || payload.files.iter().filter_map(|file| file.locked.as_ref());
        let whole = locked().find(|locked| locked.name == self.file).map(|locked| locked.sha256);
        let slices = || locked().flat_map(|locked| &locked.fragment);
        let slice = || slices().find(|slice| slice.path == self.file)?.sha256;
        let told = match whole.or_else(slice) {
            Some(got) if got == self.sha256 => return None,
            Some(got) => format!("has sha256 {got}, and the reference says {}", self.sha256),
            None => format!(
                "cannot be compared: the reference says sha256 {}, and what is here \
                             was joined or pulled under another name",
                self.sha256
            ),
        };
        Some(Fault::of_reference(&payload.name, self.file, &told))
    }
}
