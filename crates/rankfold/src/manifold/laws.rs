//! What any geometry of fixed rank must keep to.

use super::{Blocks, FixedRank, Grassmann, Semidefinite, combine, dot, scaled};
use crate::linalg::qf;
use crate::random::normal_at;
use faer::Mat;

/// Entries without a pattern, of full rank.
pub(crate) fn matrix(n: usize, k: usize, seed: usize) -> Mat<f64> {
    let entry = |i, j| normal_at(seed as u64, 0, i as u64, j as u64);
    Mat::from_fn(n, k, entry)
}

fn product((left, right): &(Mat<f64>, Mat<f64>)) -> Mat<f64> {
    left * right.transpose()
}

fn holds(law: bool, what: &str, found: &[f64]) -> Result<(), String> {
    match law {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}")),
    }
}

fn shaped(point: &[Mat<f64>], shapes: Vec<(usize, usize)>) -> Result<(), String> {
    let found: Vec<_> = point.iter().map(|b| (b.nrows(), b.ncols())).collect();
    holds(
        found == shapes,
        "a point has other shapes than `shapes` says",
        &[],
    )
}

/// What any geometry of fixed rank must keep to, tried at a point of so many rows,
/// columns and this rank:
///
/// - The point of W = L Rᵀ stands for W, and has the shapes that it says.
/// - To transport to the same point is to project: twice is once, and the gradient
///   stays as it is.
/// - The gradient is the one that differences show, and steps follow the direction
///   that `ambient` says, up to their square.
/// - To precondition is symmetric and positive.
///
/// Says the first law that is broken, and the numbers.
pub fn geometry(manifold: &impl FixedRank, (n, m, k): (usize, usize, usize)) -> Result<(), String> {
    let (left, right) = (matrix(n, k, 1), matrix(m, k, 2));
    let lost = || format!("no point of rank {k} was made");
    let point = manifold.point(&left, &right).ok_or_else(lost)?;
    shaped(&point, manifold.shapes((n, m), k))?;
    let w = &left * right.transpose();
    let size = w.norm_l2();
    let off = (product(&manifold.factors(&point)) - &w).norm_l2();
    holds(off < 1e-12 * size, "a point does not keep W", &[off, size])?;

    // ⟨C, W⟩ + ½‖W‖² for some C.
    let c = matrix(n, m, 3);
    let cost = |x: &[Mat<f64>]| {
        let w = product(&manifold.factors(x));
        dot(&c, &w) + 0.5 * dot(&w, &w)
    };
    let xi = {
        let (l, r) = manifold.factors(&point);
        let e = &c + &l * r.transpose();
        manifold.gradient(&point, &(&e * &r), &(e.transpose() * &l))
    };
    let inner = |a: &[Mat<f64>], b: &[Mat<f64>]| manifold.inner(&point, a, b);
    let norm = |a: &[Mat<f64>]| inner(a, a).max(0.0).sqrt();
    let project = |a: &[Mat<f64>]| manifold.transport(&point, &point, a);
    let change = |a: &[Mat<f64>]| norm(&combine(1.0, &project(a), -1.0, a));
    let (off, size_of) = (change(&xi), norm(&xi));
    holds(
        off < 1e-10 * size_of,
        "the gradient is not horizontal",
        &[off, size_of],
    )?;

    let tangent = |seed: usize| {
        let blocks = point.iter().enumerate();
        let any: Blocks = blocks
            .map(|(i, b)| matrix(b.nrows(), b.ncols(), 10 * seed + i))
            .collect();
        project(&any)
    };
    for seed in 4..7 {
        let eta = tangent(seed);
        let (off, scale) = (change(&eta), norm(&eta));
        holds(
            off < 1e-10 * scale,
            "transport is not a projection",
            &[off, scale],
        )?;
        let h = 1e-5 / scale;
        let moved = |t: f64| {
            let moved = manifold.retract(&point, &scaled(t, &eta));
            moved.ok_or_else(|| format!("a step of {t} was refused"))
        };
        let slope = inner(&xi, &eta);
        let measured = (cost(&moved(h)?) - cost(&moved(-h)?)) / (2.0 * h);
        let tolerance = 1e-6 * (slope.abs() + cost(&point).abs() / scale.max(1.0) + scale);
        let near = (slope - measured).abs() < tolerance;
        holds(
            near,
            "the gradient differs from differences",
            &[slope, measured],
        )?;

        let direction = product(&manifold.ambient(&point, &eta));
        let gap = |t: f64| -> Result<f64, String> {
            let w_then = product(&manifold.factors(&moved(t)?));
            Ok((w_then - &w - faer::Scale(t) * &direction).norm_l2())
        };
        let (far, near) = (gap(100.0 * h)?, gap(10.0 * h)?);
        let second_order = near < 0.03 * far + 1e-12 * size;
        holds(second_order, "steps leave their direction", &[far, near])?;
    }

    let (a, b) = (tangent(8), tangent(9));
    let [pa, pb] = [&a, &b].map(|v| manifold.precondition(&point, v));
    let (left, right) = (inner(&pa, &b), inner(&a, &pb));
    let lengths = [inner(&pa, &a), inner(&pb, &b)];
    let positive = lengths.iter().all(|&l| l > 0.0);
    holds(positive, "preconditioning is not positive", &lengths)?;
    let symmetric = (left - right).abs() < 1e-10 * (lengths[0] * lengths[1]).sqrt();
    holds(
        symmetric,
        "preconditioning is not symmetric",
        &[left, right],
    )
}

