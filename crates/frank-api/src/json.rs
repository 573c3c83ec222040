//! Bodies become JSON values within bounds: a small body can name far more values than its bytes take.

use serde_json::{Map, Value};

use crate::error::{ApiError, ErrorKind};

/// Most values in a body: a prompt of this many token ids, less a few.
const VALUES_MAX: usize = 1 << 18;

/// Most objects and arrays in a body: each costs some hundred bytes.
const CONTAINERS_MAX: usize = 1 << 15;

/// Parses a body. Depth is bounded by the parser at 128.
pub(crate) fn parse(body: &[u8]) -> Result<Value, ApiError> {
    let counts = count(body);
    if counts.containers > CONTAINERS_MAX || counts.values > VALUES_MAX {
        let message = format!(
            "the body holds more JSON values than the {VALUES_MAX} (or objects and lists than the {CONTAINERS_MAX}) \
             that are taken"
        );
        return Err(ApiError::new(ErrorKind::InvalidRequest, message));
    }
    serde_json::from_slice(body).map_err(|error| {
        ApiError::new(ErrorKind::InvalidRequest, format!("the body is not JSON: {error}"))
            .with_code("invalid_json")
    })
}

/// How many values the arguments in a body may hold, which are JSON within strings.
pub(crate) struct Budget {
    left: Counts,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Counts { values: VALUES_MAX, containers: CONTAINERS_MAX } }
    }
}

impl Budget {
    /// The JSON in the string at `path`. One that holds nothing is an empty object, one that is no JSON stays a string.
    pub(crate) fn arguments(&mut self, text: String, path: &str) -> Result<Value, ApiError> {
        if text.trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        let counts = count(text.as_bytes());
        let (Some(values), Some(containers)) = (
            self.left.values.checked_sub(counts.values),
            self.left.containers.checked_sub(counts.containers),
        ) else {
            let message =
                format!("{path}: all arguments together hold more JSON values than are taken");
            return Err(ApiError::invalid(path, message));
        };
        self.left = Counts { values, containers };
        Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

struct Counts {
    values: usize,
    containers: usize,
}

/// An upper bound of the values and containers in `body`, whether it is JSON or not.
fn count(body: &[u8]) -> Counts {
    let mut counts = Counts { values: 1, containers: 0 };
    let mut in_string = false;
    let mut bytes = body.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                bytes.next();
            }
            b',' | b':' if !in_string => counts.values += 1,
            b'[' | b'{' if !in_string => {
                counts.values += 1;
                counts.containers += 1;
            }
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_strings_do_not_count() {
        let counts = count(br#"{"a,[": ["\"{,", 1, {}]}"#);
        assert_eq!((counts.values, counts.containers), (7, 3));
    }

    #[test]
    fn a_list_of_more_values_than_memory_should_hold_is_refused_before_it_is_parsed() {
        let body = format!("[{}0]", "0,".repeat(VALUES_MAX));
        assert!(parse(body.as_bytes()).unwrap_err().message.contains("more JSON values"));
        let body = format!("[{}0]", "{},".repeat(CONTAINERS_MAX));
        assert!(parse(body.as_bytes()).unwrap_err().message.contains("more JSON values"));
    }

    #[test]
    fn nesting_is_bounded() {
        let body = "[".repeat(20_000);
        assert!(parse(body.as_bytes()).unwrap_err().message.contains("recursion limit"));
    }

    #[test]
    fn arguments_are_json_within_strings_and_share_one_bound() {
        let mut budget = Budget::default();
        let mut read = |text: &str| budget.arguments(text.to_owned(), "at");
        assert_eq!(read(r#"{"a": 1}"#).unwrap(), serde_json::json!({"a": 1}));
        assert_eq!(read(" ").unwrap(), serde_json::json!({}));
        assert_eq!(read(r#"{"a": "#).unwrap(), Value::from(r#"{"a": "#));
        let half = format!("[{}0]", "0,".repeat(VALUES_MAX / 2));
        assert!(read(&half).is_ok());
        assert_eq!(read(&half).unwrap_err().param.as_deref(), Some("at"));
    }
}
