//! Metrics for Prometheus and health for a supervisor, on a loopback address.

use crate::shared::Shared;
use rankfold::{Error, Result};
use serde_json::Value;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// Requests at a time, how long one may take, and its bytes.
const REQUESTS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: usize = 4096;

/// An agent that has not stepped for so long is not healthy while it learns.
const STUCK: Duration = Duration::from_secs(120);

/// Answers on this address from now on.
pub(crate) async fn listen(
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: &Runtime,
) -> Result<()> {
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.map_err(|e| Error::failure(format!("cannot show metrics on `{address}`: {e}")))?;
    runtime.spawn(async move {
        let room = Arc::new(Semaphore::new(REQUESTS));
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(turn) = room.clone().try_acquire_owned() else {
                continue;
            };
            let shared = shared.clone();
            tokio::spawn(async move {
                let _ = tokio::time::timeout(PATIENCE, answer(stream, &shared)).await;
                drop(turn);
            });
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|w| w == b"\r\n\r\n") && request.len() < LONGEST {
        let mut some = [0; 512];
        match stream.read(&mut some).await? {
            0 => break,
            n => request.extend_from_slice(&some[..n]),
        }
    }
    let line = request.split(|&b| b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&b| b == b' ');
    let (method, path) = (words.next(), words.next());
    let (code, body) = match (method, path) {
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", text(&shared.status())),
        (Some(b"GET"), Some(b"/health")) => health(shared),
        _ => ("404 Not Found", "GET /metrics or GET /health\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

fn health(shared: &Shared) -> (&'static str, String) {
    let inner = shared.lock();
    let learning = inner.cost.is_some() && !inner.done;
    match learning && inner.stepped_at.elapsed() > STUCK {
        true => (
            "503 Service Unavailable",
            "no step for two minutes\n".into(),
        ),
        false => ("200 OK", "ok\n".into()),
    }
}

/// The status in the text format of Prometheus.
pub(crate) fn text(status: &Value) -> String {
    let mut out = String::new();
    let mut one = |name: &str, kind: &str, help: &str, lines: Vec<(String, f64)>| {
        let _ = writeln!(out, "# HELP rankfold_{name} {help}");
        let _ = writeln!(out, "# TYPE rankfold_{name} {kind}");
        for (labels, value) in lines {
            let _ = writeln!(out, "rankfold_{name}{labels} {value}");
        }
    };
    let number = |key: &str| status[key].as_f64();
    let single = |value: Option<f64>| -> Vec<(String, f64)> {
        value
            .map(|value| (String::new(), value))
            .into_iter()
            .collect()
    };
    one(
        "round",
        "counter",
        "Rounds of this agent.",
        single(number("round")),
    );
    one("cost", "gauge", "The own cost.", single(number("cost")));
    one(
        "messages_total",
        "counter",
        "Letters sent.",
        single(number("messages")),
    );
    one(
        "bytes_total",
        "counter",
        "Bytes sent.",
        single(number("bytes")),
    );
    let of_neighbors = |key: &str| -> Vec<(String, f64)> {
        let all = status["neighbors"].as_object().into_iter().flatten();
        all.filter_map(|(name, n)| Some((format!("{{neighbor=\"{name}\"}}"), n[key].as_f64()?)))
            .collect()
    };
    for (key, name, kind, help) in [
        ("distance", "distance", "gauge", "Distance to a neighbor."),
        (
            "last_round",
            "neighbor_round",
            "counter",
            "The last round heard of a neighbor.",
        ),
        (
            "sent_bytes",
            "sent_bytes_total",
            "counter",
            "Bytes sent to a neighbor.",
        ),
        (
            "received_bytes",
            "received_bytes_total",
            "counter",
            "Bytes of a neighbor.",
        ),
        (
            "failed",
            "failed_total",
            "counter",
            "Exchanges that failed.",
        ),
        (
            "seconds_since",
            "silence_seconds",
            "gauge",
            "Since a neighbor was heard.",
        ),
    ] {
        one(name, kind, help, of_neighbors(key));
    }
    let refused = status["refused"].as_object().into_iter().flatten();
    let refused = refused
        .filter_map(|(why, n)| Some((format!("{{reason=\"{why}\"}}"), n.as_f64()?)))
        .collect();
    one(
        "refused_total",
        "counter",
        "What was refused, and why.",
        refused,
    );
    out
}
