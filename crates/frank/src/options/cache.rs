//! Cache options: what is kept of requests for later ones that begin alike. Never opens a folder.

use std::path::{Path, PathBuf};

use clap::Args;
use frank_plan::parse_size;

use crate::report::Failure;

/// What prefixes may take on a disk when nobody says: some hundred long conversations of a small model.
const CACHE_DIR_BYTES_DEFAULT: u64 = 4 << 30;

/// What is kept of requests for later ones that begin alike. Commands that run a single request do without.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cache options")]
pub(crate) struct CacheOptions {
    /// Memory for prefixes of earlier requests, beyond what running ones need, as in 1GiB; 0 keeps none
    /// [default: what running requests leave idle]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub(super) prefix_cache: Option<u64>,

    /// Folder of prefixes that the next start finds too; it is made if it is missing, and nobody else may read it
    #[arg(long, value_name = "DIR")]
    pub(super) cache_dir: Option<PathBuf>,

    /// What the files in the cache folder may take [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    cache_dir_size: Option<u64>,
}

impl CacheOptions {
    /// Refuses options that undo each other.
    ///
    /// # Errors
    /// When one of them has no effect beside the others.
    pub(crate) fn check_effect(&self) -> Result<(), Failure> {
        let no_effect = match self {
            Self { cache_dir: None, cache_dir_size: Some(_), .. } => {
                Failure::usage("--cache-dir-size has no effect without --cache-dir")
            }
            Self { cache_dir: Some(_), prefix_cache: Some(0), .. } => {
                Failure::usage("--cache-dir has no effect beside --prefix-cache 0")
                    .hint("leave out one of them")
            }
            Self { cache_dir: Some(_), cache_dir_size: Some(0), .. } => {
                Failure::usage("--cache-dir has no effect beside --cache-dir-size 0")
                    .hint("leave out both")
            }
            _ => return Ok(()),
        };
        Err(no_effect)
    }

    /// Whether prefixes are kept at all.
    pub(crate) fn keeps_prefixes(&self) -> bool {
        self.prefix_cache != Some(0)
    }

    /// The folder where prefixes are kept, and the bytes that they may take there.
    pub(crate) fn directory(&self) -> Option<(&Path, u64)> {
        let bytes = self.cache_dir_size.unwrap_or(CACHE_DIR_BYTES_DEFAULT);
        self.cache_dir.as_deref().map(|directory| (directory, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_options_that_undo_each_other_are_refused() {
        let check = |prefix_cache, cache_dir: Option<&str>, cache_dir_size, refused: &str| {
            let cache_dir = cache_dir.map(PathBuf::from);
            let options = CacheOptions { prefix_cache, cache_dir, cache_dir_size };
            let fact = options.check_effect().err().map(|failure| failure.to_string());
            assert_eq!(fact.unwrap_or_default(), refused);
        };
        check(None, None, None, "");
        check(Some(0), None, None, "");
        check(Some(1), Some("d"), Some(1), "");
        check(None, None, Some(1), "--cache-dir-size has no effect without --cache-dir");
        check(Some(0), Some("d"), None, "--cache-dir has no effect beside --prefix-cache 0");
        check(None, Some("d"), Some(0), "--cache-dir has no effect beside --cache-dir-size 0");
    }

    #[test]
    fn a_cache_folder_may_take_4_gib_when_nobody_says() {
        let folder = |cache_dir_size| {
            let cache_dir = Some(PathBuf::from("d"));
            let options = CacheOptions { prefix_cache: None, cache_dir, cache_dir_size };
            options.directory().map(|(_, bytes)| bytes)
        };
        assert_eq!((folder(None), folder(Some(5))), (Some(4 << 30), Some(5)));
        assert_eq!(CacheOptions::default().directory(), None);
    }
}
