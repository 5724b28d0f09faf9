//! A subspace on its way over a network: in one of two precisions, whole, or only the
//! rows that differ from one that the receiver has.
//!
//! ```text
//! rows │ rank │ width │ changed │ numbers of the changed rows │ their entries, row by row
//! ```
//!
//! Rows are what items or features are, so a receiver may put them where it has the same
//! names. Both sides keep the last [`Snapshot`] that the other one knows. Close to the end
//! few rows change in `f32`, and an agent at rest sends none.

use super::message::Refusal;
use crate::linalg::qf;
use crate::{choices, manifold::gram};
use faer::Mat;
use std::sync::Arc;

choices! {
    /// How subspaces are sent.
    pub enum MessagePrecision {
        /// Eight bytes a number
        F64 = "f64" (default),
        /// Four bytes a number
        F32 = "f32",
    }
}

impl MessagePrecision {
    fn width(self) -> usize {
        match self {
            MessagePrecision::F64 => 8,
            MessagePrecision::F32 => 4,
        }
    }

    /// How far UᵀU may be from the identity.
    fn tolerance(self) -> f64 {
        match self {
            MessagePrecision::F64 => 1e-9,
            MessagePrecision::F32 => 1e-4,
        }
    }
}

/// Bytes before rows.
const HEAD: usize = 4 * 8;

/// What a receiver is ready for.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rows that the sender may have.
    pub rows: usize,
    /// The rank that all agents have.
    pub rank: usize,
}

/// The entries of a subspace as they were sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    rows: usize,
    rank: usize,
    precision: MessagePrecision,
    /// Row by row.
    bytes: Arc<Vec<u8>>,
}

impl Snapshot {
    /// Of a subspace.
    pub fn new(u: &Mat<f64>, precision: MessagePrecision) -> Self {
        let (rows, rank) = (u.nrows(), u.ncols());
        let mut bytes = Vec::with_capacity(rows * rank * precision.width());
        for i in 0..rows {
            for j in 0..rank {
                match precision {
                    MessagePrecision::F64 => bytes.extend_from_slice(&u[(i, j)].to_le_bytes()),
                    MessagePrecision::F32 => {
                        bytes.extend_from_slice(&(u[(i, j)] as f32).to_le_bytes());
                    }
                }
            }
        }
        Snapshot {
            rows,
            rank,
            precision,
            bytes: Arc::new(bytes),
        }
    }

    fn row_bytes(&self) -> usize {
        self.rank * self.precision.width()
    }

    fn row(&self, i: usize) -> &[u8] {
        &self.bytes[i * self.row_bytes()..][..self.row_bytes()]
    }

    fn entry(&self, i: usize, j: usize) -> f64 {
        let width = self.precision.width();
        let bytes = &self.row(i)[j * width..][..width];
        match self.precision {
            MessagePrecision::F64 => f64::from_le_bytes(bytes.try_into().expect("eight bytes")),
            MessagePrecision::F32 => {
                f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes")))
            }
        }
    }

    /// The subspace of a receiver with so many rows, who has row i of the sender at
    /// `place[i]`; without places, where the sender has it.
    pub fn subspace(&self, rows: usize, place: Option<&[u32]>) -> Result<Mat<f64>, Refusal> {
        let (m, r) = (self.rows as u64, self.rank as u64);
        let known = place.map_or(rows, <[u32]>::len);
        if self.rows > known || (place.is_none() && self.rows != rows) {
            return Err(Refusal::Size([m, r], [known as u64, r]));
        }
        let mut u = Mat::zeros(rows, self.rank);
        for i in 0..self.rows {
            let at = place.map_or(i, |place| place[i] as usize);
            (0..self.rank).for_each(|j| u[(at, j)] = self.entry(i, j));
        }
        let gap = gram(&u) - Mat::<f64>::identity(self.rank, self.rank);
        let tolerance = self.precision.tolerance();
        // Also false where a number is not finite.
        let sound = gap
            .col_iter()
            .all(|c| c.iter().all(|v| v.abs() <= tolerance));
        let u = match (sound, self.precision) {
            (false, _) => None,
            (true, MessagePrecision::F64) => Some(u),
            (true, MessagePrecision::F32) => qf(&u),
        };
        u.ok_or(Refusal::NotASubspace)
    }
}

