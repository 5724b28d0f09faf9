"""The estimators whose data are rows of features."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)

from sklearn.utils import check_array, column_or_1d

from . import _rankfold
from ._base import RowEstimator, like, same_length
from ._inputs import (
    LabelCodes,
    Relations,
    at_least_one,
    checked,
    classes,
    coded,
    data,
    label_sets,
    name_of,
    names_of,
    numbers,
    relations,
    row_numbers,
)
from ._options import MetricOptions, MultitaskOptions, PairsOptions, RankingOptions, SimilarityOptions


class _Needs:
    """Tags of scikit-learn: data may be sparse, and y is needed."""

    _needs_y = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.target_tags.required = self._needs_y
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _more_tags(self) -> dict[str, Any]:
        return {"requires_y": self._needs_y, "preserves_dtype": [np.float64, np.float32]}


def _need_y(estimator: Any, y: Any) -> None:
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the "
            "target y is None."
        )


def _one_of(**given: Any) -> None:
    """Refuses to choose between two kinds of examples."""
    found = [name for name, value in given.items() if value is not None]
    if len(found) > 1:
        raise ValueError(f"give {found[0]} or {found[1]}, not both.")


class _Projecting(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Needs, RowEstimator):
    """An estimator that projects rows into a learned space."""

    @property
    def components_(self) -> NDArray[np.float64]:
        """What each feature becomes in the learned space, of shape (rank, n_features)."""
        return self._fitted_attribute().components("left").T

    @property
    def _n_features_out(self) -> int:
        return self.rank_

    def transform(self, X: Any) -> NDArray[Any]:
        """Project rows into the learned space.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, rank)
            Coordinates, in the precision of X.
        """
        X, rows = self._data(X)
        return like(self.model_.transform(rows), X)

    def _kept_rows(self) -> _rankfold.Data:
        kept = getattr(self, "_fit_rows", None)
        if kept is None:
            raise ValueError("the model keeps no rows: give those to search with `among=`")
        return data(kept[0], self.model_.info()["precision"], kept[1])

    def kneighbors(
        self, X: Any = None, n_neighbors: int = 10, *, among: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Find the rows that are most alike.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), optional
            The queries. Without them each row of `among` is a query, and is left out
            of its own list.
        n_neighbors : int, default=10
            Neighbors of each query.
        among : {array-like, sparse matrix}, optional
            The rows to search; by default those of `fit`.

        Returns
        -------
        scores : ndarray of shape (n_queries, n_neighbors)
            Scores, the largest first; distances of a metric, the smallest first.
        rows : ndarray of shape (n_queries, n_neighbors)
            Row numbers in `among`.
        """
        model = self._check_fitted()
        n_neighbors = at_least_one(n_neighbors, "n_neighbors")
        side = "right" if model.info()["objects"] and X is not None else "left"
        pool = self._rows_of(among, side) if among is not None else self._kept_rows()
        there = pool.shape[0] - (X is None)
        if n_neighbors > there:
            raise ValueError(
                f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {n_neighbors}, "
                f"n_samples_fit = {there}"
            )
        if X is None:
            return model.neighbors(pool, None, n_neighbors, None, self._threads)
        return model.neighbors(self._data(X)[1], pool, n_neighbors, None, self._threads)

    def _rows_of(self, X: Any, side: str) -> _rankfold.Data:
        if side == "left":
            return self._data(X)[1]
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        return data(X, self.model_.info()["precision"], self.model_.names("right"))

    def _pairs(
        self, A: Any, B: Any, deviations: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        model = self._check_fitted()
        side = "right" if model.info()["objects"] else "left"
        left, right = self._data(A)[1], self._rows_of(B, side)
        if left.shape[0] != right.shape[0]:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"[{left.shape[0]}, {right.shape[0]}]"
            )
        return model.pair_scores(left, right, None, deviations)

    def _keep(self, X: Any, names: list[str] | None) -> None:
        self._fit_rows = (X, names)


