//! The signature of a thinking block. The vendor's proves that its model wrote the block, and holds what the client did
//! not want to see, so that it comes back with the conversation. Here it does only the second.

use std::fmt::Write;

/// The signature of a thought that the client sees.
pub(super) const OPEN: &str = "frank";

/// With what the signature of a hidden thought begins. Its text follows in hexadecimal.
const SEALED: &str = "frank-";

/// The signature of a thought that the client does not see. An answer that goes on after it is computed on the same
/// prompt as if it had been seen, so that all of it is found in the prefix cache.
pub(super) fn sealed(thought: &str) -> String {
    let mut signature = SEALED.to_owned();
    for byte in thought.bytes() {
        write!(signature, "{byte:02x}").expect("a string takes everything");
    }
    signature
}

/// The thought in a signature; none in that of somebody else.
pub(super) fn opened(signature: &str) -> Option<String> {
    let digits = signature.strip_prefix(SEALED)?.as_bytes();
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thought_comes_back_and_nothing_else_is_one() {
        for thought in ["", "Hm.", "é\n\"😀"] {
            assert_eq!(opened(&sealed(thought)).as_deref(), Some(thought));
        }
        for other in ["", OPEN, "frank-0", "frank-0g", "frank-é", "frank-ff", "ErUBCkYIBxgC"] {
            assert_eq!(opened(other), None, "{other}");
        }
    }
}
