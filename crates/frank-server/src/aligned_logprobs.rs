//! Log probabilities wait until the text of their tokens is sent, so that a client never learns of a token whose text
//! was held back or cut off. Works on lengths of text; never sees the text's meaning.

use std::collections::VecDeque;

use frank_api::TokenLogprob;

/// The tokens of one answer between their sampling and the sending of their text.
#[derive(Debug, Default)]
pub(crate) struct AlignedLogprobs {
    /// Tokens whose text was not sent, each with the bytes of text before it.
    waiting: VecDeque<(usize, TokenLogprob)>,
    bytes_made: usize,
    chars_made: u64,
    bytes_sent: usize,
}

impl AlignedLogprobs {
    /// Adds a token, of which `text` became complete. Its place in the answer is set here.
    pub(crate) fn push(&mut self, token: TokenLogprob, text: &str) {
        let token = TokenLogprob { text_offset: self.chars_made, ..token };
        self.waiting.push_back((self.bytes_made, token));
        self.bytes_made += text.len();
        self.chars_made += text.chars().count() as u64;
    }

    /// The tokens that begin in the next `n_bytes` of the answer, which are sent now. A token that stands for a part of
    /// a character begins where the character does; one without text goes with the character after it.
    pub(crate) fn send(&mut self, n_bytes: usize) -> Vec<TokenLogprob> {
        self.bytes_sent += n_bytes;
        let n = self.waiting.partition_point(|(start, _)| *start < self.bytes_sent);
        self.waiting.drain(..n).map(|(_, token)| token).collect()
    }

    /// The last tokens that make up `n_bytes` of text, which are sent now; those before them were none of it.
    pub(crate) fn send_last(&mut self, n_bytes: usize) -> Vec<TokenLogprob> {
        let mut n_covered = 0;
        let is_before = |(_, token): &(usize, TokenLogprob)| {
            let is_enough = n_covered >= n_bytes;
            n_covered += token.token.bytes.len();
            is_enough
        };
        let n_before = self.waiting.iter().rev().position(is_before);
        let n_before = n_before.map_or(0, |from_end| self.waiting.len() - from_end);
        self.waiting.drain(..).skip(n_before).map(|(_, token)| token).collect()
    }

    /// The tokens that are left when the answer ended by itself.
    pub(crate) fn send_rest(&mut self) -> Vec<TokenLogprob> {
        self.waiting.drain(..).map(|(_, token)| token).collect()
    }
}

#[cfg(test)]
mod tests {
    use frank_api::Alternative;

    use super::*;

    fn token(bytes: &[u8]) -> TokenLogprob {
        let token = Alternative { bytes: bytes.to_vec(), logprob: 0.0 };
        TokenLogprob { token, text_offset: 0, top: Vec::new() }
    }

    fn sent(tokens: &[TokenLogprob]) -> Vec<(&[u8], u64)> {
        tokens.iter().map(|token| (token.token.bytes.as_slice(), token.text_offset)).collect()
    }

    #[test]
    fn a_token_is_told_with_its_first_byte_and_not_before() {
        let mut aligned = AlignedLogprobs::default();
        aligned.push(token(b"ab"), "ab");
        aligned.push(token(b"cd"), "cd");
        assert_eq!(sent(&aligned.send(0)), []);
        assert_eq!(sent(&aligned.send(1)), [(b"ab".as_slice(), 0)]);
        assert_eq!(sent(&aligned.send(1)), []);
        assert_eq!(sent(&aligned.send(2)), [(b"cd".as_slice(), 2)]);
    }

    #[test]
    fn parts_of_a_character_are_told_with_it_at_its_place() {
        let mut aligned = AlignedLogprobs::default();
        aligned.push(token("é".as_bytes()), "é");
        aligned.push(token(b"\xf0\x9f"), "");
        aligned.push(token(b"\x98\x80"), "😀");
        aligned.push(token(b"x"), "x");
        assert_eq!(sent(&aligned.send(2)), [("é".as_bytes(), 0)]);
        let parts = [(b"\xf0\x9f".as_slice(), 1), (b"\x98\x80".as_slice(), 1)];
        assert_eq!(sent(&aligned.send(4)), parts);
        assert_eq!(sent(&aligned.send_rest()), [(b"x".as_slice(), 2)]);
        assert_eq!(sent(&aligned.send_rest()), []);
    }
}
