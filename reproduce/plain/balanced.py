"""Algorithm 1 of the fixed-rank paper as it is printed, with the Gram matrices corrected (docs/errata.md)."""

import numpy as np
from scipy.linalg import expm


def run(samples, start, step, every=None):
    """Steps on samples (x, z, y) of ŷ = zᵀ G Hᵀ x; balances every so many. Gives W after each tenth of the run, and how
    far GᵀG is from HᵀH."""
    g, h = (a.copy() for a in start)
    out = []
    for t, (x, z, y) in enumerate(samples, 1):
        a, b = h.T @ x, g.T @ z
        s, r = (g.T @ g) @ a, (h.T @ h) @ b
        beta = step * (a @ b - y)
        g -= beta * np.outer(z, s)
        h -= beta * np.outer(x, r)
        if every and t % every == 0:
            g, h = balance(g, h)
        if t % (len(samples) // 10) == 0:
            out.append((g @ h.T, np.linalg.norm(g.T @ g - h.T @ h) / np.linalg.norm(g.T @ g)))
    return out


def balance(g, h):
    """Equation 15."""
    s, r = g.T @ g, h.T @ h
    alpha = 1 / (2 * np.linalg.eigvalsh(s + r)[-1])
    move = expm(alpha * (r - s))
    return g @ move, h @ np.linalg.inv(move)
