//! Names of quants inside file names, and how a name that is typed finds them. Never looks into a file.

use std::ops::Range;

/// Types that have a name of their own.
const NAMED: &[&str] =
    &["F64", "F32", "F16", "BF16", "FP32", "FP16", "FP8", "MXFP4", "MXFP6", "MXFP8", "NVFP4"];

/// What can follow `Q4`, `IQ4` or `TQ1`, with `_` between: sizes, kinds of block, layouts for a processor.
const PIECES: &[&str] = &[
    "0", "1", "K", "KS", "KSS", "KL", "KT", "KV", "XXS", "XS", "S", "M", "L", "XL", "XXL", "NL",
    "P", "4", "8", "R4", "R8", "R16",
];

/// Makers' marks before a quant: another choice of types for the tensors, or an importance matrix.
const PREFIXES: &[&str] = &["UD", "i1"];

/// A quant found in a name, and what the name is without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// In capitals, with `_` between pieces, behind the maker's mark if there is one: `UD-Q4_K_XL`.
    pub(super) quant: String,
    pub(super) rest: String,
}

/// How well a typed name fits a quant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// It is the quant but for the maker's mark.
    ButForPrefix,
    /// It is the quant.
    Exact,
}

/// Finds the last quant in the stem of a file name.
pub(super) fn find(stem: &str) -> Option<Found> {
    let tokens = tokens(stem);
    let (first, last, body) =
        (0..tokens.len()).rev().find_map(|head| quant_at(stem, &tokens, head))?;
    let prefix = first.checked_sub(1).and_then(|before| prefix(&stem[tokens[before].clone()]));
    let start = tokens[first - usize::from(prefix.is_some())].start;
    let before = stem[..start].trim_end_matches(is_separator);
    let behind = stem[tokens[last].end..].trim_start_matches(is_separator);
    let between = if before.is_empty() || behind.is_empty() { "" } else { "-" };
    let quant = prefix.map_or_else(|| body.clone(), |prefix| format!("{prefix}-{body}"));
    Some(Found { quant, rest: format!("{before}{between}{behind}") })
}

/// How well `typed` fits `quant`, without regard to case and separators.
pub(super) fn fit(quant: &str, typed: &str) -> Option<Fit> {
    let typed = key(typed);
    if typed == key(quant) {
        return Some(Fit::Exact);
    }
    let body = quant.split_once('-').map_or(quant, |(_, body)| body);
    (typed == key(body)).then_some(Fit::ButForPrefix)
}

/// Letters and digits in capitals: what is left of a name when case and separators do not count.
pub(super) fn key(text: &str) -> String {
    let plain = text.chars().filter(|c| c.is_alphanumeric());
    let key: String = plain.flat_map(char::to_uppercase).collect();
    // Two spellings of the same types.
    match key.as_str() {
        "FP16" => "F16".to_owned(),
        "FP32" => "F32".to_owned(),
        _ => key,
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, '-' | '.' | '_' | ' ')
}

/// Where the words between separators stand. Never empty.
fn tokens(stem: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let words = stem.split(is_separator).map(|word| {
        let range = start..start + word.len();
        // Every separator is one byte long.
        start = range.end + 1;
        range
    });
    words.collect()
}

/// The quant whose first token is `head`: its first and last token, and its name.
fn quant_at(stem: &str, tokens: &[Range<usize>], head: usize) -> Option<(usize, usize, String)> {
    let word =
        |index: usize| tokens.get(index).map(|token| stem[token.clone()].to_ascii_uppercase());
    let mut body = word(head)?;
    let is_mxfp = body.starts_with("MXFP");
    if !NAMED.contains(&body.as_str()) {
        is_numbered(&body).then_some(())?;
    } else if !is_mxfp {
        return Some((head, head, body));
    }
    let mut last = head;
    while let Some(next) = word(last + 1) {
        let separator = stem.as_bytes()[tokens[last].end];
        let known = if is_mxfp { next == "MOE" } else { PIECES.contains(&next.as_str()) };
        // `Q4-K-M` is a quant; in `Q4_0-1` or `Q4_K.M` the rest belongs to something else.
        let joined =
            separator == b'_' || (separator == b'-' && (next == "K" || body.ends_with('K')));
        if !known || !joined {
            break;
        }
        body = format!("{body}_{next}");
        last += 1;
    }
    Some((head, last, body))
}

