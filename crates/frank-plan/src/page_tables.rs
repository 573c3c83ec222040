//! Page tables: what the system takes from a budget to map the memory of a plan. Never part of what the program itself
//! counts.

/// How much memory one byte of page tables maps. 0 where tables are not counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageTables {
    pub(crate) mapped_bytes: u64,
}

impl PageTables {
    /// Bytes of tables for so many bytes of memory.
    pub(crate) fn of(self, bytes: u64) -> u64 {
        if self.mapped_bytes == 0 { 0 } else { bytes.div_ceil(self.mapped_bytes) }
    }

    /// Bytes of tables where memory and tables together take at most `bytes`.
    fn within(self, bytes: u64) -> u64 {
        let share = bytes.checked_div(self.mapped_bytes.saturating_add(1)).unwrap_or(0);
        if self.mapped_bytes == 0 { 0 } else { share.saturating_add(1) }
    }

    /// What has to be set aside for tables before it is known how much of `wanted` bytes there is room for: enough for
    /// any part of them within `room`, tables included.
    pub(crate) fn aside(self, wanted: u64, room: u64) -> u64 {
        self.of(wanted).min(self.within(room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_were_set_aside_are_enough_and_take_all_that_is_left_but_a_byte() {
        let tables = PageTables { mapped_bytes: 512 };
        for bytes in (0..2000).chain([1 << 30, (1 << 40) + 511, 513 << 20]) {
            let aside = tables.aside(u64::MAX, bytes);
            let held = bytes.saturating_sub(aside);
            assert!(tables.of(held) <= aside, "{bytes}");
            assert!(held == 0 || held + tables.of(held) + 2 >= bytes, "{bytes}: {held}");
        }
    }

    #[test]
    fn no_more_is_set_aside_than_all_that_is_wanted_takes() {
        let tables = PageTables { mapped_bytes: 512 };
        assert_eq!(tables.aside(1 << 20, 1 << 40), 1 << 11);
    }

    #[test]
    fn tables_that_are_not_counted_take_nothing() {
        let tables = PageTables { mapped_bytes: 0 };
        assert_eq!((tables.of(u64::MAX), tables.aside(u64::MAX, u64::MAX)), (0, 0));
    }
}
