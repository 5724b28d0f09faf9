"""Kernels and maps of items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform
from sklearn.utils import check_array
from sklearn.utils.validation import check_non_negative

from . import _rankfold
from ._base import Estimator
from ._inputs import MAY_BE_NAN, checked, classes, data, relations
from ._options import KernelOptions, MapOptions


class Kernel(Estimator, KernelOptions):
    """Learn a kernel of items.

    Learns a low-rank matrix K of items by items, so that distances
    √(K_ii + K_jj − 2 K_ij) keep to what is known of them: items of one class come
    nearer, items of two classes move apart. It starts from a kernel of rows, or from a
    kernel matrix.

    Attributes
    ----------
    kernel_ : ndarray of shape (n_items, n_items)
        The learned kernel.
    embedding_ : ndarray of shape (n_items, rank)
        Its factor.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import rankfold as rf
    >>> X, y = load_iris(return_X_y=True)
    >>> model = rf.Kernel(rank=3, constraints=200).fit(X, y)
    >>> model.kernel_.shape
    (150, 150)
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        pairs: Any = None,
        same: Any = None,
        precomputed: bool | None = None,
    ) -> Kernel:
        """Learn from rows or from a kernel matrix.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features) or (n_items, n_items)
            Rows, or a kernel matrix.
        y : array-like of shape (n_items,), optional
            Classes of the items.
        pairs : array-like of shape (m, 2), optional
            Numbers of items, instead of classes.
        same : array-like of shape (m,), optional
            Whether the items of a pair are of one kind.
        precomputed : bool, optional
            Whether X is a kernel matrix; by default a square symmetric X is one.

        Returns
        -------
        Kernel
            The fitted estimator.
        """
        if y is None and pairs is None:
            raise ValueError(
                "This Kernel estimator requires y to be passed, but the target y is None: "
                "give classes, or pairs and same."
            )
        given, precision = self._given(), self._precision()
        X = checked(self, X, reset=True, ensure_min_samples=2)
        codes = None if y is None else classes(y)[0]
        if codes is not None and len(codes[1]) != X.shape[0]:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"[{X.shape[0]}, {len(codes[1])}]"
            )
        inputs: dict[str, Any] = {}
        if pairs is not None:
            inputs["relations"] = relations(pairs, same)
        if precomputed is None:
            precomputed = _is_kernel(X)
        if precomputed:
            inputs["matrix"] = np.ascontiguousarray(X, dtype=np.float64)
            if codes is not None:
                inputs["labels"] = codes
        else:
            inputs["rows"] = data(X, precision, None, codes)
        self._run(inputs, given)
        return self

    def fit_pairs(self, X: Any, pairs: Any, same: Any) -> Kernel:
        """Learn from pairs of items that are of one kind or not.

        Parameters
        ----------
        X, pairs, same
            As in `fit`.

        Returns
        -------
        Kernel
            The fitted estimator.
        """
        return self.fit(X, pairs=pairs, same=same)

    @property
    def embedding_(self) -> NDArray[np.float64]:
        """A factor G of the kernel, K = G Gᵀ."""
        return self._fitted_attribute().coordinates()

    @property
    def kernel_(self) -> NDArray[np.float64]:
        """The learned kernel."""
        factor = self.embedding_
        return factor @ factor.T

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        return {"requires_y": True}


def _is_kernel(X: Any) -> bool:
    if X.shape[0] != X.shape[1]:
        return False
    dense = X.toarray() if hasattr(X, "toarray") else X
    return bool(np.allclose(dense, dense.T, rtol=1e-10, atol=0))