/// `Q4`, `IQ4`, `TQ1`: what quants begin with.
fn is_numbered(word: &str) -> bool {
    let digits = word.strip_prefix("IQ").or(word.strip_prefix("TQ")).or(word.strip_prefix('Q'));
    digits.is_some_and(|digits| matches!(digits.as_bytes(), [b'1'..=b'8']))
}

fn prefix(word: &str) -> Option<&'static str> {
    PREFIXES.iter().copied().find(|prefix| prefix.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stem: &str, quant: &str, rest: &str) {
        let found = find(stem).unwrap_or_else(|| panic!("{stem}: no quant"));
        assert_eq!((found.quant.as_str(), found.rest.as_str()), (quant, rest), "{stem}");
    }

    #[test]
    fn quants_of_the_names_that_people_publish() {
        check("Qwen3-8B-Q4_K_M", "Q4_K_M", "Qwen3-8B");
        check("qwen2.5-7b-instruct-q4_k_m", "Q4_K_M", "qwen2.5-7b-instruct");
        check("Qwen3-30B-A3B-UD-Q4_K_XL", "UD-Q4_K_XL", "Qwen3-30B-A3B");
        check("Meta-Llama-3-8B.i1-IQ2_XXS", "i1-IQ2_XXS", "Meta-Llama-3-8B");
        check("Meta-Llama-3-8B.Q6_K", "Q6_K", "Meta-Llama-3-8B");
        check("llama-2-7b.Q4_0", "Q4_0", "llama-2-7b");
        check("ggml-model-q4_0", "Q4_0", "ggml-model");
        check("Phi-3-mini-4k-instruct-q4", "Q4", "Phi-3-mini-4k-instruct");
        check("Phi-3-mini-4k-instruct-fp16", "FP16", "Phi-3-mini-4k-instruct");
        check("gpt-oss-20b-mxfp4", "MXFP4", "gpt-oss-20b");
        check("Qwen3-Coder-30B-A3B-MXFP4_MOE", "MXFP4_MOE", "Qwen3-Coder-30B-A3B");
        check("gemma-3-4b-it-BF16", "BF16", "gemma-3-4b-it");
        check("gemma-2-2b-it-Q4_0_4_8", "Q4_0_4_8", "gemma-2-2b-it");
        check("DeepSeek-V3-0324-IQ1_S_R4", "IQ1_S_R4", "DeepSeek-V3-0324");
        check("Kimi-K2-Instruct-0905-smol-IQ5_KS", "IQ5_KS", "Kimi-K2-Instruct-0905-smol");
        check("Bitnet-b1.58-TQ2_0", "TQ2_0", "Bitnet-b1.58");
        check("Q8_0", "Q8_0", "");
        check("model.f16.q6_k", "Q6_K", "model.f16");
        check("Llama-3.1-8B-Q4_K_M-imat", "Q4_K_M", "Llama-3.1-8B-imat");
        check("m-Q4-K-M", "Q4_K_M", "m");
        check("m-Q8_0-1", "Q8_0", "m-1");
        check("m Q5_K_S", "Q5_K_S", "m");
        check("mmproj-F16", "F16", "mmproj");
        check("Qwen3.6-27B-Q4_K_P", "Q4_K_P", "Qwen3.6-27B");
    }

    #[test]
    fn names_without_a_quant() {
        for stem in ["", "QwQ-32B", "Qwen", "model", "q", "q9_0", "q44", "IQ", "f8", "A3B", "日本"]
        {
            assert_eq!(find(stem), None, "{stem}");
        }
    }

    #[test]
    fn typed_names_fit_without_regard_to_case_and_separators() {
        for typed in ["UD-Q4_K_XL", "ud-q4_k_xl", "UDQ4KXL", "ud_q4-k-xl"] {
            assert_eq!(fit("UD-Q4_K_XL", typed), Some(Fit::Exact), "{typed}");
        }
        assert_eq!(fit("UD-Q4_K_XL", "q4_k_xl"), Some(Fit::ButForPrefix));
        assert_eq!(fit("i1-Q4_K_M", "Q4_K_M"), Some(Fit::ButForPrefix));
        assert_eq!(fit("FP16", "f16"), Some(Fit::Exact));
        for typed in ["Q4_K", "Q4_K_M", "UD", "", "XL"] {
            assert_eq!(fit("UD-Q4_K_XL", typed), None, "{typed}");
        }
    }
}
