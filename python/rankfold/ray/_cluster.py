"""What estimators on a cluster have in common."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import ray

from .._asked import Asked, InProcess, Source
from .._base import Progress
from .._options import parameters, threads_of
from ._actors import AskedActors

#: Parameters of shards beside those of a task: name, default.
SHARDS: dict[str, Any] = {"shards": 8, "actors": None, "num_cpus": 1}


def _signature(task: str, own: dict[str, Any]) -> inspect.Signature:
    """The parameters of a task and those of a cluster."""
    kind = inspect.Parameter
    known = parameters(task) | own
    named = [kind(name, kind.KEYWORD_ONLY, default=value) for name, value in known.items()]
    return inspect.Signature([kind("self", kind.POSITIONAL_OR_KEYWORD), *named])


class OnCluster:
    """An estimator with parameters of a cluster, beside those of its task."""

    _task: str
    _own: dict[str, Any] = SHARDS

    def __init__(self, *unnamed: Any, **given: Any) -> None:
        own = {name: given.pop(name, default) for name, default in self._own.items()}
        super().__init__(*unnamed, **given)
        for name, value in own.items():
            setattr(self, name, value)

    def __init_subclass__(cls, **options: Any) -> None:
        """Gives the class a constructor of its own, which has its signature."""
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            return

        def __init__(self: Any, *unnamed: Any, **given: Any) -> None:
            super(cls, self).__init__(*unnamed, **given)

        __init__.__signature__ = _signature(cls._task, cls._own)  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[method-assign]


def connect() -> None:
    """Joins the cluster, or begins one on this machine."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False)


def check_shards(estimator: Any, *counts: str) -> None:
    """Refuses numbers of shards and actors that are none."""
    for name in ("shards", *counts):
        value = getattr(estimator, name)
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name}: expected 1 at least, found {value!r}")
    if estimator.actors is not None and estimator.actors < 0:
        raise ValueError(f"actors: expected 0 at least, found {estimator.actors}")


def threads_of_actor(estimator: Any) -> int | None:
    """The threads of an actor; None are all cores of this process."""
    cores = None if estimator.actors == 0 else max(1, int(estimator.num_cpus))
    return threads_of(estimator.n_jobs) or cores


class Search:
    """A search over shards that answer questions: who holds them, what is told of it, and its end."""

    def __init__(self, estimator: Any, iterations: int) -> None:
        self.estimator, self.iterations = estimator, iterations
        self.costs: list[float] = []
        self.held: Asked | None = None
        self.count = 0
        verbose = estimator.verbose
        self.progress = Progress(type(estimator).__name__, verbose) if verbose else None
        self.began = time.perf_counter()

    def deal(self, sources: Sequence[Source]) -> None:
        """Gives each shard its data."""
        self.count = len(sources)
        if self.estimator.actors == 0:
            self.held = InProcess(sources)
            return
        connect()
        actors = min(self.estimator.actors or self.count, self.count)
        put = [ray.put(source) for source in sources]
        self.held = AskedActors(put, actors, 1, self.estimator.num_cpus)

    def ask(self, *question: Any) -> Any:
        """What all shards answer."""
        if self.held is None:
            raise RuntimeError("shards were asked before they had their data")
        return self.held.ask(*question)

    def told(self, number: int, cost: float) -> object:
        """Tells of an iteration; False ends the search."""
        self.costs.append(cost)
        if self.progress is not None:
            self.progress.move(number, self.iterations)
        event = {"event": "measured", "steps": number, "loss": cost}
        callback: Callable[[Any], object] | None = self.estimator.callback
        return None if callback is None else callback(event)

    def close(self) -> None:
        """Ends actors and the bar, also after Ctrl-C."""
        if isinstance(self.held, AskedActors):
            self.held.close()
        if self.progress is not None:
            self.progress.close()

    def report(self, cost: float, **more: Any) -> None:
        """Says on the estimator how it went."""
        moved = getattr(self.held, "moved", None)
        costs = enumerate(self.costs)
        self.estimator.history_ = [{"iteration": i + 1, "cost": c} for i, c in costs]
        self.estimator.report_ = {
            "shards": self.count,
            "actors": len(getattr(self.held, "actors", [])),
            "cost": cost,
            "seconds": time.perf_counter() - self.began,
            "bytes_sent": getattr(moved, "sent", 0),
            "bytes_received": getattr(moved, "received", 0),
            **more,
        }
