//! Files that are on their way to their place, and locks: what a killed process leaves
//! of them is found and removed by the next.
//!
//! Every such file is locked as long as its process lives, and the system gives the
//! lock back however the process ends. So a file that can be locked is a leftover. A
//! process that makes one looks, after it has locked it, whether the file still has its
//! name: another process may have taken it for a leftover in between.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::NamedTempFile;

use super::output::written_file;
use crate::{Error, Result};

/// What the names of all files of this kind start with.
const PREFIX: &str = ".rankfold-";

/// What the names of those of this process start with.
fn own_prefix() -> &'static str {
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| {
        let random = RandomState::new().hash_one(std::process::id());
        format!("{PREFIX}{random:016x}-")
    })
}

/// The folder that a path is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A new file in the same folder, so that renaming does not copy, with the
/// permissions any new file would get.
pub(super) fn beside(target: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(own_prefix());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    loop {
        let made = builder.tempfile_in(folder_of(target));
        // The temporary name says nothing to the user.
        let made = made.map_err(|e| io::Error::from(e.kind()))?;
        // Where the file system has no locks, nothing is taken for a leftover.
        let locked = made.as_file().try_lock().is_ok();
        if !locked || is_at(made.as_file(), made.path()) {
            return Ok(made);
        }
    }
}

/// Whether this file has this name.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let place = |m: fs::Metadata| (m.dev(), m.ino());
        let (own, named) = (file.metadata().map(place), fs::metadata(path).map(place));
        matches!((own, named), (Ok(own), Ok(named)) if own == named)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

fn list(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|e| e.file_name().to_string_lossy().starts_with(prefix));
    named.map(|entry| entry.path()).collect()
}

/// Removes what processes that were killed have left in a folder, and says how many
/// files that were.
pub fn remove_leftovers(folder: impl AsRef<Path>) -> usize {
    let left = list(folder.as_ref(), PREFIX);
    let removed = left.iter().filter(|path| {
        let file = File::options().read(true).write(true).open(path);
        file.is_ok_and(|file| file.try_lock().is_ok() && fs::remove_file(path).is_ok())
    });
    removed.count()
}

/// Removes the files of this process from a folder, before it ends in the middle of
/// its work.
pub fn remove_own(folder: impl AsRef<Path>) {
    for path in list(folder.as_ref(), own_prefix()) {
        let _ = fs::remove_file(path);
    }
}

/// The right to write a file, which one process has at a time.
#[derive(Debug)]
pub struct WriteLock {
    path: PathBuf,
    /// Locked as long as it is open.
    _file: File,
}

impl WriteLock {
    /// Takes the right to write this file; `None` where another process has it. The lock
    /// is a file beside it, `.rankfold-lock-NAME`.
    pub fn take(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let target = written_file(path.as_ref());
        let mut name = std::ffi::OsString::from(format!("{PREFIX}lock-"));
        name.push(target.file_name().unwrap_or_default());
        let lock = folder_of(&target).join(name);
        loop {
            let mut options = File::options();
            let opened = options.write(true).create(true).truncate(false).open(&lock);
            let file = opened.map_err(|e| Error::writing(&lock, &e))?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &lock) => {
                    return Ok(Some(WriteLock {
                        path: lock,
                        _file: file,
                    }));
                }
                // The process before has just removed it.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(Error::writing(&lock, &e)),
            }
        }
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn leftovers_are_removed_and_files_at_work_stay() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("m");
        let at_work = beside(&target).unwrap();
        fs::write(dir.path().join(".rankfold-0123-abc"), "half").unwrap();
        fs::write(dir.path().join(".rankfold-lock-m"), "").unwrap();
        fs::write(dir.path().join("kept"), "").unwrap();
        assert_eq!(remove_leftovers(dir.path()), 2);
        let name = at_work.path().file_name().unwrap().to_str().unwrap();
        assert_eq!(names(dir.path()), [name, "kept"]);
        assert_eq!(remove_leftovers(dir.path()), 0);
        remove_own(dir.path());
        assert_eq!(names(dir.path()), ["kept"]);
        assert_eq!(remove_leftovers(dir.path().join("missing")), 0);
    }

    #[test]
    fn one_process_writes_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("m"), dir.path().join("n"));
        let lock = WriteLock::take(&path).unwrap().expect("the first has it");
        assert!(WriteLock::take(&path).unwrap().is_none());
        assert!(WriteLock::take(&other).unwrap().is_some());
        assert_eq!(remove_leftovers(dir.path()), 0);
        drop(lock);
        assert_eq!(names(dir.path()), Vec::<String>::new());
        // A lock that a killed process left holds nobody up.
        fs::write(dir.path().join(".rankfold-lock-m"), "").unwrap();
        assert!(WriteLock::take(&path).unwrap().is_some());
    }
}
