//! Zstandard files: all frames one after the other, held against their checksums, in
//! bounded memory.
//!
//! The decoder stops after one frame, but parallel compressors and `cat` make files of
//! several. It takes windows of any size and leaves checksums to its caller. So the
//! header of a frame is read here first.

use std::io::{self, BufRead, Chain, Cursor, ErrorKind, Read};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// The largest window that is decoded: as much as the `zstd` command takes unless it
/// is told otherwise.
const LARGEST_WINDOW: u64 = 1 << 27;

const MAGIC: u32 = 0xFD2F_B528;

/// Frames whose content is left out, whatever the last four bits are.
const SKIPPED: u32 = 0x184D_2A50;

/// The content of all frames.
pub(super) struct Frames<S: BufRead> {
    /// The rest of the file, while no frame is at work on it.
    source: Option<S>,
    frame: Option<Frame<S>>,
}

/// A frame that is being read.
struct Frame<S: BufRead> {
    decoder: StreamingDecoder<Chain<Cursor<Vec<u8>>, S>, FrameDecoder>,
    /// The size of its content by its header.
    size: Option<u64>,
    found: u64,
}

impl<S: BufRead> Frames<S> {
    pub fn new(source: S) -> Self {
        Frames {
            source: Some(source),
            frame: None,
        }
    }
}

impl<S: BufRead> Read for Frames<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(frame) = &mut self.frame {
                let count = frame.decoder.read(buffer)?;
                frame.found += count as u64;
                if count > 0 {
                    return Ok(count);
                }
                frame.check()?;
                let ended = self.frame.take();
                self.source = ended.map(|frame| frame.decoder.into_inner().into_inner().1);
            }
            let Some(mut source) = self.source.take() else {
                return Ok(0);
            };
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match Header::read(&mut source)? {
                Header::Skipped => self.source = Some(source),
                Header::Frame { bytes, size } => {
                    let all = Cursor::new(bytes).chain(source);
                    let decoder = StreamingDecoder::new(all).map_err(io::Error::other)?;
                    self.frame = Some(Frame {
                        decoder,
                        size,
                        found: 0,
                    });
                }
            }
        }
    }
}

impl<S: BufRead> Frame<S> {
    /// Holds what was read against what the frame says about it.
    fn check(&self) -> io::Result<()> {
        let decoder = &self.decoder.decoder;
        let stored = decoder.get_checksum_from_data();
        if stored.is_some() && stored != decoder.get_calculated_checksum() {
            return Err(io::Error::other("the checksum of the content is another"));
        }
        match self.size {
            Some(size) if size != self.found => Err(io::Error::other(format!(
                "expected {size} bytes of content, found {}",
                self.found
            ))),
            _ => Ok(()),
        }
    }
}

/// The start of a frame.
enum Header {
    /// A frame that was left out.
    Skipped,
    Frame {
        /// The header itself, for the decoder.
        bytes: Vec<u8>,
        size: Option<u64>,
    },
}

impl Header {
    /// Reads the header of the next frame, and all of a frame that is left out.
    fn read(source: &mut impl Read) -> io::Result<Header> {
        let mut bytes = Vec::new();
        let magic = number(take(source, &mut bytes, 4)?) as u32;
        if magic & !0xF == SKIPPED {
            let length = number(take(source, &mut bytes, 4)?);
            let skipped = io::copy(&mut source.take(length), &mut io::sink())?;
            return match skipped == length {
                true => Ok(Header::Skipped),
                false => Err(ErrorKind::UnexpectedEof.into()),
            };
        }
        if magic != MAGIC {
            // The decoder says what is wrong.
            return Ok(Header::Frame { bytes, size: None });
        }
        let descriptor = take(source, &mut bytes, 1)?[0];
        // All content is one segment: there is no window beside it.
        let single = descriptor >> 5 & 1 == 1;
        let window = match single {
            true => None,
            false => {
                let window = take(source, &mut bytes, 1)?[0];
                let base = 1u64 << (10 + (window >> 3));
                Some(base + base / 8 * u64::from(window & 7))
            }
        };
        take(
            source,
            &mut bytes,
            [0, 1, 2, 4][usize::from(descriptor & 3)],
        )?;
        let size = match (descriptor >> 6, single) {
            (0, false) => None,
            (0, true) => Some(number(take(source, &mut bytes, 1)?)),
            (1, _) => Some(number(take(source, &mut bytes, 2)?) + 256),
            (2, _) => Some(number(take(source, &mut bytes, 4)?)),
            (_, _) => Some(number(take(source, &mut bytes, 8)?)),
        };
        match window.or(size) {
            Some(window) if window > LARGEST_WINDOW => Err(io::Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the zstd window has {} MiB, expected {} MiB at most: was the file compressed \
                     with `--long`?",
                    window >> 20,
                    LARGEST_WINDOW >> 20
                ),
            )),
            _ => Ok(Header::Frame { bytes, size }),
        }
    }
}

