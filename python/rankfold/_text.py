"""Texts as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._inputs import at_least_one, classes
from ._rankfold import Vocabulary


class TextVectorizer(TransformerMixin, BaseEstimator):
    """Turn texts into sparse rows of tf-idf weights, as ``rankfold vectorize`` does.

    Parameters
    ----------
    features : int, optional
        Keep so many terms: those that tell most about the classes, or without classes
        the most frequent ones.
    min_df : int, default=2
        Leave out terms of fewer documents.
    tf : {'raw', 'log'}, default='log'
        Count a term tf times, or 1 + ln tf times.
    strip : str or sequence of {'headers', 'footers', 'quotes'}, default=()
        Parts of mail and news to leave out.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The terms and how to weigh them.

    Examples
    --------
    >>> import rankfold as rf
    >>> texts = ["red apple", "green apple", "red car", "fast car"]
    >>> rf.TextVectorizer(min_df=1).fit_transform(texts).shape
    (4, 5)
    """

    def __init__(
        self,
        *,
        features: int | None = None,
        min_df: int = 2,
        tf: str = "log",
        strip: str | Sequence[str] = (),
    ) -> None:
        self.features = features
        self.min_df = min_df
        self.tf = tf
        self.strip = strip

    def fit(self, X: Iterable[str], y: Any = None) -> TextVectorizer:
        """Learn the terms.

        Parameters
        ----------
        X : iterable of str
            The texts.
        y : array-like, optional
            Their classes.

        Returns
        -------
        TextVectorizer
            The fitted estimator.
        """
        texts = _texts(X)
        features = None if self.features is None else at_least_one(self.features, "features")
        min_df = at_least_one(self.min_df, "min_df")
        # As in the command, where parts are joined by commas.
        strip = self.strip.split(",") if isinstance(self.strip, str) else list(self.strip)
        labels = None
        if y is not None:
            names, codes, _ = classes(y)[0]
            if len(codes) != len(texts):
                raise ValueError(
                    "Found input variables with inconsistent numbers of samples: "
                    f"[{len(texts)}, {len(codes)}]"
                )
            labels = [names[code] for code in codes]
        self.vocabulary_ = Vocabulary.fit(
            texts, labels, features, min_df, self.tf, strip
        )
        return self

    def transform(self, X: Iterable[str]) -> Any:
        """Turn texts into rows of length 1.

        Parameters
        ----------
        X : iterable of str
            The texts.

        Returns
        -------
        csr_matrix of shape (n_samples, n_terms)
            The rows.
        """
        check_is_fitted(self, "vocabulary_")
        indptr, indices, values = self.vocabulary_.rows(_texts(X))
        shape = (len(indptr) - 1, len(self.vocabulary_.terms))
        return sp.csr_matrix((values, indices, indptr), shape=shape)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The terms.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
            The terms, in the order of columns.
        """
        check_is_fitted(self, "vocabulary_")
        return np.asarray(self.vocabulary_.terms, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def _more_tags(self) -> dict[str, Any]:
        return {"X_types": ["string"]}


def _texts(X: Iterable[str]) -> list[str]:
    if isinstance(X, str):
        raise ValueError("Iterable over raw text documents expected, string object received.")
    texts = list(X)
    wrong = [type(text).__name__ for text in texts if not isinstance(text, str)]
    if wrong:
        raise ValueError(f"expected texts, found {wrong[0]}.")
    return texts
