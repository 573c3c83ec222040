//! Geometry of interleaved quantized weights: where a block of a row lies in its group. Never what the bytes mean.

use super::{GROUP_ROWS, transpose};

/// One block of a row, in the file and interleaved: the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedType {
    /// Values of a block.
    pub(crate) values: usize,
    /// Words of four bytes with the quants of a block, and whatever else kernels read as words.
    pub(crate) words: usize,
    /// Scales of a block beside the words.
    pub(crate) scales: usize,
    /// Bytes of one such scale.
    pub(crate) scale_bytes: usize,
    /// Where the scales stand in the file.
    pub(crate) order: Order,
}

/// Order of a block's parts in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    ScalesFirst,
    WordsFirst,
}

pub(crate) use super::transpose::WORD;

impl PackedType {
    /// A type that starts with `scales` f16, the most frequent form.
    pub(crate) const fn with_f16s(values: usize, scales: usize, words: usize) -> Self {
        Self { values, words, scales, scale_bytes: 2, order: Order::ScalesFirst }
    }

    /// Bytes of a block in the file.
    pub(crate) const fn raw_block_bytes(&self) -> usize {
        self.words * WORD + self.scales * self.scale_bytes
    }

    /// Bytes of the words of one block of a group.
    pub(crate) const fn group_word_bytes(&self) -> usize {
        GROUP_ROWS * self.words * WORD
    }

    /// Bytes of the scales of one block of a group.
    pub(crate) const fn group_scale_bytes(&self) -> usize {
        GROUP_ROWS * self.scales * self.scale_bytes
    }

    /// Bytes of a group of 16 rows with `n_blocks` blocks each, padded to a cache line; saturates.
    pub(crate) fn group_bytes(&self, n_blocks: usize) -> usize {
        let bytes = n_blocks.saturating_mul(GROUP_ROWS * self.raw_block_bytes());
        bytes.checked_next_multiple_of(64).unwrap_or(usize::MAX)
    }

    /// Words and scales of a group: `[n_blocks, words, 16]` and `[n_blocks, scales, 16]`.
    #[inline(always)]
    pub(crate) fn split<'a>(&self, group: &'a [u8], n_blocks: usize) -> (&'a [u8], &'a [u8]) {
        let (words, rest) = group.split_at(n_blocks * self.group_word_bytes());
        (words, &rest[..n_blocks * self.group_scale_bytes()])
    }

    /// Interleaves the 16 rows of a whole group, as they are in the file.
    pub(crate) fn pack_group(&self, raw: &[u8], group: &mut [u8]) {
        let row_bytes = raw.len() / GROUP_ROWS;
        let block_bytes = self.raw_block_bytes();
        let n_blocks = row_bytes / block_bytes;
        let (words, rest) = group.split_at_mut(n_blocks * self.group_word_bytes());
        let (scales, padding) = rest.split_at_mut(n_blocks * self.group_scale_bytes());
        padding.fill(0);
        let (word_start, scale_start) = match self.order {
            Order::ScalesFirst => (self.scales * self.scale_bytes, 0),
            Order::WordsFirst => (0, self.words * WORD),
        };
        let words = words.chunks_exact_mut(self.group_word_bytes());
        let scales = scales.chunks_exact_mut(self.group_scale_bytes());
        for (block, (words, scales)) in words.zip(scales).enumerate() {
            let start = block * block_bytes;
            transpose::words(raw, row_bytes, start + word_start, words);
            match self.scale_bytes {
                1 => transpose::pieces::<1>(raw, row_bytes, start + scale_start, scales),
                _ => transpose::pieces::<2>(raw, row_bytes, start + scale_start, scales),
            }
        }
    }

    /// Zeroes what belongs to no row in a group whose last rows, from `first_lane`, are not there.
    pub(crate) fn clear_lanes(&self, n_blocks: usize, first_lane: usize, group: &mut [u8]) {
        let (words, rest) = group.split_at_mut(n_blocks * self.group_word_bytes());
        let (scales, padding) = rest.split_at_mut(n_blocks * self.group_scale_bytes());
        padding.fill(0);
        let clear = |pieces: &mut [u8], piece_bytes: usize| {
            for lanes in pieces.chunks_exact_mut(GROUP_ROWS * piece_bytes) {
                lanes[first_lane * piece_bytes..].fill(0);
            }
        };
        clear(words, WORD);
        clear(scales, self.scale_bytes);
    }

    /// Interleaves one row, as it is in the file, into lane `lane` of `group`.
    pub(crate) fn pack_row(&self, raw: &[u8], lane: usize, group: &mut [u8]) {
        let n_blocks = raw.len() / self.raw_block_bytes();
        let (words, scales) = group.split_at_mut(n_blocks * self.group_word_bytes());
        let words = words.chunks_exact_mut(self.group_word_bytes());
        let scales = scales.chunks_exact_mut(self.group_scale_bytes());
        let raws = raw.chunks_exact(self.raw_block_bytes());
        for ((raw, words), scales) in raws.zip(words).zip(scales) {
            let (raw_words, raw_scales) = match self.order {
                Order::ScalesFirst => {
                    let (scales, words) = raw.split_at(self.scales * self.scale_bytes);
                    (words, scales)
                }
                Order::WordsFirst => raw.split_at(self.words * WORD),
            };
            scatter::<WORD>(raw_words, lane, words);
            match self.scale_bytes {
                1 => scatter::<1>(raw_scales, lane, scales),
                _ => scatter::<2>(raw_scales, lane, scales),
            }
        }
    }

    /// The inverse of [`PackedType::pack_row`] for one block: `raw` becomes the block as it is in the file.
    pub(crate) fn unpack_block(
        &self,
        group: &[u8],
        n_blocks: usize,
        block: usize,
        lane: usize,
        raw: &mut [u8],
    ) {
        let (words, scales) = self.split(group, n_blocks);
        let words = &words[block * self.group_word_bytes()..][..self.group_word_bytes()];
        let scales = &scales[block * self.group_scale_bytes()..][..self.group_scale_bytes()];
        let (raw_words, raw_scales) = match self.order {
            Order::ScalesFirst => {
                let (scales, words) = raw.split_at_mut(self.scales * self.scale_bytes);
                (words, scales)
            }
            Order::WordsFirst => raw.split_at_mut(self.words * WORD),
        };
        gather::<WORD>(words, lane, raw_words);
        match self.scale_bytes {
            1 => gather::<1>(scales, lane, raw_scales),
            _ => gather::<2>(scales, lane, raw_scales),
        }
    }
}

