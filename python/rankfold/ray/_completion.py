"""Ratings of items by users, learned by shards."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from .._base import Progress
from .._inputs import coded, numbers
from .._options import parameters, seed_of, threads_of
from .._ratings import _COLUMNS, rated, same_lengths
from .._ratings import Completion as _Completion
from .._shards import Holder, InProcess, Plan, Run, cut, store, without_repeats
from ._actors import Actors
from ._cluster import SHARDS, OnCluster, check_shards, connect
from ._read import read

#: Parameters beside those of `rankfold.Completion`: name, default.
_OWN: dict[str, Any] = {
    **SHARDS,
    "folder": None,
    "checkpoint": None,
    "checkpoint_every": 5,
    "resume": None,
}

#: What learning by shards has no use for.
_REFUSED = (
    "solver",
    "first_step",
    "step_size",
    "init",
    "retraction",
    "valid_fraction",
    "curve_every",
)

#: Sweeps and tolerance of each learner, and the rank that stands for 'auto'.
_USUAL = {"bayes": (20, 1e-5, 30), "als": (30, 1e-5, 10)}


class Completion(OnCluster, _Completion):
    """Learn to predict ratings, on a cluster that runs Ray.

    Ratings are cut into a fixed number of shards by user. Each is held by an actor, which sets its
    users in Rust. A sweep sends the items out and brings the normal equations of items back; these
    are added up in a tree over the numbers of shards. So the model has the same bytes for any
    number of actors and nodes, also after some of them died; it follows from `shards`.

    Parameters beside those of `rankfold.Completion`:

    shards : int, default=8
        Parts into which users are cut. Another number is another order of sums.
    actors : int, optional
        Actors that hold the shards; as many as shards by default. 0 holds all shards in this
        process, without Ray.
    num_cpus : float, default=1
        Cores of an actor, for Ray. `n_jobs` is its number of threads.
    folder : str, optional
        Where shards are written, to be mapped by actors instead of held in memory. All nodes
        must see it.
    checkpoint : str, optional
        A path or an address such as ``s3://bucket/run``, to which the run is written.
    checkpoint_every : int, default=5
        Sweeps between checkpoints.
    resume : str, optional
        A checkpoint to go on from.

    Learners are 'bayes', with the part that learns from which items were rated and without it, and
    'als', which needs `regularization`.

    Attributes
    ----------
    users_, items_ : ndarray
        The users and items, in the order of the factors.

    Examples
    --------
    >>> import rankfold.ray
    >>> users, items = [i % 9 for i in range(60)], [i % 7 for i in range(60)]
    >>> ratings = [float(1 + (u * i) % 5) for u, i in zip(users, items)]
    >>> model = rankfold.ray.Completion(rank=2, shards=2, actors=0).fit(users, items, ratings)
    >>> model.predict([1], [2]).shape
    (1,)
    """

    _own = _OWN
    shards: int
    actors: int | None
    num_cpus: float
    folder: str | None
    checkpoint: str | None
    checkpoint_every: int
    resume: str | None

    def fit(
        self,
        users: Any,
        items: Any = None,
        ratings: Any = None,
        *,
        columns: tuple[str, str, str] = _COLUMNS,
        valid: tuple[Any, Any, Any] | None = None,
    ) -> Completion:
        """Learn from ratings.

        Parameters
        ----------
        users : array-like, sparse matrix, frame, Ray Dataset, or path of Parquet or CSV files
            The user of each rating, or all three columns. Of a Dataset or of files the three
            columns go through this process once, to number users and items.
        items, ratings : array-like of shape (m,), optional
            The item of each rating, and the ratings; of a repeated pair the last counts.
        columns : tuple of three names
            The columns of a frame, a Dataset or files.
        valid : None
            Nothing is chosen on validation ratings here: only None is possible.

        Returns
        -------
        Completion
            The fitted estimator.
        """
        if valid is not None:
            raise ValueError("valid: nothing is chosen by shards; expected None")
        if items is None and ratings is None:
            users = read(users, columns)
        users, items, ratings = rated(users, items, ratings, columns)
        (of_users, all_users), (of_items, all_items) = coded(users, "users"), coded(items, "items")
        values = numbers(ratings, "ratings")
        same_lengths(of_users[1], of_items[1], values)
        if len(values) == 0:
            raise ValueError("expected ratings, found none")
        sizes = len(all_users), len(all_items)
        plan = self._plan(sizes)
        entries = without_repeats(of_users[1], of_items[1], values, sizes[1])
        counts = np.bincount(entries[0], minlength=sizes[0])
        shards = cut(*entries, sizes, plan.shards)
        holder, close = self._holder(shards, plan)
        del shards
        progress = Progress(type(self).__name__, self.verbose) if self.verbose else None
        try:
            run = self._started(plan, holder)
            self._sweep(run, holder, len(values), progress)
            model = run.model(
                holder, of_users[0], of_items[0], counts, self._scale(values), self._precision()
            )
        finally:
            # Also after Ctrl-C.
            close()
            if progress is not None:
                progress.close()
        self._restored(model)
        self.users_, self.items_, self._places = all_users, all_items, {}
        self.history_ = [{"iteration": i + 1, "cost": c} for i, c in enumerate(run.state.costs)]
        self.report_ = {
            "shards": plan.shards,
            "actors": len(getattr(holder, "actors", [])),
            "seconds": run.seconds,
            "ratings_per_second": len(values) * len(run.seconds) / max(sum(run.seconds), 1e-9),
            "bytes_sent": holder.moved.sent,
            "bytes_received": holder.moved.received,
        }
        return self

    def _plan(self, sizes: tuple[int, int]) -> Plan:
        usual = parameters("completion")
        for name in _REFUSED:
            if getattr(self, name) != usual[name]:
                raise ValueError(
                    f"{name}: has no use by shards, expected {usual[name]!r}, "
                    f"found {getattr(self, name)!r}"
                )
        learner = "bayes" if self.learner == "auto" else self.learner
        if learner not in _USUAL:
            raise ValueError(f"learner: expected 'bayes' or 'als' by shards, found {learner!r}")
        if learner == "als" and self.no_implicit:
            raise ValueError("no_implicit: of 'bayes' alone, expected False with 'als'")
        if learner == "als" and self.regularization is None:
            raise ValueError(
                "regularization: is not chosen by shards; expected a number, such as "
                "rankfold.Completion(learner='als') finds for a sample of users"
            )
        if learner == "bayes" and self.regularization is not None:
            raise ValueError("regularization: `bayes` has no penalty, expected None")
        check_shards(self, "checkpoint_every")
        iterations, tolerance, most = _USUAL[learner]
        rank = min(most, *sizes) if self.rank == "auto" else self.rank
        if not isinstance(rank, (int, np.integer)) or not 1 <= rank <= min(sizes):
            raise ValueError(
                f"rank: expected 'auto' or 1 to {min(sizes)}, the smaller of users and items, "
                f"found {self.rank!r}"
            )
        return Plan(
            learner=learner,
            rank=int(rank),
            biases=not self.no_bias,
            prune=self.rank == "auto" and learner == "bayes",
            implicit=learner == "bayes" and not self.no_implicit,
            regularization=float(self.regularization or 0.0),
            penalty_power=float(self.penalty_power),
            iterations=iterations if self.iterations is None else int(self.iterations),
            tolerance=tolerance if self.tolerance is None else float(self.tolerance),
            seed=seed_of(self.random_state),
            threads=threads_of(self.n_jobs) or os.cpu_count() or 1,
            # A shard without users would be a part that says nothing.
            shards=min(int(self.shards), sizes[0]),
            sizes=sizes,
        )

    def _holder(self, shards: list[Any], plan: Plan) -> tuple[Holder, Any]:
        if self.actors == 0:
            return InProcess(shards, plan.threads), lambda: None
        connect()
        sources: list[Any] = []
        for s in range(len(shards)):
            if self.folder is not None:
                sources.append(store(shards[s], self.folder, s))
            else:
                sources.append(ray.put(shards[s]))
            shards[s] = None
        actors = min(self.actors or plan.shards, plan.shards)
        threads = threads_of(self.n_jobs) or max(1, int(self.num_cpus))
        held = Actors(sources, actors, threads, self.num_cpus)
        return held, held.close

    def _started(self, plan: Plan, holder: Holder) -> Run:
        if self.resume is None:
            return Run.start(plan, holder)
        with _open(self.resume, "r") as file:
            return Run.from_bytes(plan, file.read())

    def _sweep(self, run: Run, holder: Holder, ratings: int, progress: Progress | None) -> None:
        while run.goes_on():
            cost = run.sweep(holder)
            done = run.state.iteration
            if progress is not None:
                progress.move(done, run.plan.iterations)
                if progress.bar is not None:
                    moved = holder.moved.sent + holder.moved.received
                    speed = ratings / max(run.seconds[-1], 1e-9)
                    progress.bar.set_postfix_str(f"{speed:.3g} ratings/s, {moved / 1e6:.3g} MB moved")
            ends = not run.goes_on()
            if self.checkpoint is not None and (ends or done % self.checkpoint_every == 0):
                with _open(self.checkpoint, "w") as file:
                    file.write(run.to_bytes())
            event = {"event": "measured", "steps": done, "loss": cost}
            if self.callback is not None and self.callback(event) is False:
                return

    def _scale(self, values: NDArray[np.float64]) -> tuple[float, float] | None:
        if self.clip == "none":
            return None
        if self.clip == "auto":
            return float(values.min()), float(values.max())
        clip: Any = self.clip
        low, high = clip.split(",") if isinstance(clip, str) else clip
        return float(low), float(high)


class _open:
    """A file at a path or an address; a file that is written is complete or not there at all."""

    def __init__(self, address: str, mode: str) -> None:
        from pyarrow import fs

        address = os.fspath(address)
        if "://" in address:
            self.system, self.path = fs.FileSystem.from_uri(address)
        else:
            self.system, self.path = fs.LocalFileSystem(), os.path.abspath(address)
        self.mode = mode

    def __enter__(self) -> Any:
        if self.mode == "r":
            self.file = self.system.open_input_stream(self.path)
        else:
            self.file = self.system.open_output_stream(self.path + ".part")
        return self.file

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.file.close()
        if self.mode == "w" and kind is None:
            self.system.move(self.path + ".part", self.path)
