"""Pictures of models, with matplotlib. Each function returns the axes.

>>> import matplotlib
>>> matplotlib.use("agg")
>>> from sklearn.datasets import load_iris
>>> import rankfold as rf
>>> import rankfold.plot
>>> X, y = load_iris(return_X_y=True)
>>> model = rf.Similarity(rank=3, steps=1000, valid_fraction=0.2).fit(X, y)
>>> rf.plot.learning_curve(model).get_xlabel()
'steps'
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "calibration",
    "gossip",
    "learning_curve",
    "neighbors",
    "rows",
    "singular_values",
]


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


def learning_curve(model: Any, metric: str | None = None, *, ax: Any = None) -> Any:
    """Loss, or a validation metric, along the run.

    Parameters
    ----------
    model : estimator
        A fitted estimator with a `history_`.
    metric : str, optional
        A validation metric such as "map"; by default the first that there is, else the
        loss.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
    """
    ax = _axes(ax)
    points = model.history_
    if not points:
        raise ValueError("the run has no learning curve: it ended before its first point")
    if metric is None:
        metric = next(iter(points[-1].get("metrics") or {}), "loss")
    values = [p["loss"] if metric == "loss" else p["metrics"][metric] for p in points]
    ax.plot([p["steps"] for p in points], values, marker=".")
    ax.set_xlabel(model.report_.get("unit", "steps"))
    ax.set_ylabel(metric.replace("_", " "))
    return ax


def singular_values(model: Any, *, ax: Any = None) -> Any:
    """The singular values of W.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
    """
    ax = _axes(ax)
    values = model.singular_values_
    ax.bar(np.arange(1, len(values) + 1), values)
    ax.set_xlabel("number")
    ax.set_ylabel("singular value")
    return ax


def rows(model: Any, X: Any = None, labels: Any = None, *, ax: Any = None) -> Any:
    """A map of rows: their first two coordinates in the learned space.

    Parameters
    ----------
    model : estimator
        A fitted estimator with `transform`, or with `embedding_`.
    X : {array-like, sparse matrix}, optional
        The rows; not needed for maps and kernels.
    labels : array-like, optional
        Classes, which are drawn in colors.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
    """
    ax = _axes(ax)
    points = np.asarray(model.embedding_ if X is None else model.transform(X))
    second = points[:, 1] if points.shape[1] > 1 else np.zeros(len(points))
    if labels is None:
        ax.scatter(points[:, 0], second, s=12)
    else:
        classes = np.asarray(labels)
        for label in np.unique(classes):
            of_class = classes == label
            ax.scatter(points[of_class, 0], second[of_class], s=12, label=str(label))
        ax.legend()
    ax.set_xlabel("coordinate 1")
    ax.set_ylabel("coordinate 2")
    return ax


def neighbors(model: Any, query: Any, n_neighbors: int = 10, names: Any = None, *, ax: Any = None) -> Any:
    """The neighbors of one row, with their scores or distances.

    Parameters
    ----------
    model : Similarity or Metric
        A fitted estimator.
    query : array-like of shape (1, n_features)
        The row.
    n_neighbors : int, default=10
        Neighbors to draw.
    names : array-like, optional
        Names of the rows of `fit`.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
    """
    ax = _axes(ax)
    scores, found = model.kneighbors(query, n_neighbors)
    shown = [str(row if names is None else names[row]) for row in found[0]]
    ax.barh(np.arange(len(shown)), scores[0])
    ax.set_yticks(np.arange(len(shown)), shown)
    ax.invert_yaxis()
    ax.set_xlabel("distance" if hasattr(model, "pair_distance") else "score")
    return ax


def calibration(model: Any, X: Any, triplets: Any, bins: int = 10, *, ax: Any = None) -> Any:
    """How often triplets are in order, against how sure the model is that they are.

    Parameters
    ----------
    model : Similarity
        A model of AROMA, which knows how sure it is.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows.
    triplets : array-like of shape (m, 3)
        Row numbers (query, positive, negative).
    bins : int, default=10
        Groups of equal size.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
    """
    from scipy.special import ndtr

    ax = _axes(ax)
    query, positive, negative = np.asarray(triplets).T
    near, near_sd = model.pair_score(X[query], X[positive], return_std=True)
    far, far_sd = model.pair_score(X[query], X[negative], return_std=True)
    margin = near - far
    sure = ndtr(np.abs(margin) / np.hypot(near_sd, far_sd))
    groups = np.array_split(np.argsort(sure), bins)
    ax.plot([0.5, 1], [0.5, 1], color="gray", linewidth=1)
    ax.plot([sure[g].mean() for g in groups], [(margin[g] > 0).mean() for g in groups], marker="o")
    ax.set_xlabel("how sure the model is")
    ax.set_ylabel("share in order")
    return ax


def gossip(model: Any, *, ax: Any = None) -> Any:
    """How the cost of all agents falls, and how far neighbors disagree.

    Parameters
    ----------
    model : Gossip
        A fitted estimator.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
    """
    ax = _axes(ax)
    slots = [p["steps"] for p in model.history_]
    names = [name for name in (model.history_ or [{}])[-1].get("metrics", {})]
    for name in names or ["loss"]:
        values = [p["loss"] if not names else p["metrics"].get(name, np.nan) for p in model.history_]
        ax.plot(slots, values, label=name.replace("_", " "))
    ax.set_yscale("log")
    ax.set_xlabel("slots")
    ax.legend()
    return ax
