//! Lucebox's `dflash_server`. Much of what it offers is one architecture's, and some of it is passed over in silence by
//! the others.

mod architectures;

use std::sync::LazyLock;

use super::contract::{self, KeyWay, Parts, arg, model_arg, place};
use super::options::{self, Given, OptionList};
use super::{Arg, Runtime};
use crate::fault::Fault;
use crate::placement::Placement;
use crate::workload::{LogRules, Workload};

/// Lucebox.
pub(super) const RUNTIME: Runtime = Runtime {
    name: "lucebox",
    check,
    render,
    args,
    defaults: || contract::claims(&OPTIONS),
    ignores: &IGNORES,
};

static OPTIONS: LazyLock<OptionList> =
    LazyLock::new(|| OptionList::parse(include_str!("lucebox/options.txt")));

/// The server in Lucebox's images. Their entry point makes flags of variables, and not every flag has one.
const SERVER: &str = "/opt/lucebox-hub/server/build/dflash_server";

/// Parts of lines by which it passes over an option or a variable.
const IGNORES: [&str; 3] = [" ignored: ", "] ignoring ", "unknown option: "];

/// Line of a mode that may be meant: experts shared among devices where one cannot hold all.
const FALLBACK: &str = "falling back";

/// Memory that one device had to give in one piece when a prompt was to be read by the `dense` way.
const DENSE_PREFILL: &str = "191,932.25 MiB";

fn check(placement: &Placement<'_>) -> Vec<Fault> {
    let given = options::given(placement, &OPTIONS);
    let mut faults = contract::check(placement, KeyWay::None);
    faults.extend(options::check(placement, &OPTIONS));
    faults.extend(architectures::check(placement, &given));
    faults.extend(prefill_fault(placement, &given));
    faults.extend(budget_faults(placement, &given));
    if placement.endpoint.vision {
        let message = "no option of this runtime for a projector is known";
        faults.push(Fault::error("no_vision", place(placement, "vision"), message));
    }
    if placement.endpoint.slots.is_some_and(|slots| slots > 1) {
        let message =
            "no option of this runtime for requests at once is known; they wait for each other";
        faults.push(Fault::warning("unknown_slots", place(placement, "slots"), message));
    }
    faults
}

fn render(placement: &Placement<'_>) -> Workload {
    let given = options::given(placement, &OPTIONS);
    let log = LogRules {
        must: Vec::new(),
        may: vec![contract::literally(FALLBACK)],
        must_not: IGNORES.map(contract::literally).to_vec(),
    };
    let parts = Parts {
        program: "dflash_server",
        entrypoint: Some(SERVER),
        args: args(placement),
        given: &given,
        env: Vec::new(),
        keys: KeyWay::None,
        start_period: contract::LONG_START_PERIOD,
        health: "/health".to_owned(),
        metrics: None,
        log,
        gates: Vec::new(),
        is_limited: true,
    };
    contract::workload(placement, parts)
}

fn args(placement: &Placement<'_>) -> Vec<Arg> {
    let endpoint = placement.endpoint;
    let given = options::given(placement, &OPTIONS);
    let mut args = vec![
        model_arg(placement, "payload", &[placement.model_path]),
        arg(placement, "alias", &["--model-name", &endpoint.alias]),
        arg(placement, "bind", &["--host", contract::listen_address(placement)]),
        arg(placement, "port", &["--port", &endpoint.port.to_string()]),
    ];
    if let Some(context) = endpoint.context {
        args.push(arg(placement, "context", &["--max-ctx", &context.to_string()]));
    }
    args.extend(contract::draft_arg(placement, "draft"));
    if let Some(template) = placement.template_path {
        args.push(model_arg(placement, "template", &["--chat-template-file", template]));
    }
    args.extend(options::args(&given));
    args
}

/// A variable whose name ends so and that is not one of `unless`.
fn variable(placement: &Placement<'_>, ending: &str, unless: &str) -> bool {
    let mut names = placement.endpoint.env.keys();
    names.any(|name| name.ends_with(ending) && (unless.is_empty() || !name.contains(unless)))
}

/// Whether experts are shared among devices, or between a device and the host.
fn is_hybrid(placement: &Placement<'_>, given: &[Given<'_>]) -> bool {
    let names = ["target-devices", "target-shard-ipc-bin", "spark"];
    let is_asked = given.iter().any(|option| names.contains(&option.name) && !option.is_default());
    is_asked || variable(placement, "EXPERT_BUDGET_MB", "")
}

/// A way of reading prompts that wants all experts on one device.
fn prefill_fault(placement: &Placement<'_>, given: &[Given<'_>]) -> Option<Fault> {
    let option = given.iter().find(|option| option.name == "ds4-prefill")?;
    let mode = option.text().filter(|mode| ["dense", "sparse"].contains(&mode.as_str()))?;
    let message = format!(
        "`{mode}` reads prompts with all experts on one device, beside experts that are shared: {DENSE_PREFILL} in one piece in the recorded case"
    );
    let fault = Fault::error("prefill_needs_one_device", &option.place, message);
    is_hybrid(placement, given).then(|| fault.hint("use `exact`"))
}

/// Budgets that the runtime sets by itself where nobody does, and then fails its own check or fills the card.
fn budget_faults(placement: &Placement<'_>, given: &[Given<'_>]) -> Vec<Fault> {
    if !is_hybrid(placement, given) {
        return Vec::new();
    }
    let is_given = |name| given.iter().any(|option| option.name == name);
    let has_second = contract::chosen(placement).len() > 1;
    let budgets = [
        (
            "experts on the first device",
            variable(placement, "EXPERT_BUDGET_MB", "SECONDARY") || is_given("spark-vram"),
        ),
        (
            "experts on the second device",
            !has_second || variable(placement, "SECONDARY_BUDGET_MB", ""),
        ),
        (
            "slots of the expert cache",
            variable(placement, "CACHE_SLOTS", "") || is_given("spark-slots"),
        ),
    ];
    let missing = budgets.into_iter().filter(|(_, is_pinned)| !is_pinned);
    missing
        .map(|(what, _)| {
            let message =
                format!("the budget for {what} is not pinned, and the runtime takes what is free");
            Fault::warning("budget_not_pinned", place(placement, "env"), message)
        })
        .collect()
}
