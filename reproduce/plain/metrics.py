"""Metrics and kernels by plain programs: LMNN, POLA, LogDet-KL and kernel spectral regression."""

import numpy as np


def knn_error(train, classes, test, truth, k=5):
    """The share of test rows whose class is not that of most of their k nearest training rows; of equally
    frequent classes the smallest wins."""
    squared = (test ** 2).sum(1)[:, None] + (train ** 2).sum(1) - 2 * test @ train.T
    near = np.argsort(squared, axis=1, kind="stable")[:, :k]
    count = classes.max() + 1
    votes = np.zeros((len(test), count))
    for column in near.T:
        votes[np.arange(len(test)), classes[column]] += 1
    return float((votes.argmax(1) != truth).mean())


def targets(x, classes, k):
    """The k nearest rows of the same class, for each row."""
    out = []
    for c in np.unique(classes):
        own = np.flatnonzero(classes == c)
        few = min(k, len(own) - 1)
        d = ((x[own][:, None] - x[own][None]) ** 2).sum(2)
        np.fill_diagonal(d, np.inf)
        near = np.argsort(d, axis=1)[:, :few]
        out += [(i, own[j]) for i, row in zip(own, near) for j in row]
    return np.array(out)


def lmnn(x, classes, k=3, mu=.5, iterations=200, every=10):
    """Large margin nearest neighbors (Weinberger, Saul 2009): gradient steps on M, projected to the cone. A step that
    raises the cost is taken back and halved, others grow. Impostors are looked for anew every so many steps."""
    pull = targets(x, classes, k)
    diff = x[pull[:, 0]] - x[pull[:, 1]]
    pulled = diff.T @ diff
    # The cost is smallest where distances of neighbors and margins are of one size.
    m = np.eye(x.shape[1]) / max((diff ** 2).sum(1).mean(), 1e-12)
    active, step, last, kept = None, None, np.inf, None
    for iteration in range(iterations):
        values, vectors = np.linalg.eigh(m)
        z = x @ (vectors * np.sqrt(values.clip(0)))
        near = ((z[pull[:, 0]] - z[pull[:, 1]]) ** 2).sum(1)
        if iteration % every == 0 or active is None:
            active, last = impostors(z, classes, pull, near), np.inf
        far = ((z[pull[active[:, 0], 0]] - z[active[:, 1]]) ** 2).sum(1)
        slack = 1 + near[active[:, 0]] - far
        hit = slack > 0
        cost = (1 - mu) * near.sum() + mu * slack[hit].sum()
        if cost <= last:
            weights = np.bincount(active[hit, 0], minlength=len(pull))
            push = x[pull[active[hit, 0], 0]] - x[active[hit, 1]]
            gradient = (1 - mu) * pulled + mu * ((diff * weights[:, None]).T @ diff - push.T @ push)
            step = .1 * np.linalg.norm(m) / max(np.linalg.norm(gradient), 1e-12) if step is None else 1.2 * step
            last, kept = cost, (m, gradient)
        else:
            step /= 2
        values, vectors = np.linalg.eigh(kept[0] - step * kept[1])
        m = (vectors * values.clip(0)) @ vectors.T
    values, vectors = np.linalg.eigh(kept[0])
    return vectors * np.sqrt(values.clip(0))


def impostors(z, classes, pull, near):
    """Pairs (a target pair, a row of another class) in which the row is nearer than the target plus one."""
    squared, found = (z ** 2).sum(1), []
    for start in range(0, len(pull), 500):
        some = pull[start:start + 500, 0]
        d = squared[some][:, None] + squared - 2 * z[some] @ z.T
        inside = (d < near[start:start + 500][:, None] + 1) & (classes[some][:, None] != classes)
        at, row = np.nonzero(inside)
        found.append(np.stack((at + start, row), 1))
    return np.concatenate(found)


def pola(x, classes, steps, gamma=1.0, seed=0):
    """POLA (Shalev-Shwartz, Singer, Ng 2004): random pairs, one after the other, each followed by a projection to the
    cone. A pair of one class should be nearer than b − 1, one of two classes farther than b + 1."""
    random = np.random.default_rng(seed)
    d = x.shape[1]
    a, b = np.eye(d), 1.0
    for _ in range(steps):
        i, j = random.integers(len(x), size=2)
        if i == j:
            continue
        v = x[i] - x[j]
        y = 1 if classes[i] == classes[j] else -1
        loss = max(0.0, gamma + y * (v @ a @ v - b))
        if loss == 0:
            continue
        alpha = loss / ((v @ v) ** 2 + 1)
        a = a - y * alpha * np.outer(v, v)
        b = max(b + y * alpha, 1.0)
        # Only a step that takes away can leave the cone, and by one eigenvalue.
        if y > 0:
            values, vectors = np.linalg.eigh(a)
            if values[0] < 0:
                a = a - values[0] * np.outer(vectors[:, 0], vectors[:, 0])
    values, vectors = np.linalg.eigh(a)
    return vectors * np.sqrt(values.clip(0))


