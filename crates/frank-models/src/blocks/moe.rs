//! A mixture of experts: a router weighs the experts for each token, the best compute, and their outputs are summed in
//! the order of their ranks, wherever each of them lies.

use std::ops::Range;

use frank_experts::{ExpertStore, ResidentExpert, Visit};
use frank_kernels::{
    GroupedProduct, Matrix, Pool, RowGroup, add, add_bias, gather_rows, matmul_grouped, scale,
    scale_rows, sigmoid, softmax_rows, weighted_sum,
};

use crate::blocks::Compute;
use crate::blocks::linear::{Bias, Linear};
use crate::blocks::mlp::{Activation, GatedMlp};
use crate::blocks::routes::{GroupScore, Groups, Routes};
use crate::error::{ArchError, StepError};
use crate::shape::Shape;
use crate::shape::moe::{Gating, MoeShape};
use crate::weights::{ExpertMatrix, Experts, VectorId, WeightTable};

/// What a family's mixtures have beside `blk.{i}.ffn_gate_inp.weight` and `blk.{i}.ffn_{gate,up,down}_exps.weight`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MoeTensors {
    /// `blk.{i}.ffn_gate_inp.bias`.
    pub(crate) router_bias: Bias,
    /// `blk.{i}.exp_probs_b.bias`, by which experts are chosen and not weighed.
    pub(crate) selection_bias: Bias,
    /// `blk.{i}.ffn_{gate,up,down}_exps.bias`.
    pub(crate) expert_bias: Bias,
    /// `blk.{i}.ffn_{gate,up,down}_shexp.weight`, where the metadata gives them a size.
    pub(crate) shared: Shared,
    pub(crate) group_score: GroupScore,
    pub(crate) activation: Activation,
}

impl MoeTensors {
    /// Nothing else, and SiLU.
    pub(crate) const PLAIN: Self = Self {
        router_bias: Bias::None,
        selection_bias: Bias::None,
        expert_bias: Bias::None,
        shared: Shared::Plain,
        group_score: GroupScore::SumOfTopTwo,
        activation: Activation::Silu,
    };
}

/// Whether the experts that every token uses have a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shared {
    /// They do not.
    Plain,
    /// `blk.{i}.ffn_gate_inp_shexp.weight`: their output is weighed by the logistic function of one product.
    Gated,
}

/// One mixture.
#[derive(Debug)]
pub(crate) struct Moe {
    pub(crate) shape: MoeShape,
    /// Number of the layer in the file.
    layer: usize,
    n_embd: usize,
    router: Linear,
    selection_bias: Option<VectorId>,
    groups: Option<Groups>,
    experts: Experts,
    /// Biases of gate, up and down, `[n_expert, n_out]` each.
    biases: Option<[VectorId; 3]>,
    activation: Activation,
    shared: Option<SharedExpert>,
}

/// The experts that every token uses, as one MLP.
#[derive(Debug, Clone, Copy)]
struct SharedExpert {
    mlp: GatedMlp,
    gate: Option<Linear>,
}

/// What mixtures compute with beside the weights.
pub(crate) struct MoeStep<'a> {
    pub(crate) store: &'a mut ExpertStore,
    pub(crate) routes: &'a mut Routes,
    /// Those that are predicted for the mixture after this one.
    pub(crate) next_routes: &'a mut Routes,
    /// Whether predicted experts are read ahead.
    pub(crate) prefetch: bool,
    /// `[n_layers, n_expert]`: added to what experts are chosen by.
    pub(crate) router_bias: Option<&'a [f32]>,
    pub(crate) scratch: MoeScratch<'a>,
}

/// Scratch of the block. Slots are rows times the experts that each uses.
pub(crate) struct MoeScratch<'a> {
    /// `[n_rows, n_expert]`.
    pub(crate) gates: &'a mut [f32],
    /// `[n_slots, n_embd]`: rows sorted by expert.
    pub(crate) x: &'a mut [f32],
    /// `[n_slots, n_ff_expert]`, as is `up`.
    pub(crate) gate: &'a mut [f32],
    pub(crate) up: &'a mut [f32],
    /// As `x`: what the experts give.
    pub(crate) out: &'a mut [f32],
}

