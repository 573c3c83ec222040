//! Target: reading the header of a file, by itself and as a model of one part. Never the bytes of a tensor.

use frank_gguf::{GgufError, Header, ModelHeader};
use frank_testkit::broken;

/// Reads `bytes` as a model file: header or error, within the memory that a file of this size justifies, and sizes of
/// tensors that lie in the file.
///
/// # Panics
/// When one of these does not hold.
pub fn check(bytes: &[u8]) {
    let allocated = allocation_counter::measure(|| {
        if let Err(error) = open(bytes) {
            check_text(&error);
        }
    });
    let limit = broken::memory_max(bytes.len());
    assert!(allocated.bytes_max <= limit, "{} bytes of {limit}", allocated.bytes_max);
}

fn open(bytes: &[u8]) -> Result<(), GgufError> {
    let file_bytes = bytes.len() as u64;
    let header = Header::read(&mut &bytes[..], file_bytes)?;
    assert!(
        header.alignment.is_power_of_two() && header.data_start.is_multiple_of(header.alignment)
    );
    // A header alone can be planned, so it is merged whether the data is there or not.
    let is_whole = header.check_data(file_bytes).is_ok();
    let model = ModelHeader::merge(vec![(header, file_bytes)])?;
    for (index, tensor) in model.tensors.iter().enumerate() {
        assert_eq!(model.tensor(&tensor.name), Some(tensor));
        assert!(!is_whole || model.stored_bytes(index) <= file_bytes, "{tensor:?}");
    }
    Ok(())
}

/// An error is one short line that cannot write to a terminal.
fn check_text(error: &GgufError) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.chars().count() < 1000, "{} bytes", text.len());
    assert!(!text.contains(char::is_control), "{text:?}");
}

/// Small files of every kind of breakage, and every number of a header at its limits.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let kinds = broken::headers().into_iter().map(|kind| kind.bytes);
    let limits = broken::limits().into_iter().map(|limit| limit.bytes);
    std::iter::once(broken::all_types()).chain(kinds).chain(limits).collect()
}
