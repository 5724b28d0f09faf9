"""Agents that keep their data and agree on a subspace."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _rankfold
from ._base import Estimator
from ._inputs import checked, coded, data, numbers, row_numbers
from ._options import GossipOptions
from ._ratings import _COLUMNS, Completion, rated, same_lengths
from ._tasks import Multitask


class Gossip(Estimator, GossipOptions):
    """Learn by agents that keep their data and agree on a subspace.

    Each agent has the ratings of its users and a subspace of the items, or the rows of
    its tasks and a subspace of the features. Neighbors send each other these subspaces,
    never data, until they agree. The model is the mean of all subspaces.

    Attributes
    ----------
    estimator_ : Completion or Multitask
        The model of all users or tasks, with the mean of the subspaces.
    agents_ : list of Completion or Multitask
        The model of each agent, for its own users or tasks.

    Examples
    --------
    >>> import numpy as np
    >>> import rankfold as rf
    >>> users, items = np.divmod(np.arange(200), 10)
    >>> ratings = 3 + np.sin(users) * np.cos(items)
    >>> model = rf.Gossip("completion", agents=3, rank=1).fit(users, items, ratings)
    >>> len(model.agents_)
    3
    >>> model.predict([0, 1], [2, 3]).shape
    (2,)
    """

    estimator_: Any
    agents_: list[Any]

    def fit(
        self,
        users: Any,
        items: Any = None,
        ratings: Any = None,
        *,
        tasks: Any = None,
        edges: Any = None,
        columns: tuple[str, str, str] = _COLUMNS,
    ) -> Gossip:
        """Learn from ratings, or from rows of tasks.

        Parameters
        ----------
        users, items, ratings, columns
            For "completion", as in `Completion.fit`.
        tasks : array-like of shape (n_samples,)
            For "multitask", the task of each row; the first two arguments are then X
            and y of `Multitask.fit`.
        edges : array-like of shape (m, 2), optional
            A graph of your own: numbers of two agents, from 0.

        Returns
        -------
        Gossip
            The fitted estimator.
        """
        return self._fit(users, items, ratings, tasks, edges, columns)

    def _fit(
        self,
        users: Any,
        items: Any,
        ratings: Any,
        tasks: Any,
        edges: Any,
        columns: tuple[str, str, str] = _COLUMNS,
        shares: list[int] | None = None,
    ) -> Gossip:
        """The same, with the number of users or tasks of each agent where it is known."""
        given = self._given()
        inputs: dict[str, Any] = {} if shares is None else {"shares": shares}
        if edges is not None:
            inputs["pairs"] = row_numbers(edges, "edges", 2)
        ids: list[Any]
        if vars(self)["task"] == "multitask":
            if items is None or tasks is None:
                raise ValueError("agents of tasks learn from X, y and tasks")
            X = checked(self, users, reset=True, ensure_min_samples=2)
            names, distinct = coded(tasks, "tasks")
            same_lengths(X, names[1])
            columns_of = getattr(self, "feature_names_in_", None)
            inputs |= {
                "rows": data(X, "f64", columns_of),
                "tasks": names,
                "values": numbers(items, "y", X.shape[0]),
            }
            ids = [distinct]
        else:
            users, items, ratings = rated(users, items, ratings, columns)
            (of_users, all_users), (of_items, all_items) = (
                coded(users, "users"),
                coded(items, "items"),
            )
            values = numbers(ratings, "ratings")
            same_lengths(of_users[1], of_items[1], values)
            inputs["ratings"] = (of_users, of_items, values)
            ids = [all_users, all_items]

        def then() -> None:
            self.estimator_ = self._estimator(self.model_, ids)
            self.agents_ = [self._estimator(model, ids) for model in self._agents]

        self._run(inputs, given, then)
        return self

    def _estimator(self, model: _rankfold.Model, ids: list[Any]) -> Any:
        """A model as an estimator of its task, with the ids of the data."""
        out: Any = Completion() if len(ids) == 2 else Multitask()
        out._restore(model)
        out._name_ids(*ids)
        return out

    def predict(self, *args: Any, **options: Any) -> Any:
        """Predict with the model of all: see `Completion.predict` and `Multitask.predict`.

        Parameters
        ----------
        *args, **options
            Those of the task.

        Returns
        -------
        ndarray
            Ratings or targets.
        """
        self._check_fitted()
        return self.estimator_.predict(*args, **options)

    def score(self, *args: Any, **options: Any) -> float:
        """Score the model of all: see `Completion.score` and `Multitask.score`.

        Parameters
        ----------
        *args, **options
            Those of the task.

        Returns
        -------
        float
            Minus RMSE, or R².
        """
        self._check_fitted()
        return float(self.estimator_.score(*args, **options))

    def recommend(self, user: Any, n: int = 10, exclude: Any = None) -> Any:
        """The best items of a user, with the model of all.

        Parameters
        ----------
        user, n, exclude
            As in `Completion.recommend`.

        Returns
        -------
        ndarray
            Items, best first.
        """
        self._check_fitted()
        return self.estimator_.recommend(user, n, exclude)

    @property
    def consensus_(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The largest distance of two neighbors' subspaces at each point of the curve."""
        self._fitted_attribute()
        return np.asarray([p["metrics"].get("consensus", np.nan) for p in self.history_])
