//! Pre-tokenizers: how a text is split into the words that byte pairs are merged in. Never sees a token id.
//!
//! A pre-tokenizer is one regular expression or more in the model's training code, each of which splits what the one
//! before it left: into its matches, and the gaps between them. Here each expression is a stage, written by hand as a
//! function that finds the end of the first piece of a text, which is enough because none looks behind. A stage looks at
//! the piece it cuts off and a bounded number of times at what follows, so a text takes linear time.

mod deepseek_coder;
mod deepseek_llm;
mod deepseek_v3;
mod default;
mod falcon;
mod gpt2;
mod gpt4o;
mod llama3;
mod qwen2;
mod qwen35;
mod smollm;

use crate::error::{TokenizerError, shortened};

/// Most stages that a pre-tokenizer has.
const STAGES_MAX: usize = 6;

/// A pre-tokenizer.
pub(crate) struct Pre {
    /// What `tokenizer.ggml.pre` calls it. The first name stands for all of them in lists.
    names: &'static [&'static str],
    /// Bytes of the first piece of a text that is not empty; at least one character.
    stages: &'static [fn(&str) -> usize],
    /// Whether a word that is a token as it stands is that token, whatever the merges make of it.
    pub(crate) whole_words: bool,
    /// Whether sequences begin with BOS where the file does not say. Source: llama.cpp, `llama_vocab::impl::load`.
    pub(crate) adds_bos: bool,
}

/// Every pre-tokenizer. To add one, write its file and its line here.
static PRES: &[Pre] = &[
    gpt2::PRE,
    default::PRE,
    llama3::PRE,
    smollm::PRE,
    qwen2::PRE,
    qwen35::PRE,
    deepseek_llm::PRE,
    deepseek_coder::PRE,
    deepseek_v3::PRE,
    gpt4o::PRE,
    falcon::PRE,
];

impl Pre {
    /// The pre-tokenizer of `tokenizer.ggml.pre`. A missing name is `default`, and both give a warning.
    pub(crate) fn find(
        name: Option<&str>,
        warnings: &mut Vec<String>,
    ) -> Result<&'static Pre, TokenizerError> {
        let is_default = name.is_none_or(|name| default::PRE.names.contains(&name));
        if is_default {
            warnings.push(format!(
                "tokenizer.ggml.pre is {}: text is split by a rule that no model is known to be trained with, so answers \
                 may be worse",
                if name.is_some() { "\"default\"" } else { "missing" },
            ));
            return Ok(&default::PRE);
        }
        let name = name.unwrap_or_default();
        PRES.iter().find(|pre| pre.names.contains(&name)).ok_or_else(|| {
            TokenizerError::UnknownPre {
                pre: shortened(name),
                known: PRES.iter().map(|pre| pre.names[0]).collect::<Vec<_>>().join(", "),
            }
        })
    }

    /// The words of a text, in order; together they are the text.
    pub(crate) fn words<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        // What each stage has still to split, and behind the last one the word.
        let mut rests = [""; STAGES_MAX + 1];
        rests[0] = text;
        let n_stages = self.stages.len();
        std::iter::from_fn(move || {
            let deepest = rests[..n_stages].iter().rposition(|rest| !rest.is_empty())?;
            for stage in deepest..n_stages {
                let (piece, rest) = rests[stage].split_at((self.stages[stage])(rests[stage]));
                rests[stage] = rest;
                rests[stage + 1] = piece;
            }
            Some(rests[n_stages])
        })
    }
}

/// Bytes of the characters at the start that are of a class.
fn run_bytes(text: &str, class: impl Fn(char) -> bool) -> usize {
    text.find(|c| !class(c)).unwrap_or(text.len())
}

/// Bytes of the first character that is of a class, if it is the first of all, or else of what comes before it:
/// the expression `CLASS`.
fn single_or_gap(text: &str, class: impl Fn(char) -> bool) -> usize {
    match text.char_indices().find(|&(_, c)| class(c)) {
        None => text.len(),
        Some((0, c)) => c.len_utf8(),
        Some((gap, _)) => gap,
    }
}

