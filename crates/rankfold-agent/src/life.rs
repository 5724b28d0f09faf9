//! The life of one agent: it meets its neighbors, agrees with them on what concerns all,
//! learns round by round by its own clock, answers until they are done, and leaves a state
//! and a model behind.

use crate::client::Caller;
use crate::server::Door;
use crate::shared::{Fixed, Shared};
use crate::state::{Saved, StateFolder};
use crate::sums::NetworkSums;
use crate::tls::Identity;
use crate::{keys, metrics};
use rankfold::gossip::{Accord, name_id};
use rankfold::task::{Ending, GossipTask, Member, Site, SiteData, SiteState, Stop};
use rankfold::{Error, Ids, Result};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Rounds in which neighbors must stay as near as is asked for.
const AGREED_ROUNDS: u64 = 20;

/// A cost that changes by less than this share a round is at rest.
const AT_REST: f64 = 1e-9;

/// Rounds at rest after which the agent pauses between rounds, and the pauses.
const RESTING: u64 = 20;
const REST: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(500)];

/// How long to wait for any neighbor before a step without news.
const ALONE: Duration = Duration::from_secs(1);

/// Rounds of a neighbor from which on an agent that comes starts where that one is.
const JOINS: u64 = 20;

/// How an agent lives.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// Where it answers.
    pub listen: String,
    /// Its neighbors: names and addresses.
    pub neighbors: Vec<(String, String)>,
    /// A file with more of them, a line `NAME=HOST:PORT` each, read again when the agent is
    /// asked to.
    pub neighbors_file: Option<PathBuf>,
    /// Its keys.
    pub identity: Identity,
    /// Where its state is.
    pub state: PathBuf,
    /// Rounds to make.
    pub rounds: Option<u64>,
    /// How near neighbors must be to end.
    pub agreed: Option<f64>,
    /// Whether names of items or features are exchanged.
    pub exchange_names: bool,
    /// The most names that are learned.
    pub most_names: usize,
    /// How long an exchange may take.
    pub deadline: Duration,
    /// How long to wait for neighbors before agents agree without them.
    pub wait: Duration,
    /// How long neighbors may be silent at the end.
    pub silence: Duration,
    /// Time between two states.
    pub save_every: Duration,
    /// Letters of a neighbor that are taken in a second.
    pub rate: f64,
    /// Names that may ask for the status and nothing else.
    pub observers: Vec<String>,
    /// Where metrics and health are shown.
    pub metrics: Option<SocketAddr>,
    /// A pause before each step, to try out slow agents.
    pub slow: Duration,
}

/// An agent at its end.
pub struct Outcome<'a> {
    /// The agent, which makes the model.
    pub member: Member<'a>,
    /// How it ended.
    pub ending: Ending,
    /// How it was then.
    pub status: serde_json::Value,
}

/// The network of a running agent.
pub(crate) struct Network<'n> {
    pub shared: Arc<Shared>,
    pub settings: &'n Settings,
    caller: Caller,
    runtime: &'n Runtime,
    stop: &'n (dyn Fn() -> bool + Sync),
    reload: Arc<AtomicBool>,
}

