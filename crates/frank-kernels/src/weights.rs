//! Layouts of weight matrices in memory, one file per type, and the dot products that read them.
//!
//! Quantized types are interleaved: 16 rows form a group, and each lane of a 512-bit register belongs to one row.
//! A group is the quants of all its blocks, then the scales of all its blocks, padded to 64 bytes. Summing a row
//! is then a chain of fused multiply-adds in block order within one lane, the same for one column or many.
//! Float types stay as in the file, row after row.

pub(crate) mod f16;
pub(crate) mod f32;
pub(crate) mod packed;
pub(crate) mod q4_1;
pub(crate) mod q8_0;

/// Rows of a group: one per 32-bit lane of a 512-bit register.
pub(crate) const GROUP_ROWS: usize = 16;

/// Activation rows that a tile computes together at most.
pub(crate) const TILE_ROWS: usize = 8;

/// Results of a tile for one activation row: one value per row of the group.
pub(crate) type Lanes = [f32; GROUP_ROWS];

/// Runs `$tile::<N>` over `$rows` in runs of 8, 4, 2 and 1, so that the row loop has a constant length.
macro_rules! tiles {
    ($tile:ident, $group:expr, $rows:expr, $out:expr) => {{
        let (rows, out, mut first) = ($rows, $out, 0);
        while first < rows.len() {
            let (rows, out) = (&rows[first..], &mut out[first..]);
            first += tiles!(@run $tile, $group, rows, out, 8, 4, 2, 1);
        }
    }};
    (@run $tile:ident, $group:expr, $rows:expr, $out:expr, $n:literal $(, $smaller:literal)*) => {
        if let Some(rows) = $rows.first_chunk::<$n>() {
            let out = $out.first_chunk_mut::<$n>().expect("an output for each row");
            $tile::<$n>($group, rows, out);
            $n
        } else {
            tiles!(@run $tile, $group, $rows, $out $(, $smaller)*)
        }
    };
    (@run $tile:ident, $group:expr, $rows:expr, $out:expr) => {
        unreachable!("the loop ends before no row is left")
    };
}
pub(crate) use tiles;