impl Moe {
    /// The mixture of layer `i`, of the sizes in `sizes.moe`.
    ///
    /// # Panics
    /// When the sizes have no mixture.
    pub(crate) fn place(
        table: &mut WeightTable<'_>,
        sizes: &Shape,
        i: usize,
        tensors: MoeTensors,
    ) -> Result<Self, ArchError> {
        let shape = sizes.moe.expect("the family has read the sizes of its mixtures");
        let MoeShape { n_expert, n_ff_expert: n_ff, n_group, n_group_used, .. } = shape;
        let n_embd = sizes.n_embd;
        let name = format!("blk.{i}.ffn_gate_inp");
        let router = Linear::place(table, &name, (n_embd, n_expert), tensors.router_bias)?;
        let name = format!("blk.{i}.exp_probs_b.bias");
        let has_bias = tensors.selection_bias.is_in(table, &name);
        let groups = (n_group > 1).then_some(Groups {
            n_group,
            n_used: n_group_used,
            score: tensors.group_score,
        });
        Ok(Self {
            shape,
            layer: i,
            n_embd,
            router,
            selection_bias: has_bias.then(|| table.vector(&name, n_expert)).transpose()?,
            groups,
            experts: table.experts(i, n_expert, (n_embd, n_ff))?,
            biases: place_biases(table, sizes, &shape, i, tensors.expert_bias)?,
            activation: tensors.activation,
            shared: place_shared(table, sizes, i, tensors)?,
        })
    }

    /// Hidden units of the experts that every token uses.
    pub(crate) fn n_ff_shared(&self) -> usize {
        self.shared.map_or(0, |shared| shared.mlp.n_ff)
    }

    /// Whether it is of use to know early what this mixture will want.
    pub(crate) fn is_worth_predicting(&self, step: &MoeStep<'_>) -> bool {
        step.prefetch && !step.store.is_resident(self.layer)
    }

    /// Predicts what this mixture will want of the rows `x`, `[n_rows, n_embd]`, which an earlier layer gives it to look at.
    pub(crate) fn predict(&self, compute: &mut Compute<'_>, step: &mut MoeStep<'_>, x: &[f32]) {
        let MoeStep { next_routes, router_bias, scratch, .. } = step;
        self.choose(compute, x, *router_bias, next_routes, scratch.gates);
        next_routes.rank_experts(self.shape.n_expert);
    }

    /// Writes the block's output for `x`, `[n_rows, n_embd]`, to `out` of the same shape. `mlp` is scratch for gate and up
    /// of the experts that every token uses. `next` is the mixture for which [`Moe::predict`] was called before.
    ///
    /// # Errors
    /// [`StepError`] when an expert cannot be read.
    pub(crate) fn forward(
        &self,
        compute: &mut Compute<'_>,
        step: &mut MoeStep<'_>,
        next: Option<&Self>,
        x: &[f32],
        mlp: (&mut [f32], &mut [f32]),
        out: &mut [f32],
    ) -> Result<(), StepError> {
        let MoeStep { store, routes, next_routes, router_bias, scratch, .. } = step;
        self.choose(compute, x, *router_bias, routes, scratch.gates);
        self.weigh(compute, routes);
        routes.sort_by_expert(self.shape.n_expert);
        store.note_routes(self.layer, &routes.chosen);
        gather_rows(compute.pool, x, self.n_embd, &routes.rows, scratch.x);
        let next = next.map(|moe| (moe.layer, next_routes.wanted.as_slice()));
        let mut visit = MoeVisit { moe: self, compute, routes, scratch };
        store.visit(self.layer, &routes.wanted, next, &mut visit)?;
        let Routes { slots, weights, .. } = &**routes;
        weighted_sum(compute.pool, scratch.out, self.shape.n_used, slots, weights, out);
        if let Some(shared) = &self.shared {
            shared.add(compute, self.n_embd, x, (scratch.gates, scratch.x), mlp, out);
        }
        Ok(())
    }

