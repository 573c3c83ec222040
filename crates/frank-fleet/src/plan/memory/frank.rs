//! What frank will hold: its own planner, with the options of the endpoint.

use frank_plan::{Device, Host, Limits, Machine, ModelNeeds, Plan, StreamCache, parse_size, plan};

use crate::fault::Fault;
use crate::fleet_file::Endpoint;
use crate::plan::memory::HOST_MEMORY;
use crate::plan::memory::pools::Pool;

/// Bytes by device.
type Held = Vec<(String, u64)>;

/// What the planner gives an endpoint of the room that is left.
/// # Errors
/// The refusal, with what it would have held.
pub(super) fn held(
    needs: &ModelNeeds,
    endpoint: &Endpoint,
    pools: &[Pool],
) -> Result<Held, (Held, Box<Fault>)> {
    let machine = machine(pools);
    let limits = limits(endpoint);
    match plan(needs, &machine, &limits) {
        Ok(plan) => Ok(held_by(&plan)),
        Err(refusal) => {
            let fault = Fault::error("does_not_fit", "", refusal.to_string());
            let fault = match refusal.change.as_slice() {
                [] => fault,
                changes => fault.hint(format!("it fits with {}", changes.join(", or with "))),
            };
            Err((held_by(&refusal.attempt), Box::new(fault)))
        }
    }
}

fn held_by(plan: &Plan) -> Held {
    plan.devices.iter().map(|device| (device.id.clone(), device.used)).collect()
}

/// The host as frank sees it: it computes on processors.
fn machine(pools: &[Pool]) -> Machine {
    let pool = pools.iter().find(|pool| pool.id == HOST_MEMORY);
    let (total, free) = pool.map_or((0, 0), |pool| (pool.total, pool.room()));
    let device = Device {
        id: HOST_MEMORY.to_owned(),
        kind: "cpu".to_owned(),
        total,
        free,
        // What stays free was taken off.
        headroom: Some(0),
        bandwidth: None,
        arithmetic: None,
        part_of: None,
        is_declared: false,
    };
    Machine { host: Host { ram: total, cores: 1 }, devices: vec![device], drives: Vec::new() }
}

fn limits(endpoint: &Endpoint) -> Limits {
    let number = |name: &str| {
        endpoint.options.get(name)?.as_u64().and_then(|number| u32::try_from(number).ok())
    };
    let bytes = |name: &str| parse_size(endpoint.options.get(name)?.as_str()?).ok();
    let budget = endpoint.memory_budget.as_deref().and_then(|size| parse_size(size).ok());
    let stream_cache = bytes("stream-cache").map(|bytes| StreamCache { device: None, bytes });
    Limits {
        ctx_size: endpoint.context,
        parallel: endpoint.slots,
        ubatch: number("ubatch-size"),
        prefix_cache: bytes("prefix-cache"),
        disk_cache: endpoint.options.contains_key("cache-dir"),
        memory_budget: budget.or_else(|| bytes("memory-budget")),
        headroom: bytes("headroom"),
        stream_cache,
        ..Limits::default()
    }
}
