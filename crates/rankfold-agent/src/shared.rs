//! What the step of an agent and its network share: letters in, letters out, and counters.
//!
//! The network answers at once with the last subspace that there is, so nobody waits for
//! anybody's step. All rules of who may say what are here, and nothing of sockets.

use rankfold::Ids;
use rankfold::faer::Mat;
use rankfold::gossip::{Accord, LAST_ROUND, Letter, Limits, Parcel, Refusal, Snapshot, name_id};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Names in a letter, and their bytes.
const NAMES: usize = 16_384;
const NAME_BYTES: usize = 1 << 20;

/// Bytes of a letter beside its subspace and sums.
const LETTER: usize = 4 << 20;

/// The first and the longest pause after an exchange that failed.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Letters whose subspaces may still be acknowledged.
const UNACKNOWLEDGED: usize = 4;

/// Earlier processes of a neighbor that are remembered, so that their letters stay late.
const BOOTS: usize = 8;

/// A neighbor as an agent sees it.
#[derive(Debug)]
pub(crate) struct Neighbor {
    pub name: String,
    pub id: u64,
    pub address: String,
    boot: Option<u64>,
    old_boots: VecDeque<u64>,
    /// The newest letter of it.
    number: u64,
    /// The subspace that is held of it, with the number of its letter.
    held: Option<(u64, Snapshot)>,
    /// Where its items are in the own list.
    places: Vec<u32>,
    /// How many own names it knows.
    knows: u64,
    /// Subspaces sent to it, and the one that it has said to hold.
    sent: VecDeque<(u64, Snapshot)>,
    acknowledged: Option<(u64, Snapshot)>,
    /// What it sent last, until the agent has taken it.
    inbox: Option<(u64, Mat<f64>)>,
    /// Whether it has said something since the agent last stepped with it.
    pub fresh: bool,
    pub round: Option<u64>,
    pub done: bool,
    pub leaving: bool,
    pub distance: Option<f64>,
    pub heard_at: Option<Instant>,
    pub in_flight: bool,
    pub next_try: Instant,
    pause: Duration,
    pub took: Duration,
    sent_bytes: u64,
    received_bytes: u64,
    failed: u64,
    /// For the rate limit: what may come at once, and since when.
    allowance: f64,
    counted_at: Instant,
}

impl Neighbor {
    fn new(name: &str, address: &str) -> Self {
        let now = Instant::now();
        Neighbor {
            name: name.to_owned(),
            id: name_id(name),
            address: address.to_owned(),
            boot: None,
            old_boots: VecDeque::new(),
            number: 0,
            held: None,
            places: Vec::new(),
            knows: 0,
            sent: VecDeque::new(),
            acknowledged: None,
            inbox: None,
            fresh: false,
            round: None,
            done: false,
            leaving: false,
            distance: None,
            heard_at: None,
            in_flight: false,
            next_try: now,
            pause: PAUSES[0],
            took: Duration::from_millis(200),
            sent_bytes: 0,
            received_bytes: 0,
            failed: 0,
            // All that may come at once, so that a first letter is heard.
            allowance: f64::INFINITY,
            counted_at: now,
        }
    }

    /// Whether nothing was heard of it for so long.
    pub fn silent(&self, since: Instant, how_long: Duration) -> bool {
        let last = self.heard_at.map_or(since, |at| at.max(since));
        last.elapsed() >= how_long
    }
}

/// What the network and the steps share.
pub(crate) struct Inner {
    pub neighbors: BTreeMap<String, Neighbor>,
    pub accord: Accord,
    pub list: Ids,
    /// What identifies the list; 0 where names are exchanged.
    list_id: u64,
    /// The subspace as it is sent.
    outgoing: Option<Snapshot>,
    pub round: u64,
    pub cost: Option<f64>,
    pub done: bool,
    pub leaving: bool,
    refused: BTreeMap<&'static str, u64>,
    number: u64,
    pub messages: u64,
    pub bytes: u64,
    partial: u64,
    pub stepped_at: Instant,
    /// What a neighbor said that the user should know, once.
    pub warnings: Vec<String>,
}

