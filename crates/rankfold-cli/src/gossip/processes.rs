//! `rankfold gossip run --network`: every agent a process of its own on this machine, with
//! trial keys. The quickest way to see a network.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rankfold::data::{Ratings, TaskColumns, TaskRows};
use rankfold::gossip::{Alone, Rehearsal, name_id};
use rankfold::manifold::Grassmann;
use rankfold::options::Options;
use rankfold::task::{Ending, Fit, Gossip, GossipFit, Plan, Site, SiteData, Stop};
use rankfold::{Error, Model, Real, Result};
use rankfold_agent::Identity;
use serde_json::Value;
use tempfile::TempDir;

use super::rehearse::{Director, Player};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// The data of all agents.
pub enum Whole<'a> {
    /// Ratings, by users.
    Ratings(&'a Ratings),
    /// Rows of tasks, and their columns.
    Tasks(&'a TaskRows, &'a TaskColumns),
}

/// What is asked for.
pub struct Wish<'a> {
    pub gossip: &'a Gossip,
    pub plan: Plan,
    pub faults: Option<&'a Rehearsal>,
}

/// Options of a whole run that agents have as well.
const COMMON: [&str; 14] = [
    "task",
    "rank",
    "init",
    "rho",
    "regularization",
    "center",
    "clip",
    "standardize",
    "no_bias",
    "no_common",
    "common_ridge",
    "trust",
    "seed",
    "threads",
];

/// The options of a whole run that agents on a network do not have.
pub const NOT_HERE: [&str; 16] = [
    "schedule",
    "step_a",
    "step_b",
    "cross_validate",
    "geometry",
    "precondition",
    "as_published",
    "curve_every",
    "curve",
    "curve_test",
    "curve_subspace",
    "checkpoint",
    "checkpoint_every",
    "resume",
    "mean_only",
    "valid",
];

