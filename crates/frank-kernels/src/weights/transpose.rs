//! Pieces of 16 rows brought side by side: how whole groups are interleaved. Never what the bytes mean.

use super::GROUP_ROWS;

/// Bytes of a word: what one lane multiplies at once.
pub(crate) const WORD: usize = 4;

/// Words of a row that are taken together.
const TILE_WORDS: usize = 4;

/// Rows that are taken together.
const TILE_ROWS: usize = 4;

/// Four words of one row.
type Quad = [u8; TILE_WORDS * WORD];

/// Interleaves the words that each of 16 rows has from `start`, as many as `to` holds: `[n_words, 16]`.
///
/// The rows are `row_bytes` apart.
#[inline(always)]
pub(crate) fn words(rows: &[u8], row_bytes: usize, start: usize, to: &mut [u8]) {
    let n_words = to.len() / (GROUP_ROWS * WORD);
    let mut word = 0;
    while word < n_words {
        // The last four, some of which may have been there before: no type has fewer.
        word = word.min(n_words - TILE_WORDS);
        let to = &mut to[word * GROUP_ROWS * WORD..][..TILE_WORDS * GROUP_ROWS * WORD];
        let (quads, _) = to.as_chunks_mut::<{ TILE_ROWS * WORD }>();
        for first_row in (0..GROUP_ROWS).step_by(TILE_ROWS) {
            let at = |row: usize| {
                let place = (first_row + row) * row_bytes + start + word * WORD;
                *rows[place..].first_chunk::<{ TILE_WORDS * WORD }>().expect("rows are whole")
            };
            let columns = transposed([at(0), at(1), at(2), at(3)]);
            for (word, column) in columns.into_iter().enumerate() {
                quads[word * (GROUP_ROWS / TILE_ROWS) + first_row / TILE_ROWS] = column;
            }
        }
        word += TILE_WORDS;
    }
}

/// Interleaves the pieces of `SIZE` bytes that each of 16 rows has from `start`, as many as `to` holds: `[n_pieces, 16]`.
#[inline(always)]
pub(crate) fn pieces<const SIZE: usize>(
    rows: &[u8],
    row_bytes: usize,
    start: usize,
    to: &mut [u8],
) {
    let (pieces, _) = to.as_chunks_mut::<SIZE>();
    let (pieces, _) = pieces.as_chunks_mut::<GROUP_ROWS>();
    for (index, lanes) in pieces.iter_mut().enumerate() {
        for (row, lane) in lanes.iter_mut().enumerate() {
            let place = row * row_bytes + start + index * SIZE;
            *lane = *rows[place..].first_chunk().expect("rows are whole");
        }
    }
}

/// The four words of each of four rows become the four rows of each of four words.
#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
#[inline(always)]
fn transposed(rows: [Quad; TILE_ROWS]) -> [Quad; TILE_WORDS] {
    // SAFETY: every CPU of this architecture has SSE2.
    unsafe { transposed_sse2(rows) }
}

#[cfg(all(target_arch = "x86_64", not(frank_scalar)))]
#[target_feature(enable = "sse2")]
#[inline]
fn transposed_sse2(rows: [Quad; TILE_ROWS]) -> [Quad; TILE_WORDS] {
    use std::arch::x86_64::{
        __m128i, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    let [a, b, c, d] = rows.map(bytemuck::cast::<Quad, __m128i>);
    let (ab_low, ab_high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
    let columns = [
        _mm_unpacklo_epi64(ab_low, cd_low),
        _mm_unpackhi_epi64(ab_low, cd_low),
        _mm_unpacklo_epi64(ab_high, cd_high),
        _mm_unpackhi_epi64(ab_high, cd_high),
    ];
    columns.map(bytemuck::cast)
}

#[cfg(not(all(target_arch = "x86_64", not(frank_scalar))))]
use transposed_word_by_word as transposed;

/// The transposition without instructions for it.
#[cfg(any(test, not(all(target_arch = "x86_64", not(frank_scalar)))))]
#[inline(always)]
fn transposed_word_by_word(rows: [Quad; TILE_ROWS]) -> [Quad; TILE_WORDS] {
    let rows: [[[u8; WORD]; TILE_WORDS]; TILE_ROWS] = rows.map(bytemuck::cast);
    let column = |word: usize| bytemuck::cast(rows.map(|row| row[word]));
    [column(0), column(1), column(2), column(3)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_rows_become_rows_of_words_with_and_without_instructions_for_it() {
        let rows = [0, 16, 32, 48].map(|first| std::array::from_fn(|i| first + i as u8));
        let columns = transposed(rows);
        assert_eq!(columns, transposed_word_by_word(rows));
        assert_eq!(columns[1], [4, 5, 6, 7, 20, 21, 22, 23, 36, 37, 38, 39, 52, 53, 54, 55]);
    }
}
