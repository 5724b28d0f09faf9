"""Models from their files."""

from __future__ import annotations

import os
from typing import Any

from . import _rankfold
from ._choices import Recommend
from ._items import Kernel, Map
from ._ratings import Completion
from ._tasks import Metric, Multitask, Pairs, Ranking, Similarity

_ESTIMATORS: dict[str, Any] = {
    "completion": Completion,
    "kernel": Kernel,
    "map": Map,
    "metric": Metric,
    "multitask": Multitask,
    "pairs": Pairs,
    "ranking": Ranking,
    "recommend": Recommend,
    "similarity": Similarity,
}


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model from its file, as an estimator of its task.

    Parameters
    ----------
    path : str or path
        A file of the command line or of `save`.

    Returns
    -------
    estimator
        A fitted estimator.
    """
    os.stat(path)
    return _estimator(_rankfold.Model.load(path))


def merge(models: Any, *, rank: int | None = None, weights: Any = None, random_state: int = 0) -> Any:
    """Make one fitted estimator of several that were trained on different parts.

    W is the mean of theirs, after each was turned to the others by what they have in common. An
    id or a feature that only one of them has keeps what that model knows of it.

    Parameters
    ----------
    models : list of estimators or paths
        Fitted estimators of one task, or files of models.
    rank : int, optional
        The rank; that of the first model by default, of models of tasks the largest.
    weights : array-like, optional
        How much each model counts, beside what it knows of its data.
    random_state : int, default=0
        What new directions are drawn from, where the rank is above that of the models.

    Returns
    -------
    estimator
        A fitted estimator. `report_` has what the rank cut off as `lost`, and `notes`.

    Examples
    --------
    >>> import rankfold as rf
    >>> one = rf.Completion.from_factors(["ann"], ["alien", "brazil"], [[1.0]], [[2.0], [1.0]])
    >>> two = rf.Completion.from_factors(["bob"], ["alien", "brazil"], [[-1.0]], [[-2.0], [-1.0]])
    >>> both = rf.merge([one, two])
    >>> both.predict(["ann", "bob"], ["alien", "brazil"]).round(3).tolist()
    [2.0, 1.0]
    """
    found = [
        _rankfold.Model.load(m) if isinstance(m, (str, os.PathLike)) else m._check_fitted()
        for m in models
    ]
    shares = None if weights is None else [float(w) for w in weights]
    model, lost, notes = _rankfold.merge(found, rank, shares, random_state)
    out = _estimator(model)
    out.report_ = {"lost": lost, "notes": notes}
    return out


def _estimator(model: _rankfold.Model) -> Any:
    info = model.info()
    estimator = _ESTIMATORS["map" if info["map"] else info["task"]]()
    estimator._restore(model)
    return estimator
