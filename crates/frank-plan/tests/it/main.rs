//! What the planner promises, for plain models, real machines and absurd numbers.

mod budgets;
mod json;
mod machine;
mod made_up;
mod predict;
mod prefix_cache;
mod properties;
mod refusals;
mod sizes;
