//! Mixture-of-experts files of any size with random but sane weights, written as they are made. Never held in memory.

mod blocks;

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;

use frank_gguf::{ALIGNMENT_DEFAULT, Header, Value, type_id};

use crate::gguf_writer::GgufWriter;
use crate::random::Random;
use blocks::BlockType;

/// Bytes of random blocks that are made at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// A `qwen3moe` model in the making. Norms are one, products keep the size of what goes through them, and the same
/// numbers give the same file everywhere.
///
/// The defaults are the shape of Qwen3-30B-A3B.
#[derive(Debug, Clone)]
pub struct SyntheticMoe {
    /// Layers, all of them with experts.
    pub layers: u32,
    /// Hidden size. A multiple of the block of [`SyntheticMoe::quant`].
    pub hidden: u32,
    /// Experts of a layer.
    pub experts: u32,
    /// Experts that a token uses.
    pub top: u32,
    /// Hidden size of one expert. A multiple of the block of [`SyntheticMoe::quant`].
    pub ff: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Values of a head.
    pub head_dim: u32,
    /// Tokens that the model says it was trained on.
    pub context_length: u32,
    /// Type of all matrices but the router.
    pub quant: SyntheticQuant,
    /// Another one gives other values.
    pub seed: u64,
    /// How uneven the choice of experts is: router rows are multiplied by `exp(skew * N(0, 1))`; 0 is even.
    pub skew: f32,
}

/// Types that matrices are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntheticQuant {
    /// Q4_K, and Q6_K for the head.
    Q4K,
    /// Q4_0.
    Q4_0,
    /// Q8_0.
    Q8_0,
}

impl Default for SyntheticMoe {
    fn default() -> Self {
        Self {
            layers: 48,
            hidden: 2048,
            experts: 128,
            top: 8,
            ff: 768,
            heads: 32,
            kv_heads: 4,
            head_dim: 128,
            context_length: 32_768,
            quant: SyntheticQuant::Q4K,
            seed: 1,
            skew: 0.0,
        }
    }
}

/// What one tensor holds.
struct Tensor {
    name: String,
    dims: Vec<u64>,
    values: Values,
}

enum Values {
    Ones,
    /// Normal numbers of this deviation.
    Router(f32),
    /// Random blocks whose values have this deviation.
    Blocks(BlockType, f32),
}

impl SyntheticMoe {
    /// Grows when the same shape gives another file, so that none of an older form is taken for it.
    pub const VERSION: u32 = 1;

    /// Writes the file to `path`, with the tokenizer of the GGUF file `tokenizer`.
    ///
    /// # Errors
    /// What reading the one and writing the other gave.
    /// # Panics
    /// When `tokenizer` is no GGUF file with a list of tokens.
    pub fn write(&self, tokenizer: &Path, path: &Path) -> io::Result<()> {
        let tokenizer_bytes = tokenizer.metadata()?.len();
        let tokenizer = Header::read(&mut File::open(tokenizer)?, tokenizer_bytes)
            .expect("the file that lends its tokenizer is a GGUF file");
        let n_vocab = n_tokens(&tokenizer);
        let tensors = self.tensors(n_vocab);
        let header = self.header(&tokenizer, &tensors);
        let mut out = BufWriter::new(File::create(path)?);
        out.write_all(&header.header_bytes())?;
        for (tensor, stream) in tensors.iter().zip(0..) {
            pad(&mut out)?;
            self.write_values(tensor, Random::new(self.seed, stream), &mut out)?;
        }
        out.into_inner()?.sync_all()
    }

    fn header(&self, tokenizer: &Header, tensors: &[Tensor]) -> GgufWriter {
        let file_type: u32 = match self.quant {
            SyntheticQuant::Q4K => 15,
            SyntheticQuant::Q4_0 => 2,
            SyntheticQuant::Q8_0 => 7,
        };
        let numbers = [
            ("block_count", self.layers),
            ("context_length", self.context_length),
            ("embedding_length", self.hidden),
            ("feed_forward_length", 3 * self.hidden),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("expert_count", self.experts),
            ("expert_used_count", self.top),
            ("expert_feed_forward_length", self.ff),
        ];
        let mut writer = GgufWriter::new("qwen3moe")
            .value("general.name", self.name().as_str())
            .value("general.file_type", file_type)
            .value("general.quantization_version", 2u32)
            .value("qwen3moe.rope.freq_base", 1e6f32)
            .value("qwen3moe.attention.layer_norm_rms_epsilon", 1e-6f32);
        for (key, number) in numbers {
            writer = writer.value(&format!("qwen3moe.{key}"), number);
        }
        for (key, value) in tokenizer.metadata.iter() {
            if key.starts_with("tokenizer.") {
                writer = writer.value(key, value.clone());
            }
        }
        tensors.iter().fold(writer, |writer, tensor| {
            writer.hole(&tensor.name, &tensor.dims, tensor.values.type_id(), tensor.bytes())
        })
    }