/// Processes that end with this one.
struct Children(Vec<Player>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in self.0.iter_mut().filter_map(|player| player.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn name(agent: usize) -> String {
    format!("agent-{agent}")
}

/// Runs all agents, and gives the model of their mean and those of each.
pub fn run<R: Real>(wish: &Wish<'_>, whole: &Whole<'_>, output: &Output) -> Result<GossipFit> {
    let agents = wish.plan.parts.len();
    let folder = TempDir::new().map_err(|e| Error::failure(format!("no folder: {e}")))?;
    let at = |file: String| folder.path().join(file);
    write_parts(whole, &wish.plan.parts, folder.path())?;
    let names: Vec<String> = (0..agents).map(name).collect();
    let keys = at("keys".into());
    rankfold_agent::make(&keys, &names, 2)?;
    let ports = free_ports(agents)?;
    let program = std::env::current_exe()
        .map_err(|e| Error::failure(format!("this program is not found: {e}")))?;
    let interrupt = Interrupt::watch();
    let edges = &wish.plan.edges;
    let director = wish
        .faults
        .map(|script| Director::new(script, edges, &ports));
    let mut director = director.transpose()?;
    let degree = |i: usize| edges.iter().filter(|(a, b)| *a == i || *b == i).count() as u64;
    let rounds = |i: usize| wish.plan.uses * degree(i).max(1);
    let commands: Vec<Vec<OsString>> = (0..agents)
        .map(|i| {
            let [certificate, key] = rankfold_agent::files(&keys, &name(i));
            let mut words: Vec<OsString> = ["--json", "gossip", "agent"].map(Into::into).into();
            words.push(wish.gossip.kind().name().into());
            words.push(at(format!("{i}.jsonl")).into());
            for (flag, value) in [
                ("--output", at(format!("{i}.safetensors"))),
                ("--authority", keys.join("authority.pem")),
                ("--certificate", certificate),
                ("--key", key),
                ("--state", at(format!("state-{i}"))),
                ("--items", at("items.txt".into())),
            ] {
                words.extend([flag.into(), value.into()]);
            }
            let mut more = vec!["--name".into(), name(i), "--listen".into()];
            more.push(format!("127.0.0.1:{}", ports[i]));
            for &(a, b) in edges.iter().filter(|(a, b)| *a == i || *b == i) {
                let other = a + b - i;
                let line = director.as_ref().and_then(|d| d.port(i, other));
                let port = line.unwrap_or(ports[other]);
                more.extend([
                    "--neighbor".into(),
                    format!("{}=127.0.0.1:{port}", name(other)),
                ]);
            }
            more.extend(["--rounds".into(), rounds(i).to_string()]);
            more.extend(flags(wish.gossip));
            more.extend(director.iter().flat_map(|d| d.flags(i)));
            if let Whole::Tasks(_, columns) = whole {
                more.extend(["--task-column".into(), columns.task.clone()]);
                more.extend(["--target-column".into(), columns.target.clone()]);
            }
            words.extend(more.into_iter().map(OsString::from));
            words
        })
        .collect();
    let mut start = |i: usize| -> Result<Child> {
        Command::new(&program)
            .args(&commands[i])
            .stdin(Stdio::null())
            .stdout(Stdio::from(file(&at(format!("{i}.out")))?))
            .stderr(Stdio::from(file(&at(format!("{i}.err")))?))
            .spawn()
            .map_err(|e| Error::failure(format!("{} did not start: {e}", name(i))))
    };
    let mut children = Children(Vec::new());
    for i in 0..agents {
        let [certificate, key] = rankfold_agent::files(&keys, &name(i));
        let late = director.as_ref().is_some_and(|d| d.is_away(i));
        children.0.push(Player {
            child: (!late).then(|| start(i)).transpose()?,
            identity: Identity {
                authority: keys.join("authority.pem"),
                certificate,
                key,
            },
            port: ports[i],
            rounds: rounds(i),
        });
    }
    output.note(&format!(
        "{agents} processes, answering on 127.0.0.1:{}",
        ports[0]
    ));
    let words = |i| fs::read_to_string(at(format!("{i}.err"))).unwrap_or_default();
    while running(&mut children.0, director.as_ref(), &words)? {
        if interrupt.requested() {
            return Err(Error::interrupted("interrupted: nothing was written"));
        }
        if let Some(director) = &mut director {
            director.act(&mut children.0, &mut start)?;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let printed = (0..agents).map(|i| {
        let text = fs::read_to_string(at(format!("{i}.out"))).unwrap_or_default();
        serde_json::from_str(text.trim())
            .map_err(|_| Error::failure(format!("{} printed no result", name(i))))
    });
    let printed = printed.collect::<Result<Vec<Value>>>()?;
    let states = (0..agents).map(|i| rankfold_agent::subspace_of(&at(format!("state-{i}"))));
    let subspaces = states.collect::<Result<Vec<_>>>()?;
    let mean = Grassmann::mean(&subspaces)
        .ok_or_else(|| Error::failure("the subspaces of the agents have no mean"))?;
    let models = (0..agents).map(|i| Model::load(at(format!("{i}.safetensors"))));
    let models = models.collect::<Result<Vec<Model>>>()?;
    let mut fit = whole_model::<R>(wish, whole, &mean, &printed)?;
    let distance = |&(a, b): &(usize, usize)| Grassmann::distance(&subspaces[a], &subspaces[b]);
    let consensus = wish.plan.edges.iter().map(distance).fold(0.0, f64::max);
    describe(&mut fit, wish, &printed, consensus);
    Ok(GossipFit::new(fit, models))
}

fn file(path: &Path) -> Result<fs::File> {
    fs::File::create(path).map_err(|e| Error::writing(path, &e))
}

/// The options that agents share, as flags.
fn flags(gossip: &Gossip) -> Vec<String> {
    let mut out = Vec::new();
    for name in COMMON.iter().filter(|name| **name != "task") {
        let Some(text) = given(gossip, name) else {
            continue;
        };
        out.push(crate::table::flag(name));
        if text != "true" {
            out.push(text);
        }
    }
    out
}

/// The text of an option that is not at its default; the rank always, because its default is
/// lowered to the data.
fn given(gossip: &Gossip, name: &str) -> Option<String> {
    let text = gossip.get(name)?;
    let usual = Gossip::default().get(name);
    (name == "rank" || usual.as_ref() != Some(&text)).then_some(text)
}

/// Ports that are free now.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    let bound = (0..count).map(|_| TcpListener::bind("127.0.0.1:0"));
    let bound: std::io::Result<Vec<TcpListener>> = bound.collect();
    let ports = bound.and_then(|all| {
        all.iter()
            .map(|one| one.local_addr().map(|address| address.port()))
            .collect()
    });
    ports.map_err(|e| Error::failure(format!("no free port: {e}")))
}

/// The data of each agent, as JSON lines, and the list of items or features.
fn write_parts(whole: &Whole<'_>, parts: &[usize], folder: &Path) -> Result<()> {
    let writing = |path: &PathBuf| {
        let path = path.clone();
        move |e: std::io::Error| Error::writing(&path, &e)
    };
    let list = folder.join("items.txt");
    let ids = match whole {
        Whole::Ratings(ratings) => &ratings.items,
        Whole::Tasks(rows, ..) => &rows.features,
    };
    let mut out = std::io::BufWriter::new(file(&list)?);
    for id in ids.iter() {
        if id.contains(['\n', '\r']) {
            let message = format!("`{id}` has a line break, which a list of names cannot hold");
            return Err(Error::input(message));
        }
        writeln!(out, "{id}").map_err(writing(&list))?;
    }
    out.flush().map_err(writing(&list))?;
    let mut first = 0;
    for (i, part) in parts.iter().enumerate() {
        let path = folder.join(format!("{i}.jsonl"));
        let mut out = std::io::BufWriter::new(file(&path)?);
        let own = first..first + part;
        first += part;
        match whole {
            Whole::Ratings(ratings) => {
                let rows = ratings.entries.part(rankfold::batch::Part::All).rows;
                for user in own {
                    let (items, values) = rows.line(user);
                    for (item, value) in items.iter().zip(values) {
                        let line = serde_json::json!({
                            "user": ratings.users.get(user as u32),
                            "item": ratings.items.get(*item),
                            "rating": value,
                        });
                        writeln!(out, "{line}").map_err(writing(&path))?;
                    }
                }
            }
            Whole::Tasks(rows, ..) => {
                for row in (0..rows.len()).filter(|&row| own.contains(&(rows.task[row] as usize))) {
                    let features: serde_json::Map<String, Value> = rows
                        .rows
                        .row(row)
                        .iter()
                        .map(|(j, v)| (rows.features.get(j).to_owned(), v.into()))
                        .collect();
                    let line = serde_json::json!({
                        "task": rows.names.get(rows.task[row]),
                        "row": features,
                        "target": rows.targets[row],
                    });
                    writeln!(out, "{line}").map_err(writing(&path))?;
                }
            }
        }
        out.flush().map_err(writing(&path))?;
    }
    Ok(())
}

/// Whether an agent is at work or will be. Where one fails, its words are the error.
fn running(
    players: &mut [Player],
    director: Option<&Director<'_>>,
    words: &dyn Fn(usize) -> String,
) -> Result<bool> {
    let mut running = false;
    for (i, player) in players.iter_mut().enumerate() {
        let Some(child) = &mut player.child else {
            running |= director.is_some_and(|d| d.is_away(i));
            continue;
        };
        match child.try_wait() {
            Ok(None) => running = true,
            Ok(Some(status)) if status.success() => {}
            Ok(Some(_)) => {
                let words = words(i);
                let json: Option<Value> = serde_json::from_str(words.trim()).ok();
                let message = json
                    .as_ref()
                    .and_then(|json| json["error"]["message"].as_str())
                    .unwrap_or(words.trim());
                return Err(Error::failure(format!("{}: {message}", name(i))));
            }
            Err(e) => return Err(Error::failure(format!("{}: {e}", name(i)))),
        }
    }
    Ok(running)
}

/// The model of all users or tasks in the mean subspace, with what the agents agreed on.
fn whole_model<R: Real>(
    wish: &Wish<'_>,
    whole: &Whole<'_>,
    mean: &rankfold::faer::Mat<f64>,
    printed: &[Value],
) -> Result<Fit> {
    let mut site = Site::default();
    for name in COMMON {
        if let Some(text) = given(wish.gossip, name) {
            let set = site.set(name, &text);
            set.map_err(|e| Error::option(name, e.message))?;
        }
    }
    // The start does not matter, and this one costs nothing.
    let mut agreed = vec![("init", "shared".to_owned())];
    for key in ["rho", "regularization", "center", "standardize"] {
        match &printed[0][key] {
            Value::Number(number) => agreed.push((key, number.to_string())),
            Value::String(text) => agreed.push((key, text.clone())),
            _ => {}
        }
    }
    for (name, text) in agreed {
        site.set(name, &text)
            .map_err(|e| Error::option(name, e.message))?;
    }
    let ids = match whole {
        Whole::Ratings(ratings) => &ratings.items,
        Whole::Tasks(rows, _) => &rows.features,
    };
    // Agents sort their list.
    let mut names: Vec<&str> = ids.iter().collect();
    names.sort_unstable();
    let mut sorted = rankfold::Ids::new();
    names.into_iter().for_each(|name| _ = sorted.intern(name));
    let data = match whole {
        Whole::Ratings(ratings) => SiteData::Ratings((*ratings).clone()),
        Whole::Tasks(rows, columns) => SiteData::Tasks(rows, columns),
    };
    let mut member = site.member(name_id("mean"), data, &sorted, &mut Alone, None)?;
    if !member.start_from(mean) {
        return Err(Error::failure(
            "the mean of the subspaces has no finite cost",
        ));
    }
    let sum = |key: &str| {
        printed
            .iter()
            .filter_map(|one| one[key].as_u64())
            .sum::<u64>()
    };
    member.fit::<R>(&Ending {
        name: "mean".into(),
        neighbors: 0,
        stopped: Stop::Steps,
        rounds: printed
            .iter()
            .filter_map(|one| one["slots"].as_u64())
            .max()
            .unwrap_or(0),
        messages: sum("messages"),
        bytes: sum("bytes"),
    })
}

/// Tells of all agents where the model tells of one.
fn describe(fit: &mut Fit, wish: &Wish<'_>, printed: &[Value], consensus: f64) {
    let cost: f64 = printed.iter().filter_map(|one| one["cost"].as_f64()).sum();
    if let Some(card) = &mut fit.model.card.gossip {
        (card.cost, card.consensus) = (cost, consensus);
        card.agents = printed.len() as u64;
        card.graph = wish.plan.graph.into();
        card.name = None;
    }
    let init = wish.gossip.get("init").unwrap_or_default();
    fit.model.card.init.clone_from(&init);
    let more = &mut fit.report.more;
    more.insert("init".into(), init.into());
    more.remove("name");
    more.remove("neighbors");
    more.insert("network".into(), true.into());
    more.insert("cost".into(), cost.into());
    more.insert("consensus".into(), consensus.into());
    more.insert("graph".into(), wish.plan.graph.into());
    more.insert("agents".into(), printed.len().into());
    let sum = |key: &str| {
        printed
            .iter()
            .filter_map(|one| one[key].as_u64())
            .sum::<u64>()
    };
    fit.report.counters.updates = sum("updates");
    fit.report.counters.refused = sum("refused");
}
