//! HTTP endpoint: routes, streaming, authentication, limits. Never schedules, formats prompts or knows a vendor's
//! fields.

mod aligned_logprobs;
mod answer_events;
mod answer_form;
mod app;
mod auth;
mod choice;
mod compiled_patterns;
mod connections;
mod constraint;
mod error;
mod gate;
mod generate;
mod health;
mod keeper;
mod limits;
mod origin;
mod pace;
mod page;
mod prepare;
mod prompt;
mod request_id;
mod routes;
mod sampling;
mod serve;
mod served;
mod sse;
mod stop;
mod stored;
mod summary;
mod thinking_budget;
mod timed_writes;
mod under_way;
mod voice;

pub use auth::{ApiKeys, KeyFileError};
pub use constraint::constraint;
pub use limits::{BODY_BYTES_MAX, REQUEST_BYTES_MAX};
pub use origin::{AllowedOrigin, OriginError};
pub use sampling::{default_breakers, sampling_params};
pub use serve::{ServeError, ServerOptions, serve};
pub use served::{ModelSlot, Served};
pub use stored::AnswerStore;