impl Network<'_> {
    /// An error where the user has asked for an end.
    pub fn go_on(&self) -> Result<()> {
        self.reload()?;
        match (self.stop)() {
            true => Err(Error::interrupted("")),
            false => Ok(()),
        }
    }

    /// Starts an exchange with a neighbor, unless there is one.
    pub fn spawn_exchange(&self, name: &str) {
        let mut inner = self.shared.lock();
        let Some(neighbor) = inner.neighbors.get_mut(name) else {
            return;
        };
        if std::mem::replace(&mut neighbor.in_flight, true) {
            return;
        }
        drop(inner);
        let (caller, name) = (self.caller.clone(), name.to_owned());
        let deadline = self.settings.deadline;
        self.runtime
            .spawn(async move { caller.exchange(&name, deadline).await });
    }

    /// One exchange with every neighbor that can be reached, and the time for it.
    pub fn ask_all(&self) -> Result<()> {
        let names: Vec<String> = self.shared.lock().neighbors.keys().cloned().collect();
        names.iter().for_each(|name| self.spawn_exchange(name));
        let since = Instant::now();
        loop {
            self.go_on()?;
            let inner = self.shared.lock();
            let waiting = inner.neighbors.values().any(|n| n.in_flight);
            if !waiting || since.elapsed() > self.settings.deadline.min(ALONE) {
                return Ok(());
            }
            self.shared.wait(inner, Duration::from_millis(5));
        }
    }

    /// The last letters of an agent that ends, with a short time for each.
    fn farewell(&self) {
        let names: Vec<String> = self.shared.lock().neighbors.keys().cloned().collect();
        let deadline = self.settings.deadline.min(ALONE);
        let all: Vec<_> = names
            .into_iter()
            .map(|name| {
                let caller = self.caller.clone();
                self.runtime
                    .spawn(async move { caller.exchange(&name, deadline).await })
            })
            .collect();
        self.runtime.block_on(async {
            for one in all {
                let _ = one.await;
            }
        });
    }

    /// An error where all neighbors that answer have other lists.
    pub fn check_lists(&self, since: Instant) -> Result<()> {
        let inner = self.shared.lock();
        let warned = inner.warnings.len();
        let heard = inner.neighbors.values().any(|n| n.heard_at.is_some());
        if warned > 0 && !heard && since.elapsed() > Duration::from_secs(3).min(self.settings.wait)
        {
            return Err(Error::input(inner.warnings[0].clone()));
        }
        Ok(())
    }

    /// Reads neighbors and keys again, where that was asked for.
    fn reload(&self) -> Result<()> {
        if !self.reload.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        match self.settings.all_neighbors() {
            Ok(neighbors) => {
                tracing::info!(neighbors = neighbors.len(), "read the configuration again");
                self.shared.set_neighbors(&neighbors);
            }
            Err(error) => tracing::error!("the configuration stays as it was: {error}"),
        }
        match self.settings.identity.load(false) {
            Ok(tls) => {
                if let Ok(mut place) = self.caller.tls.write() {
                    *place = tls;
                }
                self.caller.forget_channels();
            }
            Err(error) => tracing::error!("the keys stay as they were: {error}"),
        }
        Ok(())
    }
}

impl Settings {
    /// An error where they make no sense.
    pub fn check(&self) -> Result<()> {
        keys::check_name(&self.name)?;
        for name in &self.observers {
            keys::check_name(name)?;
        }
        if let Some(address) = self.metrics
            && !address.ip().is_loopback()
        {
            let message = format!("must be a loopback address, found `{address}`");
            return Err(Error::option("metrics", message));
        }
        for (name, value) in [("rate", self.rate), ("agreed", self.agreed.unwrap_or(1.0))] {
            if !(value > 0.0 && value.is_finite()) {
                let message = format!("must be a number above 0, found {value}");
                return Err(Error::option(name, message));
            }
        }
        self.all_neighbors().map(|_| ())
    }

    /// The neighbors that were given, and those of the file.
    fn all_neighbors(&self) -> Result<Vec<(String, String)>> {
        let mut all = self.neighbors.clone();
        if let Some(path) = &self.neighbors_file {
            let text = std::fs::read_to_string(path).map_err(|e| Error::reading(path, &e))?;
            for (i, line) in text.lines().enumerate() {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let found = neighbor(line);
                all.push(found.map_err(|e| e.in_file(path).at_line(i as u64 + 1))?);
            }
        }
        for (i, (name, _)) in all.iter().enumerate() {
            keys::check_name(name)?;
            let same = |other: &String| other.eq_ignore_ascii_case(name);
            if same(&self.name) {
                let message = format!("`{name}` is the agent itself");
                return Err(Error::option("neighbor", message));
            }
            if all[..i].iter().any(|(other, _)| same(other)) {
                let message = format!("`{name}` is given twice");
                return Err(Error::option("neighbor", message));
            }
        }
        Ok(all)
    }
}

/// `NAME=HOST:PORT`.
pub fn neighbor(text: &str) -> Result<(String, String)> {
    let found = text.split_once('=').and_then(|(name, address)| {
        let (host, port) = address.rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        (!host.is_empty()).then(|| (name.trim().to_owned(), address.trim().to_owned()))
    });
    found.ok_or_else(|| Error::input(format!("expected NAME=HOST:PORT, found `{text}`")))
}

