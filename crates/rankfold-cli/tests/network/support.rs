//! Agents in a fresh folder: keys, data, ports and processes.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a machine that has much else to do.
pub const LONG: Duration = Duration::from_secs(300);

/// A folder with keys and data of some agents.
pub struct Site {
    folder: TempDir,
    pub names: Vec<String>,
    pub ports: Vec<u16>,
}

/// A process that ends with the test.
pub struct Running {
    pub child: Child,
    pub out: PathBuf,
    pub err: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports that are free now.
pub fn free_ports(count: usize) -> Vec<u16> {
    let bound: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
        .collect();
    bound
        .iter()
        .map(|one| one.local_addr().expect("an address").port())
        .collect()
}

/// A rating from a matrix of rank two, with something like noise.
fn rating(user: usize, item: usize) -> f64 {
    let (u, i) = (user as f64, item as f64);
    let noise = ((user * 31 + item * 17) % 11) as f64 / 11.0 - 0.5;
    3.0 + (0.7 * u).sin() * (0.3 * i).cos() + 0.8 * (1.3 * u).cos() * (0.9 * i).sin() + 0.2 * noise
}

impl Site {
    /// So many agents with keys, data and a list of items.
    pub fn new(agents: usize) -> Self {
        let names: Vec<String> = (0..agents).map(|i| format!("site-{i}")).collect();
        let site = Site {
            folder: tempfile::tempdir().expect("a folder"),
            ports: free_ports(agents),
            names,
        };
        let mut keys = vec!["gossip".into(), "keys".into(), "keys".into()];
        for name in &site.names {
            keys.extend(["--name".into(), name.clone()]);
        }
        let done = site.command(&keys).output().expect("the binary runs");
        assert!(done.status.success(), "{done:?}");
        for agent in 0..agents {
            let mut text = "user,item,rating\n".to_owned();
            for user in 20 * agent..20 * (agent + 1) {
                for item in (0..30).filter(|item| (user + item) % 3 != 0) {
                    text += &format!("u{user},i{item},{:.3}\n", rating(user, item));
                }
            }
            site.write(&format!("{agent}.csv"), &text);
        }
        let items: Vec<String> = (0..30).map(|i| format!("i{i}")).collect();
        site.write("items.txt", &items.join("\n"));
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file is written");
    }

    /// The binary with these arguments, not yet started.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rankfold"));
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    /// The arguments of an agent on a path of agents, without how long it runs.
    pub fn arguments(&self, agent: usize) -> Vec<String> {
        let mut out = self.alone(agent);
        for other in [agent.wrapping_sub(1), agent + 1] {
            if other < self.names.len() {
                out.extend(["--neighbor".into(), self.neighbor(other)]);
            }
        }
        out
    }

    pub fn neighbor(&self, agent: usize) -> String {
        format!("{}=127.0.0.1:{}", self.names[agent], self.ports[agent])
    }

    /// The same without neighbors.
    pub fn alone(&self, agent: usize) -> Vec<String> {
        let name = &self.names[agent];
        format!(
            "gossip agent completion {agent}.csv -o {agent}.safetensors --name {name} \
             --listen 127.0.0.1:{} --authority keys/authority.pem --certificate keys/{name}.pem \
             --key keys/{name}.key --state state-{agent} --rank 2 --json",
            self.ports[agent]
        )
        .split_whitespace()
        .map(str::to_owned)
        .collect()
    }

    /// Starts a process.
    pub fn start(&self, label: &str, arguments: &[String], more: &[&str]) -> Running {
        let (out, err) = (
            self.path(&format!("{label}.out")),
            self.path(&format!("{label}.err")),
        );
        let mut command = self.command(arguments);
        let child = command
            .args(more)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&out).expect("a file"))
            .stderr(fs::File::create(&err).expect("a file"))
            .spawn()
            .expect("the binary runs");
        Running { child, out, err }
    }

    /// Starts all agents of the path.
    pub fn start_all(&self, more: &[&str]) -> Vec<Running> {
        (0..self.names.len())
            .map(|i| self.start(&self.names[i], &self.arguments(i), more))
            .collect()
    }

    /// The status of an agent, asked with the keys of another; `None` where it does not
    /// answer.
    pub fn status(&self, agent: usize, keys: usize) -> Option<Value> {
        let name = &self.names[keys];
        let arguments = format!(
            "gossip status 127.0.0.1:{} --authority keys/authority.pem \
             --certificate keys/{name}.pem --key keys/{name}.key --json --deadline 5",
            self.ports[agent]
        );
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let done = self.command(&arguments).output().expect("the binary runs");
        let text = String::from_utf8(done.stdout).expect("text");
        done.status
            .success()
            .then(|| serde_json::from_str(&text).expect("JSON"))
    }

    /// Waits until the status of an agent is as wanted.
    #[track_caller]
    pub fn until(&self, agent: usize, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let found = self.status(agent, agent);
            if let Some(status) = found.as_ref().filter(|status| wanted(status)) {
                return status.clone();
            }
            assert!(since.elapsed() < LONG, "{what}: {found:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The mean squared error of a model on the ratings of an agent that it has not seen.
    pub fn held_out_error(&self, model: &str, agent: usize) -> f64 {
        let mut text = "user,item\n".to_owned();
        let mut truth = Vec::new();
        for user in 20 * agent..20 * (agent + 1) {
            for item in (0..30).filter(|item| (user + item) % 3 == 0) {
                text += &format!("u{user},i{item}\n");
                truth.push(rating(user, item));
            }
        }
        self.write("pairs.csv", &text);
        let done = self.command(&["predict", model, "pairs.csv"]).output();
        let done = done.expect("the binary runs");
        assert!(done.status.success(), "{done:?}");
        let text = String::from_utf8(done.stdout).expect("text");
        let found = text.lines().map(|line| {
            let last = line.split_whitespace().next_back().expect("a rating");
            last.parse::<f64>().expect("a number")
        });
        let squares = found.zip(&truth).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f64>() / truth.len() as f64
    }
}

impl Running {
    /// Waits for the end: the exit code, and what was printed.
    #[track_caller]
    pub fn wait(&mut self) -> (i32, String, String) {
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a process") {
                break status;
            }
            assert!(since.elapsed() < LONG, "an agent does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let read = |path: &PathBuf| fs::read_to_string(path).expect("a file");
        (
            status.code().unwrap_or(-1),
            read(&self.out),
            read(&self.err),
        )
    }

    /// The JSON of an agent that ends well.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        let (code, out, err) = self.wait();
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        serde_json::from_str(&out).expect("JSON")
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status();
        assert!(sent.expect("kill runs").success());
    }
}
