//! Triplets from a list, in its order, again and again.

use super::Triplet;
use crate::{Error, Result};

/// A list of triplets and the place of the next one.
#[derive(Debug, Clone)]
pub struct ListedTriplets {
    list: Vec<Triplet>,
    next: usize,
}

impl ListedTriplets {
    /// Starts at the head of a list, which must not be empty.
    pub fn new(list: Vec<Triplet>) -> Result<Self> {
        if list.is_empty() {
            return Err(Error::input("no triplets"));
        }
        Ok(ListedTriplets { list, next: 0 })
    }

    /// How many triplets one epoch has.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Never true: an empty list is refused.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The part of the list from a place on; all of it where that is empty.
    pub fn after(&self, place: usize) -> Self {
        let later = self.list.get(place..).filter(|rest| !rest.is_empty());
        ListedTriplets {
            list: later.unwrap_or(&self.list).to_vec(),
            next: 0,
        }
    }

    #[inline]
    pub(super) fn draw(&mut self) -> Triplet {
        let triplet = self.list[self.next];
        self.next = (self.next + 1) % self.list.len();
        triplet
    }

    pub(super) fn next(&self) -> usize {
        self.next
    }

    pub(super) fn seek(&mut self, next: usize) -> bool {
        let inside = next < self.list.len();
        if inside {
            self.next = next;
        }
        inside
    }
}
