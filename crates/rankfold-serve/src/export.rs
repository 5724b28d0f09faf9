//! The journal as a stream for `rankfold update`: rows by value, without what was undone.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use rankfold::Result;
use tokio::sync::mpsc::Receiver;

use crate::answer::View;
use crate::example::with_rows;
use crate::journal::{Entry, Origin, examples};

/// Bytes that go out at once.
const PIECE: usize = 1 << 16;

/// Fields of examples that hold rows.
const ROWS: [&str; 6] = ["query", "positive", "negative", "left", "right", "row"];

/// Gives all examples up to an entry to `put`, until that says that nobody listens.
pub fn stream(
    folder: &Path,
    origin: &Origin,
    end: u64,
    view: &dyn View,
    mut put: impl FnMut(Vec<u8>) -> bool,
) -> Result<()> {
    let mut replay = examples(folder, origin, end)?;
    let mut piece = Vec::with_capacity(PIECE + 4096);
    while let Some(entry) = replay.next()? {
        let Entry::Example(example) = entry else {
            continue;
        };
        piece.extend_from_slice(by_value(view, example.get()).as_bytes());
        piece.push(b'\n');
        if piece.len() >= PIECE && !put(std::mem::take(&mut piece)) {
            return Ok(());
        }
    }
    if !piece.is_empty() {
        put(piece);
    }
    Ok(())
}

/// An example whose ids of rows are replaced by features. Rows that were added stand in the
/// journal by value already, so that only ids of the file are left.
fn by_value(view: &dyn View, example: &str) -> String {
    if !view.names_rows() {
        return example.to_owned();
    }
    with_rows(example, |field, id| {
        let row = ROWS.contains(&field).then(|| view.file_row(field, id));
        row.flatten()
    })
}

/// Pieces as they come.
pub struct Stream(pub Receiver<std::io::Result<Vec<u8>>>);

impl Body for Stream {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, std::io::Error>>> {
        let next = self.0.poll_recv(context);
        next.map(|piece| piece.map(|piece| piece.map(|bytes| Frame::data(bytes.into()))))
    }
}
