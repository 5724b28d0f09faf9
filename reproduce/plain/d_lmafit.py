"""D-LMaFit: LMaFit among agents, by dynamic average consensus (Ling, Xu, Yin, Wen 2012).

Agent i has columns of a matrix, a copy X_i of the left factor and its own part Y_i of the right one. In an
iteration it mixes the copies of its neighbors, adds what its own Z_i Y_iᵀ has changed by, fits Y_i to its
completed columns, and completes them anew. Z_i = X_i Y_i + (what is known − X_i Y_i), which is never dense here.
"""

import numpy as np
from scipy import sparse


def mixing(agents):
    """Metropolis weights of a path."""
    degree = [1 if i in (0, agents - 1) else 2 for i in range(agents)]
    w = np.zeros((agents, agents))
    for i in range(agents - 1):
        w[i, i + 1] = w[i + 1, i] = 1 / (1 + max(degree[i], degree[i + 1]))
    return w + np.diag(1 - w.sum(1))


def residual(x, y, rows, columns, values):
    return values - np.einsum("tr,tr->t", x[rows], y[:, columns].T)


class Agent:
    """Known entries of some columns, and the factors."""

    def __init__(self, rows, columns, values, shape, rank, random):
        self.known, self.shape = (rows, columns, values), shape
        self.x = np.linalg.qr(random.standard_normal((shape[0], rank)))[0]
        self.y = random.standard_normal((rank, shape[1]))
        self.said = self.track = self.product()

    def gap(self):
        """What is known − X Y, where it is known."""
        rows, columns, _ = self.known
        return sparse.csr_matrix((residual(self.x, self.y, *self.known), (rows, columns)), self.shape)

    def product(self):
        """Z Yᵀ."""
        return self.x @ (self.y @ self.y.T) + self.gap() @ self.y.T

    def step(self, mixed):
        x, y, gap = self.x, self.y, self.gap()
        # Any basis of the same columns gives the same X Y; an orthonormal one keeps numbers in range.
        q, r = np.linalg.qr(mixed)
        self.x = q * np.sign(np.diag(r))
        # Xᵀ Z with Z = X_old Y_old + gap.
        self.y = (self.x.T @ x) @ y + (gap.T @ self.x).T
        said = self.product()
        self.track, self.said = mixed + said - self.said, said


def run(parts, m, sizes, rank, iterations, seed, see):
    """Runs all agents from random starts; `see(iteration, agents)` is called after each iteration."""
    random = np.random.default_rng(seed)
    agents = [Agent(*part, (m, n), rank, random) for part, n in zip(parts, sizes)]
    w = mixing(len(agents))
    for iteration in range(1, iterations + 1):
        mixed = [sum(w[i, j] * agents[j].track for j in range(len(agents)) if w[i, j]) for i in range(len(agents))]
        for agent, track in zip(agents, mixed):
            agent.step(track)
        see(iteration, agents)
    return agents
