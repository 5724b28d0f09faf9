"""The models of rankfold on a cluster that runs Ray.

`Completion` learns ratings that are cut into shards by user, `Multitask` regressions that are cut into
shards by task, `Metric` distances from pairs that are cut into shards; each shard is held by an actor. The agents of `Gossip` are
actors.
Ray is not installed with rankfold: ``pip install 'rankfold[ray]'`` brings it.
"""

from __future__ import annotations

try:
    import ray as _ray
except ImportError as error:
    raise ImportError(
        "rankfold.ray needs Ray, which is not installed: pip install 'rankfold[ray]'"
    ) from error

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._completion import Completion
    from ._gossip import Gossip
    from ._metric import Metric
    from ._multitask import Multitask

__all__ = ["Completion", "Gossip", "Metric", "Multitask"]

del _ray


def __getattr__(name: str) -> Any:
    # When it is first used: actors need no scikit-learn, and start faster without it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"._{name.lower()}", __name__), name)
    globals()[name] = found
    return found
