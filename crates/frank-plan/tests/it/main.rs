//! What the planner promises, for plain models, real machines and absurd numbers.

mod budgets;
mod experts;
mod json;
mod machine;
mod made_up;
mod optimize;
mod pools;
mod predict;
mod prefix_cache;
mod properties;
mod properties_of_experts;
mod ranking_files;
mod refusals;
mod refusals_of_experts;
mod sizes;
mod strategies;
mod two_devices;