/// What any geometry of positive semi-definite matrices must keep to, tried at a
/// point of so many rows and this rank:
///
/// - The point of W = G Gᵀ stands for W.
/// - To transport to the same point is to project: twice is once, and the gradient
///   stays as it is.
/// - The gradient is the one that differences show, and steps follow the direction
///   that is said, up to their square.
///
/// Says the first law that is broken, and the numbers.
pub fn semidefinite(manifold: &impl Semidefinite, (n, k): (usize, usize)) -> Result<(), String> {
    let factor = matrix(n, k, 1);
    let lost = || format!("no point of rank {k} was made");
    let point = manifold.point(&factor).ok_or_else(lost)?;
    shaped(&point, manifold.shapes(n, k))?;
    let matrix_at = |x: &[Mat<f64>]| {
        let g = manifold.split(x).factor();
        &g * g.transpose()
    };
    let w = &factor * factor.transpose();
    let size = w.norm_l2();
    let off = (matrix_at(&point) - &w).norm_l2();
    holds(off < 1e-11 * size, "a point does not keep W", &[off, size])?;

    // ⟨C, W⟩ + ½‖W‖² for some symmetric C.
    let c = crate::linalg::symmetric::part(&matrix(n, n, 3));
    let cost = |x: &[Mat<f64>]| {
        let w = matrix_at(x);
        dot(&c, &w) + 0.5 * dot(&w, &w)
    };
    let split = manifold.split(&point);
    let xi = manifold.gradient(&point, &split, &((&c + &w) * &split.basis));
    let norm = |a: &[Mat<f64>]| manifold.inner(&point, a, a).max(0.0).sqrt();
    let project = |a: &[Mat<f64>]| manifold.transport(&point, &point, a);
    let change = |a: &[Mat<f64>]| norm(&combine(1.0, &project(a), -1.0, a));
    let (off, length) = (change(&xi), norm(&xi));
    holds(
        off < 1e-9 * length + 1e-12 * size,
        "the gradient is not horizontal",
        &[off, length],
    )?;
    for seed in 4..7 {
        let blocks = point.iter().enumerate();
        let any: Blocks = blocks
            .map(|(i, b)| matrix(b.nrows(), b.ncols(), 10 * seed + i))
            .collect();
        let eta = project(&any);
        let (off, scale) = (change(&eta), norm(&eta));
        holds(
            off <= 1e-10 * scale + 1e-13 * norm(&any),
            "transport is not a projection",
            &[off, scale],
        )?;
        let h = 1e-5 / scale.max(1.0);
        let moved = |t: f64| {
            let moved = manifold.retract(&point, &scaled(t, &eta));
            moved.ok_or_else(|| format!("a step of {t} was refused"))
        };
        let slope = manifold.inner(&point, &xi, &eta);
        let measured = (cost(&moved(h)?) - cost(&moved(-h)?)) / (2.0 * h);
        let tolerance = 1e-6 * (slope.abs() + cost(&point).abs() + size * size);
        let near = (slope - measured).abs() < tolerance;
        holds(
            near,
            "the gradient differs from differences",
            &[slope, measured],
        )?;

        let half = manifold.direction(&point, &split, &eta) * split.basis.transpose();
        let direction = &half + half.transpose();
        let gap = |t: f64| -> Result<f64, String> {
            let w_then = matrix_at(&moved(t)?);
            Ok((w_then - &w - faer::Scale(t) * &direction).norm_l2())
        };
        let (far, near) = (gap(100.0 * h)?, gap(10.0 * h)?);
        let second_order = near < 0.03 * far + 1e-11 * size;
        holds(second_order, "steps leave their direction", &[far, near])?;
    }
    Ok(())
}

