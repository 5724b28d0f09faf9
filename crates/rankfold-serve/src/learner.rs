//! The one thread that learns: it takes feedback, learns it, makes it durable in groups, and
//! only then acknowledges it and lets readers see it.
//!
//! An example is learned in memory before it is written, so that the journal holds only what
//! can be learned. Where it cannot be written, what is in memory is ahead of the disk: it is
//! thrown away, and made again from the disk when there is room. Readers never see it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use rankfold::form::Side;
use rankfold::task::{NamedSides, Sides};
use rankfold::{Error, ErrorKind, Model, Real, Result};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::answer::{Answer, Rows};
use crate::book::{Added, Base};
use crate::core::Core;
use crate::error::Refused;
use crate::example::with_rows;
use crate::journal::{Entry, Journal, Replay, RowEntry, RowSide, Snapshot, Undo};
use crate::mind::Mind;
use crate::publish::{News, Publisher};

/// Examples that are learned before they are made durable together.
const GROUP: usize = 4096;
/// Rows that may be added or replaced.
const ADDED: usize = 100_000;
/// Bytes of a group.
const GROUP_BYTES: usize = 8 << 20;

type Reply = oneshot::Sender<Answer>;

/// What the learner is asked for.
pub enum Command {
    /// Examples, each one line of JSON.
    Feedback(Vec<String>, Reply),
    /// A row by value.
    Row(RowEntry, Reply),
    Undo(Reply),
    /// The model as it is now, with its sequence.
    Model(oneshot::Sender<Answer<(Arc<Model>, u64)>>),
    /// Write all that there is, and end.
    Stop,
}

/// How to get the model that the journal began from.
pub struct Origins<R: 'static> {
    pub model: PathBuf,
    pub left: &'static Base<R>,
    pub right: Option<&'static Base<R>>,
}

/// What was made of the journal.
pub struct State<R: Real> {
    pub mind: Mind<R>,
    pub added: [Arc<Added>; 2],
    /// Examples that count.
    pub sequence: u64,
    /// Examples that the snapshot had which it was made from.
    snapshot: u64,
}

impl<R: Real> Origins<R> {
    pub fn named(&self) -> NamedSides<'static, R> {
        let rows = Some(&self.left.lookup).filter(|_| self.left.len() > 0);
        NamedSides {
            rows,
            objects: match self.right {
                Some(right) => Some(&right.lookup),
                None => rows,
            },
            sides: Sides {
                left: &self.left.prepared.rows,
                right: match self.right {
                    Some(right) => &right.prepared.rows,
                    None => &self.left.prepared.rows,
                },
            },
        }
    }

    /// The model that the journal began from, with the features of the rows: what
    /// `rankfold update --rows` starts with.
    fn first(&self) -> Result<Mind<R>> {
        let mut mind = Mind::new(Model::load(&self.model)?)?;
        if let Mind::Rows(learner) = &mut mind {
            if self.left.len() > 0 {
                learner.prepare(self.left.raw.clone(), &self.left.features)?;
            }
            if let Some(right) = self.right {
                learner.prepare_side(Side::Right, right.raw.clone(), &right.features)?;
            }
        }
        Ok(mind)
    }

    /// The state after all of the journal.
    pub fn restore(&self, journal: &Journal) -> Result<State<R>> {
        let (folder, origin, end) = (journal.folder(), journal.origin(), journal.number());
        let last = Snapshot::last(folder, origin, end, |snapshot| {
            Replay::new(folder, origin, snapshot.number, end)
        })?;
        let (mind, sequence, rows, mut replay) = match last {
            Some((snapshot, replay)) => (
                Mind::new(snapshot.model)?,
                snapshot.sequence,
                snapshot.rows,
                replay,
            ),
            None => {
                let replay = crate::journal::examples(folder, origin, end)?;
                (self.first()?, 0, Vec::new(), replay)
            }
        };
        let mut added = [Added::default(), Added::default()];
        for row in rows {
            added[usize::from(row.side == RowSide::Right)].put(&row.id, row.features);
        }
        let (mut mind, named) = (mind, self.named());
        let examples = replay.examples;
        while let Some(entry) = replay.next()? {
            match entry {
                Entry::Example(line) => {
                    let learned = mind.learn(line.get().as_bytes(), &named);
                    learned.map_err(|e| {
                        Error::failure(format!("the journal cannot be learned: {}", e.message))
                    })?;
                }
                Entry::Row(row) => {
                    added[usize::from(row.side == RowSide::Right)].put(&row.id, row.features);
                }
                Entry::Undo(_) => {}
            }
        }
        Ok(State {
            mind,
            added: added.map(Arc::new),
            sequence: sequence + examples,
            snapshot: sequence,
        })
    }
}