/// Spreads pieces of `SIZE` bytes to lane `lane` of rows of 16 pieces.
fn scatter<const SIZE: usize>(from: &[u8], lane: usize, to: &mut [u8]) {
    let ((from, _), (to, _)) = (from.as_chunks::<SIZE>(), to.as_chunks_mut::<SIZE>());
    for (piece, row) in from.iter().zip(to.chunks_exact_mut(GROUP_ROWS)) {
        row[lane] = *piece;
    }
}

fn gather<const SIZE: usize>(from: &[u8], lane: usize, to: &mut [u8]) {
    let ((from, _), (to, _)) = (from.as_chunks::<SIZE>(), to.as_chunks_mut::<SIZE>());
    for (row, piece) in from.chunks_exact(GROUP_ROWS).zip(to) {
        *piece = row[lane];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(packed: PackedType) {
        const N_BLOCKS: usize = 3;
        let block_bytes = packed.raw_block_bytes();
        let row = |r: usize| (0..N_BLOCKS * block_bytes).map(move |i| ((r * 61) ^ (i * 7)) as u8);
        let rows: Vec<Vec<u8>> = (0..GROUP_ROWS).map(|r| row(r).collect()).collect();
        let mut group = vec![0; packed.group_bytes(N_BLOCKS)];
        for (lane, row) in rows.iter().enumerate() {
            packed.pack_row(row, lane, &mut group);
        }
        let mut at_once = vec![0xff; group.len()];
        packed.pack_group(&rows.concat(), &mut at_once);
        assert_eq!(at_once, group, "a whole group");
        for (lane, row) in rows.iter().enumerate() {
            for (block, expected) in row.chunks(block_bytes).enumerate() {
                let mut raw = vec![0; block_bytes];
                packed.unpack_block(&group, N_BLOCKS, block, lane, &mut raw);
                assert_eq!(raw, expected, "block {block} of row {lane}");
            }
        }
    }

    #[test]
    fn a_packed_row_unpacks_to_the_bytes_of_the_file() {
        let two_scales = PackedType::with_f16s(32, 2, 4);
        assert_eq!(two_scales.group_bytes(3), 960);
        check(two_scales);
        check(PackedType { order: Order::WordsFirst, ..PackedType::with_f16s(256, 1, 52) });
        check(PackedType { scale_bytes: 1, ..PackedType::with_f16s(32, 1, 4) });
        check(PackedType::with_f16s(256, 2, 35));
        check(PackedType::with_f16s(32, 1, 5));
    }
}