    /// The name in the file: its shape, for example `synthetic-moe-48L-2048h-128e8-768ff-Q4K`.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { layers, hidden, experts, top, ff, quant, .. } = self;
        format!("synthetic-moe-{layers}L-{hidden}h-{experts}e{top}-{ff}ff-{quant:?}")
    }

    fn tensors(&self, n_vocab: u64) -> Vec<Tensor> {
        let hidden = u64::from(self.hidden);
        let kind = || self.quant.blocks();
        let head = if self.quant == SyntheticQuant::Q4K { blocks::Q6_K } else { kind() };
        let mut all = vec![
            Tensor::new("token_embd", vec![hidden, n_vocab], Values::Blocks(kind(), 1.0)),
            Tensor::new("output_norm", vec![hidden], Values::Ones),
            Tensor::new("output", vec![hidden, n_vocab], Values::product(head, hidden)),
        ];
        for layer in 0..self.layers {
            all.extend(self.layer(layer));
        }
        all
    }

    fn layer(&self, layer: u32) -> Vec<Tensor> {
        let [hidden, experts, ff] = [self.hidden, self.experts, self.ff].map(u64::from);
        let head = u64::from(self.head_dim);
        let queries = u64::from(self.heads) * head;
        let keys = u64::from(self.kv_heads) * head;
        let name = |name: &str| format!("blk.{layer}.{name}");
        let product = |part: &str, dims: &[u64]| {
            Tensor::new(&name(part), dims.to_vec(), Values::product(self.quant.blocks(), dims[0]))
        };
        let ones = |part: &str, n: u64| Tensor::new(&name(part), vec![n], Values::Ones);
        let router = Values::Router(2.0 / (hidden as f32).sqrt());
        vec![
            ones("attn_norm", hidden),
            product("attn_q", &[hidden, queries]),
            product("attn_k", &[hidden, keys]),
            product("attn_v", &[hidden, keys]),
            product("attn_output", &[queries, hidden]),
            ones("attn_q_norm", head),
            ones("attn_k_norm", head),
            ones("ffn_norm", hidden),
            Tensor::new(&name("ffn_gate_inp"), vec![hidden, experts], router),
            product("ffn_gate_exps", &[hidden, ff, experts]),
            product("ffn_up_exps", &[hidden, ff, experts]),
            product("ffn_down_exps", &[ff, hidden, experts]),
        ]
    }

    fn write_values(
        &self,
        tensor: &Tensor,
        mut random: Random,
        out: &mut impl Write,
    ) -> io::Result<()> {
        match &tensor.values {
            Values::Ones => {
                (0..tensor.n_values()).try_for_each(|_| out.write_all(&1f32.to_le_bytes()))
            }
            Values::Router(deviation) => {
                for _ in 0..tensor.dims[1] {
                    let scale = deviation * (self.skew * random.normal()).exp();
                    for _ in 0..tensor.dims[0] {
                        out.write_all(&(scale * random.normal()).to_le_bytes())?;
                    }
                }
                Ok(())
            }
            Values::Blocks(kind, deviation) => {
                let n_blocks = tensor.n_values() / kind.values;
                let mut chunk = vec![0; (CHUNK_BYTES / kind.bytes * kind.bytes) as usize];
                let mut left = n_blocks * kind.bytes;
                while left > 0 {
                    let n = left.min(chunk.len() as u64) as usize;
                    for block in chunk[..n].chunks_exact_mut(kind.bytes as usize) {
                        (kind.fill)(&mut random, *deviation, block);
                    }
                    out.write_all(&chunk[..n])?;
                    left -= n as u64;
                }
                Ok(())
            }
        }
    }
}

impl SyntheticQuant {
    fn blocks(self) -> BlockType {
        match self {
            SyntheticQuant::Q4K => blocks::Q4_K,
            SyntheticQuant::Q4_0 => blocks::Q4_0,
            SyntheticQuant::Q8_0 => blocks::Q8_0,
        }
    }
}

