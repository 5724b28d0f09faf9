//! Opens files for streamed reading: plain, `.gz`, `.zst`, or `-` for stdin.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use tempfile::NamedTempFile;

use super::columnar::{self, Kind, LeftOut};
use super::reading::Reading;
use super::zstd::Frames;
use crate::{Error, Result};

/// How long a line may be: a compressed file of a few kilobytes could otherwise ask for
/// all the memory there is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    Line,
    /// Each name of a header takes many times its length.
    Header,
}

impl Limit {
    fn bytes(self) -> u64 {
        match self {
            Limit::Line => 1 << 30,
            Limit::Header => 1 << 24,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Limit::Line => "the line is longer than 1 GiB",
            Limit::Header => "the header is longer than 16 MiB",
        }
    }
}

const BUFFER: usize = 1 << 17;

/// How a file is compressed, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn of(path: &Path) -> Self {
        match path.extension().and_then(OsStr::to_str) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// Whether a path means stdin or stdout.
pub(super) fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens a file for streamed reading, decompressing by its name (`.gz`,
/// `.zst`); `-` is stdin. A byte order mark is left out.
pub fn open(path: impl AsRef<Path>) -> Result<Box<dyn BufRead + Send>> {
    let path = path.as_ref();
    if is_dash(path) {
        return without_mark(path, BufReader::with_capacity(BUFFER, io::stdin()));
    }
    let file = File::open(path).map_err(|e| reading(path, &e))?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(Error::input("cannot read: this is a directory").in_file(path));
    }
    let raw = BufReader::with_capacity(BUFFER, file);
    match Compression::of(path) {
        Compression::None => without_mark(path, raw),
        Compression::Gzip => {
            let plain = MultiGzDecoder::new(raw);
            without_mark(path, BufReader::with_capacity(BUFFER, plain))
        }
        Compression::Zstd => {
            let plain = Frames::new(raw);
            without_mark(path, BufReader::with_capacity(BUFFER, plain))
        }
    }
}

fn without_mark(
    path: &Path,
    mut source: impl BufRead + Send + 'static,
) -> Result<Box<dyn BufRead + Send>> {
    let mut start = Vec::new();
    let read = source.by_ref().take(3).read_to_end(&mut start);
    read.map_err(|e| reading(path, &e))?;
    if start == b"\xef\xbb\xbf" {
        start.clear();
    }
    Ok(Box::new(Cursor::new(start).chain(source)))
}

/// Says what a failed read means to the user.
pub(super) fn reading(path: &Path, source: &io::Error) -> Error {
    if Compression::of(path) == Compression::None || source.raw_os_error().is_some() {
        return Error::reading(path, source);
    }
    if source.kind() == io::ErrorKind::Unsupported {
        return Error::input(source.to_string()).in_file(path);
    }
    let message = if ends_early(source) {
        "the compressed data ends too early".to_string()
    } else {
        format!("the compressed data is damaged: {source}")
    };
    Error::input(message).in_file(path)
}

/// Looks for the end of the file among the causes: the zstd decoder wraps it
/// several times.
fn ends_early(error: &io::Error) -> bool {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return true;
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|e| e as _);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|e| e.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Where lines come from.
enum Source {
    Text(Box<dyn BufRead + Send>),
    /// Rows of a column file as records, the names of the columns first.
    Table(Box<dyn columnar::Records>),
}

/// Reads a file line by line into one buffer, and knows where it is.
pub struct Lines {
    source: Source,
    path: PathBuf,
    buffer: Vec<u8>,
    number: u64,
    limit: Limit,
    reading: Reading,
}

