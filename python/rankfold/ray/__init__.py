"""The models of rankfold on a cluster that runs Ray.

`Completion` learns ratings that are cut into shards by user; each shard is held by an actor.
Ray is not installed with rankfold: ``pip install 'rankfold[ray]'`` brings it.
"""

from __future__ import annotations

try:
    import ray as _ray
except ImportError as error:
    raise ImportError(
        "rankfold.ray needs Ray, which is not installed: pip install 'rankfold[ray]'"
    ) from error

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._completion import Completion

__all__ = ["Completion"]

del _ray


def __getattr__(name: str) -> Any:
    # When it is first used: actors need no scikit-learn, and start faster without it.
    if name != "Completion":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._completion import Completion

    globals()[name] = Completion
    return Completion
