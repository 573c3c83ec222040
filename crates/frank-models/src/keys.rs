//! Reads the metadata of one architecture: keys `arch.name`, required or with a default.

use frank_gguf::{Array, Metadata, Value};

use crate::error::ArchError;

/// The metadata keys that start with an architecture's name.
pub(crate) struct Keys<'a> {
    metadata: &'a Metadata,
    arch: &'a str,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(metadata: &'a Metadata, arch: &'a str) -> Self {
        Self { metadata, arch }
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    pub(crate) fn missing(&self, name: &str) -> ArchError {
        ArchError::MissingKey { key: self.key(name) }
    }

    pub(crate) fn value_error(
        &self,
        name: &str,
        value: &dyn ToString,
        reason: &'static str,
    ) -> ArchError {
        ArchError::Value { key: self.key(name), value: value.to_string(), reason }
    }

    /// A count; converters write it as a scalar or, per layer, as an array whose entries must then all be equal.
    pub(crate) fn count(&self, name: &str) -> Result<Option<usize>, ArchError> {
        let key = self.key(name);
        if let Some(Value::Array(array)) = self.metadata.get(&key) {
            return self.uniform_count(name, &key, array).map(Some);
        }
        Ok(self.metadata.u32(&key)?.map(|n| n as usize))
    }

    fn uniform_count(&self, name: &str, key: &str, array: &Array) -> Result<usize, ArchError> {
        let values = self.metadata.i32s(key)?.unwrap_or_default();
        let differs =
            || self.value_error(name, &format!("an array of {}", array.len()), "layers differ");
        match values.first() {
            Some(&first) if values.iter().all(|&v| v == first) => {
                usize::try_from(first).map_err(|_| differs())
            }
            _ => Err(differs()),
        }
    }

    pub(crate) fn required_count(&self, name: &str) -> Result<usize, ArchError> {
        match self.count(name)? {
            Some(0) => Err(self.value_error(name, &0, "it must be at least 1")),
            Some(n) => Ok(n),
            None => Err(self.missing(name)),
        }
    }

    pub(crate) fn float(&self, name: &str) -> Result<Option<f32>, ArchError> {
        Ok(self.metadata.f32(&self.key(name))?)
    }

    /// A number that the arithmetic divides by or takes a power of.
    pub(crate) fn positive_float(&self, name: &str) -> Result<Option<f32>, ArchError> {
        match self.float(name)? {
            Some(number) if !(number.is_finite() && number > 0.0) => {
                Err(self.value_error(name, &number, "it must be a finite number above 0"))
            }
            number => Ok(number),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, ArchError> {
        Ok(self.metadata.bool(&self.key(name))?)
    }

    /// Flags, one for each layer, written as booleans or as 0 and 1; `None` unless the key is an array.
    pub(crate) fn flags(&self, name: &str) -> Result<Option<Vec<bool>>, ArchError> {
        let key = self.key(name);
        match self.metadata.get(&key) {
            Some(Value::Array(Array::Bool(flags))) => Ok(Some(flags.clone())),
            Some(Value::Array(_)) => {
                let numbers = self.metadata.i32s(&key)?.unwrap_or_default();
                Ok(Some(numbers.into_iter().map(|number| number != 0).collect()))
            }
            _ => Ok(None),
        }
    }

    /// As [`Keys::positive_float`], for a key whose 0 says that there is none.
    pub(crate) fn nonzero_float(&self, name: &str) -> Result<Option<f32>, ArchError> {
        match self.float(name)? {
            Some(0.0) => Ok(None),
            _ => self.positive_float(name),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, ArchError> {
        Ok(self.metadata.str(&self.key(name))?)
    }
}
