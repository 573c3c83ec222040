//! Globs over paths: `*` for any text, `?` for one character, without regard to case. Never reads a folder.

/// Whether `text` is a glob and no plain name.
pub(super) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Whether `glob` fits the whole path, or its last component. `*` crosses `/` too.
pub(super) fn fits(glob: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    fits_text(glob, path) || fits_text(glob, name)
}

/// Goes back to the last `*` only, which is enough and takes at most `glob · text` steps.
fn fits_text(glob: &str, text: &str) -> bool {
    let [glob, text]: [Vec<char>; 2] = [glob, text].map(|text| {
        let lower = text.chars().flat_map(char::to_lowercase);
        lower.collect()
    });
    let (mut at_glob, mut at_text) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at_text < text.len() {
        match glob.get(at_glob) {
            Some('*') => {
                star = Some((at_glob, at_text));
                at_glob += 1;
            }
            Some(&c) if c == '?' || c == text[at_text] => {
                at_glob += 1;
                at_text += 1;
            }
            _ => {
                let Some((star_glob, star_text)) = star else { return false };
                star = Some((star_glob, star_text + 1));
                at_glob = star_glob + 1;
                at_text = star_text + 1;
            }
        }
    }
    glob[at_glob..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (glob, path, expected) in [
            ("*", "a/b", true),
            ("*.gguf", "MTP/m.gguf", true),
            ("mtp/*", "MTP/m.gguf", true),
            ("*q4*", "m-Q4_K_M.gguf", true),
            ("m-?4*", "m-Q4_K_M.gguf", true),
            ("m-?4", "m-Q4_K_M.gguf", false),
            ("*a*b", "aab", true),
            ("*a*b", "aba", false),
            ("a*a", "a", false),
            ("?", "", false),
            ("**", "", true),
            ("m.gguf", "d/m.gguf", true),
            ("*/m.gguf", "m.gguf", false),
        ] {
            assert_eq!(fits(glob, path), expected, "{glob} {path}");
        }
    }

    #[test]
    fn a_glob_of_many_stars_ends() {
        assert!(!fits(&"*a".repeat(100), &"a".repeat(99)));
        assert!(fits(&"*a".repeat(100), &"a".repeat(100)));
        assert!(!fits(&format!("{}b", "*a".repeat(400)), &"a".repeat(1000)));
    }
}
