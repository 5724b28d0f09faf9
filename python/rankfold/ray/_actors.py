"""Actors that hold shards, and what they are asked."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from .. import _rankfold
from .._asked import Holder
from .._shards import BIAS_RIDGE, Moved, Shard, halves, mapped, reduced, said

#: Bytes of a number.
_F64, _F32 = 8, 4


class _Holder:
    """Some shards in a row. All it knows are ratings: a new one answers as the old one did."""

    def __init__(self, first: int, sources: list[Any], threads: int) -> None:
        self.first, self.threads = first, threads
        self.shards: list[Shard] = [
            mapped(source) if isinstance(source, list) else source
            for source in (ray.get(s) if isinstance(s, ray.ObjectRef) else s for s in sources)
        ]

    def _of(self, number: int) -> Shard:
        return self.shards[number - self.first]

    def sums(self, low: int, high: int, what: str, *arguments: Any) -> NDArray[np.float64]:
        """What the shards low..high say, added up."""
        return reduced(low, high, lambda s: said(self._of(s), what, self.threads, *arguments))

    def answers(
        self, low: int, high: int, state: NDArray[np.uint8], weights: list[NDArray[np.float32]]
    ) -> tuple[NDArray[np.float64], list[NDArray[np.float32]]]:
        """The answers of the shards low..high, added up, and the weights of their users."""
        found = list(weights)

        def leaf(s: int) -> NDArray[np.float64]:
            own = np.ascontiguousarray(weights[s - low])
            answer, found[s - low] = _rankfold.shard_answer(*self._of(s), state, own, self.threads)
            return answer

        return reduced(low, high, leaf), found

    def rows(
        self, number: int, state: NDArray[np.uint8], weights: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, float]:
        """The users of a shard."""
        own = np.ascontiguousarray(weights)
        return _rankfold.shard_rows(*self._of(number), state, own, self.threads)

    def biases(self, number: int, center: float, items: NDArray[np.float64]) -> NDArray[np.float64]:
        """Biases of the users of a shard, without factors."""
        return _rankfold.shard_biases(*self._of(number), center, items, BIAS_RIDGE)[0]


class _Asked:
    """Some shards in a row that answer questions."""

    def __init__(self, first: int, sources: list[Any], threads: int) -> None:
        del threads  # They are in the sources.
        self.held = Holder(first, [ray.get(source) for source in sources])

    def asked(self, *question: Any) -> NDArray[np.float64]:
        """What some shards answer."""
        return self.held.asked(*question)


def _sum_of_two(
    left: NDArray[np.float64], right: NDArray[np.float64]
) -> NDArray[np.float64]:
    out = left.copy()
    _rankfold.shard_add(out, right)
    return out


class _Crew:
    """Actors of a run."""

    def __init__(self, num_cpus: float, poll: Any = None) -> None:
        self.run, self.num_cpus, self.poll = uuid.uuid4().hex[:8], num_cpus, poll
        self.actors: list[Any] = []
        self.moved = Moved()
        # Data stay in the store while the actors live: a new one reads them there.
        self.sources: list[Any] = []

    def hire(self, kind: type[Any], *arguments: Any) -> None:
        """One more actor."""
        # Ray starts an actor anew that died, on another node where its own is gone, and asks it
        # again what it had not answered.
        made = ray.remote(kind).options(
            name=f"rankfold-{self.run}-actor-{len(self.actors)}",
            num_cpus=self.num_cpus,
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy="SPREAD",
        )
        self.actors.append(made.remote(*arguments))

    def close(self) -> None:
        """Ends all actors."""
        for actor in self.actors:
            ray.kill(actor)
        self.sources = []

    def _get(self, refs: Any) -> Any:
        """Waits in short steps, so that Ctrl-C and the poll of the caller are heard."""
        waiting = list(refs) if isinstance(refs, list) else [refs]
        while waiting:
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=0.5, fetch_local=False)
            if self.poll is not None:
                self.poll()
        return ray.get(refs)


class _Actors(_Crew):
    """Shards that are held by actors, each by one that has its neighbors too."""

    #: What an actor is.
    holder: type[Any]

    def __init__(
        self,
        sources: list[Any],
        actors: int,
        threads: int,
        num_cpus: float,
        poll: Any = None,
    ) -> None:
        super().__init__(num_cpus, poll)
        count = len(sources)
        self.owner = [s * actors // count for s in range(count)]
        self.count, self.sources = count, sources
        for a in range(actors):
            own = [s for s in range(count) if self.owner[s] == a]
            self.hire(self.holder, own[0], [sources[s] for s in own], threads)
        self.add = ray.remote(_sum_of_two).options(name="rankfold.add", num_cpus=0, max_retries=-1)

    def _tree(self, low: int, high: int, ask: Any) -> Any:
        """A reference to the sum over the shards low..high."""
        if self.owner[low] == self.owner[high - 1]:
            return ask(self.actors[self.owner[low]], low, high)
        middle = halves(low, high)
        return self.add.remote(self._tree(low, middle, ask), self._tree(middle, high, ask))


class Actors(_Actors):
    """Shards of ratings."""

    holder = _Holder

    def sums(self, what: str, *arguments: Any) -> NDArray[np.float64]:
        """What all shards say, added up in the tree."""
        name, asked = f"rankfold.{what}", 0
        told = sum(value.nbytes for value in arguments if isinstance(value, np.ndarray))
        # Once to the store, and from there to each actor.
        sent = [ray.put(value) if isinstance(value, np.ndarray) else value for value in arguments]

        def ask(actor: Any, low: int, high: int) -> Any:
            nonlocal asked
            asked += 1
            return actor.sums.options(name=name).remote(low, high, what, *sent)

        out: NDArray[np.float64] = self._get(self._tree(0, self.count, ask))
        self.moved.sent += told * len(self.actors)
        self.moved.received += out.nbytes * asked
        return out

    def answers(
        self, state: bytes, weights: list[NDArray[np.float32]]
    ) -> tuple[NDArray[np.float64], list[NDArray[np.float32]]]:
        """The answers of all shards added up, and the weights of their users."""
        sent = ray.put(np.frombuffer(state, dtype=np.uint8))
        asked: list[tuple[int, int, Any]] = []

        def ask(actor: Any, low: int, high: int) -> Any:
            named = actor.answers.options(name=f"rankfold.answers[{low}:{high}]", num_returns=2)
            answer, own = named.remote(low, high, sent, weights[low:high])
            asked.append((low, high, own))
            return answer

        answer = self._get(self._tree(0, self.count, ask))
        found = list(weights)
        for low, high, own in asked:
            found[low:high] = self._get(own)
        told = sum(_F32 * len(own) for own in found)
        self.moved.sent += len(state) * len(self.actors) + told
        self.moved.received += _F64 * len(answer) * len(asked) + told
        # The sum of one actor alone is lent by the store, and is only read.
        return answer, found

    def rows(
        self, state: bytes, weights: list[NDArray[np.float32]]
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64] | None, float]]:
        """The users of each shard."""
        sent = ray.put(np.frombuffer(state, dtype=np.uint8))
        asked = [
            self.actors[self.owner[s]].rows.options(name=f"rankfold.rows[{s}]").remote(s, sent, weights[s])
            for s in range(self.count)
        ]
        out: list[tuple[NDArray[np.float64], NDArray[np.float64] | None, float]] = self._get(asked)
        return out

    def biases(self, center: float, items: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Biases of the users of each shard, without factors."""
        sent = ray.put(items)
        asked = [
            self.actors[self.owner[s]].biases.options(name=f"rankfold.biases[{s}]").remote(s, center, sent)
            for s in range(self.count)
        ]
        out: list[NDArray[np.float64]] = self._get(asked)
        return out


class AskedActors(_Actors):
    """Shards that answer questions."""

    holder = _Asked

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.kept: list[Any] = []

    def ask(self, what: str, numbers: NDArray[np.float64], summed: bool) -> NDArray[np.float64]:
        """What all shards answer, added up in the tree or one behind the other."""
        self.moved.sent += numbers.nbytes * len(self.actors)
        if what == "framed":
            self.kept = [ray.put(numbers)]
            return np.empty(0)
        sent, asked = ray.put(numbers), 0

        def ask(actor: Any, low: int, high: int) -> Any:
            nonlocal asked
            asked += 1
            named = actor.asked.options(name=f"rankfold.{what}[{low}:{high}]")
            return named.remote(low, high, what, summed, sent, *self.kept)

        if summed:
            out: NDArray[np.float64] = self._get(self._tree(0, self.count, ask))
            self.moved.received += out.nbytes * asked
            return out
        first = [self.owner.index(a) for a in range(len(self.actors))]
        ends = [*first[1:], self.count]
        parts = [ask(actor, low, high) for actor, low, high in zip(self.actors, first, ends, strict=True)]
        out = np.concatenate(self._get(parts))
        self.moved.received += out.nbytes
        return out
