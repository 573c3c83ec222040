//! The tile registers of AMX: exact dots of 16 activation rows with 16 weight rows at once.
//!
//! No intrinsic for them is stable, so their instructions are written out. The compiler never uses these registers, and
//! no value stays in them from one block of instructions to the next.

use std::arch::asm;
use std::marker::PhantomData;

use crate::activations::{QuantBlock, TILE};
use crate::cpu::{Isa, isa};

/// Bytes of a row of a tile of weights or of dots: 16 lanes of four.
const LINE: usize = 64;

/// Words of a part's 32 values for each of 16 weight rows, `[8, 16]` of four bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct TileWeights(pub(crate) [[u8; LINE]; 8]);

/// Dots of 16 activation rows with 16 weight rows, `[16, 16]`.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct TileDots(pub(crate) [[u8; LINE]; TILE]);

/// The tile registers of the calling thread, configured for whole tiles and for a last one with fewer rows. They are
/// released when this is dropped, so that the kernel has nothing to save for the thread any more.
#[derive(Debug)]
pub(crate) struct Tiles {
    n_last: usize,
    /// The registers are this thread's: not `Send`.
    thread: PhantomData<*const ()>,
}

/// What the configuring instruction reads.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes of a row of each register.
    row_bytes: [u16; 16],
    /// Rows of each register.
    n_rows: [u8; 16],
}

/// Registers 0 to 2: dots, activations and weights. 3 and 4: activations and weights of half a part. 5 to 7: dots,
/// activations and half activations of a last tile.
const ROW_BYTES: [u16; 8] = [64, 32, 64, 16, 64, 64, 32, 16];

/// Dots with the registers named: zeroed, multiplied once, stored.
macro_rules! tile_dots {
    ($dots:tt, $a:tt, $weights:tt, $a_ptr:expr, $weights_ptr:expr, $dots_ptr:expr) => {
        asm!(
            concat!("tilezero ", $dots),
            concat!("tileloadd ", $a, ", [{a} + {block}*1]"),
            concat!("tileloadd ", $weights, ", [{weights} + {line}*1]"),
            concat!("tdpbssd ", $dots, ", ", $a, ", ", $weights),
            concat!("tilestored [{to} + {line}*1], ", $dots),
            a = in(reg) $a_ptr,
            block = in(reg) size_of::<QuantBlock>(),
            weights = in(reg) $weights_ptr,
            line = in(reg) LINE,
            to = in(reg) $dots_ptr,
            out($dots) _,
            out($a) _,
            out($weights) _,
            options(nostack, preserves_flags),
        )
    };
}

impl Tiles {
    /// Configures the registers for activations of `n_rows` rows.
    ///
    /// # Panics
    /// When this process may not use them, or there are no rows.
    pub(crate) fn configure(n_rows: usize) -> Self {
        assert!(isa() == Isa::Amx && n_rows > 0, "tiles need AMX and rows");
        let n_last = (n_rows - 1) % TILE + 1;
        #[expect(clippy::cast_possible_truncation, reason = "a tile has 16 rows at most")]
        let last = n_last as u8;
        let (mut row_bytes, mut n_rows) = ([0; 16], [0; 16]);
        row_bytes[..8].copy_from_slice(&ROW_BYTES);
        n_rows[..8].copy_from_slice(&[16, 16, 8, 16, 4, last, last, last]);
        let config = TileConfig { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, n_rows };
        // SAFETY: `isa()` found AMX and permission to use it; the instruction reads the 64 bytes of `config`.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, preserves_flags));
        }
        Self { n_last, thread: PhantomData }
    }

    /// The dots of the blocks of a tile's rows with `weights`.
    ///
    /// # Panics
    /// When there are as many rows as neither a whole nor the last tile has.
    #[inline(always)]
    pub(crate) fn dots(&self, a: &[QuantBlock], weights: &TileWeights, to: &mut TileDots) {
        let (weights, to) = (&raw const *weights, &raw mut *to);
        if a.len() == TILE {
            // SAFETY: the registers are configured; there is a block and a line of dots for each of 16 rows.
            unsafe { tile_dots!("tmm0", "tmm1", "tmm2", a.as_ptr(), weights, to) };
        } else {
            assert_eq!(a.len(), self.n_last, "rows as configured");
            // SAFETY: the registers are configured; there is a block and a line of dots for each row of a last tile.
            unsafe { tile_dots!("tmm5", "tmm6", "tmm2", a.as_ptr(), weights, to) };
        }
    }

    /// As [`Tiles::dots`], of the first and of the second 16 values.
    ///
    /// # Panics
    /// When there are as many rows as neither a whole nor the last tile has.
    #[inline(always)]
    pub(crate) fn half_dots(
        &self,
        a: &[QuantBlock],
        weights: &TileWeights,
        to: &mut [TileDots; 2],
    ) {
        let whole = a.len() == TILE;
        assert!(whole || a.len() == self.n_last, "rows as configured");
        for (half, to) in to.iter_mut().enumerate() {
            let weights = weights.0[4 * half..].as_ptr();
            let to = &raw mut *to;
            // The quants are the first part of a block, so this is where the half of the first row stands.
            let a = a.as_ptr().cast::<u8>().wrapping_add(16 * half);
            if whole {
                // SAFETY: the registers are configured; each of 16 rows has half a block and a line of dots.
                unsafe { tile_dots!("tmm0", "tmm3", "tmm4", a, weights, to) };
            } else {
                // SAFETY: the registers are configured; each row of a last tile has half a block and a line of dots.
                unsafe { tile_dots!("tmm5", "tmm7", "tmm4", a, weights, to) };
            }
        }
    }
}

/// Asks for the cache line at `address`, to write it soon.
#[inline(always)]
pub(crate) fn fetch_to_write<T>(address: *const T) {
    // SAFETY: the instruction changes nothing that a program sees, whatever is there; CPUs without it do nothing.
    unsafe { asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: `configure` found AMX.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}
