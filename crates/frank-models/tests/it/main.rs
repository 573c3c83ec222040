//! Behaviour of loaded models, against references that others computed.

mod exactness;
mod expert_major;
mod header_alone;
mod llama_cpp;
mod oracle;
mod quantized_experts;
mod refusals;
mod split;
mod step;
mod tiny;
mod windows;
mod work;
