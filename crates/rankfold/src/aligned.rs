//! A growing buffer that starts on a cache line, so that rows of a padded
//! width never share one more line than they need.

use crate::Real;
use std::ops::{Deref, DerefMut};

const LINE: usize = 64;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Numbers in one block of memory, aligned to 64 bytes.
#[derive(Debug, Clone)]
pub(crate) struct Aligned<R> {
    lines: Vec<Line>,
    len: usize,
    of: std::marker::PhantomData<R>,
}

impl<R: Real> Aligned<R> {
    pub fn new() -> Self {
        Aligned {
            lines: Vec::new(),
            len: 0,
            of: std::marker::PhantomData,
        }
    }

    /// How many numbers it can grow to in place.
    pub fn room(&self) -> usize {
        self.lines.capacity() * (LINE / size_of::<R>())
    }

    /// Makes room for `len` numbers, and no more: memory is counted by the
    /// caller. False when there is none.
    #[must_use]
    pub fn reserve(&mut self, len: usize) -> bool {
        let lines = (len * size_of::<R>()).div_ceil(LINE);
        let more = lines.saturating_sub(self.lines.len());
        crate::memory::fallibly(|| self.lines.try_reserve_exact(more)).is_ok()
    }

    /// Grows with zeros to `len` numbers; never shrinks. False, and as it was,
    /// when there is no memory for it.
    #[must_use]
    pub fn grow(&mut self, len: usize) -> bool {
        let len = self.len.max(len);
        if !self.reserve(len) {
            return false;
        }
        let lines = (len * size_of::<R>()).div_ceil(LINE);
        self.lines.resize(lines, Line([0; LINE]));
        self.len = len;
        true
    }
}

impl<R> Deref for Aligned<R> {
    type Target = [R];
    fn deref(&self) -> &[R] {
        // SAFETY: the lines hold at least `len` numbers, are aligned for them,
        // and every bit pattern is one: `new` makes buffers of f32 and f64 only.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl<R> DerefMut for Aligned<R> {
    fn deref_mut(&mut self) -> &mut [R] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

impl<R: PartialEq> PartialEq for Aligned<R> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_zeros_on_a_cache_line() {
        let mut buffer = Aligned::<f32>::new();
        assert_eq!(buffer.len(), 0);
        for len in [3, 16, 17, 5, 100] {
            assert!(buffer.grow(len));
            assert_eq!(buffer.as_ptr() as usize % LINE, 0);
            assert!(buffer.len() >= len && buffer[len - 1] == 0.0);
        }
        buffer[99] = 7.0;
        assert!(buffer.reserve(1000));
        let (room, start) = (buffer.room(), buffer.as_ptr());
        assert!(room >= 1000 && buffer.len() == 100);
        assert!(buffer.grow(room) && buffer.as_ptr() == start);
        assert_eq!((buffer.len(), buffer[99], buffer[999]), (room, 7.0, 0.0));
        assert_eq!(buffer.clone(), buffer);
    }
}
