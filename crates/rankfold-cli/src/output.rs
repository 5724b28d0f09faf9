//! Results to stdout, notes and errors to stderr, the exit code to the shell.

use std::ffi::OsString;
use std::io::{IsTerminal, Seek, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rankfold::data::{self, BROKEN_PIPE, Reading};
use rankfold::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use crate::given::Given;
use crate::table::flag;

/// How the user wants to be told.
pub struct Output {
    json: bool,
    quiet: bool,
    /// The flags that were typed.
    pub given: Given,
    /// The whole command, for pages that say how they were made.
    pub command: String,
    /// How data are read, and what readers have told.
    pub reading: Reading,
    /// Warnings that go into the JSON of the result.
    warnings: Mutex<Vec<String>>,
}

impl Output {
    pub fn new(json: bool, quiet: bool, given: Given, command: String, reading: Reading) -> Self {
        Output {
            json,
            quiet,
            given,
            command,
            reading,
            warnings: Mutex::default(),
        }
    }

    /// Tells what readers have recognized, as notes.
    pub fn tell_reading(&self) {
        for note in self.reading.take_notes() {
            self.note(&note);
        }
    }

    /// Tells how many lines were left out.
    fn tell_skipped(&self) {
        let (skipped, first) = (self.reading.skipped(), self.reading.first_skipped());
        if let Some(first) = first {
            let lines = if skipped == 1 {
                "line was"
            } else {
                "lines were"
            };
            self.note(&format!("{skipped} {lines} left out, the first: {first}"));
        }
    }

    /// How many lines were left out, for JSON; `None` where they are errors.
    pub fn skipped_lines(&self) -> Option<u64> {
        self.reading.skips().then(|| self.reading.skipped())
    }

    /// A result, with the lines that were left out and warnings.
    fn with_more(&self, json: &Value) -> Value {
        let mut json = json.clone();
        if let (Some(skipped), Some(object)) = (self.skipped_lines(), json.as_object_mut()) {
            object.insert("skipped_lines".into(), json!(skipped));
        }
        let warnings = self.warnings();
        if let (false, Some(object)) = (warnings.is_empty(), json.as_object_mut()) {
            object.insert("warnings".into(), json!(warnings));
        }
        json
    }

    /// The result of a command: one JSON object, or lines for people.
    pub fn result(&self, json: &Value, text: &str) -> Result<()> {
        self.tell_reading();
        self.tell_skipped();
        let line = if self.json {
            self.with_more(json).to_string()
        } else {
            text.to_owned()
        };
        self.raw(format!("{line}\n").as_bytes())
    }

    /// The result of a command that has written its data to stdout, where
    /// nothing else may stand then: it goes to stderr.
    pub fn result_beside_data(&self, json: &Value, text: &str) {
        self.tell_reading();
        self.tell_skipped();
        if self.json {
            tell(&self.with_more(json).to_string());
        } else if !self.quiet {
            tell(text);
        }
    }

    /// The result of learning, with the model in a file or on stdout; where that was
    /// interrupted, an error without words.
    pub fn learned(&self, model: &Path, json: &Value, text: &str, interrupted: bool) -> Result<()> {
        if model == Path::new("-") {
            self.result_beside_data(json, text);
        } else {
            self.result(json, text)?;
        }
        match interrupted {
            true => Err(Error::interrupted("")),
            false => Ok(()),
        }
    }

    /// Bytes to stdout.
    pub fn raw(&self, bytes: &[u8]) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(bytes).and_then(|()| out.flush());
        written.map_err(|e| match e.kind() {
            std::io::ErrorKind::BrokenPipe => Error::failure(BROKEN_PIPE),
            _ => Error::writing("-", &e),
        })
    }

    /// Whether the result is to be JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether nothing is told on the way.
    #[cfg(feature = "network")]
    pub fn is_silent(&self) -> bool {
        self.quiet || self.json
    }

    /// Stdout for a result that is written as it comes. JSON is held back until it is
    /// whole: an error must not leave a part of an object.
    pub fn stream(&self) -> Result<Stream> {
        self.tell_reading();
        Ok(Stream {
            out: data::Output::create("-")?,
            held: self.json.then(|| tempfile::spooled_tempfile(HELD)),
        })
    }

    /// A spinner with a counter; only on a terminal.
    pub fn progress(&self, what: &'static str) -> ProgressBar {
        if self.quiet || self.json || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{spinner} {human_pos} {msg} {elapsed}");
        let bar = ProgressBar::new_spinner().with_message(what);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    /// A spinner with a counter and its rate; only on a terminal.
    pub fn counter(&self, what: &'static str) -> ProgressBar {
        let bar = self.progress(what);
        let template = "{spinner} {human_pos} {msg}, {per_sec}, {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar
    }

    /// A line for people that is no result.
    pub fn note(&self, line: &str) {
        if !self.quiet && !self.json {
            tell(line);
        }
    }

    /// A line that people should not miss; a field of the result in JSON.
    pub fn warn(&self, line: &str) {
        if self.json {
            let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            warnings.push(line.to_owned());
        } else if !self.quiet {
            tell(&format!("warning: {line}"));
        }
    }

    fn warnings(&self) -> Vec<String> {
        let warnings = self.warnings.lock();
        warnings.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A bar over a known number of steps; only on a terminal.
    pub fn bar(&self, steps: u64) -> ProgressBar {
        if self.quiet || self.json || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let template = "{wide_bar} {human_pos}/{human_len} {msg} {per_sec} {eta}";
        let bar = ProgressBar::new(steps);
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar
    }

    /// Something reached on the way: beside the bar, or as a line where there
    /// is none.
    pub fn milestone(&self, bar: &ProgressBar, line: &str) {
        if bar.is_hidden() {
            self.note(line);
        } else {
            bar.set_message(line.to_owned());
        }
    }

    /// What all results that are written as they come end with, for JSON; for people, what
    /// is to be told at the end.
    pub fn end_of_stream(&self) -> String {
        self.tell_reading();
        self.tell_skipped();
        let skipped = self.skipped_lines();
        let skipped = skipped.map_or_else(String::new, |n| format!("\"skipped_lines\":{n},"));
        match &self.warnings()[..] {
            [] => skipped,
            warnings => format!("{skipped}\"warnings\":{},", json!(warnings)),
        }
    }

    /// Tells about an error, and gives the exit code: 2 for bad input, 1 for
    /// a failure; a reader that has gone is no error.
    pub fn fail(&self, error: &Error) -> u8 {
        if error.message == BROKEN_PIPE {
            return 0;
        }
        self.tell_reading();
        let code = match error.kind {
            ErrorKind::Input => 2,
            ErrorKind::Interrupted => 130,
            _ => 1,
        };
        if error.kind == ErrorKind::Interrupted && error.message.is_empty() {
            return code;
        }
        // The user knows an option by its flag.
        let flag = error
            .option
            .as_deref()
            .map(|name| format!("{} ", flag(name)));
        let error = Error {
            message: format!("{}{}", flag.unwrap_or_default(), error.message),
            option: None,
            // The file says it.
            about: error.about.filter(|what| *what != "model"),
            ..error.clone()
        };
        if self.json {
            let file = error.file.as_ref().map(|f| f.display().to_string());
            tell(&json_error(&error.message, file, error.line));
        } else {
            tell(&format!("error: {error}"));
        }
        code
    }
}

/// Bytes of a result that wait in memory; more of them wait in a file.
const HELD: usize = 1 << 24;

/// A result on its way to stdout.
pub struct Stream {
    out: data::Output,
    held: Option<tempfile::SpooledTempFile>,
}

impl Stream {
    /// Writes all bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.held {
            Some(held) => held.write_all(bytes).map_err(|e| Error::writing("-", &e)),
            None => self.out.put(bytes),
        }
    }

    /// Ends the result.
    pub fn commit(self) -> Result<()> {
        let Stream { mut out, held } = self;
        if let Some(mut held) = held {
            let copied = held
                .rewind()
                .and_then(|()| std::io::copy(&mut held, &mut out));
            copied.map_err(|e| match e.kind() {
                std::io::ErrorKind::BrokenPipe => Error::failure(BROKEN_PIPE),
                _ => Error::writing("-", &e),
            })?;
        }
        out.commit()
    }
}

