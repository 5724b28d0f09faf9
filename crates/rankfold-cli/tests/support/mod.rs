//! Runs the binary in a fresh directory.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A fresh directory in which the binary runs.
pub struct Place(TempDir);

/// What the binary said.
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Self {
        Place(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    #[allow(dead_code, reason = "not used by every test binary")]
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).expect("a file is written");
    }

    /// The text of a file, decompressed by its name.
    pub fn read(&self, name: &str) -> String {
        let mut lines = rankfold::data::Lines::open(self.path(name)).expect("a file is there");
        let mut text = Vec::new();
        while let Some(line) = lines.next_raw().expect("a file is read") {
            text.extend_from_slice(line);
        }
        String::from_utf8(text).expect("UTF-8 text")
    }

    #[allow(dead_code, reason = "not used by every test binary")]
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("a directory");
        let name = |e: std::io::Result<std::fs::DirEntry>| {
            e.expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        self.run_with(arguments, "")
    }

    /// The binary with these arguments, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rankfold"));
        command.current_dir(self.0.path()).args(arguments);
        command
    }

    pub fn run_with(&self, arguments: &[&str], stdin: &str) -> Said {
        self.run_with_bytes(arguments, stdin.as_bytes())
    }

    pub fn run_with_bytes(&self, arguments: &[&str], stdin: &[u8]) -> Said {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut pipe = child.stdin.take().expect("a pipe");
        // Beside the reader, so that neither waits for a full pipe.
        let out = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A binary that ends before it has read everything closes the pipe.
                let _ = pipe.write_all(stdin);
            });
            child.wait_with_output().expect("the binary ends")
        });
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8 text");
        Said {
            code: out.status.code().expect("an exit code"),
            stdout: text(out.stdout),
            stderr: text(out.stderr),
        }
    }
}

impl Said {
    /// The JSON object of a successful command, without the time it took.
    #[track_caller]
    #[allow(dead_code, reason = "not used by every test binary")]
    pub fn json(&self) -> serde_json::Value {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""));
        let mut value: serde_json::Value = serde_json::from_str(&self.stdout).expect("JSON");
        let seconds = value.as_object_mut().and_then(|o| o.remove("seconds"));
        assert!(seconds.expect("seconds").as_f64().is_some_and(|s| s >= 0.0));
        value
    }

    /// The JSON object of a successful command that measures no time.
    #[allow(dead_code, reason = "not used by every test binary")]
    #[track_caller]
    pub fn json_without_seconds(&self) -> serde_json::Value {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""));
        serde_json::from_str(&self.stdout).expect("JSON")
    }

    /// Asserts bad input, with exactly this on stderr and nothing on stdout.
    #[allow(dead_code, reason = "not used by every test binary")]
    #[track_caller]
    pub fn refused(&self, message: &str) {
        self.told(2, message);
    }

    /// The same with any exit code.
    #[allow(dead_code, reason = "not used by every test binary")]
    #[track_caller]
    pub fn told(&self, code: i32, message: &str) {
        let got = (self.code, self.stdout.as_str(), self.stderr.as_str());
        assert_eq!(got, (code, "", format!("error: {message}\n").as_str()));
    }
}

/// The bytes of a model file with the checksum that they should have.
#[allow(dead_code, reason = "not used by every test binary")]
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    use std::hash::Hasher;
    let end = bytes.len() - 8;
    let mut sum = twox_hash::XxHash64::with_seed(0);
    sum.write(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.finish().to_le_bytes());
    bytes
}
