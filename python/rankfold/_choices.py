"""What to show to whom, from what users chose."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from . import _rankfold
from ._inputs import at_least_one, coded, column, data, name_of, names_of, numbers
from ._options import RecommendOptions
from ._ratings import UsersAndItems, _by_name, _joined, rated, same_lengths

_COLUMNS = ("user", "item")


def chosen(users: Any, items: Any, weights: Any, columns: tuple[str, ...]) -> tuple[Any, Any, Any]:
    """Users, items and weights from arrays, from a sparse matrix or from a frame."""
    if items is None and weights is None and not hasattr(users, "tocoo"):
        names = getattr(users, "column_names", None) or list(getattr(users, "columns", []))
        if names and len(columns) == 2:
            missing = [name for name in columns if name not in names]
            if missing:
                raise ValueError(f"no column is called {missing[0]}")
            users, items = (column(users[name], name) for name in columns)
            return users, items, np.ones(len(users))
    if items is not None and weights is None:
        return users, items, np.ones(len(column(users, "users")))
    return rated(users, items, weights, columns)  # type: ignore[arg-type]


def _described(rows: tuple[Any, Any], what: str) -> tuple[tuple[list[str], _rankfold.Data], NDArray[Any]]:
    """Ids with rows of features, and the ids themselves."""
    ids, X = column(rows[0], what), rows[1]
    names = names_of(X)
    array = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    if len(ids) != array.shape[0]:
        raise ValueError(f"{what} has {len(ids)} ids for {array.shape[0]} rows.")
    named = None if names is None else [str(name) for name in names]
    return ([name_of(i) for i in ids], data(array, "f32", named, None)), ids


class Recommend(UsersAndItems, RecommendOptions):
    """Learn what to show to whom, from clicks, plays or purchases.

    Every pair of a user and an item is one choice. The score of an item for a user is the
    sum of what their choices say about it, by a matrix W of items by items of low rank.

    Attributes
    ----------
    users_, items_ : ndarray
        The users and items, in the order of the factors.
    user_factors_, item_factors_ : ndarray of shape (n_users, rank), (n_items, rank)
        Factors whose products are the scores.

    Examples
    --------
    >>> import rankfold as rf
    >>> users = ["ann", "ann", "bob", "bob", "cat", "dan", "dan", "eve"]
    >>> items = ["tea", "jam", "tea", "jam", "tea", "oil", "salt", "oil"]
    >>> model = rf.Recommend(rank=1, regularization=1.0, learner="items").fit(users, items)
    >>> model.recommend("cat", n=1).tolist()
    ['jam']
    """

    def fit(
        self,
        users: Any,
        items: Any = None,
        weights: Any = None,
        *,
        columns: tuple[str, ...] = _COLUMNS,
        valid: tuple[Any, Any] | None = None,
        item_rows: tuple[Any, Any] | None = None,
        user_rows: tuple[Any, Any] | None = None,
    ) -> Recommend:
        """Learn from choices, in the order in which they were made.

        Parameters
        ----------
        users : array-like of shape (m,), sparse matrix or frame
            The user of each choice. A sparse matrix has users as rows, items as columns
            and weights as values. A frame has the columns named.
        items : array-like of shape (m,), optional
            The item of each choice.
        weights : array-like of shape (m,), optional
            How much each choice counts, above 0; by default 1. Those of repeated pairs
            are added.
        columns : tuple of two or three names
            The columns of a frame: users, items, and weights.
        valid : (users, items), optional
            What users chose beside that, to validate by.
        item_rows : (items, X), optional
            Features of items: items that nobody chose can then be shown.
        user_rows : (users, X), optional
            Features of users: users who chose nothing get lists of their own.

        Returns
        -------
        Recommend
            The fitted estimator.
        """
        given = self._given()
        inputs, all_users, all_items = self._inputs(users, items, weights, columns)
        if valid is not None:
            more, _, _ = self._inputs(valid[0], valid[1], None, columns)
            inputs["valid_choices"] = more["choices"]
        if item_rows is not None:
            inputs["item_rows"], more_items = _described(item_rows, "item_rows")
            all_items = _joined(all_items, more_items)
        if user_rows is not None:
            inputs["user_rows"], more_users = _described(user_rows, "user_rows")
            all_users = _joined(all_users, more_users)
        self._run(inputs, given, lambda: self._name_ids(all_users, all_items))
        return self

    @staticmethod
    def _inputs(
        users: Any, items: Any, weights: Any, columns: tuple[str, ...]
    ) -> tuple[dict[str, Any], NDArray[Any], NDArray[Any]]:
        users, items, weights = chosen(users, items, weights, columns)
        (of_users, all_users), (of_items, all_items) = coded(users, "users"), coded(items, "items")
        values = numbers(weights, "weights")
        same_lengths(of_users[1], of_items[1], values)
        return {"choices": (of_users, of_items, values)}, all_users, all_items

    def _name_ids(self, users: NDArray[Any], items: NDArray[Any]) -> None:
        self.users_ = _by_name(users, _rankfold.choosers(self.model_))
        self.items_ = _by_name(items, self.model_.names("right"))
        self._places = {}

    def partial_fit(
        self,
        users: Any,
        items: Any = None,
        weights: Any = None,
        *,
        columns: tuple[str, ...] = _COLUMNS,
    ) -> Recommend:
        """Go on with more choices, one at a time, as ``rankfold update`` does.

        Parameters
        ----------
        users, items, weights, columns
            As in `fit`; new users and items are welcome.

        Returns
        -------
        Recommend
            The estimator. If the input is refused, it is as it was.
        """
        if "model_" not in vars(self):
            with self._or_unchanged():
                return self.fit(users, items, weights, columns=columns)
        inputs, all_users, all_items = self._inputs(users, items, weights, columns)
        try:
            _rankfold.learn_choices(self.model_, *inputs["choices"])
        finally:
            self._name_ids(_joined(self.users_, all_users), _joined(self.items_, all_items))
        self._counted()
        return self

    def recommend(
        self, user: Any, n: int = 10, exclude: Any = None, *, seen: bool = False, return_scores: bool = False
    ) -> Any:
        """The items to show to a user, best first.

        Parameters
        ----------
        user : id
            The user.
        n : int, default=10
            Items at most.
        exclude : array-like, optional
            Items to leave out beside those that the user chose.
        seen : bool, default=False
            Whether to show what the user chose before, too.
        return_scores : bool, default=False
            Also return the scores.

        Returns
        -------
        ndarray of shape (n,), or two of them
            Items, and scores if they are asked for.
        """
        self._check_fitted()
        return self._listed(([self._number("user", user)], None), n, exclude, seen, return_scores)

    def recommend_for(
        self, items: Any, n: int = 10, exclude: Any = None, *, seen: bool = False, return_scores: bool = False
    ) -> Any:
        """The items to show to somebody who chose these, known or not.

        Parameters
        ----------
        items : array-like
            What was chosen; items that the model does not know are left out.
        n, exclude, seen, return_scores
            As in `recommend`.

        Returns
        -------
        ndarray of shape (n,), or two of them
            Items, and scores if they are asked for.
        """
        self._check_fitted()
        known = self._numbers("item")
        history = sorted({known[name_of(i)] for i in column(items, "items") if name_of(i) in known})
        return self._listed(([], history), n, exclude, seen, return_scores)

    def _listed(
        self,
        who: tuple[list[int], list[int] | None],
        n: int,
        exclude: Any,
        seen: bool,
        return_scores: bool,
    ) -> Any:
        known = self._numbers("item")
        out = [] if exclude is None else [known.get(name_of(i)) for i in column(exclude, "exclude")]
        pairs = np.asarray([(0, i) for i in out if i is not None], dtype=np.int64)
        scores, items = _rankfold.choice_lists(
            self.model_, who[0], who[1], at_least_one(n, "n"), pairs.reshape(-1, 2), not seen, self._threads
        )
        kept = items[0] >= 0
        best = self.items_[items[0][kept]]
        return (best, scores[0][kept]) if return_scores else best

    def score(self, users: Any, items: Any = None) -> float:
        """NDCG@10 of what users chose beside what the model has learned from.

        Parameters
        ----------
        users, items : array-like of shape (m,)
            Choices that are looked for in the lists of their users.

        Returns
        -------
        float
            From 0 to 1; the mean over users.
        """
        self._check_fitted()
        inputs, _, _ = self._inputs(users, items, None, _COLUMNS)
        return float(_rankfold.choice_ndcg(self.model_, *inputs["choices"][:2]))

    @property
    def user_factors_(self) -> NDArray[np.float64]:
        """Factors of the users, in the order of `users_`."""
        return _rankfold.choice_vectors(self._fitted_attribute(), "left", self._threads)

    @property
    def item_factors_(self) -> NDArray[np.float64]:
        """Factors of the items, in the order of `items_`."""
        return _rankfold.choice_vectors(self._fitted_attribute(), "right", self._threads)

    def _restore(self, model: _rankfold.Model) -> None:
        super()._restore(model)
        self.users_ = np.asarray(_rankfold.choosers(model), dtype=object)
        self.items_ = np.asarray(model.names("right"), dtype=object)
        self._places = {}
