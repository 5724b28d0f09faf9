//! Forms as tensors. All small state is saved as it is and recomputed nowhere,
//! so that a loaded form goes on exactly like the one that was saved.

use super::file::{Tensor, TensorFile, Tensors};
use crate::form::{Factored, Form, FormRef, Frame, Full, Groups, Psd, Tall, Upkeep};
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
        }
        FormRef::Full(form) => {
            let (rows, columns) = form.shape();
            out.add("matrix", Tensor::rows(rows, columns, |i| form.row(i)));
            out.add("diagonal", Tensor::f64s(vec![form.unlearned()]));
            if let Some(groups) = &form.groups {
                out.add("groups", Tensor::f64s(groups.numbers().into()));
                out.add("groups.squares", Tensor::f64s(groups.squares.clone()));
            }
        }
    }
    out.tensors
}

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
        FormRef::Full(form) => form.is_finite(),
    }
}

/// The counters of a form, where it has any.
pub(crate) fn upkeep<R>(form: FormRef<'_, R>) -> Option<Upkeep> {
    match form {
        FormRef::Factored(form) => Some(form.upkeep.clone()),
        FormRef::Psd(form) => Some(form.upkeep.clone()),
        FormRef::Full(_) => None,
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
    let upkeep = || upkeep.ok_or_else(|| file.error("the counters of the form are missing"));
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
            Ok(Form::Psd(Psd::from_parts(factor, core, inverse, upkeep()?)))
        }
        "full" => {
            let (columns, entries) = file.matrix::<R>(&format!("{prefix}matrix"))?;
            let diagonal = file.f64s(&format!("{prefix}diagonal"), 1)?[0];
            let mut form = Full::from_parts(columns, entries, diagonal);
            if has("groups") {
                let numbers = file.f64s(&format!("{prefix}groups"), 2)?;
                let squares = file.f64s(&format!("{prefix}groups.squares"), form.shape().0)?;
                let groups = Groups::from_parts(&numbers, squares);
                form.groups = Some(groups.ok_or_else(|| file.error("impossible groups of rows"))?);
            }
            Ok(Form::Full(form))
        }
        other => Err(file.error(format!("unknown form `{other}`"))),
    }
}
