"""Low-rank matrix models for Python: estimators over the Rust library rankfold."""

from __future__ import annotations

import os
from typing import Any

from . import _rankfold
from ._gossip import Gossip
from ._items import Kernel, Map
from ._options import documented
from ._ratings import Completion
from ._tasks import Metric, Multitask, Pairs, Ranking, Similarity
from ._text import TextVectorizer

__version__: str = _rankfold.__version__

__all__ = [
    "Completion",
    "Gossip",
    "Kernel",
    "Map",
    "Metric",
    "Multitask",
    "Pairs",
    "Ranking",
    "Similarity",
    "TextVectorizer",
    "load",
]

_ESTIMATORS: dict[str, Any] = {
    "completion": Completion,
    "kernel": Kernel,
    "map": Map,
    "metric": Metric,
    "multitask": Multitask,
    "pairs": Pairs,
    "ranking": Ranking,
    "similarity": Similarity,
}

for _estimator in [*_ESTIMATORS.values(), Gossip]:
    # The parameters stand between the summary and the attributes.
    _doc = _estimator.__doc__ or ""
    _marker = "    Attributes\n" if "    Attributes\n" in _doc else "    Examples\n"
    _lines = documented(_estimator._task).replace("\n", "\n    ")
    _estimator.__doc__ = _doc.replace(_marker, f"    {_lines}\n\n{_marker}", 1)


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
