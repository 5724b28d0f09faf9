//! A neighbor with valid keys that sends random subspaces, garbage and floods.

use crate::support::Site;
use rankfold::Ids;
use rankfold::batch::Part;
use rankfold::data::{RatingColumns, Ratings};
use rankfold::faer::Mat;
use rankfold::gossip::{Content, Letter, MessagePrecision, Parcel, Snapshot, Statement};
use rankfold::linalg::qf;
use rankfold::random::normal_at;
use rankfold_agent::{Identity, Line};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Who is sent nonsense, by the last agent of the site.
struct Victim {
    agent: usize,
    rank: usize,
    items: Ids,
}

/// The first agent, with this many items whose names are numbered.
fn victim(items: usize, rank: usize) -> Victim {
    let names = (0..items).map(|i| format!("i{i}"));
    Victim {
        agent: 0,
        rank,
        items: sorted(names.collect()),
    }
}

/// Agents sort their list.
fn sorted(mut names: Vec<String>) -> Ids {
    names.sort();
    let mut ids = Ids::new();
    names.iter().for_each(|name| _ = ids.intern(name));
    ids
}

#[test]
fn a_hostile_neighbor_does_little() {
    // The error of two agents by themselves.
    let quiet = Site::new(2);
    let given = [
        "--items",
        "items.txt",
        "--rounds",
        "80",
        "--center",
        "3",
        "--rho",
        "5",
        "--regularization",
        "0.01",
    ];
    quiet
        .start_all(&given)
        .iter_mut()
        .for_each(|agent| _ = agent.json());
    let quiet_error = quiet.held_out_error("0.safetensors", 0);
    // Agent 0 has agent 1 and a hostile neighbor, which was there from the start.
    let site = Site::new(3);
    let arguments = [
        site.arguments(0),
        vec!["--neighbor".into(), site.neighbor(2)],
    ]
    .concat();
    let more = [&given[..], &["--wait", "3", "--slow", "20"]].concat();
    let first = site.start("first", &arguments, &more);
    let path = [site.alone(1), vec!["--neighbor".into(), site.neighbor(0)]].concat();
    let second = site.start("second", &path, &more);
    let over = AtomicBool::new(false);
    let (mut first, mut second) = (first, second);
    std::thread::scope(|scope| {
        scope.spawn(|| send_nonsense(&site, &over, &victim(30, 2)));
        let json = first.json();
        over.store(true, Ordering::SeqCst);
        assert!(
            json["status"]["refused"]["garbage"].as_u64() > Some(0),
            "{json}"
        );
        second.json();
    });
    let error = site.held_out_error("0.safetensors", 0);
    assert!(error < quiet_error + 0.05, "{error} {quiet_error}");
}

/// The ratings of MovieLens 1M, one in ten held out, on a path of five agents. The hostile
/// neighbor is the one in the middle's. `cargo test --workspace --test network movielens --
/// --ignored --nocapture` runs it, with the data set in `$RANKFOLD_DATA`.
#[test]
#[ignore = "takes minutes and a data set"]
fn a_hostile_neighbor_does_little_on_movielens() {
    let data = std::env::var("RANKFOLD_DATA").unwrap_or("../../../shared/data".into());
    let data = std::path::absolute(data).unwrap();
    let ratings = data.join("movielens/ml-1m.csv.gz");
    let errors = [false, true].map(|hostile| movielens_error(&ratings, hostile));
    println!("quiet {:.5}, hostile {:.5}", errors[0], errors[1]);
    assert!(errors[1] < errors[0] + 0.01, "{errors:?}");
}