/// A subspace as bytes.
#[derive(Debug, Clone)]
pub struct Parcel(pub Vec<u8>);

impl Parcel {
    /// The shorter of the whole snapshot and the rows that are not in `known`, which the
    /// receiver has.
    pub fn new(snapshot: &Snapshot, known: Option<&Snapshot>) -> Self {
        let same = |known: &&Snapshot| {
            (known.rank, known.precision) == (snapshot.rank, snapshot.precision)
                && known.rows <= snapshot.rows
        };
        let changed = known.filter(same).map(|known| {
            let differs = |&i: &usize| i >= known.rows || known.row(i) != snapshot.row(i);
            (0..snapshot.rows).filter(differs).collect::<Vec<usize>>()
        });
        let row = snapshot.row_bytes();
        let shorter = changed.filter(|rows| rows.len() * (row + 8) < snapshot.rows * row);
        let mut out = Vec::new();
        let count = shorter.as_ref().map_or(u64::MAX, |rows| rows.len() as u64);
        let width = snapshot.precision.width() as u64;
        for word in [snapshot.rows as u64, snapshot.rank as u64, width, count] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        match shorter {
            None => out.extend_from_slice(&snapshot.bytes),
            Some(rows) => {
                for &i in &rows {
                    out.extend_from_slice(&(i as u64).to_le_bytes());
                }
                rows.iter()
                    .for_each(|&i| out.extend_from_slice(snapshot.row(i)));
            }
        }
        Parcel(out)
    }

    /// Whether it holds only the rows that changed.
    pub fn is_partial(&self) -> bool {
        self.0
            .get(24..HEAD)
            .is_some_and(|count| count != [255; 8].as_slice())
    }

    /// The most bytes that a parcel within these limits has.
    pub fn most(limits: Limits) -> usize {
        limits
            .rows
            .saturating_mul(limits.rank)
            .saturating_mul(8)
            .saturating_add(HEAD)
    }

