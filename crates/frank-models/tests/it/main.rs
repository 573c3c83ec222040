//! Behaviour of loaded models, against references that others computed.

mod exactness;
mod llama_cpp;
mod oracle;
mod refusals;
mod step;
mod tiny;
mod windows;
mod work;
