//! A source of triplets of your own: a log of clicks, where what was clicked is
//! preferred to what was shown and passed over. It is held to the laws of
//! sources, then trains a similarity with checkpoints like any other.
//!
//!     cargo run --release --example own_source

use rankfold::data::Labelled;
use rankfold::random::{Random, splitmix64};
use rankfold::sample::{Given, Triplet, TripletSource};
use rankfold::task::{Event, SimilarityData};
use rankfold::{Rows, Similarity, SparseVec, check};

/// What a visitor who looked at a page was shown: the first was clicked.
#[derive(Debug, Clone)]
struct Visit {
    page: u32,
    clicked: u32,
    passed: Vec<u32>,
}

/// Draws visits, each time against one of the pages passed over. Where it stands
/// is the number of draws, so any place can be found again.
#[derive(Debug, Clone)]
struct Clicks {
    visits: Vec<Visit>,
    drawn: u64,
}

impl TripletSource for Clicks {
    fn draw(&mut self) -> Triplet {
        let bits = splitmix64(self.drawn);
        self.drawn += 1;
        let visit = &self.visits[bits as usize % self.visits.len()];
        let passed = (bits >> 32) as usize % visit.passed.len();
        Triplet {
            query: visit.page,
            positive: visit.clicked,
            negative: visit.passed[passed],
        }
    }

    fn position(&self) -> u64 {
        self.drawn
    }

    fn seek(&mut self, position: u64) -> bool {
        self.drawn = position;
        true
    }

    fn boxed(&self) -> Box<dyn TripletSource> {
        Box::new(self.clone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Pages of five topics: a word of the topic, and words that say nothing.
    let mut random = Random::new(1, 0);
    let topic = |page: u32| page % 5;
    let mut rows = Rows::<f32>::new();
    for page in 0..200 {
        let mut words = vec![topic(page) * 4 + random.below(4) as u32];
        words.extend((0..6).map(|_| 20 + random.below(60) as u32));
        words.sort_unstable();
        words.dedup();
        rows.push(SparseVec::from_entries(words.into_iter().map(|w| (w, 0.4)).collect()).as_row());
    }
    // Visitors click what is of the topic they came for.
    let mut other = |page: u32, same: bool| loop {
        let found = random.below(200) as u32;
        if (topic(found) == topic(page)) == same && found != page {
            return found;
        }
    };
    let visit = |page: u32| Visit {
        page,
        clicked: other(page, true),
        passed: (0..4).map(|_| other(page, false)).collect(),
    };
    let clicks = Clicks {
        visits: (0..2_000).map(|i| i % 200).map(visit).collect(),
        drawn: 0,
    };
    check::source(&clicks, rows.len(), rows.len(), 1_000)?;
    println!("it keeps the laws of sources");

    let data = Labelled::new(rows);
    let options = Similarity::default().rank(6).steps(20_000).seed(1);
    let mut session = options.session(SimilarityData {
        triplets: Some(Given::Source(Box::new(clicks))),
        ..(&data).into()
    })?;
    println!("step size {} chosen", session.step_size());
    loop {
        match session.advance(u64::MAX)? {
            Event::Measured(point) if point.counters.steps % 5_000 == 0 => {
                println!(
                    "{} clicks: mean loss {:.3}",
                    point.counters.steps, point.loss
                );
            }
            Event::Finished(_) => break,
            _ => {}
        }
    }
    let model = session.into_model()?;
    let found = model.neighbors(&data, 7, 10)?;
    let same = found
        .iter()
        .filter(|(page, _)| topic(*page as u32) == topic(7));
    let same = same.count();
    println!("of the ten pages most like page 7, {same} are of its topic");
    assert!(same >= 8);
    Ok(())
}