/// The thread.
pub struct Learner<R: Real> {
    pub core: Arc<Core>,
    pub origins: Origins<R>,
    pub journal: Journal,
    pub state: State<R>,
    pub publisher: Arc<Publisher<R>>,
    pub snapshot_every: u64,
    pub visible_within: Duration,
    /// Whether memory is ahead of the disk.
    pub broken: bool,
    /// Whether readers have not been told of all there is.
    pub unseen: Option<Instant>,
    pub published: Instant,
    pub writing: Option<std::thread::JoinHandle<()>>,
}

/// What is made durable together.
#[derive(Default)]
struct Group {
    entries: Vec<Entry>,
    bytes: usize,
    replies: Vec<(Reply, Answer)>,
    examples: u64,
}

impl<R: Real> Learner<R> {
    pub fn run(mut self, commands: &Receiver<Command>) {
        loop {
            match commands.recv_timeout(self.patience()) {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(first) => {
                    let mut group = Group::default();
                    let mut next = Some(first);
                    let mut stop = false;
                    while let Some(command) = next.take() {
                        if let Command::Stop = command {
                            stop = true;
                            break;
                        }
                        // An example that breaks an assertion must not end learning: what is in
                        // memory is in doubt then, and is made again from the disk.
                        let taken = AssertUnwindSafe(|| self.take(command, &mut group));
                        if catch_unwind(taken).is_err() {
                            self.broken = true;
                            group = Group::default();
                            self.core
                                .log
                                .error("learner", json!({ "message": "a panic" }));
                        }
                        if group.entries.len() < GROUP && group.bytes < GROUP_BYTES {
                            next = commands.try_recv().ok();
                        }
                    }
                    self.commit(&mut group);
                    if stop {
                        break;
                    }
                }
            }
            self.publish_when_due(false);
            self.snapshot_when_due();
        }
        // Whoever still waits is told so by the end of the channel.
        if let Some(writing) = self.writing.take() {
            let _ = writing.join();
        }
        if !self.broken
            && self.state.sequence != self.state.snapshot
            && let Ok(model) = self.state.mind.to_model()
        {
            self.write_snapshot(&model);
        }
        if let Err(error) = self.journal.close() {
            self.core
                .log
                .error("journal", json!({ "message": error.message }));
        }
    }

    /// How long there is nothing to do.
    fn patience(&self) -> Duration {
        match self.unseen {
            Some(_) => Duration::from_millis(5),
            None => Duration::from_secs(3600),
        }
    }

    fn take(&mut self, command: Command, group: &mut Group) {
        match command {
            Command::Feedback(examples, reply) => {
                let answer = self.feedback(examples, group);
                group.replies.push((reply, answer));
            }
            Command::Row(row, reply) => {
                let answer = self.ready().and_then(|()| self.room_for(&row)).map(|()| {
                    let side = usize::from(row.side == RowSide::Right);
                    Arc::make_mut(&mut self.state.added[side]).put(&row.id, row.features.clone());
                    group.bytes += row.features.get().len();
                    let answer = json!({ "id": row.id, "sequence": self.state.sequence });
                    group.entries.push(Entry::Row(row));
                    answer
                });
                group.replies.push((reply, answer));
            }
            Command::Undo(reply) => {
                self.commit(group);
                let answer = self.undo();
                let _ = reply.send(answer);
            }
            Command::Model(reply) => {
                self.commit(group);
                let answer = self.ready().and_then(|()| {
                    let model = self.state.mind.to_model()?;
                    Ok((Arc::new(model), self.state.sequence))
                });
                let _ = reply.send(answer);
            }
            Command::Stop => {}
        }
    }