    /// The snapshot that bytes hold. `known` is the one that a partial parcel is on top
    /// of. Any bytes may be given; nothing is allocated for sizes beyond the limits.
    pub fn open(
        bytes: &[u8],
        known: Option<&Snapshot>,
        limits: Limits,
    ) -> Result<Snapshot, Refusal> {
        let short = || Refusal::Length(bytes.len(), HEAD);
        let (head, body) = bytes.split_at_checked(HEAD).ok_or_else(short)?;
        let (words, _) = head.as_chunks::<8>();
        let [rows, rank, width, changed] = [0, 1, 2, 3].map(|i| u64::from_le_bytes(words[i]));
        let expected = [limits.rows as u64, limits.rank as u64];
        if rank != expected[1] || rows > expected[0] || rows < rank {
            return Err(Refusal::Size([rows, rank], expected));
        }
        let precision = match width {
            8 => MessagePrecision::F64,
            4 => MessagePrecision::F32,
            _ => return Err(Refusal::Foreign),
        };
        let (rows, rank) = (rows as usize, rank as usize);
        let row = rank * precision.width();
        let length = |count: usize, each: usize| match body.len() == count * each {
            true => Ok(()),
            false => Err(Refusal::Length(bytes.len(), HEAD + count * each)),
        };
        if changed == u64::MAX {
            length(rows, row)?;
            return Ok(Snapshot {
                rows,
                rank,
                precision,
                bytes: Arc::new(body.to_vec()),
            });
        }
        let known = known
            .filter(|known| {
                (known.rank, known.precision) == (rank, precision) && known.rows <= rows
            })
            .ok_or(Refusal::Unfounded)?;
        if changed > rows as u64 {
            return Err(Refusal::Size([changed, rank as u64], expected));
        }
        let changed = changed as usize;
        length(changed, row + 8)?;
        let mut bytes = Vec::with_capacity(rows * row);
        bytes.extend_from_slice(&known.bytes);
        bytes.resize(rows * row, 0);
        let (numbers, entries) = body.split_at(8 * changed);
        for (number, entry) in numbers
            .as_chunks::<8>()
            .0
            .iter()
            .zip(entries.chunks_exact(row))
        {
            let i = u64::from_le_bytes(*number);
            if i >= rows as u64 {
                return Err(Refusal::Size([i, rank as u64], expected));
            }
            bytes[i as usize * row..][..row].copy_from_slice(entry);
        }
        Ok(Snapshot {
            rows,
            rank,
            precision,
            bytes: Arc::new(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifold::Grassmann;
    use crate::manifold::tests::matrix;
    use crate::random::Random;

    const LIMITS: Limits = Limits { rows: 40, rank: 3 };

    fn subspace(rows: usize) -> Mat<f64> {
        qf(&matrix(rows, 3, 1)).unwrap()
    }

    #[test]
    fn subspaces_come_back_in_both_precisions() {
        let u = subspace(40);
        for (precision, apart) in [
            (MessagePrecision::F64, 1e-12),
            (MessagePrecision::F32, 1e-6),
        ] {
            let sent = Snapshot::new(&u, precision);
            let parcel = Parcel::new(&sent, None);
            assert!(!parcel.is_partial() && parcel.0.len() <= Parcel::most(LIMITS));
            let found = Parcel::open(&parcel.0, None, LIMITS).unwrap();
            assert_eq!(found, sent);
            let found = found.subspace(40, None).unwrap();
            assert!(Grassmann::distance(&u, &found) <= apart);
        }
    }

    #[test]
    fn only_changed_rows_travel_where_that_is_shorter() {
        let before = Snapshot::new(&subspace(40), MessagePrecision::F64);
        let mut u = subspace(40);
        for j in 0..3 {
            let swap = u[(4, j)];
            u[(4, j)] = u[(9, j)];
            u[(9, j)] = swap;
        }
        let after = Snapshot::new(&u, MessagePrecision::F64);
        let parcel = Parcel::new(&after, Some(&before));
        assert!(parcel.is_partial());
        assert_eq!(parcel.0.len(), HEAD + 2 * (3 * 8 + 8));
        assert_eq!(
            Parcel::open(&parcel.0, Some(&before), LIMITS),
            Ok(after.clone())
        );
        assert_eq!(
            Parcel::open(&parcel.0, None, LIMITS),
            Err(Refusal::Unfounded)
        );
        let rest = Parcel::new(&after, Some(&after));
        assert_eq!(rest.0.len(), HEAD);
        let other = Snapshot::new(&qf(&matrix(40, 3, 2)).unwrap(), MessagePrecision::F64);
        assert!(!Parcel::new(&other, Some(&before)).is_partial());
    }

    #[test]
    fn rows_go_where_the_receiver_has_them() {
        let u = subspace(5);
        let place = [6, 0, 3, 2, 5];
        let limits = Limits { rows: 5, rank: 3 };
        let parcel = Parcel::new(&Snapshot::new(&u, MessagePrecision::F64), None);
        let found = Parcel::open(&parcel.0, None, limits).unwrap();
        let found = found.subspace(8, Some(&place)).unwrap();
        for (i, &at) in place.iter().enumerate() {
            assert_eq!(found[(at as usize, 1)], u[(i, 1)]);
        }
        assert_eq!(found[(7, 0)], 0.0);
    }

    #[test]
    fn what_is_no_subspace_is_refused() {
        let u = faer::Scale(1.01) * subspace(40);
        let parcel = Parcel::new(&Snapshot::new(&u, MessagePrecision::F32), None);
        let found = Parcel::open(&parcel.0, None, LIMITS).unwrap();
        assert_eq!(found.subspace(40, None), Err(Refusal::NotASubspace));
        let whole = Parcel::new(&Snapshot::new(&subspace(40), MessagePrecision::F64), None);
        let mut absurd = whole.0.clone();
        absurd[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(
            Parcel::open(&absurd, None, LIMITS),
            Err(Refusal::Size(..))
        ));
        let mut random = Random::new(1, 0x7061_7263);
        let known = Snapshot::new(&subspace(40), MessagePrecision::F64);
        for _ in 0..20_000 {
            let mut bytes = whole.0.clone();
            for _ in 0..1 + random.below(3) {
                let end = [HEAD, bytes.len()][random.below(2)];
                let at = random.below(end);
                bytes[at] = random.bits() as u8;
            }
            if random.below(4) == 0 {
                bytes.truncate(random.below(bytes.len()));
            }
            if let Ok(found) = Parcel::open(&bytes, Some(&known), LIMITS) {
                let _ = found.subspace(40, None);
            }
        }
    }
}
