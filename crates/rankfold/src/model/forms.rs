//! Forms as tensors. All small state is saved as it is and recomputed nowhere,
//! so that a loaded form goes on exactly like the one that was saved.

use super::file::{Tensor, TensorFile, Tensors};
use crate::form::{
    Diagonal, Factored, Form, FormRef, Frame, Full, Gaussian, Groups, Orthonormal, Polar, PolarPsd,
    Psd, Tall, Upkeep, Waiting,
};
use crate::linalg::Square;
use crate::{Real, Result};

/// The tensors of a form, their names behind `prefix`.
pub(crate) fn tensors<'a, R: Real>(form: FormRef<'a, R>, prefix: &str) -> Tensors<'a> {
    let mut out = Writer {
        prefix,
        tensors: Tensors::new(),
    };
    match form {
        FormRef::Factored(form) => {
            out.tall("left", &form.left);
            out.tall("right", &form.right);
            if let Some(frame) = &form.frame {
                out.square("left.frame", &frame.left);
                out.square("right.frame", &frame.right);
            }
            out.square("core", &form.core);
            out.square("core_inverse", &form.core_inverse);
        }
        FormRef::Psd(form) => {
            out.tall("factor", &form.factor);
            out.square("core", &form.core);
            out.square("core_inverse", &form.core_inverse);
            if let Some(trace) = form.trace {
                out.add("trace", Tensor::f64s(vec![trace]));
            }
        }
        FormRef::Polar(form) => {
            out.orthonormal("left", &form.left);
            out.orthonormal("right", &form.right);
            out.square("root", &form.root);
        }
        FormRef::PolarPsd(form) => {
            out.orthonormal("factor", &form.factor);
            out.square("root", &form.root);
        }
        FormRef::Full(form) => {
            out.full("matrix", form);
            out.add("diagonal", Tensor::f64s(vec![form.unlearned()]));
            if let Some(groups) = &form.groups {
                out.add("groups", Tensor::f64s(groups.numbers().into()));
                out.add("groups.squares", Tensor::f64s(groups.squares.clone()));
            }
        }
        FormRef::Diagonal(form) => {
            let (rows, columns) = form.shape();
            if form.is_sparse() {
                let touched = form.touched();
                let places = touched.iter().map(|e| e.0).collect();
                let column = |pick: fn(&(u64, R, R)) -> R| touched.iter().map(pick).collect();
                out.add("shape", Tensor::u64s(vec![rows as u64, columns as u64]));
                out.add("places", Tensor::u64s(places));
                out.add("mean", Tensor::owned(1, column(|e| e.1)));
                out.add("variance", Tensor::owned(1, column(|e| e.2)));
            } else {
                let entries = |pick: fn((R, R)) -> R| {
                    Tensor::entries(rows, columns, move |i, j| pick(form.entry(i, j)))
                };
                out.add("mean", entries(|e| e.0));
                out.add("variance", entries(|e| e.1));
            }
            out.add("diagonal", Tensor::f64s(vec![form.unlearned()]));
        }
        FormRef::Gaussian(form) => {
            let (matrices, waiting) = form.parts();
            for (name, matrix) in MATRICES.into_iter().zip(matrices) {
                out.full(name, matrix);
            }
            out.add("diagonal", Tensor::f64s(vec![matrices[0].unlearned()]));
            for (name, waiting) in WAITING.into_iter().zip(waiting) {
                let (count, length) = (waiting.count(), waiting.length());
                out.add(name, Tensor::rows(count, length, |i| waiting.vector(i)));
            }
        }
    }
    out.tensors
}

/// The parts of a factored Gaussian.
const MATRICES: [&str; 3] = ["mean", "left.covariance", "right.covariance"];
const WAITING: [&str; 4] = [
    "waiting.mean.left",
    "waiting.mean.right",
    "waiting.left",
    "waiting.right",
];

struct Writer<'a, 'p> {
    prefix: &'p str,
    tensors: Tensors<'a>,
}

impl<'a> Writer<'a, '_> {
    fn add(&mut self, name: &str, tensor: Tensor<'a>) {
        self.tensors
            .push((format!("{}{name}", self.prefix), tensor));
    }

    fn square(&mut self, name: &str, square: &'a Square) {
        self.add(name, Tensor::square(square));
    }

    fn full<R: Real>(&mut self, name: &str, matrix: &'a Full<R>) {
        let (rows, columns) = matrix.shape();
        self.add(name, Tensor::rows(rows, columns, |i| matrix.row(i)));
    }

    fn orthonormal<R: Real>(&mut self, side: &str, factor: &'a Orthonormal<R>) {
        self.tall(side, &factor.tall);
        self.square(&format!("{side}.gram"), &factor.gram);
        self.square(&format!("{side}.map"), &factor.map);
        self.square(&format!("{side}.map_inverse"), &factor.inverse);
    }

    fn tall<R: Real>(&mut self, side: &str, tall: &'a Tall<R>) {
        self.add(
            side,
            Tensor::rows(tall.rows(), tall.rank(), |i| tall.row(i)),
        );
        if tall.is_tracked() {
            self.square(&format!("{side}.gram"), &tall.gram);
            self.square(&format!("{side}.gram_inverse"), &tall.gram_inverse);
        }
    }
}

