//! vLLM. The checkpoint's `config.json` decides flags and gates when the plan is made, not when the server starts.

pub(super) mod kv;
mod speculation;

use std::sync::LazyLock;

use super::contract::{self, KeyWay, Parts, arg, model_arg, place};
use super::options::{self, Given, OptionList};
use super::{Arg, Runtime};
use crate::fault::Fault;
use crate::placement::Placement;
use crate::workload::{Gate, LogRules, Workload};

/// vLLM.
pub(super) const RUNTIME: Runtime = Runtime {
    name: "vllm",
    check,
    render,
    args,
    defaults: || contract::claims(&OPTIONS),
    ignores: &[UNKNOWN_VARIABLE],
};

static OPTIONS: LazyLock<OptionList> =
    LazyLock::new(|| OptionList::parse(include_str!("vllm/options.txt")));

const KEYS: KeyWay = KeyWay::Variable("VLLM_API_KEY");

/// Part of the line by which it passes over a variable whose name begins as its own do.
const UNKNOWN_VARIABLE: &str = "Unknown vLLM environment variable detected";

/// Bytes that the processes of a model on several devices share; a container has 64 MiB unless it asks for more.
const SHARED_MEMORY: u64 = 8 << 30;

/// Ways of quantizing that need patches and kernels beside the runtime, and that no flag names.
const PATCHED: [&str; 1] = ["mxfp4"];

fn check(placement: &Placement<'_>) -> Vec<Fault> {
    let given = options::given(placement, &OPTIONS);
    let mut faults = contract::check(placement, KEYS);
    faults.extend(options::check(placement, &OPTIONS));
    faults.extend(kv::check(placement, &given));
    faults.extend(speculation::check(placement, &given));
    faults.extend(quantization_fault(placement, &given));
    faults.extend(parallel_fault(placement, &given));
    faults.extend(vision_fault(placement));
    faults
}

fn render(placement: &Placement<'_>) -> Workload {
    let given = options::given(placement, &OPTIONS);
    // Images set variables of their own that vLLM does not know, so only those of the endpoint count.
    let variables = placement.endpoint.env.keys().filter(|name| name.starts_with("VLLM_"));
    let must_not =
        variables.map(|name| contract::literally(&format!("{UNKNOWN_VARIABLE}: {name}")) + "$");
    let log = LogRules {
        must: Vec::new(),
        may: vec![contract::literally(UNKNOWN_VARIABLE)],
        must_not: must_not.collect(),
    };
    let parts = Parts {
        program: "vllm",
        // Entry points differ between images and not all take every flag; the program is in each.
        entrypoint: Some("vllm"),
        args: args(placement),
        given: &given,
        env: Vec::new(),
        keys: KEYS,
        start_period: contract::LONG_START_PERIOD,
        health: "/health".to_owned(),
        metrics: Some("vllm"),
        log,
        gates: gates(placement, &given),
        is_limited: true,
    };
    let is_shared = placement.endpoint.image.is_some() && workers(&given) > 1;
    Workload {
        shared_memory: is_shared.then_some(SHARED_MEMORY),
        ..contract::workload(placement, parts)
    }
}

fn args(placement: &Placement<'_>) -> Vec<Arg> {
    let endpoint = placement.endpoint;
    let given = options::given(placement, &OPTIONS);
    let number = |number: u32| number.to_string();
    let model = contract::model_folder(placement.model_path);
    let mut args = vec![
        model_arg(placement, "payload", &["serve", &model]),
        arg(placement, "alias", &["--served-model-name", &endpoint.alias]),
        arg(placement, "bind", &["--host", contract::listen_address(placement)]),
        arg(placement, "port", &["--port", &endpoint.port.to_string()]),
    ];
    if let Some(context) = endpoint.context.map(number) {
        args.push(arg(placement, "context", &["--max-model-len", &context]));
    }
    if let Some(slots) = endpoint.slots.map(number) {
        args.push(arg(placement, "slots", &["--max-num-seqs", &slots]));
    }
    if is_multimodal(placement) && !endpoint.vision {
        args.push(arg(placement, "vision", &["--language-model-only"]));
    }
    if let Some(template) = placement.template_path {
        args.push(model_arg(placement, "template", &["--chat-template", template]));
    }
    if let Some(method) = flag_of_checkpoint(placement, &given) {
        args.push(model_arg(placement, "payload", &["--quantization", method]));
    }
    args.extend(speculation::arg(placement, &given));
    args.extend(options::args(&given).into_iter().filter(|arg| !speculation::is_own(arg)));
    args
}

