//! llama.cpp's server. Its context is one for all slots, so the rendered total is slots times what each request gets.

mod devices;
mod speculation;

use std::sync::LazyLock;

use super::contract::{self, KeyWay, Parts, arg, model_arg, place};
use super::options::{self, Given, OptionList};
use super::{Arg, Runtime};
use crate::fault::Fault;
use crate::placement::Placement;
use crate::workload::{LogRules, Workload};

/// llama.cpp.
pub(super) const RUNTIME: Runtime = Runtime {
    name: "llama.cpp",
    check,
    render,
    args,
    defaults: || contract::claims(&OPTIONS),
    ignores: &IGNORES,
};

static OPTIONS: LazyLock<OptionList> =
    LazyLock::new(|| OptionList::parse(include_str!("llama_cpp/options.txt")));

const KEYS: KeyWay = KeyWay::File { option: "api-key-file", variable: Some("LLAMA_API_KEY") };

/// Parts of lines of llama-server 0.6.0 by which it passes over an option.
const IGNORES: [&str; 6] = [
    "compiled without support for GPU offload",
    "cap has no effect",
    "option will be ignored",
    "it will be disabled",
    "environment variable is set, but will be overwritten by command line argument",
    "is not supported - ignoring",
];

/// Lines that a good start may hold: what the automatic fit tries before it settles, and what goes with speculation.
const HARMLESS: [&str; 2] =
    ["failed to fit params to free device memory", "speculative decoding will use checkpoints"];

/// Lines that no good start holds.
const FAILURES: [&str; 3] = [
    "failed to initialize speculative decoding context",
    "speculative decoding not supported by this context",
    "no usable GPU found",
];

/// Types of keys and values that are not quantized.
const WHOLE_KV_TYPES: [&str; 3] = ["f32", "f16", "bf16"];

fn check(placement: &Placement<'_>) -> Vec<Fault> {
    let given = options::given(placement, &OPTIONS);
    let mut faults = contract::check(placement, KEYS);
    faults.extend(options::check(placement, &OPTIONS));
    faults.extend(speculation::check(placement, &given));
    faults.extend(devices::check(placement, &given));
    faults.extend(kv_faults(placement, &given));
    faults.extend(attention_faults(placement, &given));
    faults.extend(context_fault(placement));
    faults.extend(vision_faults(placement, &given));
    faults
}

fn render(placement: &Placement<'_>) -> Workload {
    let given = options::given(placement, &OPTIONS);
    let mut log = LogRules::default();
    if placement.endpoint.vision {
        log.must.push(contract::literally("loaded multimodal model"));
    }
    log.may.extend(HARMLESS.map(contract::literally));
    log.must_not.extend(IGNORES.iter().chain(&FAILURES).map(|part| contract::literally(part)));
    let parts = Parts {
        program: "llama-server",
        entrypoint: None,
        args: args(placement),
        given: &given,
        env: Vec::new(),
        keys: KEYS,
        start_period: contract::START_PERIOD,
        health: "/health".to_owned(),
        metrics: Some("llamacpp"),
        log,
        gates: Vec::new(),
        is_limited: true,
    };
    contract::workload(placement, parts)
}

fn args(placement: &Placement<'_>) -> Vec<Arg> {
    let endpoint = placement.endpoint;
    let given = options::given(placement, &OPTIONS);
    let port = endpoint.port.to_string();
    let slots = u64::from(slots(placement));
    let mut args = vec![
        model_arg(placement, "payload", &["--model", placement.model_path]),
        arg(placement, "alias", &["--alias", &endpoint.alias]),
        arg(placement, "bind", &["--host", contract::listen_address(placement)]),
        arg(placement, "port", &["--port", &port]),
    ];
    if let Some(context) = endpoint.context {
        let total = (slots * u64::from(context)).to_string();
        args.push(arg(placement, "context", &["--ctx-size", &total]));
    }
    args.push(arg(placement, "slots", &["--parallel", &slots.to_string()]));
    args.push(arg(placement, "runtime", &["--metrics"]));
    if let Some(projector) = placement.projector_path.filter(|_| endpoint.vision) {
        args.push(model_arg(placement, "projector", &["--mmproj", projector]));
    }
    if speculation::has_draft_path(placement, &given) {
        args.extend(contract::draft_arg(placement, &spelled(placement, "spec-draft-model")));
    }
    if let Some(template) = placement.template_path {
        args.push(model_arg(placement, "template", &["--chat-template-file", template]));
    }
    args.extend(contract::key_arg(placement, KEYS));
    args.extend(devices::device_arg(placement, &given));
    args.extend(options::args(&given));
    args
}

