"""Arrays, frames, lists and labels as the native module takes them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ._rankfold import Data

#: Names, the number of the name of each entry, and where rows start unless each has one.
LabelCodes = tuple[list[str], NDArray[np.int64], NDArray[np.int64] | None]
Coded = tuple[list[str], NDArray[np.int64]]
Relations = tuple[NDArray[np.int64], list[str], NDArray[np.float64]]

_VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
#: What scikit-learn calls the option that lets missing values pass.
MAY_BE_NAN = "ensure_all_finite" if _VERSION >= (1, 6) else "force_all_finite"
DTYPES = {"f32": np.float32, "f64": np.float64}


def checked(estimator: Any, X: Any, *, reset: bool, **options: Any) -> Any:
    """X as scikit-learn checks it: numbers, finite, with the features of ``fit``."""
    options = {
        "accept_sparse": "csr",
        "dtype": [np.float64, np.float32],
        "reset": reset,
    } | options
    if _VERSION >= (1, 6):
        from sklearn.utils.validation import validate_data

        return validate_data(estimator, X, **options)
    out, names = estimator._validate_data(X, **options), names_of(X)
    if reset and names is not None:
        estimator.feature_names_in_ = names
    return out


def names_of(X: Any) -> NDArray[Any] | None:
    """The names of the columns of a frame, where it has some."""
    from sklearn.utils.validation import _get_feature_names

    found: NDArray[Any] | None = _get_feature_names(X)
    if found is None and _VERSION < (1, 6) and not hasattr(X, "iloc"):
        # Frames that scikit-learn 1.5 does not know.
        columns = getattr(X, "column_names", None) or getattr(X, "columns", None)
        if columns is not None and all(isinstance(name, str) for name in columns):
            found = np.asarray(columns, dtype=object)
    return found


def grown(estimator: Any, X: Any) -> Any:
    """X for a model that may get new features: at least those of ``fit``."""
    known, names = estimator.n_features_in_, names_of(X)
    before = getattr(estimator, "feature_names_in_", None)
    out = check_array(
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        estimator=estimator,
        input_name="X",
    )
    width = out.shape[1]
    if before is not None and names is not None:
        missing = [name for name in before if name not in set(names)]
        if missing:
            raise ValueError(
                "The feature names should match those that were passed during fit.\n"
                f"Feature names seen at fit time, yet now missing:\n- {missing[0]}\n"
            )
    elif width < known:
        raise ValueError(
            f"X has {width} features, but {type(estimator).__name__} is expecting "
            f"{known} features as input."
        )
    elif before is not None and width > known:
        raise ValueError(
            f"X has {width} features without names, but {type(estimator).__name__} was "
            f"fitted with {known} feature names: give the new features names in a frame."
        )
    elif before is not None:
        warnings.warn(
            f"X does not have valid feature names, but {type(estimator).__name__} was "
            "fitted with feature names",
            stacklevel=4,
        )
    elif names is not None:
        warnings.warn(
            f"X has feature names, but {type(estimator).__name__} was fitted without "
            "feature names",
            stacklevel=4,
        )
    return out


def data(
    X: Any,
    precision: str,
    names: Sequence[str] | None = None,
    labels: LabelCodes | None = None,
) -> Data:
    """Rows for the library, without a copy where X has this precision and C order."""
    dtype = DTYPES[precision]
    columns = None if names is None else [str(name) for name in names]
    with np.errstate(over="ignore"):
        if sp.issparse(X):
            X = X.tocsr()
            values = np.ascontiguousarray(X.data, dtype=dtype)
            indptr, indices = X.indptr, X.indices
            if values.dtype != X.data.dtype and not np.all(np.isfinite(values)):
                raise ValueError(f"Input X contains a value too large for dtype('{dtype.__name__}').")
            return Data.csr(indptr, indices, values, X.shape[1], columns, labels)
        array = np.asarray(X)
        values = np.ascontiguousarray(array, dtype=dtype)
    if values.dtype != array.dtype and not np.all(np.isfinite(values)):
        raise ValueError(f"Input X contains a value too large for dtype('{dtype.__name__}').")
    return Data.dense(values, columns, labels)


def name_of(value: Any) -> str:
    """The name of a label, user, item or task in a model file."""
    if isinstance(value, (bytes, np.bytes_)):
        return value.decode()
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def coded(values: Any, what: str) -> tuple[Coded, NDArray[Any]]:
    """Ids as names and numbers, and the distinct ids themselves."""
    array = column(values, what)
    if array.dtype.kind in "fc" and not np.all(np.isfinite(array)):
        raise ValueError(f"Input {what} contains NaN or infinity.")
    try:
        distinct, codes = np.unique(array, return_inverse=True)
    except TypeError:
        raise ValueError(f"{what} must be all texts or all numbers.") from None
    if array.dtype == object and any(v is None or v != v for v in distinct):
        raise ValueError(f"Input {what} contains None or NaN.")
    return ([name_of(v) for v in distinct], codes.astype(np.int64).ravel()), distinct


def column(values: Any, what: str) -> NDArray[Any]:
    """A list, an array, a series or a column as an array of one dimension."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    array = np.asarray(values)
    if array.ndim == 0:
        array = array.reshape(1)
    if array.ndim != 1:
        raise ValueError(f"{what} must have one dimension, found {array.ndim}.")
    return array


