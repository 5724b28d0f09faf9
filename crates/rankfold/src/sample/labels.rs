//! Triplets from class labels: the query uniform, the positive of its class,
//! the negative of another.

use super::Triplet;
use super::classes::{Class, FromClasses};
use crate::random::Random;
use crate::{Error, Result};

/// Draws triplets in constant time.
#[derive(Debug, Clone)]
pub struct LabelTriplets {
    /// Row numbers, grouped by class.
    rows: Vec<u32>,
    /// For each place in `rows`, where its class starts and ends.
    classes: Vec<Class>,
    class_of: Vec<u32>,
    /// Places whose class has a second member: these can be queries.
    queries: Vec<u32>,
    pub(super) random: Random,
}

impl LabelTriplets {
    /// From the class of each row; only rows named in `members` take part.
    pub fn new(classes: &[u32], members: &[u32], random: Random) -> Result<Self> {
        let mut rows = members.to_vec();
        rows.sort_by_key(|&row| (classes[row as usize], row));
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        let mut class_of = Vec::with_capacity(rows.len());
        for (place, &row) in rows.iter().enumerate() {
            let class = classes[row as usize];
            let fresh = place == 0 || classes[rows[place - 1] as usize] != class;
            if fresh {
                ranges.push((place as u32, place as u32));
            }
            let current = ranges.last_mut().expect("a class was opened");
            current.1 = place as u32 + 1;
            class_of.push(ranges.len() as u32 - 1);
        }
        let queries: Vec<u32> = (0..rows.len() as u32)
            .filter(|&place| {
                let (start, end) = ranges[class_of[place as usize] as usize];
                end - start >= 2
            })
            .collect();
        if ranges.len() < 2 {
            return Err(Error::input(format!(
                "triplets need rows of at least two classes, found {}",
                ranges.len()
            )));
        }
        if queries.is_empty() {
            return Err(Error::input("triplets need a class with at least two rows"));
        }
        Ok(LabelTriplets {
            rows,
            classes: ranges,
            class_of,
            queries,
            random,
        })
    }
}

impl FromClasses for LabelTriplets {
    #[inline]
    fn draw_pair(&mut self) -> (Class, Triplet) {
        let query = self.queries[self.random.below(self.queries.len())] as usize;
        let (start, end) = self.classes[self.class_of[query] as usize];
        // Skip the query among the positives.
        let mut positive = start as usize + self.random.below((end - start) as usize - 1);
        positive += usize::from(positive >= query);
        let triplet = Triplet {
            query: self.rows[query],
            positive: self.rows[positive],
            negative: self.rows[query],
        };
        ((start, end), triplet)
    }

    #[inline]
    fn candidates(&mut self) -> (&mut Random, &[u32]) {
        (&mut self.random, &self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_triplet_is_lawful_and_all_rows_take_part() {
        // Class 2 has one row: never a query or a positive, but a negative.
        let classes = [0, 1, 0, 1, 2, 0, 9];
        let members = [0, 1, 2, 3, 4, 5];
        let mut source = LabelTriplets::new(&classes, &members, Random::new(3, 0)).unwrap();
        let mut seen = [[0; 7]; 3];
        for _ in 0..3000 {
            let t = source.draw();
            let class = |row: u32| classes[row as usize];
            assert_ne!(t.query, t.positive);
            assert_eq!(class(t.query), class(t.positive));
            assert_ne!(class(t.query), class(t.negative));
            for (role, row) in [t.query, t.positive, t.negative].into_iter().enumerate() {
                seen[role][row as usize] += 1;
            }
        }
        assert_eq!(
            seen[0][4] + seen[1][4] + seen[0][6] + seen[1][6] + seen[2][6],
            0
        );
        for row in [0, 1, 2, 3, 5] {
            // Uniform over five rows: 600 each, and five standard deviations below.
            assert!(seen[0][row] > 490 && seen[1][row] > 490, "{seen:?}");
        }
        // Negatives of class 0 come from the 1,200 queries of class 1: 300 each.
        for row in [0, 2, 5] {
            assert!(seen[2][row] > 215, "{seen:?}");
        }
        assert!(seen[2][4] > 700, "{seen:?}");
    }

    #[test]
    fn hard_negatives_are_the_hardest_of_those_drawn() {
        let classes = [0, 0, 1, 1, 1, 1, 2, 2];
        let members: Vec<u32> = (0..8).collect();
        let mut source = LabelTriplets::new(&classes, &members, Random::new(5, 0)).unwrap();
        let mut plain = source.clone();
        for _ in 0..100 {
            let mut seen = Vec::new();
            let hard = source.draw_hard(4, |t| {
                seen.push(t.negative);
                f64::from(t.negative)
            });
            assert_eq!(seen.len(), 4);
            assert_eq!(Some(&hard.negative), seen.iter().max());
            assert_ne!(
                classes[hard.negative as usize],
                classes[hard.query as usize]
            );
        }
        // With one candidate it is the plain source.
        source.random = plain.random.clone();
        for _ in 0..100 {
            assert_eq!(source.draw_hard(1, |_| f64::NAN), plain.draw());
        }
    }

    #[test]
    fn labels_that_cannot_make_triplets_are_refused() {
        let new = |classes: &[u32]| {
            let members: Vec<u32> = (0..classes.len() as u32).collect();
            LabelTriplets::new(classes, &members, Random::new(0, 0)).map(|_| ())
        };
        assert!(new(&[]).is_err());
        assert!(new(&[3, 3, 3]).is_err());
        assert!(new(&[0, 1, 2]).is_err());
        assert!(new(&[0, 1, 1]).is_ok());
    }
}
