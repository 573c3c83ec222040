//! Which bytes of the file each range and each segment holds. Pure arithmetic; never touches a byte.

use std::ops::Range;

/// Size of a range of a small file, and what the sizes of all ranges are a multiple of.
const RANGE_BYTES_MIN: u64 = 1 << 20;
/// Size of a range of a large file: large enough that the time to ask for one does not count, small enough that one that
/// must be brought again costs little.
const RANGE_BYTES_USUAL: u64 = 8 << 20;
/// A file is cut into at least so many ranges, as long as they do not get too small.
const RANGES_WANTED: u64 = 64;
/// Most ranges of a file; those of a file beyond terabytes are larger for it.
pub(super) const RANGES_MAX: u64 = 1 << 18;

/// How a file is cut: into segments, each of which has a URL of its own, and those into ranges. No range crosses a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    range_bytes: u64,
    segments: Vec<SegmentSpan>,
}

/// One segment in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentSpan {
    /// Its first byte in the file.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Its first range.
    first_range: usize,
    n_ranges: usize,
}

/// One range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RangeSpan {
    /// Its first byte in the file.
    pub(super) offset: u64,
    /// Its first byte in its segment.
    pub(super) within: u64,
    pub(super) bytes: u64,
}

/// The size of the ranges of a file of `total` bytes.
pub(super) fn range_bytes_for(total: u64) -> u64 {
    let usual = (total / RANGES_WANTED).clamp(RANGE_BYTES_MIN, RANGE_BYTES_USUAL);
    usual.max(total.div_ceil(RANGES_MAX / 2)).div_ceil(RANGE_BYTES_MIN) * RANGE_BYTES_MIN
}

impl Layout {
    /// Cuts segments of these sizes into ranges. `None` when the sizes do not add up to a size that a file can have, or there
    /// would be more than [`RANGES_MAX`] ranges.
    pub(super) fn new(sizes: &[u64], range_bytes: u64) -> Option<Layout> {
        let (mut offset, mut first_range) = (0_u64, 0_usize);
        let mut segments = Vec::with_capacity(sizes.len());
        for &bytes in sizes {
            let n_ranges = usize::try_from(bytes.checked_div(range_bytes)?).ok()?;
            let n_ranges = n_ranges + usize::from(!bytes.is_multiple_of(range_bytes));
            segments.push(SegmentSpan { offset, bytes, first_range, n_ranges });
            offset = offset.checked_add(bytes)?;
            first_range = first_range.checked_add(n_ranges)?;
        }
        let fits = first_range as u64 <= RANGES_MAX && i64::try_from(offset).is_ok();
        fits.then_some(Layout { range_bytes, segments })
    }

    pub(super) fn range_bytes(&self) -> u64 {
        self.range_bytes
    }

    /// Bytes of the whole file.
    pub(super) fn total(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.offset + last.bytes)
    }

    pub(super) fn n_ranges(&self) -> usize {
        self.segments.last().map_or(0, |last| last.first_range + last.n_ranges)
    }

    pub(super) fn segments(&self) -> &[SegmentSpan] {
        &self.segments
    }

    /// The ranges of a segment.
    pub(super) fn ranges_of(&self, segment: usize) -> Range<usize> {
        let span = &self.segments[segment];
        span.first_range..span.first_range + span.n_ranges
    }

    /// Where a range is. `range` must be below [`Layout::n_ranges`].
    pub(super) fn range(&self, range: usize) -> RangeSpan {
        let after = self.segments.partition_point(|span| span.first_range + span.n_ranges <= range);
        let span = &self.segments[after];
        let within = (range - span.first_range) as u64 * self.range_bytes;
        let bytes = (span.bytes - within).min(self.range_bytes);
        RangeSpan { offset: span.offset + within, within, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn ranges_cover_every_byte_once_and_never_cross_a_segment() {
        for sizes in [&[10, 0, 4, 25][..], &[0], &[], &[8], &[7, 9]] {
            let layout = Layout::new(sizes, 8).unwrap();
            let mut offset = 0;
            for (segment, &bytes) in sizes.iter().enumerate() {
                let mut within = 0;
                for range in layout.ranges_of(segment) {
                    let span = layout.range(range);
                    assert_eq!((span.offset, span.within), (offset, within), "{sizes:?}");
                    assert!((1..=8).contains(&span.bytes));
                    offset += span.bytes;
                    within += span.bytes;
                }
                assert_eq!(within, bytes, "{sizes:?}");
            }
            assert_eq!(offset, layout.total());
        }
    }

    #[test]
    fn ranges_are_a_few_mebibytes_and_never_too_many() {
        for (total, expected) in [
            (0, MIB),
            (1, MIB),
            (64 * MIB, MIB),
            (256 * MIB, 4 * MIB),
            (4 << 30, 8 * MIB),
            (400_000_000_000, 8 * MIB),
        ] {
            assert_eq!(range_bytes_for(total), expected, "{total}");
        }
        for total in [1 << 42, 1 << 50, i64::MAX as u64] {
            let layout = Layout::new(&[total], range_bytes_for(total)).unwrap();
            assert!(layout.n_ranges() as u64 <= RANGES_MAX, "{total}");
        }
    }

    #[test]
    fn sizes_that_no_file_can_have_are_refused() {
        assert!(Layout::new(&[u64::MAX, 2], range_bytes_for(u64::MAX)).is_none());
        assert!(Layout::new(&[1 << 63], range_bytes_for(1 << 63)).is_none());
        assert!(Layout::new(&[1 << 50], MIB).is_none());
        assert!(Layout::new(&[1], 0).is_none());
    }
}
