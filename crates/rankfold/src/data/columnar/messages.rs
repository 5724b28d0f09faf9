//! Looks at all messages of an Arrow file or stream before any is decoded: a decoder takes the
//! memory that a message asks for, and a message may be damaged.

use std::io::{Read, Seek, SeekFrom};

use arrow_ipc::reader::read_footer_length;
use arrow_ipc::{Block, Message, RecordBatch, root_as_footer, root_as_message};

use super::pages::{LARGE, RATIO};

type Result<T> = std::result::Result<T, String>;

/// What stands at the end of a file: the length of the list before it, and six letters.
const TRAILER: u64 = 10;

/// What a message of other software has before its length.
const CONTINUED: [u8; 4] = [0xff; 4];

/// Checks a file, which ends with a list of its messages.
pub(super) fn check_file(file: &mut (impl Read + Seek)) -> Result<()> {
    let length = file.seek(SeekFrom::End(0)).map_err(text)?;
    let start = length.checked_sub(TRAILER).ok_or("it ends too early")?;
    let trailer = bytes(file, start, TRAILER, length)?;
    let trailer = trailer.try_into().map_err(|_| "it ends too early")?;
    let footer = read_footer_length(trailer).map_err(text)? as u64;
    let at = start.checked_sub(footer).ok_or("its list is too long")?;
    let footer = bytes(file, at, footer, length)?;
    let footer = root_as_footer(&footer).map_err(|_| "its list of batches is damaged")?;
    let blocks = footer.dictionaries().into_iter().flatten();
    let blocks = blocks.chain(footer.recordBatches().into_iter().flatten());
    blocks
        .into_iter()
        .try_for_each(|block| check_block(file, block, length))
}

fn check_block(file: &mut (impl Read + Seek), block: &Block, length: u64) -> Result<()> {
    let size = |value: i64| u64::try_from(value).map_err(|_| "the length of a message is negative");
    let (at, head) = (size(block.offset())?, size(block.metaDataLength().into())?);
    let head_bytes = bytes(file, at, head, length)?;
    let skipped = if head_bytes.starts_with(&CONTINUED) {
        8
    } else {
        4
    };
    let message = head_bytes.get(skipped..).map(root_as_message);
    let Some(Ok(message)) = message else {
        return Err("a message is damaged".into());
    };
    check_message(
        file,
        message,
        (at + head, size(block.bodyLength())?),
        length,
    )
}

/// Checks a stream, whose messages stand one after the other.
pub(super) fn check_stream(file: &mut (impl Read + Seek)) -> Result<()> {
    let length = file.seek(SeekFrom::End(0)).map_err(text)?;
    let mut at = 0;
    while at < length {
        let mut word = number(file, at, length)?;
        at += 4;
        if word == CONTINUED {
            word = number(file, at, length)?;
            at += 4;
        }
        let head = u64::from(u32::from_le_bytes(word));
        if head == 0 {
            return Ok(());
        }
        let found = bytes(file, at, head, length)?;
        let message = root_as_message(&found).map_err(|_| "a message is damaged")?;
        let body = u64::try_from(message.bodyLength());
        let body = body.map_err(|_| "the length of a message is negative")?;
        at += head;
        check_message(file, message, (at, body), length)?;
        at += body;
    }
    Ok(())
}

/// Checks a message whose body lies at these bytes.
fn check_message(
    file: &mut (impl Read + Seek),
    message: Message<'_>,
    (start, body): (u64, u64),
    length: u64,
) -> Result<()> {
    within(start, body, length)?;
    let of_dictionary = || message.header_as_dictionary_batch()?.data();
    let batch: Option<RecordBatch<'_>> = message.header_as_record_batch().or_else(of_dictionary);
    let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else {
        return Ok(());
    };
    for buffer in batch.buffers().into_iter().flatten() {
        let sizes = [buffer.offset(), buffer.length()].map(u64::try_from);
        let [Ok(offset), Ok(packed)] = sizes else {
            return Err("the length of a column is negative".into());
        };
        within(offset, packed, body)?;
        if packed < 8 {
            continue;
        }
        // What is compressed begins with its length; -1 says that it is not compressed.
        let plain = bytes(file, start + offset, 8, length)?;
        let plain = plain.try_into().map_or(0, i64::from_le_bytes);
        if plain > LARGE as i64 && plain as u64 / RATIO > packed {
            return Err(format!(
                "a column of {packed} bytes says that it has {plain}"
            ));
        }
    }
    Ok(())
}

fn within(start: u64, count: u64, length: u64) -> Result<()> {
    match start.checked_add(count) {
        Some(end) if end <= length => Ok(()),
        _ => Err(format!("expected {count} bytes at {start}, of {length}")),
    }
}

fn bytes(file: &mut (impl Read + Seek), at: u64, count: u64, length: u64) -> Result<Vec<u8>> {
    within(at, count, length)?;
    file.seek(SeekFrom::Start(at)).map_err(text)?;
    let mut out = Vec::new();
    file.by_ref()
        .take(count)
        .read_to_end(&mut out)
        .map_err(text)?;
    Ok(out)
}

fn number(file: &mut (impl Read + Seek), at: u64, length: u64) -> Result<[u8; 4]> {
    let found = bytes(file, at, 4, length)?;
    found.try_into().map_err(|_| "it ends too early".into())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
