//! Broken files: each kind is refused with a text that names the place.

use std::io::{self, Read};

use frank_gguf::{Array, Header, type_id};
use frank_testkit::gguf_writer::GgufWriter;

use crate::read;

/// A file put together field by field, so that any field can lie.
struct Raw(Vec<u8>);

impl Raw {
    fn new(n_tensors: u64, n_keys: u64) -> Raw {
        Raw(Vec::new())
            .put(b"GGUF")
            .put(&3u32.to_le_bytes())
            .put(&n_tensors.to_le_bytes())
            .put(&n_keys.to_le_bytes())
    }

    fn put(mut self, bytes: &[u8]) -> Raw {
        self.0.extend(bytes);
        self
    }

    fn string(self, bytes: &[u8]) -> Raw {
        self.put(&(bytes.len() as u64).to_le_bytes()).put(bytes)
    }

    fn key(self, name: &str, value_type: u32) -> Raw {
        self.string(name.as_bytes()).put(&value_type.to_le_bytes())
    }

    fn tensor(self, name: &str, dims: &[u64], type_id: u32, offset: u64) -> Raw {
        let dim_bytes: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        self.string(name.as_bytes())
            .put(&(dims.len() as u32).to_le_bytes())
            .put(&dim_bytes)
            .put(&type_id.to_le_bytes())
            .put(&offset.to_le_bytes())
    }

    /// Room for the data section, so that only the field under test is wrong.
    fn room(self) -> Raw {
        self.put(&[0; 4096])
    }
}

const U8: u32 = 0;
const U32: u32 = 4;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const HUGE: [u8; 8] = (1u64 << 63).to_le_bytes();

#[track_caller]
fn check(file: &Raw, expected: &str) {
    let error = read(&file.0).expect_err(expected).to_string();
    assert!(error.contains(expected), "got: {error}\nnot: {expected}");
}

#[test]
fn what_is_not_gguf_is_said_to_be_none() {
    check(&Raw(b"Once upon a time".to_vec()), "not a GGUF file: it starts with \"Once\"");
    check(&Raw(b"".to_vec()), "not a GGUF file: it starts with \"\"");
    check(&Raw(b"GGU".to_vec()), "not a GGUF file: it starts with \"GGU\"");
    check(&Raw(b"\x1b[2J\x00".to_vec()), "not a GGUF file: it starts with \"\\\\x1b[2J\"");
    check(&Raw(b"GGML\x01\0\0\0".to_vec()), "not a GGUF file");
}

#[test]
fn other_versions_and_byte_orders_are_refused_by_name() {
    let version = |bytes: [u8; 4]| Raw(Vec::new()).put(b"GGUF").put(&bytes).put(&[0; 64]);
    check(&version(1u32.to_le_bytes()), "GGUF version 1; versions 2 and 3 are read");
    check(&version(4u32.to_le_bytes()), "GGUF version 4; versions 2 and 3 are read");
    check(&version(0u32.to_le_bytes()), "GGUF version 0;");
    check(&version(3u32.to_be_bytes()), "big-endian");
    check(&version(2u32.to_be_bytes()), "big-endian");
}

