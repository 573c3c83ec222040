//! Finding groups by what a user types: a path, a name, a glob, a quant. Never picks one of several.

use std::collections::BTreeMap;

use super::super::quants::{self, Fit, key};
use super::super::{Group, glob};

/// The groups that have such a file, or else are of such a quant.
pub(super) fn matching<'a>(groups: &[&'a Group], text: &str) -> Vec<&'a Group> {
    let found = of_file(groups, text);
    if found.is_empty() { of_quant(groups, text) } else { found }
}

/// The groups with a file of this path or name, else of this name in another case, else without `.gguf`; or of paths that
/// fit the glob.
pub(super) fn of_file<'a>(groups: &[&'a Group], text: &str) -> Vec<&'a Group> {
    let having = |fits: &dyn Fn(&str) -> bool| -> Vec<&'a Group> {
        let has = |group: &&Group| group.files.iter().any(|file| fits(&file.path));
        groups.iter().copied().filter(|group| has(group)).collect()
    };
    if glob::is_glob(text) {
        return having(&|path| glob::fits(text, path));
    }
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let ways: [&dyn Fn(&str) -> bool; 3] =
        [&|path| path == text, &|path| name(path) == text, &|path| {
            path.eq_ignore_ascii_case(text) || name(path).eq_ignore_ascii_case(text)
        }];
    let found = ways.iter().map(|way| having(*way)).find(|found| !found.is_empty());
    found.unwrap_or_else(|| {
        let is_stem = |group: &&Group| {
            let stem = group.stem();
            stem.eq_ignore_ascii_case(text) || name(&stem).eq_ignore_ascii_case(text)
        };
        // A stem that is nothing but a quant is found as that.
        let by_stem = groups.iter().copied().filter(|group| group.is_gguf() && is_stem(group));
        by_stem
            .filter(|group| group.quant.as_deref().is_none_or(|quant| key(quant) != key(text)))
            .collect()
    })
}

/// The groups of this quant; those of it with a maker's mark where none has it plain.
pub(super) fn of_quant<'a>(groups: &[&'a Group], text: &str) -> Vec<&'a Group> {
    let fitting = |wanted: Fit| -> Vec<&'a Group> {
        let fit = |group: &Group| group.quant.as_deref().and_then(|quant| quants::fit(quant, text));
        groups.iter().copied().filter(|group| fit(group) == Some(wanted)).collect()
    };
    let exact = fitting(Fit::Exact);
    if exact.is_empty() { fitting(Fit::ButForPrefix) } else { exact }
}

/// For each group the shortest text that asks for it and no other of them: its quant, else its path.
pub(super) fn names_to_ask(groups: &[&Group]) -> Vec<String> {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for quant in groups.iter().filter_map(|group| group.quant.as_deref()) {
        *uses.entry(key(quant)).or_default() += 1;
    }
    let names = groups.iter().map(|group| match &group.quant {
        Some(quant) if uses.get(&key(quant)) == Some(&1) => quant.clone(),
        _ => group.files[0].path.clone(),
    });
    names.collect()
}
