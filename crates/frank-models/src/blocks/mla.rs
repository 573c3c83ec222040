//! Multi-head latent attention in its absorbed form, over the paged KV cache.
//!
//! A token's keys and values are one short latent vector and one rotary key that all heads share. Instead of making each
//! head's keys and values of every latent, a query goes through its head's key matrix once and is compared with the
//! latents themselves; what a head mixes is a latent too, which goes through its value matrix at last. To the cache
//! this is one key head, `[latent | rotary]`, and one value head, the latent again.

use frank_kernels::{
    AttentionShape, GroupedProduct, HeadLayout, Queries, RowGroup, attention, copy_heads,
    matmul_grouped, rms_norm_in_place, store_kv,
};

use crate::blocks::Compute;
use crate::blocks::attention::{Attend, AttentionScratch, AttentionWidths};
use crate::blocks::linear::{Bias, Linear};
use crate::blocks::rope::Rope;
use crate::error::ArchError;
use crate::kv::KvTensors;
use crate::model::Batch;
use crate::shape::Shape;
use crate::weights::{StackId, StackRows, VectorId, WeightTable};

/// Values of the 8-bit form of activations that share a scale.
const QUANT_BLOCK: usize = 32;

/// Sizes of a model's latent attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MlaShape {
    pub(crate) n_head: usize,
    /// Components of the latent.
    pub(crate) n_latent: usize,
    /// Components of a query head that rotate, and of the rotary key.
    pub(crate) n_rotary: usize,
    /// Components of a query head that do not.
    pub(crate) n_plain: usize,
    /// Components of a value head.
    pub(crate) n_value: usize,
    /// Components of the latent of queries; `None` where queries are made of the hidden state at once.
    pub(crate) n_query_latent: Option<usize>,
}

/// One layer of latent attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mla {
    /// What the cache holds.
    cached: AttentionShape,
    sizes: MlaShape,
    layer: usize,
    norm_epsilon: f32,
    queries: QueryProjection,
    /// To the latent and the rotary key.
    kv: Linear,
    kv_norm: VectorId,
    /// `[n_latent, n_plain]` for each head: from queries to what is compared with latents.
    keys: StackId,
    /// `[n_value, n_latent]` for each head.
    values: StackId,
    output: Linear,
}

/// How queries are made.
#[derive(Debug, Clone, Copy)]
enum QueryProjection {
    Whole(Linear),
    Latent { down: Linear, norm: VectorId, up: Linear },
}