class Map(Estimator, MapOptions):
    """Make a map of items from their dissimilarities (metric multidimensional scaling).

    Attributes
    ----------
    embedding_ : ndarray of shape (n_items, dimensions)
        The points. Their distances are as near as can be to the dissimilarities.

    Examples
    --------
    >>> import numpy as np
    >>> import rankfold as rf
    >>> D = np.array([[0, 3, 7], [3, 0, 4], [7, 4, 0]], dtype=float)
    >>> points = rf.Map(dimensions=1).fit_transform(D)
    >>> bool(abs(abs(points[0, 0] - points[2, 0]) - 7) < 1e-6)
    True
    """

    def fit(self, X: Any, y: Any = None) -> Map:
        """Make a map.

        Parameters
        ----------
        X : array-like of shape (n_items, n_items)
            Dissimilarities: a symmetric matrix with zeros on its diagonal; NaN is not
            known. With ``metric="euclidean"`` rows, whose distances are taken.
        y : ignored

        Returns
        -------
        Map
            The fitted estimator.
        """
        given = self._given()
        pairs, values, count = self._known(X, reset=True)
        inputs = {"items": [str(i) for i in range(count)], "pairs": pairs, "values": values}
        self._run(inputs, given)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Make a map, and return its points.

        Parameters
        ----------
        X : array-like of shape (n_items, n_items)
            Dissimilarities.
        y : ignored

        Returns
        -------
        ndarray of shape (n_items, dimensions)
            The points.
        """
        return self.fit(X).embedding_

    def partial_fit(self, X: Any, y: Any = None) -> Map:
        """Replace and add dissimilarities; items that nothing new is known of stay.

        Parameters
        ----------
        X : array-like of shape (n_items, n_items)
            Dissimilarities of the items of the map and of new ones behind them; NaN
            leaves what is known.
        y : ignored

        Returns
        -------
        Map
            The estimator. If the input is refused, it is as it was.
        """
        if "model_" not in vars(self):
            with self._or_unchanged():
                return self.fit(X)
        pairs, values, count = self._known(X, reset=False)
        known = self.model_.names("left") or []
        items = known + [str(i) for i in range(len(known), count)]
        _rankfold.learn_map(self.model_, items, pairs, values, self._threads)
        self.n_features_in_ = count
        return self

    def _known(
        self, X: Any, reset: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        finite = {MAY_BE_NAN: "allow-nan" if self.metric == "precomputed" else True}
        if reset:
            options = {"accept_sparse": False, "dtype": np.float64, "ensure_min_samples": 2}
            X = checked(self, X, reset=True, **options, **finite)
        else:
            X = check_array(X, dtype=np.float64, **finite)
            if X.shape[1] < self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but Map is expecting "
                    f"{self.n_features_in_} features as input."
                )
        if self.metric == "euclidean":
            X = squareform(pdist(X))
        elif self.metric != "precomputed":
            raise ValueError(f"`metric` must be 'precomputed' or 'euclidean', found {self.metric!r}")
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"X should be a square matrix of dissimilarities, found shape {X.shape}.")
        # What is known on one side of the diagonal is known on both.
        X = np.where(np.isnan(X), X.T, X)
        check_non_negative(X, "Map (input X)")
        if not np.allclose(X, X.T, rtol=1e-10, equal_nan=True):
            raise ValueError("X should be symmetric.")
        left, right = np.triu_indices(len(X), 1)
        values = X[left, right]
        there = ~np.isnan(values)
        pairs = np.stack([left[there], right[there]], axis=1).astype(np.int64)
        return pairs, np.ascontiguousarray(values[there]), len(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.allow_nan = self.metric == "precomputed"
        tags.input_tags.positive_only = self.metric == "precomputed"
        return tags

    def _more_tags(self) -> dict[str, Any]:
        given = self.metric == "precomputed"
        return {"pairwise": given, "allow_nan": given, "requires_positive_X": given}

    @property
    def embedding_(self) -> NDArray[np.float64]:
        """The points of the map."""
        return self._fitted_attribute().coordinates()

    def _restore(self, model: _rankfold.Model) -> None:
        super()._restore(model)
        self.dimensions = self.rank_
        self.n_features_in_ = len(model.names("left") or [])
