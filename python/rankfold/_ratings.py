"""Ratings of items by users."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from . import _rankfold
from ._base import Estimator
from ._inputs import Coded, at_least_one, coded, column, name_of, numbers
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


class UsersAndItems(Estimator):
    """Users and items by their names, and items by their factors."""

    users_: NDArray[Any]
    items_: NDArray[Any]
    _places: dict[str, dict[str, int]]

    @property
    def item_factors_(self) -> NDArray[np.float64]:
        """Factors of the items, in the order of `items_`."""
        raise NotImplementedError

    def _numbers(self, what: str) -> dict[str, int]:
        """The number of each user or item by its name; made when it is first needed."""
        if what not in self._places:
            ids = self.users_ if what == "user" else self.items_
            self._places[what] = {name_of(value): i for i, value in enumerate(ids)}
        return self._places[what]

    def _number(self, what: str, wanted: Any) -> int:
        found = self._numbers(what).get(name_of(wanted))
        if found is None:
            raise ValueError(f"the model knows no {what} {wanted!r}")
        return found

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
        factors = self.item_factors_
        n, number = at_least_one(n, "n"), self._number("item", item)
        lengths = np.linalg.norm(factors, axis=1)
        factors = factors / np.where(lengths > 0, lengths, 1)[:, None]
        scores = factors @ factors[number]
        scores[number] = -np.inf
        best = np.argsort(-scores, kind="stable")[: min(n, len(scores) - 1)]
        return (self.items_[best], scores[best]) if return_scores else self.items_[best]


class Completion(UsersAndItems, CompletionOptions):
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
        self._run(inputs, given, lambda: self._name_ids(all_users, all_items))
        return self

    @classmethod
    def from_factors(
        cls,
        users: Any,
        items: Any,
        user_factors: Any,
        item_factors: Any,
        *,
        mean: float = 0.0,
        user_bias: Any = None,
        item_bias: Any = None,
        clip: tuple[float, float] | None = None,
        precision: Literal["f32", "f64"] = "f32",
    ) -> Completion:
        """A fitted estimator from the factors of another program.

        A rating is mean + bias of the user + bias of the item + the product of their
        factors. `partial_fit` folds new ratings in as if every user had rated every item.

        Parameters
        ----------
        users, items : array-like of shape (n_users,), (n_items,)
            The ids, in the order of the factors.
        user_factors, item_factors : array-like of shape (n_users, rank), (n_items, rank)
            The factors.
        mean : float, default=0.0
            What all ratings have in common.
        user_bias, item_bias : array-like of shape (n_users,), (n_items,), optional
            Biases; one side alone has zeros on the other.
        clip : (low, high), optional
            The range of predictions; without it they are not clipped.
        precision : {'f32', 'f64'}, default='f32'
            How factors are stored.

        Returns
        -------
        Completion
            A fitted estimator.

        Examples
        --------
        >>> import rankfold as rf
        >>> model = rf.Completion.from_factors(["ann", "bob"], ["alien"], [[1.0], [-1.0]], [[2.0]])
        >>> model.predict(["bob"], ["alien"]).round(3).tolist()
        [-2.0]
        """
        out = cls(precision=precision, clip="none" if clip is None else clip)
        ids, names = [], []
        for values, what in ((users, "users"), (items, "items")):
            coded(values, what)
            ids.append(column(values, what))
            names.append([name_of(value) for value in ids[-1]])
            if len(set(names[-1])) < len(names[-1]):
                raise ValueError(f"{what} must differ from each other.")
        tall = [
            check_array(factors, dtype=np.float64, input_name=what)
            for factors, what in ((user_factors, "user_factors"), (item_factors, "item_factors"))
        ]
        if tall[0].shape[1] != tall[1].shape[1]:
            raise ValueError(f"factors of rank {tall[0].shape[1]} and of rank {tall[1].shape[1]}.")
        bias = None
        if user_bias is not None or item_bias is not None:
            of_users = np.zeros(len(ids[0])) if user_bias is None else user_bias
            of_items = np.zeros(len(ids[1])) if item_bias is None else item_bias
            bias = (
                numbers(of_users, "user_bias", len(ids[0])),
                numbers(of_items, "item_bias", len(ids[1])),
            )
        same_lengths(ids[0], tall[0])
        same_lengths(ids[1], tall[1])
        model = _rankfold.Model.of_ratings(
            names[0], names[1], (tall[0], tall[1]), float(mean), bias, clip, out._precision()
        )
        out._restore(model)
        out.users_, out.items_ = ids
        return out

    def _name_ids(self, users: NDArray[Any], items: NDArray[Any]) -> None:
        self.users_ = _by_name(users, self.model_.names("left"))
        self.items_ = _by_name(items, self.model_.names("right"))
        self._places = {}

    def _more_ids(self, what: str, before: NDArray[Any], codes: Coded, new: NDArray[Any]) -> NDArray[Any]:
        """The ids with new ones behind them, in the order in which they came."""
        known, names = self._numbers(what), codes[0]
        first = np.unique(codes[1], return_index=True)[1]
        added = [j for j in np.argsort(first) if names[j] not in known]
        if not added:
            return before
        known.update({names[j]: len(before) + i for i, j in enumerate(added)})
        return _joined(before, new[added])

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
            with self._or_unchanged():
                return self.fit(users, items, ratings)
        (of_users, all_users), (of_items, all_items) = coded(users, "users"), coded(items, "items")
        values = numbers(ratings, "ratings")
        same_lengths(of_users[1], of_items[1], values)
        try:
            _rankfold.learn_ratings(self.model_, of_users, of_items, values, step_size)
        except KeyboardInterrupt:
            self._name_ids(_joined(self.users_, all_users), _joined(self.items_, all_items))
            raise
        self.users_ = self._more_ids("user", self.users_, of_users, all_users)
        self.items_ = self._more_ids("item", self.items_, of_items, all_items)
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
        model, n = self._check_fitted(), at_least_one(n, "n")
        number = self._number("user", user)
        known = self._numbers("item")
        out = [] if exclude is None else [known.get(name_of(i)) for i in column(exclude, "exclude")]
        pairs = np.asarray([(number, i) for i in out if i is not None], dtype=np.int64)
        scores, items = model.recommend([number], n, pairs.reshape(-1, 2), self._threads)
        kept = items[0] >= 0
        best = self.items_[items[0][kept]]
        return (best, scores[0][kept]) if return_scores else best

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
        self._places = {}


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
