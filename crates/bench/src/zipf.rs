//! Numbers with a Zipf distribution, drawn by the method of Gray and others in "Quickly generating
//! billion-record synthetic databases", and the random numbers for it.

/// Draws numbers below `items`, small ones the most often.
pub struct Zipf {
    items: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    second: f64,
    chance: Chance,
}

impl Zipf {
    /// `theta` is between 0 (uniform) and 1.
    pub fn new(items: u64, theta: f64, seed: u64) -> Zipf {
        let zeta = |items: u64| (1..=items).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let (zeta_all, zeta_two) = (zeta(items), zeta(2));
        let all = items as f64;
        let eta = (1.0 - (2.0 / all).powf(1.0 - theta)) / (1.0 - zeta_two / zeta_all);
        Zipf {
            items: all,
            zeta: zeta_all,
            alpha: 1.0 / (1.0 - theta),
            eta,
            second: zeta_two,
            chance: Chance(seed),
        }
    }

    /// The next rank.
    pub fn draw(&mut self) -> u64 {
        let chance = self.chance.share();
        let place = chance * self.zeta;
        if place < 1.0 {
            return 0;
        }
        if place < self.second {
            return 1;
        }
        let rank = self.items * (self.eta * chance - self.eta + 1.0).powf(self.alpha);
        rank.min(self.items - 1.0) as u64
    }
}

/// A random generator that repeats its numbers for the same seed.
struct Chance(u64);

impl Chance {
    /// From 0 to less than 1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (scattered(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Scatters adjacent numbers (SplitMix64).
pub fn scattered(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ranks_are_drawn_as_often_as_the_law_says() {
        let (items, theta, draws) = (1_000_u64, 0.9, 200_000);
        let mut zipf = Zipf::new(items, theta, 7);
        let mut counts = vec![0_u64; items as usize];
        for _ in 0..draws {
            counts[zipf.draw() as usize] += 1;
        }
        let zeta: f64 = (1..=items).map(|rank| (rank as f64).powf(-theta)).sum();
        for rank in [0, 1] {
            let expected = (rank as f64 + 1.0).powf(-theta) / zeta * f64::from(draws);
            let drawn = counts[rank] as f64;
            assert!((drawn / expected - 1.0).abs() < 0.05, "{rank}: {drawn} of {expected}");
        }
        assert!(counts[500..].iter().sum::<u64>() > 0);
    }
}
