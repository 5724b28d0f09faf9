//! Agents that learn, stop, crash, join and leave.

use crate::support::Site;
use serde_json::Value;

const LISTED: [&str; 2] = ["--items", "items.txt"];

/// Keys that all results of an agent have, as those of `gossip run`.
const KEYS: [&str; 20] = [
    "format",
    "task",
    "learner",
    "rank",
    "steps",
    "updates",
    "refused",
    "seed",
    "stopped",
    "seconds",
    "model",
    "agents",
    "graph",
    "rho",
    "regularization",
    "slots",
    "cost",
    "consensus",
    "messages",
    "bytes",
];

#[test]
fn agents_on_a_path_come_to_models_of_their_own_users() {
    let site = Site::new(3);
    let mut agents = site.start_all(&["--items", "items.txt", "--rounds", "60"]);
    for (i, agent) in agents.iter_mut().enumerate() {
        let json = agent.json();
        assert!(KEYS.iter().all(|key| json.get(*key).is_some()), "{json}");
        assert_eq!(json["task"], "completion");
        assert_eq!(json["agents"], 3);
        assert_eq!((&json["users"], &json["items"]), (&20.into(), &30.into()));
        assert_eq!(
            (&json["slots"], &json["stopped"]),
            (&60.into(), &"steps".into())
        );
        assert_eq!(json["name"], site.names[i]);
        assert!(json["consensus"].as_f64().unwrap() < 0.3, "{json}");
        let error = site.held_out_error(&format!("{i}.safetensors"), i);
        assert!(error < 0.1, "{error}");
    }
}

#[test]
fn sites_learn_of_each_others_items_by_their_names() {
    let site = Site::new(2);
    // An item that only the second site has.
    let text = std::fs::read_to_string(site.path("1.csv")).unwrap();
    site.write("1.csv", &(text + "u20,rare,4.5\nu21,rare,1.5\n"));
    let more = [
        "--exchange-names",
        "--rounds",
        "40",
        "--message-precision",
        "f32",
    ];
    for agent in &mut site.start_all(&more) {
        assert_eq!(agent.json()["items"], 31);
    }
    // Without the option, and with other items, nothing is agreed on.
    let site = Site::new(2);
    let text = std::fs::read_to_string(site.path("1.csv")).unwrap();
    site.write("1.csv", &(text + "u20,rare,4.5\n"));
    let mut agents = site.start_all(&["--rounds", "40", "--wait", "5"]);
    let told = agents.iter_mut().map(|agent| agent.wait());
    let told: Vec<_> = told.collect();
    assert!(
        told.iter()
            .any(|(code, _, err)| *code == 2 && err.contains("--exchange-names")),
        "{told:?}"
    );
}

#[test]
fn a_killed_agent_goes_on_from_its_state() {
    let site = Site::new(3);
    let more = [
        "--items",
        "items.txt",
        "--rounds",
        "300",
        "--save-every",
        "0.05",
        "--slow",
        "10",
    ];
    let mut agents = site.start_all(&more);
    let before = site.until(1, "some rounds", |s| s["round"].as_u64() >= Some(30));
    agents[1].child.kill().unwrap();
    agents[1].child.wait().unwrap();
    // The others go on without it.
    let round = |s: &Value| s["round"].as_u64().unwrap();
    let here = round(&site.until(0, "an answer", |_| true));
    site.until(0, "rounds without the middle", |s| round(s) > here + 3);
    agents[1] = site.start("again", &site.arguments(1), &more);
    let after = site.until(1, "a return", |s| round(s) > 0 || s["cost"].is_number());
    assert!(round(&after) > 5, "{after} {before}");
    // It is heard again.
    let old = after["neighbors"]["site-0"]["received_bytes"]
        .as_u64()
        .unwrap();
    site.until(1, "news of a neighbor", |s| {
        s["neighbors"]["site-0"]["received_bytes"].as_u64().unwrap() > old
    });
    // A second process with this state is refused.
    let mut second = site.start("second", &site.arguments(1), &more);
    let (code, _, err) = second.wait();
    assert!(code == 2 && err.contains("another process"), "{code} {err}");
    for agent in &mut agents {
        assert_eq!(agent.json()["slots"], 300);
    }
}

