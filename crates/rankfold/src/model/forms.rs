//! Forms as tensors. All small state is saved as it is and recomputed nowhere,
//! so that a loaded form goes on exactly like the one that was saved.

use super::file::{Tensor, TensorFile, Tensors};
use crate::form::{Factored, Form, FormRef, Psd, Tall, Upkeep};
use crate::{Real, Result};

/// The tensors of a form, their names behind `prefix`, and its counters.
pub(crate) fn tensors<'a, R: Real>(form: FormRef<'a, R>, prefix: &str) -> Tensors<'a> {
    let mut out = Tensors::new();
    let mut add = |name: &str, tensor| out.push((format!("{prefix}{name}"), tensor));
    let mut tall = |side: &str, tall: &'a Tall<R>| {
        let rows = Tensor::rows(tall.rows(), tall.rank(), |i| tall.row(i));
        add(side, rows);
        add(&format!("{side}.gram"), Tensor::square(&tall.gram));
        add(
            &format!("{side}.gram_inverse"),
            Tensor::square(&tall.gram_inverse),
        );
    };
    let (core, inverse) = match form {
        FormRef::Factored(form) => {
            tall("left", &form.left);
            tall("right", &form.right);
            (&form.core, &form.core_inverse)
        }
        FormRef::Psd(form) => {
            tall("factor", &form.factor);
            (&form.core, &form.core_inverse)
        }
    };
    add("core", Tensor::square(core));
    add("core_inverse", Tensor::square(inverse));
    out
}

/// Whether all small state is finite; that of the tall factors follows from
/// their Gram matrices.
pub(crate) fn is_finite<R: Real>(form: FormRef<'_, R>) -> bool {
    let (left, right) = form.sides();
    let (core, inverse) = match form {
        FormRef::Factored(form) => (&form.core, &form.core_inverse),
        FormRef::Psd(form) => (&form.core, &form.core_inverse),
    };
    let talls = [left, right];
    let grams = talls
        .iter()
        .flat_map(|tall| [&tall.gram, &tall.gram_inverse]);
    grams.chain([core, inverse]).all(|m| m.norm().is_finite())
}

/// The counters of a form.
pub(crate) fn upkeep<R>(form: FormRef<'_, R>) -> Upkeep {
    match form {
        FormRef::Factored(form) => form.upkeep.clone(),
        FormRef::Psd(form) => form.upkeep.clone(),
    }
}

/// Reads a form back.
pub(crate) fn read<R: Real>(
    file: &TensorFile<'_>,
    name: &str,
    rank: usize,
    upkeep: Upkeep,
    prefix: &str,
) -> Result<Form<R>> {
    let square = |name: &str| file.square(&format!("{prefix}{name}"), rank);
    let tall = |side: &str| {
        Tall::from_parts(
            &file.rows::<R>(&format!("{prefix}{side}"), rank)?,
            rank,
            square(&format!("{side}.gram"))?,
            square(&format!("{side}.gram_inverse"))?,
        )
    };
    let (core, inverse) = (square("core")?, square("core_inverse")?);
    match name {
        "factored" => Ok(Form::Factored(Factored::from_parts(
            tall("left")?,
            tall("right")?,
            core,
            inverse,
            upkeep,
        ))),
        "psd" => Ok(Form::Psd(Psd::from_parts(
            tall("factor")?,
            core,
            inverse,
            upkeep,
        ))),
        other => Err(file.error(format!("unknown form `{other}`"))),
    }
}
