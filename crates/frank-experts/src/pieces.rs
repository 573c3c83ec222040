//! How an expert is cut into reads: what lies together in a file is read together, in whole rows. Never reads.

use std::ops::Range;

use frank_kernels::GROUP_ROWS;

use crate::table::{ExpertTable, LayerExperts};

/// Bytes of a read at most, but for a single longer row.
const PIECE_BYTES_MAX: usize = 4 << 20;

/// Part of the staging that one read takes at most, so that several run at once.
const PIECES_STAGED_MIN: usize = 4;

/// Bytes between two parts that are read along: no more than the pages of both ends hold anyway.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// How far the reading of an expert has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Which part, in the order of the file.
    part: usize,
    row: usize,
}

/// One read of some rows of one or more parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: Cursor,
    /// Where the next one begins.
    pub(crate) to: Cursor,
    pub(crate) file: usize,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

impl Piece {
    /// Whether all rows of its parts are in it.
    pub(crate) fn is_whole(&self) -> bool {
        (self.from.row, self.to.row) == (0, 0)
    }
}

/// The rows of one part in a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) part: usize,
    pub(crate) first_row: usize,
    /// Where they lie in the bytes of the piece.
    pub(crate) bytes: Range<usize>,
}

/// The rules by which the experts of a table are cut.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// The parts of each layer of the table in the order in which its first expert has them in the file.
    orders: Vec<Vec<usize>>,
    bytes_max: usize,
}

impl Pieces {
    /// Pieces of `table` that pass through `staging_bytes`.
    pub(crate) fn new(table: &ExpertTable, staging_bytes: usize) -> Self {
        let order = |layer: &LayerExperts| {
            let mut order: Vec<usize> = (0..layer.parts.len()).collect();
            let place = |&part: &usize| layer.parts[part].places[0];
            order.sort_by_key(|part| (place(part).file, place(part).offset));
            order
        };
        let orders = table.layers.iter().map(order).collect();
        Self { orders, bytes_max: PIECE_BYTES_MAX.min(staging_bytes / PIECES_STAGED_MIN) }
    }

    /// The piece of an expert that begins at `from`; `None` when it has been read to its end.
    pub(crate) fn next(
        &self,
        layer: &LayerExperts,
        position: usize,
        expert: u32,
        from: Cursor,
    ) -> Option<Piece> {
        let order = &self.orders[position];
        let first = &layer.parts[*order.get(from.part)?];
        let place = first.places[expert as usize];
        let offset = place.offset + (from.row * first.shape.file_row_bytes()) as u64;
        let (mut to, mut end) = (from, offset);
        while let Some(&part) = order.get(to.part) {
            let (shape, next) =
                (layer.parts[part].shape, layer.parts[part].places[expert as usize]);
            let row_bytes = shape.file_row_bytes();
            let start = next.offset + (to.row * row_bytes) as u64;
            let gap = start.checked_sub(end);
            if next.file != place.file || gap.is_none_or(|gap| gap > GAP_BYTES_MAX) {
                break;
            }
            let room = self.bytes_max.saturating_sub((start - offset) as usize) / row_bytes;
            let left = shape.n_out() - to.row;
            if room < left && to.part != from.part {
                // A part is cut only when it is longer than a piece.
                break;
            }
            let n_rows = rows_now(room, left);
            end = start + (n_rows * row_bytes) as u64;
            if n_rows < left {
                to.row += n_rows;
                break;
            }
            to = Cursor { part: to.part + 1, row: 0 };
        }
        Some(Piece { from, to, file: place.file, offset, len: (end - offset) as usize })
    }

    /// What is in a piece of an expert.
    pub(crate) fn segments<'a>(
        &'a self,
        layer: &'a LayerExperts,
        position: usize,
        expert: u32,
        piece: Piece,
    ) -> impl Iterator<Item = Segment> + 'a {
        let Piece { from, to, offset, .. } = piece;
        let parts = from.part..to.part + usize::from(to.row > 0);
        parts.map(move |at| {
            let part = self.orders[position][at];
            let (shape, places) = (layer.parts[part].shape, &layer.parts[part].places);
            let first_row = if at == from.part { from.row } else { 0 };
            let end_row = if at == to.part { to.row } else { shape.n_out() };
            let row_bytes = shape.file_row_bytes();
            let place = places[expert as usize].offset;
            // The first part may begin before the piece.
            let byte = |row: usize| (place + (row * row_bytes) as u64 - offset) as usize;
            Segment { part, first_row, bytes: byte(first_row)..byte(end_row) }
        })
    }
}

