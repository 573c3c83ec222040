//! What a capped server may hold, and when that is too much. Never runs one.

use super::super::memory::mib;
use crate::memory_group::GroupUsage;

/// A limit of the control group, and what must hold under it.
pub(super) struct Cap {
    pub(super) name: &'static str,
    /// The limit, as a multiple of the budget.
    pub(super) times_budget: u64,
    rule: Rule,
}

enum Rule {
    /// With room for twice as much it still holds no more than its budget, page cache included.
    PeakWithinBudget,
    /// What it was given is enough: nothing is killed, and nothing has to be taken back from it after it is ready.
    LimitNeverHit,
}

pub(super) const CAPS: [Cap; 2] = [
    Cap { name: "limit of twice the budget", times_budget: 2, rule: Rule::PeakWithinBudget },
    Cap { name: "limit of the budget", times_budget: 1, rule: Rule::LimitNeverHit },
];

impl Cap {
    /// Prints what was held since `ready`, and says what is too much.
    pub(super) fn check(&self, budget: u64, ready: GroupUsage, end: GroupUsage) -> Vec<String> {
        let GroupUsage { peak_bytes, oom_kills, .. } = end;
        let hits = end.limit_hits - ready.limit_hits;
        println!(
            "peak {:.1} MiB when ready, {:.1} MiB at the end ({:.1} % of the budget), page cache included; \
             limit hit {} times before it was ready and {hits} times after; {oom_kills} killed",
            mib(ready.peak_bytes as f64),
            mib(peak_bytes as f64),
            100.0 * peak_bytes as f64 / budget as f64,
            ready.limit_hits,
        );
        let mut broken = Vec::new();
        match self.rule {
            Rule::PeakWithinBudget if peak_bytes > budget => {
                broken.push(format!("{peak_bytes} bytes held, {budget} allowed"));
            }
            Rule::LimitNeverHit if hits > 0 => {
                broken.push(format!("the limit was hit {hits} times after it was ready"));
            }
            Rule::PeakWithinBudget | Rule::LimitNeverHit => {}
        }
        if oom_kills > 0 {
            broken.push(format!("{oom_kills} processes were killed"));
        }
        broken
    }
}

/// The same of a process that no group holds: its own memory, without the page cache.
pub(super) fn check_process(budget: u64, peak_bytes: u64) -> Option<String> {
    println!("peak of the process {:.1} MiB", mib(peak_bytes as f64));
    (peak_bytes > budget).then(|| format!("{peak_bytes} bytes held, {budget} allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_broken(cap: usize, peak_bytes: u64, hits: [u64; 2], oom_kills: u64) -> usize {
        let usage =
            |peak_bytes, limit_hits, oom_kills| GroupUsage { peak_bytes, limit_hits, oom_kills };
        let (ready, end) = (usage(90, hits[0], 0), usage(peak_bytes, hits[1], oom_kills));
        CAPS[cap].check(100, ready, end).len()
    }

    #[test]
    fn with_room_for_more_the_peak_counts() {
        assert_eq!(n_broken(0, 100, [0, 0], 0), 0);
        assert_eq!(n_broken(0, 101, [0, 0], 0), 1);
        assert_eq!(n_broken(0, 101, [0, 0], 1), 2);
    }

    #[test]
    fn without_room_for_more_the_limit_counts_from_when_it_is_ready() {
        assert_eq!(n_broken(1, 100, [7, 7], 0), 0);
        assert_eq!(n_broken(1, 100, [7, 8], 0), 1);
        assert_eq!(n_broken(1, 100, [0, 3], 1), 2);
    }

    #[test]
    fn a_process_alone_is_held_to_the_budget() {
        assert_eq!(check_process(100, 100), None);
        assert!(check_process(100, 101).is_some());
    }
}