/// Reads so many bytes more, and gives them.
fn take<'b>(source: &mut impl Read, bytes: &'b mut Vec<u8>, count: usize) -> io::Result<&'b [u8]> {
    let start = bytes.len();
    bytes.resize(start + count, 0);
    source.read_exact(&mut bytes[start..])?;
    Ok(&bytes[start..])
}

/// A number whose lowest byte comes first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn decoded(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Frames::new(bytes).read_to_end(&mut out).map(|_| out)
    }

    fn message(bytes: &[u8]) -> String {
        decoded(bytes).unwrap_err().to_string()
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    /// A frame with this descriptor and header, and one block of plain bytes.
    fn plain(descriptor: u8, header: &[u8], content: &[u8]) -> Vec<u8> {
        let block = (content.len() as u32) << 3 | 1;
        let start = [&MAGIC.to_le_bytes()[..], &[descriptor], header].concat();
        [&start, &block.to_le_bytes()[..3], content].concat()
    }

    fn skipped(length: u32, content: &[u8]) -> Vec<u8> {
        let magic = SKIPPED + 7;
        [&magic.to_le_bytes()[..], &length.to_le_bytes(), content].concat()
    }

    #[test]
    fn no_damaged_byte_gives_other_content() {
        let text: String = (0..3000u64).map(|i| format!("{}\n", i * i % 971)).collect();
        let whole = encoded(text.as_bytes());
        assert_eq!(decoded(&whole).unwrap(), text.as_bytes());
        let mut refused = 0;
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            match decoded(&damaged) {
                // Bits that mean nothing, such as the size of a larger window.
                Ok(found) => assert!(found == text.as_bytes(), "byte {at}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > whole.len() / 8, "{refused} of {}", whole.len());
        let last = whole.len() - 1;
        let mut damaged = whole;
        damaged[last] ^= 1;
        assert_eq!(message(&damaged), "the checksum of the content is another");
    }

    #[test]
    fn frames_follow_each_other_and_some_are_left_out() {
        let (one, two) = (encoded(b"one\n"), encoded(b"two\n"));
        let frames = [
            skipped(3, b"abc"),
            one,
            skipped(0, b""),
            plain(0x00, &[0], b""),
            two,
            skipped(1, b"x"),
        ];
        let all = frames.concat();
        assert_eq!(decoded(&all).unwrap(), b"one\ntwo\n");
        assert_eq!(decoded(b"").unwrap(), b"");
        for bytes in [&skipped(3, b"ab")[..], &all[..5], &MAGIC.to_le_bytes()] {
            assert_eq!(decoded(bytes).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn large_windows_are_refused_before_memory_is_taken() {
        // Windows of 1 KiB and 128 MiB, and all of 5 bytes at once.
        for frame in [
            plain(0x00, &[0], b"hello"),
            plain(0x00, &[17 << 3], b"hello"),
            plain(0x20, &[5], b"hello"),
        ] {
            assert_eq!(decoded(&frame).unwrap(), b"hello");
        }
        let long = plain(0x00, &[21 << 3], b"hello");
        let found = decoded(&long).unwrap_err();
        assert_eq!(found.kind(), ErrorKind::Unsupported);
        let want = "the zstd window has 2048 MiB, expected 128 MiB at most: was the file compressed \
            with `--long`?";
        assert_eq!(found.to_string(), want);
        let single = plain(0xE0, &(1u64 << 40).to_le_bytes(), b"hello");
        assert!(message(&single).starts_with("the zstd window has 1048576 MiB"));
    }

    #[test]
    fn the_size_of_the_content_is_checked() {
        let short = plain(0x20, &[6], b"hello");
        assert_eq!(message(&short), "expected 6 bytes of content, found 5");
        let long = plain(0x40, &[17 << 3, 0, 0], &[b'x'; 256]);
        assert_eq!(decoded(&long).unwrap().len(), 256);
        let short = plain(0x40, &[17 << 3, 1, 0], &[b'x'; 256]);
        assert_eq!(message(&short), "expected 257 bytes of content, found 256");
    }
}
