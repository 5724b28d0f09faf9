//! A bad line between two processes of this machine: it carries connections, and cuts them
//! where a rehearsal says so.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rankfold::random::splitmix64;

/// Carries connections to a port. It ends when it is dropped.
pub struct Proxy {
    port: u16,
    gate: Arc<Gate>,
}

/// What a line does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It carries them.
    Open,
    /// It keeps them and swallows all that is said.
    Silent,
    /// It ends and refuses them.
    Cut,
}

/// What all connections of a proxy share.
struct Gate {
    target: u16,
    loss: f64,
    delay: Duration,
    way: AtomicU8,
    over: AtomicBool,
    draws: AtomicU64,
    connections: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// To this port. Each piece of a connection is late by up to `delay`, and ends it halfway
    /// with the chance `loss`.
    pub fn to(target: u16, loss: f64, delay: Duration, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let gate = Arc::new(Gate {
            target,
            loss,
            delay,
            way: AtomicU8::new(Way::Open as u8),
            over: AtomicBool::new(false),
            draws: AtomicU64::new(splitmix64(seed ^ u64::from(target))),
            connections: Mutex::new(Vec::new()),
        });
        let shared = gate.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), true) = (client, !shared.is(Way::Cut)) else {
                    continue;
                };
                if let Ok(server) = TcpStream::connect(("127.0.0.1", shared.target)) {
                    let _ = Gate::carry(&shared, client, server);
                }
            }
        });
        Ok(Proxy { port, gate })
    }

    /// Where it answers.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on.
    pub fn set(&self, way: Way) {
        let before = self.gate.way.swap(way as u8, Ordering::SeqCst);
        // Who was not heard begins anew, as after a line that came back.
        if way == Way::Cut || (way == Way::Open && before == Way::Silent as u8) {
            self.gate.end_all();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.gate.over.store(true, Ordering::SeqCst);
        self.gate.end_all();
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Gate {
    fn is(&self, way: Way) -> bool {
        self.way.load(Ordering::SeqCst) == way as u8
    }

    fn end_all(&self) {
        let mut all = self.connections.lock().unwrap_or_else(|e| e.into_inner());
        for one in all.drain(..) {
            let _ = one.shutdown(Shutdown::Both);
        }
    }

    /// One thread for each direction.
    fn carry(gate: &Arc<Gate>, client: TcpStream, server: TcpStream) -> io::Result<()> {
        for one in [&client, &server] {
            one.set_nodelay(true)?;
        }
        let kept = [client.try_clone()?, server.try_clone()?];
        let ways = [(client.try_clone()?, server.try_clone()?), (server, client)];
        let mut all = gate.connections.lock().unwrap_or_else(|e| e.into_inner());
        all.extend(kept);
        drop(all);
        for (from, to) in ways {
            let gate = gate.clone();
            thread::spawn(move || {
                let _ = gate.pump(&from, &to);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }

    fn pump(&self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        let mut piece = vec![0; 1 << 16];
        loop {
            let length = from.read(&mut piece)?;
            if length == 0 {
                return Ok(());
            }
            if self.is(Way::Silent) {
                continue;
            }
            if !self.delay.is_zero() {
                thread::sleep(self.delay.mul_f64(self.share()));
            }
            if self.share() < self.loss {
                return to.write_all(&piece[..length / 2]);
            }
            to.write_all(&piece[..length])?;
        }
    }

    /// A random number from 0 to 1.
    fn share(&self) -> f64 {
        let draw = splitmix64(self.draws.fetch_add(1, Ordering::Relaxed));
        (draw >> 11) as f64 / (1u64 << 53) as f64
    }
}
