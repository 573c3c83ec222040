//! Makes JSON of values in notations that are close to it, as they grow.

use super::argument::in_json_string;
use super::json_object::Fed;

/// Deepest nesting that is read: as deep as JSON is read elsewhere.
const DEPTH_MAX: usize = 100;

/// Bytes of a number or a word at most.
const WORD_BYTES_MAX: usize = 256;

/// A notation of values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relaxed {
    /// Python's literals.
    Python,
    /// Gemma's: strings between `<|"|>`, keys without quotes.
    Gemma,
}

impl Relaxed {
    /// What may stand around strings.
    fn quotes(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["\"", "'"],
            Self::Gemma => &["<|\"|>", "\""],
        }
    }
}

/// A list or a dictionary that is open.
struct Frame {
    close: char,
    is_map: bool,
    has_items: bool,
}

/// What may come next.
enum Slot {
    /// A value, or the end of what holds it.
    Value,
    /// A key, or the end of the dictionary.
    Key,
    Colon,
    Comma,
    /// A string and the escape in it that is being read.
    Text {
        quote: &'static str,
        is_escaped: bool,
        is_key: bool,
    },
    Word {
        is_key: bool,
    },
    /// The outermost value is whole.
    Over,
}

/// Reads one value.
pub(super) struct RelaxedValue {
    relaxed: Relaxed,
    slot: Slot,
    frames: Vec<Frame>,
    /// A quote or a word that is not whole yet.
    held: String,
}

impl RelaxedValue {
    pub(super) fn new(relaxed: Relaxed) -> Self {
        Self { relaxed, slot: Slot::Value, frames: Vec::new(), held: String::new() }
    }

    /// Reads a character and adds to `json` what it makes certain. [`Fed::End`] is told of the first character after the
    /// value.
    pub(super) fn feed(&mut self, c: char, json: &mut String) -> Fed {
        match self.slot {
            Slot::Text { quote, is_escaped, is_key } => {
                self.feed_text(c, quote, is_escaped, is_key, json)
            }
            Slot::Word { is_key } if is_word(c) => {
                self.held.push(c);
                if self.held.len() > WORD_BYTES_MAX { Fed::Broken } else { self.keep_word(is_key) }
            }
            Slot::Word { is_key } => match self.end_word(is_key, json) {
                Fed::More => self.feed(c, json),
                other => other,
            },
            _ if !self.held.is_empty() => self.feed_quote(c, json),
            _ if c.is_whitespace() => Fed::More,
            Slot::Over => Fed::End,
            Slot::Value => self.feed_value(c, json),
            Slot::Key => self.feed_key(c, json),
            Slot::Colon if c == ':' => {
                json.push_str(": ");
                self.slot = Slot::Value;
                Fed::More
            }
            Slot::Comma => self.feed_comma(c, json),
            Slot::Colon => Fed::Broken,
        }
    }

    fn keep_word(&mut self, is_key: bool) -> Fed {
        self.slot = Slot::Word { is_key };
        Fed::More
    }

    fn feed_value(&mut self, c: char, json: &mut String) -> Fed {
        match c {
            '[' => self.open(']', false, json),
            '(' if self.relaxed == Relaxed::Python => self.open(')', false, json),
            '{' => self.open('}', true, json),
            _ if self.is_close(c) && !self.is_in_map() => self.close(json),
            _ => self.begin_item(c, false, json),
        }
    }

    fn feed_key(&mut self, c: char, json: &mut String) -> Fed {
        if self.is_close(c) { self.close(json) } else { self.begin_item(c, true, json) }
    }

    /// Begins a string or a word.
    fn begin_item(&mut self, c: char, is_key: bool, json: &mut String) -> Fed {
        if self.relaxed.quotes().iter().any(|quote| quote.starts_with(c)) {
            self.separate(is_key, json);
            self.slot = if is_key { Slot::Key } else { Slot::Value };
            return self.feed_quote(c, json);
        }
        // Python's keys have quotes.
        if !is_word(c) || is_key && self.relaxed == Relaxed::Python {
            return Fed::Broken;
        }
        self.separate(is_key, json);
        self.held.push(c);
        self.keep_word(is_key)
    }

    /// Reads on in the quote that opens a string.
    fn feed_quote(&mut self, c: char, json: &mut String) -> Fed {
        self.held.push(c);
        let is_key = matches!(self.slot, Slot::Key);
        let quotes = self.relaxed.quotes();
        if let Some(quote) = quotes.iter().find(|quote| **quote == self.held) {
            self.held.clear();
            json.push('"');
            self.slot = Slot::Text { quote, is_escaped: false, is_key };
            return Fed::More;
        }
        let may_follow = quotes.iter().any(|quote| quote.starts_with(&self.held));
        if may_follow { Fed::More } else { Fed::Broken }
    }

    /// Writes what stands before an item. A comma waits until then, for the last item may have one too.
    fn separate(&mut self, is_key: bool, json: &mut String) {
        if let Some(frame) = self.frames.last_mut()
            && (is_key || !frame.is_map)
            && std::mem::replace(&mut frame.has_items, true)
        {
            json.push_str(", ");
        }
    }

