//! Target: the tokenizer of a file's metadata, and what stands behind the header as text to encode.

use frank_gguf::{Header, Metadata};
use frank_testkit::broken;
use frank_tokenizer::{Specials, Tokenizer};

/// Bytes of text that are encoded, so that a run stays short.
const TEXT_BYTES_MAX: usize = 1 << 12;
/// Memory for each byte of a header: tokens are kept as read, as one long text, by text and by id.
const MEMORY_PER_BYTE: u64 = 256;
/// Memory that a tokenizer and a short text take at least.
const MEMORY_FIXED: u64 = 4 << 20;

/// Makes a tokenizer of `bytes` and encodes what follows the header: ids of the vocabulary, in bounded memory.
///
/// # Panics
/// When one of these does not hold.
pub fn check(bytes: &[u8]) {
    let Ok(header) = Header::read(&mut &bytes[..], bytes.len() as u64) else { return };
    let rest = usize::try_from(header.data_start).ok().and_then(|start| bytes.get(start..));
    let rest = rest.unwrap_or_default();
    let text = String::from_utf8_lossy(&rest[..rest.len().min(TEXT_BYTES_MAX)]);
    let allocated = allocation_counter::measure(|| encode(&header.metadata, &text));
    let limit = MEMORY_FIXED + MEMORY_PER_BYTE * bytes.len() as u64;
    assert!(allocated.bytes_max <= limit, "{} bytes of {limit}", allocated.bytes_max);
}

fn encode(metadata: &Metadata, text: &str) {
    let tokenizer = match Tokenizer::from_metadata(metadata) {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && text.chars().count() < 1000, "{} bytes", text.len());
            assert!(!text.contains(char::is_control), "{text:?}");
            return;
        }
    };
    let n_vocab = tokenizer.n_vocab();
    for specials in [Specials::Literal, Specials::Parse] {
        let tokens = tokenizer.encode(text, specials);
        assert!(tokens.iter().all(|&id| (id as usize) < n_vocab), "{tokens:?} of {n_vocab}");
        let n_bytes: usize = tokens.iter().map(|&id| tokenizer.token_bytes(id).len()).sum();
        assert!(n_bytes <= tokens.len() * tokenizer.token_bytes_max());
    }
    assert!(tokenizer.encode_text(text).iter().all(|&id| (id as usize) < n_vocab));
    assert!(tokenizer.end_tokens().iter().all(|&id| tokenizer.is_end(id)));
}

/// The headers of the broken models, each with a text behind it in the place of its tensors.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let whole = broken::families().into_iter().map(|(_, file)| file);
    let broken = broken::models().map(|broken| broken.bytes);
    whole.chain(broken).filter_map(|file| with_text(&file)).collect()
}

fn with_text(file: &[u8]) -> Option<Vec<u8>> {
    let header = Header::read(&mut &file[..], file.len() as u64).ok()?;
    let start = usize::try_from(header.data_start).ok()?;
    let text = "It's 12345 words,\r\n  naïve 日本語 🦀\u{301} <s></s><|im_end|>\t\u{0}";
    Some([&file[..start], text.as_bytes()].concat())
}
