"""Shards that answer questions, and who asks them.

The library says what all shards are asked next. Answers are added up in a tree over the numbers of
shards, or stand one behind the other. So the model follows from how data are cut, and not from who
holds which shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _rankfold
from ._shards import Moved, reduced


class Answering(Protocol):
    """A shard."""

    def answer(self, *question: Any, **options: Any) -> NDArray[np.float64]:
        """Its part of what is asked, with what numbers, and what came with the question `framed`."""


class Source(Protocol):
    """What a shard is made of."""

    def shard(self) -> Answering:
        """The shard."""


def library_rows(rows: Any, features: list[str] | None = None) -> _rankfold.Data:
    """Rows in double precision, an array or CSR, as the library has them."""
    if hasattr(rows, "indptr"):
        return _rankfold.Data.csr(rows.indptr, rows.indices, rows.data, rows.shape[1], features)
    return _rankfold.Data.dense(rows, features)


class Holder:
    """Some shards in a row. All they know is their data: new ones answer as the old ones did."""

    def __init__(self, first: int, sources: Sequence[Source]) -> None:
        self.first, self.shards = first, [source.shard() for source in sources]

    def asked(
        self,
        low: int,
        high: int,
        what: str,
        summed: bool,
        numbers: NDArray[np.float64],
        *kept: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """What the shards low..high answer, added up or one behind the other."""

        def leaf(s: int) -> NDArray[np.float64]:
            return self.shards[s - self.first].answer(what, numbers, *kept)

        return reduced(low, high, leaf) if summed else np.concatenate([leaf(s) for s in range(low, high)])


class Asked(Protocol):
    """Who asks all shards."""

    moved: Moved

    def ask(self, what: str, numbers: NDArray[np.float64], summed: bool) -> NDArray[np.float64]:
        """What all shards answer."""


class InProcess:
    """All shards in this process."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.holder, self.moved, self.count = Holder(0, sources), Moved(), len(sources)
        self.kept: list[NDArray[np.float64]] = []

    def ask(self, what: str, numbers: NDArray[np.float64], summed: bool) -> NDArray[np.float64]:
        if what == "framed":
            self.kept = [numbers]
            return np.empty(0)
        return self.holder.asked(0, self.count, what, summed, numbers, *self.kept)