    /// Chooses the experts of each row.
    fn choose(
        &self,
        compute: &mut Compute<'_>,
        x: &[f32],
        router_bias: Option<&[f32]>,
        routes: &mut Routes,
        gates: &mut [f32],
    ) {
        let MoeShape { n_expert, gating, .. } = self.shape;
        compute.linear(x, self.n_embd, [(self.router, &mut *gates)]);
        match gating {
            Gating::Softmax => softmax_rows(compute.pool, gates, n_expert),
            Gating::Sigmoid => sigmoid(compute.pool, gates),
            Gating::SoftmaxOfChosen => {}
        }
        let of_layer = |biases: &[f32]| self.layer * n_expert + n_expert <= biases.len();
        let from_file = self.selection_bias.map(|id| compute.weights.vector(id));
        let given = router_bias.map(|biases| {
            assert!(of_layer(biases), "{} biases for layer {}", biases.len(), self.layer);
            &biases[self.layer * n_expert..][..n_expert]
        });
        let biases: [&[f32]; 2] = [from_file.unwrap_or_default(), given.unwrap_or_default()];
        routes.choose(gates, n_expert, &biases, self.groups);
    }

    /// Weighs the experts that were chosen.
    fn weigh(&self, compute: &mut Compute<'_>, routes: &mut Routes) {
        let MoeShape { n_used, gating, normalize, weights_scale, .. } = self.shape;
        if gating == Gating::SoftmaxOfChosen {
            softmax_rows(compute.pool, &mut routes.weights, n_used);
        } else if normalize {
            routes.normalize();
        }
        if weights_scale != 1.0 {
            scale(&mut routes.weights, weights_scale);
        }
    }

    /// Computes the rows of some of the wanted experts.
    fn compute(
        &self,
        compute: &mut Compute<'_>,
        routes: &Routes,
        scratch: &mut MoeScratch<'_>,
        experts: &[ResidentExpert<'_>],
    ) {
        let mut runs: Vec<Run<'_>> =
            experts.iter().map(|expert| Run::of(expert, routes.slots_of(expert.index))).collect();
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return };
        let span = first.slots.start..last.slots.end;
        runs.iter_mut().for_each(|run| run.shift_back(span.start));
        let Experts { gate: gates, up: ups, down: downs, .. } = &self.experts;
        let n_ff = self.shape.n_ff_expert;
        let x = &scratch.x[rows(&span, self.n_embd)];
        let (gate, up) = (&mut scratch.gate[rows(&span, n_ff)], &mut scratch.up[rows(&span, n_ff)]);
        let (gates, ups) = (groups(&runs, gates), groups(&runs, ups));
        let mut products =
            [GroupedProduct::new(&gates, &mut *gate), GroupedProduct::new(&ups, &mut *up)];
        matmul_grouped(compute.pool, x, self.n_embd, compute.quants, &mut products);
        if let Some([gate_bias, up_bias, _]) = self.biases {
            add_biases(compute, &runs, gate_bias, n_ff, gate);
            add_biases(compute, &runs, up_bias, n_ff, up);
        }
        for stretch in stretches(&runs) {
            let values = rows(&stretch, n_ff);
            self.activation.apply(compute.pool, &mut gate[values.clone()], &up[values]);
        }
        let out = &mut scratch.out[rows(&span, self.n_embd)];
        let downs = groups(&runs, downs);
        let mut products = [GroupedProduct::new(&downs, &mut *out)];
        matmul_grouped(compute.pool, gate, n_ff, compute.quants, &mut products);
        if let Some([.., down_bias]) = self.biases {
            add_biases(compute, &runs, down_bias, self.n_embd, out);
        }
    }
}

/// A mixture that computes what the store lends it.
struct MoeVisit<'a, 'b, 'c> {
    moe: &'a Moe,
    compute: &'a mut Compute<'b>,
    routes: &'a Routes,
    scratch: &'a mut MoeScratch<'c>,
}

impl Visit for MoeVisit<'_, '_, '_> {
    fn pool(&mut self) -> &mut Pool {
        self.compute.pool
    }

    fn compute(&mut self, experts: &[ResidentExpert<'_>]) {
        self.moe.compute(self.compute, self.routes, self.scratch, experts);
    }
}

