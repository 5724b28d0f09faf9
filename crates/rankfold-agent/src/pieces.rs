//! Letters in pieces: a million items by ten directions are 80 MB, and no message of the
//! protocol is longer than a megabyte.

use crate::proto::Piece;
use bytes::{Bytes, BytesMut};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

/// Bytes of a letter in one piece.
pub(crate) const PIECE: usize = 1 << 20;

/// The most bytes of a message of the protocol.
pub(crate) const MESSAGE: usize = PIECE + 1024;

/// A letter cut into pieces.
pub(crate) fn cut(letter: Vec<u8>) -> impl Iterator<Item = Piece> + Send {
    let letter = Bytes::from(letter);
    let length = letter.len();
    (0..length.div_ceil(PIECE).max(1)).map(move |i| Piece {
        length: length as u64,
        data: letter.slice(i * PIECE..((i + 1) * PIECE).min(length)),
    })
}

/// The letter that pieces hold; nothing is allocated for one that is longer than the limit.
pub(crate) async fn join<S>(mut pieces: S, limit: usize) -> Result<Bytes, Status>
where
    S: Stream<Item = Result<Piece, Status>> + Unpin,
{
    let Some(first) = pieces.next().await else {
        return Err(Status::invalid_argument("no letter"));
    };
    let first = first?;
    let length = first.length;
    if length > limit as u64 {
        return Err(Status::out_of_range(format!(
            "a letter of {length} bytes, where {limit} are the most"
        )));
    }
    let length = length as usize;
    if first.data.len() == length {
        return Ok(first.data);
    }
    // Room grows with what has come, not with what was announced.
    let mut all = BytesMut::from(&first.data[..]);
    while all.len() < length {
        let Some(piece) = pieces.next().await else {
            return Err(Status::invalid_argument("a letter without its end"));
        };
        let piece = piece?;
        if piece.length != first.length || all.len() + piece.data.len() > length {
            return Err(Status::invalid_argument("pieces of different letters"));
        }
        if piece.data.is_empty() {
            return Err(Status::invalid_argument("an empty piece"));
        }
        all.extend_from_slice(&piece.data);
    }
    Ok(all.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: Vec<Piece>, limit: usize) -> Result<Bytes, Status> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let stream = tokio_stream::iter(pieces.into_iter().map(Ok));
        runtime.block_on(join(stream, limit))
    }

    #[test]
    fn pieces_make_the_letter_again() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let letter: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let pieces: Vec<Piece> = cut(letter.clone()).collect();
            assert!(pieces.iter().all(|piece| piece.data.len() <= PIECE));
            assert_eq!(joined(pieces.clone(), length).unwrap(), letter);
            if length > 0 {
                assert!(joined(pieces, length - 1).is_err());
            }
        }
    }

    #[test]
    fn pieces_that_do_not_fit_are_refused() {
        let piece = |length: u64, data: &[u8]| Piece {
            length,
            data: Bytes::copy_from_slice(data),
        };
        for pieces in [
            vec![],
            vec![piece(u64::MAX, b"a")],
            vec![piece(4 << 30, b"a")],
            vec![piece(3, b"a")],
            vec![piece(3, b"a"), piece(4, b"bcd")],
            vec![piece(3, b"a"), piece(3, b"bcd")],
            vec![piece(3, b"a"), piece(3, b""), piece(3, b"bc")],
        ] {
            assert!(joined(pieces, 1 << 20).is_err());
        }
    }
}
