//! Metadata of a GGUF file: typed values by key, in file order. Never what a key means.

use crate::error::{GgufError, label};

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants are the format's own type names")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

/// A metadata array; all elements have one type. Arrays of arrays are refused while reading.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants are the format's own type names")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    String(Vec<String>),
}

/// Expands `$then` once with `$list` bound to the vector of whichever type the array has.
macro_rules! with_array {
    ($array:expr, $list:ident => $then:expr) => {
        match $array {
            Array::U8($list) => $then,
            Array::I8($list) => $then,
            Array::U16($list) => $then,
            Array::I16($list) => $then,
            Array::U32($list) => $then,
            Array::I32($list) => $then,
            Array::U64($list) => $then,
            Array::I64($list) => $then,
            Array::F32($list) => $then,
            Array::F64($list) => $then,
            Array::Bool($list) => $then,
            Array::String($list) => $then,
        }
    };
}

impl Array {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        with_array!(self, list => list.len())
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type as a reader of messages knows it, for example `an array of u32`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Array::U8(_) => "an array of u8",
            Array::I8(_) => "an array of i8",
            Array::U16(_) => "an array of u16",
            Array::I16(_) => "an array of i16",
            Array::U32(_) => "an array of u32",
            Array::I32(_) => "an array of i32",
            Array::U64(_) => "an array of u64",
            Array::I64(_) => "an array of i64",
            Array::F32(_) => "an array of f32",
            Array::F64(_) => "an array of f64",
            Array::Bool(_) => "an array of booleans",
            Array::String(_) => "an array of strings",
        }
    }

    /// The elements as integers; `None` when they are not.
    fn integers(&self) -> Option<Vec<i128>> {
        fn widen<T: Copy + Into<i128>>(list: &[T]) -> Option<Vec<i128>> {
            Some(list.iter().map(|&value| value.into()).collect())
        }
        match self {
            Array::U8(list) => widen(list),
            Array::I8(list) => widen(list),
            Array::U16(list) => widen(list),
            Array::I16(list) => widen(list),
            Array::U32(list) => widen(list),
            Array::I32(list) => widen(list),
            Array::U64(list) => widen(list),
            Array::I64(list) => widen(list),
            Array::F32(_) | Array::F64(_) | Array::Bool(_) | Array::String(_) => None,
        }
    }
}

impl Value {
    /// The type as a reader of messages knows it, for example `a string`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::U8(_) => "a u8",
            Value::I8(_) => "an i8",
            Value::U16(_) => "a u16",
            Value::I16(_) => "an i16",
            Value::U32(_) => "a u32",
            Value::I32(_) => "an i32",
            Value::U64(_) => "a u64",
            Value::I64(_) => "an i64",
            Value::F32(_) => "an f32",
            Value::F64(_) => "an f64",
            Value::Bool(_) => "a boolean",
            Value::String(_) => "a string",
            Value::Array(array) => array.type_name(),
        }
    }

    /// The value of any integer type.
    fn integer(&self) -> Option<i128> {
        match *self {
            Value::U8(value) => Some(value.into()),
            Value::I8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::I16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U64(value) => Some(value.into()),
            Value::I64(value) => Some(value.into()),
            Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::String(_) | Value::Array(_) => {
                None
            }
        }
    }
}

/// `From` for the types whose value is made in code (tests, writers).
macro_rules! value_from {
    ($($source:ty => $variant:ident),+ $(,)?) => {
        $(impl From<$source> for Value {
            fn from(value: $source) -> Value { Value::$variant(value) }
        })+
    };
}

value_from!(
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
    f32 => F32, f64 => F64, bool => Bool, String => String, Array => Array,
);

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::String(value.to_owned())
    }
}

/// All metadata of a file: keys in file order, found by name in O(log n).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    /// Indexes into `entries`, sorted by key. Costs four bytes a key, where a map would store each key twice.
    by_key: Vec<u32>,
}

impl Metadata {
    /// Metadata of the given keys and values, in this order.
    ///
    /// # Errors
    /// [`GgufError::EmptyKey`] and [`GgufError::DuplicateKey`]; [`GgufError::Count`] over 2^32 keys.
    pub fn new(entries: Vec<(String, Value)>) -> Result<Metadata, GgufError> {
        if let Some(index) = entries.iter().position(|(key, _)| key.is_empty()) {
            return Err(GgufError::EmptyKey { index: index as u64 });
        }
        let count = entries.len() as u64;
        let n_keys = u32::try_from(entries.len()).map_err(|_| GgufError::Count {
            place: "the metadata key count".to_owned(),
            count,
            left: 0,
        })?;
        let mut by_key: Vec<u32> = (0..n_keys).collect();
        by_key.sort_unstable_by_key(|&index| &entries[index as usize].0);
        for pair in by_key.windows(2) {
            let key = &entries[pair[0] as usize].0;
            if *key == entries[pair[1] as usize].0 {
                return Err(GgufError::DuplicateKey { key: label(key) });
            }
        }
        Ok(Metadata { entries, by_key })
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let place = self
            .by_key
            .binary_search_by_key(&key, |&index| &self.entries[index as usize].0)
            .ok()?;
        Some(&self.entries[self.by_key[place] as usize].1)
    }

