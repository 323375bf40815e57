use std::convert::Infallible;

use rand::TryRng;

/// A SplitMix64 random number generator. A seed always yields the same schedule, independent of the versions
/// of other crates.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator whose numbers depend on the seed only.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed ^ 0x9E37_79B9_7F4A_7C15);
        random.draw();
        random
    }

    /// Returns the next random number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a random number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.draw()) * end as u128;
        (wide >> 64) as usize
    }

    /// Returns a random number in `[begin, end)`.
    pub fn between(&mut self, begin: usize, end: usize) -> usize {
        begin + self.below(end.saturating_sub(begin))
    }

    /// Returns true with probability 1/`times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns a random element of the slice.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.draw() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.draw())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let number = self.draw().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
        Ok(())
    }
}