impl Values {
    /// A matrix that takes rows of `n_in`: what goes through it shrinks by 0.7.
    fn product(kind: BlockType, n_in: u64) -> Self {
        Values::Blocks(kind, 0.7 / (n_in as f32).sqrt())
    }

    fn type_id(&self) -> u32 {
        match self {
            Values::Ones | Values::Router(_) => type_id::F32,
            Values::Blocks(kind, _) => kind.type_id,
        }
    }
}

impl Tensor {
    /// A tensor of that name, `.weight` being added. Asserts that rows are whole blocks.
    fn new(name: &str, dims: Vec<u64>, values: Values) -> Self {
        if let Values::Blocks(kind, _) = &values {
            let whole = dims[0].is_multiple_of(kind.values);
            assert!(whole, "{name}: rows of {} are no whole blocks of {}", dims[0], kind.values);
        }
        Self { name: format!("{name}.weight"), dims, values }
    }

    fn n_values(&self) -> u64 {
        self.dims.iter().product()
    }

    fn bytes(&self) -> u64 {
        match &self.values {
            Values::Ones | Values::Router(_) => 4 * self.n_values(),
            Values::Blocks(kind, _) => self.n_values() / kind.values * kind.bytes,
        }
    }
}

fn n_tokens(tokenizer: &Header) -> u64 {
    match tokenizer.metadata.get("tokenizer.ggml.tokens") {
        Some(Value::Array(tokens)) => tokens.len() as u64,
        _ => panic!("the file that lends its tokenizer has a list of tokens"),
    }
}

/// Zeros up to the next tensor.
fn pad(out: &mut (impl Write + Seek)) -> io::Result<()> {
    let at = out.stream_position()?;
    let zeros = [0; ALIGNMENT_DEFAULT as usize];
    out.write_all(&zeros[..(at.next_multiple_of(zeros.len() as u64) - at) as usize])
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs::{self, File};
    use std::process;

    use frank_gguf::Header;

    use super::{SyntheticMoe, SyntheticQuant};
    use crate::assets;

    fn small(quant: SyntheticQuant) -> SyntheticMoe {
        let [hidden, ff, head_dim] = [256, 256, 64];
        let shape =
            SyntheticMoe { layers: 2, hidden, experts: 6, top: 2, ff, ..Default::default() };
        SyntheticMoe { heads: 4, kv_heads: 2, head_dim, quant, ..shape }
    }

    /// The bytes of the file.
    fn made(moe: &SyntheticMoe, name: &str) -> Vec<u8> {
        let path = env::temp_dir().join(format!("{name}-{}.gguf", process::id()));
        moe.write(&assets::tiny("llama.gguf"), &path).expect("a temporary file");
        let bytes = fs::read(&path).expect("that file");
        fs::remove_file(&path).expect("that file");
        bytes
    }

    #[test]
    fn a_file_of_every_type_is_whole_and_has_the_tokenizer_of_the_other() {
        for quant in [SyntheticQuant::Q4K, SyntheticQuant::Q4_0, SyntheticQuant::Q8_0] {
            let bytes = made(&small(quant), &format!("{quant:?}"));
            let header = Header::read(&mut bytes.as_slice(), bytes.len() as u64).expect("a header");
            header.check_data(bytes.len() as u64).expect("all data is there");
            let last = header.tensors.last().expect("tensors");
            let end = header.data_start + last.offset + last.bytes().expect("a known type");
            assert_eq!(end, bytes.len() as u64, "{quant:?}: nothing follows the last tensor");
            assert_eq!(
                (last.name.as_str(), &*last.dims),
                ("blk.1.ffn_down_exps.weight", &[256, 256, 6][..])
            );
            let mut llama = File::open(assets::tiny("llama.gguf")).expect("the tiny model");
            let llama = Header::read(&mut llama, u64::MAX).expect("its header");
            let tokens = |header: &Header| header.metadata.get("tokenizer.ggml.tokens").cloned();
            assert_eq!(tokens(&header), tokens(&llama), "{quant:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_file_and_another_one_another() {
        let moe = small(SyntheticQuant::Q4_0);
        let first = made(&moe, "seed-first");
        assert!(first == made(&moe, "seed-again"), "the same file");
        assert!(first != made(&SyntheticMoe { seed: 2, ..moe }, "seed-other"), "another file");
    }
}
