"""Matrix completion by plain programs: SVT and ADMiRA, on entries (i, j, y) of a matrix of d₁ × d₂."""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds


class Known:
    """Known entries, whose pattern does not change."""

    def __init__(self, shape, i, j, y):
        order = np.lexsort((j, i))
        self.shape, self.i, self.j, self.y = shape, i[order], j[order], y[order]
        self.starts = np.searchsorted(self.i, np.arange(shape[0] + 1))

    def matrix(self, values):
        return sparse.csr_matrix((values, self.j, self.starts), self.shape)

    def predicted(self, left, right):
        """Entries of left · rightᵀ at the known places, block by block."""
        out = np.empty(len(self.y))
        for start in range(0, len(out), 200_000):
            part = slice(start, start + 200_000)
            out[part] = np.einsum("tr,tr->t", left[self.i[part]], right[self.j[part]])
        return out

    def rmse(self, predicted):
        return float(np.sqrt(np.mean((predicted - self.y) ** 2)))


def leading(matrix, count, seed):
    """The leading singular triples of anything that multiplies, the largest first."""
    start = np.random.default_rng(seed).standard_normal(min(matrix.shape))
    u, s, vt = svds(matrix, min(count, min(matrix.shape) - 1), v0=start)
    order = np.argsort(-s)
    return u[:, order], s[order], vt[order].T


def svt(known, tolerance=1e-4, iterations=500, seed=0, see=None):
    """Singular value thresholding (Cai, Candès, Shen 2008) with their τ = 5√(d₁d₂) and δ = 1.2/p.

    `tolerance` bounds the relative residual on the known entries, as their stopping rule does.
    """
    d1, d2 = known.shape
    share = len(known.y) / (d1 * d2)
    tau, delta = 5 * np.sqrt(d1 * d2), 1.2 / share
    norm = np.linalg.norm(known.y)
    top = leading(known.matrix(known.y), 1, seed)[1][0]
    z = np.ceil(tau / (delta * top)) * delta * known.y
    rank, left, right = 0, np.zeros((d1, 1)), np.zeros((d2, 1))
    for iteration in range(iterations):
        ask = rank + 1
        while True:
            u, s, v = leading(known.matrix(z), ask, seed)
            if s[-1] <= tau or ask >= min(d1, d2) - 1:
                break
            ask = min(ask + 5, min(d1, d2) - 1)
        kept = s > tau
        rank = int(kept.sum())
        left, right = u[:, kept] * (s[kept] - tau), v[:, kept]
        gap = known.y - known.predicted(left, right) if rank else known.y
        if see and not see(iteration + 1, left, right, np.linalg.norm(gap) / np.sqrt(len(gap))):
            break
        if np.linalg.norm(gap) <= tolerance * norm or not np.isfinite(gap).all():
            break
        z = z + delta * gap
    return left, right


def fitted(known, left, right):
    """The coefficients of atoms left_a right_aᵀ whose sum is nearest at the known entries."""
    count = left.shape[1]
    gram, target = np.zeros((count, count)), np.zeros(count)
    for start in range(0, len(known.y), 200_000):
        part = slice(start, start + 200_000)
        atoms = left[known.i[part]] * right[known.j[part]]
        gram += atoms.T @ atoms
        target += atoms.T @ known.y[part]
    return np.linalg.lstsq(gram, target, rcond=None)[0]


def admira(known, rank, iterations=50, tolerance=1e-4, seed=0, see=None):
    """ADMiRA (Lee, Bresler 2010): atoms of rank one are added 2r at a time, fitted, and cut back to r."""
    left, right = np.zeros((known.shape[0], 0)), np.zeros((known.shape[1], 0))
    gap = known.y
    norm, best, since = np.linalg.norm(known.y), np.inf, 0
    for iteration in range(iterations):
        u, _, v = leading(known.matrix(gap), 2 * rank, seed)
        atoms = np.hstack((left, u)), np.hstack((right, v))
        weights = fitted(known, *atoms)
        (q, r), (p, t) = np.linalg.qr(atoms[0] * weights), np.linalg.qr(atoms[1])
        a, s, bt = np.linalg.svd(r @ t.T)
        left, right = q @ a[:, :rank], p @ bt[:rank].T
        scale = s[:rank]
        gap = known.y - known.predicted(left * scale, right)
        size = np.linalg.norm(gap)
        if see and not see(iteration + 1, left * scale, right, size / np.sqrt(len(gap))):
            break
        # It need not fall in every iteration.
        since = 0 if size < best * (1 - 1e-3) else since + 1
        best = min(best, size)
        if size <= tolerance * norm or since == 5:
            break
    return left * scale, right
