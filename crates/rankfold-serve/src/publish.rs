//! Makes what readers see: another thread than the learner's projects the rows again.
//!
//! A step of a learner changes the gauge of the whole factor, so that the coordinates of every
//! row change a little with every step. Rows are therefore projected all at once and not row by
//! row, but only as often as readers are to see something new: at most once in half of
//! `--visible-within`, and never for more than a fifth of the time. Meanwhile readers go on with
//! the coordinates before, of one and the same model.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rankfold::{Error, Model, Real};
use serde_json::json;

use crate::answer::{Rows, view};
use crate::core::{Core, Published};
use crate::index::Index;

/// What readers are to see.
pub struct News<R: 'static> {
    pub model: Arc<Model>,
    pub rows: Rows<R>,
    pub sequence: u64,
    /// When the first of it was acknowledged.
    pub since: Instant,
}

/// The thread that makes views, and the one that makes indexes.
pub struct Publisher<R: 'static> {
    core: Arc<Core>,
    slot: Mutex<Option<News<R>>>,
    came: Condvar,
    busy: AtomicBool,
    stopped: AtomicBool,
    /// Microseconds that the last view took.
    cost: AtomicU64,
    /// Threads of its own, half of those that answer: a search that is shared among threads must
    /// not stand behind a million rows that are being projected.
    pool: rayon::ThreadPool,
    index: Mutex<Option<Arc<Index>>>,
    indexing: AtomicBool,
    wants_index: bool,
}

/// The recall below which an index is built again.
const LEAST_RECALL: f64 = 0.95;
/// Time between two looks at the recall of an index whose model has moved.
const LOOK: Duration = Duration::from_secs(5);

impl<R: Real> Publisher<R> {
    pub fn new(
        core: Arc<Core>,
        index: Option<Arc<Index>>,
        wants_index: bool,
        threads: usize,
    ) -> rankfold::Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.div_ceil(2).max(1));
        let pool = pool.build();
        let pool = pool.map_err(|e| Error::failure(format!("cannot start a thread: {e}")))?;
        Ok(Publisher {
            core,
            pool,
            slot: Mutex::new(None),
            came: Condvar::new(),
            busy: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            cost: AtomicU64::new(0),
            index: Mutex::new(index),
            indexing: AtomicBool::new(false),
            wants_index,
        })
    }

    /// How long the last view took to make.
    pub fn cost(&self) -> Duration {
        Duration::from_micros(self.cost.load(Ordering::Relaxed))
    }

    /// Whether nothing waits to be made.
    pub fn is_idle(&self) -> bool {
        !self.busy.load(Ordering::SeqCst) && self.slot.lock().map_or(true, |slot| slot.is_none())
    }

    /// Gives what is to be seen next; what was not made yet is left out.
    pub fn news(&self, news: News<R>) {
        if let Ok(mut slot) = self.slot.lock() {
            *slot = Some(news);
            self.came.notify_all();
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.came.notify_all();
    }

    pub fn run(self: Arc<Self>) {
        let mut looked = Instant::now();
        while let Some(news) = self.wait() {
            let start = Instant::now();
            let index = self.index.lock().ok().and_then(|index| index.clone());
            let made = self
                .pool
                .install(|| view(news.model.clone(), &news.rows, index));
            let took = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.cost.store(took, Ordering::Relaxed);
            match made {
                Ok(view) => self.core.publish(Published {
                    view,
                    sequence: news.sequence,
                    lag: news.since.elapsed(),
                }),
                Err(error) => self
                    .core
                    .log
                    .error("publish", json!({ "message": error.message })),
            }
            self.busy.store(false, Ordering::SeqCst);
            if self.wants_index && looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.clone().renew(news);
            }
        }
    }

    fn wait(&self) -> Option<News<R>> {
        let mut slot = self.slot.lock().ok()?;
        loop {
            if self.stopped.load(Ordering::SeqCst) {
                return None;
            }
            if let Some(news) = slot.take() {
                self.busy.store(true, Ordering::SeqCst);
                return Some(news);
            }
            slot = self.came.wait(slot).ok()?;
        }
    }

    /// Measures the index against a model that has moved, and builds it again where it finds too
    /// little.
    fn renew(self: Arc<Self>, news: News<R>) {
        if self.indexing.swap(true, Ordering::SeqCst) {
            return;
        }
        let thread = std::thread::Builder::new().name("index".into());
        let started = thread.spawn({
            let this = self.clone();
            move || {
                this.pool.install(|| this.renew_now(&news));
                this.indexing.store(false, Ordering::SeqCst);
            }
        });
        if started.is_err() {
            self.indexing.store(false, Ordering::SeqCst);
        }
    }

    fn renew_now(&self, news: &News<R>) {
        let rows = &news.rows;
        let queries = &rows.left.prepared.rows;
        let candidates = &rows.right.unwrap_or(rows.left).prepared.rows;
        let old = self.index.lock().ok().and_then(|index| index.clone());
        let recall = match &old {
            Some(index) => index.measure(&news.model, queries, candidates),
            None => Ok(0.0),
        };
        if recall.is_ok_and(|recall| recall >= LEAST_RECALL) {
            return;
        }
        match Index::build(news.model.clone(), (queries, candidates), news.sequence) {
            Ok(Some(index)) => {
                self.core.log.info(
                    "index",
                    json!({ "sequence": index.sequence, "recall": index.recall(), "seconds": index.seconds }),
                );
                if let Ok(mut slot) = self.index.lock() {
                    *slot = Some(Arc::new(index));
                }
            }
            Ok(None) => {}
            Err(error) => self
                .core
                .log
                .error("index", json!({ "message": error.message })),
        }
    }
}