/// Runs an agent to its end. `list` has the items or features that all agents share; without
/// it they are those of the data, in the order of their names. `stop` is asked often.
pub fn run<'a>(
    settings: &Settings,
    site: &Site,
    data: SiteData<'a>,
    list: Option<Ids>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome<'a>> {
    settings.check()?;
    site.check()?;
    let neighbors = settings.all_neighbors()?;
    let tls = settings.identity.load(false)?;
    let borne = &tls.names;
    if !borne.iter().any(|b| b.eq_ignore_ascii_case(&settings.name)) {
        let message = format!(
            "the certificate is for `{}`, not for `{}`",
            borne.join("`, `"),
            settings.name
        );
        return Err(Error::input(message).in_file(&settings.identity.certificate));
    }
    let folder = StateFolder::take(&settings.state)?;
    let saved = folder.load()?;
    if let Some((saved, _)) = &saved {
        let found = (saved.name.as_str(), saved.task.as_str(), saved.rank);
        let expected = (settings.name.as_str(), site.kind().name(), site.dimension());
        if found != expected {
            let message = format!(
                "the state of agent `{}` that learns `{}` of rank {}, expected `{}`, `{}` and {}",
                found.0, found.1, found.2, expected.0, expected.1, expected.2
            );
            return Err(Error::input(message).in_file(&settings.state));
        }
    }
    let list = first_list(
        settings,
        &data,
        list,
        saved.as_ref().map(|(saved, _)| saved),
    );
    let features = list.len();
    let sums = match site.kind() {
        GossipTask::Completion => 64,
        GossipTask::Multitask => features * (features + 3) / 2 + 64,
    };
    let id = name_id(&settings.name);
    let accord = match &saved {
        Some((saved, _)) => Accord::restore(id, saved.least, saved.results.clone()),
        None => Accord::new(id),
    };
    let fixed = Fixed {
        name: settings.name.clone(),
        id,
        boot: boot(id),
        rank: site.dimension(),
        rate: settings.rate,
        sums: 4 * sums,
        most_names: settings.most_names.max(features),
        may_grow: site.kind() == GossipTask::Completion,
    };
    let shared = Arc::new(Shared::new(fixed, accord, list, settings.exchange_names));
    if let Some((saved, _)) = &saved {
        let mut inner = shared.lock();
        (inner.messages, inner.bytes) = (saved.messages, saved.bytes);
        inner.round = saved.round;
    }
    shared.set_neighbors(&neighbors);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::failure(format!("no runtime: {e}")))?;
    let tls = Arc::new(RwLock::new(tls));
    let listener = runtime.block_on(TcpListener::bind(&settings.listen));
    let listener = listener
        .map_err(|e| Error::failure(format!("cannot listen on `{}`: {e}", settings.listen)))?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(name = %settings.name, %address, "listening");
    }
    let door = Door {
        shared: shared.clone(),
        tls: tls.clone(),
        observers: settings.observers.clone(),
        deadline: settings.deadline,
    };
    runtime.spawn(door.serve(listener));
    if let Some(address) = settings.metrics {
        runtime.block_on(metrics::listen(address, shared.clone(), &runtime))?;
    }
    let reload = Arc::new(AtomicBool::new(false));
    watch_reload(&runtime, reload.clone(), shared.clone());
    let network = Network {
        caller: Caller::new(shared.clone(), tls),
        shared,
        settings,
        runtime: &runtime,
        stop,
        reload,
    };
    let outcome = live(&network, &folder, site, data, saved);
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

/// Another number for each process.
fn boot(id: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos() as u64);
    rankfold::random::splitmix64(now ^ id ^ u64::from(std::process::id()) << 40) | 1
}

#[cfg(unix)]
fn watch_reload(runtime: &Runtime, reload: Arc<AtomicBool>, shared: Arc<Shared>) {
    use tokio::signal::unix::{SignalKind, signal};
    let _inside = runtime.enter();
    if let Ok(mut hangups) = signal(SignalKind::hangup()) {
        runtime.spawn(async move {
            while hangups.recv().await.is_some() {
                reload.store(true, Ordering::SeqCst);
                shared.tell();
            }
        });
    }
}

#[cfg(not(unix))]
fn watch_reload(_: &Runtime, _: Arc<AtomicBool>, _: Arc<Shared>) {}

