"""Metrics, learned by shards of pairs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .. import _rankfold
from .._pair_shards import Pairs, cut, given_rows
from .._tasks import Metric as _Metric
from ._cluster import OnCluster, Search, check_shards, threads_of_actor

#: Iterations on pairs that are given, unless others are asked for.
_ITERATIONS = 200


class Metric(OnCluster, _Metric):
    """Learn a distance between rows, on a cluster that runs Ray.

    Pairs are cut into a fixed number of shards, each with the rows that its pairs need, held by an
    actor. This process scales rows, makes the start and searches as `rankfold.Metric` does with a
    batch solver; cost, slope and curvature are sums over pairs, made in a tree over the numbers of
    shards. So the problem that is solved is that of `rankfold.Metric`, and the model has the same
    bytes for any number of actors and nodes, also after some of them died.

    Parameters beside those of `rankfold.Metric`:

    shards : int, default=8
        Parts into which pairs are cut. Another number is another order of sums.
    actors : int, optional
        Actors that hold the shards; as many as shards by default. 0 holds all shards in this
        process, without Ray.
    num_cpus : float, default=1
        Cores of an actor, for Ray. `n_jobs` is its number of threads.

    Learners are the geometries, solvers those of batch learning. Nothing is chosen by validation:
    `fit` needs ``pairs_from="random"`` and `iterations`, and columns stay as they are unless
    `standardize` says otherwise. `fit_pairs` needs nothing.

    Attributes
    ----------
    components_ : ndarray of shape (rank, n_features)
        L with W = Lᵀ L.
    singular_values_ : ndarray of shape (rank,)
        The singular values of W, falling.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> import rankfold.ray
    >>> X, y = load_wine(return_X_y=True)
    >>> options = {"pairs_from": "random", "iterations": 20, "standardize": "global"}
    >>> metric = rankfold.ray.Metric(rank=2, shards=4, actors=0, **options).fit(X, y)
    >>> metric.score(X, y) > 0.9
    True
    """

    shards: int
    actors: int | None
    num_cpus: float

    def _run(
        self,
        inputs: dict[str, Any],
        given: list[tuple[str, str]],
        then: Callable[[], None] | None = None,
    ) -> None:
        if "valid" in inputs:
            raise ValueError("valid: nothing is chosen by shards; expected None")
        check_shards(self)
        threads = threads_of_actor(self) or os.cpu_count() or 1
        search = Search(self, self.iterations or _ITERATIONS)

        def deal(rows: Any, pairs: Any, kinds: Any, targets: Any) -> None:
            whole = Pairs(given_rows(rows), pairs, kinds, targets, len(pairs), threads)
            # A shard without pairs would be a part that says nothing.
            search.deal(cut(whole, min(int(self.shards), len(pairs))))

        here = [(name, text) for name, text in given if name != "threads"]
        try:
            model, cost, constraints, violated, converged = _rankfold.fit_metric_shards(
                here, inputs["rows"], inputs.get("relations"), deal, search.ask, search.told
            )
        finally:
            search.close()
        self._restored(model)
        search.report(cost, constraints=constraints, violated=violated, converged=converged)
        if then is not None:
            then()