fn is_multimodal(placement: &Placement<'_>) -> bool {
    placement.known.checkpoint.is_some_and(|checkpoint| checkpoint.is_multimodal)
}

/// How the checkpoint says that it is quantized.
fn quantization<'a>(placement: &Placement<'a>) -> Option<&'a str> {
    placement.known.checkpoint?.quantization.as_deref()
}

/// The flag for a checkpoint's quantization, where there is one and the endpoint gives none.
fn flag_of_checkpoint<'a>(placement: &Placement<'a>, given: &[Given<'_>]) -> Option<&'a str> {
    let method = quantization(placement).filter(|method| !PATCHED.contains(method))?;
    (!given.iter().any(|option| option.name == "quantization")).then_some(method)
}

/// Gates that only this checkpoint and this drafter call for.
fn gates(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Gate> {
    let draft = placement.draft_path.filter(|_| speculation::has_draft_path(placement, given));
    let method = quantization(placement).filter(|method| PATCHED.contains(method));
    let gates =
        method.map(|method| [Gate::Patches(method.to_owned()), Gate::Library(method.to_owned())]);
    let draft = draft.map(|path| Gate::Draft(path.to_owned()));
    draft.into_iter().chain(gates.into_iter().flatten()).collect()
}

/// A flag against what the checkpoint says of itself.
fn quantization_fault(placement: &Placement<'_>, given: &[Given<'_>]) -> Option<Fault> {
    let option = given.iter().find(|option| option.name == "quantization")?;
    let (asked, said) = (option.text()?, quantization(placement)?);
    let message =
        format!("`quantization` is {asked}, and the checkpoint's config.json says {said}");
    (asked != said).then(|| Fault::error("quantization", &option.place, message))
}

/// Processes that compute one model.
fn workers(given: &[Given<'_>]) -> u64 {
    let size = |name| {
        let option = given.iter().find(|option| option.name == name);
        option.and_then(Given::number).unwrap_or(1)
    };
    size("tensor-parallel-size") * size("pipeline-parallel-size") * size("data-parallel-size")
}

/// A model that is cut for another number of devices than there are.
fn parallel_fault(placement: &Placement<'_>, given: &[Given<'_>]) -> Option<Fault> {
    let nodes = given.iter().find(|option| option.name == "nnodes").and_then(Given::number);
    let devices = contract::chosen(placement).len() as u64;
    if nodes.unwrap_or(1) > 1 || devices == 0 {
        return None;
    }
    let workers = workers(given);
    let place = place(placement, "devices");
    let message = format!("it is cut for {workers} devices and may use {devices}");
    match workers {
        workers if workers > devices => Some(Fault::error("device_count", place, message)),
        workers if workers < devices => {
            let fault = Fault::warning("device_count", place, message);
            Some(fault.hint("set `tensor-parallel-size`, or name the devices that it uses"))
        }
        _ => None,
    }
}

/// Images need an encoder in the checkpoint.
fn vision_fault(placement: &Placement<'_>) -> Option<Fault> {
    let checkpoint = placement.known.checkpoint?;
    let message = "the checkpoint has no encoder for images";
    let fault = || Fault::error("missing_projector", place(placement, "vision"), message);
    (placement.endpoint.vision && !checkpoint.is_multimodal).then(fault)
}
