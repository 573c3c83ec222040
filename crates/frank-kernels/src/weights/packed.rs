//! Geometry of interleaved quantized weights: where a block of a row lies in its group.

use super::GROUP_ROWS;

/// Bytes of one block of 32 values, in the file and interleaved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedType {
    /// Bytes of a block in the file: the scales, then the quants.
    pub(crate) raw_block_bytes: usize,
    /// Bytes of the quants of one block of one row; a multiple of 4.
    pub(crate) quant_bytes: usize,
    /// f16 scales per block.
    pub(crate) n_scales: usize,
}

const F16_BYTES: usize = 2;

/// Bytes of a quant word: what one lane multiplies at once.
const WORD: usize = 4;

impl PackedType {
    /// Bytes of a group of 16 rows with `n_blocks` blocks each, padded to a cache line.
    pub(crate) fn group_bytes(&self, n_blocks: usize) -> usize {
        (n_blocks * (self.group_quant_bytes() + self.group_scale_bytes())).next_multiple_of(64)
    }

    fn group_quant_bytes(&self) -> usize {
        GROUP_ROWS * self.quant_bytes
    }

    fn group_scale_bytes(&self) -> usize {
        GROUP_ROWS * self.n_scales * F16_BYTES
    }

    /// Quants and scales of a group: `[n_blocks, words, 16, 4]` bytes and `[n_blocks, n_scales, 16]` f16.
    pub(crate) fn split<'a>(&self, group: &'a [u8], n_blocks: usize) -> (&'a [u8], &'a [u8]) {
        let (quants, rest) = group.split_at(n_blocks * self.group_quant_bytes());
        (quants, &rest[..n_blocks * self.group_scale_bytes()])
    }

    /// Interleaves one row, as it is in the file, into lane `lane` of `group`.
    pub(crate) fn pack_row(&self, raw: &[u8], lane: usize, group: &mut [u8]) {
        let n_blocks = raw.len() / self.raw_block_bytes;
        let (quants, scales) = group.split_at_mut(n_blocks * self.group_quant_bytes());
        let quants = quants.chunks_exact_mut(self.group_quant_bytes());
        let scales = scales.chunks_exact_mut(self.group_scale_bytes());
        for ((raw, quants), scales) in
            raw.chunks_exact(self.raw_block_bytes).zip(quants).zip(scales)
        {
            let (raw_scales, raw_quants) = raw.split_at(self.n_scales * F16_BYTES);
            scatter(raw_scales, F16_BYTES, lane, scales);
            scatter(raw_quants, WORD, lane, quants);
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
        let (quants, scales) = self.split(group, n_blocks);
        let quants = &quants[block * self.group_quant_bytes()..][..self.group_quant_bytes()];
        let scales = &scales[block * self.group_scale_bytes()..][..self.group_scale_bytes()];
        let (raw_scales, raw_quants) = raw.split_at_mut(self.n_scales * F16_BYTES);
        gather(scales, F16_BYTES, lane, raw_scales);
        gather(quants, WORD, lane, raw_quants);
    }
}

/// Spreads pieces of `size` bytes to lane `lane` of rows of 16 pieces.
fn scatter(from: &[u8], size: usize, lane: usize, to: &mut [u8]) {
    for (piece, row) in from.chunks_exact(size).zip(to.chunks_exact_mut(GROUP_ROWS * size)) {
        row[lane * size..][..size].copy_from_slice(piece);
    }
}

fn gather(from: &[u8], size: usize, lane: usize, to: &mut [u8]) {
    for (row, piece) in from.chunks_exact(GROUP_ROWS * size).zip(to.chunks_exact_mut(size)) {
        piece.copy_from_slice(&row[lane * size..][..size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_row_unpacks_to_the_bytes_of_the_file() {
        let packed = PackedType { raw_block_bytes: 20, quant_bytes: 16, n_scales: 2 };
        let rows: Vec<Vec<u8>> =
            (0..16u8).map(|r| (0..60u8).map(|i| r.wrapping_mul(61) ^ i).collect()).collect();
        let mut group = vec![0; packed.group_bytes(3)];
        assert_eq!(group.len(), 960);
        for (lane, row) in rows.iter().enumerate() {
            packed.pack_row(row, lane, &mut group);
        }
        for (lane, row) in rows.iter().enumerate() {
            for (block, expected) in row.chunks(20).enumerate() {
                let mut raw = [0; 20];
                packed.unpack_block(&group, 3, block, lane, &mut raw);
                assert_eq!(raw, expected, "block {block} of row {lane}");
            }
        }
    }
}
