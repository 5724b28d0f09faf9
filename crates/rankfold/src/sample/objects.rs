//! Triplets between two kinds of things: the query is a row, the positive an
//! object of its class, the negative an object of another.

use super::Triplet;
use super::classes::{Class, FromClasses};
use crate::random::Random;
use crate::{Error, Result};
use hashbrown::HashMap;

/// Draws triplets of a row and two objects in constant time.
#[derive(Debug, Clone)]
pub struct ObjectTriplets {
    /// Rows that can be queries, and where the objects of their class are.
    queries: Vec<(u32, Class)>,
    /// Object numbers, grouped by class.
    objects: Vec<u32>,
    skipped: usize,
    pub(super) random: Random,
}

impl ObjectTriplets {
    /// From the class of each row, of which only `members` take part, and of each
    /// object; classes are numbered alike on both sides.
    pub fn new(
        classes: &[u32],
        members: &[u32],
        of_objects: &[u32],
        random: Random,
    ) -> Result<Self> {
        let class = |object: u32| of_objects[object as usize];
        let mut objects: Vec<u32> = (0..of_objects.len() as u32).collect();
        objects.sort_by_key(|&object| (class(object), object));
        let mut ranges: HashMap<u32, Class> = HashMap::new();
        for (place, &object) in (0..).zip(&objects) {
            let range = ranges.entry(class(object)).or_insert((place, place));
            range.1 = place + 1;
        }
        if ranges.len() < 2 {
            return Err(Error::input(format!(
                "triplets need objects of at least two classes, found {}",
                ranges.len()
            )));
        }
        let queries: Vec<(u32, Class)> = members
            .iter()
            .filter_map(|&row| Some((row, *ranges.get(&classes[row as usize])?)))
            .collect();
        if queries.is_empty() {
            return Err(Error::input(
                "triplets need a row and an object of the same class, found none",
            ));
        }
        Ok(ObjectTriplets {
            skipped: members.len() - queries.len(),
            queries,
            objects,
            random,
        })
    }

    /// Rows that cannot be queries, because no object has their class.
    pub fn skipped(&self) -> usize {
        self.skipped
    }
}

impl FromClasses for ObjectTriplets {
    #[inline]
    fn draw_pair(&mut self) -> (Class, Triplet) {
        let (query, (start, end)) = self.queries[self.random.below(self.queries.len())];
        let positive = start as usize + self.random.below((end - start) as usize);
        let positive = self.objects[positive];
        let triplet = Triplet {
            query,
            positive,
            negative: positive,
        };
        ((start, end), triplet)
    }

    #[inline]
    fn candidates(&mut self) -> (&mut Random, &[u32]) {
        (&mut self.random, &self.objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_triplet_is_lawful_and_all_objects_take_part() {
        // No object has class 4, no row has class 7, row 5 is no member.
        let (rows, objects) = ([0, 1, 0, 4, 1, 0], [7, 1, 0, 1, 0, 1]);
        let members = [0, 1, 2, 3, 4];
        let random = Random::new(3, 0);
        let mut source = ObjectTriplets::new(&rows, &members, &objects, random).unwrap();
        assert_eq!(source.skipped(), 1);
        let mut seen = [[0; 6]; 3];
        for _ in 0..4000 {
            let t = source.draw();
            let class = rows[t.query as usize];
            assert_eq!(class, objects[t.positive as usize]);
            assert_ne!(class, objects[t.negative as usize]);
            for (role, row) in [t.query, t.positive, t.negative].into_iter().enumerate() {
                seen[role][row as usize] += 1;
            }
        }
        // Four queries: 1,000 each. Positives: 2,000 of each class.
        let at_least = |role: usize, rows: &[usize], count: usize| {
            assert!(rows.iter().all(|&i| seen[role][i] > count), "{seen:?}");
        };
        at_least(0, &[0, 1, 2, 4], 860);
        at_least(1, &[2, 4], 860);
        at_least(1, &[1, 3, 5], 560);
        at_least(2, &[0], 1000);
        at_least(2, &[1, 2, 3, 4, 5], 400);
        assert_eq!(seen[0][3] + seen[0][5] + seen[1][0], 0);
    }

    #[test]
    fn hard_negatives_are_the_hardest_of_those_drawn() {
        let (rows, objects) = ([0, 1], [0, 0, 1, 1, 1, 2, 2]);
        let random = Random::new(5, 0);
        let mut source = ObjectTriplets::new(&rows, &[0, 1], &objects, random).unwrap();
        let mut plain = source.clone();
        for _ in 0..100 {
            let mut drawn = Vec::new();
            let hard = source.draw_hard(3, |t| {
                drawn.push(t.negative);
                f64::from(t.negative)
            });
            assert_eq!((drawn.len(), Some(&hard.negative)), (3, drawn.iter().max()));
            assert_ne!(objects[hard.negative as usize], rows[hard.query as usize]);
        }
        source.random = plain.random.clone();
        for _ in 0..100 {
            assert_eq!(source.draw_hard(1, |_| f64::NAN), plain.draw());
        }
    }

    #[test]
    fn labels_that_cannot_make_triplets_are_refused() {
        let new = |rows: &[u32], objects: &[u32]| {
            let members: Vec<u32> = (0..rows.len() as u32).collect();
            ObjectTriplets::new(rows, &members, objects, Random::new(0, 0)).map(|_| ())
        };
        let one = "triplets need objects of at least two classes, found 1";
        assert_eq!(new(&[0, 1], &[0, 0]).unwrap_err().message, one);
        assert!(new(&[0, 1], &[]).is_err() && new(&[], &[0, 1]).is_err());
        let none = "triplets need a row and an object of the same class, found none";
        assert_eq!(new(&[0, 1], &[2, 3]).unwrap_err().message, none);
        assert!(new(&[0], &[0, 1]).is_ok());
    }
}
