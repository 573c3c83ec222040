//! A memory plan as text for a terminal. Never decides anything.

use std::fmt::Write;

use frank_plan::{DevicePlan, Plan, Size};

use crate::report::printable;

/// The plan as text for a terminal.
pub(crate) fn table(plan: &Plan) -> String {
    let mut lines = vec![model_line(plan), settings_line(plan)];
    for device in &plan.devices {
        lines.push(String::new());
        lines.extend(device_lines(device));
    }
    if let Some(decode_tok_s) = plan.predict.decode_tok_s {
        lines.push(String::new());
        lines.push(format!(
            "about {decode_tok_s:.1} tokens a second for one answer, bound by memory bandwidth"
        ));
    }
    lines.extend(plan.warnings.iter().map(|warning| format!("warning: {warning}")));
    let mut out = String::new();
    for line in lines {
        writeln!(out, "{}", printable(&line)).expect("a String takes every text");
    }
    out
}

fn model_line(plan: &Plan) -> String {
    let model = &plan.model;
    let experts = match model.experts {
        0 => String::new(),
        experts => format!(", {experts} experts of which {} are used", model.experts_used),
    };
    format!("{}, {} layers{experts}, {} file", model.arch, model.layers, Size(model.file_bytes))
}

fn settings_line(plan: &Plan) -> String {
    let requests = match plan.parallel {
        1 => "1 request".to_owned(),
        parallel => format!("each of {parallel} requests"),
    };
    format!(
        "{} tokens of context for {requests}, {} rows a step, {} of KV cache a token",
        plan.ctx_size,
        plan.ubatch,
        Size(plan.kv_bytes_per_token)
    )
}

/// One device: what it has, what is held there by purpose, and what is left.
fn device_lines(device: &DevicePlan) -> Vec<String> {
    let line = |name: &str, bytes: u64| format!("  {name:<12} {:>12}", Size(bytes).to_string());
    let mut lines =
        vec![format!("{}: {} free of {}", device.id, Size(device.free), Size(device.total))];
    let held = device.uses.entries().into_iter().filter(|&(_, bytes)| bytes > 0);
    lines.extend(held.map(|(name, bytes)| line(name, bytes)));
    lines.push(line("used", device.used));
    lines.push(line("headroom", device.headroom));
    lines.push(line("left", device.left));
    lines
}
