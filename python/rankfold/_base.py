"""What all estimators share: running the library, saving, loading, progress."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from . import _rankfold
from ._inputs import LabelCodes, checked, data, grown, names_of, used_rows
from ._options import TABLES, Options, documented, threads_of


class Progress:
    """A progress bar: that of tqdm where it is installed, else a line on stderr."""

    def __init__(self, name: str, verbose: int) -> None:
        self.name, self.verbose = name, verbose
        self.bar: Any = None
        self.shown = -1

    def __call__(self, event: dict[str, Any]) -> None:
        """Shows an event."""
        kind = event["event"]
        if kind == "progress":
            self.move(event["done"], event["total"])
        elif kind == "note":
            self.say(event["text"])
        elif kind == "measured" and self.verbose > 1:
            metrics = "".join(f", {k} {v:.4f}" for k, v in event.get("metrics", {}).items())
            self.say(f"step {event['steps']}: loss {event['loss']:.4g}{metrics}")

    def move(self, done: int, total: int) -> None:
        """Moves the bar."""
        if self.bar is None and self.shown < 0:
            try:
                from tqdm.auto import tqdm

                self.bar = tqdm(desc=self.name, total=total, leave=False)
            except ImportError:
                pass
        if self.bar is not None:
            self.bar.total = total
            self.bar.update(done - self.bar.n)
            return
        percent = 100 * done // max(total, 1)
        if percent > self.shown:
            self.shown = percent
            print(f"\r{self.name}: {percent} %", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Prints a line."""
        self.close()
        print(f"{self.name}: {text}", file=sys.stderr)

    def close(self) -> None:
        """Removes the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
        elif self.shown >= 0:
            print(file=sys.stderr)
        self.shown = -1


class Estimator(Options, BaseEstimator):
    """An estimator over a model of the library."""

    model_: _rankfold.Model
    n_features_in_: int
    history_: list[dict[str, Any]]
    report_: dict[str, Any]
    verbose: int
    callback: Any

    def __init_subclass__(cls, **options: Any) -> None:
        """Puts the parameters into the documentation, before the attributes."""
        super().__init_subclass__(**options)
        text = cls.__dict__.get("__doc__") or ""
        marker = "    Attributes\n" if "    Attributes\n" in text else "    Examples\n"
        if hasattr(cls, "_task"):
            lines = documented(cls._task).replace("\n", "\n    ")
            cls.__doc__ = text.replace(marker, f"    {lines}\n\n{marker}", 1)

    # ---- learning

    def _precision(self) -> str:
        asked = getattr(self, "precision", None)
        if asked is None:
            return _rankfold.precision(self._task, self._given())
        if asked not in ("f32", "f64"):
            raise ValueError(f"`precision` must be 'f32' or 'f64', found {asked!r}")
        return str(asked)

    def _run(
        self,
        inputs: dict[str, Any],
        given: list[tuple[str, str]],
        then: Callable[[], None] | None = None,
    ) -> None:
        """Learns a model, and keeps it as far as it came; `then` completes the estimator."""
        progress = Progress(type(self).__name__, self.verbose) if self.verbose else None

        def told(event: dict[str, Any]) -> object:
            if progress is not None:
                progress(event)
            return None if self.callback is None else self.callback(event)

        watched = progress is not None or self.callback is not None
        try:
            model, report, error, agents = _rankfold.fit(
                self._task, given, inputs, self._precision(), told if watched else None
            )
        finally:
            if progress is not None:
                progress.close()
        if model is not None:
            self._take(model, report)
            self._agents = agents
            if then is not None:
                then()
        if error is not None:
            if model is not None and isinstance(error, KeyboardInterrupt):
                warnings.warn(
                    f"{type(self).__name__} was interrupted: it keeps what it had learned "
                    f"after {self.n_iter_} {report['unit']}",
                    stacklevel=3,
                )
            raise error

    @contextmanager
    def _or_unchanged(self) -> Iterator[None]:
        """Makes the estimator what it was where an error is raised."""
        before = dict(vars(self))
        try:
            yield
        except Exception:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _take(self, model: _rankfold.Model, report: dict[str, Any]) -> None:
        self.model_ = model
        self.history_ = report["curve"]
        self.report_ = {k: v for k, v in report.items() if k != "curve"}
        info = model.info()
        self.n_iter_ = int(info["counters"]["steps"]) or int(report["counters"]["steps"])
        self.rank_ = int(info["rank"])
        self.learner_ = str(info["learner"])

    def _counted(self) -> None:
        self.n_iter_ = int(self.model_.info()["counters"]["steps"])

    @property
    def _threads(self) -> int | None:
        return threads_of(getattr(self, "n_jobs", None))

    def _check_fitted(self) -> _rankfold.Model:
        check_is_fitted(self, "model_")
        return self.model_

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which the command ``rankfold`` reads as well.

        Parameters
        ----------
        path : str or path
            The file. It is complete or not there at all.
        """
        self._check_fitted().save(path)

    def _restored(self, model: _rankfold.Model) -> dict[str, Any]:
        """Takes a model that no run of this estimator made."""
        info = model.info()
        self.model_ = model
        self.history_ = info["history"]
        self.report_ = {}
        self.n_iter_ = int(info["counters"]["steps"])
        self.rank_ = int(info["rank"])
        self.learner_ = str(info["learner"])
        return info

    def _restore(self, model: _rankfold.Model) -> None:
        """Takes a model of a file, and its parameters."""
        info = self._restored(model)
        learners = [s for s in TABLES[self._task] if s["name"] == "learner"]
        if any(info["learner"] == name for s in learners for name, _ in s["choices"]):
            # Factors that were given have no learner.
            self.learner = info["learner"]
        if hasattr(self, "rank"):
            self.rank = info["rank"]
        if hasattr(self, "random_state"):
            self.random_state = info["seed"]
        if "precision" in vars(self):
            self.precision = info["precision"]

    # ---- what was learned

    @property
    def singular_values_(self) -> NDArray[np.float64]:
        """The singular values of W, falling."""
        found = self._fitted_attribute().singular_values()
        if found is None:
            raise AttributeError(f"a full matrix of '{self.learner_}' has no singular values at hand")
        return found

    def _fitted_attribute(self) -> _rankfold.Model:
        """The model, where an attribute asks for it."""
        if "model_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} instance is not fitted yet")
        return self.model_


