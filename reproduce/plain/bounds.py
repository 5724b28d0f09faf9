"""Streams on which statements about single updates are checked."""

import numpy as np


def flat_descent(seed, marks):
    """Equation 9 of the PSD paper with s_t = η_t/max(‖G_t‖², 1) on bounded data: the norm of the gradient of the expected
    cost after so many steps."""
    random = np.random.default_rng(seed)
    d, r = 8, 2
    truth = random.standard_normal((d, r)) / 2
    g, out = random.standard_normal((d, r)) / 2, []
    # Bounded data: rows in a box, and noise in an interval.
    check = random.uniform(-1, 1, (20_000, d))
    y = ((check @ truth) ** 2).sum(1)

    def norm():
        off = ((check @ g) ** 2).sum(1) - y
        return float(np.linalg.norm(2 * (check * (off / len(off))[:, None]).T @ (check @ g)))

    for t in range(1, marks[-1] + 1):
        x = random.uniform(-1, 1, d)
        gap = ((x @ g) ** 2).sum() - ((x @ truth) ** 2).sum() - random.uniform(-.1, .1)
        # Σ η_t diverges and Σ η_t² does not.
        eta = .1 / (1 + t / 1_000) ** .75
        g = g - eta / max((g ** 2).sum(), 1) * 2 * gap * np.outer(x, x @ g)
        if t in marks:
            out.append(norm())
    return out


def mistakes(seed):
    """d-AROMA on a separable stream, with the diagonal of Σ⁻¹: its mistakes, and the bound of Theorem 1."""
    random = np.random.default_rng(seed)
    m, n, r = 6, 5, .1 + .4 * seed
    v = random.standard_normal((m, n))
    w, inverse = np.zeros((m, n)), np.ones((m, n))
    seen, wrong, idle, least = np.zeros((m, n)), 0, 0, np.inf
    for _ in range(600):
        q = random.standard_normal(m) * (random.random(m) < .6)
        p = random.standard_normal(n) * (random.random(n) < .6)
        margin = q @ v @ p
        if abs(margin) < .05:
            continue
        p, least = p * np.sign(margin), min(least, abs(margin))
        score = q @ w @ p
        if score >= 1:
            continue
        x = np.outer(q, p)
        wrong, idle = wrong + (score <= 0), idle + (score > 0)
        seen += x ** 2
        variance = (x ** 2 / inverse).sum()
        w += (1 - score) / (r + variance) * x / inverse
        inverse += x ** 2 / r
    v = v / least
    bound = -idle + np.sqrt((v ** 2).sum() + (v ** 2 * seen).sum() / r) * np.sqrt(r * np.log(seen / r + 1).sum() + 2 * idle)
    return {"mistakes": int(wrong), "bound": float(bound)}
