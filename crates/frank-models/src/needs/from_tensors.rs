//! Needs of a model that cannot be loaded, from the sizes of its tensors in the file and the keys that most families have.

use std::collections::{BTreeMap, HashMap};

use frank_experts::staging_bytes;
use frank_gguf::{ModelHeader, TensorInfo};
use frank_os::AnonBuffer;
use frank_plan::{ComputeNeeds, ExpertLayer, LayerState, ModelNeeds, Size};

use super::{PAGE_TABLE_REACH, output_compute, runtime_bytes, saturate, slot_bytes};
use crate::error::ArchError;
use crate::keys::Keys;
use crate::kv::KvTypes;
use crate::tensor_name::expert_of;
use crate::weights::STAGING_BYTES;
use crate::work::prompt_work;

/// Where an expert's parts begin in its slot.
const PART_ALIGNMENT: u64 = 64;

/// Routed experts of a token where the metadata does not say: what most families take.
const EXPERTS_USED_DEFAULT: usize = 8;

/// Words of tensors of which a token reads a few rows, and which are larger than any memory: the n-gram tables of Engram.
const LOOKUP_TABLES: [&str; 2] = ["engram_embd", "engram_embed"];

/// Plans from sizes in the file: weights as stored, keys and values by the common keys where they are there. `reason` says
/// why the model cannot be loaded; there is none where its file was not read whole.
pub(super) fn from_tensors(
    header: &ModelHeader,
    name: &str,
    kv_types: KvTypes,
    reason: Option<&ArchError>,
) -> ModelNeeds {
    let keys = Keys::new(&header.metadata, name);
    let count = |key: &str| keys.count(key).ok().flatten();
    let stored = Stored::of(header);
    let mut warnings = vec![planned_from_sizes(reason)];
    warnings.extend(stored.lookup_warning());
    let experts = count("expert_count").unwrap_or_else(|| stored.n_experts_max());
    let experts_used = experts_used(count("expert_used_count"), experts, &mut warnings);
    let expert_layers = stored.expert_layers(experts, experts_used);
    // Metadata of a stranger: a count of layers is bounded by the tensors that the file really lists.
    let n_layers = count("block_count").unwrap_or(0).min(header.tensors.len());
    let state = layer_states(header, &count, (name, n_layers), kv_types, &mut warnings);
    let n_vocab = n_vocab(header);
    let used_bytes = slot_bytes(&expert_layers, |layer| layer.n_used);
    // What an expert takes in memory is that in the file, rounded up.
    let expert_bytes_max = expert_layers.iter().map(|layer| layer.slot_bytes).max().unwrap_or(0);
    ModelNeeds {
        arch: name.to_owned(),
        file_bytes: header.file_bytes(),
        layers: saturate(n_layers),
        experts: saturate(experts),
        experts_used: saturate(experts_used),
        context_train: saturate(count("context_length").unwrap_or(0)),
        dense_bytes: AnonBuffer::occupied(stored.dense),
        expert_bytes: slot_bytes(&expert_layers, |layer| layer.n_experts),
        expert_staging_bytes: staging_bytes(expert_bytes_max, experts_used as u64),
        state,
        compute: compute_needs(&count, experts_used, n_vocab),
        runtime_bytes: runtime_bytes(header, n_vocab),
        page_table_reach: PAGE_TABLE_REACH,
        io_staging_bytes: STAGING_BYTES as u64,
        decode_bytes_per_token: stored.dense.saturating_add(used_bytes),
        prompt: prompt_work(header, name),
        warnings,
        expert_layers,
    }
}

fn planned_from_sizes(reason: Option<&ArchError>) -> String {
    match reason {
        Some(reason) => format!("planned from tensor sizes, it cannot be loaded: {reason}"),
        None => "planned from tensor sizes".to_owned(),
    }
}

/// Tokens of the vocabulary; 0 where the file does not list them.
fn n_vocab(header: &ModelHeader) -> usize {
    header.metadata.strings("tokenizer.ggml.tokens").ok().flatten().map_or(0, <[String]>::len)
}

