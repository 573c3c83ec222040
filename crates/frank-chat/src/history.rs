//! Turns of a conversation in the form that a template takes, where it refuses others that mean the same.

use std::borrow::Cow;

use crate::conversation::{Conversation, Message, Role};

/// What a template refuses or passes over, as its source tells.
struct Demands {
    /// It writes one call of a message and no more.
    one_call: bool,
    /// It takes a text or thoughts beside a call, not both.
    one_text_beside_call: bool,
    /// It takes ids of nine characters.
    short_ids: bool,
    /// It takes no system message.
    no_system: bool,
    /// It takes no tool without a description.
    descriptions: bool,
}

impl Demands {
    fn of(source: &str) -> Self {
        Self {
            one_call: source.contains("only supports single tool-calls")
                || source.contains("We assume max 1 tool call per message"),
            one_text_beside_call: source.contains("Cannot pass both content and thinking"),
            short_ids: source.contains("IDs should be alphanumeric strings with length 9"),
            no_system: source.contains("System role not supported"),
            descriptions: source.contains("tool.description + "),
        }
    }
}

/// `conversation` as the template of this source takes it.
pub(crate) fn accepted<'a>(source: &str, conversation: &'a Conversation) -> Cow<'a, Conversation> {
    let demands = Demands::of(source);
    let messages = &conversation.messages;
    let has_calls = messages.iter().any(|message| !message.tool_calls.is_empty());
    let has_system = messages.first().is_some_and(|message| message.role == Role::System);
    let for_calls = demands.one_call || demands.one_text_beside_call || demands.short_ids;
    let lacks_description = conversation.tools.iter().any(|tool| tool.description.is_none());
    let for_tools = demands.descriptions && lacks_description;
    if !(has_calls && for_calls || has_system && demands.no_system || for_tools) {
        return Cow::Borrowed(conversation);
    }
    let mut messages = messages.clone();
    let mut tools = conversation.tools.clone();
    if demands.descriptions {
        tools.iter_mut().for_each(|tool| _ = tool.description.get_or_insert_default());
    }
    if demands.no_system {
        join_system(&mut messages);
    }
    if demands.one_text_beside_call {
        messages.iter_mut().for_each(think_aloud);
    }
    if demands.one_call {
        messages = one_call_each(messages);
    }
    if demands.short_ids {
        messages.iter_mut().for_each(shorten_ids);
    }
    Cow::Owned(Conversation { messages, tools, ..conversation.clone() })
}

/// Puts the system message before the user's first.
fn join_system(messages: &mut Vec<Message>) {
    if let [system, next, ..] = messages.as_mut_slice()
        && system.role == Role::System
        && next.role == Role::User
    {
        next.content = format!("{}\n\n{}", system.content, next.content);
        messages.remove(0);
    }
}

/// Puts the text beside a call into the thoughts that came before it.
fn think_aloud(message: &mut Message) {
    if let Some(reasoning) = &mut message.reasoning
        && !message.tool_calls.is_empty()
        && !message.content.is_empty()
        && !reasoning.is_empty()
    {
        reasoning.push_str("\n\n");
        reasoning.push_str(&std::mem::take(&mut message.content));
    }
}

/// Makes of a message with several calls one for each, with its result behind it.
fn one_call_each(messages: Vec<Message>) -> Vec<Message> {
    let mut parted = Vec::with_capacity(messages.len());
    let mut messages = messages.into_iter().peekable();
    while let Some(mut message) = messages.next() {
        if message.tool_calls.len() < 2 {
            parted.push(message);
            continue;
        }
        let mut results = Vec::new();
        while let Some(result) = messages.next_if(|next| next.role == Role::Tool) {
            results.push(result);
        }
        for call in std::mem::take(&mut message.tool_calls) {
            let own = results.iter().position(|result| is_result_of(result, call.id.as_deref()));
            parted.push(Message { tool_calls: vec![call], ..message.clone() });
            parted.extend(own.map(|at| results.remove(at)));
            message = Message::new(Role::Assistant, "");
        }
        parted.extend(results);
    }
    parted
}

/// Without ids results come in the order of the calls.
fn is_result_of(result: &Message, id: Option<&str>) -> bool {
    result.tool_call_id.is_none() || id.is_none() || result.tool_call_id.as_deref() == id
}

fn shorten_ids(message: &mut Message) {
    let calls = message.tool_calls.iter_mut().map(|call| &mut call.id);
    let result = (message.role == Role::Tool).then_some(&mut message.tool_call_id);
    for id in calls.chain(result) {
        let given = id.take().unwrap_or_default();
        *id = Some(if given.chars().count() == 9 { given } else { short_id(&given) });
    }
}

/// Nine letters and digits that stand for an id, always the same ones (FNV-1a).
fn short_id(id: &str) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in id.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let digit = |at: u32| {
        let place = hash / 36_u64.pow(at) % 36;
        char::from(DIGITS[usize::try_from(place).expect("below 36")])
    };
    (0..9).map(digit).collect()
}
