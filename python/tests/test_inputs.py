"""Data of all kinds, read in place where that is possible; and bad data."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

import rankfold as rf
from rankfold._inputs import data
from rankfold._rankfold import Data

X, y = load_iris(return_X_y=True)
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"])


def fitted(rows: Any) -> bytes:
    return rf.Similarity(rank=2, steps=200).fit(rows, y).model_.to_bytes()


def test_arrays_of_all_kinds_are_the_same_rows() -> None:
    want = fitted(X)
    wide = np.zeros((150, 8))
    wide[:, ::2] = X
    for rows in [
        X.astype(np.float32),
        np.asfortranarray(X),
        wide[:, ::2],
        X[::-1][::-1],
        X.tolist(),
        sp.csr_matrix(X),
        sp.csc_matrix(X),
        sp.coo_matrix(X),
        sp.csr_array(X),
    ]:
        assert fitted(rows) == want
    for index in (np.int32, np.int64):
        matrix = sp.csr_matrix(X)
        matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
        assert fitted(matrix) == want
    whole = np.round(X).astype(np.int64)
    assert fitted(whole) == fitted(whole.astype(np.float64)) == fitted(whole.astype(np.uint8))


def test_frames_are_the_same_rows() -> None:
    want = fitted(FRAME)
    assert fitted(pl.DataFrame({c: FRAME[c].to_numpy() for c in FRAME})) == want
    assert fitted(pa.table({c: FRAME[c].to_numpy() for c in FRAME})) == want


def test_unsorted_and_repeated_entries_are_put_in_order() -> None:
    matrix = sp.csr_matrix(
        (np.array([2.0, 1.0, 0.5, 0.5, 3.0]), np.array([1, 0, 1, 1, 0]), np.array([0, 2, 4, 5])), shape=(3, 2)
    )
    dense = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]])
    one = rf.Similarity(rank=1, steps=50).fit(matrix, [0, 0, 1])
    two = rf.Similarity(rank=1, steps=50).fit(dense, [0, 0, 1])
    assert one.model_.to_bytes() == two.model_.to_bytes()


def test_rows_are_read_in_place() -> None:
    single = np.ascontiguousarray(X, dtype=np.float32)
    assert data(single, "f32").address == single.ctypes.data
    assert data(X, "f64").address == X.ctypes.data
    assert data(X, "f32").address != X.ctypes.data
    matrix = sp.csr_matrix(single)
    assert data(matrix, "f32").address == matrix.data.ctypes.data
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indptr = matrix.indptr.astype(np.int64)
    assert data(matrix, "f32").address == matrix.data.ctypes.data
    # Rows are kept without zeros, so an array with one is copied.
    zero = single.copy()
    zero[3, 1] = 0
    assert data(zero, "f32").address != zero.ctypes.data


def test_fit_copies_no_rows() -> None:
    matrix = sp.random(20_000, 500, density=0.1, format="csr", dtype=np.float32, random_state=0)
    matrix.data += 1
    size = matrix.data.nbytes + matrix.indices.nbytes
    labels = np.arange(20_000) % 5
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    rf.Similarity(rank=2, steps=100, step_size=0.1).fit(matrix, labels)
    python = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    native = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert python < 0.7 * size
    assert native < 1.0 * size + python


def test_fortran_order_is_refused_below() -> None:
    with pytest.raises(ValueError, match="C order"):
        Data.dense(np.asfortranarray(X))
    with pytest.raises(TypeError):
        Data.dense(X.astype(np.int32))


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (np.where(X == X[3, 1], np.nan, X), y, "NaN"),
        (np.where(X == X[3, 1], np.inf, X), y, "infinity"),
        (X[0], y, "2D array"),
        (X, y[:-1], "inconsistent numbers of samples"),
        (X, None, "requires y to be passed"),
        (X, np.zeros(150, dtype=int), "two classes"),
        (np.zeros((0, 4)), [], "0 sample"),
        (np.zeros((3, 0)), [0, 0, 1], "0 feature"),
        (np.full((150, 2), "text", dtype=object), y, "could not convert"),
        (np.full((150, 2), 1e300), y, "too large"),
        (X, np.where(y == 1, np.nan, y), "NaN"),
        (X, X[:, 0], "Unknown label type"),
        (X * 1j, y, "Complex"),
    ],
)
def test_bad_rows(rows: Any, labels: Any, words: str) -> None:
    for estimator in (rf.Similarity(steps=50), rf.Metric(precision="f32"), rf.Ranking(epochs=1)):
        with pytest.raises(ValueError) as error:
            estimator.fit(rows, labels)
        if words != "two classes":
            assert words in str(error.value)


@pytest.mark.parametrize(
    "triplets",
    [
        [(0, 1, 150)],
        [(0, 1, -1)],
        [(0, 1)],
        [(0.5, 1, 2)],
        [("a", "b", "c")],
        [[[0, 1, 2]]],
        np.array([(0, 1, None)], dtype=object),
    ],
)
def test_bad_triplets_change_nothing(triplets: Any) -> None:
    model = rf.Similarity(rank=2, steps=50).fit(X, y)
    before = model.model_.to_bytes()
    with pytest.raises(ValueError):
        model.partial_fit(X, triplets=triplets)
    with pytest.raises(ValueError):
        rf.Similarity().fit(X, triplets=triplets)
    assert model.model_.to_bytes() == before


def test_failed_partial_fits_change_nothing() -> None:
    nan = np.where(X == X[3, 1], np.nan, X)
    similarity = rf.Similarity(rank=2, steps=50).fit(X, y)
    metric = rf.Metric(rank=2).fit(X, y)
    ranking = rf.Ranking(rank=2).fit(X, y)
    tasks = rf.Multitask(rank=1).fit(X[:, :3], X[:, 3])
    completion = rf.Completion(rank=1, learner="als").fit(np.arange(60) % 6, np.arange(60) % 10, X[:60, 0])
    calls: list[tuple[Any, Any]] = [
        (similarity, lambda: similarity.partial_fit(nan, triplets=[(0, 1, 100)])),
        (similarity, lambda: similarity.partial_fit(X[:, :3], triplets=[(0, 1, 100)])),
        (similarity, lambda: similarity.partial_fit(X, triplets=[(0, 1, 100)], step_size=-1.0)),
        (similarity, lambda: similarity.partial_fit(X, y[:-1])),
        (metric, lambda: metric.partial_fit(X, pairs=[(0, 1)], same=[True, False])),
        (metric, lambda: metric.partial_fit(X, pairs=[(0, 150)], same=[True])),
        (ranking, lambda: ranking.partial_fit(nan, y)),
        (ranking, lambda: ranking.partial_fit(X[:2], [[0], "a"])),
        (tasks, lambda: tasks.partial_fit(X[:, :3], np.full(150, np.nan))),
        (tasks, lambda: tasks.partial_fit(X, X[:, 3])),
        (completion, lambda: completion.partial_fit([1, 2], [1], [3.0])),
        (completion, lambda: completion.partial_fit([1, 2], [1, 2], [3.0, np.inf])),
        (completion, lambda: completion.partial_fit([1, 2], [1, 2], [3.0, 1e200])),
    ]
    for estimator, call in calls:
        before = estimator.model_.to_bytes()
        with pytest.raises(ValueError):
            call()
        assert estimator.model_.to_bytes() == before


def test_models_that_had_grown_are_as_before() -> None:
    wide = np.hstack([X, X])
    model = rf.Similarity(rank=2, steps=50).fit(X, y)
    pairs = rf.Pairs(rank=2, steps=50).fit(X, X[:9], [(0, 1), (2, 3)], [1.0, 2.0])
    for estimator, call in [
        (model, lambda: model.partial_fit(wide, triplets=[(0, 1, 100)], step_size=-1.0)),
        (model, lambda: model.partial_fit(wide, y, triplets=[(0, 1, 100)])),
        (pairs, lambda: pairs.partial_fit(wide, FRAME, [(0, 1)], [1.0])),
    ]:
        before, known = estimator.model_.to_bytes(), dict(vars(estimator))
        with pytest.raises(ValueError):
            call()
        assert estimator.model_.to_bytes() == before
        assert vars(estimator) == known


@pytest.mark.parametrize(
    ("estimator", "call"),
    [
        (rf.Similarity(), lambda model: model.partial_fit(X, y[:-1])),
        (rf.Metric(), lambda model: model.partial_fit(X, y[:-1])),
        (rf.Metric(rank=9), lambda model: model.partial_fit(X, y)),
        (rf.Metric(), lambda model: model.partial_fit(X, pairs=[], same=[])),
        (rf.Ranking(), lambda model: model.partial_fit(X, y[:-1])),
        (rf.Multitask(rank=9), lambda model: model.partial_fit(X, y)),
        (rf.Pairs(rank=9), lambda model: model.partial_fit(X, None, [(0, 1)], [1.0])),
        (rf.Completion(rank=9), lambda model: model.partial_fit([1, 2], [1, 2], [1.0, 2.0])),
        (rf.Map(dimensions=200), lambda model: model.partial_fit(np.ones((9, 9)) - np.eye(9))),
    ],
)
def test_a_failed_beginning_leaves_nothing(estimator: Any, call: Any) -> None:
    before = dict(vars(estimator))
    with pytest.raises(ValueError):
        call(estimator)
    assert vars(estimator) == before


def test_a_batch_out_of_many_rows_is_the_same_batch() -> None:
    triplets = np.array([(149, 3, 60), (3, 149, 7)])
    for rows in (X, sp.csr_matrix(X), FRAME):
        one, two = (rf.Similarity(rank=2, steps=50).fit(rows, y) for _ in range(2))
        one.partial_fit(rows, triplets=triplets)
        learner = two.online(rows)
        for triplet in triplets.tolist():
            learner.learn(*triplet)
        assert one.model_.to_bytes() == two.model_.to_bytes()


@pytest.mark.parametrize("count", [0, -3])
def test_counts_are_at_least_one(count: int) -> None:
    completion = rf.Completion(rank=1, learner="als").fit(np.arange(60) % 6, np.arange(60) % 10, X[:60, 0])
    ranking = rf.Ranking(rank=2).fit(X, y)
    similarity = rf.Similarity(rank=2, steps=50).fit(X, y)
    for call in (
        lambda: completion.recommend(1, count),
        lambda: completion.similar_items(1, count),
        lambda: ranking.rank(X, count),
        lambda: similarity.kneighbors(X, count),
        lambda: rf.TextVectorizer(min_df=count).fit(["red car", "red apple"]),
        lambda: rf.TextVectorizer(features=count).fit(["red car", "red apple"]),
    ):
        with pytest.raises(ValueError, match="at least 1"):
            call()


def test_texts_are_texts() -> None:
    for wrong in ([None], [1], [b"red"], ["red", None], "red"):
        with pytest.raises(ValueError):
            rf.TextVectorizer(min_df=1).fit(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="feet"):
        rf.TextVectorizer(min_df=1, strip="feet").fit(["red car"])


def test_given_factors() -> None:
    random = np.random.default_rng(0)
    left, right = random.normal(size=(9, 2)), random.normal(size=(7, 2))
    bias = random.normal(size=9)
    users = [f"u{i}" for i in range(9)]
    model = rf.Completion.from_factors(users, range(7), left, right, mean=3, user_bias=bias)
    want = 3 + bias[:, None] + left @ right.T
    np.testing.assert_allclose(model.predict(np.repeat(users, 7), np.tile(range(7), 9)), want.ravel(), rtol=1e-5)
    np.testing.assert_allclose(model.user_factors_ @ model.item_factors_.T, left @ right.T, rtol=1e-5, atol=1e-6)
    before = abs(model.predict(["new"], [3])[0] - 5)
    model.partial_fit(["new"] * 2, [3, 4], [5.0, 5.0])
    assert model.users_[-1] == "new" and abs(model.predict(["new"], [3])[0] - 5) < before
    for change in (
        {"users": users[:-1]},
        {"users": users[:-1] + ["u0"]},
        {"user_factors": left[:, :1]},
        {"item_factors": right * np.nan},
        {"user_bias": bias[:3]},
        {"mean": np.inf},
        {"clip": (5, 1)},
        {"precision": "f16"},
    ):
        given = {"users": users, "items": range(7), "user_factors": left, "item_factors": right}
        with pytest.raises(ValueError):
            rf.Completion.from_factors(**(given | change))


def test_given_components(tmp_path: Any) -> None:
    components = np.random.default_rng(0).normal(size=(2, 4))
    metric = rf.Metric.from_components(components, near=0.5, far=2.0)
    np.testing.assert_allclose(metric.transform(X) @ metric.transform(X).T, X @ components.T @ components @ X.T)
    metric.save(tmp_path / "m")
    loaded = rf.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.partial_fit(X, y).transform(X), metric.partial_fit(X, y).transform(X))
    assert loaded.set_params(rank=2).fit(X, y).learner_ == "flat"
    with pytest.raises(ValueError, match="near and far"):
        rf.Metric.from_components(components).partial_fit(X, y)
    with pytest.raises(ValueError, match="belong together"):
        rf.Metric.from_components(components, near=1.0)
    with pytest.raises(ValueError, match="rank"):
        rf.Metric.from_components(components.T)


def test_fewer_features_have_the_words_of_scikit_learn() -> None:
    model = rf.Similarity(rank=2, steps=50).fit(X, y)
    for call in (lambda: model.transform(X[:, :3]), lambda: model.partial_fit(X[:, :3], y)):
        with pytest.raises(ValueError, match="X has 3 features, but Similarity is expecting 4 features"):
            call()


def test_new_columns_of_frames() -> None:
    model = rf.Similarity(rank=2, steps=50).fit(FRAME, y)
    model.partial_fit(FRAME.assign(e=1.0), y)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d", "e"]
    with pytest.raises(ValueError, match="missing"):
        model.partial_fit(FRAME.rename(columns={"a": "z"}), y)


def test_ratings_of_all_kinds() -> None:
    users, items = np.divmod(np.arange(80), 8)
    ratings = 1 + (users * items) % 5 + 0.5
    frame = pd.DataFrame({"u": users, "i": items, "r": ratings})
    columns = ("u", "i", "r")
    model = rf.Completion(rank=2, learner="als")
    want = model.fit(users, items, ratings).model_.to_bytes()
    matrix = sp.coo_matrix((ratings, (users, items)))
    for args in [
        (users.tolist(), items.tolist(), ratings.tolist()),
        (pd.Series(users), pd.Series(items), pd.Series(ratings)),
        ([str(u) for u in users], items.astype(float), ratings),
        (matrix,),
        (matrix.tocsr(),),
    ]:
        assert rf.Completion(rank=2, learner="als").fit(*args).model_.to_bytes() == want
    for table in (frame, pl.DataFrame(frame.to_dict("list")), pa.Table.from_pandas(frame)):
        found = rf.Completion(rank=2, learner="als").fit(table, columns=columns)
        assert found.model_.to_bytes() == want
    with pytest.raises(ValueError, match="no user"):
        rf.Completion(rank=2, learner="als").fit(frame)
    assert model.predict([0, 99], [1, 1]).shape == (2,)
    best, scores = model.recommend(3, 4, exclude=[0, 1], return_scores=True)
    assert len(best) == 4 and not {0, 1} & set(best.tolist()) and np.all(np.diff(scores) <= 0)
    assert 2 not in model.similar_items(2, 5)
    with pytest.raises(ValueError, match="knows no user"):
        model.recommend("nobody")
    with pytest.raises(ValueError, match="sure"):
        model.predict([0], [0], return_std=True)
    sure = rf.Completion(rank=2, learner="bayes").fit(users, items, ratings)
    found, deviations = sure.predict([0, 99], [1, 1], return_std=True)
    np.testing.assert_array_equal(found, sure.predict([0, 99], [1, 1]))
    assert 0 < deviations[0] < deviations[1]


def test_labels_of_all_kinds() -> None:
    Y = np.zeros((150, 4), dtype=int)
    Y[np.arange(150), y] = 1
    Y[::7, 3] = 1
    lists = [np.flatnonzero(row).tolist() for row in Y]
    want = rf.Ranking(rank=2).fit(X, Y)
    assert want.predict(X).shape == Y.shape
    for labels in (sp.csr_matrix(Y), Y.astype(bool), lists, [set(row) for row in lists]):
        found = rf.Ranking(rank=2).fit(X, labels)
        assert found.model_.to_bytes() == want.model_.to_bytes()
        np.testing.assert_array_equal(found.decision_function(X), want.decision_function(X))
    words = rf.Ranking(rank=2).fit(X, [["abcd"[j] for j in row] for row in lists])
    assert list(words.classes_) == ["a", "b", "c", "d"]
    assert isinstance(words.predict(X[:2])[0], list)
    # A label that no row has is scored as one that is not known.
    empty = np.hstack([Y, np.zeros((150, 1), dtype=int)])
    scores = rf.Ranking(rank=2).fit(X, empty).decision_function(X)
    assert scores.shape == (150, 5) and np.all(np.isfinite(scores))
    with pytest.raises(ValueError, match="0 and 1"):
        rf.Ranking().fit(X, 2 * Y)
