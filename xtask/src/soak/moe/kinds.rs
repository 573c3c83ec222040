//! What a control group held over time, by kind: anonymous memory, page cache, and what the kernel keeps. Never judges it.

use super::super::memory::mib;
use crate::memory_group::Held;

/// Samples of a group.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    samples: Vec<Held>,
}

impl Kinds {
    pub(super) fn note(&mut self, held: Held) {
        self.samples.push(held);
    }

    /// What was held at first, where most was held, most of each kind by itself, and at last.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let most = self.samples.iter().max_by_key(|held| held.bytes);
        let of_each = self.samples.iter().copied().reduce(most_of_each);
        let moments = [
            ("at first", self.samples.first().copied()),
            ("where most was held", most.copied()),
            ("most of each kind", of_each),
            ("at last", self.samples.last().copied()),
        ];
        moments.into_iter().filter_map(|(moment, held)| Some(format!("{moment}: {}", said(held?))))
    }
}

fn most_of_each(a: Held, b: Held) -> Held {
    Held {
        bytes: a.bytes.max(b.bytes),
        anonymous: a.anonymous.max(b.anonymous),
        page_cache: a.page_cache.max(b.page_cache),
        kernel: a.kernel.max(b.kernel),
    }
}

fn said(held: Held) -> String {
    let Held { bytes, anonymous, page_cache, kernel } = held;
    let [bytes, anonymous, page_cache, kernel] =
        [bytes, anonymous, page_cache, kernel].map(|bytes| mib(bytes as f64));
    format!(
        "{bytes:.1} MiB held, of them anonymous {anonymous:.1}, page cache {page_cache:.1}, kernel {kernel:.1}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(anonymous: u64, page_cache: u64) -> Held {
        let [anonymous, page_cache] = [anonymous, page_cache].map(|mib| mib << 20);
        Held { bytes: anonymous + page_cache, anonymous, page_cache, kernel: 0 }
    }

    #[test]
    fn the_most_of_a_kind_need_not_be_where_most_was_held() {
        let mut kinds = Kinds::default();
        assert_eq!(kinds.lines().count(), 0);
        [held(10, 5), held(20, 0), held(16, 2)].into_iter().for_each(|held| kinds.note(held));
        let lines: Vec<_> = kinds.lines().collect();
        let says =
            |line: usize, expected: &str| assert!(lines[line].contains(expected), "{lines:?}");
        says(0, "15.0 MiB held, of them anonymous 10.0, page cache 5.0");
        says(1, "20.0 MiB held, of them anonymous 20.0, page cache 0.0");
        says(2, "20.0 MiB held, of them anonymous 20.0, page cache 5.0");
        says(3, "18.0 MiB held, of them anonymous 16.0, page cache 2.0");
    }
}
