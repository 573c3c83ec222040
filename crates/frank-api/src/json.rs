//! Bodies become JSON values within bounds: a small body can name far more values than its bytes take.

use serde_json::Value;

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
}