impl Mla {
    /// `blk.{i}.attn_{q | q_a, q_a_norm, q_b}`, `attn_kv_a_mqa`, `attn_kv_a_norm`, `attn_output`, and the matrices of
    /// heads: `attn_k_b` and `attn_v_b`, or `attn_kv_b` of older files.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        shape: &Shape,
        sizes: MlaShape,
        i: usize,
    ) -> Result<Self, ArchError> {
        let MlaShape { n_head, n_latent, n_rotary, n_value, .. } = sizes;
        let n_embd = shape.n_embd;
        let name = |part: &str| format!("blk.{i}.attn_{part}");
        let kv = (n_embd, n_latent + n_rotary);
        let kv = Linear::place(table, &name("kv_a_mqa"), kv, Bias::None)?;
        let (keys, values) = place_heads(table, sizes, &name)?;
        let output = (n_head * n_value, n_embd);
        Ok(Self {
            cached: shape.attention,
            sizes,
            layer: i,
            norm_epsilon: shape.norm_epsilon,
            queries: QueryProjection::place(table, n_embd, sizes, &name)?,
            kv,
            kv_norm: table.vector(&name("kv_a_norm.weight"), n_latent)?,
            keys,
            values,
            output: Linear::place(table, &name("output"), output, Bias::None)?,
        })
    }

    /// Writes what the heads compare with the cache to `q`, `[n_rows, n_head, latent | rotary]`.
    fn make_queries(
        &self,
        compute: &mut Compute<'_>,
        rope: &Rope,
        x: &[f32],
        n_rows: usize,
        columns: Columns<'_>,
    ) {
        let Columns { q, latent, heads, rotated, mixed, .. } = columns;
        let MlaShape { n_head, n_latent, n_rotary, n_plain, .. } = self.sizes;
        let made = &mut q[..n_rows * n_head * (n_plain + n_rotary)];
        self.queries.forward(compute, (x, n_rows), self.norm_epsilon, latent, made);
        let heads = &mut heads[..n_rows * n_head * n_plain];
        let (by_row, by_head) = (HeadLayout::by_row, HeadLayout::by_head);
        let from = by_row(n_head, n_plain + n_rotary, 0);
        let plain = (n_rows, n_head, n_plain);
        copy_heads(compute.pool, plain, (made, from), (heads, by_head(n_rows, n_plain)));
        let from = by_row(n_head, n_plain + n_rotary, n_plain);
        let rotary = (n_rows, n_head, n_rotary);
        let alone = by_row(n_head, n_rotary, 0);
        copy_heads(compute.pool, rotary, (made, from), (rotated, alone));
        rope.rotate(compute.pool, rotated, n_rotary);
        let absorbed = &mut mixed[..n_rows * n_head * n_latent];
        self.multiply_heads(compute, self.keys, (heads, n_plain), absorbed);
        let q = &mut q[..n_rows * n_head * (n_latent + n_rotary)];
        let to = |first| by_row(n_head, n_latent + n_rotary, first);
        let sizes = (n_rows, n_head, n_latent);
        copy_heads(compute.pool, sizes, (absorbed, by_head(n_rows, n_latent)), (q, to(0)));
        copy_heads(compute.pool, rotary, (rotated, alone), (q, to(n_latent)));
    }

    /// Makes the rows' latents and rotary keys and writes them to the cache.
    fn store(
        &self,
        compute: &mut Compute<'_>,
        (batch, rope): (&Batch<'_>, &Rope),
        kv: &mut KvTensors,
        x: &[f32],
        columns: Columns<'_>,
    ) {
        let Columns { k, v: latents, rotated, .. } = columns;
        let MlaShape { n_latent, n_rotary, .. } = self.sizes;
        let n_rows = batch.n_rows();
        compute.linear(x, x.len() / n_rows, [(self.kv, &mut *k)]);
        let layout = |n, first| HeadLayout::by_row(1, n, first);
        let whole = n_latent + n_rotary;
        let (latent, rotary) = ((n_rows, 1, n_latent), (n_rows, 1, n_rotary));
        copy_heads(compute.pool, latent, (k, layout(whole, 0)), (latents, layout(n_latent, 0)));
        let norm = compute.weights.vector(self.kv_norm);
        rms_norm_in_place(compute.pool, latents, norm, self.norm_epsilon);
        let rotated = &mut rotated[..n_rows * n_rotary];
        let alone = layout(n_rotary, 0);
        copy_heads(compute.pool, rotary, (k, layout(whole, n_latent)), (rotated, alone));
        rope.rotate(compute.pool, rotated, n_rotary);
        copy_heads(compute.pool, latent, (latents, layout(n_latent, 0)), (k, layout(whole, 0)));
        copy_heads(compute.pool, rotary, (rotated, alone), (k, layout(whole, n_latent)));
        let tables = batch.block_tables[kv.group_of(self.layer)];
        let mut layer = kv.layer_mut(self.layer);
        let rows = k.chunks_exact(whole).zip(latents.chunks_exact(n_latent));
        for (row, (k, v)) in rows.enumerate() {
            let table = tables[batch.sequences[row]];
            store_kv(&self.cached, &mut layer, table, batch.positions[row], k, v);
        }
    }

    /// Multiplies the rows of each head, `[n_head, n_rows, n_in]`, with its matrix of a stack.
    fn multiply_heads(
        &self,
        compute: &mut Compute<'_>,
        stack: StackId,
        (x, n_in): (&[f32], usize),
        out: &mut [f32],
    ) {
        let n_rows = x.len() / (self.sizes.n_head * n_in);
        let weights = compute.weights;
        let group = |head| RowGroup {
            rows: head * n_rows..(head + 1) * n_rows,
            matrix: weights.stacked(stack, head),
        };
        let groups: Vec<RowGroup<'_>> = (0..self.sizes.n_head).map(group).collect();
        let mut products = [GroupedProduct::new(&groups, out)];
        matmul_grouped(compute.pool, x, n_in, compute.quants, &mut products);
    }
}

impl Attend for Mla {
    fn shape(&self) -> &AttentionShape {
        &self.cached
    }

    fn widths(&self) -> AttentionWidths {
        let MlaShape { n_head, n_latent, n_rotary, n_plain, n_value, n_query_latent } = self.sizes;
        let n_query_latent = n_query_latent.unwrap_or(0);
        let per_head = |n: usize| n_head * n.next_multiple_of(QUANT_BLOCK);
        AttentionWidths {
            q: n_head * (n_latent.max(n_plain) + n_rotary),
            k: n_latent + n_rotary,
            v: n_latent,
            mixed: n_head * n_latent.max(n_value),
            latent: n_query_latent,
            heads: n_head * n_plain.max(n_value),
            rotated: n_head * n_rotary,
            n_in: n_query_latent
                .max(per_head(n_plain))
                .max(per_head(n_latent))
                .max(n_head * n_value),
        }
    }

    fn rope(&self) -> usize {
        0
    }

