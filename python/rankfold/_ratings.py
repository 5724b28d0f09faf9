"""Ratings of items by users."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from . import _rankfold
from ._base import Estimator
from ._inputs import coded, column, name_of, numbers
from ._options import CompletionOptions

_COLUMNS = ("user", "item", "rating")


def rated(users: Any, items: Any, ratings: Any, columns: tuple[str, str, str]) -> tuple[Any, Any, Any]:
    """Users, items and ratings from arrays, from a sparse matrix or from a frame."""
    if items is None and ratings is None:
        if sp.issparse(users):
            matrix = users.tocoo()
            return matrix.row, matrix.col, matrix.data
        names = getattr(users, "column_names", None) or list(getattr(users, "columns", []))
        missing = [name for name in columns if name not in names]
        if not names or missing:
            raise ValueError(
                "expected users, items and ratings, a sparse matrix, or a frame with the "
                f"columns {', '.join(columns)}" + (f": no {missing[0]}" if names else "")
            )
        return tuple(column(users[name], name) for name in columns)  # type: ignore[return-value]
    if items is None or ratings is None:
        raise ValueError("users, items and ratings belong together")
    return users, items, ratings


class Completion(Estimator, CompletionOptions):
    """Learn to predict ratings, or the missing entries of a matrix.

    Learns rating = mean + bias of the user + bias of the item + an entry of a low-rank
    matrix W. Users are rows of W and items are columns.

    Attributes
    ----------
    users_, items_ : ndarray
        The users and items, in the order of the factors.
    user_factors_, item_factors_ : ndarray of shape (n_users, rank), (n_items, rank)
        Factors whose products are the entries of W.

    Examples
    --------
    >>> import rankfold as rf
    >>> users = ["ann", "ann", "bob", "bob", "cat"] * 4
    >>> items = [1, 2, 1, 3, 2] * 4
    >>> ratings = [5.0, 3.0, 4.0, 1.0, 2.0] * 4
    >>> model = rf.Completion(rank=1, learner="als").fit(users, items, ratings)
    >>> model.predict(["ann", "bob"], [1, 3]).shape
    (2,)
    >>> len(model.recommend("cat", n=2))
    2
    """

    users_: NDArray[Any]
    items_: NDArray[Any]

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
        users : array-like of shape (m,), sparse matrix or frame
            The user of each rating. A sparse matrix has users as rows and items as
            columns. A frame has all three columns.
        items : array-like of shape (m,), optional
            The item of each rating.
        ratings : array-like of shape (m,), optional
            The ratings; of a repeated pair the last counts.
        columns : tuple of three names
            The columns of a frame.
        valid : (users, items, ratings), optional
            Validation ratings.

        Returns
        -------
        Completion
            The fitted estimator.
        """
        given = self._given()
        users, items, ratings = rated(users, items, ratings, columns)
        (of_users, all_users), (of_items, all_items) = coded(users, "users"), coded(items, "items")
        values = numbers(ratings, "ratings")
        same_lengths(of_users[1], of_items[1], values)
        inputs: dict[str, Any] = {"ratings": (of_users, of_items, values)}
        if valid is not None:
            (vu, _), (vi, _) = coded(valid[0], "users"), coded(valid[1], "items")
            inputs["valid_ratings"] = (vu, vi, numbers(valid[2], "ratings"))
        self._run(inputs, given)
        self._name_ids(all_users, all_items)
        return self

    def _name_ids(self, users: NDArray[Any], items: NDArray[Any]) -> None:
        self.users_ = _by_name(users, self.model_.names("left"))
        self.items_ = _by_name(items, self.model_.names("right"))

    def partial_fit(
        self,
        users: Any,
        items: Any = None,
        ratings: Any = None,
        *,
        columns: tuple[str, str, str] = _COLUMNS,
        step_size: float | None = None,
    ) -> Completion:
        """Go on with more ratings, one at a time, as ``rankfold update`` does.

        Parameters
        ----------
        users, items, ratings, columns
            As in `fit`; new users and items are welcome.
        step_size : float, optional
            Step size from here on.

        Returns
        -------
        Completion
            The estimator. If the input is refused, it is as it was.
        """
        users, items, ratings = rated(users, items, ratings, columns)
        if "model_" not in vars(self):
            return self.fit(users, items, ratings)
        (of_users, all_users), (of_items, all_items) = coded(users, "users"), coded(items, "items")
        values = numbers(ratings, "ratings")
        same_lengths(of_users[1], of_items[1], values)
        _rankfold.learn_ratings(self.model_, of_users, of_items, values, step_size)
        self._name_ids(_joined(self.users_, all_users), _joined(self.items_, all_items))
        self._counted()
        return self

    def predict(self, users: Any, items: Any, return_std: bool = False) -> Any:
        """Predict ratings.

        Parameters
        ----------
        users, items : array-like of shape (m,)
            Pairs of a user and an item. Of one that is not known, what is known of the
            other is predicted.
        return_std : bool, default=False
            Also return the standard deviation of what each user would say. Only `bayes`
            learns it; for other learners True is an error.

        Returns
        -------
        ndarray of shape (m,), or two of them
            Ratings, within the range of those of training, and standard deviations if
            they are asked for.
        """
        model = self._check_fitted()
        of_users, of_items = coded(users, "users")[0], coded(items, "items")[0]
        same_lengths(of_users[1], of_items[1], of_items[1])
        ratings, deviations = model.ratings(of_users, of_items, return_std)
        return (ratings, deviations) if return_std else ratings

    def recommend(
        self, user: Any, n: int = 10, exclude: Any = None, *, return_scores: bool = False
    ) -> Any:
        """The items with the best predicted ratings for a user, best first.

        Parameters
        ----------
        user : id
            The user.
        n : int, default=10
            Items at most.
        exclude : array-like, optional
            Items to leave out, such as those that the user has rated.
        return_scores : bool, default=False
            Also return the predicted ratings.

        Returns
        -------
        ndarray of shape (n,), or two of them
            Items, and ratings if they are asked for.
        """
        model = self._check_fitted()
        number = _number(self.users_, user, "user")
        known = {name_of(item): i for i, item in enumerate(self.items_)}
        out = [] if exclude is None else [known.get(name_of(i)) for i in column(exclude, "exclude")]
        pairs = np.asarray([(number, i) for i in out if i is not None], dtype=np.int64)
        scores, items = model.recommend([number], n, pairs.reshape(-1, 2), self._threads)
        kept = items[0] >= 0
        best = self.items_[items[0][kept]]
        return (best, scores[0][kept]) if return_scores else best

    def similar_items(self, item: Any, n: int = 10, *, return_scores: bool = False) -> Any:
        """The items whose factors point the same way, by their cosine.

        Parameters
        ----------
        item : id
            The item.
        n : int, default=10
            Items at most; the item itself is left out.
        return_scores : bool, default=False
            Also return the cosines.

        Returns
        -------
        ndarray of shape (n,), or two of them
            Items, and cosines if they are asked for.
        """
        self._check_fitted()
        number = _number(self.items_, item, "item")
        factors = self.item_factors_
        lengths = np.linalg.norm(factors, axis=1)
        factors = factors / np.where(lengths > 0, lengths, 1)[:, None]
        scores = factors @ factors[number]
        scores[number] = -np.inf
        best = np.argsort(-scores, kind="stable")[: min(n, len(scores) - 1)]
        return (self.items_[best], scores[best]) if return_scores else self.items_[best]

    def score(
        self, users: Any, items: Any = None, ratings: Any = None, *, columns: tuple[str, str, str] = _COLUMNS
    ) -> float:
        """Minus the root of the mean squared error.

        Parameters
        ----------
        users, items, ratings, columns
            As in `fit`.

        Returns
        -------
        float
            At most 0.
        """
        users, items, ratings = rated(users, items, ratings, columns)
        found = self.predict(users, items)
        return -float(np.sqrt(np.mean((found - numbers(ratings, "ratings", len(found))) ** 2)))

    @property
    def user_factors_(self) -> NDArray[np.float64]:
        """Factors of the users, in the order of `users_`."""
        return self._fitted_attribute().components("left")

    @property
    def item_factors_(self) -> NDArray[np.float64]:
        """Factors of the items, in the order of `items_`."""
        return self._fitted_attribute().components("right")

    def _restore(self, model: _rankfold.Model) -> None:
        super()._restore(model)
        self.users_ = np.asarray(model.names("left"), dtype=object)
        self.items_ = np.asarray(model.names("right"), dtype=object)


def same_lengths(*arrays: Any) -> None:
    """Refuses arrays of different lengths."""
    lengths = [array.shape[0] for array in arrays]
    if len(set(lengths)) > 1:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {lengths}"
        )


def _by_name(values: NDArray[Any], names: list[str] | None) -> NDArray[Any]:
    """The ids in the order of the model."""
    place = {name_of(value): i for i, value in reversed(list(enumerate(values)))}
    return values[[place[name] for name in names or []]]


def _joined(before: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    if before.dtype == object or new.dtype == object or before.dtype.kind != new.dtype.kind:
        return np.concatenate([before.astype(object), new.astype(object)])
    return np.concatenate([before, new])


def _number(ids: NDArray[Any], wanted: Any, what: str) -> int:
    found = np.flatnonzero([name_of(value) == name_of(wanted) for value in ids])
    if len(found) == 0:
        raise ValueError(f"the model knows no {what} {wanted!r}")
    return int(found[0])
