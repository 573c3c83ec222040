//! What an answer must look like: a grammar or a JSON schema, from the command line or a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use frank_api::AnswerFormat;
use frank_engine::Constraint;
use frank_grammar::{GrammarError, Vocabulary};
use frank_os::read_small_file;
use frank_server::constraint;
use frank_tokenizer::Tokenizer;
use serde_json::Value;

use crate::report::Failure;

/// Longest file of a grammar or schema.
const FORM_BYTES_MAX: u64 = 1 << 20;

/// What an answer is kept to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Form of the answer")]
#[group(multiple = false)]
pub(super) struct FormOptions {
    /// Keep the answer to a grammar in llama.cpp's notation (GBNF)
    #[arg(long, value_name = "GBNF")]
    grammar: Option<String>,

    /// The same from a file
    #[arg(long, value_name = "FILE")]
    grammar_file: Option<PathBuf>,

    /// Keep the answer to JSON that a JSON schema describes; {} for any JSON
    #[arg(short = 'j', long, value_name = "SCHEMA")]
    json_schema: Option<String>,

    /// The same from a file
    #[arg(long, value_name = "FILE")]
    json_schema_file: Option<PathBuf>,
}

/// A form that answers can be kept to.
pub(super) struct Form {
    format: AnswerFormat,
    vocabulary: Arc<Vocabulary>,
}

impl FormOptions {
    /// The form that the options ask for, if any.
    ///
    /// # Errors
    /// When a file cannot be read, or what it says cannot be kept.
    pub(super) fn form(&self, tokenizer: &Tokenizer) -> anyhow::Result<Option<Form>> {
        let Some(format) = self.format()? else { return Ok(None) };
        let fact = || Failure::usage("answers cannot be kept to this form");
        let vocabulary = Vocabulary::new(tokenizer).with_context(fact)?;
        let form = Form { format, vocabulary };
        // Refused here, it costs no time to load the model.
        form.constraint().with_context(fact)?;
        Ok(Some(form))
    }

    fn format(&self) -> anyhow::Result<Option<AnswerFormat>> {
        if let Some(text) = &self.grammar {
            return Ok(Some(AnswerFormat::Gbnf(text.clone())));
        }
        if let Some(path) = &self.grammar_file {
            return Ok(Some(AnswerFormat::Gbnf(read(path)?)));
        }
        let schema = match (&self.json_schema, &self.json_schema_file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => read(path)?,
            (None, None) => return Ok(None),
        };
        let schema: Value = serde_json::from_str(&schema)
            .with_context(|| Failure::usage("the JSON schema is not JSON"))?;
        Ok(Some(AnswerFormat::JsonSchema(schema)))
    }

    /// Whether one of them was given.
    pub(super) fn is_given(&self) -> bool {
        let Self { grammar, grammar_file, json_schema, json_schema_file } = self;
        let texts = grammar.is_some() || json_schema.is_some();
        texts || grammar_file.is_some() || json_schema_file.is_some()
    }
}

impl Form {
    /// What keeps one answer to the form.
    ///
    /// # Errors
    /// What of the form cannot be kept.
    pub(super) fn constraint(&self) -> Result<Box<dyn Constraint>, GrammarError> {
        Ok(Box::new(constraint(&self.format, &self.vocabulary)?))
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let fact = || Failure::usage(format!("cannot read {}", path.display()));
    let bytes = read_small_file(path, FORM_BYTES_MAX).with_context(fact)?;
    String::from_utf8(bytes).context("it is not UTF-8 text").with_context(fact)
}
