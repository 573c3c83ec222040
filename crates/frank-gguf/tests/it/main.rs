//! Behaviour of the GGUF reader at its border: bytes in, header or named refusal out.

mod broken;
mod encode;
mod header;
mod malformed;
mod mutation;
mod oracle;
mod quants;
mod split;

use frank_gguf::{GgufError, Header};

/// Reads a header and checks the data, as loading does.
fn read(bytes: &[u8]) -> Result<Header, GgufError> {
    let header = Header::read(&mut &bytes[..], bytes.len() as u64)?;
    header.check_data(bytes.len() as u64)?;
    Ok(header)
}
