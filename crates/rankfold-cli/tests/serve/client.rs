//! A service in a folder of its own, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::Place;

/// A service that runs; it is killed when it goes out of scope.
pub struct Service {
    child: Child,
    pub address: String,
}

/// What the service said.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// The words of an error.
    pub fn message(&self) -> String {
        let json = self.json();
        json["error"]["message"]
            .as_str()
            .expect("an error has words")
            .to_owned()
    }
}

impl Service {
    /// Starts `rankfold serve` on a free port, and waits until it listens.
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        match Self::try_start(place, arguments) {
            Ok(service) => service,
            Err(said) => panic!("the service did not start: {said}"),
        }
    }

    /// The same; what it says on stderr where it does not start.
    pub fn try_start(place: &Place, arguments: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rankfold"));
        command.arg("serve").args(arguments);
        command
            .args(["--listen", "127.0.0.1:0"])
            .current_dir(place.path(""));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let Some((_, address)) = line.trim().split_once("http://") else {
            let mut said = String::new();
            let mut stderr = child.stderr.take().expect("a pipe");
            stderr.read_to_string(&mut said).expect("text");
            let _ = child.wait();
            return Err(said);
        };
        // Nobody reads what it logs: the pipe must not fill up.
        let mut stderr = child.stderr.take().expect("a pipe");
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Ok(Service {
            address: address.to_owned(),
            child,
        })
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, None, &[])
    }

    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.request("POST", path, Some(body.as_bytes()), &[])
    }

    /// The JSON of a good answer.
    pub fn ask(&self, path: &str, body: &str) -> Value {
        let answer = self.post(path, body);
        assert_eq!(
            answer.status,
            200,
            "{body}: {}",
            String::from_utf8_lossy(&answer.body)
        );
        answer.json()
    }

    pub fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        headers: &[(&str, &str)],
    ) -> Answer {
        self.try_request(method, path, body, headers)
            .expect("an answer")
    }

    pub fn try_request(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        headers: &[(&str, &str)],
    ) -> std::io::Result<Answer> {
        request(&self.address, method, path, body, headers)
    }

    /// Memory that it has, where the system tells.
    pub fn memory_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Sends a signal to the service.
    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(sent.expect("kill runs").success());
    }

    /// Kills it without a word, and waits until it is gone.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to stop, and gives its exit code.
    #[cfg(unix)]
    pub fn stop(mut self) -> i32 {
        self.signal("TERM");
        self.child.wait().expect("it ends").code().unwrap_or(-1)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request on a connection of its own.
pub fn request(
    address: &str,
    method: &str,
    path: &str,
    body: Option<&[u8]>,
    headers: &[(&str, &str)],
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        head += &format!("Host: {address}\r\n");
    }
    if let Some(body) = body {
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            head += "Content-Type: application/json\r\n";
        }
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    stream.write_all(head.as_bytes())?;
    // The service may refuse before it has read everything.
    let _ = stream.write_all(body.unwrap_or_default());
    let mut whole = Vec::new();
    let _ = stream.read_to_end(&mut whole);
    let cut = whole.windows(4).position(|four| four == b"\r\n\r\n");
    let cut = cut.ok_or_else(|| std::io::Error::other("no answer"))?;
    let head = String::from_utf8_lossy(&whole[..cut]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut body = whole.split_off(cut + 4);
    if head.to_lowercase().contains("transfer-encoding: chunked") {
        body = joined(&body).ok_or_else(|| std::io::Error::other("a chunk is missing"))?;
    }
    Ok(Answer {
        status: status.ok_or_else(|| std::io::Error::other("no status"))?,
        head,
        body,
    })
}

/// The bytes of a body that came in chunks.
fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let end = chunks.windows(2).position(|two| two == b"\r\n")?;
        let length = std::str::from_utf8(&chunks[..end]).ok()?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(out);
        }
        out.extend_from_slice(chunks.get(end + 2..end + 2 + length)?);
        chunks = chunks.get(end + 4 + length..)?;
    }
}

/// Rows of three classes in five features, `r0` and so on, and a similarity of rank 3 of them.
pub fn similarity() -> Place {
    let place = Place::new();
    let mut rows = String::from("id,label,a,b,c,d,e\n");
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 24) - 0.5
    };
    for i in 0..90 {
        let values = (0..5).map(|j| next() + if j == i % 3 { 1.0 } else { 0.0 });
        let values: Vec<String> = values.map(|v| format!("{v:.4}")).collect();
        rows += &format!("r{i},{},{}\n", i % 3, values.join(","));
    }
    place.write("rows.csv", rows);
    let said = place.run(&[
        "train",
        "similarity",
        "rows.csv",
        "-o",
        "m.safetensors",
        "--rank",
        "3",
        "--steps",
        "500",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    place
}

/// Triplets of rows of [`similarity`], a line each.
pub fn triplets(count: usize) -> Vec<String> {
    let one = |i: usize| {
        let (q, p, n) = (i % 90, (i * 7 + 3) % 90, (i * 13 + 5) % 90);
        format!("{{\"query\":\"r{q}\",\"positive\":\"r{p}\",\"negative\":\"r{n}\"}}")
    };
    (0..count).map(one).collect()
}

/// The bytes that `rankfold update` gives for a stream.
pub fn updated(place: &Place, model: &str, lines: &[String], more: &[&str]) -> Vec<u8> {
    place.write("stream.jsonl", lines.join("\n") + "\n");
    let mut arguments = vec!["update", model, "stream.jsonl", "-o", "updated.safetensors"];
    arguments.extend_from_slice(more);
    let said = place.run(&arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    std::fs::read(place.path("updated.safetensors")).expect("the model is there")
}