    /// Whether memory and disk agree; where they do not, memory is made anew.
    fn ready(&mut self) -> Answer<()> {
        if !self.broken {
            return Ok(());
        }
        self.journal.probe().map_err(|e| self.full(&e))?;
        self.state = self
            .origins
            .restore(&self.journal)
            .map_err(|e| self.full(&e))?;
        self.broken = false;
        self.core
            .log
            .info("learning again", json!({ "sequence": self.state.sequence }));
        Ok(())
    }

    /// Whether one row more may be added: each costs memory, and time with every view.
    fn room_for(&self, row: &RowEntry) -> Answer<()> {
        let added = &self.state.added[usize::from(row.side == RowSide::Right)];
        match added.len() >= ADDED && added.find(&row.id).is_none() {
            true => Err(Refused::input(format!(
                "{ADDED} rows were added already: put them into the file of rows, and begin a new \
                 journal"
            ))),
            false => Ok(()),
        }
    }

    fn full(&self, error: &Error) -> Refused {
        let message = format!("{}: learning has stopped, answers go on", error.message);
        Refused::new(StatusCode::INSUFFICIENT_STORAGE, message)
    }

    fn feedback(&mut self, examples: Vec<String>, group: &mut Group) -> Answer {
        self.ready()?;
        let named = self.origins.named();
        let mut lines = Vec::with_capacity(examples.len());
        for example in &examples {
            lines.push(self.with_added_rows(example));
        }
        let text = lines.join("\n");
        let of = |error: Error, at: u64| match lines.len() {
            1 => Refused::from(error),
            _ => {
                let mut refused = Refused::from(error);
                refused.message = format!("example {at}: {}", refused.message);
                refused
            }
        };
        let checked = self
            .state
            .mind
            .check(text.as_bytes(), &named, self.core.limits.size);
        checked.map_err(|e| of(e.clone(), e.line.unwrap_or(1)))?;
        let count = lines.len();
        for (at, line) in lines.iter().enumerate() {
            if let Err(error) = self.state.mind.learn(line.as_bytes(), &named) {
                // A refusal leaves the model as it was; a failure may not.
                self.broken |= error.kind != ErrorKind::Input;
                let mut refused = of(error, at as u64 + 1);
                refused.more = Some(json!({ "accepted": at, "sequence": self.state.sequence }));
                return Err(refused);
            }
            self.state.sequence += 1;
            group.examples += 1;
            group.bytes += line.len();
            let raw = RawValue::from_string(line.clone())?;
            group.entries.push(Entry::Example(raw));
        }
        Ok(json!({ "accepted": count, "sequence": self.state.sequence }))
    }

    /// An example whose ids of added rows are replaced by their features: the journal then needs
    /// no other rows than those of the file.
    fn with_added_rows(&self, example: &str) -> String {
        let [left, right] = &self.state.added;
        if left.len() + right.len() == 0 {
            return example.to_owned();
        }
        let two_kinds = self.origins.right.is_some();
        with_rows(example, |field, id| {
            let added = match (field, two_kinds) {
                ("query" | "left" | "row", _) => left,
                ("positive" | "negative" | "right", false) => left,
                ("positive" | "negative" | "right", true) => right,
                _ => return None,
            };
            let at = added.find(id)?;
            Some(added.features[at].get().to_owned())
        })
    }

    /// Makes a group durable, then acknowledges it.
    fn commit(&mut self, group: &mut Group) {
        let group = std::mem::take(group);
        let something = !group.entries.is_empty();
        let wrote = match something {
            false => Ok(()),
            true => {
                let start = Instant::now();
                let wrote = self.journal.append(group.entries);
                self.core.metrics.flushed(start.elapsed());
                wrote
            }
        };
        if let Err(error) = wrote {
            self.broken = true;
            self.core.metrics.failed();
            self.core
                .log
                .error("journal", json!({ "message": error.message }));
            let refused = self.full(&error);
            for (reply, answer) in group.replies {
                let _ = reply.send(answer.and(Err(refused.clone())));
            }
            return;
        }
        if something {
            self.unseen.get_or_insert_with(Instant::now);
            self.core.learned(
                self.state.sequence,
                self.journal.number(),
                &self.state.mind.counters(),
                group.examples,
            );
        }
        for (reply, answer) in group.replies {
            let _ = reply.send(answer);
        }
    }

