"""Pairs of rows cut into shards, each with the rows that its pairs need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _rankfold
from ._asked import library_rows


@dataclass
class Pairs:
    """Pairs of rows, with what their squared distances should keep to."""

    rows: Any
    pairs: NDArray[np.int64]
    kinds: NDArray[np.int64]
    targets: NDArray[np.float64]
    #: The pairs of all shards, and threads.
    all: int
    threads: int

    def shard(self) -> _rankfold.MetricShard:
        """The shard of these pairs."""
        rows = library_rows(self.rows)
        return _rankfold.MetricShard(rows, self.pairs, self.kinds, self.targets, self.all, self.threads)


def given_rows(rows: Any) -> Any:
    """Rows as the library hands them out: an array, or CSR of SciPy."""
    if not isinstance(rows, tuple):
        return rows
    from scipy.sparse import csr_matrix

    starts, indices, values, columns = rows
    return csr_matrix((values, indices, starts), shape=(len(starts) - 1, columns))


def cut(whole: Pairs, shards: int) -> list[Pairs]:
    """Neighbors in the list of pairs share a shard."""
    out = []
    for s in range(shards):
        own = slice(whole.all * s // shards, whole.all * (s + 1) // shards)
        used, ends = np.unique(whole.pairs[own], return_inverse=True)
        pairs = ends.reshape(-1, 2).astype(np.int64)
        rows, kinds, targets = whole.rows[used], whole.kinds[own], whole.targets[own]
        out.append(Pairs(rows, pairs, kinds, targets, whole.all, whole.threads))
    return out
