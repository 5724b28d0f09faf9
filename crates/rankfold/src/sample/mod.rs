//! Where examples come from. A sample names rows by number; their features are
//! looked up when the example is made, so a sample costs twelve bytes.

mod classes;
mod labels;
mod listed;
mod objects;

pub use labels::LabelTriplets;
pub use listed::ListedTriplets;
pub use objects::ObjectTriplets;

use classes::FromClasses;
use serde::{Deserialize, Serialize};

/// "The query is more like the positive than like the negative", by row number
/// or whatever else stands for a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triplet<T = u32> {
    /// The row that asks.
    pub query: T,
    /// A row that should score above…
    pub positive: T,
    /// …this one.
    pub negative: T,
}

/// A source of triplets of your own: clicks from a log, pairs from a graph.
///
/// Training clones it to try step sizes, and asks for its place to write a
/// checkpoint, so what it draws must follow from its place alone.
/// [`crate::check::source`] holds it to that.
pub trait TripletSource: std::fmt::Debug + Send {
    /// The next triplet, of rows that there are; a source never ends.
    fn draw(&mut self) -> Triplet;

    /// Where it stands.
    fn position(&self) -> u64;

    /// Goes to where it once stood; false when that cannot be.
    fn seek(&mut self, position: u64) -> bool;

    /// A copy that goes its own way.
    fn boxed(&self) -> Box<dyn TripletSource>;
}

impl Clone for Box<dyn TripletSource> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// Triplets that do not come from labels.
#[derive(Debug, Clone)]
pub enum Given {
    /// A list, used again and again in its order.
    List(Vec<Triplet>),
    /// A source of your own.
    Source(Box<dyn TripletSource>),
}

impl From<Vec<Triplet>> for Given {
    fn from(list: Vec<Triplet>) -> Self {
        Given::List(list)
    }
}

/// A source of triplets whose position can be saved.
#[derive(Debug, Clone)]
pub enum Triplets {
    /// Drawn at random from class labels.
    Labels(LabelTriplets),
    /// The same between rows and objects.
    Objects(ObjectTriplets),
    /// Read from a list, again and again in its order.
    Listed(ListedTriplets),
    /// From a source of the user's.
    Own(Box<dyn TripletSource>),
}

/// Where a source of triplets stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Position {
    /// The generator of a random source.
    Random(crate::random::Random),
    /// The next entry of a list.
    Next(usize),
    /// What a source of the user's calls its place.
    Own(u64),
}

impl Triplets {
    /// The next triplet; a source never ends.
    #[inline]
    pub fn draw(&mut self) -> Triplet {
        match self {
            Triplets::Labels(source) => source.draw(),
            Triplets::Objects(source) => source.draw(),
            Triplets::Listed(source) => source.draw(),
            Triplets::Own(source) => source.draw(),
        }
    }

    /// The next triplet with the hardest of so many negatives, by a rating of
    /// triplets. Given triplets bring their own negatives: there it is the next one.
    pub fn draw_hard(
        &mut self,
        candidates: usize,
        hardness: impl FnMut(Triplet) -> f64,
    ) -> Triplet {
        match self {
            Triplets::Labels(source) => source.draw_hard(candidates, hardness),
            Triplets::Objects(source) => source.draw_hard(candidates, hardness),
            Triplets::Listed(source) => source.draw(),
            Triplets::Own(source) => source.draw(),
        }
    }

    /// Where the source stands.
    pub fn position(&self) -> Position {
        match self {
            Triplets::Labels(source) => Position::Random(source.random.clone()),
            Triplets::Objects(source) => Position::Random(source.random.clone()),
            Triplets::Listed(source) => Position::Next(source.next()),
            Triplets::Own(source) => Position::Own(source.position()),
        }
    }

    /// Goes to a position that a source of the same kind and data had; false
    /// when it cannot be one.
    pub fn seek(&mut self, position: Position) -> bool {
        match (self, position) {
            (Triplets::Labels(source), Position::Random(random)) => {
                source.random = random;
                true
            }
            (Triplets::Objects(source), Position::Random(random)) => {
                source.random = random;
                true
            }
            (Triplets::Listed(source), Position::Next(next)) => source.seek(next),
            (Triplets::Own(source), Position::Own(position)) => source.seek(position),
            _ => false,
        }
    }
}
