//! Input that may never come, or never end: another thread waits for it, so that
//! Ctrl-C is heard meanwhile.

use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rankfold::data::{Lines, Reading, holds_columns, open};
use rankfold::{Error, Result};

use crate::interrupt::Interrupt;

/// How soon Ctrl-C is heard.
const HEARING: Duration = Duration::from_millis(50);

/// Blocks on their way from the waiting thread.
const BLOCKS: usize = 4;

type Block = io::Result<Vec<u8>>;

/// Lines of a file, of `-` for stdin, or of a pipe. After Ctrl-C they end.
pub fn lines(path: &Path, reading: &Reading, interrupt: &Interrupt) -> Result<Lines> {
    if holds_columns(path, reading) {
        return Lines::open_with(path, reading);
    }
    let (opened, wait) = sync_channel(1);
    let (send, blocks) = sync_channel(BLOCKS);
    let (give_back, used) = sync_channel(BLOCKS);
    let from = path.to_owned();
    // The thread is left alone at the end: it may wait forever.
    let reader = thread::Builder::new().spawn(move || copy(&from, &opened, &send, &used));
    reader.map_err(|e| Error::failure(format!("cannot start a thread: {e}")))?;
    let source = Patient {
        blocks,
        give_back,
        block: Vec::new(),
        at: 0,
        interrupt: interrupt.clone(),
    };
    // A pipe is open when someone writes to it.
    match source.patiently(&wait) {
        Some(opened) => opened?,
        None => return Ok(Lines::new(Box::new(io::empty()), path)),
    }
    Ok(Lines::new(Box::new(source), path))
}

/// Reads what there is, as soon as it is there; used blocks come back.
fn copy(
    path: &PathBuf,
    opened: &SyncSender<Result<()>>,
    send: &SyncSender<Block>,
    used: &Receiver<Vec<u8>>,
) {
    let mut source = match open(path) {
        Ok(source) => source,
        Err(error) => {
            let _ = opened.send(Err(error));
            return;
        }
    };
    let _ = opened.send(Ok(()));
    loop {
        let mut block = used.try_recv().unwrap_or_default();
        block.clear();
        let read = match source.fill_buf() {
            Ok(bytes) => {
                block.extend_from_slice(bytes);
                let count = bytes.len();
                source.consume(count);
                Ok(block)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => Err(e),
        };
        let last = read.as_ref().map_or(true, Vec::is_empty);
        if send.send(read).is_err() || last {
            return;
        }
    }
}

struct Patient {
    blocks: Receiver<Block>,
    give_back: SyncSender<Vec<u8>>,
    block: Vec<u8>,
    at: usize,
    interrupt: Interrupt,
}

impl Patient {
    /// What comes next; `None` when nothing more does, or after Ctrl-C.
    fn patiently<T>(&self, from: &Receiver<T>) -> Option<T> {
        loop {
            if self.interrupt.requested() {
                return None;
            }
            match from.recv_timeout(HEARING) {
                Ok(value) => return Some(value),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

impl BufRead for Patient {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.block.len() {
            let next = self.patiently(&self.blocks).transpose()?;
            let old = std::mem::replace(&mut self.block, next.unwrap_or_default());
            let _ = self.give_back.try_send(old);
            self.at = 0;
        }
        Ok(&self.block[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut bytes = self.fill_buf()?;
        let count = bytes.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}