/// Whether all numbers are finite.
pub(crate) fn is_finite<R: Real>(form: FormRef<'_, R>) -> bool {
    let small = |squares: &[&Square]| squares.iter().all(|m| m.norm().is_finite());
    match form {
        FormRef::Factored(form) => {
            form.left.is_finite()
                && form.right.is_finite()
                && small(&[&form.core, &form.core_inverse])
        }
        FormRef::Psd(form) => form.factor.is_finite() && small(&[&form.core, &form.core_inverse]),
        FormRef::Polar(form) => {
            form.left.is_finite() && form.right.is_finite() && small(&[&form.root])
        }
        FormRef::PolarPsd(form) => form.factor.is_finite() && small(&[&form.root]),
        FormRef::Full(form) => form.is_finite(),
        FormRef::Diagonal(form) => form.is_finite(),
        FormRef::Gaussian(form) => form.is_finite(),
    }
}

/// The counters of a form, where it has any.
pub(crate) fn upkeep<R>(form: FormRef<'_, R>) -> Option<Upkeep> {
    match form {
        FormRef::Factored(form) => Some(form.upkeep.clone()),
        FormRef::Psd(form) => Some(form.upkeep.clone()),
        FormRef::Polar(form) => Some(form.upkeep.clone()),
        FormRef::PolarPsd(form) => Some(form.upkeep.clone()),
        _ => None,
    }
}

/// What a form that was read cannot be, in words: its Gram matrices are those of its
/// factors, its variances and counters are possible.
pub(crate) fn check<R: Real>(form: FormRef<'_, R>) -> std::result::Result<(), String> {
    let counted = |upkeep: &Upkeep| match upkeep.is_possible() {
        true => Ok(upkeep.rows_changed()),
        false => Err("the counters of the form are damaged".to_owned()),
    };
    let gram = |side: &str, tall: &Tall<R>, gram: &Square, changed: u64| match tall
        .has_gram(gram, changed)
    {
        true => Ok(()),
        false => Err(format!(
            "the Gram matrix of `{side}` is not that of its rows"
        )),
    };
    let tracked = |side: &str, tall: &Tall<R>, changed: u64| match tall.is_tracked() {
        true => gram(side, tall, &tall.gram, changed),
        false => Ok(()),
    };
    match form {
        FormRef::Factored(form) => {
            let changed = counted(&form.upkeep)?;
            tracked("left", &form.left, changed)?;
            tracked("right", &form.right, changed)
        }
        FormRef::Psd(form) => tracked("factor", &form.factor, counted(&form.upkeep)?),
        FormRef::Polar(form) => {
            let changed = counted(&form.upkeep)?;
            gram("left", &form.left.tall, &form.left.gram, changed)?;
            gram("right", &form.right.tall, &form.right.gram, changed)
        }
        FormRef::PolarPsd(form) => {
            let changed = counted(&form.upkeep)?;
            gram("factor", &form.factor.tall, &form.factor.gram, changed)
        }
        FormRef::Full(_) | FormRef::Diagonal(_) | FormRef::Gaussian(_) => Ok(()),
    }
}

