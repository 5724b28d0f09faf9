//! Writes files whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, FrameCompressor};
use tempfile::NamedTempFile;

use super::open::{Compression, is_dash};
use super::temporary;
use crate::{Error, Result};

/// The message of the error when whoever reads our stdout has gone; the
/// command line takes that for success.
pub const BROKEN_PIPE: &str = "cannot write: the reader has gone";

const BUFFER: usize = 1 << 17;

/// A file being written. It takes its place only with [`Output::commit`];
/// dropped before, it leaves what was there untouched. Names that end in `.gz`
/// or `.zst` are compressed; `-` is stdout, written as it comes.
pub struct Output {
    path: PathBuf,
    place: Place,
    sink: Sink,
}

/// What happens at the end.
enum Place {
    /// The temporary file is renamed to this path.
    Rename(NamedTempFile, PathBuf),
    /// Stdout, a pipe or a device: written directly.
    Direct,
}

enum Sink {
    Plain(BufWriter<Box<dyn Write>>),
    Gzip(GzEncoder<BufWriter<Box<dyn Write>>>),
    /// The zstd encoder pulls its input, so that waits in a file.
    Zstd(BufWriter<File>, Box<dyn Write>),
}

impl Output {
    /// Starts writing to `path`.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::new(path).map_err(|e| writing(path, &e))
    }

    fn new(path: &Path) -> io::Result<Self> {
        let (place, raw): (Place, Box<dyn Write>) = if is_dash(path) {
            (Place::Direct, Box::new(io::stdout()))
        } else if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
            // Renaming over a pipe or a device would replace it by a file.
            (
                Place::Direct,
                Box::new(File::options().write(true).open(path)?),
            )
        } else {
            // A link stays a link: the file it names is replaced, or made.
            let target = written_file(path);
            let file = temporary::beside(&target)?;
            let raw = Box::new(file.as_file().try_clone()?);
            (Place::Rename(file, target), raw)
        };
        let buffered = |raw| BufWriter::with_capacity(BUFFER, raw);
        let sink = match Compression::of(path) {
            Compression::None => Sink::Plain(buffered(raw)),
            Compression::Gzip => Sink::Gzip(GzEncoder::new(buffered(raw), Default::default())),
            Compression::Zstd => Sink::Zstd(BufWriter::new(tempfile::tempfile()?), raw),
        };
        Ok(Output {
            path: path.to_owned(),
            place,
            sink,
        })
    }

    /// The file, as errors name it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|e| writing(&self.path, &e))
    }

    /// Ends the file, makes sure that it is on the disk, and puts it in place.
    pub fn commit(self) -> Result<()> {
        let Output { path, place, sink } = self;
        let ended = match sink {
            Sink::Plain(mut raw) => raw.flush(),
            Sink::Gzip(encoder) => encoder.finish().and_then(|mut raw| raw.flush()),
            Sink::Zstd(plain, raw) => compress(plain, raw),
        };
        let placed = ended.and_then(|()| match place {
            Place::Direct => Ok(()),
            Place::Rename(file, target) => {
                file.as_file().sync_all()?;
                if let Ok(old) = fs::metadata(&target) {
                    file.as_file().set_permissions(old.permissions())?;
                }
                file.persist(&target).map_err(|e| e.error)?;
                // The name is on the disk when its folder is. Some file systems
                // cannot sync folders; the file itself is safe all the same.
                #[cfg(unix)]
                let _ = File::open(temporary::folder_of(&target)).and_then(|f| f.sync_all());
                Ok(())
            }
        });
        placed.map_err(|e| writing(&path, &e))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Plain(sink) => sink.write(bytes),
            Sink::Gzip(sink) => sink.write(bytes),
            Sink::Zstd(sink, _) => sink.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(sink) => sink.flush(),
            Sink::Gzip(sink) => sink.flush(),
            Sink::Zstd(sink, _) => sink.flush(),
        }
    }
}

