//! Which names are near one that was not found. Never decides for the user.

use super::quants::key;

/// How many are worth showing.
const NEAR_MAX: usize = 5;

/// The names of `names` that `typed` may have meant, the nearest first.
pub(super) fn near(typed: &str, names: &[String]) -> Vec<String> {
    let typed = key(typed);
    let ranked = names.iter().filter_map(|name| Some((distance(&typed, name)?, name)));
    let mut ranked: Vec<(usize, &String)> = ranked.collect();
    ranked.sort();
    ranked.dedup();
    ranked.into_iter().take(NEAR_MAX).map(|(_, name)| name.clone()).collect()
}

/// How far `name` is from what was typed, with or without what stands before its first `-`: a maker's mark.
fn distance(typed: &str, name: &str) -> Option<usize> {
    let body = name.split_once('-').map(|(_, body)| letters_apart(typed, &key(body)));
    letters_apart(typed, &key(name)).into_iter().chain(body.flatten()).min()
}

/// Number of letters that differ, or `None` where the two have too little in common. One that holds the other is near,
/// however much is left over.
fn letters_apart(typed: &str, name: &str) -> Option<usize> {
    if typed.is_empty() || name.is_empty() {
        return None;
    }
    let apart = strsim::levenshtein(typed, name);
    let holds = name.contains(typed) || typed.contains(name);
    // A third may be wrong, and of short names two letters: Q4_K_M for Q4_K_S, Q5_K_S for Q4_K_M.
    let limit = (typed.len().max(name.len()) / 3).max(2);
    (holds || apart <= limit).then_some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first_and_the_rest_not_at_all() {
        let names = ["Q2_K", "Q3_K_M", "Q4_K_S", "UD-Q4_K_XL", "Q8_0", "BF16"].map(str::to_owned);
        assert_eq!(near("q4_k_m", &names), ["Q3_K_M", "Q4_K_S", "Q2_K", "UD-Q4_K_XL"]);
        assert_eq!(near("Q4_K_XL", &names), ["UD-Q4_K_XL", "Q4_K_S"]);
        assert_eq!(near("F16", &names)[0], "BF16");
        assert_eq!(near("nonsense", &names), [""; 0]);
        assert_eq!(near("", &names), [""; 0]);
    }
}
