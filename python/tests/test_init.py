"""`init` of estimators: a file of a model, from which a run starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankfold as rf

RNG = np.random.default_rng(11)
X = RNG.normal(size=(60, 5))
Y = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)
USERS, ITEMS = RNG.integers(0, 15, 250), RNG.integers(0, 12, 250)
RATINGS = 3 + np.sin(USERS) + np.cos(USERS * ITEMS)
TASKS = np.arange(60) % 6
TARGETS = X @ np.arange(5.0) + TASKS
PAIRS = RNG.integers(0, 60, (150, 2))


def similarity(**options: Any) -> Any:
    return rf.Similarity(rank=2, steps=options.pop("length", 300), **options).fit(X, Y)


def ranking(**options: Any) -> Any:
    return rf.Ranking(rank=2, steps=options.pop("length", 300), **options).fit(X, Y)


def pairs(**options: Any) -> Any:
    model = rf.Pairs(rank=2, steps=options.pop("length", 300), **options)
    return model.fit(X, X, PAIRS, np.sum(X[PAIRS[:, 0]] * X[PAIRS[:, 1]], axis=1))


def metric(**options: Any) -> Any:
    return rf.Metric(learner="flat", rank=2, iterations=options.pop("length", 20), **options).fit(X, Y)


def weights(model: Any) -> Any:
    """W itself: factors may be turned."""
    left, right = model.model_.components("left"), model.model_.components("right")
    return np.asarray(left) @ np.asarray(right).T


@pytest.mark.parametrize("learn", [similarity, ranking, pairs, metric], ids=lambda f: f.__name__)
def test_without_a_step_the_model_is_the_start(tmp_path: Path, learn: Any) -> None:
    path = tmp_path / "start.safetensors"
    model = learn()
    model.save(path)
    same = learn(init=str(path), length=0)
    assert same.model_.info()["init"] == "model"
    gap = np.abs(weights(same) - weights(model)).max()
    assert gap < 1e-5 * np.abs(weights(model)).max()
    # It is the file that counts: from nothing there is another model.
    assert np.abs(weights(learn(length=0)) - weights(model)).max() > 0.1 * np.abs(weights(model)).max()


def completion(**options: Any) -> Any:
    options = {"iterations": 300, "tolerance": 1e-12} | options
    model = rf.Completion(learner="als", rank=2, regularization=1.0, precision="f64", **options)
    return model.fit(USERS, ITEMS, RATINGS)


def multitask(**options: Any) -> Any:
    options = {"iterations": 300, "tolerance": 1e-13} | options
    return rf.Multitask(rank=2, regularization=0.5, standardize="global", **options).fit(X, TARGETS, tasks=TASKS)


def test_a_minimum_is_a_start_that_stays(tmp_path: Path) -> None:
    path = tmp_path / "start.safetensors"
    for learn, predicted in [
        (completion, lambda model: model.predict(USERS, ITEMS)),
        (multitask, lambda model: model.predict(X, tasks=TASKS)),
    ]:
        model = learn()
        model.save(path)
        again = learn(init=path, iterations=1)
        assert again.model_.info()["init"] == "model"
        assert np.abs(predicted(again) - predicted(model)).max() < 1e-4, learn
        # One iteration from elsewhere is not there yet.
        assert np.abs(predicted(learn(iterations=1)) - predicted(model)).max() > 1e-3, learn


def test_files_that_are_no_start_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "start.safetensors"
    completion().save(path)
    with pytest.raises(ValueError, match="completion"):
        similarity(init=str(path))
    with pytest.raises((ValueError, OSError), match="nowhere"):
        similarity(init=str(tmp_path / "nowhere.safetensors"))
    with pytest.raises(ValueError, match="init"):
        similarity(init="elsewhere")
    (tmp_path / "damaged.safetensors").write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="damaged"):
        completion(init=str(tmp_path / "damaged.safetensors"))