/// What an agent is made with.
pub(crate) struct Fixed {
    pub name: String,
    pub id: u64,
    pub boot: u64,
    pub rank: usize,
    /// Letters of a neighbor in a second.
    pub rate: f64,
    /// The most numbers of a sum.
    pub sums: usize,
    /// The most names that are learned from others.
    pub most_names: usize,
    /// Whether names may still come when agents learn.
    pub may_grow: bool,
}

/// The shared part of an agent.
pub(crate) struct Shared {
    pub fixed: Fixed,
    inner: Mutex<Inner>,
    news: Condvar,
}

/// Why a letter is not answered.
#[derive(Debug)]
pub(crate) struct Refused {
    pub why: &'static str,
    pub text: String,
}

fn refused(why: &'static str, text: impl Into<String>) -> Refused {
    Refused {
        why,
        text: text.into(),
    }
}

/// A list of names as a number: two agents talk only where these are the same.
pub fn list_id(list: &Ids) -> u64 {
    let id = list.iter().fold(list.len() as u64, |id, name| {
        rankfold::random::splitmix64(id ^ name_id(name))
            ^ name.bytes().fold(0, |sum, byte| {
                rankfold::random::splitmix64(sum ^ u64::from(byte))
            })
    });
    id | 1
}

impl Shared {
    pub fn new(fixed: Fixed, accord: Accord, list: Ids, exchange: bool) -> Self {
        let list_id = match exchange {
            true => 0,
            false => list_id(&list),
        };
        Shared {
            fixed,
            inner: Mutex::new(Inner {
                neighbors: BTreeMap::new(),
                accord,
                list,
                list_id,
                outgoing: None,
                round: 0,
                cost: None,
                done: false,
                leaving: false,
                refused: BTreeMap::new(),
                number: 0,
                messages: 0,
                bytes: 0,
                partial: 0,
                stepped_at: Instant::now(),
                warnings: Vec::new(),
            }),
            news: Condvar::new(),
        }
    }

    /// The shared part, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits for news, at most so long.
    pub fn wait(&self, inner: MutexGuard<'_, Inner>, how_long: Duration) {
        drop(self.news.wait_timeout(inner, how_long));
    }

    /// Tells the agent that there is something new.
    pub fn tell(&self) {
        self.news.notify_all();
    }

    /// Counts something that was refused.
    pub fn refuse(&self, why: &'static str) {
        *self.lock().refused.entry(why).or_default() += 1;
    }

    /// These neighbors from now on.
    pub fn set_neighbors(&self, wanted: &[(String, String)]) {
        let mut inner = self.lock();
        let gone: Vec<(String, u64)> = inner
            .neighbors
            .values()
            .filter(|n| !wanted.iter().any(|(name, _)| *name == n.name))
            .map(|n| (n.name.clone(), n.id))
            .collect();
        for (name, id) in gone {
            inner.neighbors.remove(&name);
            inner.accord.forget(id);
        }
        for (name, address) in wanted {
            let known = inner.neighbors.entry(name.clone());
            let neighbor = known.or_insert_with(|| Neighbor::new(name, address));
            neighbor.address = address.clone();
            let id = neighbor.id;
            inner.accord.invite(id);
        }
        drop(inner);
        self.tell();
    }

    /// The most bytes of a letter of this neighbor.
    pub fn limit(&self, name: &str) -> usize {
        let inner = self.lock();
        let rows = match inner.list_id {
            0 => inner
                .neighbors
                .get(name)
                .map_or(0, |n| n.places.len() + NAMES),
            _ => inner.list.len(),
        };
        let limits = Limits {
            rows,
            rank: self.fixed.rank,
        };
        LETTER + 16 * self.fixed.sums + Parcel::most(limits)
    }