class Similarity(_Projecting, SimilarityOptions):
    """Learn which rows are alike.

    Learns a low-rank matrix W that scores pairs of rows, score = leftᵀ W right, from
    triplets "the query is more like the positive than like the negative". Triplets are
    drawn from the labels of the rows, or given.

    Attributes
    ----------
    components_ : ndarray of shape (rank, n_features)
        What each feature becomes in the learned space.
    singular_values_ : ndarray of shape (rank,)
        The singular values of W, falling.
    history_ : list of dict
        The learning curve.
    n_iter_ : int
        Triplets that were learned.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import rankfold as rf
    >>> X, y = load_iris(return_X_y=True)
    >>> model = rf.Similarity(rank=2, steps=2000, standardize="global").fit(X, y)
    >>> model.transform(X).shape
    (150, 2)
    >>> scores, rows = model.kneighbors(X[:1], n_neighbors=3)
    >>> y[rows[0]].tolist()
    [0, 0, 0]
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        objects: Any = None,
        object_labels: Any = None,
        valid: tuple[Any, Any] | None = None,
    ) -> Similarity:
        """Learn from labels or from triplets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,), optional
            Classes: rows of one class are alike.
        triplets : array-like of shape (m, 3), optional
            Row numbers (query, positive, negative), instead of classes. With `objects`
            the last two are numbers of objects.
        objects : {array-like, sparse matrix}, optional
            Positives and negatives, where they are other things than rows.
        object_labels : array-like, optional
            Classes of the objects.
        valid : (X, y), optional
            Validation rows and their classes; the best model on them is kept.

        Returns
        -------
        Similarity
            The fitted estimator.
        """
        if triplets is None:
            _need_y(self, y)
        given, precision = self._given(), self._precision()
        X = self._new_rows(X, ensure_min_samples=2)
        codes = None if y is None else classes(y)[0]
        if codes is not None:
            same_length(X, codes)
        names = self._column_names()
        inputs: dict[str, Any] = {"rows": data(X, precision, names, codes)}
        if triplets is not None:
            inputs["triplets"] = row_numbers(triplets, "triplets", 3)
        if objects is not None:
            inputs["objects"] = _objects(objects, object_labels, precision)
        if valid is not None:
            inputs["valid"] = _validation(self, valid, precision, names)
        searched, of_searched = X, names
        if objects is not None:
            found = names_of(objects)
            searched = check_array(objects, accept_sparse="csr", dtype=[np.float64, np.float32])
            of_searched = None if found is None else [str(name) for name in found]
        self._run(inputs, given, lambda: self._keep(searched, of_searched))
        return self

    def fit_triplets(self, X: Any, triplets: Any) -> Similarity:
        """Learn from triplets of row numbers (query, positive, negative).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        triplets : array-like of shape (m, 3)
            Row numbers.

        Returns
        -------
        Similarity
            The fitted estimator.
        """
        return self.fit(X, triplets=triplets)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        objects: Any = None,
        step_size: float | None = None,
    ) -> Similarity:
        """Go on learning, one triplet at a time, as ``rankfold update`` does.

        Before `fit` it begins with random factors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; more columns than before are new features.
        y : array-like of shape (n_samples,), optional
            Classes to draw triplets from, one a row.
        triplets : array-like of shape (m, 3), optional
            Row numbers (query, positive, negative), instead of classes.
        objects : {array-like, sparse matrix}, optional
            Positives and negatives of a model that has objects.
        step_size : float, optional
            Step size from here on.

        Returns
        -------
        Similarity
            The estimator. If the input is refused, it is as it was.
        """
        if triplets is None:
            _need_y(self, y)
        _one_of(y=y, triplets=triplets)
        if objects is not None and "model_" not in vars(self):
            with self._or_unchanged():
                return self.fit(X, y, triplets=triplets, objects=objects)
        with self._going_on(X):
            model = self.model_
            others = None
            if objects is not None:
                others = _objects(objects, None, model.info()["precision"], model.names("right"))
            if triplets is None:
                rows = self._more_data(X, classes(y)[0])
                _rankfold.learn_classes(model, rows, step_size)
            else:
                listed = row_numbers(triplets, "triplets", 3)
                if others is None:
                    rows, listed = self._more_examples(X, listed)
                else:
                    rows = self._more_data(X)
                _rankfold.learn_triplets(model, rows, listed, others, step_size)
        self._grown()
        return self

    def online(self, X: Any) -> _rankfold.Learner:
        """Rows that are checked once, to learn triplets of them one at a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        Learner
            Its method ``learn(query, positive, negative)`` takes row numbers.
        """
        self._check_fitted()
        found = _rankfold.learner(self.model_, self._more_data(X))
        self._grown()
        return found

    def pair_score(self, A: Any, B: Any, return_std: bool = False) -> Any:
        """Score row i of A with row i of B.

        Parameters
        ----------
        A, B : {array-like, sparse matrix} of shape (m, n_features)
            The rows.
        return_std : bool, default=False
            Also return standard deviations, where the model knows how sure it is.

        Returns
        -------
        ndarray of shape (m,), or two of them
            Scores, and standard deviations if they are asked for.
        """
        scores, deviations = self._pairs(A, B, return_std)
        return (scores, deviations) if return_std else scores

    def score(self, X: Any, y: Any) -> float:
        """Mean average precision: each row looks for the rows of its class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their classes.

        Returns
        -------
        float
            The mean average precision, at most 1.
        """
        return float(self._evaluated(X, y)["metrics"]["map"])

    def _evaluated(self, X: Any, y: Any) -> dict[str, Any]:
        _need_y(self, y)
        X, _ = self._data(X)
        codes = classes(y)[0]
        same_length(X, codes)
        rows = data(X, self.model_.info()["precision"], self._named(), codes)
        return self.model_.evaluate(rows, None, 3, None, self._threads)


class Metric(_Projecting, MetricOptions):
    """Learn a distance between rows.

    Learns a low-rank matrix W for distances √((x − y)ᵀ W (x − y)): small between rows
    of one class, large between classes. Or distances that keep to what pairs say.

    Attributes
    ----------
    components_ : ndarray of shape (rank, n_features)
        L with W = Lᵀ L.
    singular_values_ : ndarray of shape (rank,)
        The singular values of W, falling.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> import rankfold as rf
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = rf.Metric(rank=2, standardize="global").fit(X, y)
    >>> metric.transform(X).shape
    (178, 2)
    >>> metric.score(X, y) > 0.9
    True
    """

    def fit(
        self, X: Any, y: Any = None, *, valid: tuple[Any, Any] | None = None
    ) -> Metric:
        """Learn from classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their classes.
        valid : (X, y), optional
            Validation rows and their classes.

        Returns
        -------
        Metric
            The fitted estimator.
        """
        _need_y(self, y)
        given, precision = self._given(), self._precision()
        X = self._new_rows(X, ensure_min_samples=2)
        codes = classes(y)[0]
        same_length(X, codes)
        names = self._column_names()
        inputs: dict[str, Any] = {"rows": data(X, precision, names, codes)}
        if valid is not None:
            inputs["valid"] = _validation(self, valid, precision, names)
        self._run(inputs, given, lambda: self._keep(X, names))
        return self

    def fit_pairs(self, X: Any, pairs: Any, same: Any) -> Metric:
        """Learn from pairs of rows that are of one kind or not.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        pairs : array-like of shape (m, 2)
            Row numbers.
        same : array-like of shape (m,)
            Whether the rows of a pair are of one kind (or 1 and -1).

        Returns
        -------
        Metric
            The fitted estimator.
        """
        return self._fit_known(X, relations(pairs, same))

    def _fit_known(self, X: Any, known: Relations, codes: LabelCodes | None = None) -> Metric:
        if len(known[0]) == 0:
            raise ValueError("Found array with 0 pairs while a minimum of 1 is required.")
        given, precision = self._given(), self._precision()
        X = self._new_rows(X, ensure_min_samples=2)
        if codes is not None:
            same_length(X, codes)
        names = self._column_names()
        inputs = {"rows": data(X, precision, names), "relations": known}
        self._run(inputs, given, lambda: self._keep(X, names))
        return self

    @classmethod
    def from_components(
        cls,
        components: Any,
        *,
        near: float | None = None,
        far: float | None = None,
        precision: Literal["f32", "f64"] = "f64",
    ) -> Metric:
        """A fitted estimator from the components of another program.

        Parameters
        ----------
        components : array-like of shape (rank, n_features)
            L with W = Lᵀ L.
        near, far : float, optional
            What `partial_fit` aims at: distances of rows of one kind, and of two kinds.
            It needs both.
        precision : {'f32', 'f64'}, default='f64'
            How the components are stored.

        Returns
        -------
        Metric
            A fitted estimator.

        Examples
        --------
        >>> import rankfold as rf
        >>> metric = rf.Metric.from_components([[2.0, 0.0], [0.0, 1.0]])
        >>> metric.pair_distance([[0.0, 0.0]], [[3.0, 8.0]]).tolist()
        [10.0]
        """
        out = cls(precision=precision)
        factor = check_array(components, dtype=np.float64, input_name="components").T
        if (near is None) != (far is None):
            raise ValueError("near and far belong together.")
        aims = None if near is None or far is None else (near * near, far * far)
        out._restore(_rankfold.Model.of_metric(factor, aims, out._precision()))
        return out

    def fit_triplets(self, X: Any, triplets: Any) -> Metric:
        """Learn from triplets: a query, a row of its kind, and one of another kind.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        triplets : array-like of shape (m, 3)
            Row numbers. Each triplet counts as two pairs.

        Returns
        -------
        Metric
            The fitted estimator.
        """
        return self.fit_pairs(X, *_as_pairs(triplets))

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        pairs: Any = None,
        same: Any = None,
        triplets: Any = None,
        step_size: float | None = None,
    ) -> Metric:
        """Go on learning, one pair at a time, as ``rankfold update`` does.

        Before `fit` the first pairs are fitted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; more columns than before are new features.
        y : array-like of shape (n_samples,), optional
            Classes: each row is paired with one of its class and one of another.
        pairs : array-like of shape (m, 2), optional
            Row numbers.
        same : array-like of shape (m,), optional
            Whether the rows of a pair are of one kind.
        triplets : array-like of shape (m, 3), optional
            Row numbers, instead of pairs.
        step_size : float, optional
            Step size from here on.

        Returns
        -------
        Metric
            The estimator. If the input is refused, it is as it was.
        """
        codes = None
        _one_of(y=y, pairs=pairs, triplets=triplets)
        if triplets is not None:
            pairs, same = _as_pairs(triplets)
        elif pairs is None:
            _need_y(self, y)
            codes = classes(y)[0]
            pairs, same = _neighboring(codes[1])
        known = relations(pairs, same)
        if "model_" not in vars(self):
            with self._or_unchanged():
                return self._fit_known(X, known, codes)
        if codes is None:
            rows, listed = self._more_examples(X, known[0])
        else:
            rows, listed = self._more_data(X, codes), known[0]
        _rankfold.learn_distances(self.model_, rows, (listed, *known[1:]), step_size)
        self._grown()
        return self

    def pair_distance(self, A: Any, B: Any) -> NDArray[np.float64]:
        """The distances of row i of A and row i of B.

        Parameters
        ----------
        A, B : {array-like, sparse matrix} of shape (m, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (m,)
            Distances.
        """
        return self._pairs(A, B, False)[0]

    def pair_score(self, A: Any, B: Any) -> NDArray[np.float64]:
        """Minus the distances of row i of A and row i of B: more is more alike.

        Parameters
        ----------
        A, B : {array-like, sparse matrix} of shape (m, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (m,)
            Scores.
        """
        return -self.pair_distance(A, B)

    def get_mahalanobis_matrix(self) -> NDArray[np.float64]:
        """W, so that a distance is √((x − y)ᵀ W (x − y)) of rows as they are given.

        A scaling of columns that the model keeps is part of W. With ``normalize="l2"`` W belongs
        to rows as the model sees them.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            A positive semi-definite matrix.
        """
        model = self._check_fitted()
        if self.normalize == "l2":
            components = self.components_
            return components.T @ components
        corners = np.eye(self.n_features_in_ + 1, self.n_features_in_, k=-1)
        found = model.transform(data(corners, model.info()["precision"], self._named()))
        across: NDArray[np.float64] = found[1:] - found[0]
        matrix: NDArray[np.float64] = across @ across.T
        return matrix

    def score(self, X: Any, y: Any) -> float:
        """How often the three nearest other rows vote for the class of a row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their classes.

        Returns
        -------
        float
            The share of rows, at most 1.
        """
        _need_y(self, y)
        X, _ = self._data(X)
        codes = classes(y)[0]
        same_length(X, codes)
        rows = data(X, self.model_.info()["precision"], self._named(), codes)
        found = self.model_.evaluate(rows, None, min(3, X.shape[0] - 1), None, self._threads)
        return 1.0 - float(found["metrics"]["knn_error"])


def _as_pairs(triplets: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    listed = row_numbers(triplets, "triplets", 3)
    pairs = listed[:, [0, 1, 0, 2]].reshape(-1, 2)
    return pairs, np.tile([True, False], len(listed))


def _neighboring(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Pairs of rows for a stream: of each class in its order, and across classes."""
    order = np.argsort(codes, kind="stable")
    alike = np.stack([order[:-1], order[1:]], axis=1)
    alike = alike[codes[alike[:, 0]] == codes[alike[:, 1]]]
    half = len(codes) // 2
    apart = np.stack([order, np.roll(order, -half)], axis=1)
    apart = apart[codes[apart[:, 0]] != codes[apart[:, 1]]]
    pairs = np.concatenate([alike, apart]).astype(np.int64)
    same = codes[pairs[:, 0]] == codes[pairs[:, 1]]
    # By row, so that pairs of both kinds follow each other.
    turn = np.argsort(pairs[:, 0], kind="stable")
    return pairs[turn], same[turn]


def _objects(
    objects: Any, labels: Any, precision: str, names: list[str] | None = None
) -> _rankfold.Data:
    found = names_of(objects)
    if found is not None:
        names = [str(name) for name in found]
    array = check_array(objects, accept_sparse="csr", dtype=[np.float64, np.float32])
    codes = None if labels is None else classes(labels)[0]
    if codes is not None:
        same_length(array, codes)
    return data(array, precision, names, codes)


def _validation(
    estimator: Any, valid: tuple[Any, Any], precision: str, names: list[str] | None
) -> _rankfold.Data:
    X, y = valid
    X = checked(estimator, X, reset=False)
    codes = classes(y)[0]
    same_length(X, codes)
    return data(X, precision, names, codes)


class _Ranks:
    """Ranks labels when it is called."""

    _ranking: Any

    def __call__(self, X: Any, n: int = 10, *, return_scores: bool = False) -> Any:
        """The best labels of each row."""
        return self._ranking._ranked(X, n, return_scores=return_scores)


class _RankNumber(_Ranks, int):
    """The rank of a ranking as a number."""

    def __reduce__(self) -> Any:
        return int, (int(self),)


class _RankText(_Ranks, str):
    """The rank of a ranking as a text, such as "auto"."""

    def __reduce__(self) -> Any:
        return str, (str(self),)


class _RankOrMethod:
    """The parameter and the method `rank` of a ranking share their name."""

    def __get__(self, ranking: Any, owner: Any = None) -> Any:
        if ranking is None:
            return owner._ranked
        value = vars(ranking)["rank"]
        out: Any
        if isinstance(value, (int, np.integer)):
            out = _RankNumber(value)
        elif isinstance(value, str):
            out = _RankText(value)
        else:
            return ranking._ranked
        out._ranking = ranking
        return out

    def __set__(self, ranking: Any, value: Any) -> None:
        ranking.__dict__["rank"] = value


class Ranking(_Needs, RowEstimator, RankingOptions):
    """Learn to rank labels.

    Learns a low-rank matrix W and a bias a label, score = rowᵀ W label + bias, from rows
    that carry any number of labels each: labels of a row should score above all others.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels, in the order of the columns of `decision_function`.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> import rankfold as rf
    >>> X, Y = make_multilabel_classification(300, n_classes=5, random_state=0)
    >>> model = rf.Ranking(rank=5).fit(X, Y)
    >>> model.decision_function(X).shape
    (300, 5)
    >>> model.rank(X[:2], n=3).shape
    (2, 3)
    """

    classes_: NDArray[Any]
    rank: Any = _RankOrMethod()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the estimator.

        Parameters
        ----------
        deep : bool, default=True
            No parameter is an estimator, so this changes nothing.

        Returns
        -------
        dict
            Parameters by name.
        """
        params: dict[str, Any] = super().get_params(deep)
        return params | {"rank": vars(self)["rank"]}

    def fit(self, X: Any, y: Any = None, *, valid: tuple[Any, Any] | None = None) -> Ranking:
        """Learn from rows with labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like, sparse matrix or list of lists
            Labels: an indicator matrix, a list of labels for each row, or one label for
            each row.
        valid : (X, y), optional
            Validation rows and their labels; the best model on them is kept.

        Returns
        -------
        Ranking
            The fitted estimator.
        """
        _need_y(self, y)
        given, precision = self._given(), self._precision()
        X = self._new_rows(X, ensure_min_samples=2)
        codes, distinct, kind = label_sets(y)
        same_length(X, codes)
        names = self._column_names()
        inputs: dict[str, Any] = {"rows": data(X, precision, names, codes)}
        if valid is not None:
            others, labels = checked(self, valid[0], reset=False), label_sets(valid[1])[0]
            same_length(others, labels)
            inputs["valid"] = data(others, precision, names, labels)

        def then() -> None:
            self.classes_, self._kind = distinct, kind
            self._usual = _usual(codes, X.shape[0])

        self._run(inputs, given, then)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, *, step_size: float | None = None
    ) -> Ranking:
        """Go on learning, one row at a time, as ``rankfold update`` does.

        Before `fit` it begins with random factors. The rank is then at most the number
        of labels that are known.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; more columns than before are new features.
        y : array-like, sparse matrix or list of lists
            Their labels; new ones are welcome.
        classes : array-like, optional
            All labels, before `fit`, as in other estimators of scikit-learn.
        step_size : float, optional
            Step size from here on.

        Returns
        -------
        Ranking
            The estimator. If the input is refused, it is as it was.
        """
        _need_y(self, y)
        codes, distinct, kind = label_sets(y)
        known = distinct if classes is None else np.unique(np.asarray(classes))
        first = [codes[0][code] for code in codes[1]] + [name_of(label) for label in known]
        with self._going_on(X, list(dict.fromkeys(first))) as begun:
            if begun:
                self.classes_, self._kind = known, kind
                self._usual = _usual(codes, len(codes[1] if codes[2] is None else codes[2]))
            if kind != self._kind and "indicator" in (kind, self._kind):
                raise ValueError(f"labels were given as {self._kind} in fit, found {kind}.")
            rows = self._more_data(X, codes)
            _rankfold.learn_labels(self.model_, rows, codes, step_size)
        self.classes_ = np.union1d(self.classes_, distinct)
        self._grown()
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Score all labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Scores, a column for each of `classes_`.
        """
        _, rows = self._data(X)
        scores = self.model_.label_scores(rows)
        known = {name: i for i, name in enumerate(self.model_.names("right") or [])}
        unknown = scores.shape[1] - 1
        columns = [known.get(name_of(label), unknown) for label in self.classes_]
        return scores[:, columns]

    def _ranked(self, X: Any, n: int = 10, *, return_scores: bool = False) -> Any:
        """The best labels of each row, best first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        n : int, default=10
            Labels of each row, at most all.
        return_scores : bool, default=False
            Also return their scores.

        Returns
        -------
        ndarray of shape (n_samples, n), or two of them
            Labels, and scores if they are asked for.
        """
        n, scores = at_least_one(n, "n"), self.decision_function(X)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        labels = self.classes_[order]
        if return_scores:
            return labels, np.take_along_axis(scores, order, axis=1)
        return labels

    def predict(self, X: Any) -> Any:
        """Predict labels, in the form in which `fit` got them.

        One label a row is the best one. Of several labels a row gets as many as a
        training row has on average, because a ranking has no threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray or list of lists
            Labels, an indicator matrix, or lists of labels.
        """
        self._check_fitted()
        if self._kind == "single":
            return self._ranked(X, 1)[:, 0]
        best = self._ranked(X, self._usual)
        if self._kind == "lists":
            return [list(row) for row in best]
        out = np.zeros((len(best), len(self.classes_)), dtype=np.int64)
        np.put_along_axis(out, best, 1, axis=1)
        return out

    def score(self, X: Any, y: Any) -> float:
        """Mean average precision of the ranked labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like, sparse matrix or list of lists
            Their labels.

        Returns
        -------
        float
            The mean average precision, at most 1.
        """
        _need_y(self, y)
        X, _ = self._data(X)
        codes = label_sets(y)[0]
        same_length(X, codes)
        rows = data(X, self.model_.info()["precision"], self._named(), codes)
        found = self.model_.evaluate(rows, None, 3, None, self._threads)
        return float(found["metrics"]["map"])

    def _restore(self, model: _rankfold.Model) -> None:
        super()._restore(model)
        self.classes_ = np.asarray(model.names("right"), dtype=object)
        self._kind, self._usual = "lists", 1


def _usual(codes: LabelCodes, rows: int) -> int:
    return max(1, round(len(codes[1]) / max(1, rows)))


class Multitask(RegressorMixin, _Needs, RowEstimator, MultitaskOptions):
    """Learn many regressions that share a subspace of their features.

    Each row belongs to a task (a school, a patient, a shop) and has a number to learn.
    Tasks with few rows borrow from the others, and a new task needs only a few.

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
        The tasks.

    Examples
    --------
    >>> import numpy as np
    >>> import rankfold as rf
    >>> random = np.random.default_rng(0)
    >>> X, schools = random.normal(size=(200, 5)), random.integers(0, 4, 200)
    >>> y = X @ [1, 2, 0, 0, -1] + schools
    >>> model = rf.Multitask(rank=1).fit(X, y, tasks=schools)
    >>> model.predict(X, tasks=schools).shape
    (200,)
    """

    tasks_: NDArray[Any]

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
        given = self._given()
        X = self._new_rows(X, ensure_min_samples=2)
        targets = _targets(y, X.shape[0])
        names, distinct = self._tasks(tasks, X.shape[0])
        rows = data(X, "f64", self._column_names())
        inputs = {"rows": rows, "tasks": names, "values": targets}
        self._run(inputs, given, lambda: self._name_ids(distinct))
        return self

    def partial_fit(self, X: Any, y: Any = None, *, tasks: Any = None) -> Multitask:
        """Go on with more rows, of known tasks and of new ones.

        The subspace stays as it is; the weights of the tasks follow their rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their targets.
        tasks : array-like of shape (n_samples,), optional
            The task of each row.

        Returns
        -------
        Multitask
            The estimator. If the input is refused, it is as it was.
        """
        _need_y(self, y)
        if "model_" not in vars(self):
            with self._or_unchanged():
                return self.fit(X, y, tasks=tasks)
        X, rows = self._data(X)
        targets = _targets(y, X.shape[0])
        names, distinct = self._tasks(tasks, X.shape[0])
        _rankfold.learn_tasks(self.model_, rows, names, targets)
        known = {name_of(task) for task in self.tasks_}
        new = [task for task in distinct if name_of(task) not in known]
        if new:
            self.tasks_ = np.concatenate([self.tasks_, new])
        self._counted()
        return self

    def predict(self, X: Any, *, tasks: Any = None) -> NDArray[np.float64]:
        """Predict the targets of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        tasks : array-like of shape (n_samples,), optional
            The task of each row. For a task that is not known, what tasks have in
            common is predicted.

        Returns
        -------
        ndarray of shape (n_samples,)
            Targets.
        """
        X, rows = self._data(X)
        return self.model_.targets(rows, self._tasks(tasks, X.shape[0])[0])

    def score(self, X: Any, y: Any, *, tasks: Any = None) -> float:
        """The coefficient of determination, R².

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their targets.
        tasks : array-like of shape (n_samples,), optional
            The task of each row.

        Returns
        -------
        float
            R², at most 1.
        """
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, tasks=tasks)))

    def _tasks(self, tasks: Any, rows: int) -> tuple[Any, NDArray[Any]]:
        if tasks is None:
            tasks = np.zeros(rows, dtype=np.int64)
        names, distinct = coded(tasks, "tasks")
        if len(names[1]) != rows:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: [{rows}, {len(names[1])}]"
            )
        return names, distinct

    def _restore(self, model: _rankfold.Model) -> None:
        super()._restore(model)
        self.tasks_ = np.asarray(model.names("right"), dtype=object)

    def _name_ids(self, tasks: NDArray[Any]) -> None:
        known = {name_of(task): task for task in tasks}
        self.tasks_ = np.asarray([known[name] for name in self.model_.names("right") or []])


