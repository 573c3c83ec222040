//! The scalar reference against the python packages `gguf` (reads every type) and `libgguf` (makes every type).

use std::io::{BufRead, Read};
use std::process::Command;

use frank_gguf::quant::{QUANTS, QuantType};
use frank_testkit::assets;

/// Blocks and values that belong together, as `tests/oracle/quants.py` writes them.
struct Record {
    job: String,
    type_name: String,
    /// Who made the blocks.
    maker: String,
    blocks: Vec<u8>,
    values: Vec<f32>,
}

fn records() -> Vec<Record> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/quants.py");
    let output = Command::new(assets::python()).arg(script).output().expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut rest = &output.stdout[..];
    let mut records = Vec::new();
    let mut line = String::new();
    while rest.read_line(&mut line).expect("a line of text") > 0 {
        let [job, type_name, maker, n_bytes, n_values] =
            line.split_whitespace().collect::<Vec<_>>()[..]
        else {
            panic!("five words, not {line:?}");
        };
        let mut take = |n: usize| {
            let mut bytes = vec![0; n];
            rest.read_exact(&mut bytes).expect("as many bytes as announced");
            bytes
        };
        let blocks = take(n_bytes.parse().expect("a number of bytes"));
        let values = take(4 * n_values.parse::<usize>().expect("a number of values"));
        let values = values.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        records.push(Record {
            job: job.to_owned(),
            type_name: type_name.to_owned(),
            maker: maker.to_owned(),
            blocks,
            values,
        });
        line.clear();
    }
    records
}

fn check_decode(quant: &QuantType, record: &Record) {
    let mut values = vec![f32::NAN; record.values.len()];
    (quant.dequantize)(&record.blocks, &mut values);
    let differs = values.iter().zip(&record.values).position(|(a, b)| a.to_bits() != b.to_bits());
    if let Some(at) = differs {
        let block = at / quant.layout.values_per_block as usize;
        let n_bytes = quant.layout.bytes_per_block as usize;
        panic!(
            "{}, blocks by {}: value {at} is {}, not {}; its block is {:02x?}",
            quant.layout.name,
            record.maker,
            values[at],
            record.values[at],
            &record.blocks[block * n_bytes..][..n_bytes]
        );
    }
}

fn check_encode(quant: &QuantType, record: &Record) {
    let mut blocks = Vec::new();
    let name = quant.layout.name;
    quant.quantize.unwrap_or_else(|| panic!("{name} has an encoder"))(&record.values, &mut blocks);
    let (n_values, n_bytes) =
        (quant.layout.values_per_block as usize, quant.layout.bytes_per_block as usize);
    let pairs = blocks.chunks(n_bytes).zip(record.blocks.chunks(n_bytes));
    for ((ours, theirs), values) in pairs.zip(record.values.chunks(n_values)) {
        assert_eq!(ours, theirs, "{name}, blocks by {}: of the values {values:?}", record.maker);
    }
    assert_eq!(blocks.len(), record.blocks.len(), "{name}");
}

#[test]
fn every_type_has_the_values_and_the_bytes_of_the_python_packages() {
    let records = records();
    for quant in QUANTS {
        let name = quant.layout.name;
        let of = |job: &str| -> Vec<&Record> {
            records.iter().filter(|record| record.job == job && record.type_name == name).collect()
        };
        let decode = of("decode");
        let makers: Vec<&str> = decode.iter().map(|record| record.maker.as_str()).collect();
        assert_eq!(makers, ["libgguf", "random", "limits"], "{name} in the script");
        for record in decode {
            check_decode(quant, record);
        }
        let encode = of("encode");
        assert_eq!(encode.is_empty(), quant.quantize.is_none(), "{name} in the script's ENCODED");
        for record in encode {
            check_encode(quant, record);
        }
    }
}