/// Requests at once: one where nobody says, so that no context is divided behind anyone's back.
fn slots(placement: &Placement<'_>) -> u32 {
    placement.endpoint.slots.unwrap_or(1)
}

fn spelled(placement: &Placement<'_>, name: &str) -> String {
    let build = placement.known.build.and_then(|build| build.learned.as_ref());
    OPTIONS.spelling(name, build)
}

/// Without a context the server takes what fits and divides it among its slots.
fn context_fault(placement: &Placement<'_>) -> Option<Fault> {
    let message = "without a context llama.cpp takes what fits and divides it among the slots";
    let fault = || Fault::warning("no_context", place(placement, "context"), message);
    placement.endpoint.context.is_none().then(fault)
}

/// Quantized keys and values on CUDA need kernels that a usual build leaves out.
fn kv_faults(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let has_all = placement.known.build.and_then(|build| build.all_kv_types);
    if has_all == Some(true) || !contract::kinds(placement).iter().any(|kind| kind == "cuda") {
        return Vec::new();
    }
    let names = ["cache-type-k", "cache-type-v", "spec-draft-type-k", "spec-draft-type-v"];
    let options = given.iter().filter(|option| names.contains(&option.name));
    let quantized = options.filter(|option| {
        option.text().is_some_and(|kv_type| !WHOLE_KV_TYPES.contains(&kv_type.as_str()))
    });
    let flag = "GGML_CUDA_FA_ALL_QUANTS";
    quantized
        .map(|option| {
            let kv_type = option.text().unwrap_or_default();
            if has_all == Some(false) {
                let message =
                    format!("this build has no CUDA kernels for `{kv_type}` keys and values");
                return Fault::error("kv_type", &option.place, message)
                    .hint(format!("take one that was built with {flag}, or f16"));
            }
            let message =
                format!("whether this build has CUDA kernels for `{kv_type}` is not known");
            let hint =
                format!("one built with {flag} has; others have q8_0 or q4_0 for both at most");
            Fault::warning("kv_type", &option.place, message).hint(hint)
        })
        .collect()
}

/// Options that need flash attention, and an architecture that goes without.
fn attention_faults(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let value = |name| options::value_of(given, &OPTIONS, name);
    let find = |name| given.iter().find(|option| option.name == name);
    let is_on = value("flash-attn").as_deref() == Some("on");
    let mut faults = Vec::new();
    if let Some(option) =
        find("flash-attn").filter(|_| is_on && placement.architecture == Some("grok"))
    {
        let message = "llama.cpp switches flash attention off for `grok`";
        faults.push(Fault::warning("ignored_option", &option.place, message));
    }
    if value("flash-attn").as_deref() != Some("off") {
        return faults;
    }
    let is_whole = |kv_type: String| WHOLE_KV_TYPES.contains(&kv_type.as_str());
    let needs = |name| match name {
        "cache-type-v" => value(name).is_some_and(|kv_type| !is_whole(kv_type)),
        _ => value(name).as_deref() == Some("tensor"),
    };
    for option in
        ["cache-type-v", "split-mode"].into_iter().filter(|name| needs(name)).filter_map(find)
    {
        let value = option.text().unwrap_or_default();
        let message = format!("`{}` {value} needs flash attention, which is off", option.name);
        faults.push(Fault::error("needs_flash_attention", &option.place, message));
    }
    faults
}

/// An image reader needs its projector by path, and switches off what does not go with it.
fn vision_faults(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !placement.endpoint.vision {
        return faults;
    }
    if placement.model.projector.is_none() {
        let message = "llama.cpp reads images with a projector, and the model names none";
        faults.push(Fault::error("missing_projector", place(placement, "vision"), message));
    }
    for name in ["context-shift", "cache-reuse"] {
        let is_given = |option: &&Given<'_>| option.name == name && !option.is_default();
        if let Some(option) = given.iter().find(is_given) {
            let message = format!("llama.cpp switches `{name}` off where it reads images");
            faults.push(Fault::warning("ignored_option", &option.place, message));
        }
    }
    faults
}
