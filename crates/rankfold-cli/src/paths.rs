//! Outputs are checked before the work, not after it.

use std::path::{Path, PathBuf};

use rankfold::data::written_file;
use rankfold::{Error, Result};

use crate::interrupt;

/// Refuses outputs that could not be written, that would replace an input, or
/// that would replace each other.
pub fn check(outputs: &[Option<&Path>], inputs: &[Option<&Path>]) -> Result<()> {
    let named = |paths: &[Option<&Path>]| -> Vec<(PathBuf, PathBuf)> {
        let given = paths
            .iter()
            .flatten()
            .filter(|path| **path != Path::new("-"));
        given
            .map(|path| (resolved(path), path.to_path_buf()))
            .collect()
    };
    one_stdin(inputs)?;
    if outputs
        .iter()
        .flatten()
        .filter(|path| is_dash(path))
        .count()
        > 1
    {
        return Err(Error::input("cannot write: `-` stands for two outputs"));
    }
    let (outputs, inputs) = (named(outputs), named(inputs));
    for (i, (place, path)) in outputs.iter().enumerate() {
        let refuse =
            |message: &str| Err(Error::input(format!("cannot write: {message}")).in_file(path));
        let same = |other: &(PathBuf, PathBuf)| other.0 == *place || linked(&other.0, place);
        if inputs.iter().any(same) {
            return refuse("this file is read by the same command");
        }
        if outputs[..i].iter().any(same) {
            return refuse("two outputs have this name");
        }
        if path.is_dir() {
            return refuse("this is a directory");
        }
        // A link may lead to another folder, also where it leads to nothing yet.
        let target = written_file(path);
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return refuse("its folder does not exist");
        }
        // A pipe or a device needs no room beside it.
        if is_file_or_nothing(path) {
            if let Err(error) = tempfile::tempfile_in(folder) {
                return refuse(&error.to_string());
            }
            interrupt::writes_in(folder);
        }
    }
    Ok(())
}

/// Whether a path is one that a file can be put at; not `-`, a pipe or a device.
pub fn is_file_or_nothing(path: &Path) -> bool {
    !is_dash(path) && (!path.exists() || path.is_file())
}

/// Whether two names are hard links of one file. Pipes and devices have no content that
/// could be lost.
fn linked(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let place = |path: &Path| {
            let found = std::fs::metadata(path).ok().filter(|m| m.is_file());
            found.map(|m| (m.dev(), m.ino()))
        };
        place(one).is_some_and(|found| Some(found) == place(other))
    }
    #[cfg(not(unix))]
    {
        let _ = (one, other);
        false
    }
}

/// Refuses to read stdin for two purposes.
pub fn one_stdin(inputs: &[Option<&Path>]) -> Result<()> {
    match inputs.iter().flatten().filter(|path| is_dash(path)).count() {
        0 | 1 => Ok(()),
        _ => Err(Error::input(
            "`-` stands for two inputs, but stdin can be read once",
        )),
    }
}

fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}

/// One name for a file, whichever way it is spelled.
fn resolved(path: &Path) -> PathBuf {
    let path = written_file(path);
    let folder = path
        .parent()
        .filter(|f| !f.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.clone(),
    }
}