/// The list that an agent begins with.
fn first_list(
    settings: &Settings,
    data: &SiteData<'_>,
    given: Option<Ids>,
    saved: Option<&Saved>,
) -> Ids {
    let sorted = |ids: &Ids| -> Ids {
        let mut names: Vec<&str> = ids.iter().collect();
        names.sort_unstable();
        let mut out = Ids::new();
        names.into_iter().for_each(|name| _ = out.intern(name));
        out
    };
    match (given, settings.exchange_names) {
        (Some(list), _) => sorted(&list),
        (None, false) => sorted(data.names()),
        (None, true) => {
            let mut list = Ids::new();
            if let Some(names) = saved.and_then(|saved| saved.names.as_ref()) {
                names.iter().for_each(|name| _ = list.intern(name));
            }
            sorted(data.names())
                .iter()
                .for_each(|name| _ = list.intern(name));
            list
        }
    }
}

fn live<'a>(
    network: &Network<'_>,
    folder: &StateFolder,
    site: &Site,
    data: SiteData<'a>,
    saved: Option<(Saved, Vec<u8>)>,
) -> Result<Outcome<'a>> {
    let shared = &network.shared;
    let mut sums = NetworkSums::meet(network)?;
    let list = shared.lock().list.clone();
    let state = saved.as_ref().map(|(saved, bytes)| {
        let ids: Vec<u64> = saved.neighbors.iter().map(|name| name_id(name)).collect();
        (ids, bytes)
    });
    let before = saved.as_ref().and_then(|(saved, _)| saved.names.as_ref());
    let grown = before.is_some_and(|names| names.len() != list.len());
    // A state has the list that it was saved with.
    let first = match (before, grown) {
        (Some(names), true) => {
            let mut first = Ids::new();
            list.iter()
                .take(names.len())
                .for_each(|name| _ = first.intern(name));
            first
        }
        _ => list,
    };
    let member = site.member(
        shared.fixed.id,
        data,
        &first,
        &mut sums,
        state
            .as_ref()
            .map(|(neighbors, bytes)| SiteState { neighbors, bytes }),
    )?;
    let told = sums.told;
    let mut life = Life {
        network,
        folder,
        site,
        member,
        saved: saved.map(|(saved, _)| saved).unwrap_or_default(),
        order: Vec::new(),
        turn: 0,
        before: f64::INFINITY,
        rest: 0,
        near: 0,
        saved_at: Instant::now(),
        moved: true,
    };
    life.saved.name = network.settings.name.clone();
    life.saved.task = site.kind().name().into();
    life.saved.rank = site.dimension();
    let fresh = life.saved.round == 0;
    life.note_neighbors();
    life.hear()?;
    if fresh && told {
        life.join()?;
    }
    life.publish();
    life.save()?;
    let stopped = life.rounds()?;
    if stopped != Stop::Interrupted {
        life.saved.done = true;
        shared.lock().done = true;
        life.answer_others()?;
    }
    life.finish(stopped)
}

/// An agent at work.
struct Life<'l, 'n, 'a> {
    network: &'l Network<'n>,
    folder: &'l StateFolder,
    site: &'l Site,
    member: Member<'a>,
    saved: Saved,
    /// Neighbors in the order of their turns.
    order: Vec<String>,
    turn: usize,
    before: f64,
    /// Rounds in which nothing happened, and in which all were near.
    rest: u64,
    near: u64,
    saved_at: Instant,
    moved: bool,
}

impl<'a> Life<'_, '_, 'a> {
    fn shared(&self) -> &Shared {
        &self.network.shared
    }

    /// Follows the list of neighbors.
    fn note_neighbors(&mut self) {
        let now: Vec<String> = self.shared().lock().neighbors.keys().cloned().collect();
        if now != self.order || self.saved.neighbors != now {
            let ids: Vec<u64> = now.iter().map(|name| name_id(name)).collect();
            self.member.set_neighbors(&ids);
            self.saved.neighbors.clone_from(&now);
            self.order = now;
        }
    }

    /// Takes what came in.
    fn hear(&mut self) -> Result<()> {
        let longer = {
            let inner = self.shared().lock();
            (inner.list.len() > self.member.dimension()).then(|| inner.list.clone())
        };
        if let Some(list) = longer {
            tracing::info!(items = list.len(), "the list has grown");
            self.member.grow(&list)?;
            self.publish();
        }
        for (from, round, subspace) in self.shared().take_inbox() {
            if !self.member.hear(from, round, subspace) {
                self.shared().refuse("size");
            }
        }
        Ok(())
    }

