//! The two precisions in which rows and tall factors are stored.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, MatMut, MatRef, Par};

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
    /// `C += Aᵀ B`, where C has this shape and rows `stride` apart, and A and B hold
    /// as many rows each.
    fn add_product(c: &mut [Self], stride: usize, shape: (usize, usize), a: &[Self], b: &[Self]);
    /// `C −= Aᵀ A` in the lower triangle of a C of this size, with rows `stride`
    /// apart.
    fn subtract_gram(c: &mut [Self], stride: usize, size: usize, a: &[Self]);
    /// The numbers themselves, where they are in single precision.
    fn singles(values: &[Self]) -> Option<&[f32]>;
    /// Appends its little-endian bytes.
    fn put(self, out: &mut Vec<u8>);
    /// From as many little-endian bytes as it has.
    fn take(bytes: &[u8]) -> Self;
}

/// What is written alike for both precisions. Products of matrices are on faer, in one
/// thread.
macro_rules! alike {
    () => {
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

        fn add_product(
            c: &mut [Self],
            stride: usize,
            (rows, columns): (usize, usize),
            a: &[Self],
            b: &[Self],
        ) {
            if rows == 0 || columns == 0 {
                return;
            }
            // By columns all is transposed: Cᵀ += Bᵀ A.
            let c = MatMut::from_column_major_slice_with_stride_mut(c, columns, rows, stride);
            let a = MatRef::from_column_major_slice(a, rows, a.len() / rows);
            let b = MatRef::from_column_major_slice(b, columns, b.len() / columns);
            matmul(c, Accum::Add, b, a.transpose(), 1.0, Par::Seq);
        }

        fn subtract_gram(c: &mut [Self], stride: usize, size: usize, a: &[Self]) {
            if size == 0 {
                return;
            }
            // The upper triangle by columns is the lower one by rows.
            let c = MatMut::from_column_major_slice_with_stride_mut(c, size, size, stride);
            let a = MatRef::from_column_major_slice(a, size, a.len() / size);
            triangular::matmul(
                c,
                BlockStructure::TriangularUpper,
                Accum::Add,
                a,
                BlockStructure::Rectangular,
                a.transpose(),
                BlockStructure::Rectangular,
                -1.0,
                Par::Seq,
            );
        }
    };
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
    fn singles(values: &[f32]) -> Option<&[f32]> {
        Some(values)
    }
    alike!();
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
    fn singles(_values: &[f64]) -> Option<&[f32]> {
        None
    }
    alike!();
}
