//! The name of a listed file taken apart: folder, stem, and which piece of a file it is. Never knows quants or roles.

use std::borrow::Cow;

use frank_gguf::{parse_part_name, part_name};

use crate::reference::ends_in_gguf;

/// The extension of the other format that weights come in.
const SAFETENSORS: &str = ".safetensors";

/// Most fragments of one file; more is no number of fragments.
const FRAGMENTS_MAX: u32 = 1000;

/// A path taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileName<'a> {
    /// All before the last `/`, or nothing.
    pub(super) folder: &'a str,
    /// The last component without the extension of weights and what numbers a piece. Of other files all of it.
    pub(super) stem: &'a str,
    pub(super) format: Format,
    pub(super) piece: Piece<'a>,
}

/// What the extension says that a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    Gguf,
    Safetensors,
    Other,
}

/// Which piece of a file this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Piece<'a> {
    /// All of it.
    Whole,
    /// `-00001-of-00003.gguf`: a file of its own, with a header that knows about the others. `no` is from 0.
    Split { no: u16, count: u16 },
    /// `.gguf.part1of3`: a raw slice.
    Fragment(Fragment<'a>),
}

/// What stands behind `.gguf` in the name of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fragment<'a> {
    /// From `.gguf` on, up to the number: `.gguf.part`.
    pub(super) before: &'a str,
    /// The number as it is written: `1`, `01` or `a`.
    pub(super) number: &'a str,
    /// What stands behind the number: `of3`, or nothing where the names do not tell how many there are.
    pub(super) behind: &'a str,
    /// The number; letters count from 1.
    pub(super) no: u32,
    /// How many there are.
    pub(super) count: Option<u32>,
}

impl<'a> FileName<'a> {
    pub(super) fn of(path: &'a str) -> FileName<'a> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (format, stem) = if ends_in_gguf(name) {
            (Format::Gguf, &name[..name.len() - 5])
        } else if let Some(stem) = name.strip_suffix(SAFETENSORS) {
            (Format::Safetensors, stem)
        } else if let Some((stem, fragment)) = fragment(name) {
            let piece = Piece::Fragment(fragment);
            return FileName { folder, stem, format: Format::Gguf, piece };
        } else {
            (Format::Other, name)
        };
        let (stem, piece) = match format {
            Format::Gguf | Format::Safetensors => split(name, stem),
            Format::Other => (stem, Piece::Whole),
        };
        FileName { folder, stem, format, piece }
    }

    /// The path of part `no` (from 0) of `count` of the same split.
    pub(super) fn path_of_part(&self, no: u16, count: u16) -> String {
        let name = part_name(self.stem, no, count);
        let name = match self.format {
            Format::Safetensors => format!("{}{SAFETENSORS}", name.trim_end_matches(".gguf")),
            Format::Gguf | Format::Other => name,
        };
        self.beside(&name)
    }

    /// The path of fragment `no` of the same file.
    pub(super) fn path_of_fragment(&self, fragment: &Fragment<'_>, no: u32) -> String {
        self.beside(&format!("{}{}", self.stem, fragment.name_of(no)))
    }

    fn beside(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }
}

/// The stem and the number of a part of a split; both formats number their parts alike.
fn split<'a>(name: &'a str, stem: &'a str) -> (&'a str, Piece<'a>) {
    let as_gguf = match name.strip_suffix(SAFETENSORS) {
        Some(stem) => Cow::Owned(format!("{stem}.gguf")),
        None => Cow::Borrowed(name),
    };
    match parse_part_name(&as_gguf) {
        Some(part) => (&stem[..part.stem.len()], Piece::Split { no: part.no, count: part.count }),
        None => (stem, Piece::Whole),
    }
}

/// `m.gguf.part1of3`, `m.gguf-split-a` and the like: the stem, and the rest taken apart.
fn fragment(name: &str) -> Option<(&str, Fragment<'_>)> {
    let lower = name.to_ascii_lowercase();
    let gguf = lower.rfind(".gguf")?;
    let behind_gguf = lower.get(gguf + 5..)?.strip_prefix(['.', '-', '_'])?;
    let word = ["part", "split"].iter().find(|word| behind_gguf.starts_with(**word))?;
    let behind_word = &behind_gguf[word.len()..];
    let numbered = behind_word.strip_prefix(['.', '-', '_']).unwrap_or(behind_word);
    let (number, of) =
        numbered.split_once("of").map_or((numbered, None), |(no, of)| (no, Some(of)));
    let no = decimal(number).or_else(|| letters(number).filter(|_| of.is_none()))?;
    let count = of.map(decimal);
    if count == Some(None) || count.flatten().is_some_and(|count| no == 0 || no > count) {
        return None;
    }
    // Lower case changes no length in ASCII, so places in `lower` are places in `name`.
    let start = name.len() - numbered.len();
    let (before, rest) = (&name[gguf..start], &name[start..]);
    let (number, behind) = rest.split_at(number.len());
    Some((&name[..gguf], Fragment { before, number, behind, no, count: count.flatten() }))
}

fn decimal(text: &str) -> Option<u32> {
    let plain = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten().filter(|&number| number <= FRAGMENTS_MAX)
}

