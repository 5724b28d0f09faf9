"""Low-rank matrix models for Python: estimators over the Rust library rankfold.

Names are imported when they are first used. The command ``rankfold`` needs none of them,
so it starts without NumPy and scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _rankfold

if TYPE_CHECKING:
    from . import plot as plot
    from ._choices import Recommend
    from ._gossip import Gossip
    from ._items import Kernel, Map
    from ._load import load, merge
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
    "Recommend",
    "Similarity",
    "TextVectorizer",
    "load",
    "merge",
]

#: The module of each name.
_HOMES = {
    "Completion": "_ratings",
    "Gossip": "_gossip",
    "Kernel": "_items",
    "Map": "_items",
    "Metric": "_tasks",
    "Multitask": "_tasks",
    "Pairs": "_tasks",
    "Ranking": "_tasks",
    "Recommend": "_choices",
    "Similarity": "_tasks",
    "TextVectorizer": "_text",
    "load": "_load",
    "merge": "_load",
    "plot": "plot",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f".{_HOMES[name]}", __name__)
    found = home if name == _HOMES[name] else getattr(home, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
