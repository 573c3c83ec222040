//! What the path of a file says that it is for. Never looks at sizes or into the file.

use super::Role;
use super::file_name::{FileName, Format};

/// What a path says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guess {
    /// This, whatever else there is.
    Is(Role),
    /// A head that drafts, or a whole model that has one inside: sizes have to tell.
    PerhapsDraft,
    /// Nothing that a payload needs.
    Nothing,
}

/// Folders of draft models and heads.
const DRAFT_FOLDERS: &[&str] =
    &["mtp", "draft", "drafts", "drafter", "dflash", "dspark", "eagle", "eagle3", "speculator"];

/// Words in file names of draft models and heads.
const DRAFT_WORDS: &[&str] =
    &["draft", "drafter", "dflash", "dflash2", "dspark", "eagle", "eagle2", "eagle3", "speculator"];

/// What the file at `path` is for, as far as the path tells.
pub(super) fn guess(path: &str, name: &FileName<'_>) -> Guess {
    let lower = path.to_ascii_lowercase();
    let base = lower.rsplit('/').next().unwrap_or(&lower);
    match name.format {
        Format::Other if base.ends_with(".jinja") => Guess::Is(Role::Template),
        Format::Other if base.ends_with(".json") => Guess::Is(Role::Config),
        Format::Other => Guess::Nothing,
        Format::Gguf | Format::Safetensors => guess_weights(&lower, base),
    }
}

fn guess_weights(path: &str, base: &str) -> Guess {
    let folders = || path.strip_suffix(base).unwrap_or_default().split('/');
    let words = || base.split(['-', '.', '_', ' ']);
    if base.contains("imatrix") {
        // Statistics for making quants, in the same format as a model.
        Guess::Nothing
    } else if base.contains("mmproj") || folders().any(|folder| folder == "mmproj") {
        Guess::Is(Role::Projector)
    } else if folders().any(|folder| DRAFT_FOLDERS.contains(&folder))
        || words().any(|word| DRAFT_WORDS.contains(&word))
    {
        Guess::Is(Role::Draft)
    } else if words().any(|word| matches!(word, "mtp" | "nextn")) {
        Guess::PerhapsDraft
    } else {
        Guess::Is(Role::Model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_every_role() {
        use Guess::{Is, Nothing, PerhapsDraft};
        for (path, expected) in [
            ("Qwen3-8B-Q4_K_M.gguf", Is(Role::Model)),
            ("UD-IQ4_XS/GLM-5-UD-IQ4_XS-00001-of-00003.gguf", Is(Role::Model)),
            ("m.gguf.part1of2", Is(Role::Model)),
            ("model-00001-of-00007.safetensors", Is(Role::Model)),
            ("mmproj-F16.gguf", Is(Role::Projector)),
            ("Qwen2.5-VL-7B-Instruct-mmproj-f16.gguf", Is(Role::Projector)),
            ("model.mmproj-Q8_0.gguf", Is(Role::Projector)),
            ("MTP/Qwen3.6-27B-Q8_0.gguf", Is(Role::Draft)),
            ("x/DFlash/drafter.gguf", Is(Role::Draft)),
            ("Qwen3-0.6B-draft-Q8_0.gguf", Is(Role::Draft)),
            ("EAGLE3-LLaMA3.1.gguf", Is(Role::Draft)),
            ("Qwen3.6-27B-MTP-Q4_K_M.gguf", PerhapsDraft),
            ("Draftsman-7B.gguf", Is(Role::Model)),
            ("chat_template.jinja", Is(Role::Template)),
            ("config.json", Is(Role::Config)),
            ("imatrix_unsloth.gguf", Nothing),
            ("Qwen3-8B.imatrix.gguf", Nothing),
            ("README.md", Nothing),
            (".gitattributes", Nothing),
            ("mtp", Nothing),
        ] {
            assert_eq!(guess(path, &FileName::of(path)), expected, "{path}");
        }
    }
}
