//! What all parts of a service share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use rankfold::model::Counters;
use tokio::sync::watch;

use crate::answer::View;
use crate::learner::Command;
use crate::log::Logger;
use crate::metrics::Metrics;
use crate::options::Limits;
use crate::progress::Progress;

/// What readers see: one model and all that was made of it.
pub struct Published {
    pub view: Arc<dyn View>,
    /// Examples that it has learned.
    pub sequence: u64,
    /// How long the first of its new examples had to wait to be seen.
    pub lag: Duration,
}

/// Something to draw beside a result, where the rows are pictures of a pen.
pub trait Drawings: Send + Sync {
    /// The features of a stroke, as JSON of a row by value.
    fn row(&self, stroke: &[f64]) -> Option<String>;
    /// The stroke of a row.
    fn stroke(&self, id: &str) -> Option<Vec<f64>>;
}

pub struct Core {
    published: RwLock<Arc<Published>>,
    /// The sequence that readers see.
    visible: watch::Sender<u64>,
    /// The sequence that is durable, and the number of the next entry of the journal.
    durable: AtomicU64,
    entries: AtomicU64,
    pub progress: Mutex<Progress>,
    pub learner: Mutex<Option<SyncSender<Command>>>,
    pub limits: Limits,
    pub metrics: Metrics,
    pub log: Logger,
    pub names: HashMap<String, String>,
    pub drawings: Option<Box<dyn Drawings>>,
    pub facts: Facts,
}

/// What does not change while the service runs.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub visible_within: Duration,
    /// The folder of the journal and where it began.
    pub journal: Option<(std::path::PathBuf, crate::journal::Origin)>,
    /// Bytes of a torn record that were cut at the start.
    pub cut: u64,
}

impl Core {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        first: Published,
        entries: u64,
        counters: Counters,
        limits: Limits,
        log: Logger,
        names: HashMap<String, String>,
        drawings: Option<Box<dyn Drawings>>,
        facts: Facts,
    ) -> Self {
        let sequence = first.sequence;
        Core {
            published: RwLock::new(Arc::new(first)),
            visible: watch::Sender::new(sequence),
            durable: AtomicU64::new(sequence),
            entries: AtomicU64::new(entries),
            progress: Mutex::new(Progress::new(counters, sequence)),
            learner: Mutex::new(None),
            limits,
            metrics: Metrics::default(),
            log,
            names,
            drawings,
            facts,
        }
    }

    /// What readers see now.
    pub fn published(&self) -> Arc<Published> {
        match self.published.read() {
            Ok(published) => published.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }

    pub fn publish(&self, new: Published) {
        let sequence = new.sequence;
        let new = Arc::new(new);
        match self.published.write() {
            Ok(mut published) => *published = new,
            Err(poisoned) => *poisoned.into_inner() = new,
        }
        self.visible.send_replace(sequence);
    }

    /// The sequence that readers see, to wait for.
    pub fn visible(&self) -> watch::Receiver<u64> {
        self.visible.subscribe()
    }

    /// Examples that are durable.
    pub fn sequence(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }

    /// Entries of the journal that are durable.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::SeqCst)
    }

    /// Something was made durable.
    pub fn learned(&self, sequence: u64, entries: u64, counters: &Counters, accepted: u64) {
        self.durable.store(sequence, Ordering::SeqCst);
        self.entries.store(entries, Ordering::SeqCst);
        self.metrics.learned(accepted);
        if let Ok(mut progress) = self.progress.lock() {
            progress.at(sequence, counters, accepted);
        }
    }
}