    fn is_in_map(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.is_map)
    }

    fn is_close(&self, c: char) -> bool {
        self.frames.last().is_some_and(|frame| frame.close == c)
    }

    fn open(&mut self, close: char, is_map: bool, json: &mut String) -> Fed {
        if self.frames.len() == DEPTH_MAX {
            return Fed::Broken;
        }
        self.separate(false, json);
        json.push(if is_map { '{' } else { '[' });
        self.frames.push(Frame { close, is_map, has_items: false });
        self.slot = if is_map { Slot::Key } else { Slot::Value };
        Fed::More
    }

    fn close(&mut self, json: &mut String) -> Fed {
        let is_map = self.frames.pop().is_some_and(|frame| frame.is_map);
        json.push(if is_map { '}' } else { ']' });
        self.end_value();
        Fed::More
    }

    fn end_value(&mut self) {
        self.slot = if self.frames.is_empty() { Slot::Over } else { Slot::Comma };
    }

    fn feed_comma(&mut self, c: char, json: &mut String) -> Fed {
        match c {
            ',' => {
                self.slot = if self.is_in_map() { Slot::Key } else { Slot::Value };
                Fed::More
            }
            _ if self.is_close(c) => self.close(json),
            _ => Fed::Broken,
        }
    }

    fn feed_text(
        &mut self,
        c: char,
        quote: &'static str,
        is_escaped: bool,
        is_key: bool,
        json: &mut String,
    ) -> Fed {
        if is_escaped {
            add_escaped(c, json);
            self.slot = Slot::Text { quote, is_escaped: false, is_key };
            return Fed::More;
        }
        // Between Gemma's own quotes nothing is escaped.
        if c == '\\' && quote.len() == 1 {
            self.slot = Slot::Text { quote, is_escaped: true, is_key };
            return Fed::More;
        }
        self.held.push(c);
        while !self.held.is_empty() && !quote.starts_with(&self.held) {
            let first = self.held.remove(0);
            json.push_str(&in_json_string(first));
        }
        if self.held == quote {
            self.held.clear();
            json.push('"');
            if is_key { self.slot = Slot::Colon } else { self.end_value() }
        }
        Fed::More
    }

    fn end_word(&mut self, is_key: bool, json: &mut String) -> Fed {
        let word = std::mem::take(&mut self.held);
        if is_key {
            json.push_str(&serde_json::Value::from(word).to_string());
            self.slot = Slot::Colon;
            return Fed::More;
        }
        let Some(value) = json_of_word(&word) else { return Fed::Broken };
        json.push_str(&value);
        self.end_value();
        Fed::More
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '$')
}

/// The JSON of a number or of a named constant.
fn json_of_word(word: &str) -> Option<String> {
    match word {
        "True" | "true" => return Some("true".to_owned()),
        "False" | "false" => return Some("false".to_owned()),
        "None" | "null" => return Some("null".to_owned()),
        _ => {}
    }
    let plain = word.replace('_', "");
    if serde_json::from_str::<serde_json::Number>(&plain).is_ok() {
        return Some(plain);
    }
    let number = plain.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    number.map(|number| number.to_string())
}

/// Adds what a backslash and `c` mean, in Python or in JSON. The digits of a number follow as they are.
fn add_escaped(c: char, json: &mut String) {
    match c {
        'n' | 't' | 'r' | 'b' | 'f' | '"' | '\\' | 'u' => json.extend(['\\', c]),
        'x' => json.push_str("\\u00"),
        '\'' | '/' => json.push(c),
        '\n' => {}
        _ => {
            json.push_str("\\\\");
            json.push_str(&in_json_string(c));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(relaxed: Relaxed, text: &str) -> Option<String> {
        let mut value = RelaxedValue::new(relaxed);
        let mut json = String::new();
        for c in text.chars() {
            match value.feed(c, &mut json) {
                Fed::More => {}
                Fed::End => return Some(json),
                Fed::Broken => return None,
            }
        }
        None
    }

    #[test]
    fn literals_of_python_become_json() {
        let check = |text: &str, json: &str| {
            assert_eq!(read(Relaxed::Python, text).as_deref(), Some(json), "{text}");
        };
        check("'it\\'s \"x\"\n', ", r#""it's \"x\"\n""#);
        check(r#""a\x41\u00e9\d\/" )"#, r#""a\u0041\u00e9\\d/""#);
        check("-1_000)", "-1000");
        check(".5,", "0.5");
        check("[1, 'a', (True, None), {'k': {}}, ],", r#"[1, "a", [true, null], {"k": {}}]"#);
        for broken in ["[1 2]", "{1: 2}", "nan,", "[}", "{'a' 1}", "f(", "[,]"] {
            assert_eq!(read(Relaxed::Python, &format!("{broken})")), None, "{broken}");
        }
    }

    #[test]
    fn values_of_gemma_become_json() {
        let check = |text: &str, json: &str| {
            assert_eq!(read(Relaxed::Gemma, text).as_deref(), Some(json), "{text}");
        };
        check("<|\"|>a \\ \"b\" <|x<|\"|>}", r#""a \\ \"b\" <|x""#);
        check("{a:1,<|\"|>b c<|\"|>:[true,<|\"|>x<|\"|>]},", r#"{"a": 1, "b c": [true, "x"]}"#);
        check("[\"a\\n\"]}", r#"["a\n"]"#);
    }

    #[test]
    fn nesting_beyond_all_measure_is_broken() {
        assert_eq!(read(Relaxed::Python, &"[".repeat(1000)), None);
    }
}
