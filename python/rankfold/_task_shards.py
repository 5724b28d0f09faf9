"""Tasks cut into shards, and how they are asked.

The library says what all shards are asked next. Answers are added up in a tree over the numbers of
shards, or stand one behind the other. So the model follows from how tasks are cut, and not from who
holds which shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _rankfold
from ._shards import Moved, reduced


@dataclass
class TaskRows:
    """The rows of some tasks, each with its task and its target; in double precision, an array or CSR."""

    options: list[tuple[str, str]]
    rows: Any
    features: list[str] | None
    names: list[str]
    codes: NDArray[np.int64]
    targets: NDArray[np.float64]


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


def _shard(source: TaskRows) -> _rankfold.TaskShard:
    rows = source.rows
    if hasattr(rows, "indptr"):
        shape = rows.shape[1]
        held = _rankfold.Data.csr(rows.indptr, rows.indices, rows.data, shape, source.features)
    else:
        held = _rankfold.Data.dense(rows, source.features)
    return _rankfold.TaskShard(source.options, held, (source.names, source.codes), source.targets)


class TaskHolder:
    """Some shards in a row. All they know are their rows: new ones answer as the old ones did."""

    def __init__(self, first: int, sources: Sequence[TaskRows]) -> None:
        self.first, self.shards = first, [_shard(source) for source in sources]

    def asked(
        self,
        low: int,
        high: int,
        what: str,
        sums: NDArray[np.float64],
        numbers: NDArray[np.float64],
        summed: bool,
    ) -> NDArray[np.float64]:
        """What the shards low..high answer, added up or one behind the other."""

        def leaf(s: int) -> NDArray[np.float64]:
            return self.shards[s - self.first].answer(what, sums, numbers)

        return reduced(low, high, leaf) if summed else np.concatenate([leaf(s) for s in range(low, high)])


class Asked(Protocol):
    """Who asks all shards."""

    moved: Moved

    def ask(self, what: str, numbers: NDArray[np.float64], summed: bool) -> NDArray[np.float64]:
        """What all shards answer."""


class InProcess:
    """All shards in this process."""

    def __init__(self, sources: Sequence[TaskRows]) -> None:
        self.holder, self.moved, self.count = TaskHolder(0, sources), Moved(), len(sources)
        self.sums = np.empty(0)

    def ask(self, what: str, numbers: NDArray[np.float64], summed: bool) -> NDArray[np.float64]:
        if what == "framed":
            self.sums = numbers
            return np.empty(0)
        return self.holder.asked(0, self.count, what, self.sums, numbers, summed)
