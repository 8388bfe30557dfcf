//! A small generator whose whole state is the seed that the tests print.

/// splitmix64.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Starts from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Takes the seed from `LVCSI_SEED`, else from the clock, and prints it so
    /// that a failure can be repeated.
    ///
    /// # Panics
    /// If `LVCSI_SEED` is no number.
    #[must_use]
    pub fn from_env(test: &str) -> Self {
        let seed = match std::env::var("LVCSI_SEED") {
            Ok(text) => text.parse().expect("LVCSI_SEED is a number"),
            Err(_) => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(1, |time| u64::try_from(time.as_micros()).unwrap_or(1)),
        };
        println!("{test}: LVCSI_SEED={seed}");
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// One of `items`.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = self.below(items.len() as u64);
        &items[usize::try_from(index).expect("index of a slice")]
    }
}
