//! Intruders: whoever should not be heard is not, is counted, and costs nothing.

use crate::keys;
use crate::line::Line;
use crate::server::Door;
use crate::shared::{Fixed, Shared};
use crate::tls::Identity;
use rankfold::Ids;
use rankfold::gossip::{Accord, Letter, Statement, name_id};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, version};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const LONG: Duration = Duration::from_secs(120);

/// Agent `a` with the neighbors `b` and `c`, which answers and does nothing else.
struct Scene {
    folder: TempDir,
    shared: Arc<Shared>,
    address: String,
    _runtime: Runtime,
}

fn identity(folder: &Path, name: &str) -> Identity {
    let [certificate, key] = keys::files(folder, name);
    Identity {
        authority: folder.join("authority.pem"),
        certificate,
        key,
    }
}

impl Scene {
    fn new(rate: f64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a", "b", "c", "stranger"].map(str::to_owned);
        keys::make(folder.path(), &names, 10).unwrap();
        let mut list = Ids::new();
        (0..30).for_each(|i| _ = list.intern(&format!("i{i}")));
        let fixed = Fixed {
            name: "a".into(),
            id: name_id("a"),
            boot: 1,
            rank: 2,
            rate,
            sums: 64,
            most_names: 100,
            may_grow: true,
        };
        let shared = Arc::new(Shared::new(fixed, Accord::new(name_id("a")), list, false));
        let neighbors = ["b", "c"].map(|name| (name.to_owned(), "127.0.0.1:1".to_owned()));
        shared.set_neighbors(&neighbors);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let tls = identity(folder.path(), "a").load(false).unwrap();
        let door = Door {
            shared: shared.clone(),
            tls: Arc::new(RwLock::new(tls)),
            observers: Vec::new(),
            deadline: Duration::from_secs(20),
        };
        runtime.spawn(door.serve(listener));
        Scene {
            folder,
            shared,
            address,
            _runtime: runtime,
        }
    }

    fn line(&self, identity: &Identity) -> Line {
        Line::new(identity, "a", &self.address, LONG).unwrap()
    }

    fn own(&self, name: &str) -> Identity {
        identity(self.folder.path(), name)
    }

    fn refused(&self, why: &str) -> u64 {
        self.shared.status()["refused"][why].as_u64().unwrap_or(0)
    }

