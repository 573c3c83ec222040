//! frank itself. It keeps its own budget, so the system sets no limit beside it.

use std::sync::LazyLock;

use super::contract::{self, KeyWay, Parts, arg, model_arg, place};
use super::options::{self, OptionList};
use super::{Arg, Runtime};
use crate::fault::Fault;
use crate::placement::Placement;
use crate::workload::{LogRules, Workload};

/// frank.
pub(super) const RUNTIME: Runtime = Runtime {
    name: "frank",
    check,
    render,
    args,
    defaults: || contract::claims(&OPTIONS),
    // Unknown is refused: it never passes over anything.
    ignores: &[],
};

static OPTIONS: LazyLock<OptionList> =
    LazyLock::new(|| OptionList::parse(include_str!("frank/options.txt")));

const KEYS: KeyWay = KeyWay::File { option: "api-key-file", variable: None };

fn check(placement: &Placement<'_>) -> Vec<Fault> {
    let mut faults = contract::check(placement, KEYS);
    faults.extend(options::check(placement, &OPTIONS));
    if placement.endpoint.vision {
        let message = "frank reads text alone";
        faults.push(Fault::error("no_vision", place(placement, "vision"), message));
    }
    if placement.draft_path.is_some() {
        let place = format!("models.{}.draft", placement.endpoint.model);
        faults.push(Fault::warning("unused_draft", place, "frank does not speculate"));
    }
    if placement.endpoint.memory_budget.is_none() {
        let message = "without a budget frank plans with all memory that is free when it starts";
        faults.push(Fault::warning("no_budget", place(placement, "memory-budget"), message));
    }
    faults
}

fn render(placement: &Placement<'_>) -> Workload {
    let given = options::given(placement, &OPTIONS);
    let parts = Parts {
        program: "frank",
        entrypoint: None,
        args: args(placement),
        given: &given,
        env: Vec::new(),
        keys: KEYS,
        start_period: contract::START_PERIOD,
        health: "/health".to_owned(),
        metrics: Some("frank"),
        log: LogRules::default(),
        gates: Vec::new(),
        is_limited: false,
    };
    contract::workload(placement, parts)
}

fn args(placement: &Placement<'_>) -> Vec<Arg> {
    let endpoint = placement.endpoint;
    let given = options::given(placement, &OPTIONS);
    let mut args = vec![
        model_arg(placement, "payload", &["serve", placement.model_path]),
        arg(placement, "alias", &["--alias", &endpoint.alias]),
        arg(placement, "bind", &["--host", contract::listen_address(placement)]),
        arg(placement, "port", &["--port", &endpoint.port.to_string()]),
    ];
    if let Some(context) = endpoint.context {
        args.push(arg(placement, "context", &["--ctx-size", &context.to_string()]));
    }
    if let Some(slots) = endpoint.slots {
        args.push(arg(placement, "slots", &["--parallel", &slots.to_string()]));
    }
    if let Some(budget) = &endpoint.memory_budget {
        args.push(arg(placement, "memory-budget", &["--memory-budget", budget]));
    }
    if let Some(template) = placement.template_path {
        args.push(model_arg(placement, "template", &["--chat-template", template]));
    }
    args.extend(contract::key_arg(placement, KEYS));
    args.extend(options::args(&given));
    args
}