fn experts_used(said: Option<usize>, experts: usize, warnings: &mut Vec<String>) -> usize {
    let used = said.unwrap_or(EXPERTS_USED_DEFAULT).min(experts);
    if said.is_none() && experts > 0 {
        warnings.push(format!(
            "the metadata does not say how many experts a token uses: {used} are assumed"
        ));
    }
    used
}

/// The most bytes that a tensor of each type and size takes, for types without a layout. Where a file is cut off, what the
/// last of them takes is not known from offsets, and that of others like it is.
pub(super) fn bytes_by_kind(header: &ModelHeader) -> HashMap<(u32, &[u64]), u64> {
    let mut most = HashMap::new();
    for (index, tensor) in header.tensors.iter().enumerate() {
        if tensor.layout().is_none() {
            let bytes = most.entry((tensor.type_id, tensor.dims.as_slice())).or_insert(0);
            *bytes = header.stored_bytes(index).max(*bytes);
        }
    }
    most
}

/// Bytes in the file by what becomes of them.
#[derive(Default)]
struct Stored {
    dense: u64,
    /// Tables that stay in the file.
    lookup: u64,
    /// By layer.
    experts: BTreeMap<u32, LayerBytes>,
}

/// Routed experts of one layer in the file.
#[derive(Default)]
struct LayerBytes {
    /// Bytes of each tensor that holds all experts of the layer.
    joined: Vec<u64>,
    /// Bytes of all tensors that hold one expert each.
    single: u64,
    /// Experts that the tensors themselves tell.
    n_experts: usize,
}

impl Stored {
    fn of(header: &ModelHeader) -> Self {
        let mut stored = Self::default();
        let alike = bytes_by_kind(header);
        let last = header.tensors.iter().map(|tensor| (tensor.part, tensor.offset)).max();
        for (index, tensor) in header.tensors.iter().enumerate() {
            let mut bytes = header.stored_bytes(index);
            if last == Some((tensor.part, tensor.offset)) {
                let alike = alike.get(&(tensor.type_id, tensor.dims.as_slice()));
                bytes = alike.map_or(bytes, |&alike| alike.max(bytes));
            }
            stored.add(tensor, bytes);
        }
        stored
    }

    fn add(&mut self, tensor: &TensorInfo, bytes: u64) {
        if LOOKUP_TABLES.iter().any(|word| tensor.name.contains(word)) {
            self.lookup = self.lookup.saturating_add(bytes);
            return;
        }
        let Some((layer, expert)) = expert_of(&tensor.name) else {
            self.dense = self.dense.saturating_add(bytes);
            return;
        };
        let layer = self.experts.entry(layer).or_default();
        let n_experts = match expert {
            None => {
                layer.joined.push(bytes);
                tensor.dims.get(2).map_or(1, |&n| usize::try_from(n).unwrap_or(usize::MAX))
            }
            Some(expert) => {
                layer.single = layer.single.saturating_add(bytes);
                (expert as usize).saturating_add(1)
            }
        };
        layer.n_experts = layer.n_experts.max(n_experts);
    }

    fn n_experts_max(&self) -> usize {
        self.experts.values().map(|layer| layer.n_experts).max().unwrap_or(0)
    }

    fn lookup_warning(&self) -> Option<String> {
        let bytes = Size(self.lookup);
        let warning = format!(
            "{bytes} of lookup tables stay in the file, of which a token reads a few rows: they are not in this plan"
        );
        (self.lookup > 0).then_some(warning)
    }

