//! What a build of a runtime says of itself: names and defaults of its options from `--help`, its version from
//! `--version`. Never runs anything.

use super::options::is_same;

/// What a build says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Its version, as `0.6.0-dev (build 11434)`, where it tells one.
    pub version: Option<String>,
    /// Its options, in its own order.
    pub options: Vec<LearnedOption>,
}

/// An option by a build's own help.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearnedOption {
    /// All its names, without dashes.
    pub names: Vec<String>,
    /// Whether something stands after its name.
    pub takes_value: bool,
    /// What it is without being given, as the help has it.
    pub default: Option<String>,
}

/// What someone says the default of an option is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultClaim {
    /// Name of the option, without dashes.
    pub option: String,
    /// Its default.
    pub default: String,
}

impl Learned {
    /// The option of this name, given without dashes.
    pub fn find(&self, name: &str) -> Option<&LearnedOption> {
        self.options.iter().find(|option| option.names.iter().any(|known| known == name))
    }

    /// First names of all options.
    pub fn names(&self) -> Vec<&str> {
        self.options.iter().filter_map(|option| option.names.last()).map(String::as_str).collect()
    }

    /// Claims that this build contradicts, with what it says itself.
    pub fn contradicts<'a>(&self, claims: &'a [DefaultClaim]) -> Vec<(&'a DefaultClaim, String)> {
        claims
            .iter()
            .filter_map(|claim| {
                let said = self.find(&claim.option)?.default.clone()?;
                (!is_same(&said, &claim.default) && !is_switch(&said, &claim.default))
                    .then_some((claim, said))
            })
            .collect()
    }
}

/// Whether two words say on, or two say off, in the spellings of help texts.
fn is_switch(left: &str, right: &str) -> bool {
    let meaning = |word: &str| match word {
        "on" | "true" | "enabled" => Some(true),
        "off" | "false" | "disabled" => Some(false),
        _ => None,
    };
    meaning(left).is_some() && meaning(left) == meaning(right)
}

/// Reads what a build printed for `--help` and `--version`, on both its outputs.
pub fn learn(help: &str, version: &str) -> Learned {
    let mut options: Vec<LearnedOption> = Vec::new();
    let mut text = String::new();
    for line in help.lines().map(without_colours) {
        match head(&line) {
            Some((option, rest)) => {
                close(&mut options, &text);
                options.push(option);
                text = rest.to_owned();
            }
            None if line.trim().is_empty() => {}
            None => text = format!("{text} {}", line.trim()),
        }
    }
    close(&mut options, &text);
    Learned { version: version_of(version), options }
}

/// Gives the last option the default of its text.
fn close(options: &mut [LearnedOption], text: &str) {
    if let Some(option) = options.last_mut() {
        option.default = default_of(text);
    }
}

/// Columns by which a line may be indented and still begin an option.
const INDENT_MAX: usize = 6;

/// The option that a line begins, and what the line says of it.
fn head(line: &str) -> Option<(LearnedOption, &str)> {
    let rest = line.trim_start();
    if !rest.starts_with('-') || line.len() - rest.len() > INDENT_MAX {
        return None;
    }
    let (head, text) = split_columns(rest);
    let mut names = Vec::new();
    let mut words = head.split_whitespace().peekable();
    let mut takes_value = false;
    while let Some(word) = words.next() {
        for part in word.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            takes_value |= !value.is_empty();
            if part.starts_with(['\'', '"']) {
                // A line of an example, and no option's.
                return None;
            }
            if is_name(name) {
                names.push(name.trim_start_matches('-').to_owned());
            } else {
                takes_value = true;
            }
        }
        if takes_value && !words.peek().is_some_and(|word| is_name(word.trim_end_matches(','))) {
            break;
        }
    }
    (!names.is_empty()).then_some((LearnedOption { names, takes_value, default: None }, text))
}

/// Whether a word is the name of an option.
fn is_name(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    word.starts_with('-')
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || ".-_".contains(char))
}

/// A line in its two columns, which two spaces part.
fn split_columns(line: &str) -> (&str, &str) {
    let mut from = 0;
    while let Some(at) = line[from..].find("  ").map(|at| from + at) {
        let (left, right) = (&line[..at], line[at..].trim_start());
        // Short names stand in a column of their own, with a comma before the next.
        if !left.ends_with(',') {
            return (left, right);
        }
        from = line.len() - right.len();
    }
    (line, "")
}

/// The default in an option's text: after `default:`, in brackets.
fn default_of(text: &str) -> Option<String> {
    let at = text.find("default: ")? + "default: ".len();
    let mut depth = 0_u32;
    let end = text[at..].find(|char| {
        match char {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return true,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        false
    });
    let said = text[at..].get(..end.unwrap_or(text.len() - at))?.trim();
    let is_list = said.split(", ").all(|part| !part.contains(' '));
    let said = if is_list { said } else { said.split([',', ';']).next().unwrap_or(said) };
    let said = said.split(" (").next().unwrap_or(said).trim().trim_matches(['\'', '"']);
    let is_value = !said.is_empty() && (is_list || !said.contains(' '));
    (is_value && !NO_DEFAULTS.contains(&said)).then(|| said.to_owned())
}

/// Words that stand for no default.
const NO_DEFAULTS: [&str; 3] = ["None", "unused", "unset"];

/// The version in what a program prints for `--version`.
fn version_of(text: &str) -> Option<String> {
    let text = text
        .lines()
        .map(without_colours)
        .find(|line| line.contains(|char: char| char.is_ascii_digit()))?;
    let digit = text.find(|char: char| char.is_ascii_digit())?;
    let start = text[..digit].rfind(' ').map_or(0, |at| at + 1);
    let said = text[start..].trim();
    Some(said.split(", commit unknown").collect::<String>())
}

/// A line without the colours of a terminal.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(char);
        }
    }
    plain
}
