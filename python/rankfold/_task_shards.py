"""Tasks cut into shards, each with all rows of its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _rankfold
from ._asked import library_rows


@dataclass
class TaskRows:
    """The rows of some tasks, each with its task and its target; in double precision, an array or CSR."""

    options: list[tuple[str, str]]
    rows: Any
    features: list[str] | None
    names: list[str]
    codes: NDArray[np.int64]
    targets: NDArray[np.float64]

    def shard(self) -> _rankfold.TaskShard:
        """The shard of these tasks."""
        rows = library_rows(self.rows, self.features)
        return _rankfold.TaskShard(self.options, rows, (self.names, self.codes), self.targets)


def in_order(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of tasks in the order in which they first come."""
    first = np.unique(codes, return_index=True)[1]
    found: NDArray[np.int64] = codes[np.sort(first)]
    return found


def cut(whole: TaskRows, shards: int) -> list[TaskRows]:
    """Neighbors in the order of tasks share a shard."""
    order = in_order(whole.codes)
    place = np.empty(len(whole.names), dtype=np.int64)
    place[order] = np.arange(len(order))
    ends = [len(order) * (s + 1) // shards for s in range(shards)]
    owner = np.searchsorted(ends, place[whole.codes], side="right")
    out = []
    for s in range(shards):
        own = np.flatnonzero(owner == s)
        # Names of other tasks stay where they are.
        used, codes = np.unique(whole.codes[own], return_inverse=True)
        names = [whole.names[code] for code in used]
        out.append(
            TaskRows(
                whole.options,
                whole.rows[own],
                whole.features,
                names,
                codes.astype(np.int64).ravel(),
                whole.targets[own],
            )
        )
    return out