/// Bytes of the characters at the start that are of a class, or else of what comes before the first one: `CLASS+`.
fn run_or_gap(text: &str, class: impl Fn(char) -> bool) -> usize {
    match run_bytes(text, &class) {
        0 => run_bytes(text, |c| !class(c)),
        run => run,
    }
}

/// Bytes of the characters at the start that are of a class, with one white space before them, or else of what comes
/// before the first of that: `\s?CLASS+`. No character of the class is white space.
fn spaced_run_or_gap(text: &str, class: impl Fn(char) -> bool) -> usize {
    let gap = run_bytes(text, |c| !class(c));
    let space = text[..gap].chars().next_back().filter(|c| c.is_whitespace() && gap < text.len());
    let start = gap - space.map_or(0, char::len_utf8);
    if start > 0 { start } else { gap + run_bytes(&text[gap..], class) }
}

/// Bytes of three digits at the start, or else of what comes before the first three: `[0-9][0-9][0-9]`.
fn three_digits_or_gap(text: &str) -> usize {
    let triple = |three: &[u8]| three.iter().all(u8::is_ascii_digit);
    match text.as_bytes().windows(3).position(triple) {
        None => text.len(),
        Some(0) => 3,
        Some(gap) => gap,
    }
}

/// Bytes of the white space at the start, without its last character where a word follows that may want a space:
/// `\s+(?!\S)|\s+`.
fn white_space(text: &str) -> usize {
    let run = run_bytes(text, char::is_whitespace);
    let last = text[..run].chars().next_back().map_or(0, char::len_utf8);
    if run < text.len() && last < run { run - last } else { run }
}

/// Bytes of the white space at the start up to its last line end, and where there is none as [`white_space`]:
/// `\s*[\r\n]+|\s+(?!\S)|\s+`.
fn white_space_and_lines(text: &str) -> usize {
    let run = run_bytes(text, char::is_whitespace);
    match text[..run].rfind(['\r', '\n']) {
        Some(last) => last + 1,
        None => white_space(text),
    }
}