#[test]
fn a_signal_leaves_a_state_and_a_model_and_others_go_on() {
    let site = Site::new(2);
    let endless = site.start("endless", &site.arguments(0), &LISTED);
    let mut endless = endless;
    let more = ["--items", "items.txt", "--agreed", "0.3", "--slow", "2"];
    let mut other = site.start("other", &site.arguments(1), &more);
    let status = site.until(0, "rounds", |s| s["round"].as_u64() >= Some(10));
    assert_eq!(
        (&status["format"], &status["name"]),
        (&1.into(), &"site-0".into())
    );
    let neighbor = &status["neighbors"]["site-1"];
    for key in [
        "distance",
        "last_round",
        "sent_bytes",
        "received_bytes",
        "failed",
    ] {
        assert!(neighbor.get(key).is_some(), "{status}");
    }
    assert!(status["refused"].is_object() && status["cost"].is_number());
    // The end of the other one, by agreement. It waits for nobody who has left.
    endless.signal("TERM");
    let (code, out, err) = endless.wait();
    assert_eq!((code, err.as_str()), (130, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["stopped"], "interrupted");
    assert!(site.path("0.safetensors").exists() && site.path("state-0/agent.state").exists());
    let json = other.json();
    assert!(
        json["stopped"] == "converged" || json["stopped"] == "steps",
        "{json}"
    );
    // Started again, it goes on from its rounds.
    let more = ["--items", "items.txt", "--rounds", "2"];
    let mut again = site.start("again", &site.alone(0), &more);
    let slots = again.json()["slots"].as_u64().unwrap();
    assert!(slots >= 10, "{slots}");
}

/// A third site joins two that learn; its neighbor is told by a signal.
#[test]
fn a_site_joins_a_running_network() {
    let site = Site::new(3);
    site.write(
        "neighbors.txt",
        &format!("# one a line\n{}\n", site.neighbor(0)),
    );
    let listed = ["--exchange-names"];
    let first = site.start(
        "first",
        &[site.alone(0), vec!["--neighbor".into(), site.neighbor(1)]].concat(),
        &listed,
    );
    let more = ["--exchange-names", "--neighbors", "neighbors.txt"];
    let second = site.start("second", &site.alone(1), &more);
    site.until(1, "rounds", |s| s["round"].as_u64() >= Some(30));
    let text = std::fs::read_to_string(site.path("2.csv")).unwrap();
    site.write("2.csv", &(text + "u40,new,4.5\nu41,new,2.5\n"));
    site.write(
        "neighbors.txt",
        &format!("{}\n{}\n", site.neighbor(0), site.neighbor(2)),
    );
    second.signal("HUP");
    let arguments = [site.alone(2), vec!["--neighbor".into(), site.neighbor(1)]].concat();
    let mut third = site.start("third", &arguments, &["--exchange-names", "--rounds", "40"]);
    site.until(1, "news of the third", |s| {
        s["neighbors"]["site-2"]["last_round"].as_u64() > Some(0)
    });
    // All subspaces grow.
    site.until(0, "a new item", |s| s["items"] == 31);
    // It need not wait for those who have no end: they leave.
    let (mut first, mut second) = (first, second);
    first.signal("TERM");
    second.signal("TERM");
    assert_eq!((first.wait().0, second.wait().0), (130, 130));
    let json = third.json();
    assert_eq!((&json["slots"], &json["items"]), (&40.into(), &31.into()));
    let error = site.held_out_error("2.safetensors", 2);
    assert!(error < 0.3, "{error}");
}
