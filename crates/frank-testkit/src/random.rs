//! Seeded random numbers that are the same everywhere. Never for secrets, never good enough for statistics.

/// SplitMix64: one addition and a few shifts for each eight bytes. Source: Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators" (2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Numbers of `stream`, which differ from those of other streams of the same seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut seeds = Self(seed);
        let mixed = seeds.next_u64();
        Self(mixed ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Leaves out `n` numbers, at no cost.
    pub(crate) fn skip(&mut self, n: u64) {
        self.0 = self.0.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }

    /// Fills `bytes` with random ones.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// A number of about standard normal distribution: the sum of twelve even ones, which every machine rounds alike.
    pub(crate) fn normal(&mut self) -> f32 {
        let sum: f64 = (0..12).map(|_| (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64).sum();
        (sum - 6.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut random = Random::new(1, 0);
        let numbers: Vec<f64> = (0..100_000).map(|_| f64::from(random.normal())).collect();
        let mean = numbers.iter().sum::<f64>() / 1e5;
        let deviation = (numbers.iter().map(|x| x * x).sum::<f64>() / 1e5).sqrt();
        assert!(mean.abs() < 0.02 && (deviation - 1.0).abs() < 0.02, "{mean} {deviation}");
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let first = |seed, stream| Random::new(seed, stream).next_u64();
        assert_eq!(first(1, 2), first(1, 2));
        assert!(first(1, 2) != first(1, 3) && first(1, 2) != first(2, 2));
    }
}
