//! Sizes as people write them, and as frank prints them.

use frank_plan::{Size, SizeError, parse_size};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

#[test]
fn every_documented_unit_is_read() {
    let check = |text: &str, expected: u64| assert_eq!(parse_size(text), Ok(expected), "{text}");
    check("123", 123);
    check("0", 0);
    check("10B", 10);
    check("10 B", 10);
    check("3KiB", 3 << 10);
    check("512MiB", 512 << 20);
    check("64GiB", 64 << 30);
    check("64 GiB", 64 << 30);
    check("2TiB", 2 << 40);
    check("1kB", 1_000);
    check("500MB", 500_000_000);
    check("34.2GB", 34_200_000_000);
    check("2TB", 2_000_000_000_000);
    check("1.5GiB", 3 << 29);
    check("0.1KiB", 102);
    check("007MiB", 7 << 20);
    check("18446744073709551615", u64::MAX);
    check("16777215TiB", 16_777_215 << 40);
}

#[test]
fn what_is_no_size_is_refused_and_named() {
    let malformed = [
        "", " ", "B", "GiB", "-1", "-1GiB", "+1", "NaN", "nan GiB", "inf", "1e9", "0x10", "1,5GiB",
        "1_000", "1.GiB", ".5GiB", "1.2.3MB", "1  GiB", "1\tGiB", " 1GiB", "1GiB ", "1gib", "1Gib",
        "1G", "1KB", "1GiBs", "1PiB", "١GiB",
    ];
    for text in malformed {
        assert_eq!(
            parse_size(text),
            Err(SizeError::Malformed { text: text.to_owned() }),
            "{text:?}"
        );
    }
    for text in ["1.5", "0.0B", "2.5 B"] {
        assert_eq!(
            parse_size(text),
            Err(SizeError::PartOfByte { text: text.to_owned() }),
            "{text:?}"
        );
    }
    for text in [
        "18446744073709551616",
        "16777216TiB",
        "99999999999999999999999999GiB",
        "18446744073709551615.9KiB",
    ] {
        assert_eq!(
            parse_size(text),
            Err(SizeError::TooLarge { text: text.to_owned() }),
            "{text:?}"
        );
    }
    let message = parse_size("8 gigs").unwrap_err().to_string();
    assert_eq!(
        message,
        "`8 gigs` is not a size: a number with one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, or plain bytes"
    );
}

#[test]
fn sizes_are_printed_with_a_unit() {
    let check = |bytes: u64, expected: &str| assert_eq!(Size(bytes).to_string(), expected);
    check(0, "0 B");
    check(1023, "1023 B");
    check(1024, "1.00 KiB");
    check(98_362_432, "93.81 MiB");
    check(3 << 29, "1.50 GiB");
    check((1 << 30) - 1, "1024.00 MiB");
    check(u64::MAX, "16777216.00 TiB");
    assert_eq!(format!("[{:>10}]", Size(3 << 29)), "[  1.50 GiB]");
}

proptest! {
    #[test]
    fn an_exact_size_is_read_back_to_the_byte(bytes in any::<u64>(), shift in 0u32..64) {
        for bytes in [bytes, bytes >> shift, (bytes >> shift) << shift] {
            prop_assert_eq!(parse_size(&Size(bytes).exact()), Ok(bytes));
        }
    }

    #[test]
    fn a_printed_size_is_read_back_within_its_rounding(bytes in any::<u64>(), shift in 1u32..64) {
        let bytes = bytes >> shift;
        let read = parse_size(&Size(bytes).to_string()).expect("a printed size is a size");
        // Two digits after a point that follows at least one whole unit.
        prop_assert!(read.abs_diff(bytes) <= bytes / 200 + 1, "{} read as {}", bytes, read);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,24}", number in "[0-9.]{0,30}", unit in "[KMGTk]?i?B?") {
        let _read = parse_size(&text);
        let _read = parse_size(&format!("{number}{unit}"));
    }
}