    /// Starts where a neighbor is that has learned for a while.
    fn join(&mut self) -> Result<()> {
        self.network.ask_all()?;
        let found = {
            let inner = self.shared().lock();
            let rounds = inner.neighbors.values().filter(|n| n.round >= Some(JOINS));
            rounds.max_by_key(|n| n.round).map(|n| n.name.clone())
        };
        let news = self.shared().take_inbox();
        let from = found.as_ref().map(|name| name_id(name));
        for (id, round, subspace) in news {
            if Some(id) == from && self.member.start_from(&subspace) {
                tracing::info!(neighbor = ?found, round, "started where a neighbor is");
            }
            self.member.hear(id, round, subspace);
        }
        Ok(())
    }

    fn publish(&mut self) {
        let (snapshot, cost) = (self.member.snapshot(), self.member.cost());
        self.shared().publish(snapshot, self.saved.round, cost);
    }

    /// Distances to neighbors; the largest where all have been heard.
    fn measure(&mut self) -> Option<f64> {
        let mut inner = self.network.shared.lock();
        let mut largest = Some(0.0);
        for neighbor in inner.neighbors.values_mut() {
            neighbor.distance = self.member.distance_to(neighbor.id);
            largest = match (largest, neighbor.distance) {
                (Some(largest), Some(distance)) => Some(f64::max(largest, distance)),
                _ => None,
            };
        }
        largest
    }

    fn save(&mut self) -> Result<()> {
        {
            let inner = self.network.shared.lock();
            self.saved.results = inner.accord.results();
            self.saved.least = inner.accord.least();
            (self.saved.messages, self.saved.bytes) = (inner.messages, inner.bytes);
            let done = inner.neighbors.values().filter(|n| n.done);
            self.saved.neighbors_done = done.map(|n| n.name.clone()).collect();
            self.saved.names = self.network.settings.exchange_names.then(|| {
                let names = inner.list.iter().take(self.member.dimension());
                names.map(str::to_owned).collect()
            });
        }
        self.saved_at = Instant::now();
        self.folder.save(&self.saved, &self.member.checkpoint())
    }

    /// Saves now and then; where that fails the agent goes on.
    fn save_now_and_then(&mut self) {
        if self.saved_at.elapsed() >= self.network.settings.save_every
            && let Err(error) = self.save()
        {
            tracing::error!("the state was not saved, learning goes on: {error}");
        }
    }

    /// All rounds; why they end.
    fn rounds(&mut self) -> Result<Stop> {
        let settings = self.network.settings;
        loop {
            if self.network.go_on().is_err() {
                return Ok(Stop::Interrupted);
            }
            if settings
                .rounds
                .is_some_and(|rounds| self.saved.round >= rounds)
            {
                return Ok(Stop::Steps);
            }
            self.note_neighbors();
            self.next_exchange();
            self.hear()?;
            self.step();
            if self.saved.round.is_multiple_of(100) || self.saved.round == 1 {
                let cost = self.member.cost();
                tracing::info!(round = self.saved.round, cost, "learning");
            }
            let largest = self.measure();
            self.near = match (settings.agreed, largest) {
                (Some(near), Some(largest)) if largest <= near && self.rest_soon() => self.near + 1,
                _ => 0,
            };
            if self.near >= AGREED_ROUNDS {
                return Ok(Stop::Converged);
            }
            self.save_now_and_then();
            self.pause();
        }
    }

    /// One step, seen by all.
    fn step(&mut self) {
        let slow = self.network.settings.slow;
        if !slow.is_zero() {
            std::thread::sleep(slow);
        }
        self.moved = self.member.step();
        self.saved.round += 1;
        self.publish();
        let cost = self.member.cost();
        let still = !self.moved || (self.before - cost).abs() <= AT_REST * cost.abs();
        self.rest = if still { self.rest + 1 } else { 0 };
        self.before = cost;
    }

    /// Whether the first steps are over, which have another cost.
    fn rest_soon(&self) -> bool {
        self.saved.round > AGREED_ROUNDS
    }

    /// An agent at rest that has no end does not keep the others busy.
    fn pause(&self) {
        let settings = self.network.settings;
        let endless = settings.rounds.is_none() && settings.agreed.is_none();
        if endless && self.rest >= RESTING {
            let longer = 2u32.saturating_pow((self.rest - RESTING).min(12) as u32);
            let inner = self.shared().lock();
            self.shared().wait(inner, (REST[0] * longer).min(REST[1]));
        }
    }

