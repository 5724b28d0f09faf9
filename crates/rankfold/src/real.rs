//! The two precisions in which rows and tall factors are stored.

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// `f32` or `f64`. All k×k state is `f64` whatever this is.
pub trait Real:
    sealed::Sealed
    + Copy
    + Default
    + PartialOrd
    + Send
    + Sync
    + std::fmt::Debug
    + std::fmt::Display
    + 'static
{
    /// What the command line and the model file call it.
    const NAME: &'static str;
    /// The largest finite value.
    const MAX: f64;
    /// The smallest value with full precision.
    const TINY: f64;
    /// The distance from 1 to the next value.
    const EPSILON: f64;
    /// Widens, exactly.
    fn to_f64(self) -> f64;
    /// Rounds to the nearest value.
    fn from_f64(value: f64) -> Self;
    /// `-self`.
    fn negated(self) -> Self;
    /// `self + a·b`, each operation rounded.
    fn mul_plus(self, a: Self, b: Self) -> Self;
    /// Appends its little-endian bytes.
    fn put(self, out: &mut Vec<u8>);
    /// From as many little-endian bytes as it has.
    fn take(bytes: &[u8]) -> Self;
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const MAX: f64 = f32::MAX as f64;
    const TINY: f64 = f32::MIN_POSITIVE as f64;
    const EPSILON: f64 = f32::EPSILON as f64;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn negated(self) -> Self {
        -self
    }
    #[inline(always)]
    fn mul_plus(self, a: Self, b: Self) -> Self {
        self + a * b
    }
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn take(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("the bytes of one value"))
    }
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const MAX: f64 = f64::MAX;
    const TINY: f64 = f64::MIN_POSITIVE;
    const EPSILON: f64 = f64::EPSILON;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn negated(self) -> Self {
        -self
    }
    #[inline(always)]
    fn mul_plus(self, a: Self, b: Self) -> Self {
        self + a * b
    }
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn take(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("the bytes of one value"))
    }
}