    /// Keys and values in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The string at `key`; `None` when the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when it is no string.
    pub fn str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.read(key, "a string", |value| match value {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The boolean at `key`; `None` when the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when it is no boolean.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.read(key, "a boolean", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// The integer at `key`, of whatever width; `None` when the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when it is no integer, [`GgufError::OutOfRange`] when it does not fit.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, GgufError> {
        self.integer(key, "u64")
    }

    /// The integer at `key`, of whatever width; `None` when the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when it is no integer, [`GgufError::OutOfRange`] when it does not fit.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        self.integer(key, "u32")
    }

    /// The integer at `key`, of whatever width; `None` when the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when it is no integer, [`GgufError::OutOfRange`] when it does not fit.
    pub fn u16(&self, key: &str) -> Result<Option<u16>, GgufError> {
        self.integer(key, "u16")
    }

    /// The float at `key`, an f64 rounded; `None` when the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when it is no float.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.read(key, "a float", |value| match *value {
            Value::F32(number) => Some(number),
            Value::F64(number) => Some(number as f32),
            _ => None,
        })
    }

    /// The array of strings at `key`; `None` when the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when it is no array of strings.
    pub fn strings(&self, key: &str) -> Result<Option<&[String]>, GgufError> {
        self.read(key, "an array of strings", |value| match value {
            Value::Array(Array::String(list)) => Some(list.as_slice()),
            _ => None,
        })
    }

    /// The array of integers at `key`, of whatever width; `None` when the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when it is no array of integers, [`GgufError::OutOfRange`] when one does not fit.
    pub fn i32s(&self, key: &str) -> Result<Option<Vec<i32>>, GgufError> {
        let wide = self.read(key, "an array of integers", |value| match value {
            Value::Array(array) => array.integers(),
            _ => None,
        })?;
        wide.map(|list| list.into_iter().map(|value| fit(key, value, "i32")).collect()).transpose()
    }

    /// The array of floats at `key`, f64 rounded; `None` when the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when it is no array of floats.
    pub fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>, GgufError> {
        self.read(key, "an array of floats", |value| match value {
            Value::Array(Array::F32(list)) => Some(list.clone()),
            Value::Array(Array::F64(list)) => {
                Some(list.iter().map(|&number| number as f32).collect())
            }
            _ => None,
        })
    }

    fn integer<T: TryFrom<i128>>(
        &self,
        key: &str,
        want: &'static str,
    ) -> Result<Option<T>, GgufError> {
        let wide = self.read(key, "an integer", Value::integer)?;
        wide.map(|value| fit(key, value, want)).transpose()
    }

    /// The value at `key` through `extract`, whose `None` is a wrong type.
    fn read<'a, T>(
        &'a self,
        key: &str,
        want: &'static str,
        extract: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match extract(value) {
            Some(extracted) => Ok(Some(extracted)),
            None => Err(GgufError::WrongType { key: label(key), want, got: value.type_name() }),
        }
    }
}

fn fit<T: TryFrom<i128>>(key: &str, value: i128, want: &'static str) -> Result<T, GgufError> {
    T::try_from(value).map_err(|_| GgufError::OutOfRange { key: label(key), value, want })
}

#[cfg(test)]
mod tests {
    use super::{Array, Metadata, Value};

    fn metadata(value: impl Into<Value>) -> Metadata {
        Metadata::new(vec![("k".to_owned(), value.into())]).unwrap()
    }

    #[test]
    fn an_integer_is_read_at_any_width_that_fits() {
        for value in [
            Value::U8(7),
            Value::I16(7),
            Value::U32(7),
            Value::I32(7),
            Value::U64(7),
            Value::I64(7),
        ] {
            assert_eq!(metadata(value).u32("k").unwrap(), Some(7));
        }
        let error = metadata(-1i32).u64("k").unwrap_err();
        assert_eq!(error.to_string(), r#"key "k": -1 does not fit u64"#);
        assert!(metadata(1u64 << 32).u32("k").is_err());
        assert_eq!(metadata(7u32).u32("other").unwrap(), None);
    }

    #[test]
    fn a_wrong_type_names_the_key_and_both_types() {
        let error = metadata("8").u32("k").unwrap_err();
        assert_eq!(error.to_string(), r#"key "k": a string where an integer was expected"#);
        let error = metadata(Array::F32(vec![1.0])).i32s("k").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"key "k": an array of f32 where an array of integers was expected"#
        );
    }

    #[test]
    fn keys_keep_their_file_order_and_are_found_by_name() {
        let keys = ["z", "a", "m"];
        let entries = keys.iter().map(|key| ((*key).to_owned(), Value::from(*key))).collect();
        let metadata = Metadata::new(entries).unwrap();
        assert_eq!(metadata.iter().map(|(key, _)| key).collect::<Vec<_>>(), keys);
        for key in keys {
            assert_eq!(metadata.str(key).unwrap(), Some(key));
        }
    }
}
