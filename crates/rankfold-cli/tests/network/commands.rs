//! `gossip keys`, `gossip run --network`, and what is refused.

use crate::support::Site;

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Runs a command that must fail, and gives its words.
#[track_caller]
fn refused(site: &Site, text: &str) -> String {
    let done = site.command(&words(text)).output().unwrap();
    let error = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{error}");
    error
}

#[test]
fn keys_are_made_once_and_names_are_added() {
    let site = Site::new(1);
    for file in ["authority.pem", "authority.key", "site-0.pem", "site-0.key"] {
        assert!(site.path("keys").join(file).exists());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(site.path("keys/site-0.key"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o77, 0);
    }
    assert!(refused(&site, "gossip keys keys --name site-0").contains("is there already"));
    assert!(refused(&site, "gossip keys keys --name x --name X").contains("twice"));
    assert!(refused(&site, "gossip keys keys --name a/b").contains("no name of an agent"));
    let before = std::fs::read(site.path("keys/authority.pem")).unwrap();
    let done = site
        .command(&words("gossip keys keys --name new"))
        .output()
        .unwrap();
    assert!(done.status.success());
    assert_eq!(
        std::fs::read(site.path("keys/authority.pem")).unwrap(),
        before
    );
    // A certificate that was added is one of the same authority.
    let mut agent = site.start(
        "new",
        &site.alone(0),
        &["--rounds", "2000000", "--observer", "new"],
    );
    let asked = || {
        let text = format!(
            "gossip status 127.0.0.1:{} --authority keys/authority.pem --certificate keys/new.pem \
             --key keys/new.key",
            site.ports[0]
        );
        let done = site.command(&words(&text)).output().unwrap();
        done.status
            .success()
            .then(|| String::from_utf8(done.stdout).unwrap())
    };
    site.until(0, "an answer", |_| true);
    let text = asked().expect("an observer is answered");
    assert!(text.starts_with("site-0: "), "{text}");
    agent.signal("INT");
    assert_eq!(agent.wait().0, 130);
}

#[test]
fn an_agent_alone_ends_with_a_model() {
    let site = Site::new(1);
    let mut agent = site.start("alone", &site.alone(0), &["--rounds", "5"]);
    let json = agent.json();
    assert_eq!((&json["agents"], &json["slots"]), (&1.into(), &5.into()));
    // One user, rank 1.
    site.write("0.csv", "user,item,rating\nu,a,1\nu,b,2\nu,c,4\n");
    let mut arguments = site.alone(0);
    arguments.iter_mut().for_each(|word| {
        if word == "state-0" {
            *word = "other".into();
        } else if word == "2" {
            *word = "1".into();
        }
    });
    let mut agent = site.start("one", &arguments, &["--rounds", "5"]);
    assert_eq!(agent.json()["users"], 1);
    site.write("0.csv", "user,item,rating\n");
    let mut agent = site.start("empty", &site.alone(0), &["--rounds", "5"]);
    let (code, _, err) = agent.wait();
    assert!(code == 2 && err.contains("no ratings"), "{code} {err}");
}

#[test]
fn wrong_options_are_refused_with_words() {
    let site = Site::new(2);
    let agent = |more: &str| format!("{} {more}", site.alone(0).join(" "));
    for (more, told) in [
        ("--neighbor site-0=127.0.0.1:1", "is the agent itself"),
        ("--neighbor x", "expected NAME=HOST:PORT"),
        ("--neighbor x=1:2 --neighbor X=1:3", "is given twice"),
        ("--rounds 0", "must be at least 1"),
        ("--metrics 10.0.0.1:80", "must be a loopback address"),
        ("--neighbors nothing.txt", "nothing.txt"),
        ("--items keys --exchange-names", "cannot be used with"),
        ("--no-bias", "applies only to `multitask`"),
        ("--name other", "cannot be used multiple times"),
        ("--trust 0", "--trust must be"),
        ("--rank 40", "--rank"),
    ] {
        let text = match more.starts_with("--rank") {
            true => agent(more).replace("--rank 2 ", ""),
            false => agent(more),
        };
        let error = refused(&site, &format!("{text} --wait 1"));
        assert!(error.contains(told), "{more}: {error}");
    }
    // The certificate of another name, and a file that is no key.
    let other = agent("").replace("keys/site-0", "keys/site-1");
    assert!(refused(&site, &other).contains("is for `site-1`, not for `site-0`"));
    let mixed = agent("").replace("keys/site-0.pem", "keys/site-1.pem");
    assert!(refused(&site, &mixed).contains("the key does not fit the certificate"));
    let none = agent("").replace("keys/site-0.key", "items.txt");
    assert!(refused(&site, &none).contains("expected a private key in PEM"));
}

#[test]
fn a_whole_run_over_the_network_makes_the_models_of_a_run() {
    let site = Site::new(1);
    // One file an agent, in one process and over the network.
    for agent in 1..3 {
        let text = std::fs::read_to_string(site.path("0.csv")).unwrap();
        let text = text.replace("\nu", &format!("\nu{agent}-"));
        site.write(&format!("{agent}.csv"), &text);
    }
    let files = "0.csv 1.csv 2.csv --rank 2 --slots 40 --regularization 0.01";
    for more in ["", "--network"] {
        let text = format!("gossip run completion {files} -o all.safetensors --json {more}");
        let done = site.command(&words(&text)).output().unwrap();
        let error = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{error}");
        let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(
            (&json["agents"], &json["users"]),
            (&3.into(), &60.into()),
            "{json}"
        );
        assert_eq!(json["agent_models"].as_array().map(Vec::len), Some(3));
        let consensus = json["consensus"].as_f64().unwrap();
        let agree = json["agreement"] == "agents agree";
        assert_eq!(agree, consensus <= 0.1, "{json}");
        let error = site.held_out_error("all.safetensors", 0);
        assert!(error < 0.1, "{error}");
    }
    let text = format!("gossip run completion {files} -o all.safetensors --network --step-a 1");
    assert!(refused(&site, &text).contains("--step-a"));
    let text = "gossip run completion 0.csv 0.csv -o all.safetensors";
    assert!(refused(&site, text).contains("is in an earlier one too"));
    // Tasks.
    let mut rows = "task,target,x,y,z\n".to_owned();
    for task in 0..6 {
        for row in 0..12 {
            let (x, y) = (
                (row as f64 * 0.7 + task as f64).sin(),
                (row as f64 * 1.3).cos(),
            );
            let z = ((row * 5 + task) % 7) as f64;
            rows += &format!(
                "t{task},{:.4},{x:.4},{y:.4},{z}\n",
                2.0 * x - y + 0.1 * task as f64 * z
            );
        }
    }
    site.write("tasks.csv", &rows);
    let text = "gossip run multitask tasks.csv --agents 3 --rank 1 --slots 30 -o t.safetensors --json --network";
    let done = site.command(&words(text)).output().unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        (&json["tasks"], &json["features"]),
        (&6.into(), &3.into()),
        "{json}"
    );
}
