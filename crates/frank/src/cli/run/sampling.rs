//! Options of how tokens are drawn, in frank's and llama.cpp's spellings. Never draws one.

use std::ops::RangeInclusive;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use frank_api::{BiasTarget, DryOverrides, LogitBias, SamplingOverrides, Stage};

/// How tokens are drawn. What is not given is what the model file recommends.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling options")]
pub(super) struct SamplingOptions {
    /// 0 takes the most likely token each time [default: what the file says, or 1]
    #[arg(long, visible_alias = "temp", value_name = "F", value_parser = factor, allow_negative_numbers = true)]
    temperature: Option<f32>,

    /// Draw from this many most likely tokens; 0 from all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top_k: Option<u32>,

    /// Draw from the fewest most likely tokens whose probabilities reach this sum
    #[arg(long, value_name = "F", value_parser = share, allow_negative_numbers = true)]
    top_p: Option<f32>,

    /// Draw from tokens at least this fraction as likely as the most likely one
    #[arg(long, value_name = "F", value_parser = share, allow_negative_numbers = true)]
    min_p: Option<f32>,

    /// Draw from tokens about as surprising as the model expects, up to this sum of probabilities; 1 is off
    #[arg(long, visible_alias = "typical-p", value_name = "F", value_parser = share, allow_negative_numbers = true)]
    typical: Option<f32>,

    /// Draw from tokens within so many standard deviations of the largest logit; 0 and below is off
    #[arg(long, visible_alias = "top-nsigma", value_name = "F", value_parser = |text: &str| number(text, -1.0..=100.0), allow_negative_numbers = true)]
    top_n_sigma: Option<f32>,

    /// How often all but the last of the likely tokens are left out; 0 is off
    #[arg(long, value_name = "F", value_parser = share, allow_negative_numbers = true)]
    xtc_probability: Option<f32>,

    /// From which probability on a token is a likely one [default: 0.1]
    #[arg(long, value_name = "F", value_parser = share, allow_negative_numbers = true)]
    xtc_threshold: Option<f32>,

    /// How far the temperature moves, up where the model is less sure; 0 is off
    #[arg(long, value_name = "F", value_parser = factor, allow_negative_numbers = true)]
    dynatemp_range: Option<f32>,

    /// The power of that move [default: 1]
    #[arg(long, visible_alias = "dynatemp-exponent", value_name = "F", value_parser = factor, allow_negative_numbers = true)]
    dynatemp_exp: Option<f32>,

    /// Draw at a steady surprise instead, by version 1 or 2; 0 is off
    #[arg(long, value_name = "0|1|2", value_parser = RangedI64ValueParser::<u32>::new().range(0..=2), allow_negative_numbers = true)]
    mirostat: Option<u32>,

    /// The surprise that mirostat aims at, in bits [default: 5]
    #[arg(long, visible_alias = "mirostat-tau", value_name = "F", value_parser = factor, allow_negative_numbers = true)]
    mirostat_ent: Option<f32>,

    /// How fast mirostat learns [default: 0.1]
    #[arg(long, visible_alias = "mirostat-eta", value_name = "F", value_parser = share, allow_negative_numbers = true)]
    mirostat_lr: Option<f32>,

    #[command(flatten)]
    penalties: PenaltyOptions,

    /// The samplers and their order, separated by `;`
    #[arg(long, value_name = "NAMES", value_parser = stages_by_name, conflicts_with = "mirostat")]
    samplers: Option<Stages>,

    /// The same with a letter for each [llama.cpp's order: edskypmxt]
    #[arg(long, visible_alias = "sampling-seq", value_name = "LETTERS", value_parser = stages_by_letter, conflicts_with_all = ["samplers", "mirostat"])]
    sampler_seq: Option<Stages>,

    /// Makes a token more or less likely, for example 15043+1, 15043-1.5 or 15043-inf; may be repeated
    #[arg(short = 'l', long, value_name = "ID±F", value_parser = bias)]
    logit_bias: Vec<LogitBias>,

