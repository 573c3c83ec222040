//! The answer of `frank fit --json`, fitting or not. Never decides which it is.

use serde::Serialize;

use crate::plan::Plan;
use crate::refusal::Refusal;

/// A plan and whether it holds. Serializes to the object that `frank fit --json` prints: `fits`, the facts of
/// the plan, `refusal`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Whether the plan holds.
    pub fits: bool,
    /// The plan; what would have been held when it does not hold.
    #[serde(flatten)]
    pub plan: Plan,
    /// Why it does not hold.
    pub refusal: Option<Refusal>,
}

impl From<Result<Plan, Refusal>> for Outcome {
    fn from(result: Result<Plan, Refusal>) -> Self {
        match result {
            Ok(plan) => Self { fits: true, plan, refusal: None },
            Err(refusal) => {
                Self { fits: false, plan: (*refusal.attempt).clone(), refusal: Some(refusal) }
            }
        }
    }
}