#[test]
fn counts_beyond_the_file_are_refused_before_anything_is_allocated() {
    check(
        &Raw::new(1 << 40, 0).room(),
        "the file header: a count of 1099511627776 does not fit into the 4096 bytes",
    );
    check(&Raw::new(0, 1 << 40).room(), "the file header: a count of 1099511627776 does not fit");
    check(&Raw::new(u64::MAX, u64::MAX).room(), "a count of 18446744073709551615 does not fit");
    check(
        &Raw::new(0, 1).put(&HUGE).room(),
        "the file ends inside metadata key number 0: 9223372036854775808 bytes",
    );
    check(
        &Raw::new(0, 1).key("k", STRING).put(&HUGE).room(),
        "inside the value of key \"k\": 9223372036854775808",
    );
    check(
        &Raw::new(0, 1).key("k", ARRAY).put(&U32.to_le_bytes()).put(&HUGE).room(),
        "the value of key \"k\": a count of 9223372036854775808 does not fit",
    );
    check(
        &Raw::new(0, 1)
            .key("k", ARRAY)
            .put(&STRING.to_le_bytes())
            .put(&1000u64.to_le_bytes())
            .room(),
        "the value of key \"k\": a count of 1000 does not fit into the 4096 bytes that are left",
    );
    check(
        &Raw::new(0, 1).key("k", ARRAY).put(&BOOL.to_le_bytes()).put(&5000u64.to_le_bytes()).room(),
        "the value of key \"k\": a count of 5000 does not fit",
    );
    check(
        &Raw::new(1, 0).put(&HUGE).room(),
        "inside the name of tensor number 0: 9223372036854775808 bytes",
    );
}

#[test]
fn strings_that_cannot_be_names_are_refused() {
    check(
        &Raw::new(0, 1).string(b"").put(&U8.to_le_bytes()).put(&[1]).room(),
        "metadata key number 0 is empty",
    );
    check(
        &Raw::new(0, 1).string(b"\xff\xfe").put(&U8.to_le_bytes()).room(),
        "metadata key number 0: a string that is",
    );
    check(
        &Raw::new(0, 1).key("k", STRING).string(b"ab\xc3").room(),
        "the value of key \"k\": a string that is not UTF-8",
    );
    let long = vec![b'k'; 65_536];
    check(
        &Raw::new(0, 1).string(&long).room(),
        "metadata key number 0: a string of 65536 bytes, at most 65535",
    );
    check(
        &Raw::new(1, 0).string(&[b't'; 256]).room(),
        "the name of tensor number 0: a string of 256 bytes, at most 255",
    );
    check(
        &Raw::new(1, 0).string(b"\xf0\x9f").room(),
        "the name of tensor number 0: a string that is not UTF-8",
    );
    check(&Raw::new(1, 0).tensor("", &[1], 0, 0).room(), "tensor number 0 has an empty name");
}

#[test]
fn a_hostile_name_cannot_write_to_the_terminal() {
    let error = read(&Raw::new(1, 0).tensor("\x1b]0;owned\x07", &[0], 0, 0).room().0)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "tensor \"\\u{1b}]0;owned\\u{7}\": dimension 0 is 0");
}

#[test]
fn values_of_impossible_types_are_refused_by_key() {
    check(&Raw::new(0, 1).key("k", 13).room(), "key \"k\": value type 13 does not exist");
    check(
        &Raw::new(0, 1).key("k", u32::MAX).room(),
        "key \"k\": value type 4294967295 does not exist",
    );
    let array = |element: u32| {
        Raw::new(0, 1).key("k", ARRAY).put(&element.to_le_bytes()).put(&1u64.to_le_bytes()).room()
    };
    check(&array(13), "key \"k\": value type 13 does not exist");
    check(&array(ARRAY), "key \"k\": an array inside an array");
    check(
        &Raw::new(0, 1).key("k", BOOL).put(&[2]).room(),
        "key \"k\": a boolean of 2, only 0 and 1 exist",
    );
    let bools = Raw::new(0, 1)
        .key("k", ARRAY)
        .put(&BOOL.to_le_bytes())
        .put(&3u64.to_le_bytes())
        .put(&[1, 0, 9]);
    check(&bools.room(), "key \"k\": a boolean of 9, only 0 and 1 exist");
}

#[test]
fn a_key_or_a_tensor_that_appears_twice_is_refused_by_name() {
    let keys = Raw::new(0, 3)
        .key("k", U8)
        .put(&[1])
        .key("other", U8)
        .put(&[1])
        .key("k", U8)
        .put(&[1])
        .room();
    check(&keys, "metadata key \"k\" appears twice");
    let tensors = Raw::new(3, 0)
        .tensor("t", &[1], 0, 0)
        .tensor("u", &[1], 0, 32)
        .tensor("t", &[1], 0, 64)
        .room();
    check(&tensors, "tensor \"t\" appears twice");
}