impl Lines {
    /// Opens a file as [`open`] does.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Lines::new(open(&path)?, path))
    }

    /// The same, read as `reading` says. The rows of a Parquet or Arrow file are records of
    /// a table, the names of its columns first.
    pub fn open_with(path: impl AsRef<Path>, reading: &Reading) -> Result<Self> {
        let path = path.as_ref();
        let name = match is_dash(path) && reading.format().is_none() {
            true => path.to_owned(),
            false => reading.name_of(path)?,
        };
        Lines::open_as(path, &name, path).map(|lines| lines.read_by(reading))
    }

    /// The lines of a file, where the extension of `name` says whether it is a column file;
    /// errors name `shown`.
    pub(super) fn open_as(path: &Path, name: &Path, shown: &Path) -> Result<Self> {
        let source = match Kind::of(name) {
            None => Source::Text(open(path)?),
            Some(kind) => Source::Table(columnar::open(path, kind)?),
        };
        Ok(Lines::of(source, shown))
    }

    /// The same lines, read as `reading` says.
    pub fn read_by(mut self, reading: &Reading) -> Self {
        self.reading = reading.clone();
        for LeftOut { name, holds } in self.left_out() {
            let path = self.path.display();
            reading.note(format!(
                "{path}: column `{name}` holds {holds} and is left out"
            ));
        }
        self
    }

    /// Columns of a column file that cannot be given.
    pub(super) fn left_out(&self) -> &[LeftOut] {
        match &self.source {
            Source::Text(_) => &[],
            Source::Table(table) => table.left_out(),
        }
    }

    /// Whether these are records of a column file, which names its columns.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.source, Source::Table(_))
    }

    /// Lines of anything; errors name `path`.
    pub fn new(source: Box<dyn BufRead + Send>, path: impl AsRef<Path>) -> Self {
        Lines::of(Source::Text(source), path.as_ref())
    }

    fn of(source: Source, path: &Path) -> Self {
        Lines {
            source,
            path: path.to_owned(),
            buffer: Vec::new(),
            number: 0,
            limit: Limit::Line,
            reading: Reading::default(),
        }
    }

    /// The next line without its end (`\n` or `\r\n`); `None` after the last.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.next_raw()?.map(without_end))
    }

    /// The next line byte for byte, with its end where it has one.
    pub fn next_raw(&mut self) -> Result<Option<&[u8]>> {
        self.buffer.clear();
        Ok(if self.append_raw()? {
            Some(&self.buffer)
        } else {
            None
        })
    }

    /// Appends the next line to the one just read, as quoted line breaks in
    /// CSV need; false at the end of the file.
    pub(super) fn append_raw(&mut self) -> Result<bool> {
        let longest = self.limit.bytes();
        self.number += 1;
        let count = match &mut self.source {
            Source::Text(source) => {
                let mut limited = source.by_ref().take(longest);
                let read = limited.read_until(b'\n', &mut self.buffer);
                read.map_err(|e| reading(&self.path, &e).at_line(self.number))?
            }
            Source::Table(table) => {
                let more = table.next(&mut self.buffer)?;
                if more { self.buffer.len() } else { 0 }
            }
        };
        if count as u64 == longest || self.buffer.len() as u64 > longest {
            return Err(self.error(self.limit.message()));
        }
        Ok(count > 0)
    }

    /// What was not read yet.
    pub(super) fn into_source(self) -> Box<dyn BufRead + Send> {
        match self.source {
            Source::Text(source) => source,
            Source::Table(_) => Box::new(io::empty()),
        }
    }

    /// How long the lines that follow may be.
    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// The bytes of the line just read.
    pub(super) fn current(&self) -> &[u8] {
        &self.buffer
    }

    /// The number of the line just read, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The file, as errors name it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How they are read.
    pub(super) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The error of the line just read, unless bad lines are left out.
    pub(super) fn bad(&self, message: impl Into<String>) -> Result<()> {
        self.reading.bad(self.error(message))
    }

    /// An input error at the line just read.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.error_at(self.number, message)
    }

    /// An input error at the line with this number. The rows of a column file count from 1,
    /// and its names have no place.
    pub(super) fn error_at(&self, line: u64, message: impl Into<String>) -> Error {
        let error = match (&self.source, line) {
            (Source::Text(_), _) => Error::input(message).at_line(line),
            (Source::Table(_), 0 | 1) => Error::input(message),
            (Source::Table(_), _) => Error::input(format!("row {}: {}", line - 1, message.into())),
        };
        error.in_file(&self.path)
    }
}

/// A line without its `\n` or `\r\n`.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A file that can be read twice: stdin and pipes are copied to a temporary file.
pub(super) struct Replay {
    shown: PathBuf,
    /// Its extension says the format.
    name: PathBuf,
    copy: Option<NamedTempFile>,
}