/// The error of five agents on held-out ratings of their own users.
fn movielens_error(ratings: &std::path::Path, hostile: bool) -> f64 {
    let site = Site::new(6);
    let done = site
        .command(&[
            "split",
            ratings.to_str().unwrap(),
            "-o",
            "ml",
            "--test",
            "0.1",
        ])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let mut items = std::collections::BTreeSet::new();
    for part in ["train", "test"] {
        let path = site.path(&format!("ml.{part}.csv.gz"));
        let read = Ratings::read(path, &RatingColumns::default()).unwrap();
        items.extend(read.items.iter().map(str::to_owned));
        let rows = read.entries.part(Part::All).rows;
        let mut parts = vec!["user,item,rating\n".to_owned(); 5];
        for user in 0..read.users.len() {
            let (of, values) = rows.line(user);
            let name = read.users.get(user as u32);
            let part: usize = name.parse().unwrap();
            for (item, value) in of.iter().zip(values) {
                parts[part % 5] += &format!("{name},{},{value}\n", read.items.get(*item));
            }
        }
        for (i, part_text) in parts.iter().enumerate() {
            let name = if part == "train" {
                format!("{i}.csv")
            } else {
                format!("test-{i}.csv")
            };
            site.write(&name, part_text);
        }
    }
    let items: Vec<String> = items.into_iter().collect();
    site.write("items.txt", &items.join("\n"));
    let given = "--items items.txt --center 3.58 --rho 4493.7 --regularization 0.01 --wait 5";
    let mut agents: Vec<_> = (0..5)
        .map(|i| {
            let mut arguments = site.alone(i);
            let neighbors = [i.wrapping_sub(1), i + 1].into_iter().filter(|&j| j < 5);
            let neighbors: Vec<usize> = neighbors.chain((i == 2).then_some(5)).collect();
            for &other in &neighbors {
                arguments.extend(["--neighbor".into(), site.neighbor(other)]);
            }
            let degree = neighbors.iter().filter(|&&j| j < 5).count();
            arguments.extend(["--rounds".into(), (100 * degree).to_string()]);
            let at = arguments.iter().position(|word| word == "--rank").unwrap();
            arguments[at + 1] = "5".into();
            let given: Vec<&str> = given.split_whitespace().collect();
            site.start(&site.names[i], &arguments, &given)
        })
        .collect();
    let over = AtomicBool::new(false);
    let target = Victim {
        agent: 2,
        rank: 5,
        items: sorted(items),
    };
    std::thread::scope(|scope| {
        if hostile {
            scope.spawn(|| send_nonsense(&site, &over, &target));
        }
        for agent in &mut agents {
            agent.json();
        }
        over.store(true, Ordering::SeqCst);
    });
    let (mut squares, mut count) = (0.0, 0.0);
    for i in 0..5 {
        let words = [
            "eval",
            &format!("{i}.safetensors"),
            &format!("test-{i}.csv"),
            "--json",
        ];
        let done = site.command(&words).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let (rmse, rows) = (json["metrics"]["rmse"].as_f64(), json["rows"].as_f64());
        squares += rmse.unwrap().powi(2) * rows.unwrap();
        count += rows.unwrap();
    }
    (squares / count).sqrt()
}

/// Random subspaces with right letters, and garbage in between.
fn send_nonsense(site: &Site, over: &AtomicBool, victim: &Victim) {
    let (keys, own) = (site.path("keys"), site.names.last().unwrap());
    let identity = Identity {
        authority: keys.join("authority.pem"),
        certificate: keys.join(format!("{own}.pem")),
        key: keys.join(format!("{own}.key")),
    };
    let address = format!("127.0.0.1:{}", site.ports[victim.agent]);
    let name = &site.names[victim.agent];
    let line = Line::new(&identity, name, &address, Duration::from_secs(20)).unwrap();
    let status = site.until(victim.agent, "rounds", |s| s["cost"].is_number());
    assert_eq!(status["items"], victim.items.len());
    // It has the list, as a neighbor has.
    let list = rankfold_agent::list_id(&victim.items);
    let (items, rank) = (victim.items.len(), victim.rank);
    for number in 1.. {
        if over.load(Ordering::SeqCst) {
            break;
        }
        let u = Mat::from_fn(items, rank, |i, j| normal_at(number, 1, i as u64, j as u64));
        let snapshot = Snapshot::new(&qf(&u).unwrap(), MessagePrecision::F64);
        let letter = Letter {
            boot: 9,
            number,
            // Now and then one that no clock comes to.
            round: if number % 7 == 0 { u64::MAX } else { number },
            done: true,
            leaving: false,
            list,
            rank: rank as u64,
            holds: (u64::MAX, u64::MAX),
            knows: u64::MAX,
            statement: Statement {
                stage: number % 5,
                depth: u64::MAX,
                least: 0,
                about: Some((
                    number % 3,
                    Content::Result(vec![1.0; (number % 4) as usize]),
                )),
            },
            first_name: u64::MAX,
            names: vec!["evil".into()],
            parcel: Some((0, Parcel::new(&snapshot, None).0)),
        };
        let bytes = letter.encode();
        let mut damaged = bytes.clone();
        damaged[number as usize % bytes.len()] ^= 0x55;
        let _ = line.exchange(damaged);
        let _ = line.exchange(bytes);
        std::thread::sleep(Duration::from_millis(5));
    }
}