impl SharedExpert {
    /// Adds the output for `x` to `out`. `gates` has a value for each row, `delta` a row of `x`, and `mlp` is scratch of the
    /// MLP.
    fn add(
        &self,
        compute: &mut Compute<'_>,
        n_embd: usize,
        x: &[f32],
        (gates, delta): (&mut [f32], &mut [f32]),
        mlp: (&mut [f32], &mut [f32]),
        out: &mut [f32],
    ) {
        let delta = &mut delta[..x.len()];
        self.mlp.forward(compute, n_embd, x, mlp, delta);
        if let Some(gate) = self.gate {
            let gates = &mut gates[..x.len() / n_embd];
            compute.linear(x, n_embd, [(gate, &mut *gates)]);
            sigmoid(compute.pool, gates);
            scale_rows(compute.pool, delta, n_embd, gates);
        }
        add(compute.pool, out, delta);
    }
}

/// The slots of one expert that is at hand.
struct Run<'a> {
    expert: usize,
    slots: Range<usize>,
    bytes: &'a [u8],
}

impl<'a> Run<'a> {
    fn of(expert: &ResidentExpert<'a>, slots: Range<usize>) -> Self {
        Self { expert: expert.expert as usize, slots, bytes: expert.bytes }
    }

    fn shift_back(&mut self, by: usize) {
        self.slots = self.slots.start - by..self.slots.end - by;
    }
}

/// The values of a range of rows.
fn rows(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}

fn groups<'a>(runs: &[Run<'a>], part: &ExpertMatrix) -> Vec<RowGroup<'a>> {
    let matrix = |run: &Run<'a>| Matrix::new(part.shape, &run.bytes[part.range.clone()]);
    runs.iter().map(|run| RowGroup { rows: run.slots.clone(), matrix: matrix(run) }).collect()
}

/// Runs that follow each other without a gap, as one range of slots.
fn stretches(runs: &[Run<'_>]) -> impl Iterator<Item = Range<usize>> {
    let stretches = runs.chunk_by(|a, b| a.slots.end == b.slots.start);
    stretches.map(|runs| runs[0].slots.start..runs[runs.len() - 1].slots.end)
}

/// Adds each expert's row of `biases`, `[n_expert, n_out]`, to its rows of `x`.
fn add_biases(
    compute: &mut Compute<'_>,
    runs: &[Run<'_>],
    biases: VectorId,
    n_out: usize,
    x: &mut [f32],
) {
    let biases = compute.weights.vector(biases);
    for run in runs {
        let bias = &biases[run.expert * n_out..][..n_out];
        add_bias(compute.pool, &mut x[rows(&run.slots, n_out)], bias);
    }
}

fn place_biases(
    table: &mut WeightTable<'_>,
    sizes: &Shape,
    shape: &MoeShape,
    i: usize,
    bias: Bias,
) -> Result<Option<[VectorId; 3]>, ArchError> {
    let name = |part: &str| format!("blk.{i}.ffn_{part}_exps.bias");
    if !bias.is_in(table, &name("gate")) {
        return Ok(None);
    }
    let mut place = |part: &str, n_out| table.vectors(&name(part), n_out, shape.n_expert);
    let n_ff = shape.n_ff_expert;
    Ok(Some([place("gate", n_ff)?, place("up", n_ff)?, place("down", sizes.n_embd)?]))
}

fn place_shared(
    table: &mut WeightTable<'_>,
    sizes: &Shape,
    i: usize,
    tensors: MoeTensors,
) -> Result<Option<SharedExpert>, ArchError> {
    let n_ff = sizes.moe.map_or(0, |moe| moe.n_ff_shared);
    if n_ff == 0 {
        return Ok(None);
    }
    let mlp = GatedMlp::place_shared(table, sizes, i, n_ff, tensors.activation)?;
    let name = format!("blk.{i}.ffn_gate_inp_shexp");
    let gate = (tensors.shared == Shared::Gated)
        .then(|| Linear::place(table, &name, (sizes.n_embd, 1), Bias::None));
    Ok(Some(SharedExpert { mlp, gate: gate.transpose()? }))
}
