//! Random damage to a valid file: never a panic, never more memory than the file justifies.

use frank_gguf::{Array, Header, ModelHeader, type_id};
use frank_testkit::broken::memory_max;
use frank_testkit::gguf_writer::GgufWriter;
use proptest::prelude::{ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

fn valid() -> Vec<u8> {
    GgufWriter::new("llama")
        .split(0, 1, 3)
        .value("general.alignment", 32u32)
        .value("k.words", Array::String((0..40).map(|n| "w".repeat(n % 5)).collect()))
        .value("k.numbers", Array::F32(vec![0.5; 20]))
        .value("k.flags", Array::Bool(vec![true; 9]))
        .f32_tensor("a.weight", &[4], &[1.0; 4])
        .tensor("b.weight", &[32, 2], type_id::Q4_1, vec![0; 40])
        .tensor("c.weight", &[64, 2], type_id::F16, vec![0; 256])
        .to_bytes()
}

/// Reads, checks and merges, as opening a model does. Whatever comes out, it must come out.
fn open(bytes: &[u8]) {
    let file_bytes = bytes.len() as u64;
    let Ok(header) = Header::read(&mut &bytes[..], file_bytes) else { return };
    if header.check_data(file_bytes).is_err() {
        return;
    }
    if let Ok(model) = ModelHeader::merge(vec![(header, file_bytes)]) {
        for index in 0..model.tensors.len() {
            assert!(model.stored_bytes(index) <= file_bytes);
        }
    }
}

/// Checks that opening `bytes` takes no more memory than their number justifies.
pub(crate) fn check_memory(bytes: &[u8]) {
    let allocated = allocation_counter::measure(|| open(bytes));
    let limit = memory_max(bytes.len());
    assert!(
        allocated.bytes_max <= limit,
        "{} bytes of memory for a file of {}",
        allocated.bytes_max,
        bytes.len()
    );
}

#[derive(Debug, Clone)]
enum Damage {
    Byte { at: usize, to: u8 },
    Number { at: usize, to: u64 },
    Cut { at: usize },
    Copy { from: usize, to: usize, length: usize },
}

fn damage() -> impl Strategy<Value = Damage> {
    let edge = prop::sample::select(vec![
        0,
        1,
        2,
        255,
        1 << 16,
        1 << 31,
        1 << 32,
        1 << 40,
        1 << 62,
        1 << 63,
        u64::MAX,
    ]);
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, to)| Damage::Byte { at, to }),
        (any::<usize>(), edge).prop_map(|(at, to)| Damage::Number { at, to }),
        any::<usize>().prop_map(|at| Damage::Cut { at }),
        (any::<usize>(), any::<usize>(), 1..64usize).prop_map(|(from, to, length)| Damage::Copy {
            from,
            to,
            length
        }),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let n = bytes.len();
    if n == 0 {
        return;
    }
    match *damage {
        Damage::Byte { at, to } => bytes[at % n] = to,
        Damage::Number { at, to } => {
            let start = at % n;
            let end = n.min(start + 8);
            bytes[start..end].copy_from_slice(&to.to_le_bytes()[..end - start]);
        }
        Damage::Cut { at } => bytes.truncate(at % n),
        Damage::Copy { from, to, length } => {
            let (from, to) = (from % n, to % n);
            let length = length.min(n - from).min(n - to);
            bytes.copy_within(from..from + length, to);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(frank_testkit::property_cases(4096)))]
    #[test]
    fn a_damaged_file_is_read_or_refused_within_a_small_multiple_of_its_size(
        damages in prop::collection::vec(damage(), 1..6),
    ) {
        let mut bytes = valid();
        for damage in &damages {
            apply(&mut bytes, damage);
        }
        check_memory(&bytes);
    }
}

#[test]
fn every_field_that_claims_everything_is_read_or_refused_within_a_small_multiple() {
    let bytes = valid();
    for at in 0..bytes.len() {
        for number in [1 << 20, 1 << 30, 1 << 62, u64::MAX] {
            let mut damaged = bytes.clone();
            apply(&mut damaged, &Damage::Number { at, to: number });
            check_memory(&damaged);
        }
    }
}

#[test]
fn a_claim_of_a_huge_sparse_file_does_not_allocate_it() {
    let claim = 1u64 << 40;
    for value_type in [8u32, 9] {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(b"k");
        bytes.extend(value_type.to_le_bytes());
        if value_type == 9 {
            bytes.extend(10u32.to_le_bytes());
        }
        bytes.extend((1u64 << 27).to_le_bytes());
        let allocated = allocation_counter::measure(|| {
            Header::read(&mut &bytes[..], claim).expect_err("the reader ends before the value");
        });
        assert!(allocated.bytes_max <= memory_max(0), "{} bytes", allocated.bytes_max);
    }
}

#[test]
fn the_worst_honest_file_stays_within_the_multiple() {
    let words = Array::String(vec![String::new(); 50_000]);
    check_memory(&GgufWriter::new("llama").value("k", words).to_bytes());
    let many_keys = (0..5_000)
        .fold(GgufWriter::without_keys(), |writer, n| writer.value(&format!("{n:x}"), 1u8));
    check_memory(&many_keys.to_bytes());
    let many_tensors = (0..5_000)
        .fold(GgufWriter::without_keys().value("general.alignment", 1u32), |writer, n| {
            writer.tensor(&format!("{n:x}"), &[1], 24, vec![0])
        });
    check_memory(&many_tensors.to_bytes());
}