    /// Makes the draw repeatable
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
}

/// What makes repetitions less likely.
#[derive(Debug, Args)]
struct PenaltyOptions {
    /// Makes tokens that were seen less likely; 1 is off
    #[arg(long, value_name = "F", value_parser = |text: &str| number(text, 0.01..=100.0), allow_negative_numbers = true)]
    repeat_penalty: Option<f32>,

    /// How many of the last tokens penalties look at; -1 at all [default: 64]
    #[arg(long, value_name = "N", value_parser = look_back, allow_negative_numbers = true)]
    repeat_last_n: Option<u32>,

    /// Subtracted from the logit of each token that was seen
    #[arg(long, value_name = "F", value_parser = |text: &str| number(text, -2.0..=2.0), allow_negative_numbers = true)]
    presence_penalty: Option<f32>,

    /// The same, times how often it was seen
    #[arg(long, value_name = "F", value_parser = |text: &str| number(text, -2.0..=2.0), allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,

    /// Makes it less likely that a sequence repeats (DRY); 0 is off
    #[arg(long, value_name = "F", value_parser = factor, allow_negative_numbers = true)]
    dry_multiplier: Option<f32>,

    /// How fast that grows with the length of the sequence [default: 1.75]
    #[arg(long, value_name = "F", value_parser = |text: &str| number(text, 1.0..=100.0), allow_negative_numbers = true)]
    dry_base: Option<f32>,

    /// Tokens that may repeat freely [default: 2]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    dry_allowed_length: Option<u32>,

    /// How many of the last tokens are searched for repetitions; -1 all [default: all]
    #[arg(long, value_name = "N", value_parser = look_back, allow_negative_numbers = true)]
    dry_penalty_last_n: Option<u32>,

    /// A text that no repetition reaches across, or `none`; may be repeated [default: \n : " *]
    #[arg(long, value_name = "TEXT")]
    dry_sequence_breaker: Vec<String>,
}

/// An order of samplers, as one value of an option.
#[derive(Debug, Clone)]
struct Stages(Vec<Stage>);

impl SamplingOptions {
    /// What the options change.
    pub(super) fn overrides(&self) -> SamplingOverrides {
        let penalties = &self.penalties;
        let stages = self.samplers.as_ref().or(self.sampler_seq.as_ref());
        SamplingOverrides {
            temperature: self.temperature,
            dynatemp_range: self.dynatemp_range,
            dynatemp_exponent: self.dynatemp_exp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            typical_p: self.typical,
            top_n_sigma: self.top_n_sigma,
            xtc_probability: self.xtc_probability,
            xtc_threshold: self.xtc_threshold,
            repeat_penalty: penalties.repeat_penalty,
            repeat_last_n: penalties.repeat_last_n,
            presence_penalty: penalties.presence_penalty,
            frequency_penalty: penalties.frequency_penalty,
            dry: penalties.dry(),
            mirostat: self.mirostat,
            mirostat_tau: self.mirostat_ent,
            mirostat_eta: self.mirostat_lr,
            min_keep: None,
            stages: stages.map(|stages| stages.0.clone()),
            logit_bias: self.logit_bias.clone(),
            seed: self.seed,
        }
    }
}

impl PenaltyOptions {
    fn dry(&self) -> DryOverrides {
        let breakers: Vec<String> =
            self.dry_sequence_breaker.iter().map(|text| unescaped(text)).collect();
        let is_none = breakers == ["none"];
        DryOverrides {
            multiplier: self.dry_multiplier,
            base: self.dry_base,
            allowed_length: self.dry_allowed_length,
            penalty_last_n: self.dry_penalty_last_n,
            breakers: match breakers.is_empty() {
                true => None,
                false if is_none => Some(Vec::new()),
                false => Some(breakers),
            },
        }
    }
}

fn share(text: &str) -> Result<f32, String> {
    number(text, 0.0..=1.0)
}