/// What paths between subspaces of this dimension, in a space of so many
/// dimensions, must keep to:
///
/// - Exp and Log undo each other, and the length of Log is the distance.
/// - −Log is the gradient of half the squared distance.
/// - A vector that is carried along keeps its length and its angle with the path,
///   and is tangent where it arrives.
/// - At the mean of several points, the paths to them add up to nothing.
///
/// Says the first law that is broken, and the numbers.
pub fn subspaces((m, r): (usize, usize)) -> Result<(), String> {
    let lost = || format!("no subspace of dimension {r} in {m} was made");
    let point = |seed| qf(&matrix(m, r, seed)).ok_or_else(lost);
    let (u, t) = (point(1)?, point(2)?);
    let tangent = |seed| Grassmann::project(&u, &matrix(m, r, seed));
    let rounding = 1e-14 * ((m * r) as f64).sqrt();

    let log = Grassmann::log(&u, &t).ok_or_else(lost)?;
    let back = Grassmann::exp(&u, &log).ok_or_else(lost)?;
    let off = Grassmann::distance(&back, &t);
    holds(off < 10.0 * rounding, "Exp does not undo Log", &[off])?;
    let lengths = [dot(&log, &log).sqrt(), Grassmann::distance(&u, &t)];
    let equal = (lengths[0] - lengths[1]).abs() < 10.0 * rounding;
    holds(equal, "Log is not as long as the distance", &lengths)?;
    let length = |x: &Mat<f64>| dot(x, x).sqrt();
    let short = |x: Mat<f64>| faer::Scale(0.5 / length(&x).max(1.0)) * x;
    let xi = short(tangent(3));
    let there = Grassmann::exp(&u, &xi).ok_or_else(lost)?;
    let off = length(&(Grassmann::log(&u, &there).ok_or_else(lost)? - &xi));
    holds(off < 10.0 * rounding, "Log does not undo Exp", &[off])?;

    let h = 1e-5;
    let half = |s: f64| {
        let moved = Grassmann::exp(&there, &(faer::Scale(s) * &Grassmann::project(&there, &xi)));
        moved.map_or(f64::NAN, |moved| {
            0.5 * Grassmann::distance(&moved, &u).powi(2)
        })
    };
    let back = Grassmann::log(&there, &u).ok_or_else(lost)?;
    let slope = -dot(&back, &Grassmann::project(&there, &xi));
    let measured = (half(h) - half(-h)) / (2.0 * h);
    let near = (slope - measured).abs() < 1e-8;
    holds(near, "−Log is not the gradient", &[slope, measured])?;

    let eta = short(tangent(4));
    let carry = |x: &Mat<f64>| Grassmann::carry(&u, &xi, x).ok_or_else(lost);
    let (eta_there, xi_there) = (carry(&eta)?, carry(&xi)?);
    let products = [
        (dot(&eta, &eta), dot(&eta_there, &eta_there)),
        (dot(&eta, &xi), dot(&eta_there, &xi_there)),
    ];
    for (before, after) in products {
        let kept = (before - after).abs() < 10.0 * rounding;
        holds(kept, "to carry a vector changes it", &[before, after])?;
    }
    let inside = length(&(there.transpose() * &eta_there));
    let tangent_there = inside < 10.0 * rounding;
    holds(
        tangent_there,
        "a vector that was carried is not tangent",
        &[inside],
    )?;
    let off = length(&(&xi_there + &back));
    holds(off < 100.0 * rounding, "a path turns on its way", &[off])?;

    let mut points = vec![u.clone()];
    for seed in 5..9 {
        points.push(Grassmann::exp(&u, &short(tangent(seed))).ok_or_else(lost)?);
    }
    let mean = Grassmann::mean(&points).ok_or_else(lost)?;
    let mut pull = Mat::<f64>::zeros(m, r);
    for point in &points {
        pull += Grassmann::log(&mean, point).ok_or_else(lost)?;
    }
    let size = length(&pull);
    holds(
        size < 1e-11 + rounding,
        "the mean is not in the middle",
        &[size],
    )
}