class RowEstimator(Estimator):
    """An estimator of rows of features."""

    def _named(self) -> list[str] | None:
        return self._check_fitted().names("left")

    def _data(self, X: Any) -> tuple[Any, _rankfold.Data]:
        """Checked rows for a fitted model."""
        model = self._check_fitted()
        X = checked(self, X, reset=False)
        return X, data(X, model.info()["precision"], self._named())

    def _new_rows(self, X: Any, **options: Any) -> Any:
        """Checked rows for a new model."""
        return checked(self, X, reset=True, **options)

    def _column_names(self) -> list[str] | None:
        found = getattr(self, "feature_names_in_", None)
        return None if found is None else [str(name) for name in found]

    def _more_data(self, X: Any, labels: LabelCodes | None = None) -> _rankfold.Data:
        """Checked rows for a model that goes on."""
        out, columns = self._more_rows(X)
        if labels is not None:
            same_length(out, labels)
        return data(out, self.model_.info()["precision"], columns, labels)

    def _more_examples(
        self, X: Any, numbers: NDArray[np.int64]
    ) -> tuple[_rankfold.Data, NDArray[np.int64]]:
        """Checked rows for a model that goes on, and row numbers of them."""
        out, columns = self._more_rows(X)
        out, numbers = used_rows(out, numbers)
        return data(out, self.model_.info()["precision"], columns), numbers

    def _more_rows(self, X: Any) -> tuple[Any, list[str] | None]:
        known, names = self._named(), names_of(X)
        out = grown(self, X)
        if known is None or names is None:
            return out, known
        return out, [str(name) for name in names]

    @contextmanager
    def _going_on(self, X: Any, labels: list[str] | None = None) -> Iterator[bool]:
        """Begins without data before a fit; takes the beginning back after an error."""
        fresh = "model_" not in vars(self)
        with self._or_unchanged():
            if fresh:
                self._begin(X, labels)
            try:
                yield fresh
            except KeyboardInterrupt:
                # The steps before it count.
                self._grown()
                raise

    def _begin(self, X: Any, labels: list[str] | None) -> None:
        for name in ("weight", "standardize"):
            if getattr(self, name, "none") not in ("none", "auto"):
                raise ValueError(f"`{name}` is learned from all rows: call fit first")
        if getattr(self, "normalize", "none") not in ("none", "auto"):
            raise ValueError("`normalize` is decided by fit: call fit first")
        given, precision = self._given(), self._precision()
        rows = checked(self, X, reset=True)
        names = self._column_names()
        model = _rankfold.begin(self._task, given, rows.shape[1], precision, names, labels)
        self._restored(model)

    def _grown(self) -> None:
        """Takes note of new features, and of the steps."""
        info = self.model_.info()
        self.n_features_in_ = int(info["columns"][0])
        self.n_iter_ = int(info["counters"]["steps"])
        names = self._named()
        if names is not None and hasattr(self, "feature_names_in_"):
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _restore(self, model: _rankfold.Model) -> None:
        super()._restore(model)
        self.n_features_in_ = int(model.info()["columns"][0])
        names = model.names("left")
        # Features that had no names are numbers, also where a model must name them.
        if names is not None and names != [str(i + 1) for i in range(len(names))]:
            self.feature_names_in_ = np.asarray(names, dtype=object)


def same_length(X: Any, codes: LabelCodes) -> None:
    """Refuses labels that are not as many as rows."""
    rows = X.shape[0]
    found = len(codes[1]) if codes[2] is None else len(codes[2]) - 1
    if rows != found:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: [{rows}, {found}]"
        )


def like(array: NDArray[Any], X: Any) -> NDArray[Any]:
    """The array in the precision of X."""
    dtype = getattr(X, "dtype", np.dtype(np.float64))
    return array.astype(dtype, copy=False)
