//! Killed at any moment, the service loses nothing that it acknowledged, and learns nothing
//! twice. `RANKFOLD_KILLS=200` kills it so often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::client::{Service, request, similarity, triplets, updated};

#[test]
fn kills_at_random_moments_lose_nothing_and_repeat_nothing() {
    let kills: u64 = std::env::var("RANKFOLD_KILLS").map_or(8, |n| n.parse().unwrap());
    let place = similarity();
    // Files and snapshots follow each other quickly, so that kills meet them, too.
    let learn = [
        "m.safetensors",
        "--rows",
        "rows.csv",
        "--learn",
        "--journal",
        "j",
        "--snapshot-every",
        "40",
        "--journal-file-size",
        "0.004",
        "--log",
        "none",
    ];
    let (mut sent, mut acknowledged) = (Vec::<String>::new(), 0);
    let lines = Arc::new(triplets(1_000_000));
    for round in 0..kills {
        let service = Service::start(&place, &learn);
        let sequence = service.get("/v1/model").json()["sequence"]
            .as_u64()
            .unwrap();
        assert!(
            sequence >= acknowledged,
            "{sequence} of {acknowledged} are left"
        );
        assert!(
            sequence <= sent.len() as u64,
            "{sequence} of {} were sent",
            sent.len()
        );
        // The model after each crash, and its bytes now and then.
        sent.truncate(sequence as usize);
        if round % 4 == 0 || round + 1 == kills {
            let want = updated(&place, "m.safetensors", &sent, &["--rows", "rows.csv"]);
            assert_eq!(
                service.get("/v1/model/file").body,
                want,
                "after {sequence} examples"
            );
        }
        let (stop, last) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(sequence)),
        );
        let client = std::thread::spawn({
            let (stop, last, lines) = (stop.clone(), last.clone(), lines.clone());
            let address = service.address.clone();
            move || {
                let mut at = sequence as usize;
                while !stop.load(Ordering::SeqCst) {
                    // One, or a few at once.
                    let count = 1 + at % 3;
                    let body = match count {
                        1 => lines[at].clone(),
                        _ => format!("[{}]", lines[at..at + count].join(",")),
                    };
                    at += count;
                    let answer =
                        request(&address, "POST", "/v1/feedback", Some(body.as_bytes()), &[]);
                    let Ok(answer) = answer else { break };
                    assert_eq!(answer.status, 200);
                    let sequence = answer.json()["sequence"].as_u64().unwrap();
                    assert_eq!(sequence, at as u64);
                    last.store(sequence, Ordering::SeqCst);
                }
                at
            }
        });
        std::thread::sleep(Duration::from_millis(20 + (round * 7919) % 230));
        service.kill();
        stop.store(true, Ordering::SeqCst);
        let reached = client.join().unwrap();
        acknowledged = last.load(Ordering::SeqCst);
        sent = lines[..reached].to_vec();
    }
    let service = Service::start(&place, &learn);
    let sequence = service.get("/v1/model").json()["sequence"]
        .as_u64()
        .unwrap();
    assert!((acknowledged..=sent.len() as u64).contains(&sequence));
    let stream = String::from_utf8(service.get("/v1/journal").body).unwrap();
    assert_eq!(stream.lines().count() as u64, sequence);
    println!("{kills} kills, {sequence} examples, none lost, none twice");
}

#[test]
fn a_journal_cut_at_every_byte_of_its_last_two_records_comes_up() {
    let place = similarity();
    let learn = [
        "m.safetensors",
        "--rows",
        "rows.csv",
        "--learn",
        "--journal",
        "j",
    ];
    let service = Service::start(&place, &learn);
    let lines = triplets(3);
    let path = place.path("j/journal-00000000000000000000.jsonl");
    let mut ends = Vec::new();
    for line in &lines {
        service.ask("/v1/feedback", line);
        ends.push(std::fs::metadata(&path).unwrap().len());
    }
    service.kill();
    let whole = std::fs::read(&path).unwrap();
    // Every byte in the unit tests; here some, each with a whole service.
    for cut in (ends[0]..=ends[2])
        .step_by(23)
        .chain([ends[2] - 1, ends[2]])
    {
        std::fs::write(&path, &whole[..cut as usize]).unwrap();
        let service = Service::start(&place, &learn);
        let left = ends.iter().filter(|end| **end <= cut).count();
        let model = service.get("/v1/model").json();
        assert_eq!(model["sequence"], left as u64, "cut at {cut}");
        let cut_off = cut - ends[..left].last().copied().unwrap_or(0);
        assert_eq!(model["journal_cut_bytes"], cut_off);
        let want = updated(
            &place,
            "m.safetensors",
            &lines[..left],
            &["--rows", "rows.csv"],
        );
        assert_eq!(service.get("/v1/model/file").body, want);
        service.kill();
    }
}

/// A file system of 256 kB, where the system allows one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_stops_learning_and_not_answering() {
    let place = similarity();
    let disk = place.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(&disk)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("no right to mount a small disk: not tested");
        return;
    }
    struct Unmount(std::path::PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount")
                .arg("-l")
                .arg(&self.0)
                .status();
        }
    }
    let _unmount = Unmount(disk.clone());
    let learn = [
        "m.safetensors",
        "--rows",
        "rows.csv",
        "--learn",
        "--journal",
        "disk/j",
        "--log",
        "none",
    ];
    let service = Service::start(&place, &learn);
    let lines = triplets(30_000);
    let (mut sequence, mut refused) = (0_u64, None);
    for some in lines.chunks(100) {
        let answer = service.post("/v1/feedback", &format!("[{}]", some.join(",")));
        match answer.status {
            200 => sequence = answer.json()["sequence"].as_u64().unwrap(),
            _ => {
                refused = Some((answer.status, answer.message()));
                break;
            }
        }
    }
    let (status, message) = refused.expect("the disk fills up");
    assert_eq!(status, 507, "{message}");
    assert!(
        message.contains("learning has stopped, answers go on"),
        "{message}"
    );
    assert!(!message.contains("disk/j"), "no path: {message}");
    assert_eq!(
        service
            .post("/v1/feedback", &format!("[{}]", lines[..50].join(",")))
            .status,
        507
    );
    assert_eq!(
        service.ask("/v1/neighbors", r#"{"id":"r1","k":3}"#)["results"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(service.get("/v1/model").json()["sequence"], sequence);
    // With room again it goes on, from what was acknowledged.
    let more = std::process::Command::new("mount")
        .args(["-o", "remount,size=8m"])
        .arg(&disk)
        .status();
    assert!(more.unwrap().success());
    let at = sequence as usize;
    let answer = service.ask(
        "/v1/feedback",
        &format!("[{}]", lines[at..at + 10].join(",")),
    );
    assert_eq!(answer["sequence"], sequence + 10);
    let want = updated(
        &place,
        "m.safetensors",
        &lines[..at + 10],
        &["--rows", "rows.csv"],
    );
    assert_eq!(service.get("/v1/model/file").body, want);
}
