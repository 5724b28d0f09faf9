//! Ctrl-C, SIGTERM and SIGHUP. A command that watches for them saves what it has learned;
//! any other ends at once. A second one ends every command, and so does the first where
//! the command does not hear it within a second. Whichever way it ends, its temporary
//! files go.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rankfold::data;

/// How long a command has to hear that it should stop.
const PATIENCE: Duration = Duration::from_millis(800);

static WATCHED: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);
static HEARD: AtomicBool = AtomicBool::new(false);

/// The folders that this command writes to.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Handles signals from now on.
pub fn install() {
    // Without a handler signals end the process, as they do by default.
    let _ = ctrlc::set_handler(|| {
        if !WATCHED.load(Ordering::SeqCst) || ASKED.swap(true, Ordering::SeqCst) {
            leave(130);
        }
        let waiting = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(PATIENCE);
            if !HEARD.load(Ordering::SeqCst) {
                leave(130);
            }
        });
        if waiting.is_err() {
            leave(130);
        }
    });
    // A file that may not grow is an error of the write, which is told in words.
    #[cfg(unix)]
    // SAFETY: no handler is installed; the signal is ignored.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// SIGHUP is no reason to stop from now on: the command gives it another meaning.
#[cfg(all(unix, feature = "network"))]
pub fn spare_hangup() {
    // SAFETY: no handler is installed; the signal is ignored until somebody asks for it.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    }
}

/// Ends the process now, without its temporary files.
pub fn leave(code: i32) -> ! {
    // Whoever holds the lock is only adding a folder.
    if let Ok(folders) = FOLDERS.try_lock() {
        folders.iter().for_each(data::remove_own);
    }
    std::process::exit(code)
}

/// Says that files will be written in this folder, and removes what commands that were
/// killed have left there.
pub fn writes_in(folder: &Path) {
    let mut folders = FOLDERS.lock().unwrap_or_else(|e| e.into_inner());
    if folders.insert(folder.to_owned()) {
        data::remove_leftovers(folder);
    }
}

/// Whether the user has asked for a stop.
#[derive(Clone)]
pub struct Interrupt(());

impl Interrupt {
    /// Watches from now on: the command asks [`Interrupt::requested`] often.
    pub fn watch() -> Self {
        WATCHED.store(true, Ordering::SeqCst);
        Interrupt(())
    }

    /// Whether it was asked for.
    pub fn requested(&self) -> bool {
        let asked = ASKED.load(Ordering::SeqCst);
        if asked {
            HEARD.store(true, Ordering::SeqCst);
        }
        asked
    }
}