/// `a` to `z` as 1 to 26, and `aa` to `zz` as 1 to 676, as `split` names what it cuts.
fn letters(text: &str) -> Option<u32> {
    let value = |byte: u8| byte.is_ascii_lowercase().then(|| u32::from(byte - b'a'));
    match text.as_bytes() {
        [one] => Some(value(*one)? + 1),
        [high, low] => Some(value(*high)? * 26 + value(*low)? + 1),
        _ => None,
    }
}

impl Fragment<'_> {
    /// The name that fragment `no` of the same file has, behind the stem.
    pub(super) fn name_of(&self, no: u32) -> String {
        let Fragment { before, number, behind, .. } = self;
        let is_letters = number.starts_with(|c: char| c.is_ascii_alphabetic());
        let number = match (is_letters, number.len()) {
            (true, 1) => letter(no - 1).to_string(),
            (true, _) => [letter((no - 1) / 26), letter((no - 1) % 26)].iter().collect(),
            (false, width) if number.starts_with('0') => format!("{no:0width$}"),
            (false, _) => no.to_string(),
        };
        format!("{before}{number}{behind}")
    }
}

fn letter(value: u32) -> char {
    char::from_digit(10 + value % 26, 36).unwrap_or('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_fragment(path: &str, stem: &str, no: u32, count: Option<u32>) {
        let name = FileName::of(path);
        assert_eq!(name.stem, stem, "{path}");
        let Piece::Fragment(fragment) = name.piece else { panic!("{path}: {name:?}") };
        assert_eq!((fragment.no, fragment.count), (no, count), "{path}");
        let again = format!("{stem}{}", fragment.name_of(no));
        assert_eq!(Some(again.as_str()), path.rsplit('/').next());
    }

    #[test]
    fn fragments_of_every_spelling() {
        check_fragment("m.Q4_K_S.gguf.part1of3", "m.Q4_K_S", 1, Some(3));
        check_fragment("d/m.i1-Q6_K.gguf.part12of12", "m.i1-Q6_K", 12, Some(12));
        check_fragment("m.gguf.part01of03", "m", 1, Some(3));
        check_fragment("m.GGUF.Part1of2", "m", 1, Some(2));
        check_fragment("m.gguf-split-a", "m", 1, None);
        check_fragment("m.gguf-split-c", "m", 3, None);
        check_fragment("m.gguf.part-ab", "m", 2, None);
        check_fragment("m.gguf.partaa", "m", 1, None);
        check_fragment("m.gguf.part0", "m", 0, None);
        check_fragment("m.gguf.part10", "m", 10, None);
        check_fragment("m.gguf.gguf.part1", "m.gguf", 1, None);
    }

    #[test]
    fn other_names_are_no_fragments() {
        for path in [
            "m.gguf.partial",
            "m.gguf.part",
            "m.gguf.part0of3",
            "m.gguf.part4of3",
            "m.gguf.part1of",
            "m.gguf.part1of4000000000",
            "m.gguf.part1001",
            "m.gguf.partaof3",
            "m.gguf.parté",
            "m.part1of3",
            "m.gguf.json",
            "part1of3",
            ".gguf",
        ] {
            assert_eq!(FileName::of(path).piece, Piece::Whole, "{path}");
        }
    }

    #[test]
    fn wholes_splits_and_others() {
        let split = |no, count| Piece::Split { no, count };
        for (path, folder, stem, format, piece) in [
            ("m.gguf", "", "m", Format::Gguf, Piece::Whole),
            ("a/b/M.GGUF", "a/b", "M", Format::Gguf, Piece::Whole),
            ("Q4/m-00002-of-00003.gguf", "Q4", "m", Format::Gguf, split(1, 3)),
            ("m-00004-of-00003.gguf", "", "m-00004-of-00003", Format::Gguf, Piece::Whole),
            ("model-00001-of-00007.safetensors", "", "model", Format::Safetensors, split(0, 7)),
            ("README.md", "", "README.md", Format::Other, Piece::Whole),
        ] {
            assert_eq!(FileName::of(path), FileName { folder, stem, format, piece });
        }
    }

    #[test]
    fn paths_of_other_parts() {
        let of = |path, no, count| FileName::of(path).path_of_part(no, count);
        assert_eq!(of("Q4/m-00001-of-00003.gguf", 2, 3), "Q4/m-00003-of-00003.gguf");
        let shard = "m.gguf-00001-of-00002.safetensors";
        assert_eq!(of(shard, 1, 2), "m.gguf-00002-of-00002.safetensors");
    }

    #[test]
    fn names_of_the_others_keep_the_spelling() {
        let name_of = |path, no| match FileName::of(path).piece {
            Piece::Fragment(fragment) => fragment.name_of(no),
            other => panic!("{other:?}"),
        };
        assert_eq!(name_of("m.gguf.part1of3", 3), ".gguf.part3of3");
        assert_eq!(name_of("m.gguf.part01of12", 12), ".gguf.part12of12");
        assert_eq!(name_of("m.gguf-split-a", 2), ".gguf-split-b");
        assert_eq!(name_of("m.gguf.part_aa", 28), ".gguf.part_bb");
    }
}
