//! One model in several files: what a part says about itself, and how parts are named. Never trusts the name.

use crate::error::GgufError;
use crate::metadata::Metadata;

/// What the `split.*` keys of a file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitInfo {
    /// Number of this part, from 0 (file names count from 1).
    pub no: u16,
    /// Number of parts; 1 for a whole model.
    pub count: u16,
    /// Tensors of all parts together.
    pub tensors_count: u64,
}

impl SplitInfo {
    /// Reads the `split.*` keys. A count of 0 is what tools leave in a file whose parts they merged.
    pub(crate) fn read(metadata: &Metadata, n_tensors: u64) -> Result<SplitInfo, GgufError> {
        let count = metadata.u16("split.count")?.unwrap_or(0);
        if count <= 1 {
            return Ok(SplitInfo { no: 0, count: 1, tensors_count: n_tensors });
        }
        let missing = |key: &str| GgufError::MissingKey { key: key.to_owned() };
        let no = metadata.u16("split.no")?.ok_or_else(|| missing("split.no"))?;
        if no >= count {
            return Err(GgufError::SplitNumber { no, count });
        }
        let tensors_count =
            metadata.u64("split.tensors.count")?.ok_or_else(|| missing("split.tensors.count"))?;
        Ok(SplitInfo { no, count, tensors_count })
    }
}

/// The file name of a part: `stem-00001-of-00003.gguf` for `no` 0 of `count` 3.
#[must_use]
pub fn part_name(stem: &str, no: u16, count: u16) -> String {
    format!("{stem}-{:05}-of-{count:05}.gguf", u32::from(no) + 1)
}

/// A file name that was taken apart by [`parse_part_name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartName<'a> {
    /// What stands before the numbers.
    pub stem: &'a str,
    /// Number of the part, from 0.
    pub no: u16,
    /// Number of parts.
    pub count: u16,
}

/// Takes the file name of a part apart; `None` when it is not named like one.
#[must_use]
pub fn parse_part_name(file_name: &str) -> Option<PartName<'_>> {
    let rest = file_name.strip_suffix(".gguf")?;
    let (rest, count) = rest.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let number = five_digits(number)?;
    let count = five_digits(count)?;
    let named = number >= 1 && number <= count;
    named.then(|| PartName { stem, no: number - 1, count })
}

fn five_digits(text: &str) -> Option<u16> {
    let plain = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{PartName, parse_part_name, part_name};

    #[test]
    fn part_names_parse_back() {
        let name = part_name("big-model-Q4", 1, 3);
        assert_eq!(name, "big-model-Q4-00002-of-00003.gguf");
        assert_eq!(
            parse_part_name(&name),
            Some(PartName { stem: "big-model-Q4", no: 1, count: 3 })
        );
        assert_eq!(part_name("m", u16::MAX, u16::MAX), "m-65536-of-65535.gguf");
    }

    #[test]
    fn other_names_are_not_part_names() {
        let names = [
            "model.gguf",
            "model-00001-of-00003.bin",
            "model-0001-of-0003.gguf",
            "model-00000-of-00003.gguf",
            "model-00004-of-00003.gguf",
            "model-+0001-of-00003.gguf",
            "model-99999-of-99999.gguf",
            "-of-.gguf",
        ];
        for name in names {
            assert_eq!(parse_part_name(name), None, "{name}");
        }
    }
}