#[test]
fn an_alignment_that_is_not_a_u32_power_of_two_is_refused() {
    let file = || GgufWriter::new("llama").f32_tensor("t", &[1], &[1.0]);
    let refused = |writer: GgufWriter, got: &str| {
        check(
            &Raw(writer.to_bytes()),
            &format!("key \"general.alignment\": {got}, it must be a u32 power of two"),
        );
    };
    refused(file().value("general.alignment", "32"), "a string");
    refused(file().value("general.alignment", 32u64), "a u64");
    refused(file().value("general.alignment", 32i32), "an i32");
    refused(file().value("general.alignment", Array::U32(vec![32])), "an array of u32");
    refused(file().value("general.alignment", 0u32), "0");
    refused(file().value("general.alignment", 33u32), "33");
    refused(file().value("general.alignment", u32::MAX), "4294967295");
}

#[test]
fn a_dimension_of_zero_is_refused_by_name() {
    check(&Raw::new(1, 0).tensor("t", &[32, 0], 0, 0).room(), "tensor \"t\": dimension 1 is 0");
    check(
        &Raw::new(1, 0).tensor("t", &[0], type_id::Q8_0, 0).room(),
        "tensor \"t\": dimension 0 is 0",
    );
    check(
        &Raw::new(1, 0).tensor("t", &[8, 8, 8, 0], 250, 0).room(),
        "tensor \"t\": dimension 3 is 0",
    );
}

#[test]
fn more_than_four_dimensions_are_refused_before_they_are_read() {
    check(
        &Raw::new(1, 0).tensor("t", &[1; 9], 0, 0).room(),
        "tensor \"t\": 9 dimensions, at most 4 exist",
    );
    let claimed = Raw::new(1, 0).string(b"t").put(&u32::MAX.to_le_bytes()).room();
    check(&claimed, "tensor \"t\": 4294967295 dimensions, at most 4 exist");
}

#[test]
fn a_size_that_wraps_is_refused_by_name() {
    let refused = |dims: &[u64], type_id: u32| {
        let expected = format!("tensor \"t\": the size of dimensions {dims:?} overflows");
        check(&Raw::new(1, 0).tensor("t", dims, type_id, 0).room(), &expected);
    };
    refused(&[1 << 22, (1 << 42) + 1], type_id::F32);
    refused(&[1 << 22, (1 << 42) + 1], type_id::Q8_0);
    refused(&[1 << 32, 1 << 32], type_id::F32);
    refused(&[u64::MAX, u64::MAX, u64::MAX, u64::MAX], type_id::F16);
    refused(&[1 << 62], type_id::F32); // 2^62 values fit, 2^64 bytes do not
    refused(&[1 << 63], 250);
}

#[test]
fn a_row_that_is_no_whole_number_of_blocks_is_refused() {
    check(
        &Raw::new(1, 0).tensor("t", &[33], type_id::Q8_0, 0).room(),
        "tensor \"t\": rows of 33 values, not a multiple of the 32 values of a Q8_0 block",
    );
    check(&Raw::new(1, 0).tensor("t", &[128, 2], 12, 0).room(), "the 256 values of a Q4_K block");
    check(
        &Raw::new(1, 0).tensor("t", &[], type_id::Q4_1, 0).room(),
        "tensor \"t\": rows of 1 values",
    );
}