    /// Waits until so many were refused.
    #[track_caller]
    fn until_refused(&self, why: &str, count: u64) {
        let since = Instant::now();
        while self.refused(why) < count {
            let status = self.shared.status();
            assert!(since.elapsed() < LONG, "{why}: {}", status["refused"]);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// That the neighbor is still heard.
    fn is_well(&self, number: u64) {
        let reply = self.line(&self.own("b")).exchange(letter(number)).unwrap();
        assert_eq!(Letter::decode(&reply).unwrap().boot, 1);
    }
}

fn letter(number: u64) -> Vec<u8> {
    let mut list = Ids::new();
    (0..30).for_each(|i| _ = list.intern(&format!("i{i}")));
    let letter = Letter {
        boot: 7,
        number,
        round: 1,
        done: false,
        leaving: false,
        list: crate::shared::list_id(&list),
        rank: 2,
        holds: (0, 0),
        knows: 0,
        statement: Statement {
            stage: 0,
            depth: 0,
            least: u64::MAX,
            about: None,
        },
        first_name: 0,
        names: Vec::new(),
        parcel: None,
    };
    letter.encode()
}

#[test]
fn only_neighbors_with_certificates_of_the_authority_are_answered() {
    let scene = Scene::new(1000.0);
    scene.is_well(1);
    // The right authority, but not on the list: neither letters nor the status.
    let stranger = scene.own("stranger");
    assert!(scene.line(&stranger).exchange(letter(2)).is_err());
    scene.until_refused("stranger", 1);
    let asked = crate::status(&stranger, &scene.address, Duration::from_secs(20));
    assert!(asked.is_err());
    // Another authority with the right name.
    let other = tempfile::tempdir().unwrap();
    keys::make(other.path(), &["b".into()], 10).unwrap();
    let forged = Identity {
        authority: scene.own("b").authority,
        ..identity(other.path(), "b")
    };
    let before = scene.refused("handshake");
    assert!(scene.line(&forged).exchange(letter(3)).is_err());
    scene.until_refused("handshake", before + 1);
    // A certificate that has expired.
    let folder = scene.folder.path();
    keys::make_expired(folder, "late").unwrap();
    let expired = Identity {
        authority: folder.join("authority.pem"),
        certificate: folder.join("late.pem"),
        key: folder.join("late.key"),
    };
    let before = scene.refused("handshake");
    assert!(scene.line(&expired).exchange(letter(4)).is_err());
    scene.until_refused("handshake", before + 1);
    // The other side must be who it should be: `a` is not `c`.
    let wrong = Line::new(&scene.own("b"), "c", &scene.address, LONG).unwrap();
    assert!(wrong.exchange(letter(5)).is_err());
    // An agent and its neighbors may ask for the status.
    for name in ["a", "b", "c"] {
        let status = crate::status(&scene.own(name), &scene.address, LONG).unwrap();
        assert_eq!(status["name"], "a");
    }
    scene.is_well(6);
}

#[test]
fn without_a_certificate_there_is_no_handshake() {
    let scene = Scene::new(1000.0);
    let pem = std::fs::read(scene.folder.path().join("authority.pem")).unwrap();
    let mut store = RootCertStore::empty();
    use rustls::pki_types::pem::PemObject;
    let root = rustls::pki_types::CertificateDer::from_pem_slice(&pem).unwrap();
    store.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    let name = ServerName::try_from("a").unwrap();
    let mut connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(&scene.address).unwrap();
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty());
    scene.until_refused("handshake", 1);
    scene.is_well(1);
}

#[test]
fn garbage_and_absurd_lengths_of_a_neighbor_are_counted() {
    let scene = Scene::new(1e9);
    let line = scene.line(&scene.own("b"));
    scene.is_well(1);
    let cases: u64 = std::env::var("RANKFOLD_GARBAGE")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(2000);
    let sound = letter(2);
    for case in 0..cases {
        let mut bytes = sound.clone();
        let at = (rankfold::random::splitmix64(case) as usize) % bytes.len();
        bytes[at] ^= 1 + (case % 255) as u8;
        assert!(line.exchange(bytes).is_err());
    }
    assert_eq!(scene.refused("garbage"), cases);
    for length in [1 << 32, 1 << 40, u64::MAX] {
        assert!(line.announce(length, vec![1; 100]).is_err());
    }
    assert_eq!(scene.refused("too_long"), 3);
    // An earlier letter, and one of another rank.
    assert!(line.exchange(letter(1)).is_err());
    assert_eq!(scene.refused("stale"), 1);
    scene.is_well(2);
}

#[test]
fn a_flood_of_a_neighbor_is_limited() {
    let scene = Scene::new(20.0);
    let line = scene.line(&scene.own("c"));
    for number in 1..200 {
        let _ = line.exchange(letter(number));
    }
    assert!(scene.refused("rate") > 0);
    // The other neighbor has a limit of its own.
    scene.is_well(1);
}

#[test]
fn idle_and_many_connections_do_not_keep_neighbors_out() {
    let scene = Scene::new(1000.0);
    // Connections that say nothing, or one byte now and then.
    let idle: Vec<TcpStream> = (0..300)
        .filter_map(|_| TcpStream::connect(&scene.address).ok())
        .collect();
    for mut stream in &idle {
        let _ = stream.write_all(b"\x16");
    }
    scene.is_well(1);
    let many: Vec<TcpStream> = (0..700)
        .filter_map(|_| TcpStream::connect(&scene.address).ok())
        .collect();
    // All are turned away: at once where there are too many, or when their time is over.
    let all = (idle.len() + many.len()) as u64;
    let turned_away = || scene.refused("slow_handshake") + scene.refused("connections");
    let since = Instant::now();
    while turned_away() < all {
        assert!(since.elapsed() < LONG, "{} of {all}", turned_away());
        std::thread::sleep(Duration::from_millis(20));
    }
    scene.is_well(2);
}
