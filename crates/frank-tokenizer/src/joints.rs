//! Where a text can be cut so that no token of a vocabulary spans the cut. Never wrong about a cut, and may miss some.

use crate::vocab::Vocab;

/// Bits of the table: 128 KiB. A vocabulary of a quarter million tokens sets about one in eight.
const BITS_LOG2: u32 = 20;

/// The pairs of characters that stand side by side in some token, as bits at the hash of the pair. Where the hash of two
/// pairs is the same, one looks like the other, and a cut is missed.
pub(crate) struct Joints {
    bits: Box<[u64]>,
}

impl Joints {
    /// The pairs in the texts of some tokens.
    pub(crate) fn new(ids: &[u32], vocab: &Vocab) -> Joints {
        let mut bits = vec![0u64; 1 << (BITS_LOG2 - u64::BITS.ilog2())].into_boxed_slice();
        for &id in ids {
            let text = vocab.text(id);
            for (left, right) in text.chars().zip(text.chars().skip(1)) {
                let (word, bit) = place(left, right);
                bits[word] |= bit;
            }
        }
        Joints { bits }
    }

    /// Bytes of the text up to the first cut; all of it when there is none.
    pub(crate) fn first_part(&self, text: &str) -> usize {
        let rights = text.char_indices().skip(1);
        let mut pairs = text.chars().zip(rights);
        let cut = pairs.find(|&(left, (_, right))| {
            let (word, bit) = place(left, right);
            self.bits[word] & bit == 0
        });
        cut.map_or(text.len(), |(_, (place, _))| place)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.bits)
    }
}

/// The word of the table and the bit in it that stand for a pair.
fn place(left: char, right: char) -> (usize, u64) {
    // The multipliers are odd and have no pattern, so that neighbouring code points land far apart.
    let hash =
        u32::from(left).wrapping_mul(0x9e37_79b1) ^ u32::from(right).wrapping_mul(0x85eb_ca77);
    let bit = hash >> (u32::BITS - BITS_LOG2);
    ((bit / u64::BITS) as usize, 1 << (bit % u64::BITS))
}