    /// `n_experts` is what the metadata says; a layer whose tensors hold fewer has as many as they hold.
    fn expert_layers(&self, n_experts: usize, n_used: usize) -> Vec<ExpertLayer> {
        let layer = |(&layer, bytes): (&u32, &LayerBytes)| {
            let n_experts = n_experts.min(bytes.n_experts.max(1)).max(1) as u64;
            let of_one =
                |bytes: u64| bytes.div_ceil(n_experts).checked_next_multiple_of(PART_ALIGNMENT);
            let parts = bytes.joined.iter().chain((bytes.single > 0).then_some(&bytes.single));
            let slot_bytes = parts.map(|&bytes| of_one(bytes).unwrap_or(u64::MAX));
            ExpertLayer {
                layer,
                n_experts: saturate(n_experts as usize),
                n_used: saturate(n_used.min(n_experts as usize)),
                slot_bytes: slot_bytes.fold(0, u64::saturating_add),
            }
        };
        self.experts.iter().map(layer).collect()
    }
}

/// What each layer remembers, as far as the keys say.
fn layer_states(
    header: &ModelHeader,
    count: &dyn Fn(&str) -> Option<usize>,
    (name, n_layers): (&str, usize),
    kv_types: KvTypes,
    warnings: &mut Vec<String>,
) -> Vec<LayerState> {
    let state = |n_head_kv| {
        let bytes_per_token = kv_bytes_per_token(count, n_head_kv, kv_types)?;
        Some(LayerState::Paged { bytes_per_token, window: None })
    };
    let key = format!("{name}.attention.head_count_kv");
    let by_layer = header.metadata.i32s(&key).ok().flatten().filter(|heads| heads.len() > 1);
    let states: Option<Vec<LayerState>> = match by_layer {
        Some(heads) => {
            let heads = heads.iter().map(|&n| usize::try_from(n).ok());
            heads.take(n_layers).filter(|&n| n != Some(0)).map(state).collect()
        }
        None => state(count("attention.head_count_kv")).map(|state| vec![state; n_layers]),
    };
    states.unwrap_or_else(|| {
        warnings.push(
            "the metadata does not give the size of keys and values: they are not in this plan"
                .to_owned(),
        );
        Vec::new()
    })
}

/// Keys and values of one token in a layer with so many heads of them; all query heads where nobody says.
fn kv_bytes_per_token(
    count: &dyn Fn(&str) -> Option<usize>,
    n_head_kv: Option<usize>,
    kv_types: KvTypes,
) -> Option<u64> {
    if let Some(latent) = count("attention.kv_lora_rank") {
        let n_k = latent.checked_add(count("rope.dimension_count")?)?;
        return Some(kv_types.token_bytes(n_k, latent));
    }
    let n_head = count("attention.head_count")?;
    let n_head_kv = n_head_kv.unwrap_or(n_head);
    let head_dim = match count("attention.key_length") {
        Some(n) => n,
        None => count("embedding_length")?.checked_div(n_head)?,
    };
    let value_dim = count("attention.value_length").unwrap_or(head_dim);
    let (n_k, n_v) = (n_head_kv.checked_mul(head_dim)?, n_head_kv.checked_mul(value_dim)?);
    Some(kv_types.token_bytes(n_k, n_v))
}

/// Scratch of a step, for each row what the blocks of a usual layer pass to each other; 0 where the keys do not say.
fn compute_needs(
    count: &dyn Fn(&str) -> Option<usize>,
    experts_used: usize,
    n_vocab: usize,
) -> ComputeNeeds {
    let size = |key: &str| count(key).unwrap_or(0) as u64;
    let n_embd = size("embedding_length");
    let heads = size("attention.head_count").saturating_mul(size("attention.key_length"));
    let n_ff = size("feed_forward_length");
    let n_ff_expert = size("expert_feed_forward_length");
    let of_expert = n_embd.saturating_add(n_ff_expert.saturating_mul(2));
    let values = [
        n_embd.saturating_mul(3),
        heads.saturating_mul(4),
        n_ff.saturating_mul(2),
        of_expert.saturating_mul(experts_used as u64),
    ];
    let values = values.into_iter().fold(0, u64::saturating_add);
    let per_row = values.saturating_mul(size_of::<f32>() as u64);
    ComputeNeeds { per_row, ..output_compute(n_vocab) }
}
