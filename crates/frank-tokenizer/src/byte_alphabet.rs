//! GPT-2's alphabet for bytes: one printable character for each of the 256 bytes, in which byte-level vocabularies are
//! spelled.
//!
//! The printable bytes of Latin-1 stand for themselves, the other 68 are U+0100 and up in their order: a space is `Ġ`.

/// Whether a byte stands for itself.
const fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// The character of each byte.
const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let mut next = 0x100;
    let mut byte = 0;
    while byte < 256 {
        if is_printable(byte as u8) {
            chars[byte] = byte as u8 as char;
        } else {
            chars[byte] = char::from_u32(next).expect("U+0100 to U+0143 are characters");
            next += 1;
        }
        byte += 1;
    }
    chars
};

/// The byte of each character up to the last one of the alphabet.
static BYTES: [Option<u8>; 0x144] = {
    let mut bytes = [None; 0x144];
    let mut byte = 0;
    while byte < 256 {
        bytes[CHARS[byte] as usize] = Some(byte as u8);
        byte += 1;
    }
    bytes
};

/// The character that spells a byte.
pub(crate) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The byte that a character spells; `None` for a character outside the alphabet.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    BYTES.get(u32::from(c) as usize).copied().flatten()
}

/// Appends the bytes that a token's text spells. Characters outside the alphabet, which added tokens have, stand for
/// their own UTF-8.
pub(crate) fn decode(text: &str, bytes: &mut Vec<u8>) {
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{byte_of, char_of, decode};

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!([b' ', b'\n', b'A', 0xad, 0xff].map(char_of), ['Ġ', 'Ċ', 'A', 'Ń', 'ÿ']);
        assert_eq!([' ', '\u{ad}', '\u{144}', '世'].map(byte_of), [None; 4]);
    }

    #[test]
    fn a_text_outside_the_alphabet_is_its_own_utf8() {
        let mut bytes = Vec::new();
        decode("Ġä¸ĸ 世", &mut bytes);
        assert_eq!(bytes, " 世 世".as_bytes());
    }
}
