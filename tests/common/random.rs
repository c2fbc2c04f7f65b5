//! Random numbers for tests, from a seed that is printed, so that a failure can be repeated.

pub struct Random(u64);

impl Random {
    /// Seeded by `GGUF_FS_SEED`, or else by the clock.
    pub fn new() -> Random {
        let seed = match std::env::var("GGUF_FS_SEED") {
            Ok(seed) => seed.parse().expect("GGUF_FS_SEED is a number"),
            Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
        };
        println!("GGUF_FS_SEED={seed}");
        Random(seed)
    }

    /// A random seed's own numbers, for a thread.
    pub fn split(&mut self) -> Random {
        Random(self.next())
    }

    /// SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}
