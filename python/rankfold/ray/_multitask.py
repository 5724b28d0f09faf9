"""Regressions that share a subspace, learned by shards of tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _rankfold
from .._task_shards import TaskRows, cut, in_order
from .._tasks import Multitask as _Multitask
from .._tasks import _need_y, _targets
from ._cluster import OnCluster, Search, check_shards, threads_of_actor


class Multitask(OnCluster, _Multitask):
    """Learn many regressions that share a subspace of their features, on a cluster that runs Ray.

    Tasks are cut into a fixed number of shards, each with all rows of its tasks, held by an actor.
    Scales, biases, common weights and every step of the search follow from sums over tasks; these
    are made in a tree over the numbers of shards. So the problem that is solved is that of
    `rankfold.Multitask`, and the model has the same bytes for any number of actors and nodes, also
    after some of them died.

    Parameters beside those of `rankfold.Multitask`:

    shards : int, default=8
        Parts into which tasks are cut. Another number is another order of sums.
    actors : int, optional
        Actors that hold the shards; as many as shards by default. 0 holds all shards in this
        process, without Ray.
    num_cpus : float, default=1
        Cores of an actor, for Ray. `n_jobs` is its number of threads.

    The learner is 'grassmann'. Nothing is chosen by validation: `regularization` is needed, the rank is
    3 and features are scaled over all rows where nothing else is asked for.

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
        The tasks.

    Examples
    --------
    >>> import numpy as np
    >>> import rankfold.ray
    >>> random = np.random.default_rng(0)
    >>> X, schools = random.normal(size=(200, 5)), random.integers(0, 4, 200)
    >>> y = X @ [1, 2, 0, 0, -1] + schools
    >>> model = rankfold.ray.Multitask(rank=1, regularization=1.0, shards=2, actors=0)
    >>> model.fit(X, y, tasks=schools).predict(X, tasks=schools).shape
    (200,)
    """

    shards: int
    actors: int | None
    num_cpus: float

    def fit(self, X: Any, y: Any = None, *, tasks: Any = None) -> Multitask:
        """Learn the targets of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their targets.
        tasks : array-like of shape (n_samples,), optional
            The task of each row; without it all rows are of one task.

        Returns
        -------
        Multitask
            The fitted estimator.
        """
        _need_y(self, y)
        check_shards(self)
        given = [(name, text) for name, text in self._given() if name != "threads"]
        X = self._new_rows(X, ensure_min_samples=2)
        sparse = hasattr(X, "indptr")
        X = X.astype(np.float64) if sparse else np.ascontiguousarray(X, dtype=np.float64)
        targets = _targets(y, X.shape[0])
        (names, codes), distinct = self._tasks(tasks, X.shape[0])
        threads = threads_of_actor(self)
        of_shards = given if threads is None else [*given, ("threads", str(threads))]
        columns = self._column_names()
        features = columns or [str(i + 1) for i in range(X.shape[1])]
        # A shard without tasks would be a part that says nothing.
        count = min(int(self.shards), len(names))
        sources = cut(TaskRows(of_shards, X, columns, names, codes, targets), count)
        ordered = [names[code] for code in in_order(codes)]
        search = Search(self, self.iterations)
        try:
            search.deal(sources)
            model, cost = _rankfold.fit_task_shards(given, features, ordered, search.ask, search.told)
        finally:
            search.close()
        self._restored(model)
        self._name_ids(distinct)
        search.report(cost)
        return self
