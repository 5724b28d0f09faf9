//! The clients of the guide, run as they stand there.

use std::path::Path;
use std::process::Command;

use crate::client::{Service, similarity};

/// The first block of code in this language.
fn block(page: &str, language: &str) -> String {
    let start = format!("```{language}\n");
    let (_, rest) = page.split_once(&start).expect("a block of code");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn the_clients_of_the_guide_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/service.md")).expect("the guide");
    let place = similarity();
    let arguments = [
        "m.safetensors",
        "--rows",
        "rows.csv",
        "--learn",
        "--journal",
        "j",
    ];
    let service = Service::start(&place, &arguments);
    let url = format!("http://{}", service.address);
    let mut learned = 0;
    for (language, name, program) in [
        ("python", "client.py", "python3"),
        ("javascript", "client.mjs", "node"),
    ] {
        let code = block(&page, language);
        assert!(
            code.lines().count() <= 40,
            "{language}: {} lines",
            code.lines().count()
        );
        place.write(name, code);
        let mut command = Command::new(program);
        let run = command
            .arg(place.path(name))
            .args([&url, "r1", "r4", "r2"])
            .output();
        let run = match run {
            Ok(run) => run,
            // Not every machine has it; Python is there.
            Err(_) if language == "javascript" => continue,
            Err(error) => panic!("{program}: {error}"),
        };
        let (out, err) = (
            String::from_utf8_lossy(&run.stdout),
            String::from_utf8_lossy(&run.stderr),
        );
        assert!(run.status.success(), "{language}: {out}{err}");
        learned += 1;
        assert!(
            out.contains(&format!("example {learned} is safe")),
            "{language}: {out}"
        );
        assert!(out.lines().count() >= 10, "{language}: {out}");
    }
    assert_eq!(service.get("/v1/model").json()["sequence"], learned);
}
