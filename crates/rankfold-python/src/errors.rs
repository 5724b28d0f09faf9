//! Errors of the library as exceptions of Python, in its users' words.

use pyo3::PyErr;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use rankfold::{Error, ErrorKind};

/// What the package calls an option.
pub fn parameter(name: &str) -> &str {
    match name {
        "seed" => "random_state",
        "threads" => "n_jobs",
        "score" => "score_as",
        other => other,
    }
}

/// Flags of the command line as parameters: `--solver online` is `solver="online"`.
fn in_python(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, flag) = rest.split_at(at);
        let flag = &flag[2..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let end = flag.find(|c| !is_word(c)).unwrap_or(flag.len());
        out += before;
        if end == 0 {
            out += "--";
            rest = flag;
            continue;
        }
        out += parameter(&flag[..end].replace('-', "_"));
        rest = &flag[end..];
        // In backquotes a value follows: the flag alone is an option that is on.
        let quoted = before.ends_with('`');
        if let Some(value) = rest.strip_prefix(' ').filter(|_| quoted) {
            let end = value.find('`').unwrap_or(value.len());
            out += &format!("=\"{}\"", &value[..end]);
            rest = &value[end..];
        }
    }
    out + rest
}

/// The exception of an error.
pub fn raised(error: Error) -> PyErr {
    let on_disk =
        error.message.starts_with("cannot read: ") || error.message.starts_with("cannot write: ");
    let option = error
        .option
        .as_deref()
        .map(|name| parameter(name).to_owned());
    let text = in_python(
        &Error {
            option,
            ..error.clone()
        }
        .to_string(),
    );
    match error.kind {
        _ if on_disk && error.file.is_some() => PyOSError::new_err(text),
        ErrorKind::Input => PyValueError::new_err(text),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}
