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
    model = _rankfold.Model.load(path)
    info = model.info()
    estimator = _ESTIMATORS["map" if info["map"] else info["task"]]()
    estimator._restore(model)
    return estimator
