//! Experts in the types that their files are published in, against the same values written out in F32.

use std::path::{Path, PathBuf};

use frank_gguf::quant::quant_type;
use frank_gguf::type_id;
use frank_hub::ModelFile;
use frank_testkit::assets;
use frank_testkit::gguf_writer::GgufWriter;

use crate::step::Run;
use crate::tiny::Tiny;

/// Activations of quantized products are rounded to 8 bits, those of F32 are not.
const DISTANCE_MAX: f32 = 0.05;

/// Writes two copies of a model: its experts in a quantized type, and in F32 with what those bytes stand for.
fn copies(name: &str, type_id: u32, folder: &Path) -> [PathBuf; 2] {
    let file = ModelFile::open(&assets::tiny(&format!("{name}.gguf"))).expect("a tiny model");
    let quant = quant_type(type_id).expect("a type that loads");
    let mut writers = [GgufWriter::without_keys(), GgufWriter::without_keys()];
    for (key, value) in file.header.metadata.iter() {
        writers = writers.map(|writer| writer.value(key, value.clone()));
    }
    for tensor in &file.header.tensors {
        let mut bytes = vec![0; usize::try_from(tensor.bytes().expect("F32")).expect("tiny")];
        file.read(tensor, 0, &mut bytes).expect("the file is whole");
        let [quantized, decoded] = writers;
        let (name, dims) = (&tensor.name, &tensor.dims);
        writers = if name.ends_with("_exps.weight") {
            let (words, _) = bytes.as_chunks();
            let values: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
            let (mut packed, mut back) = (Vec::new(), vec![0.0; values.len()]);
            quant.quantize.expect("it can be made")(&values, &mut packed);
            (quant.dequantize)(&packed, &mut back);
            [quantized.tensor(name, dims, type_id, packed), decoded.f32_tensor(name, dims, &back)]
        } else {
            [quantized, decoded]
                .map(|writer| writer.tensor(name, dims, tensor.type_id, bytes.clone()))
        };
    }
    let paths = ["quantized", "decoded"].map(|name| folder.join(format!("{name}.gguf")));
    for (path, writer) in paths.iter().zip(&writers) {
        std::fs::write(path, writer.to_bytes()).expect("a new file");
    }
    paths
}

fn largest_distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn quantized_experts_compute_what_their_values_say() {
    for (name, type_id) in [
        ("gpt-oss", type_id::MXFP4),
        ("qwen3moe", type_id::Q4_1),
        ("olmoe", type_id::Q4_0),
        ("glm4moe", type_id::Q5_1),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let token_ids = Tiny::read(name).token_ids;
        let logits = |path: &Path| Run::EXACT.logits(path, &token_ids);
        let [quantized, decoded] = copies(name, type_id, folder.path()).map(|path| logits(&path));
        let original = logits(&assets::tiny(&format!("{name}.gguf")));
        let (near, far) =
            (largest_distance(&quantized, &decoded), largest_distance(&decoded, &original));
        assert!(near <= DISTANCE_MAX, "{name}: {near}");
        assert!(far > 2.0 * near, "{name}: rounding the experts moves the logits by {far} only");
    }
}
