//! One script of faults, in a simulation and among processes: the end is that of a quiet run.

use crate::support::Site;

const SCRIPT: &str = r#"{
  "loss": 0.03,
  "delay": 2,
  "absent": [{"agent": 1, "from": 0.2, "until": 0.4}, {"agent": 3, "from": 0, "until": 0.1}],
  "cut": [{"between": [2, 1], "from": 0.45, "until": 0.6},
          {"between": [0, 1], "from": 0.65, "until": 0.75, "silent": true}],
  "slow": [{"agent": 2, "times": 3}],
  "pace": 4
}"#;

fn cost(site: &Site, more: &[&str]) -> f64 {
    let run = "gossip run completion 0.csv 1.csv 2.csv 3.csv -o m.safetensors --rank 2 --rho 5 \
               --regularization 0.01 --center 3 --trust 0.5 --slots 500 --json";
    let words: Vec<&str> = run.split_whitespace().chain(more.iter().copied()).collect();
    let done = site.command(&words).output().unwrap();
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{error}");
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    json["cost"].as_f64().unwrap()
}

#[test]
fn one_script_of_faults_ends_as_a_quiet_run_does() {
    let site = Site::new(4);
    site.write("faults.json", SCRIPT);
    let quiet = cost(&site, &[]);
    for more in [
        &["--faults", "faults.json"][..],
        &["--faults", "faults.json", "--network"],
    ] {
        let found = cost(&site, more);
        let relative = (found / quiet - 1.0).abs();
        assert!(relative < 1e-3, "{more:?}: {found} instead of {quiet}");
    }
}

#[test]
fn a_script_that_does_not_fit_names_its_file() {
    let site = Site::new(2);
    for (script, words) in [
        (
            r#"{"absent": [{"agent": 7, "from": 0, "until": 0.5}]}"#,
            "there is no agent 7",
        ),
        (
            "{\n\"noise\": 1}",
            "faults.json:2: not a script of faults: unknown field `noise`",
        ),
    ] {
        site.write("faults.json", script);
        for more in [&[][..], &["--network"]] {
            let run =
                "gossip run completion 0.csv 1.csv -o m.safetensors --rank 2 --faults faults.json";
            let words_of: Vec<&str> = run.split_whitespace().chain(more.iter().copied()).collect();
            let done = site.command(&words_of).output().unwrap();
            let error = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(2), "{error}");
            assert!(
                error.contains("faults.json") && error.contains(words),
                "{error}"
            );
        }
    }
}
