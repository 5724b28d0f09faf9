"""Ratings cut into shards by user, and the run of a factorization over them.

A run sends a state out, gets an answer from each shard, adds the answers up and takes a step.
Answers are added pair by pair in a tree over the numbers of shards. So the result follows from
how ratings are cut, and not from who holds which shard.
"""

from __future__ import annotations

import io
import os
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _rankfold

#: Starts, places and values of lines.
Lines = tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.float64]]

#: The entries of a shard by users and by items.
Shard = tuple[Lines, Lines]

#: Sweeps for biases alone, and their ridge in ratings: those of the single process.
BIAS_SWEEPS = 5
BIAS_RIDGE = 4.0

_PARTS = ("row_starts", "row_index", "row_value", "column_starts", "column_index", "column_value")


def _lines(of: NDArray[np.int64], places: NDArray[np.int64], values: NDArray[np.float64], count: int) -> Lines:
    """Entries sorted by line, and by place in it."""
    order = np.lexsort((places, of))
    starts = np.zeros(count + 1, dtype=np.uint64)
    np.cumsum(np.bincount(of, minlength=count), out=starts[1:])
    index = places[order].astype(np.uint32)
    return starts, index, np.ascontiguousarray(values[order])


def without_repeats(
    users: NDArray[np.int64], items: NDArray[np.int64], values: NDArray[np.float64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The entries without those that come again later."""
    keys = users * count + items
    last = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
    if len(last) == len(keys):
        return users, items, values
    last.sort()
    return users[last], items[last], values[last]


def cut(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    values: NDArray[np.float64],
    sizes: tuple[int, int],
    shards: int,
) -> list[Shard]:
    """Shard s has the users s, s + shards, s + 2 shards, ..."""
    owner = users % shards
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=shards))
    out = []
    for s in range(shards):
        own = order[ends[s - 1] if s else 0 : ends[s]]
        rows = (sizes[0] - s + shards - 1) // shards
        local, places, rated = users[own] // shards, items[own], values[own]
        out.append((_lines(local, places, rated, rows), _lines(places, local, rated, sizes[1])))
    return out


def store(shard: Shard, folder: str, number: int) -> list[str]:
    """Writes a shard to files that can be mapped."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    arrays: tuple[NDArray[Any], ...] = (*shard[0], *shard[1])
    for name, array in zip(_PARTS, arrays, strict=True):
        paths.append(os.path.join(folder, f"shard-{number:05d}-{name}.npy"))
        np.save(paths[-1], array)
    return paths


def mapped(paths: Sequence[str]) -> Shard:
    """A shard from its files, of which only what is used is in memory."""
    a, b, c, d, e, f = (np.load(path, mmap_mode="r") for path in paths)
    return (a, b, c), (d, e, f)


def halves(low: int, high: int) -> int:
    """Where the tree over the shards low..high is cut: at a power of two."""
    size = 1
    while 2 * size < high - low:
        size *= 2
    return low + size


def reduced(low: int, high: int, leaf: Callable[[int], NDArray[np.float64]]) -> NDArray[np.float64]:
    """The sum over the shards low..high, in the order of the tree."""
    if high - low == 1:
        return leaf(low)
    middle = halves(low, high)
    left = reduced(low, middle, leaf)
    _rankfold.shard_add(left, reduced(middle, high, leaf))
    return left


#: Numbers of `counts` before those of items.
TOTALS = 5


@dataclass
class Moved:
    """What a run sent and received."""

    sent: int = 0
    received: int = 0


class Holder(Protocol):
    """Who holds the shards."""

    moved: Moved

    def sums(self, what: str, *arguments: Any) -> NDArray[np.float64]:
        """What all shards say, added up in the tree."""

    def answers(
        self, state: bytes, weights: list[NDArray[np.float32]]
    ) -> tuple[NDArray[np.float64], list[NDArray[np.float32]]]:
        """The answers of all shards added up, and the weights of their users."""

    def rows(
        self, state: bytes, weights: list[NDArray[np.float32]]
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64] | None, float]]:
        """The users of each shard."""

    def biases(self, center: float, items: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Biases of the users of each shard, without factors."""


def said(shard: Shard, what: str, threads: int, *arguments: Any) -> NDArray[np.float64]:
    """One number or array that a shard says of itself."""
    if what == "counts":
        return _rankfold.shard_counts(*shard)
    if what == "pattern":
        (question,) = arguments
        return _rankfold.shard_pattern(*shard, question, threads)
    if what == "squares":
        return np.asarray([_rankfold.shard_squares(*shard, *arguments)])
    center, items = arguments
    return _rankfold.shard_biases(*shard, center, items, BIAS_RIDGE)[1]


class InProcess:
    """All shards in this process: the same bytes, without anything else."""

    def __init__(self, shards: list[Shard], threads: int) -> None:
        self.shards, self.threads, self.moved = shards, threads, Moved()

    def sums(self, what: str, *arguments: Any) -> NDArray[np.float64]:
        return reduced(0, len(self.shards), lambda s: said(self.shards[s], what, self.threads, *arguments))

    def answers(
        self, state: bytes, weights: list[NDArray[np.float32]]
    ) -> tuple[NDArray[np.float64], list[NDArray[np.float32]]]:
        sent, found = np.frombuffer(state, dtype=np.uint8), list(weights)

        def leaf(s: int) -> NDArray[np.float64]:
            answer, found[s] = _rankfold.shard_answer(*self.shards[s], sent, weights[s], self.threads)
            return answer

        return reduced(0, len(self.shards), leaf), found

    def rows(
        self, state: bytes, weights: list[NDArray[np.float32]]
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64] | None, float]]:
        sent = np.frombuffer(state, dtype=np.uint8)
        return [
            _rankfold.shard_rows(*shard, sent, own, self.threads)
            for shard, own in zip(self.shards, weights, strict=True)
        ]

    def biases(self, center: float, items: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        return [_rankfold.shard_biases(*shard, center, items, BIAS_RIDGE)[0] for shard in self.shards]


@dataclass
class Plan:
    """What is learned, and how long."""

    learner: str
    rank: int
    biases: bool
    prune: bool
    implicit: bool
    regularization: float
    penalty_power: float
    iterations: int
    tolerance: float
    seed: int
    threads: int
    shards: int
    sizes: tuple[int, int]

    def settings(self) -> list[float]:
        """What a run that goes on must have in common with the one before."""
        switches = [self.biases, self.prune, self.implicit]
        numbers = [self.rank, self.regularization, self.penalty_power, self.seed]
        return [float(value) for value in [*switches, *numbers]]


@dataclass
class Run:
    """A run: its state, and the weights of the users of each shard."""

    plan: Plan
    state: _rankfold.Shards
    weights: list[NDArray[np.float32]]
    seconds: list[float] = field(default_factory=list)

    @classmethod
    def start(cls, plan: Plan, holder: Holder) -> Run:
        """Before the first sweep."""
        counts = holder.sums("counts")
        center = float(counts[1] / counts[0]) if plan.biases else 0.0
        squares = float(holder.sums("squares", center)[0])
        state = _rankfold.Shards(
            plan.learner,
            plan.rank,
            plan.biases,
            counts,
            squares,
            plan.seed,
            plan.regularization,
            plan.penalty_power,
            plan.prune,
            plan.implicit,
        )
        return cls(plan, state, [np.empty(0, dtype=np.float32) for _ in range(plan.shards)])

    def sweep(self, holder: Holder) -> float:
        """One sweep; the cost or the noise after it."""
        began = time.perf_counter()
        answer, self.weights = holder.answers(self.state.to_bytes(), self.weights)
        cost = self.state.step(answer, self.plan.threads)
        while (question := self.state.question()) is not None:
            self.state.hear(holder.sums("pattern", question))
        self.seconds.append(time.perf_counter() - began)
        return cost

    def goes_on(self) -> bool:
        """Whether there is more to do."""
        return self.state.iteration < self.plan.iterations and not self.state.settled(self.plan.tolerance)

    def model(
        self,
        holder: Holder,
        users: list[str],
        items: list[str],
        counts: NDArray[np.int64],
        scale: tuple[float, float] | None,
        precision: str,
    ) -> _rankfold.Model:
        """The model, when all sweeps are done."""
        plan, state = self.plan, self.state
        n, k, center = plan.sizes[0], state.rank, state.center
        of_items = holder.sums("counts")[TOTALS:]
        baseline = np.zeros(n), np.zeros(plan.sizes[1])
        if plan.biases:
            for _ in range(BIAS_SWEEPS):
                for s, found in enumerate(holder.biases(center, baseline[1])):
                    baseline[0][s :: plan.shards] = found
                rests = holder.sums("rests", center, baseline[1])
                baseline = baseline[0], rests / (of_items + BIAS_RIDGE)
        factors, bias = np.empty((n, k)), np.zeros(n)
        squares = 0.0
        for s, (rows, own, left) in enumerate(holder.rows(state.to_bytes(), self.weights)):
            factors[s :: plan.shards] = rows.reshape(-1, k)
            squares += left
            if own is not None:
                bias[s :: plan.shards] = own
        return state.model(
            users,
            items,
            factors,
            bias.tolist() if plan.biases else None,
            counts.tolist(),
            (baseline[0].tolist(), baseline[1].tolist()),
            squares,
            scale,
            plan.seed,
            precision,
        )

    # ---- checkpoints

    def to_bytes(self) -> bytes:
        """All that a run goes on from."""
        out = io.BytesIO()
        plan = self.plan
        shape = np.asarray([plan.shards, *plan.sizes], dtype=np.int64)
        weights = {f"weights_{s}": own for s, own in enumerate(self.weights)}
        state = np.frombuffer(self.state.to_bytes(), dtype=np.uint8)
        learner, settings = np.asarray(plan.learner), np.asarray(plan.settings())
        np.savez(out, state=state, shape=shape, learner=learner, settings=settings, **weights)  # type: ignore[arg-type]
        return out.getvalue()

    @classmethod
    def from_bytes(cls, plan: Plan, data: bytes) -> Run:
        """Goes on from what `to_bytes` gave."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                found = [int(v) for v in archive["shape"]]
                learner = str(archive["learner"])
                settings = archive["settings"].tolist()
                state = archive["state"].tobytes()
                weights = [archive[f"weights_{s}"] for s in range(found[0])]
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"resume: not the checkpoint of a run by shards: {error}") from None
        expected = [plan.shards, *plan.sizes]
        if found != expected or learner != plan.learner:
            raise ValueError(
                f"resume: a checkpoint of {learner!r} with {found[0]} shards, {found[1]} users and "
                f"{found[2]} items; expected {plan.learner!r} with {expected[0]}, {expected[1]} "
                f"and {expected[2]}"
            )
        if settings != plan.settings():
            raise ValueError(
                "resume: the checkpoint was made with other values of rank, regularization, "
                "penalty_power, no_bias, no_implicit or random_state"
            )
        return cls(plan, _rankfold.Shards.from_bytes(state), weights)
