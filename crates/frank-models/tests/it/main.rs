//! Behaviour of loaded models, against references that others computed.

mod exactness;
mod oracle;
mod refusals;
mod step;
