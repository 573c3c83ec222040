//! Tests of the table of weights and of its loading: every type read back, slices, refusals by name.

use frank_gguf::quant::quant_type;

use super::*;
use frank_testkit::gguf_writer::GgufWriter;

pub(super) fn open(file: &GgufWriter) -> (ModelFile, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, file.to_bytes()).expect("a new file");
    (ModelFile::open(&path).expect("the file opens"), folder)
}

#[test]
fn matrices_of_every_type_are_loaded_and_read_back() {
    const N_OUT: usize = 19;
    for quant in QUANTS {
        let n_in = 2 * (quant.layout.values_per_block as usize).max(8);
        let n_bytes =
            quant.layout.bytes_per_block as usize * n_in / quant.layout.values_per_block as usize;
        // Small bytes make small scales in every type: no value is infinite.
        let bytes: Vec<u8> = (0..N_OUT * n_bytes).map(|i| (i * 7 % 61) as u8).collect();
        let dims = [n_in as u64, N_OUT as u64];
        let (file, _folder) =
            open(&GgufWriter::new("x").tensor("w", &dims, quant.id, bytes.clone()));
        let mut table = WeightTable::new(&file.header);
        let id = table.matrix("w", n_in, N_OUT).expect(quant.layout.name);
        let weights = table.load(&file, 2, None).expect(quant.layout.name);
        let (mut got, mut expected) = (vec![0.0; n_in], vec![0.0; n_in]);
        for (row, bytes) in bytes.chunks(n_bytes).enumerate() {
            weights.matrix(id).row(row, &mut got);
            (quant.dequantize)(bytes, &mut expected);
            assert_eq!(got, expected, "row {row} of {}", quant.layout.name);
        }
    }
}

#[test]
fn a_matrix_of_several_slices_is_read_back_row_by_row() {
    // Sixteen rows of 9,216 bytes are read at once, so the last slice is a part of one.
    let (n_in, n_out, row_bytes) = (1 << 14, 50, 18 << 9);
    assert!((16..32).contains(&(loading::SLICE_BYTES / row_bytes)));
    let bytes: Vec<u8> = (0..n_out * row_bytes).map(|i| (i * 7 % 61) as u8).collect();
    let dims = [n_in as u64, n_out as u64];
    let (file, _folder) =
        open(&GgufWriter::new("x").tensor("w", &dims, type_id::Q4_0, bytes.clone()));
    let mut table = WeightTable::new(&file.header);
    let id = table.matrix("w", n_in, n_out).expect("whole blocks");
    let weights = table.load(&file, 2, None).expect("it is loaded");
    let quant = quant_type(type_id::Q4_0).expect("a known type");
    let (mut got, mut expected) = (vec![0.0; n_in], vec![0.0; n_in]);
    for (row, bytes) in bytes.chunks(row_bytes).enumerate() {
        weights.matrix(id).row(row, &mut got);
        (quant.dequantize)(bytes, &mut expected);
        assert!(got == expected, "row {row}");
    }
}

#[test]
fn vectors_of_every_float_type_become_f32() {
    let f16: [u8; 4] = [0x00, 0x3c, 0x00, 0xc0];
    let bf16: [u8; 4] = [0x80, 0x3f, 0x00, 0xc0];
    let f32: [u8; 8] = [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0];
    let (file, _folder) = open(
        &GgufWriter::new("x")
            .tensor("a", &[2], type_id::F32, f32.to_vec())
            .tensor("b", &[2], type_id::F16, f16.to_vec())
            .tensor("c", &[2], type_id::BF16, bf16.to_vec()),
    );
    let mut table = WeightTable::new(&file.header);
    let ids = ["a", "b", "c"].map(|name| table.vector(name, 2).expect(name));
    let weights = table.load(&file, 2, None).expect("it is loaded");
    for id in ids {
        assert_eq!(weights.vector(id), [1.0, -2.0]);
    }
}

#[test]
fn a_type_that_cannot_be_computed_with_is_refused_by_name() {
    let file = GgufWriter::new("x")
        .tensor("w", &[32, 2], 36, vec![0; 64])
        .tensor("v", &[32], type_id::Q8_0, vec![0; 34])
        .tensor("i", &[32], 26, vec![0; 128]);
    let (file, _folder) = open(&file);
    let mut table = WeightTable::new(&file.header);
    let removed = table.matrix("w", 32, 2).expect_err("removed").to_string();
    assert!(
        removed.starts_with(
            "tensor w has type IQ4_NL_4_4, removed from the format (id 36), one of F32, F16, "
        ),
        "{removed}"
    );
    for quant in QUANTS {
        assert!(removed.contains(quant.layout.name), "{removed}");
    }
    let quantized = table.vector("v", 32).expect_err("blocks").to_string();
    assert_eq!(quantized, "tensor v has type Q8_0 (id 8), one of F32, F16, BF16 expected");
    let integers = table.matrix("i", 32, 1).expect_err("integers").to_string();
    assert!(integers.starts_with("tensor i has type I32 (id 26), one of "), "{integers}");
}