def logdet(factor, pairs, kinds, bounds, gamma=np.inf, rounds=50, tolerance=1e-3):
    """LogDet-KL (Kulis, Sustik, Dhillon 2009): cyclic Bregman projections of K = G C Gᵀ on bounds of distances.

    `kinds` is 1 where a distance should be at most its bound, −1 at least, 0 equal. With a finite γ bounds are soft.
    The range of K stays that of G. Returns a factor of K.
    """
    k = factor.shape[1]
    c = np.eye(k)
    bounds, duals = bounds.astype(float).copy(), np.zeros(len(pairs))
    rows = factor[pairs[:, 0]] - factor[pairs[:, 1]]
    for _ in range(rounds):
        change = 0.0
        for t, v in enumerate(rows):
            w = c @ v
            p = v @ w
            if p <= 1e-12:
                continue
            kind = kinds[t]
            share = 1.0 if np.isinf(gamma) else gamma / (gamma + 1)
            sign = kind if kind else 1
            alpha = sign * share * (1 / p - 1 / bounds[t])
            if kind:
                alpha = min(duals[t], alpha)
            duals[t] -= alpha
            beta = sign * alpha / (1 - sign * alpha * p)
            if not np.isinf(gamma):
                bounds[t] = gamma * bounds[t] / (gamma + sign * alpha * bounds[t])
            c += beta * np.outer(w, w)
            change += abs(alpha)
        if change <= tolerance * max(np.abs(duals).sum(), 1e-12):
            break
    values, vectors = np.linalg.eigh((c + c.T) / 2)
    return factor @ (vectors * np.sqrt(values.clip(0)))


def spectral_regression(kernel, must, cannot, dimensions, neighbors=5, ridge=1e-2):
    """Kernel spectral regression (Cai, He, Han 2007) on a graph of neighbors that pairs correct: leading vectors of
    the graph, then ridge regression on the kernel. Returns coordinates of the items."""
    n = len(kernel)
    diagonal = np.diag(kernel)
    squared = diagonal[:, None] + diagonal - 2 * kernel
    np.fill_diagonal(squared, np.inf)
    near = np.argsort(squared, axis=1)[:, :neighbors]
    graph = np.zeros((n, n))
    graph[np.repeat(np.arange(n), neighbors), near.ravel()] = 1
    graph = np.maximum(graph, graph.T)
    for pairs, value in ((must, 1.0), (cannot, 0.0)):
        if len(pairs):
            graph[pairs[:, 0], pairs[:, 1]] = graph[pairs[:, 1], pairs[:, 0]] = value
    degree = graph.sum(1).clip(min=1e-9)
    scaled = graph / np.sqrt(np.outer(degree, degree))
    values, vectors = np.linalg.eigh(scaled)
    # The first vector says nothing.
    y = vectors[:, ::-1][:, 1:dimensions + 1] / np.sqrt(degree)[:, None]
    return kernel @ np.linalg.solve(kernel + ridge * np.trace(kernel) / n * np.eye(n), y)


def kmeans_nmi(points, truth, clusters, runs=10, seed=0):
    """NMI of the labels and the best of some runs of k-means."""
    random, best = np.random.default_rng(seed), (np.inf, None)
    for _ in range(runs):
        centers = points[random.integers(len(points), size=1)]
        while len(centers) < clusters:
            d = ((points[:, None] - centers[None]) ** 2).sum(2).min(1)
            total = d.sum()
            pick = random.choice(len(points), p=d / total) if total > 0 else random.integers(len(points))
            centers = np.vstack((centers, points[pick]))
        of = None
        for _ in range(100):
            d = (points ** 2).sum(1)[:, None] + (centers ** 2).sum(1) - 2 * points @ centers.T
            new = d.argmin(1)
            if of is not None and (new == of).all():
                break
            of = new
            centers = np.array([points[of == c].mean(0) if (of == c).any() else centers[c] for c in range(clusters)])
        cost = d.min(1).sum()
        if cost < best[0]:
            best = cost, of
    return nmi(best[1], truth)


def nmi(a, b):
    """2 I(A;B) / (H(A) + H(B))."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1 / len(a))

    def entropy(p):
        p = p[p > 0]
        return -(p * np.log(p)).sum()

    one, two = entropy(table.sum(1)), entropy(table.sum(0))
    joint = entropy(table.ravel())
    return float(2 * (one + two - joint) / (one + two)) if one + two else 1.0