    fn undo(&mut self) -> Answer {
        self.ready()?;
        if self.state.sequence == 0 {
            return Err(Refused::new(
                StatusCode::CONFLICT,
                "there is no feedback to undo",
            ));
        }
        let undone = self.journal.append(vec![Entry::Undo(Undo {})]);
        undone.map_err(|e| {
            self.broken = true;
            self.full(&e)
        })?;
        match self.origins.restore(&self.journal) {
            Ok(state) => self.state = state,
            Err(error) => {
                self.broken = true;
                return Err(self.full(&error));
            }
        }
        let counters = self.state.mind.counters();
        self.core
            .learned(self.state.sequence, self.journal.number(), &counters, 0);
        self.unseen.get_or_insert_with(Instant::now);
        self.publish_when_due(true);
        Ok(json!({ "sequence": self.state.sequence }))
    }

    /// Lets readers see what was learned, as often as is due and can be afforded.
    fn publish_when_due(&mut self, now: bool) {
        if self.unseen.is_none() || self.broken {
            return;
        }
        // Readers come first: making a view takes a fifth of the time at most.
        let wait = (self.visible_within / 2).max(4 * self.publisher.cost());
        if !now && (self.published.elapsed() < wait || !self.publisher.is_idle()) {
            return;
        }
        let Some(since) = self.unseen.take() else {
            return;
        };
        match self.state.mind.to_model() {
            Ok(model) => self.publisher.news(News {
                model: Arc::new(model),
                rows: Rows {
                    left: self.origins.left,
                    right: self.origins.right,
                    added: self.state.added.clone(),
                },
                sequence: self.state.sequence,
                since,
            }),
            Err(error) => self
                .core
                .log
                .error("publish", json!({ "message": error.message })),
        }
        self.published = Instant::now();
    }

    fn snapshot_when_due(&mut self) {
        let new = self.state.sequence.saturating_sub(self.state.snapshot);
        if new < self.snapshot_every || self.broken {
            return;
        }
        if self
            .writing
            .as_ref()
            .is_some_and(|writing| !writing.is_finished())
        {
            return;
        }
        let Ok(model) = self.state.mind.to_model() else {
            return;
        };
        self.state.snapshot = self.state.sequence;
        let (core, place) = (self.core.clone(), self.place());
        let thread = std::thread::Builder::new().name("snapshot".into());
        self.writing = thread.spawn(move || write(&core, &model, place)).ok();
    }

    fn write_snapshot(&self, model: &Model) {
        write(&self.core, model, self.place());
    }

    fn place(&self) -> SnapshotPlace {
        let side = |added: &Added, side: RowSide| -> Vec<RowEntry> {
            let rows = added.ids.iter().zip(&added.features);
            rows.map(|(id, features)| RowEntry {
                id: id.clone(),
                side,
                features: features.clone(),
            })
            .collect()
        };
        let [left, right] = &self.state.added;
        let mut rows = side(left, RowSide::Left);
        rows.extend(side(right, RowSide::Right));
        SnapshotPlace {
            folder: self.journal.folder().to_owned(),
            origin: self.journal.origin().clone(),
            at: (self.journal.number(), self.state.sequence),
            rows,
        }
    }
}

/// Where a snapshot goes.
struct SnapshotPlace {
    folder: PathBuf,
    origin: crate::journal::Origin,
    at: (u64, u64),
    rows: Vec<RowEntry>,
}

fn write(core: &Core, model: &Model, place: SnapshotPlace) {
    let sequence = place.at.1;
    match Snapshot::write(&place.folder, &place.origin, model, place.at, place.rows) {
        Ok(()) => core.log.info("snapshot", json!({ "sequence": sequence })),
        // The journal has all of it: a snapshot only saves time.
        Err(error) => core
            .log
            .error("snapshot", json!({ "message": error.message })),
    }
}