def _targets(y: Any, rows: int) -> NDArray[np.float64]:
    return numbers(column_or_1d(y, warn=True), "y", rows)


class Pairs(RowEstimator, PairsOptions):
    """Learn the values of pairs.

    Learns a low-rank matrix W, value = leftᵀ W right, from pairs with given values and
    squared loss. There is no constant term.

    Examples
    --------
    >>> import numpy as np
    >>> import rankfold as rf
    >>> random = np.random.default_rng(0)
    >>> left, right = random.normal(size=(40, 5)), random.normal(size=(30, 4))
    >>> pairs = random.integers(0, 30, size=(500, 2))
    >>> values = np.sum(left[pairs[:, 0], :2] * right[pairs[:, 1], :2], axis=1)
    >>> model = rf.Pairs(rank=2).fit(left, right, pairs, values)
    >>> model.predict(left, right, pairs).shape
    (500,)
    """

    def fit(self, left: Any, right: Any, pairs: Any, values: Any) -> Pairs:
        """Learn from pairs with values.

        Parameters
        ----------
        left : {array-like, sparse matrix} of shape (n_left, n_features)
            Rows.
        right : {array-like, sparse matrix} of shape (n_right, m_features) or None
            Objects; None for pairs of rows of `left`.
        pairs : array-like of shape (m, 2)
            Row numbers of `left` and of `right`.
        values : array-like of shape (m,)
            The values.

        Returns
        -------
        Pairs
            The fitted estimator.
        """
        given, precision = self._given(), self._precision()
        X = self._new_rows(left)
        inputs: dict[str, Any] = {"rows": data(X, precision, self._column_names())}
        if right is not None:
            inputs["objects"] = _objects(right, None, precision)
        inputs["pairs"] = row_numbers(pairs, "pairs", 2)
        inputs["values"] = numbers(values, "values", len(inputs["pairs"]))
        self._run(inputs, given)
        return self

    def partial_fit(
        self, left: Any, right: Any, pairs: Any, values: Any, *, step_size: float | None = None
    ) -> Pairs:
        """Go on learning, one pair at a time, as ``rankfold update`` does.

        Parameters
        ----------
        left, right, pairs, values
            As in `fit`; more columns than before are new features.
        step_size : float, optional
            Step size from here on.

        Returns
        -------
        Pairs
            The estimator. If the input is refused, it is as it was.
        """
        listed = row_numbers(pairs, "pairs", 2)
        targets = numbers(values, "values", len(listed))
        if "model_" not in vars(self):
            with self._or_unchanged():
                return self.fit(left, right, pairs, values)
        model = self.model_
        others = None
        if right is not None:
            rows = self._more_data(left)
            others = _objects(right, None, model.info()["precision"], model.names("right"))
        else:
            rows, listed = self._more_examples(left, listed)
        _rankfold.learn_values(model, rows, listed, targets, others, step_size)
        self._grown()
        return self

    def predict(self, left: Any, right: Any, pairs: Any = None) -> NDArray[np.float64]:
        """Predict the values of pairs.

        Parameters
        ----------
        left, right
            As in `fit`.
        pairs : array-like of shape (m, 2), optional
            Row numbers; without them row i of `left` is paired with row i of `right`.

        Returns
        -------
        ndarray of shape (m,)
            Values.
        """
        X, rows = self._data(left)
        model = self.model_
        others = X if right is None else right
        others = _objects(others, None, model.info()["precision"], model.names("right"))
        if pairs is not None:
            listed = row_numbers(pairs, "pairs", 2)
            return model.scores_at(rows, others, listed)
        return model.pair_scores(rows, others, None, False)[0]

    def score(self, left: Any, right: Any, pairs: Any, values: Any) -> float:
        """Minus the root of the mean squared error.

        Parameters
        ----------
        left, right, pairs, values
            As in `fit`.

        Returns
        -------
        float
            At most 0.
        """
        found = self.predict(left, right, pairs)
        return -float(np.sqrt(np.mean((found - numbers(values, "values", len(found))) ** 2)))

