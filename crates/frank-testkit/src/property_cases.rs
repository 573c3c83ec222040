//! How many cases a property test runs that is too slow for the default of proptest. Never runs one.

use std::env;

/// `few`, unless `PROPTEST_CASES` asks for another number, as `cargo xtask fuzz` does.
pub fn property_cases(few: u32) -> u32 {
    let asked = env::var("PROPTEST_CASES").ok();
    asked.and_then(|number| number.parse().ok()).unwrap_or(few)
}
