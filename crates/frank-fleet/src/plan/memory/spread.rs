//! How a runtime that is not frank spreads a model over devices, by its options. Never how much that is.

use serde_json::Value;

use crate::fleet_file::Endpoint;
use crate::plan::memory::HOST_MEMORY;
use crate::plan::memory::pools::Pool;

/// Devices with the share of the model that each is given; shares add up to 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) shares: Vec<(String, f64)>,
    /// Whether one device holds everything though there are more.
    pub(super) is_on_one: bool,
}

impl Spread {
    pub(super) fn of(endpoint: &Endpoint, pools: &[Pool]) -> Self {
        let devices = devices(endpoint, pools);
        let one =
            |id: &str| Self { shares: vec![(id.to_owned(), 1.0)], is_on_one: devices.len() > 1 };
        let Some(first) = devices.first() else { return one(HOST_MEMORY) };
        match endpoint.runtime.as_str() {
            "vllm" => {
                let ranks = number(endpoint, "tensor-parallel-size").unwrap_or(1)
                    * number(endpoint, "pipeline-parallel-size").unwrap_or(1);
                let ranks = usize::try_from(ranks).unwrap_or(1).clamp(1, devices.len());
                let share = 1.0 / ranks as f64;
                let shares = devices.iter().take(ranks).map(|pool| (pool.id.clone(), share));
                Self { shares: shares.collect(), is_on_one: ranks == 1 && devices.len() > 1 }
            }
            "llama.cpp" if text(endpoint, "split-mode") == Some("none") => {
                let main = number(endpoint, "main-gpu").and_then(|n| usize::try_from(n).ok());
                one(&devices.get(main.unwrap_or(0)).unwrap_or(first).id)
            }
            "llama.cpp" => Self { shares: by_layers(endpoint, &devices), is_on_one: false },
            _ => one(&first.id),
        }
    }
}

/// The devices of an endpoint; of a host with accelerators not its own memory, unless it is named.
fn devices<'p>(endpoint: &Endpoint, pools: &'p [Pool]) -> Vec<&'p Pool> {
    if endpoint.devices.is_empty() {
        return pools.iter().filter(|pool| pool.id != HOST_MEMORY).collect();
    }
    let named = endpoint.devices.iter();
    named.filter_map(|id| pools.iter().find(|pool| pool.id == *id)).collect()
}

/// The shares that are asked for, or else by what each device has.
fn by_layers(endpoint: &Endpoint, devices: &[&Pool]) -> Vec<(String, f64)> {
    let asked = asked_shares(endpoint).filter(|shares| shares.len() == devices.len());
    let weights = asked.unwrap_or_else(|| devices.iter().map(|pool| pool.room() as f64).collect());
    let sum: f64 = weights.iter().sum();
    let share = |weight: f64| if sum > 0.0 { weight / sum } else { 1.0 / devices.len() as f64 };
    devices.iter().zip(weights).map(|(pool, weight)| (pool.id.clone(), share(weight))).collect()
}

/// `tensor-split` as a text, `35,30` or `35/30`, or as a list.
fn asked_shares(endpoint: &Endpoint) -> Option<Vec<f64>> {
    match endpoint.options.get("tensor-split")? {
        Value::String(text) => {
            text.split([',', '/']).map(|part| part.trim().parse().ok()).collect()
        }
        Value::Array(items) => items.iter().map(Value::as_f64).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// An option that is a number, however it is written.
pub(super) fn number(endpoint: &Endpoint, name: &str) -> Option<u64> {
    match endpoint.options.get(name)? {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}

pub(super) fn text<'e>(endpoint: &'e Endpoint, name: &str) -> Option<&'e str> {
    endpoint.options.get(name)?.as_str()
}
