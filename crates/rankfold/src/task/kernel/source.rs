//! The kernel that learning starts from: its distances, and its factor of rank r by
//! the leading eigenvectors.

use super::KernelFunction;
use crate::data::{Labelled, RowIds, SquareMatrix};
use crate::linalg::{qf, symmetric};
use crate::model::Steps;
use crate::parallel::map_blocks;
use crate::random::normal_at;
use crate::task::inputs::Things;
use crate::{Error, Ids, Real, Result, Rows, SparseVec, memory};
use faer::Mat;

/// Eigenvalues below this share of the largest are rounding.
const ROUNDING: f64 = 1e-10;

/// How far mirrored entries of a given matrix may differ, and how far below zero its
/// eigenvalues may be, as shares of the largest: single precision gives as much.
const GIVEN: f64 = 1e-6;

/// The side of the normal deviates that a low rank of the identity is made of.
const DIRECTIONS: u64 = 0x6964;

/// Where a kernel starts.
#[derive(Debug, Clone, Copy)]
pub enum KernelStart<'a, R> {
    /// Items of which only names are known: all are equally far from each other.
    Identity(&'a Ids),
    /// A kernel matrix.
    Matrix(&'a SquareMatrix),
    /// A kernel of rows.
    Rows(&'a Labelled<R>),
}

impl<R: Real> KernelStart<'_, R> {
    /// The names of the items; each stands once.
    pub(super) fn items(&self) -> Result<Ids> {
        match self {
            KernelStart::Identity(items) => Ok((*items).clone()),
            KernelStart::Matrix(matrix) => Ok(matrix.items.clone()),
            KernelStart::Rows(data) => names(&data.ids, data.rows.len()),
        }
    }
}

/// The names of rows, each of which must be another.
pub(super) fn names(ids: &RowIds, count: usize) -> Result<Ids> {
    let mut out = Ids::new();
    for i in 0..count {
        let name = ids.name(i);
        if out.intern(&name) as usize != i {
            return Err(Error::input(format!("two items are called `{name}`")));
        }
    }
    Ok(out)
}

/// The start, ready to be asked.
pub(super) enum Source {
    Identity(usize),
    Matrix(Mat<f64>),
    /// Rows as the kernel sees them, with their squared lengths.
    Rows {
        rows: Rows<f64>,
        squares: Vec<f64>,
        function: KernelFunction,
    },
}

impl Source {
    pub fn new<R: Real>(
        start: KernelStart<'_, R>,
        function: KernelFunction,
        steps: Steps,
    ) -> Result<Self> {
        match start {
            KernelStart::Identity(items) => Ok(Source::Identity(items.len())),
            KernelStart::Matrix(matrix) => Self::given(matrix),
            KernelStart::Rows(data) => Self::rows(data, function, steps),
        }
    }

    fn given(matrix: &SquareMatrix) -> Result<Self> {
        if let Some(at) = matrix.values.iter().position(|v| !v.is_finite()) {
            let (i, j) = (at / matrix.len(), at % matrix.len());
            let name = |i: usize| matrix.items.get(i as u32);
            return Err(Error::input(format!(
                "expected a number for `{}` and `{}`, found none",
                name(i),
                name(j)
            )));
        }
        matrix.check_symmetric(GIVEN)?;
        let n = matrix.len();
        let at = |i: usize, j: usize| 0.5 * matrix.at(i, j) + 0.5 * matrix.at(j, i);
        Ok(Source::Matrix(Mat::from_fn(n, n, at)))
    }

    fn rows<R: Real>(data: &Labelled<R>, function: KernelFunction, steps: Steps) -> Result<Self> {
        let n = data.rows.len();
        let members = (0..n as u32).collect();
        let things = Things::new(steps, data, None, members)?;
        let mut rows = Rows::new();
        let mut wide = SparseVec::new();
        for (i, row) in things.rows.iter().enumerate() {
            wide.clear();
            row.iter().for_each(|(j, v)| wide.push(j, v.to_f64()));
            if !row.iter().all(|(_, v)| v.to_f64().abs() < 1e75) {
                let name = data.ids.name(i);
                let message = format!("row `{name}` has values beyond the range of kernels");
                return Err(Error::input(message));
            }
            rows.push(wide.as_row());
        }
        rows.widen(things.rows.columns());
        let square = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>();
        let squares: Vec<f64> = rows.iter().map(|row| square(row.values)).collect();
        let function = match function {
            KernelFunction::Gaussian { gamma: None } => {
                let mut mean = vec![0.0; rows.columns()];
                for (j, v) in rows.iter().flat_map(|row| row.iter()) {
                    mean[j as usize] += v / n as f64;
                }
                let spread = 2.0 * (squares.iter().sum::<f64>() / n as f64 - square(&mean));
                if !(spread > 0.0 && spread.is_finite()) {
                    return Err(Error::input("the rows do not differ"));
                }
                KernelFunction::Gaussian {
                    gamma: Some(1.0 / spread),
                }
            }
            given => given,
        };
        Ok(Source::Rows {
            rows,
            squares,
            function,
        })
    }

    /// The kernel of rows, with its γ.
    pub fn function(&self) -> Option<KernelFunction> {
        match self {
            Source::Rows { function, .. } => Some(*function),
            _ => None,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Source::Identity(n) => *n,
            Source::Matrix(matrix) => matrix.nrows(),
            Source::Rows { rows, .. } => rows.len(),
        }
    }

    /// The squared distance of two items in the kernel itself, not in its factor.
    pub fn distance(&self, i: usize, j: usize) -> f64 {
        match self {
            Source::Identity(_) => 2.0 * f64::from(u8::from(i != j)),
            Source::Matrix(k) => (k[(i, i)] + k[(j, j)] - 2.0 * k[(i, j)]).max(0.0),
            Source::Rows {
                rows,
                squares,
                function,
            } => {
                let (a, b) = (rows.row(i), rows.row(j));
                let square = (squares[i] + squares[j] - 2.0 * a.dot(b)).max(0.0);
                match function {
                    KernelFunction::Linear => square,
                    KernelFunction::Gaussian { gamma } => {
                        -2.0 * (-gamma.unwrap_or(1.0) * square).exp_m1()
                    }
                }
            }
        }
    }

    /// G of rank `wanted`, or of 20 or fewer where none is asked for, with G Gᵀ the
    /// best approximation of the kernel. With `full` the rank is that of all items.
    pub fn factor(&self, wanted: Option<usize>, full: bool, threads: usize) -> Result<Mat<f64>> {
        let n = self.len();
        let wanted = match full {
            true => Some(n),
            false => wanted,
        };
        if let Some(rank) = wanted.filter(|&rank| rank > n) {
            let message = format!("is {rank}, above the number of items, {n}");
            return Err(Error::option("rank", message));
        }
        let most = wanted.unwrap_or_else(|| super::RANK.min(n));
        memory::require(
            n as u128 * most as u128 * 64,
            &format!("a factor of {n} items"),
        )?;
        let (values, vectors) = match self {
            Source::Identity(_) => return identity(n, most),
            Source::Matrix(matrix) => {
                let found = eigen(matrix)?;
                let (least, most) = (found.0[0], found.0[n - 1]);
                if least < -GIVEN * most.max(0.0) {
                    return Err(Error::input(format!(
                        "expected a positive semi-definite matrix, found an eigenvalue of {least:.4e} \
                         beside a largest one of {most:.4e}"
                    )));
                }
                found
            }
            Source::Rows { rows, function, .. } => {
                let few = rows.columns() < n;
                if matches!(function, KernelFunction::Linear) && few {
                    return directions(rows, wanted, most);
                }
                let mut gram = self.gram(threads)?;
                if matches!(function, KernelFunction::Gaussian { .. }) {
                    center(&mut gram);
                }
                eigen(&gram)?
            }
        };
        let rank = check_rank(&values, wanted, most)?;
        let lead = |c: usize| n - 1 - c;
        let factor = Mat::from_fn(n, rank, |i, c| {
            vectors[(i, lead(c))] * values[lead(c)].max(0.0).sqrt()
        });
        Ok(signed(factor))
    }

    /// The kernel of all pairs of rows, not centered.
    fn gram(&self, threads: usize) -> Result<Mat<f64>> {
        let Source::Rows {
            rows,
            squares,
            function,
        } = self
        else {
            unreachable!("other starts have their matrix");
        };
        let n = rows.len();
        memory::require(
            40 * n as u128 * n as u128,
            &format!("a kernel of {n} items and its eigenvectors"),
        )?;
        let blocks = map_blocks(n, 16, threads, |range| {
            let mut wide = vec![0.0; rows.columns()];
            let mut out = Vec::new();
            for i in range {
                let row = rows.row(i);
                row.iter().for_each(|(j, v)| wide[j as usize] = v);
                out.extend((0..=i).map(|j| {
                    let other = rows.row(j);
                    let product: f64 = other.iter().map(|(c, v)| v * wide[c as usize]).sum();
                    match function {
                        KernelFunction::Linear => product,
                        KernelFunction::Gaussian { gamma } => {
                            let square = (squares[i] + squares[j] - 2.0 * product).max(0.0);
                            (-gamma.unwrap_or(1.0) * square).exp()
                        }
                    }
                }));
                row.iter().for_each(|(j, _)| wide[j as usize] = 0.0);
            }
            out
        });
        let mut out = Mat::zeros(n, n);
        let mut entries = blocks.into_iter().flatten();
        for i in 0..n {
            for j in 0..=i {
                let value = entries.next().expect("an entry for each pair");
                out[(i, j)] = value;
                out[(j, i)] = value;
            }
        }
        Ok(out)
    }
}

/// Orthonormal columns are leading eigenvectors of the identity, whichever they are.
/// Unit vectors would leave all other items at the origin, where nothing tells them
/// apart, so directions are random, and as long as keeps distances what they were in
/// the mean.
fn identity(n: usize, rank: usize) -> Result<Mat<f64>> {
    if rank == n {
        return Ok(Mat::identity(n, n));
    }
    let random = Mat::from_fn(n, rank, |i, j| normal_at(0, DIRECTIONS, i as u64, j as u64));
    let basis = qf(&random).ok_or_else(|| Error::failure("random directions are dependent"))?;
    Ok(faer::Scale((n as f64 / rank as f64).sqrt()) * basis)
}

/// The factor of a linear kernel of few features: X times the eigenvectors of XᵀX.
fn directions(rows: &Rows<f64>, wanted: Option<usize>, most: usize) -> Result<Mat<f64>> {
    let d = rows.columns();
    memory::require(24 * d as u128 * d as u128, "products of features")?;
    if d == 0 {
        return Err(Error::input("rows without features have no kernel"));
    }
    let mut products = Mat::zeros(d, d);
    for row in rows.iter() {
        for (a, v) in row.iter() {
            for (b, w) in row.iter() {
                products[(a as usize, b as usize)] += v * w;
            }
        }
    }
    // Full-rank learners ask for a rank as large as the number of items; users do not.
    if let Some(rank) = wanted.filter(|&rank| rank > d && rank < rows.len()) {
        return Err(Error::option(
            "rank",
            format!("is {rank}, above n_features = {d}"),
        ));
    }
    let (values, vectors) = eigen(&products)?;
    let rank = check_rank(&values, wanted, most)?;
    let mut out = Mat::zeros(rows.len(), rank);
    for (i, row) in rows.iter().enumerate() {
        for c in 0..rank {
            let column = vectors.col(d - 1 - c);
            out[(i, c)] = row.iter().map(|(j, v)| v * column[j as usize]).sum();
        }
    }
    Ok(signed(out))
}

fn eigen(matrix: &Mat<f64>) -> Result<(Vec<f64>, Mat<f64>)> {
    symmetric::eigen(matrix)
        .ok_or_else(|| Error::input("the kernel has values beyond the range of numbers"))
}

/// The rank to take: that asked for, where the kernel has as many directions.
fn check_rank(values: &[f64], wanted: Option<usize>, most: usize) -> Result<usize> {
    let largest = values.last().copied().unwrap_or(0.0);
    if !(largest > 0.0) {
        return Err(Error::input("the kernel is zero: the items do not differ"));
    }
    let there = values.iter().filter(|v| **v > ROUNDING * largest).count();
    match wanted {
        Some(rank) if rank > there => Err(Error::input(format!(
            "the kernel has rank {there}, and {rank} is asked for"
        ))),
        _ => Ok(most.min(there)),
    }
}

/// Takes the mean out of rows and columns.
fn center(k: &mut Mat<f64>) {
    let n = k.nrows();
    let means: Vec<f64> = k
        .col_iter()
        .map(|c| c.iter().sum::<f64>() / n as f64)
        .collect();
    let all = means.iter().sum::<f64>() / n as f64;
    for j in 0..n {
        for i in 0..n {
            k[(i, j)] += all - means[i] - means[j];
        }
    }
}

/// Columns whose largest entry is positive.
pub(super) fn signed(mut factor: Mat<f64>) -> Mat<f64> {
    for j in 0..factor.ncols() {
        let largest = factor
            .col(j)
            .iter()
            .copied()
            .fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        if largest < 0.0 {
            (0..factor.nrows()).for_each(|i| factor[(i, j)] = -factor[(i, j)]);
        }
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Features, Labels};
    use crate::manifold::tests::matrix;

    fn rows(x: &Mat<f64>) -> Labelled<f64> {
        let mut rows = Rows::new();
        let mut labels = Labels::default();
        for i in 0..x.nrows() {
            let values: Vec<f64> = (0..x.ncols()).map(|j| x[(i, j)]).collect();
            rows.push(SparseVec::from_dense(&values).as_row());
            labels.push(["a"]);
        }
        rows.widen(x.ncols());
        Labelled {
            rows,
            labels,
            ids: RowIds::Positions,
            features: Features::Numbered,
        }
    }

    fn source(x: &Mat<f64>, function: KernelFunction) -> Source {
        let data = rows(x);
        Source::new(KernelStart::Rows(&data), function, Steps::default()).unwrap()
    }

    #[test]
    fn factors_of_full_rank_give_the_distances_of_the_kernel() {
        let gaussian = KernelFunction::Gaussian { gamma: None };
        for (n, d, function) in [
            (12, 3, KernelFunction::Linear),
            (4, 9, KernelFunction::Linear),
            (9, 2, gaussian),
        ] {
            let source = source(&matrix(n, d, 1), function);
            let rank = match function {
                KernelFunction::Linear => n.min(d),
                _ => n - 1,
            };
            let g = source.factor(Some(rank), false, 2).unwrap();
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let found: f64 = (0..rank).map(|c| (g[(i, c)] - g[(j, c)]).powi(2)).sum();
                assert!((found - source.distance(i, j)).abs() < 1e-9, "{function:?}");
            }
            assert!(source.factor(Some(rank + 1), false, 1).is_err());
            assert_eq!(source.factor(None, false, 1).unwrap().ncols(), rank);
        }
    }

    #[test]
    fn a_low_rank_of_the_identity_keeps_distances_in_the_mean() {
        let source = Source::Identity(40);
        assert_eq!(source.distance(3, 3), 0.0);
        let g = source.factor(Some(10), false, 1).unwrap();
        let pairs = (0..40).flat_map(|i| (0..i).map(move |j| (i, j)));
        let distance = |(i, j): (usize, usize)| -> f64 {
            (0..10).map(|c| (g[(i, c)] - g[(j, c)]).powi(2)).sum()
        };
        let mean = pairs.map(distance).sum::<f64>() / 780.0;
        assert!((mean - 2.0).abs() < 0.1, "{mean}");
        assert_eq!(
            source.factor(Some(40), false, 1).unwrap(),
            Mat::<f64>::identity(40, 40)
        );
    }
}
