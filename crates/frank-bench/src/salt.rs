//! Prompts that no cache has seen: seeded token ids, each prompt with another first token. Never text.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Prompts of a run. No two of as many as the vocabulary has tokens begin with the same token, so that no page of one
/// can be found again for another, and what another run left behind is met only by chance.
#[derive(Debug)]
pub struct SaltedPrompts {
    rng: ChaCha8Rng,
    n_vocab: u32,
    /// First token of the next prompt.
    first: u32,
}

impl SaltedPrompts {
    /// Prompts of token ids below `n_vocab`; one `seed` gives the same ones again.
    ///
    /// # Panics
    /// When the vocabulary is empty.
    #[must_use]
    pub fn new(seed: u64, n_vocab: u32) -> Self {
        assert!(n_vocab > 0, "a prompt needs tokens");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let first = rng.random_range(0..n_vocab);
        Self { rng, n_vocab, first }
    }

    /// The next prompt, of `n` tokens.
    pub fn prompt(&mut self, n: usize) -> Vec<u32> {
        let first = self.first;
        // Below twice the vocabulary, which is far from the end of u32 in every file; exact all the same.
        self.first = ((u64::from(first) + 1) % u64::from(self.n_vocab)) as u32;
        let rest = std::iter::repeat_with(|| self.rng.random_range(0..self.n_vocab));
        std::iter::once(first).chain(rest).take(n).collect()
    }

    /// A seed that no other run has.
    #[must_use]
    pub fn fresh_seed() -> u64 {
        rand::rng().next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_prompt_of_a_run_begins_like_another() {
        let mut prompts = SaltedPrompts::new(7, 50);
        let mut firsts: Vec<u32> = (0..50).map(|_| prompts.prompt(3)[0]).collect();
        firsts.sort_unstable();
        assert!(firsts.into_iter().eq(0..50));
    }

    #[test]
    fn a_seed_gives_its_prompts_again_and_another_seed_others() {
        let made = |seed| {
            let mut prompts = SaltedPrompts::new(seed, 49_152);
            [prompts.prompt(64), prompts.prompt(64)]
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
        assert_ne!(made(1)[0], made(1)[1]);
    }

    #[test]
    fn every_token_is_in_the_vocabulary_and_every_length_is_kept() {
        let mut prompts = SaltedPrompts::new(3, 2);
        for n in [0, 1, 2, 100] {
            let prompt = prompts.prompt(n);
            assert!(prompt.len() == n && prompt.iter().all(|&token_id| token_id < 2), "{prompt:?}");
        }
        assert_eq!(SaltedPrompts::new(3, 1).prompt(4), [0; 4]);
    }
}