/// Whether a character is in one of some sorted, separate ranges.
fn is_one_of(ranges: &[(char, char)], c: char) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= c);
    after > 0 && c <= ranges[after - 1].1
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::sync::LazyLock;

    use fancy_regex::Regex;
    use proptest::prelude::{Strategy, prop, prop_oneof, proptest};

    use super::{PRES, Pre, STAGES_MAX};
    use crate::unicode::{Category, category};

    const GPT2: &str =
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

    /// The expressions of each pre-tokenizer's training code.
    static EXPRESSIONS: &[(&str, &[&str])] = &[
        ("gpt-2", &[GPT2]),
        ("smollm", &[r"\p{N}", GPT2]),
        ("default", &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
        ("falcon", &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
        (
            "llama-bpe",
            &[
                r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ],
        ),
        (
            "qwen2",
            &[
                r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ],
        ),
        (
            "qwen35",
            &[
                r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ],
        ),
        (
            "gpt-4o",
            &[
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ],
        ),
        (
            "deepseek-llm",
            &[
                r"[\r\n]",
                r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
                r"\s?[!-/:-~！-／：-～‘-‟\u{3001}-。]+",
                r"\s+$",
                r"[[一-龥ࠀ-一가-퟿]&&\S]+",
                r"\p{N}+",
            ],
        ),
        (
            "deepseek-v3",
            &[
                r"\p{N}{1,3}",
                "[一-龥\u{3040}-ゟ゠-ヿ]+",
                r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
            ],
        ),
        (
            "deepseek-coder",
            &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[[一-龥ࠀ-一가-퟿]&&\S]+", r"\p{N}"],
        ),
    ];

    static REGEXES: LazyLock<HashMap<&str, Vec<Regex>>> = LazyLock::new(|| {
        let compiled =
            |list: &[&str]| list.iter().map(|regex| Regex::new(regex).expect("valid")).collect();
        EXPRESSIONS.iter().map(|&(name, list)| (name, compiled(list))).collect()
    });

    /// The matches of an expression and the gaps between them.
    fn split<'t>(regex: &Regex, text: &'t str) -> Vec<&'t str> {
        let mut pieces = Vec::new();
        let mut done = 0;
        for found in regex.find_iter(text) {
            let found = found.expect("the search ends");
            pieces.extend([&text[done..found.start()], found.as_str()]);
            done = found.end();
        }
        pieces.push(&text[done..]);
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }

    /// What the training code of each pre-tokenizer would split.
    fn expected<'t>(pre: &Pre, text: &'t str) -> Vec<&'t str> {
        let regexes = REGEXES
            .get(pre.names[0])
            .unwrap_or_else(|| panic!("{} needs its expressions here", pre.names[0]));
        regexes.iter().fold(vec![text], |pieces, regex| {
            pieces.into_iter().flat_map(|piece| split(regex, piece)).collect()
        })
    }

    /// Whether the Unicode version of the regex crate has a character in the same category as ours.
    fn is_alike(c: char) -> bool {
        static CLASSES: LazyLock<Vec<(Category, Regex)>> = LazyLock::new(|| {
            [
                (Category::Upper, r"^[\p{Lu}\p{Lt}]$"),
                (Category::Lower, r"^\p{Ll}$"),
                (Category::Letter, r"^[\p{Lm}\p{Lo}]$"),
                (Category::Mark, r"^\p{M}$"),
                (Category::Number, r"^\p{N}$"),
                (Category::Punctuation, r"^\p{P}$"),
                (Category::Symbol, r"^\p{S}$"),
                (Category::Other, r"^[\p{Z}\p{C}]$"),
            ]
            .map(|(category, class)| (category, Regex::new(class).expect("valid")))
            .into()
        });
        let text = c.to_string();
        CLASSES.iter().all(|(class, regex)| {
            regex.is_match(&text).expect("the search ends") == (*class == category(c))
        })
    }

    /// Text of the characters that decide about splits. Where the Unicode version of the regex crate differs from
    /// ours the character is left out.
    fn text() -> impl Strategy<Value = String> {
        let letters = vec![
            'a', 's', 't', 'r', 'e', 'v', 'l', 'm', 'd', 'S', 'T', 'L', 'é', 'É', 'ǅ', 'ʰ', 'ſ',
            '世', '한', 'か', 'ا', 'ࠀ', '\'', '\'', '’',
        ];
        let spaces =
            vec![' ', ' ', '\n', '\r', '\t', '\u{a0}', '\u{3000}', '\u{85}', '\u{1c}', '\u{2028}'];
        let others = vec![
            '.', ',', '_', '<', '|', '/', '$', '`', '～', '。', '‘', '🦀', '\u{200d}', '\u{301}',
            '\u{fffd}', '\0',
        ];
        let character = prop_oneof![
            6 => prop::sample::select(letters),
            4 => prop::sample::select(spaces),
            3 => prop::sample::select(vec!['0', '7', '9', '٣', '½', 'Ⅷ']),
            3 => prop::sample::select(others),
            1 => prop::char::any().prop_filter("another Unicode version", |&c| is_alike(c)),
        ];
        prop::collection::vec(character, 0..24).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn every_pre_tokenizer_splits_as_its_regular_expression(text in text()) {
            for pre in PRES {
                assert_eq!(pre.words(&text).collect::<Vec<_>>(), expected(pre, &text), "{}", pre.names[0]);
            }
        }
    }

    #[test]
    fn every_name_belongs_to_one_pre_tokenizer() {
        let mut names = HashSet::new();
        for pre in PRES {
            assert!((1..=STAGES_MAX).contains(&pre.stages.len()), "{}", pre.names[0]);
            for &name in pre.names {
                assert!(names.insert(name), "{name}");
                let found = Pre::find(Some(name), &mut Vec::new()).expect("a known name");
                assert!(std::ptr::eq(found.names, pre.names), "{name}");
            }
        }
    }
}