    /// Whether this neighbor may say something now.
    pub fn admit(&self, name: &str) -> Result<(), Refused> {
        let mut inner = self.lock();
        let rate = self.fixed.rate;
        let Some(neighbor) = inner.neighbors.get_mut(name) else {
            return Err(refused("stranger", "not a neighbor"));
        };
        let now = Instant::now();
        let passed = now.duration_since(neighbor.counted_at).as_secs_f64();
        // Two seconds' worth may come at once, and one letter at any rate.
        let most = (2.0 * rate).max(1.0);
        neighbor.allowance = (neighbor.allowance + passed * rate).min(most);
        neighbor.counted_at = now;
        match neighbor.allowance >= 1.0 {
            true => {
                neighbor.allowance -= 1.0;
                Ok(())
            }
            false => Err(refused("rate", "too many letters in a second")),
        }
    }

    /// The letter for a neighbor, counted as sent.
    pub fn letter_to(&self, name: &str) -> Option<Vec<u8>> {
        let mut inner = self.lock();
        inner.number += 1;
        let (number, list_id) = (inner.number, inner.list_id);
        let Inner {
            neighbors,
            accord,
            list,
            outgoing,
            partial,
            ..
        } = &mut *inner;
        let neighbor = neighbors.get_mut(name)?;
        let parcel = outgoing.as_ref().map(|snapshot| {
            let base = neighbor.acknowledged.as_ref();
            let parcel = Parcel::new(snapshot, base.map(|(_, known)| known));
            let on = match (parcel.is_partial(), base) {
                (true, Some((on, _))) => *on,
                _ => 0,
            };
            *partial += u64::from(on > 0);
            neighbor.sent.push_back((number, snapshot.clone()));
            if neighbor.sent.len() > UNACKNOWLEDGED {
                neighbor.sent.pop_front();
            }
            (on, parcel.0)
        });
        let first = (neighbor.knows as usize).min(list.len());
        let mut room = NAME_BYTES;
        let fits = |name: &&str| {
            let left = room.checked_sub(name.len() + 16);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let names = (first..list.len())
            .take(NAMES)
            .map(|i| list.get(i as u32))
            .take_while(fits)
            .map(str::to_owned);
        let names: Vec<String> = match list_id {
            0 => names.collect(),
            _ => Vec::new(),
        };
        let statement = accord.offer(neighbor.id);
        let held = neighbor.held.as_ref().map_or(0, |(number, _)| *number);
        let (boot, knows) = (neighbor.boot.unwrap_or(0), neighbor.places.len() as u64);
        let letter = Letter {
            boot: self.fixed.boot,
            number,
            round: inner.round,
            done: inner.done,
            leaving: inner.leaving,
            list: inner.list_id,
            rank: self.fixed.rank as u64,
            holds: (boot, held),
            knows,
            statement,
            first_name: first as u64,
            names,
            parcel,
        };
        let bytes = letter.encode();
        if let Some(neighbor) = inner.neighbors.get_mut(name) {
            neighbor.sent_bytes += bytes.len() as u64;
        }
        inner.messages += 1;
        inner.bytes += bytes.len() as u64;
        Some(bytes)
    }

    /// Takes a letter of a neighbor, and gives the answer where it asks for one.
    pub fn receive(
        &self,
        name: &str,
        bytes: &[u8],
        asked: bool,
    ) -> Result<Option<Vec<u8>>, Refused> {
        let letter = Letter::decode(bytes).map_err(|why| refused("garbage", why.to_string()));
        // Any bytes of a neighbor are a sign of life, but only letters are heard.
        let letter = letter?;
        let taken = self.take(name, letter, bytes.len(), asked);
        self.tell();
        taken?;
        match asked {
            true => Ok(self.letter_to(name)),
            false => Ok(None),
        }
    }

    fn take(&self, name: &str, letter: Letter, size: usize, asked: bool) -> Result<(), Refused> {
        let mut inner = self.lock();
        let (list_id, rank) = (inner.list_id, self.fixed.rank);
        let Inner {
            neighbors,
            accord,
            list,
            warnings,
            ..
        } = &mut *inner;
        let Some(neighbor) = neighbors.get_mut(name) else {
            return Err(refused("stranger", "not a neighbor"));
        };
        if letter.round > LAST_ROUND {
            return Err(refused("garbage", Refusal::Round(letter.round).to_string()));
        }
        if letter.rank != rank as u64 {
            let text = format!("rank {} where {rank} is expected", letter.rank);
            return Err(refused("rank", text));
        }
        if letter.list != list_id {
            let text = "its list of items or features is another one: give all agents the same \
                        --items FILE, or --exchange-names";
            let warning = format!("neighbor `{name}`: {text}");
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
            return Err(refused("items", text));
        }
        if neighbor.boot != Some(letter.boot) {
            if neighbor.old_boots.contains(&letter.boot) {
                return Err(refused("stale", "a letter of an earlier process"));
            }
            if let Some(old) = neighbor.boot.replace(letter.boot) {
                neighbor.old_boots.push_back(old);
                if neighbor.old_boots.len() > BOOTS {
                    neighbor.old_boots.pop_front();
                }
            }
            // A new process knows nothing of what the last one was told.
            neighbor.number = 0;
            neighbor.held = None;
            neighbor.places.clear();
            neighbor.knows = 0;
            neighbor.sent.clear();
            neighbor.acknowledged = None;
            (neighbor.done, neighbor.leaving) = (false, false);
        }
        if letter.number <= neighbor.number {
            return Err(refused("stale", "a letter that is not the newest"));
        }
        neighbor.number = letter.number;
        neighbor.received_bytes += size as u64;
        neighbor.heard_at = Some(Instant::now());
        neighbor.pause = PAUSES[0];
        neighbor.next_try = Instant::now();
        neighbor.round = Some(letter.round);
        (neighbor.done, neighbor.leaving) = (letter.done, letter.leaving);
        // What of the own letters has come.
        if letter.holds.0 == self.fixed.boot
            && let Some(at) = neighbor.sent.iter().position(|s| s.0 == letter.holds.1)
        {
            neighbor.acknowledged = Some(neighbor.sent[at].clone());
            neighbor.sent.drain(..=at);
        } else if letter.holds.0 != self.fixed.boot || letter.holds.1 == 0 {
            neighbor.acknowledged = None;
        }
        neighbor.knows = letter.knows.min(list.len() as u64);
        if list_id == 0 {
            let before = list.len();
            let may_grow = self.fixed.may_grow || accord.stage() == 0;
            let most = self.fixed.most_names;
            let took = take_names(neighbor, list, &letter, most, may_grow);
            if list.len() > before || neighbor.knows < list.len() as u64 {
                accord.disturb();
            }
            took?;
        }
        let fits = match asked {
            true => accord.answer(neighbor.id, &letter.statement).1,
            false => accord.settle(neighbor.id, &letter.statement),
        };
        if !fits {
            return Err(refused("sums", "numbers of a sum that do not fit"));
        }
        let Some((base, parcel)) = letter.parcel else {
            return Ok(());
        };
        let places = match list_id {
            0 => Some(neighbor.places.clone()),
            _ => None,
        };
        let limits = Limits {
            rows: places.as_ref().map_or(list.len(), Vec::len),
            rank,
        };
        let known = neighbor.held.clone().filter(|(number, _)| *number == base);
        let (rows, number, round) = (list.len(), letter.number, letter.round);
        // The arithmetic is done while others may be heard.
        drop(inner);
        let opened = Parcel::open(&parcel, known.as_ref().map(|(_, s)| s), limits).and_then(|s| {
            let subspace = s.subspace(rows, places.as_deref())?;
            Ok((s, subspace))
        });
        let mut inner = self.lock();
        let Some(neighbor) = inner.neighbors.get_mut(name) else {
            return Ok(());
        };
        match opened {
            Ok((snapshot, subspace)) => {
                if neighbor.number == number {
                    neighbor.held = Some((number, snapshot));
                    neighbor.inbox = Some((round, subspace));
                    neighbor.fresh = true;
                }
                Ok(())
            }
            // It hears in the answer that nothing is held, and sends the whole.
            Err(Refusal::Unfounded) => {
                neighbor.held = None;
                *inner.refused.entry("unfounded").or_default() += 1;
                Ok(())
            }
            Err(Refusal::NotASubspace) => Err(refused(
                "not_orthonormal",
                Refusal::NotASubspace.to_string(),
            )),
            Err(Refusal::Size(found, expected)) => {
                Err(refused("size", Refusal::Size(found, expected).to_string()))
            }
            Err(why) => Err(refused("garbage", why.to_string())),
        }
    }

    /// An exchange with a neighbor that failed: the next one comes after a longer pause.
    pub fn failed(&self, name: &str) {
        let mut inner = self.lock();
        if let Some(neighbor) = inner.neighbors.get_mut(name) {
            neighbor.failed += 1;
            neighbor.next_try = Instant::now() + neighbor.pause;
            neighbor.pause = (2 * neighbor.pause).min(PAUSES[1]);
        }
    }

    /// Puts off the next exchange with a neighbor.
    pub fn put_off(&self, name: &str, how_long: Duration) {
        if let Some(neighbor) = self.lock().neighbors.get_mut(name) {
            neighbor.next_try = neighbor.next_try.max(Instant::now() + how_long);
        }
    }

    /// What came in since the last time: neighbors, their rounds and subspaces.
    pub fn take_inbox(&self) -> Vec<(u64, u64, Mat<f64>)> {
        let mut inner = self.lock();
        let news = inner.neighbors.values_mut().filter_map(|n| {
            let (round, subspace) = n.inbox.take()?;
            Some((n.id, round, subspace))
        });
        news.collect()
    }

    /// Shows where the agent is.
    pub fn publish(&self, snapshot: Snapshot, round: u64, cost: f64) {
        let mut inner = self.lock();
        inner.outgoing = Some(snapshot);
        inner.round = round;
        inner.cost = Some(cost);
        inner.stepped_at = Instant::now();
    }

    /// How the agent is, for `status`.
    pub fn status(&self) -> Value {
        let inner = self.lock();
        let neighbors: serde_json::Map<String, Value> = inner
            .neighbors
            .values()
            .map(|n| {
                let value = json!({
                    "distance": n.distance,
                    "last_round": n.round,
                    "sent_bytes": n.sent_bytes,
                    "received_bytes": n.received_bytes,
                    "failed": n.failed,
                    "done": n.done,
                    "leaving": n.leaving,
                    "seconds_since": n.heard_at.map(|at| at.elapsed().as_secs_f64()),
                });
                (n.name.clone(), value)
            })
            .collect();
        let phase = match (inner.cost, inner.done) {
            (None, _) => "agreeing on sums",
            (_, false) => "learning",
            (_, true) => "done, answering",
        };
        json!({
            "format": 1,
            "name": self.fixed.name,
            "round": inner.round,
            "cost": inner.cost,
            "neighbors": neighbors,
            "refused": inner.refused,
            "phase": phase,
            "stage": inner.accord.stage(),
            "items": inner.list.len(),
            "rank": self.fixed.rank,
            "messages": inner.messages,
            "bytes": inner.bytes,
            "partial_messages": inner.partial,
        })
    }
}

/// Adds names that a neighbor tells to the own list, and remembers where they are.
fn take_names(
    neighbor: &mut Neighbor,
    list: &mut Ids,
    letter: &Letter,
    most: usize,
    may_grow: bool,
) -> Result<(), Refused> {
    let known = neighbor.places.len() as u64;
    if letter.names.is_empty() || letter.first_name > known {
        return Ok(());
    }
    for name in letter
        .names
        .iter()
        .skip((known - letter.first_name) as usize)
    {
        let place = match list.find(name) {
            Some(place) => place,
            None if list.len() >= most => {
                let text = format!("more than {most} names");
                return Err(refused("names", text));
            }
            None if !may_grow => {
                let text = "a new feature after the scales were agreed on";
                return Err(refused("names", text));
            }
            None => list.intern(name),
        };
        neighbor.places.push(place);
    }
    Ok(())
}
