//! What a model wrote, part by part: what it thought, what it says, and the tools that it calls.

/// A part of an answer. Parts of one kind that follow each other belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputPart {
    /// More of what the model thinks before it answers.
    Reasoning(String),
    /// More of what it says.
    Text(String),
    /// It calls a tool. Its arguments follow, then the end of the call.
    CallStart {
        /// The call's name for itself, where the model writes one.
        id: Option<String>,
        /// Name of the tool.
        name: String,
    },
    /// More of the arguments of the call that began last. All of a call together are a JSON object, unless the answer is
    /// cut off in it.
    CallArguments(String),
    /// The call is whole.
    CallEnd,
}

/// Reads an answer as it grows, however it is cut into pieces. Control tokens that the format asks to see stand in it as
/// their texts.
pub trait OutputParser: Send {
    /// Adds a piece of text, and gives the parts that became certain.
    fn push(&mut self, piece: &str) -> Vec<OutputPart>;

    /// Ends the answer where the model did: what was held back becomes certain.
    fn finish(&mut self) -> Vec<OutputPart>;
}