/// How many of `left` rows are read when `room` fit: whole groups where there is one, and one row in any case.
fn rows_now(room: usize, left: usize) -> usize {
    if room >= left {
        left
    } else if room >= GROUP_ROWS {
        room - room % GROUP_ROWS
    } else {
        room.max(1)
    }
}

#[cfg(test)]
mod tests {
    use frank_kernels::{MatrixShape, WeightType};

    use super::*;
    use crate::table::{ExpertPart, FilePlace};

    /// Parts of rows of 4 bytes, `(file, offset, rows)`, of one expert.
    fn table(parts: &[(usize, u64, usize)]) -> ExpertTable {
        let f32s = WeightType::of(0).expect("F32");
        let parts = parts.iter().map(|&(file, offset, n_rows)| ExpertPart {
            shape: MatrixShape::new(f32s, 1, n_rows).expect("a shape"),
            places: vec![FilePlace { file, offset }],
        });
        let layer = LayerExperts { layer: 0, n_experts: 1, parts: parts.collect() };
        ExpertTable { n_layers: 1, layers: vec![layer] }
    }

    /// Reads of an expert, `(file, offset, bytes)`, and that each row is in one of them, once.
    fn check(parts: &[(usize, u64, usize)], bytes_max: usize, expected: &[(usize, u64, usize)]) {
        let table = table(parts);
        let (layer, pieces) =
            (&table.layers[0], Pieces::new(&table, bytes_max * PIECES_STAGED_MIN));
        let (mut cursor, mut reads, mut rows) = (Cursor::default(), Vec::new(), Vec::new());
        while let Some(piece) = pieces.next(layer, 0, 0, cursor) {
            reads.push((piece.file, piece.offset, piece.len));
            for Segment { part, first_row, bytes } in pieces.segments(layer, 0, 0, piece) {
                assert_eq!(
                    piece.offset + bytes.start as u64,
                    parts[part].1 + 4 * first_row as u64,
                    "part {part}"
                );
                rows.extend((first_row..first_row + bytes.len() / 4).map(|row| (part, row)));
            }
            cursor = piece.to;
        }
        rows.sort_unstable();
        let all = (0..parts.len()).flat_map(|part| (0..parts[part].2).map(move |row| (part, row)));
        assert_eq!(rows, all.collect::<Vec<_>>());
        assert_eq!(reads, expected);
    }

    #[test]
    fn parts_beside_each_other_are_one_read() {
        check(&[(0, 400, 50), (0, 0, 100), (0, 600, 50)], 4096, &[(0, 0, 800)]);
        // With a gap of less than a page, too.
        check(&[(0, 0, 100), (0, 432, 50)], 4096, &[(0, 0, 632)]);
    }

    #[test]
    fn parts_apart_or_in_other_files_are_reads_of_their_own() {
        check(&[(0, 0, 100), (1, 400, 50)], 4096, &[(0, 0, 400), (1, 400, 200)]);
        check(&[(0, 0, 100), (0, 8192, 50)], 1 << 20, &[(0, 0, 400), (0, 8192, 200)]);
        // Two parts of the same bytes.
        check(&[(0, 0, 100), (0, 0, 100)], 4096, &[(0, 0, 400), (0, 0, 400)]);
    }

    #[test]
    fn a_read_that_would_be_too_long_ends_between_parts_or_groups_of_rows() {
        check(&[(0, 0, 100), (0, 400, 100)], 600, &[(0, 0, 400), (0, 400, 400)]);
        check(&[(0, 8, 100)], 160, &[(0, 8, 128), (0, 136, 128), (0, 264, 144)]);
        // The rest of a part goes with the next one.
        check(&[(0, 0, 100), (0, 400, 20)], 320, &[(0, 0, 320), (0, 320, 160)]);
        // Less than a group, less than a row.
        check(&[(0, 0, 6)], 9, &[(0, 0, 8), (0, 8, 8), (0, 16, 8)]);
        check(&[(0, 0, 2)], 3, &[(0, 0, 4), (0, 4, 4)]);
    }
}