fn factor(text: &str) -> Result<f32, String> {
    number(text, 0.0..=100.0)
}

fn number(text: &str, range: RangeInclusive<f32>) -> Result<f32, String> {
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        Ok(_) => Err(format!("{text} is not from {} to {}", range.start(), range.end())),
        Err(_) => Err("not a number".to_owned()),
    }
}

/// Tokens to look back on; the largest number stands for all.
fn look_back(text: &str) -> Result<u32, String> {
    if text == "-1" {
        Ok(u32::MAX)
    } else {
        text.parse().map_err(|_| "neither -1 nor a number".to_owned())
    }
}

fn stages_by_name(text: &str) -> Result<Stages, String> {
    let names = text.split(';').map(str::trim).filter(|name| !name.is_empty());
    let stages = names.map(|name| Stage::named(name).ok_or_else(|| format!("no sampler {name:?}")));
    stages.collect::<Result<_, _>>().map(Stages)
}

fn stages_by_letter(text: &str) -> Result<Stages, String> {
    let stages = text
        .chars()
        .map(|letter| Stage::lettered(letter).ok_or_else(|| format!("no sampler {letter:?}")));
    stages.collect::<Result<_, _>>().map(Stages)
}

/// A token id with a signed number.
fn bias(text: &str) -> Result<LogitBias, String> {
    let sign = text.find(['+', '-']).ok_or("a token id and + or - with a number expected")?;
    let token_id = text[..sign].parse().map_err(|_| "no token id before the sign".to_owned())?;
    let bias = match &text[sign..] {
        "-inf" => f32::NEG_INFINITY,
        number_text => number(number_text, -100.0..=100.0)?,
    };
    Ok(LogitBias { target: BiasTarget::Token(token_id), bias })
}

/// A text in which `\n`, `\t` and `\\` stand for what they do elsewhere.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, chars.as_str().chars().next()) {
            ('\\', Some(escaped @ ('n' | 't' | '\\'))) => {
                chars.next();
                plain.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                });
            }
            _ => plain.push(char),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_of_their_range_are_refused() {
        assert_eq!(number("0.5", 0.0..=1.0), Ok(0.5));
        assert_eq!(number("1.5", 0.0..=1.0), Err("1.5 is not from 0 to 1".to_owned()));
        assert_eq!(number("NaN", 0.0..=1.0), Err("NaN is not from 0 to 1".to_owned()));
        assert_eq!(number("inf", 0.0..=1.0), Err("inf is not from 0 to 1".to_owned()));
        assert_eq!(number("warm", 0.0..=1.0), Err("not a number".to_owned()));
    }

    #[test]
    fn a_bias_is_a_token_and_a_signed_number() {
        let parsed = |text: &str| bias(text).map(|bias| (bias.target, bias.bias));
        assert_eq!(parsed("15043+1"), Ok((BiasTarget::Token(15043), 1.0)));
        assert_eq!(parsed("15043-1.5"), Ok((BiasTarget::Token(15043), -1.5)));
        assert_eq!(parsed("7-inf"), Ok((BiasTarget::Token(7), f32::NEG_INFINITY)));
        for wrong in ["7", "+1", "x+1", "7+", "7+inf", "7+101", "-7+1"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_order_of_samplers_has_names_or_letters() {
        let named = stages_by_name("top_k; Temperature;").map(|stages| stages.0);
        assert_eq!(named, Ok(vec![Stage::TopK, Stage::Temperature]));
        let lettered = stages_by_letter("kt").map(|stages| stages.0);
        assert_eq!(lettered, Ok(vec![Stage::TopK, Stage::Temperature]));
        assert!(stages_by_name("top_k;infill").is_err() && stages_by_letter("kz").is_err());
    }

    #[test]
    fn escapes_in_a_breaker_are_what_they_stand_for() {
        assert_eq!(unescaped(r"a\nb\t\\n\x\"), "a\nb\t\\n\\x\\");
    }
}
