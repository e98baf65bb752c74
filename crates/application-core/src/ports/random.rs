//! Port: randomness.

/// A source of random numbers for identifiers, tokens and jitter; not for secrets.
pub trait Random: Send + Sync {
    /// 64 even bits.
    fn next_u64(&self) -> u64;

    /// An even number in `0.0..1.0`.
    fn next_unit(&self) -> f64 {
        // 53 bits fill a double's mantissa exactly.
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
        let numerator = (self.next_u64() >> 11) as f64;
        numerator / 9_007_199_254_740_992.0
    }
}