/// Writes a whole file, or leaves the old one untouched.
pub fn write_atomically<T>(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> Result<T> {
    let mut output = Output::create(path)?;
    let value = write(&mut output).map_err(|e| writing(output.path(), &e))?;
    output.commit()?;
    Ok(value)
}

/// Says what a failed write means to the user.
fn writing(path: &Path, source: &io::Error) -> Error {
    if source.kind() == io::ErrorKind::BrokenPipe {
        return Error::failure(BROKEN_PIPE).in_file(path);
    }
    Error::writing(path, source)
}

/// The file that is written when this path is: links are followed to their end, also
/// where nothing is there yet.
pub fn written_file(path: &Path) -> PathBuf {
    if let Ok(found) = fs::canonicalize(path) {
        return found;
    }
    let mut path = path.to_owned();
    // As many links in a row as Linux follows.
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(next) => path = temporary::folder_of(&path).join(next),
            Err(_) => break,
        }
    }
    path
}

fn compress(plain: BufWriter<File>, raw: Box<dyn Write>) -> io::Result<()> {
    let mut plain = plain.into_inner().map_err(|e| e.into_error())?;
    plain.rewind()?;
    let mut encoder = FrameCompressor::new(CompressionLevel::Fastest);
    encoder.set_source(Keep::new(BufReader::with_capacity(BUFFER, plain)));
    encoder.set_drain(Keep::new(BufWriter::with_capacity(BUFFER, raw)));
    encoder.compress();
    let source = encoder.take_source().expect("set above");
    let drain = encoder.take_drain().expect("set above");
    source.finish()?;
    drain.finish()?.flush()
}

/// Keeps the first error and goes on as if nothing had happened: the zstd
/// encoder would panic on it.
struct Keep<T> {
    inner: T,
    error: Option<io::Error>,
}

impl<T> Keep<T> {
    fn new(inner: T) -> Self {
        Keep { inner, error: None }
    }

    fn finish(self) -> io::Result<T> {
        self.error.map_or(Ok(self.inner), Err)
    }
}

impl<T: Read> Read for Keep<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.inner.read(buffer).unwrap_or_else(|e| {
            self.error.get_or_insert(e);
            0
        }))
    }
}

impl<T: Write> Write for Keep<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.error.is_none() {
            self.error = self.inner.write_all(bytes).err();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "a.gz", "a.zst"] {
            let path = dir.path().join(name);
            fs::write(&path, "old").unwrap();
            let error = write_atomically(&path, |w| {
                w.write_all(b"new")?;
                Err::<(), _>(io::Error::other("no more ink"))
            });
            let error = error.unwrap_err();
            assert_eq!(error.message, "cannot write: no more ink");
            assert_eq!(fs::read(&path).unwrap(), b"old");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn permissions_and_links_stay() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (plain, path) = (dir.path().join("plain"), dir.path().join("file"));
        fs::write(&plain, "").unwrap();
        write_atomically(&path, |w| w.write_all(b"1")).unwrap();
        let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), mode(&plain));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write_atomically(&link, |w| w.write_all(b"2")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(mode(&path), 0o640);

        write_atomically("/dev/null", |w| w.write_all(b"3")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (link, other) = (dir.path().join("link"), dir.path().join("other"));
        std::os::unix::fs::symlink("other", &link).unwrap();
        std::os::unix::fs::symlink("missing", &other).unwrap();
        write_atomically(&link, |w| w.write_all(b"1")).unwrap();
        for path in [&link, &other] {
            assert!(fs::symlink_metadata(path).unwrap().is_symlink());
        }
        assert_eq!(fs::read(dir.path().join("missing")).unwrap(), b"1");
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert!(write_atomically(&circle, |w| w.write_all(b"1")).is_ok());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = write_atomically("no/such/dir/a", |_| Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no/such/dir/a: cannot write: entity not found"
        );
    }
}