/// An error about a score that cannot be told.
pub fn not_finite(what: &str) -> Error {
    Error::input(format!(
        "the score of {what} is not a finite number: some values are too large"
    ))
}

/// A number of any size, to four digits.
pub fn shown(value: f64) -> String {
    match value == 0.0 || (1e-2..1e6).contains(&value) {
        true => format!("{value:.4}"),
        false => format!("{value:.3e}"),
    }
}

/// Tells about wrong usage, or prints the help that was asked for.
pub fn usage(error: &clap::Error, args: &[OsString]) -> u8 {
    let json = args.iter().any(|arg| arg == "--json");
    if json && error.use_stderr() {
        let text = match error.kind() {
            // Its own text is the help of the command.
            clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                "a command or task is missing: see --help".to_owned()
            }
            _ => error.render().to_string(),
        };
        let message = text.split("\n\n").next().unwrap_or("").trim();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        tell(&json_error(message, None, None));
    } else {
        // Help for a reader that has gone is no error either.
        let _ = error.print();
    }
    if error.use_stderr() { 2 } else { 0 }
}

fn json_error(message: &str, file: Option<String>, line: Option<u64>) -> String {
    json!({ "error": { "message": message, "file": file, "line": line } }).to_string()
}

/// A line on stderr, which may be closed.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