    /// Waits until the neighbor whose turn it is has said something, or another one.
    fn next_exchange(&mut self) {
        let count = self.order.len();
        let since = Instant::now();
        let mut asked: Option<String> = None;
        if count == 0 {
            return;
        }
        loop {
            let now = Instant::now();
            let mut inner = self.network.shared.lock();
            // In the order of turns, whoever has said something.
            let mut who = None;
            for k in 0..count {
                let at = (self.turn + k) % count;
                let Some(neighbor) = inner.neighbors.get_mut(&self.order[at]) else {
                    continue;
                };
                if neighbor.fresh {
                    neighbor.fresh = false;
                    self.turn = at + 1;
                    return;
                }
                let free = !neighbor.in_flight && neighbor.next_try <= now;
                // Who was asked and has nothing new is not asked again in this round.
                if who.is_none() && free && asked.as_ref() != Some(&neighbor.name) {
                    who = Some(at);
                }
            }
            let patience = match &asked {
                None => ALONE,
                Some(name) => {
                    let took = inner.neighbors.get(name).map_or(ALONE, |n| 4 * n.took);
                    took.clamp(Duration::from_millis(20), ALONE)
                }
            };
            let answered = asked
                .as_ref()
                .and_then(|name| inner.neighbors.get(name))
                .is_some_and(|n| !n.in_flight && n.next_try <= now);
            // An answer without a subspace, or none in time: the step must not wait for it.
            let others = asked.is_none() && who.is_none();
            if answered || (since.elapsed() > patience && !others) || since.elapsed() > ALONE {
                return;
            }
            match who.filter(|_| asked.is_none()) {
                Some(at) => {
                    drop(inner);
                    let name = self.order[at].clone();
                    self.turn = at + 1;
                    self.network.spawn_exchange(&name);
                    asked = Some(name);
                }
                None => self.network.shared.wait(inner, Duration::from_millis(10)),
            }
            if (self.network.stop)() {
                return;
            }
        }
    }

    /// After its rounds: answers until all neighbors have made theirs or are silent.
    fn answer_others(&mut self) -> Result<()> {
        let settings = self.network.settings;
        self.save()?;
        let known_done = std::mem::take(&mut self.saved.neighbors_done);
        let since = Instant::now();
        let mut probed = Instant::now() - ALONE;
        self.network.ask_all().ok();
        tracing::info!(round = self.saved.round, "done, answering others");
        loop {
            if self.network.go_on().is_err() {
                return Ok(());
            }
            self.note_neighbors();
            self.hear()?;
            let (mut waiting, mut news) = (Vec::new(), false);
            {
                let mut inner = self.network.shared.lock();
                for neighbor in inner.neighbors.values_mut() {
                    let gone = neighbor.heard_at.is_none() && known_done.contains(&neighbor.name);
                    let over = neighbor.done || neighbor.leaving || gone;
                    news |= std::mem::take(&mut neighbor.fresh) && !over;
                    if !over && !neighbor.silent(since, settings.silence) {
                        waiting.push(neighbor.name.clone());
                    }
                }
            }
            if waiting.is_empty() {
                break;
            }
            if news {
                // Who still learns should not be held back by who has stopped.
                self.member.step();
                self.saved.followed += 1;
                self.publish();
                self.measure();
                self.save_now_and_then();
            }
            if probed.elapsed() >= ALONE {
                probed = Instant::now();
                waiting
                    .iter()
                    .for_each(|name| self.network.spawn_exchange(name));
            }
            if !news {
                let inner = self.network.shared.lock();
                self.network.shared.wait(inner, Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Says farewell, saves, and gives what there is.
    fn finish(mut self, stopped: Stop) -> Result<Outcome<'a>> {
        self.hear()?;
        self.measure();
        if stopped == Stop::Interrupted {
            self.shared().lock().leaving = true;
        }
        self.save()?;
        self.network.farewell();
        self.save()?;
        let status = self.shared().status();
        let ending = Ending {
            name: self.saved.name.clone(),
            neighbors: self.order.len(),
            stopped,
            rounds: self.saved.round,
            messages: self.saved.messages,
            bytes: self.saved.bytes,
        };
        tracing::info!(round = self.saved.round, stopped = %stopped, "ended");
        let _ = self.site;
        Ok(Outcome {
            member: self.member,
            ending,
            status,
        })
    }
}
