"""Multitask by shards of tasks: the problem of the single process, and the same bytes for any actors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from actors import killer, ours

import rankfold as rf
import rankfold.ray

OPTIONS: dict[str, Any] = {"rank": 2, "regularization": 0.5, "standardize": "global"}


def planted(tasks: int = 30, features: int = 6) -> tuple[Any, Any, Any]:
    """Rows of tasks in any order, tasks of unlike sizes and scales."""
    rng = np.random.default_rng(5)
    of_rows = rng.permutation(np.repeat(np.arange(tasks), 4 + 3 * (np.arange(tasks) % 5)))
    X = 0.5 + rng.normal(size=(len(of_rows), features))
    weights = rng.normal(size=features) + rng.normal(size=(tasks, 2)) @ rng.normal(size=(2, features))
    own = np.sum(X * weights[of_rows], axis=1) + rng.normal(size=tasks)[of_rows]
    y = 7 + (1 + of_rows % 3) * (own + 0.3 * rng.normal(size=len(of_rows)))
    return X, y, np.asarray([f"school {t}" for t in of_rows])


def fitted(**options: Any) -> rankfold.ray.Multitask:
    X, y, tasks = planted()
    return rankfold.ray.Multitask(**(OPTIONS | options)).fit(X, y, tasks=tasks)


def bytes_of(model: Any) -> bytes:
    return bytes(model.model_.to_bytes())


@pytest.mark.parametrize("standardize", ["global", "task"])
def test_any_number_of_actors_gives_the_same_bytes(local: None, standardize: str) -> None:
    alone = fitted(shards=8, actors=0, standardize=standardize)
    for actors in (1, 2, 4, 8) if standardize == "global" else (3,):
        found = fitted(shards=8, actors=actors, num_cpus=0.1, standardize=standardize)
        assert bytes_of(found) == bytes_of(alone), actors
        assert found.report_["actors"] == actors
        assert found.report_["bytes_received"] > 0
    X, y, tasks = planted()
    plain = rf.Multitask(**(OPTIONS | {"standardize": standardize})).fit(X, y, tasks=tasks)
    for shards in (1, 5, 8):
        other = fitted(shards=shards, actors=0, standardize=standardize)
        # Searches end when an iteration lowers the cost by 1e-10 of it.
        assert np.abs(other.predict(X, tasks=tasks) - plain.predict(X, tasks=tasks)).max() < 1e-3
        assert list(other.tasks_) == list(plain.tasks_)
    assert alone.score(X, y, tasks=tasks) > 0.9


@pytest.mark.parametrize("at", [1, 3])
def test_an_actor_that_dies_changes_nothing(local: None, at: int) -> None:
    kill, killed = killer(at)
    found = fitted(shards=8, actors=2, num_cpus=0.1, callback=kill)
    assert killed
    assert bytes_of(found) == bytes_of(fitted(shards=8, actors=0))


def test_a_fit_goes_on_and_stops_when_it_is_told_to(local: None, tmp_path: Any) -> None:
    X, y, tasks = planted()
    model = fitted(shards=3, actors=2, num_cpus=0.1, callback=lambda event: event["steps"] < 2)
    assert model.n_iter_ == 2 and len(model.history_) == 2
    model.save(tmp_path / "m.safetensors")
    again = rf.load(tmp_path / "m.safetensors")
    assert np.array_equal(again.predict(X, tasks=tasks), model.predict(X, tasks=tasks))
    # More rows are learned by the rule of the single process.
    model.partial_fit(X[:3], y[:3], tasks=["new"] * 3)
    assert "new" in list(model.tasks_)

    def stop(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(shards=3, actors=2, num_cpus=0.1, callback=stop)
    assert ours() == []


def test_sparse_rows_are_the_same_rows() -> None:
    import scipy.sparse as sp

    X, y, tasks = planted()
    X[X < 0.3] = 0.0
    options = OPTIONS | {"shards": 3, "actors": 0}
    dense, sparse = (rankfold.ray.Multitask(**options).fit(x, y, tasks=tasks) for x in (X, sp.csr_matrix(X)))
    assert np.allclose(dense.predict(X, tasks=tasks), sparse.predict(X, tasks=tasks), atol=1e-8)


def test_what_has_no_meaning_by_shards_is_refused() -> None:
    for options, message in [
        ({"regularization": None}, "not chosen by shards"),
        ({"learner": "mixed", "rank": None, "regularization": None}, "expected `grassmann`"),
        ({"valid_fraction": 0.2}, "nothing is chosen"),
        ({"curve_every": 5}, "every iteration"),
        ({"rank": 7}, "above the smaller"),
        ({"shards": 0}, "shards"),
        ({"actors": -1}, "actors"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted(**({"actors": 0} | options))
    assert fitted(shards=99, actors=0).report_["shards"] == 30