/// Reads a form back.
pub(crate) fn read<R: Real>(
    file: &TensorFile<'_>,
    name: &str,
    rank: usize,
    upkeep: Option<Upkeep>,
    prefix: &str,
) -> Result<Form<R>> {
    let has = |name: &str| file.has(&format!("{prefix}{name}"));
    let square = |name: &str| file.square(&format!("{prefix}{name}"), rank);
    let tall = |side: &str| {
        let rows = file.rows::<R>(&format!("{prefix}{side}"), rank)?;
        let (gram, inverse) = (format!("{side}.gram"), format!("{side}.gram_inverse"));
        let tracked = match has(&gram) {
            true => Some((square(&gram)?, square(&inverse)?)),
            false => None,
        };
        Tall::from_parts(&rows, rank, tracked)
    };
    let orthonormal = |side: &str| {
        let rows = file.rows::<R>(&format!("{prefix}{side}"), rank)?;
        Ok::<_, crate::Error>(Orthonormal {
            tall: Tall::from_parts(&rows, rank, None)?,
            gram: square(&format!("{side}.gram"))?,
            map: square(&format!("{side}.map"))?,
            inverse: square(&format!("{side}.map_inverse"))?,
        })
    };
    let upkeep = || upkeep.ok_or_else(|| file.error("the counters of the form are missing"));
    let diagonal = || Ok::<_, crate::Error>(file.f64s(&format!("{prefix}diagonal"), 1)?[0]);
    let positive = |variances: &[R]| match variances.iter().all(|v| v.to_f64() >= 0.0) {
        true => Ok(()),
        false => Err(file.error("the tensor `variance` holds a value below 0")),
    };
    let cores = || Ok::<_, crate::Error>((square("core")?, square("core_inverse")?));
    match name {
        "factored" => {
            let (left, right, (core, inverse)) = (tall("left")?, tall("right")?, cores()?);
            let mut form = Factored::from_parts(left, right, core, inverse, upkeep()?);
            if has("left.frame") {
                form.frame = Some(Frame {
                    left: square("left.frame")?,
                    right: square("right.frame")?,
                });
            }
            Ok(Form::Factored(form))
        }
        "psd" => {
            let (factor, (core, inverse)) = (tall("factor")?, cores()?);
            let mut form = Psd::from_parts(factor, core, inverse, upkeep()?);
            if has("trace") {
                form.trace = Some(file.f64s(&format!("{prefix}trace"), 1)?[0]);
            }
            Ok(Form::Psd(form))
        }
        "polar-psd" => {
            let form = PolarPsd::from_parts(orthonormal("factor")?, square("root")?, upkeep()?);
            Ok(Form::PolarPsd(form))
        }
        "polar" => {
            let (left, right) = (orthonormal("left")?, orthonormal("right")?);
            let form = Polar::from_parts(left, right, square("root")?, upkeep()?);
            Ok(Form::Polar(form))
        }
        "full" => {
            let (columns, entries) = file.matrix::<R>(&format!("{prefix}matrix"))?;
            let mut form = Full::from_parts(columns, entries, diagonal()?);
            if has("groups") {
                let numbers = file.f64s(&format!("{prefix}groups"), 2)?;
                let squares = file.f64s(&format!("{prefix}groups.squares"), form.shape().0)?;
                let groups = Groups::from_parts(&numbers, squares);
                form.groups = Some(groups.ok_or_else(|| file.error("impossible groups of rows"))?);
            }
            Ok(Form::Full(form))
        }
        "diagonal-gaussian" if has("places") => {
            let &[rows, columns] = &file.u64s(&format!("{prefix}shape"))?[..] else {
                return Err(file.error("the tensor `shape` has not two values"));
            };
            let most = u64::from(crate::sparse::MAX_INDEX) + 1;
            if rows > most || columns > most {
                return Err(file.error(format!("{rows} by {columns} features are too many")));
            }
            let places = file.u64s(&format!("{prefix}places"))?;
            let [means, variances] =
                ["mean", "variance"].map(|name| file.rows::<R>(&format!("{prefix}{name}"), 1));
            let (means, variances) = (means?, variances?);
            let inside = |&at: &u64| at >> 32 < rows && at & u64::from(u32::MAX) < columns;
            let sound = places.len() == means.len()
                && places.len() == variances.len()
                && places.iter().all(inside)
                && places.windows(2).all(|pair| pair[0] < pair[1]);
            if !sound {
                return Err(file.error("the touched entries are damaged"));
            }
            positive(&variances)?;
            let touched = places.into_iter().zip(means.into_iter().zip(variances));
            Ok(Form::Diagonal(Diagonal::from_touched(
                (rows as usize, columns as usize),
                diagonal()?,
                touched.map(|(at, (m, v))| (at, m, v)),
            )))
        }
        "diagonal-gaussian" => {
            let matrix = |name: &str| file.matrix::<R>(&format!("{prefix}{name}"));
            let ((columns, means), (others, variances)) = (matrix("mean")?, matrix("variance")?);
            if columns != others || means.len() != variances.len() {
                return Err(file.error("the tensors `mean` and `variance` differ in shape"));
            }
            positive(&variances)?;
            let entries = means.into_iter().zip(variances).collect();
            Ok(Form::Diagonal(Diagonal::from_all(
                columns,
                diagonal()?,
                entries,
            )))
        }
        "factored-gaussian" => {
            let matrix = |name: &str| file.matrix::<R>(&format!("{prefix}{name}"));
            let [mean, left, right] = MATRICES.map(matrix);
            let full = |(columns, entries), diagonal| Full::from_parts(columns, entries, diagonal);
            let matrices = [
                full(mean?, diagonal()?),
                full(left?, 1.0),
                full(right?, 1.0),
            ];
            let damaged = || file.error("the parts of the Gaussian do not go together");
            let [a, b, c, d] = WAITING.map(|name| {
                let (length, data) = matrix(name)?;
                Waiting::from_parts(length, data).ok_or_else(damaged)
            });
            let form = Gaussian::from_parts(matrices, [a?, b?, c?, d?]);
            Ok(Form::Gaussian(form.ok_or_else(damaged)?))
        }
        other => Err(file.error(format!("unknown form `{other}`"))),
    }
}
