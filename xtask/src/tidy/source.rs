//! Rust text taken apart into code, strings and comments, so that a rule about code does not trip over prose.

/// The code and the strings of a source file. Comments are in neither.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// The text with a space in the place of each comment and of what stands in strings and character literals.
    pub(crate) code: String,
    /// What stands between the quotes of each string literal, escapes as they are written.
    pub(super) strings: Vec<String>,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Source {
        let mut source = Source::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let n_bytes = source.take(rest, first);
            rest = &rest[n_bytes..];
        }
        source
    }

    /// Takes one piece off the front of `rest` and returns its length in bytes.
    fn take(&mut self, rest: &str, first: char) -> usize {
        if rest.starts_with("//") {
            return self.skip(rest.find('\n').unwrap_or(rest.len()));
        }
        if rest.starts_with("/*") {
            return self.skip(block_comment(rest));
        }
        let in_word = self.code.ends_with(is_word_char);
        if let Some(hashes) = (!in_word).then(|| raw_string_hashes(rest)).flatten() {
            return self.take_raw_string(rest, hashes);
        }
        match first {
            '"' => {
                let n_bytes = quoted(rest, '"');
                self.strings.push(rest[1..n_bytes].trim_end_matches('"').to_owned());
                self.code.push('"');
                self.skip(n_bytes)
            }
            '\'' if is_char_literal(rest) => self.skip(quoted(rest, '\'')),
            _ => {
                self.code.push(first);
                first.len_utf8()
            }
        }
    }

    fn take_raw_string(&mut self, rest: &str, hashes: usize) -> usize {
        let start = rest.find('"').map_or(rest.len(), |quote| quote + 1);
        let end_mark = format!("\"{}", "#".repeat(hashes));
        let end = rest[start..].find(&end_mark).map_or(rest.len(), |end| start + end);
        self.strings.push(rest[start..end].to_owned());
        self.code.push('"');
        self.skip((end + end_mark.len()).min(rest.len()))
    }

    fn skip(&mut self, n_bytes: usize) -> usize {
        self.code.push(' ');
        n_bytes
    }

    /// The words of the code: identifiers, keywords and numbers.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.code.split(|c: char| !is_word_char(c)).filter(|word| !word.is_empty())
    }
}

pub(super) fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the comment at the front, in which comments may nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest[at..];
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of the literal at the front, with both quotes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Whether the quote at the front begins a character literal and not a lifetime.
fn is_char_literal(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    let (first, second) = (chars.next(), chars.next());
    first == Some('\\') || second == Some('\'')
}

/// How many `#` the raw string at the front has; `None` where there is none.
fn raw_string_hashes(rest: &str) -> Option<usize> {
    let after = ["r", "br", "cr"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, words: &[&str], strings: &[&str]) {
        let source = Source::parse(text);
        assert_eq!(source.words().collect::<Vec<_>>(), words, "{text}");
        assert_eq!(source.strings, strings, "{text}");
    }

    #[test]
    fn comments_are_neither_code_nor_strings() {
        check("a // b \"c\"\nd /* e /* f */ g */ h", &["a", "d", "h"], &[]);
        check("/* never closed", &[], &[]);
    }

    #[test]
    fn strings_are_not_code() {
        check(r#"f("a b", "c \" d") + g"#, &["f", "g"], &["a b", r#"c \" d"#]);
        check(r##"x = r#"say "hi""# ; y"##, &["x", "y"], &["say \"hi\""]);
        check(r#"br"a" b"b" c"c" bar"d""#, &["b", "c", "bar"], &["a", "b", "c", "d"]);
        check("r#type \"// no comment\" z", &["r", "type", "z"], &["// no comment"]);
    }

    #[test]
    fn character_literals_and_lifetimes_are_told_apart() {
        check(
            "fn f<'a>(x: &'a str) { '\"' ; '\\'' ; 'é' }",
            &["fn", "f", "a", "x", "a", "str"],
            &[],
        );
    }
}
