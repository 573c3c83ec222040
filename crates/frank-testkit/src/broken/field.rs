//! Finds every number of a well-formed header, so that a test can put another one there. Never judges a value.

/// A little-endian number in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) role: Role,
    /// What error texts call the place it belongs to.
    pub(super) place: String,
    /// Bytes from the start of the file.
    pub(super) at: usize,
    /// 1, 2, 4 or 8.
    pub(super) width: usize,
}

/// What a number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Version,
    TensorCount,
    KeyCount,
    /// Of a key, a text or a tensor's name.
    Length,
    ValueType,
    ElementType,
    ArrayLength,
    Scalar,
    Bool,
    Alignment,
    DimensionCount,
    Dimension(u32),
    TypeId,
    Offset,
}

impl Field {
    /// The number as it stands in `file`.
    pub(super) fn value(&self, file: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        bytes[..self.width].copy_from_slice(&file[self.at..][..self.width]);
        u64::from_le_bytes(bytes)
    }

    /// A copy of `file` with the low bytes of `value` in this place.
    pub(super) fn put(&self, file: &[u8], value: u64) -> Vec<u8> {
        let mut file = file.to_vec();
        file[self.at..][..self.width].copy_from_slice(&value.to_le_bytes()[..self.width]);
        file
    }
}

/// All numbers of the header of `file`, in file order. Of an array of texts only the first and the last length.
///
/// # Panics
/// When the header is not well-formed.
pub(super) fn fields(file: &[u8]) -> Vec<Field> {
    let mut walk = Walk { file, at: 4, fields: Vec::new() };
    walk.number(Role::Version, "the file header", 4);
    let n_tensors = walk.number(Role::TensorCount, "the file header", 8);
    let n_keys = walk.number(Role::KeyCount, "the file header", 8);
    for index in 0..n_keys {
        let key = walk.text(&format!("metadata key number {index}"));
        walk.value(&key);
    }
    for index in 0..n_tensors {
        let name = walk.text(&format!("tensor number {index}"));
        let place = format!("tensor {name:?}");
        let n_dims = walk.number(Role::DimensionCount, &place, 4);
        for dim in 0..n_dims as u32 {
            walk.number(Role::Dimension(dim), &place, 8);
        }
        walk.number(Role::TypeId, &place, 4);
        walk.number(Role::Offset, &place, 8);
    }
    walk.fields
}

struct Walk<'a> {
    file: &'a [u8],
    at: usize,
    fields: Vec<Field>,
}

impl Walk<'_> {
    fn number(&mut self, role: Role, place: &str, width: usize) -> u64 {
        let field = Field { role, place: place.to_owned(), at: self.at, width };
        let value = field.value(self.file);
        self.at += width;
        self.fields.push(field);
        value
    }

    fn text(&mut self, place: &str) -> String {
        let length = self.number(Role::Length, place, 8) as usize;
        let text = self.file[self.at..][..length].to_vec();
        self.at += length;
        String::from_utf8(text).expect("a well-formed file has UTF-8 texts")
    }

    fn value(&mut self, key: &str) {
        let place = format!("key {key:?}");
        match self.number(Role::ValueType, &place, 4) as u32 {
            8 => drop(self.text(&place)),
            9 => self.array(&place),
            7 => drop(self.number(Role::Bool, &place, 1)),
            _ if key == "general.alignment" => drop(self.number(Role::Alignment, &place, 4)),
            type_id => drop(self.number(Role::Scalar, &place, width(type_id))),
        }
    }

    fn array(&mut self, place: &str) {
        let type_id = self.number(Role::ElementType, place, 4) as u32;
        let count = self.number(Role::ArrayLength, place, 8) as usize;
        if type_id != 8 {
            self.at += count * width(type_id);
            return;
        }
        for index in 0..count {
            let n_fields = self.fields.len();
            self.text(place);
            if index > 0 && index + 1 < count {
                self.fields.truncate(n_fields);
            }
        }
    }
}

/// Bytes of a value of a type that always takes as many.
fn width(type_id: u32) -> usize {
    match type_id {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        _ => panic!("value type {type_id} in a well-formed file"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Role, fields};
    use crate::gguf_writer::GgufWriter;

    #[test]
    fn every_number_is_found_where_it_stands() {
        let file = GgufWriter::new("llama").f32_tensor("t", &[2, 3], &[0.0; 6]).to_bytes();
        let found: Vec<(Role, u64)> =
            fields(&file).iter().map(|field| (field.role, field.value(&file))).collect();
        let expected = [
            (Role::Version, 3),
            (Role::TensorCount, 1),
            (Role::KeyCount, 1),
            (Role::Length, "general.architecture".len() as u64),
            (Role::ValueType, 8),
            (Role::Length, "llama".len() as u64),
            (Role::Length, 1),
            (Role::DimensionCount, 2),
            (Role::Dimension(0), 2),
            (Role::Dimension(1), 3),
            (Role::TypeId, 0),
            (Role::Offset, 0),
        ];
        assert_eq!(found, expected);
    }
}
