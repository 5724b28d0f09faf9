"""Metrics by shards of pairs: the problem of the single process, and the same bytes for any actors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from actors import killer, ours

import rankfold as rf
import rankfold.ray

OPTIONS: dict[str, Any] = {"rank": 2, "iterations": 15, "random_state": 1, "tolerance": 0.0}


def planted(count: int = 90, features: int = 6) -> tuple[Any, Any]:
    """Rows of three classes, which differ in two columns that vary little."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, count)
    X = 2 * rng.normal(size=(count, features))
    X[:, 0], X[:, 1] = y + 0.3 * rng.normal(size=count), y % 2 + 0.3 * rng.normal(size=count)
    return X, y


def known(count: int = 400) -> tuple[Any, Any, Any]:
    """Rows, pairs of them, and whether these are of one class."""
    X, y = planted()
    pairs = np.random.default_rng(5).integers(0, len(y), (count, 2))
    pairs[pairs[:, 0] == pairs[:, 1], 1] = 0
    return X, pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def fitted(**options: Any) -> rankfold.ray.Metric:
    return rankfold.ray.Metric(**(OPTIONS | options)).fit_pairs(*known())


def bytes_of(model: Any) -> bytes:
    return bytes(model.model_.to_bytes())


GEOMETRIES = [
    {"learner": "flat"},
    {"learner": "flat", "solver": "trust-region", "standardize": "global"},
    {"learner": "flat", "solver": "descent"},
    {"learner": "polar"},
    {"learner": "polar", "solver": "cg"},
    # Conjugate directions on a cone multiply what rounding differs by: five iterations keep it small.
    {"learner": "cone-affine", "rank": 20, "iterations": 5},
]


@pytest.mark.parametrize("learner", ["flat", "polar"])
def test_any_number_of_actors_gives_the_same_bytes(local: None, learner: str) -> None:
    alone = fitted(shards=8, actors=0, learner=learner)
    for actors in (1, 2, 4, 8) if learner == "flat" else (3,):
        found = fitted(shards=8, actors=actors, num_cpus=0.1, learner=learner)
        assert bytes_of(found) == bytes_of(alone), actors
        assert found.report_["actors"] == actors
        assert found.report_["bytes_received"] > 0
    assert bytes_of(fitted(shards=5, actors=0, learner=learner)) != bytes_of(alone)


@pytest.mark.parametrize("options", GEOMETRIES)
def test_the_metric_is_that_of_the_single_process(options: dict[str, Any]) -> None:
    X, pairs, same = known()
    one = rf.Metric(**(OPTIONS | options)).fit_pairs(X, pairs, same)
    labelled = {"pairs_from": "random", "constraints": 300}
    y = planted()[1]
    drawn = rf.Metric(**(OPTIONS | options | labelled)).fit(X, y)
    for shards in (1, 5):
        two = fitted(shards=shards, actors=0, **options)
        a, b = one.pair_distance(X[:45], X[45:]), two.pair_distance(X[:45], X[45:])
        # The same steps from the same start; only sums are in another order.
        assert np.abs(a - b).max() < 1e-6 * a.max()
        assert two.report_["violated"] == one.report_["more"]["violated"]
        assert two.report_["constraints"] == len(pairs)
        three = rankfold.ray.Metric(shards=shards, actors=0, **(OPTIONS | options | labelled)).fit(X, y)
        a, b = drawn.pair_distance(X[:45], X[45:]), three.pair_distance(X[:45], X[45:])
        assert np.abs(a - b).max() < 1e-6 * a.max()
        assert three.score(X, y) == drawn.score(X, y)


@pytest.mark.parametrize("at", [1, 6])
def test_an_actor_that_dies_changes_nothing(local: None, at: int) -> None:
    kill, killed = killer(at)
    found = fitted(shards=8, actors=2, num_cpus=0.1, callback=kill)
    assert killed
    assert bytes_of(found) == bytes_of(fitted(shards=8, actors=0))


def test_a_fit_stops_when_it_is_told_to_and_goes_on(local: None, tmp_path: Any) -> None:
    X, pairs, same = known()
    model = fitted(shards=3, actors=2, num_cpus=0.1, callback=lambda event: event["steps"] < 2)
    assert model.n_iter_ == 2 and len(model.history_) == 2
    model.save(tmp_path / "m.safetensors")
    again = rf.load(tmp_path / "m.safetensors")
    assert np.array_equal(again.transform(X), model.transform(X))
    model.partial_fit(X, pairs=pairs[:5], same=same[:5])

    def stop(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(shards=3, actors=2, num_cpus=0.1, callback=stop)
    assert ours() == []


def test_sparse_rows_are_the_same_rows() -> None:
    import scipy.sparse as sp

    X, pairs, same = known()
    X[np.random.default_rng(6).random(X.shape) < 0.85] = 0.0
    X[0, -1] = 1.0
    options = OPTIONS | {"shards": 3, "actors": 0, "iterations": 8}
    dense, sparse = (
        rankfold.ray.Metric(**options).fit_pairs(x, pairs, same) for x in (X, sp.csr_matrix(X))
    )
    assert np.allclose(dense.pair_distance(X[:45], X[45:]), sparse.pair_distance(X[:45], X[45:]))


def test_few_pairs_are_enough() -> None:
    X, pairs, same = known()
    for count in (1, 3):
        options = {**OPTIONS, "shards": 99, "actors": 0}
        model = rankfold.ray.Metric(**options).fit_pairs(X, pairs[:count], same[:count])
        assert model.report_["shards"] == count
        assert np.all(np.isfinite(model.transform(X)))
    with pytest.raises(ValueError, match="0 pairs"):
        rankfold.ray.Metric(**options).fit_pairs(X, pairs[:0], same[:0])


def test_what_has_no_meaning_by_shards_is_refused() -> None:
    X, y = planted()
    for options, message in [
        ({"learner": "itml", "tolerance": 1e-5}, "is a baseline"),
        ({"solver": "online", "iterations": None, "tolerance": 1e-5}, "one pair after the other"),
        ({"init": "class-means"}, "have no classes"),
        ({"valid_fraction": 0.2}, "nothing is chosen"),
        ({"curve_every": 5}, "every iteration"),
        ({"rank": 7}, "above n_features"),
        ({"shards": 0}, "shards"),
        ({"actors": -1}, "actors"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted(**({"actors": 0} | options))
    with pytest.raises(ValueError, match="must be given as `random`"):
        rankfold.ray.Metric(actors=0, **OPTIONS).fit(X, y)
    random = OPTIONS | {"pairs_from": "random", "actors": 0}
    with pytest.raises(ValueError, match="is not chosen by shards"):
        rankfold.ray.Metric(**(random | {"iterations": None})).fit(X, y)
    with pytest.raises(ValueError, match="valid"):
        rankfold.ray.Metric(**random).fit(X, y, valid=(X, y))
    clone = rankfold.ray.Metric(**rankfold.ray.Metric(shards=3).get_params())
    assert clone.shards == 3