impl Replay {
    pub(super) fn new(path: &Path, name: &Path) -> Result<Self> {
        let (shown, name) = (path.to_owned(), name.to_owned());
        let is_stream = || std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir());
        if !is_dash(path) && !is_stream() {
            let copy = None;
            return Ok(Replay { shown, name, copy });
        }
        let failed =
            |e: io::Error| Error::failure(format!("cannot copy the stream to a file: {e}"));
        let mut copy = NamedTempFile::new().map_err(failed)?;
        io::copy(&mut open(path)?, &mut copy).map_err(failed)?;
        copy.flush().map_err(failed)?;
        Ok(Replay {
            shown,
            name,
            copy: Some(copy),
        })
    }

    /// The lines from the start.
    pub(super) fn lines(&self) -> Result<Lines> {
        let path = self.copy.as_ref().map_or(&*self.shown, |copy| copy.path());
        Lines::open_as(path, &self.name, &self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::output::write_atomically;

    fn all(path: &Path) -> Result<Vec<(u64, String)>> {
        let mut lines = Lines::open(path)?;
        let mut out = Vec::new();
        while let Some(line) = lines.next_line()? {
            let text = String::from_utf8_lossy(line).into_owned();
            out.push((lines.number(), text));
        }
        Ok(out)
    }

    #[test]
    fn lines_are_the_same_however_they_are_stored() {
        let dir = tempfile::tempdir().unwrap();
        let text = b"\xef\xbb\xbfone\r\n\ntwo\nlast";
        for name in ["a.txt", "a.txt.gz", "a.txt.zst"] {
            let path = dir.path().join(name);
            write_atomically(&path, |w| w.write_all(text)).unwrap();
            let got = all(&path).unwrap();
            let want = [(1, "one"), (2, ""), (3, "two"), (4, "last")];
            assert_eq!(got, want.map(|(n, s)| (n, s.to_string())), "{name}");
        }
    }

    #[test]
    fn files_of_several_parts_are_read_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.gz", "a.zst"] {
            let path = dir.path().join(name);
            write_atomically(&path, |w| w.write_all(b"one\n")).unwrap();
            let part = std::fs::read(&path).unwrap();
            std::fs::write(&path, [&part[..], &part[..]].concat()).unwrap();
            assert_eq!(all(&path).unwrap().len(), 2, "{name}");
        }
    }

    #[test]
    fn content_that_is_not_what_was_written_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.gz", "a.zst"] {
            let path = dir.path().join(name);
            let text: String = (0..500).map(|i| format!("{i}\n")).collect();
            write_atomically(&path, |w| w.write_all(text.as_bytes())).unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            // The checksums are the last bytes: of gzip before four of the length.
            let at = bytes.len() - if name == "a.gz" { 5 } else { 1 };
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            let error = all(&path).unwrap_err().message;
            let damaged = error.starts_with("the compressed data is damaged: ");
            assert!(damaged, "{name}: {error}");
        }
        // A window of 2 GiB, as `zstd --long=31` writes it.
        let path = dir.path().join("long.zst");
        std::fs::write(&path, b"\x28\xb5\x2f\xfd\x00\xa8\x09\x00\x00a").unwrap();
        let error = all(&path).unwrap_err().message;
        assert!(error.starts_with("the zstd window has 2048 MiB"), "{error}");
    }

    #[test]
    fn damaged_and_missing_files_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let text: String = (0..50_000u64).map(|i| format!("{}\n", i * i)).collect();
        for name in ["a.gz", "a.zst"] {
            let path = dir.path().join(name);
            write_atomically(&path, |w| w.write_all(text.as_bytes())).unwrap();
            let whole = std::fs::read(&path).unwrap();
            std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
            let error = all(&path).unwrap_err();
            assert_eq!(error.message, "the compressed data ends too early");
            assert_eq!(error.file.as_deref(), Some(path.as_path()));
            std::fs::write(&path, "plain text, no archive").unwrap();
            let error = all(&path).unwrap_err();
            assert!(
                error
                    .message
                    .starts_with("the compressed data is damaged: ")
            );
        }
        let error = all(&dir.path().join("none")).unwrap_err();
        assert!(error.message.starts_with("cannot read: "), "{error}");
        let error = all(dir.path()).unwrap_err();
        assert_eq!(error.message, "cannot read: this is a directory");
    }
}