    fn forward(
        &self,
        compute: &mut Compute<'_>,
        (batch, rope): (&Batch<'_>, &Rope),
        kv: &mut KvTensors,
        scratch: &mut AttentionScratch<'_>,
        x: &[f32],
        out: &mut [f32],
    ) {
        let MlaShape { n_head, n_latent, n_value, .. } = self.sizes;
        let n_rows = batch.n_rows();
        let widths = self.widths();
        self.store(compute, (batch, rope), kv, x, Columns::of(scratch, widths, n_rows));
        self.make_queries(compute, rope, x, n_rows, Columns::of(scratch, widths, n_rows));
        let Columns { q, heads, mixed, .. } = Columns::of(scratch, widths, n_rows);
        let made = &q[..n_rows * n_head * self.cached.head_dim];
        let latents = &mut mixed[..n_rows * n_head * n_latent];
        let Batch { positions, sequences, .. } = *batch;
        let block_tables = batch.block_tables[kv.group_of(self.layer)];
        let queries = Queries { q: made, positions, sequences, block_tables, sinks: None };
        attention(compute.pool, &self.cached, queries, kv.layer(self.layer), latents);
        // The queries are done, so their column holds the latents of each head together.
        let by_head = &mut q[..latents.len()];
        let (from, to) =
            (HeadLayout::by_row(n_head, n_latent, 0), HeadLayout::by_head(n_rows, n_latent));
        copy_heads(compute.pool, (n_rows, n_head, n_latent), (latents, from), (by_head, to));
        let values = &mut heads[..n_rows * n_head * n_value];
        self.multiply_heads(compute, self.values, (by_head, n_latent), values);
        let by_row = &mut mixed[..values.len()];
        let (from, to) =
            (HeadLayout::by_head(n_rows, n_value), HeadLayout::by_row(n_head, n_value, 0));
        copy_heads(compute.pool, (n_rows, n_head, n_value), (values, from), (by_row, to));
        compute.linear(by_row, n_head * n_value, [(self.output, out)]);
    }
}

/// The columns of the scratch at the widths of the layer.
struct Columns<'a> {
    q: &'a mut [f32],
    k: &'a mut [f32],
    v: &'a mut [f32],
    mixed: &'a mut [f32],
    latent: &'a mut [f32],
    heads: &'a mut [f32],
    rotated: &'a mut [f32],
}

impl<'a> Columns<'a> {
    fn of(scratch: &'a mut AttentionScratch<'_>, widths: AttentionWidths, n_rows: usize) -> Self {
        Self {
            q: &mut scratch.q[..n_rows * widths.q],
            k: &mut scratch.k[..n_rows * widths.k],
            v: &mut scratch.v[..n_rows * widths.v],
            mixed: &mut scratch.mixed[..n_rows * widths.mixed],
            latent: &mut scratch.latent[..n_rows * widths.latent],
            heads: &mut scratch.heads[..n_rows * widths.heads],
            rotated: &mut scratch.rotated[..n_rows * widths.rotated],
        }
    }
}

impl QueryProjection {
    fn place(
        table: &mut WeightTable<'_>,
        n_embd: usize,
        sizes: MlaShape,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Self, ArchError> {
        let n_out = sizes.n_head * (sizes.n_plain + sizes.n_rotary);
        let mut linear = |part: &str, sizes| Linear::place(table, &name(part), sizes, Bias::None);
        let Some(n_latent) = sizes.n_query_latent else {
            return Ok(Self::Whole(linear("q", (n_embd, n_out))?));
        };
        let (down, up) = (linear("q_a", (n_embd, n_latent))?, linear("q_b", (n_latent, n_out))?);
        Ok(Self::Latent { down, norm: table.vector(&name("q_a_norm.weight"), n_latent)?, up })
    }

    fn forward(
        &self,
        compute: &mut Compute<'_>,
        (x, n_rows): (&[f32], usize),
        norm_epsilon: f32,
        latent: &mut [f32],
        out: &mut [f32],
    ) {
        let n_embd = x.len() / n_rows;
        match *self {
            Self::Whole(whole) => compute.linear(x, n_embd, [(whole, out)]),
            Self::Latent { down, norm, up } => {
                compute.linear(x, n_embd, [(down, &mut *latent)]);
                let norm = compute.weights.vector(norm);
                rms_norm_in_place(compute.pool, latent, norm, norm_epsilon);
                compute.linear(latent, latent.len() / n_rows, [(up, out)]);
            }
        }
    }
}

/// The matrices of heads for keys and for values.
fn place_heads(
    table: &mut WeightTable<'_>,
    sizes: MlaShape,
    name: &dyn Fn(&str) -> String,
) -> Result<(StackId, StackId), ArchError> {
    let MlaShape { n_head: n, n_latent, n_plain, n_value, .. } = sizes;
    let both = name("kv_b.weight");
    if !table.has(&both) {
        let keys = table.stack(&name("k_b.weight"), (n_plain, n_latent), n)?;
        return Ok((keys, table.stack(&name("v_b.weight"), (n_latent, n_value), n)?));
    }
    // The rows of each head are those of its keys, then those of its values.
    let rows = |first| StackRows { n, period: n_plain.saturating_add(n_value), first };
    let keys = table.transposed_stack(&both, (n_plain, n_latent), rows(0))?;
    Ok((keys, table.stack_of_rows(&both, (n_latent, n_value), rows(n_plain))?))
}