def numbers(values: Any, what: str, count: int | None = None) -> NDArray[np.float64]:
    """Finite numbers, as many as there should be."""
    array: NDArray[np.float64] = check_array(
        column(values, what), ensure_2d=False, dtype=np.float64, input_name=what, ensure_min_samples=0
    )
    array = np.ascontiguousarray(array)
    if count is not None and len(array) != count:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: [{count}, {len(array)}]"
        )
    return array


def row_numbers(values: Any, what: str, width: int) -> NDArray[np.int64]:
    """An array of row numbers, so many in each of its rows."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros((0, width), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{what} must have shape (m, {width}), found {array.shape}.")
    if array.dtype.kind not in "iu":
        whole = array.astype(np.float64, copy=False) if array.dtype.kind == "f" else None
        if whole is None or not np.all(whole == np.floor(whole)):
            raise ValueError(f"{what} must hold row numbers, found {array.dtype}.")
    return np.ascontiguousarray(array, dtype=np.int64)


def used_rows(X: Any, numbers: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64]]:
    """The rows that are named, and their new numbers, where these are few of many.

    The library checks the order of all entries that it reads, so a small batch out of
    many rows is read faster by itself.
    """
    used, codes = np.unique(numbers, return_inverse=True)
    if len(used) == 0 or 2 * len(used) > X.shape[0] or used[0] < 0 or used[-1] >= X.shape[0]:
        return X, numbers
    return X[used], codes.reshape(numbers.shape).astype(np.int64)


def at_least_one(value: Any, what: str) -> int:
    """A count of at least one."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{what} should be an int, found {type(value).__name__}.")
    if value < 1:
        raise ValueError(f"{what} should be at least 1, found {value}.")
    return int(value)


def classes(y: Any) -> tuple[LabelCodes, NDArray[Any]]:
    """One label a row: as names and numbers, and the distinct labels."""
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "fc" and not np.all(np.isfinite(y)):
        raise ValueError("Input y contains NaN or infinity.")
    check_classification_targets(y)
    distinct, codes = np.unique(y, return_inverse=True)
    return ([name_of(v) for v in distinct], codes.astype(np.int64).ravel(), None), distinct


def label_sets(Y: Any) -> tuple[LabelCodes, NDArray[Any], str]:
    """Any number of labels a row, the distinct labels, and how they were given."""
    if sp.issparse(Y) or (getattr(Y, "ndim", 1) == 2 and getattr(Y, "shape", (0, 0))[1] != 1):
        return indicator(Y)
    if isinstance(Y, (list, tuple)) and any(_is_set(row) for row in Y):
        if not all(_is_set(row) for row in Y):
            raise ValueError("Y must be all lists of labels, or no lists.")
        if len({len(row) for row in Y}) == 1 and len(Y[0]) > 1 and _is_binary(Y):
            return indicator(np.asarray(Y))
        return lists(Y)
    if getattr(Y, "dtype", None) == object and len(Y) and _is_set(Y[0]):
        return lists(list(Y))
    codes, distinct = classes(Y)
    return codes, distinct, "single"


def _is_set(row: Any) -> bool:
    return isinstance(row, (list, tuple, set, frozenset, np.ndarray))


def _is_binary(rows: Iterable[Any]) -> bool:
    return all(isinstance(v, (int, np.integer)) and v in (0, 1) for row in rows for v in row)


def indicator(Y: Any) -> tuple[LabelCodes, NDArray[Any], str]:
    """The labels of an indicator matrix: its columns."""
    if sp.issparse(Y):
        matrix = sp.csr_matrix(Y, copy=True)
        matrix.sum_duplicates()
    else:
        dense = check_array(Y, dtype=None, input_name="Y")
        if dense.dtype.kind not in "biuf":
            raise ValueError("an indicator matrix must hold numbers.")
        matrix = sp.csr_matrix(dense)
    matrix.eliminate_zeros()
    if not np.all(matrix.data == 1):
        raise ValueError("an indicator matrix must hold 0 and 1 only.")
    distinct = np.arange(matrix.shape[1])
    names = [str(label) for label in distinct]
    codes = matrix.indices.astype(np.int64)
    return (names, codes, matrix.indptr.astype(np.int64)), distinct, "indicator"


def lists(Y: Sequence[Iterable[Any]]) -> tuple[LabelCodes, NDArray[Any], str]:
    """The labels of lists of labels, in the order of the lists."""
    rows = [sorted(row) if isinstance(row, (set, frozenset)) else list(row) for row in Y]
    flat = [label for row in rows for label in row]
    if not flat:
        raise ValueError("no row has labels.")
    try:
        distinct = np.unique(np.asarray(flat))
    except TypeError:
        raise ValueError("labels must be all texts or all numbers.") from None
    codes = np.searchsorted(distinct, np.asarray(flat)).astype(np.int64)
    starts = np.cumsum([0] + [len(row) for row in rows], dtype=np.int64)
    return ([name_of(v) for v in distinct], codes, starts), distinct, "lists"


def relations(pairs: Any, same: Any) -> Relations:
    """Pairs of rows that are of one kind or not."""
    numbers = row_numbers(pairs, "pairs", 2)
    array = column(same, "same")
    if len(array) != len(numbers):
        raise ValueError(f"{len(numbers)} pairs, but {len(array)} values of same.")
    if array.dtype.kind not in "biuf" or not np.all(np.isin(array, (-1, 0, 1))):
        raise ValueError("same must be True or False for each pair (or 1 and -1).")
    kinds = ["same" if value > 0 else "different" for value in array.astype(np.int64)]
    return numbers, kinds, np.zeros(len(numbers))
