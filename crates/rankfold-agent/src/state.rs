//! The state directory of an agent: a lock, so that there is one process only, and a file
//! that is replaced as a whole, so that it can go on after a crash.

use rankfold::data::write_atomically;
use rankfold::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"rkstate1";

/// The largest state that is read.
const LARGEST: u64 = 1 << 36;

/// All that an agent goes on from beside its own bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub name: String,
    pub task: String,
    pub rank: usize,
    /// What the agents agreed on, stage by stage.
    pub results: Vec<Vec<f64>>,
    pub least: u64,
    pub round: u64,
    /// Steps after its rounds, while it answered others.
    pub followed: u64,
    /// Whether the rounds that were asked for were made.
    pub done: bool,
    /// Neighbors in the order in which the agent has them, and those that were done.
    pub neighbors: Vec<String>,
    pub neighbors_done: Vec<String>,
    /// Items or features, where names are exchanged.
    pub names: Option<Vec<String>>,
    pub messages: u64,
    pub bytes: u64,
}

/// A directory that this process has for itself.
pub(crate) struct StateFolder {
    path: PathBuf,
    _lock: File,
}

impl StateFolder {
    /// Takes a directory, which is made where it is not there.
    pub fn take(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(|e| Error::writing(path, &e))?;
        let place = path.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&place)
            .map_err(|e| Error::writing(&place, &e))?;
        match lock.try_lock() {
            Ok(()) => Ok(StateFolder {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(fs::TryLockError::WouldBlock) => Err(Error::input(
                "another process has this state directory: an agent runs once",
            )
            .in_file(path)),
            Err(fs::TryLockError::Error(e)) => Err(Error::writing(&place, &e)),
        }
    }

    fn file(&self) -> PathBuf {
        self.path.join("agent.state")
    }

    /// Replaces the state.
    pub fn save(&self, saved: &Saved, agent: &[u8]) -> Result<()> {
        let json = serde_json::to_vec(saved).expect("words and numbers");
        write_atomically(self.file(), |out| {
            out.write_all(MAGIC)?;
            out.write_all(&(json.len() as u64).to_le_bytes())?;
            out.write_all(&json)?;
            out.write_all(agent)
        })
    }

    /// The state, where there is one.
    pub fn load(&self) -> Result<Option<(Saved, Vec<u8>)>> {
        read(&self.file())
    }
}

fn read(path: &Path) -> Result<Option<(Saved, Vec<u8>)>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::reading(path, &e)),
    };
    let mut bytes = Vec::new();
    let size = file.metadata().map_err(|e| Error::reading(path, &e))?.len();
    if size > LARGEST {
        return Err(Error::input("too large for the state of an agent").in_file(path));
    }
    file.read_to_end(&mut bytes)
        .map_err(|e| Error::reading(path, &e))?;
    let parsed = parse(&bytes);
    let parsed = parsed.ok_or_else(|| {
        Error::input("this is no state of an agent, or it is damaged: remove it to start anew")
            .in_file(path)
    })?;
    Ok(Some(parsed))
}

fn parse(bytes: &[u8]) -> Option<(Saved, Vec<u8>)> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (json, agent) = rest.split_at_checked(length)?;
    Some((serde_json::from_slice(json).ok()?, agent.to_vec()))
}

/// The bytes of the agent in a state directory that no process has.
pub(crate) fn agent_bytes(folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join("agent.state");
    let found = read(&path)?;
    let found = found.ok_or_else(|| Error::input("no state of an agent").in_file(&path))?;
    Ok(found.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_a_directory_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::take(folder.path()).unwrap();
        assert!(state.load().unwrap().is_none());
        let saved = Saved {
            name: "a".into(),
            results: vec![vec![], vec![1.0 / 3.0]],
            ..Saved::default()
        };
        state.save(&saved, b"bytes").unwrap();
        assert_eq!(state.load().unwrap(), Some((saved, b"bytes".to_vec())));
        let again = StateFolder::take(folder.path()).err().unwrap();
        assert!(again.message.contains("another process"), "{again}");
        drop(state);
        let state = StateFolder::take(folder.path()).unwrap();
        for damaged in [
            &b""[..],
            b"rkstate1",
            b"rkstate1\xff\xff\xff\xff\xff\xff\xff\xff{}",
        ] {
            fs::write(folder.path().join("agent.state"), damaged).unwrap();
            assert!(state.load().is_err());
        }
    }
}
