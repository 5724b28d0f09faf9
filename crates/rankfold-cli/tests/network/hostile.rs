//! A neighbor with valid keys that sends random subspaces, garbage and floods.

use crate::support::Site;
use rankfold::faer::Mat;
use rankfold::gossip::{Content, Letter, MessagePrecision, Parcel, Snapshot, Statement};
use rankfold::linalg::qf;
use rankfold::random::normal_at;
use rankfold_agent::{Identity, Line};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
        scope.spawn(|| send_nonsense(&site, &over));
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

/// Random subspaces with right letters, and garbage in between.
fn send_nonsense(site: &Site, over: &AtomicBool) {
    let keys = site.path("keys");
    let identity = Identity {
        authority: keys.join("authority.pem"),
        certificate: keys.join("site-2.pem"),
        key: keys.join("site-2.key"),
    };
    let address = format!("127.0.0.1:{}", site.ports[0]);
    let line = Line::new(&identity, "site-0", &address, Duration::from_secs(20)).unwrap();
    let list = site.until(0, "rounds", |s| s["cost"].is_number());
    assert_eq!(list["items"], 30);
    let mut list = None;
    for number in 1.. {
        if over.load(Ordering::SeqCst) {
            break;
        }
        let u = Mat::from_fn(30, 2, |i, j| normal_at(number, 1, i as u64, j as u64));
        let snapshot = Snapshot::new(&qf(&u).unwrap(), MessagePrecision::F64);
        let letter = Letter {
            boot: 9,
            number,
            // Now and then one that no clock comes to.
            round: if number % 7 == 0 { u64::MAX } else { number },
            done: true,
            leaving: false,
            list: list.unwrap_or(0),
            rank: 2,
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
        if let Ok(reply) = line.exchange(bytes) {
            list = Letter::decode(&reply).ok().map(|reply| reply.list);
        } else if list.is_none() {
            // The list of the agent is the hash that it refuses others for: guess it by asking.
            list = guess(site);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a neighbor who has the same list would say.
fn guess(_: &Site) -> Option<u64> {
    let mut ids = rankfold::Ids::new();
    let mut names: Vec<String> = (0..30).map(|i| format!("i{i}")).collect();
    names.sort();
    names.iter().for_each(|name| _ = ids.intern(name));
    Some(rankfold_agent::list_id(&ids))
}