#[test]
fn offsets_off_the_alignment_or_inside_another_tensor_are_refused() {
    check(
        &Raw::new(1, 0).tensor("t", &[1], 0, 4).room(),
        "tensor \"t\": offset 4 is not a multiple of the alignment 32",
    );
    check(
        &Raw::new(2, 0).tensor("late", &[1], 0, 32).tensor("early", &[16], 0, 0).room(),
        "tensor \"late\" at offset 32 starts inside tensor \"early\"",
    );
    check(
        &Raw::new(2, 0).tensor("a", &[1], 0, 0).tensor("b", &[1], 0, 0).room(),
        "starts inside tensor",
    );
    check(
        &Raw::new(2, 0).tensor("a", &[1], 250, 0).tensor("b", &[1], 250, 0).room(),
        "starts inside tensor",
    );
}

#[test]
fn a_tensor_outside_the_file_is_refused_by_name() {
    let at = |offset: u64| Raw::new(1, 0).tensor("t", &[8], 0, offset).room();
    check(&at(1 << 20), "tensor \"t\": 32 bytes at offset 1048");
    check(&at(u64::MAX - 31), "tensor \"t\": 32 bytes at offset 18446744073709551615 of the file");
    check(
        &Raw::new(1, 0).tensor("t", &[1 << 40], 0, 0).room(),
        "tensor \"t\": 4398046511104 bytes at offset 64",
    );
    check(
        &Raw::new(1, 0).tensor("t", &[1 << 40], 250, 1 << 20).room(),
        "tensor \"t\": 1 bytes at offset",
    );
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bytes = GgufWriter::new("llama")
        .value("k.list", Array::String(vec!["one".to_owned(), "two".to_owned()]))
        .value("k.number", 3u64)
        .f32_tensor("norm.weight", &[4], &[1.0; 4])
        .tensor("big.weight", &[32, 2], type_id::Q8_0, vec![0; 68])
        .to_bytes();
    read(&bytes).unwrap();
    for cut in 0..bytes.len() {
        let error = read(&bytes[..cut]).expect_err("a cut file").to_string();
        assert!(!error.is_empty(), "cut at {cut}");
    }
}

#[test]
fn a_file_shorter_than_it_was_said_to_be_is_refused() {
    let bytes =
        GgufWriter::new("llama").value("k", "value").f32_tensor("t", &[1], &[1.0]).to_bytes();
    let header_bytes = GgufWriter::new("llama")
        .value("k", "value")
        .f32_tensor("t", &[1], &[1.0])
        .header_bytes()
        .len();
    for cut in 0..header_bytes {
        let result = Header::read(&mut &bytes[..cut], bytes.len() as u64);
        assert!(result.is_err(), "cut at {cut}");
    }
}

#[test]
fn a_reader_that_fails_is_reported_with_its_place() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the drive is gone"))
        }
    }
    let start = Raw::new(0, 1).key("k", STRING).0;
    let error = Header::read(&mut start.chain(Broken), 1 << 20).unwrap_err();
    assert_eq!(error.to_string(), "reading the value of key \"k\" failed: the drive is gone");
}

#[test]
fn a_header_as_large_as_a_sparse_file_is_refused_before_it_is_read() {
    /// Zeros without end, and a count of what was read of them.
    struct Hole(Vec<u8>, u64);

    impl Read for Hole {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let head = self.0.len().min(buf.len());
            buf.fill(0);
            buf[..head].copy_from_slice(&self.0.drain(..head).collect::<Vec<_>>());
            self.1 += buf.len() as u64;
            Ok(buf.len())
        }
    }

    for (element, count) in [(STRING, 1_000_000_000u64), (U8, 100_000_000_000), (U32, 500_000_000)]
    {
        let file =
            Raw::new(0, 1).key("bomb", ARRAY).put(&element.to_le_bytes()).put(&count.to_le_bytes());
        let mut hole = Hole(file.0, 0);
        let refusal = Header::read(&mut hole, 400 << 30).expect_err("refused").to_string();
        assert!(refusal.contains("bomb"), "{refusal}");
        assert!(hole.1 < 1 << 20, "{} bytes were read", hole.1);
    }
}
