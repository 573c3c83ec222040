//! What stands behind the colon of a reference, taken apart. Never looks at a listing.

use super::{ChooseError, Role};

/// One of the things that are asked for, between commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Term<'a> {
    /// A quant, a file or a glob.
    Files(&'a str),
    /// `draft`, or `draft=` and a quant, file or glob among those of this role.
    Role(Role, Option<&'a str>),
    /// `-mmproj`: not what would come by itself.
    Without(Role),
}

/// Takes a pick apart. `latest`, which other tools write for no pick, is none.
pub(super) fn parse(pick: &str) -> Result<Vec<Term<'_>>, ChooseError> {
    if pick.trim().eq_ignore_ascii_case("latest") {
        return Ok(Vec::new());
    }
    pick.split(',').map(|text| term(text.trim())).collect()
}

fn term(text: &str) -> Result<Term<'_>, ChooseError> {
    let bad = || ChooseError::BadPick { text: text.to_owned() };
    let (word, which) =
        text.split_once('=').map_or((text, None), |(word, which)| (word, Some(which)));
    if let Some(role) = role(word) {
        return match which.map(str::trim) {
            Some("") => Err(bad()),
            which => Ok(Term::Role(role, which)),
        };
    }
    if let Some(role) = text.strip_prefix('-').and_then(role) {
        return Ok(Term::Without(role));
    }
    if text.is_empty() { Err(bad()) } else { Ok(Term::Files(text)) }
}

fn role(word: &str) -> Option<Role> {
    Role::ALL.into_iter().find(|role| role.word().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pick: &str, expected: &[Term<'_>]) {
        assert_eq!(parse(pick).unwrap(), expected, "{pick}");
    }

    #[test]
    fn quants_files_globs_and_roles() {
        check("Q4_K_M", &[Term::Files("Q4_K_M")]);
        check("q4_k_m, mmproj", &[Term::Files("q4_k_m"), Term::Role(Role::Projector, None)]);
        check("draft=Q8_0", &[Term::Role(Role::Draft, Some("Q8_0"))]);
        check(
            "-mmproj,-template",
            &[Term::Without(Role::Projector), Term::Without(Role::Template)],
        );
        check("MTP/*.gguf", &[Term::Files("MTP/*.gguf")]);
        check("a=b.gguf", &[Term::Files("a=b.gguf")]);
        check("-x.gguf", &[Term::Files("-x.gguf")]);
        check("Latest", &[]);
    }

    #[test]
    fn empty_terms_are_refused() {
        for pick in ["", ",", "Q4_K_M,", "a,,b", "draft=", " "] {
            assert!(matches!(parse(pick), Err(ChooseError::BadPick { .. })), "{pick}");
        }
    }
}
