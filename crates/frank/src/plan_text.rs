//! A memory plan as text for a terminal. Never decides anything.

use std::fmt::Write;

use frank_plan::{Bound, DevicePlan, KV_BLOCK_TOKENS, KvGroupPlan, Plan, Prediction, Size, Tier};

use crate::report::printable;

/// The plan as text for a terminal.
pub(crate) fn table(plan: &Plan) -> String {
    let mut lines = vec![model_line(plan), settings_line(plan)];
    lines.extend(tiers_line(plan));
    for device in &plan.devices {
        lines.push(String::new());
        lines.extend(device_lines(device));
    }
    if let Some(line) = speed_line(&plan.predict) {
        lines.extend([String::new(), line]);
    }
    lines.extend(plan.warnings.iter().map(|warning| format!("warning: {warning}")));
    let mut out = String::new();
    for line in lines {
        writeln!(out, "{}", printable(&line)).expect("a String takes every text");
    }
    out
}

/// The model.
pub(crate) fn model_line(plan: &Plan) -> String {
    let model = &plan.model;
    let experts = match model.experts {
        0 => String::new(),
        experts => format!(", {experts} experts of which {} are used", model.experts_used),
    };
    format!("{}, {} layers{experts}, {} file", model.arch, model.layers, Size(model.file_bytes))
}

/// The settings that decide how much memory it takes.
pub(crate) fn settings_line(plan: &Plan) -> String {
    let requests = match plan.parallel {
        1 => "1 request".to_owned(),
        parallel => format!("each of {parallel} requests"),
    };
    let windows = plan.kv_groups.iter().filter_map(|group| window(group, plan.ctx_size));
    format!(
        "{} tokens of context for {requests}, {} rows a step, {} of KV cache a token{}",
        plan.ctx_size,
        plan.ubatch,
        Size(plan.kv_bytes_per_token),
        windows.collect::<String>(),
    )
}

/// Where the routed experts are in the end, whatever was asked for; `None` for a model without any.
pub(crate) fn tiers_line(plan: &Plan) -> Option<String> {
    let experts = &plan.experts;
    // The dense weights lie on the primary device, and nowhere else.
    let first = plan.devices.iter().position(|device| device.uses.dense > 0).unwrap_or(0);
    let primary = plan.devices.get(first).filter(|_| experts.count > 0)?;
    let others = plan.devices.iter().enumerate().filter(|&(index, _)| index != first);
    let others = others.map(|(index, device)| {
        let held = plan.expert_tiers.tiers.iter().filter(|tier| is_on(**tier, index)).count();
        format!(", {held} on {}", device.id)
    });
    let streamed = (experts.stream > 0).then(|| {
        let slot = Size(plan.expert_tiers.slot_bytes);
        format!(", {} streamed through {} slots of {slot}", experts.stream, experts.cache_slots)
    });
    let resident = format!("experts: {} on {}", experts.primary, primary.id);
    Some(resident + &others.collect::<String>() + &streamed.unwrap_or_default())
}

/// Whether an expert lies on the device at `index` of the plan, other than the one that owns the dense weights.
fn is_on(tier: Tier, index: usize) -> bool {
    matches!(tier, Tier::Secondary(device) if usize::from(device) == index)
}

/// How much of a token's KV cache is kept for a while only.
fn window(group: &KvGroupPlan, ctx_size: u32) -> Option<String> {
    let window = group.window.filter(|&window| window < ctx_size)?;
    let token_bytes = group.block_bytes / u64::from(KV_BLOCK_TOKENS);
    Some(format!(", {} of it for the last {window} tokens only", Size(token_bytes)))
}

/// Expected speeds of one request alone, those that can be told.
pub(crate) fn speed_line(predict: &Prediction) -> Option<String> {
    let decode = predict.decode_tok_s.map(|tok_s| {
        let bound = match predict.bound {
            Some(Bound::Dram) => ", bound by memory bandwidth",
            Some(Bound::Nvme) => ", bound by the drive",
            Some(Bound::Compute) => ", bound by arithmetic",
            None => "",
        };
        format!("{tok_s:.1} tokens a second for one answer{bound}")
    });
    let prefill = predict.prefill_tok_s.map(|tok_s| format!("{tok_s:.0} of a prompt"));
    let speeds: Vec<String> = [decode, prefill].into_iter().flatten().collect();
    (!speeds.is_empty()).then(|| format!("about {}", speeds.join("; ")))
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
