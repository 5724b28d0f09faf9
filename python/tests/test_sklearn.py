"""The estimators behave as scikit-learn's do."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankfold as rf
from rankfold import _options, _rankfold, _stubs

X, y = load_iris(return_X_y=True)
ALL = [
    rf.Completion,
    rf.Gossip,
    rf.Kernel,
    rf.Map,
    rf.Metric,
    rf.Multitask,
    rf.Pairs,
    rf.Ranking,
    rf.Recommend,
    rf.Similarity,
]


@parametrize_with_checks(
    [
        rf.Similarity(steps=300),
        rf.Metric(),
        rf.Ranking(),
        rf.Multitask(rank=1),
        rf.Map(),
        rf.Kernel(constraints=50),
        rf.TextVectorizer(),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", ALL)
def test_parameters_are_the_options_of_the_library(estimator: Any) -> None:
    found = inspect.signature(estimator).parameters
    for spec in _rankfold.tables()[estimator._task]:
        name = _options.RENAMED.get(spec["name"], spec["name"])
        assert name in found
        default = found[name].default
        # What the library makes of the default is its default.
        if default is not None:
            text = _options.text_of(default)
            assert text == spec["default"] or float(text) == float(spec["default"])
        else:
            assert spec["default"] is None
    more = {"precision", "verbose", "callback", "metric"}
    names = {_options.RENAMED.get(s["name"], s["name"]) for s in _rankfold.tables()[estimator._task]}
    assert set(found) - names <= more
    assert clone(estimator()).get_params() == estimator().get_params()
    assert "Parameters\n" in inspect.getdoc(estimator)


def test_options_of_the_future_need_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def option(name: str, kind: str, default: Any, **more: Any) -> dict[str, Any]:
        usual = {"doc": "Text.", "shape": None, "range": "a number", "choices": [], "applies_to": None}
        return usual | {"name": name, "kind": kind, "default": default} | more

    table = [
        option("rank", "text", "auto", shape="auto or K"),
        option("size", "text", "0.5", shape="auto or X"),
        option("init", "choice", None, choices=[["zero", ""], ["ridge", ""]]),
        option("side", "flag", "false"),
        option("depth", "integer", "3", range="at least 1"),
        option("decay", "number", None),
    ]
    monkeypatch.setitem(_options.TABLES, "future", table)
    made: Any = _options._class_for("future")
    given = made(rank=7, init="ridge", side=True)._given()
    assert given == [
        ("rank", "7"), ("size", "0.5"), ("init", "ridge"), ("side", "true"), ("depth", "3")
    ]  # fmt: skip
    assert (made().rank, made().depth, made().decay) == ("auto", 3, None)
    assert "rank : auto or K, default='auto'" in _options.documented("future")
    assert 'rank: str | int | float | tuple[float, ...] = "auto"' in _stubs.written()
    assert 'init: Literal["zero", "ridge"] | None = None' in _stubs.written()


def test_a_rank_of_words_is_a_parameter_and_a_method() -> None:
    model = rf.Ranking(rank=2).fit(X, y)
    model.set_params(rank="auto")
    assert model.rank == "auto" and clone(model).rank == "auto"
    assert pickle.loads(pickle.dumps(model)).rank == "auto"
    assert "rank=7" in repr(rf.Ranking(rank=7))
    assert model.rank(X, n=2).shape == (150, 2)


def test_score_is_an_option_and_a_method() -> None:
    model = rf.Similarity(rank=2, steps=50, score="cosine")
    assert model.score_as == "cosine" and clone(model).get_params()["score_as"] == "cosine"
    assert 0 < model.fit(X, y).score(X, y) <= 1


def test_stubs_are_up_to_date() -> None:
    from pathlib import Path

    stub = Path(__file__).parents[1] / "rankfold" / "_options.pyi"
    assert stub.read_text() == _stubs.written(), "run scripts/test-python --stubs"


def test_a_default_counts_as_not_given() -> None:
    model = rf.Similarity(learner="oasis", rank="auto", steps=100).fit(X, y)
    assert model.learner_ == "oasis"
    with pytest.raises(ValueError, match="rank"):
        rf.Similarity(learner="oasis", rank=3, steps=100).fit(X, y)


def test_ranks() -> None:
    assert rf.Similarity(steps=100).fit(X, y).rank_ == 4
    with pytest.raises(ValueError, match="n_features = 4"):
        rf.Similarity(rank=5, steps=100).fit(X, y)
    for estimator in (rf.Metric(rank=5), rf.Multitask(rank=5), rf.Ranking(rank=5), rf.Kernel(rank=5)):
        with pytest.raises(ValueError, match="n_features = 4"):
            estimator.fit(X, y)


def test_options_are_named_as_in_python() -> None:
    with pytest.raises(ValueError, match=r"solver=\"online\""):
        rf.Metric(batch=3).fit(X, y)
    with pytest.raises(ValueError, match="`random_state`"):
        rf.Similarity(random_state=-1).fit(X, y)
    with pytest.raises(TypeError, match="unexpected keyword"):
        rf.Similarity(speed=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: joblib.load(dumped(model)),
    ],
)
def test_copies_are_equal(similarity: rf.Similarity, copied: Any) -> None:
    other = copied(similarity)
    assert other.get_params() == similarity.get_params()
    np.testing.assert_array_equal(other.transform(X), similarity.transform(X))
    other.partial_fit(X, triplets=[(0, 1, 100)])
    assert (other.n_iter_, similarity.n_iter_) == (501, 500)


def dumped(model: Any) -> io.BytesIO:
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return file


def test_pipelines() -> None:
    texts = [f"{'red apple' if i % 2 else 'fast car'} number {i % 7} word{i % 5}" for i in range(60)]
    labels = [i % 2 for i in range(60)]
    pipeline = make_pipeline(TfidfVectorizer(), rf.Similarity(rank=2, steps=500))
    assert pipeline.fit(texts, labels).score(texts, labels) > 0.9
    voting = make_pipeline(StandardScaler(), rf.Metric(rank=2), KNeighborsClassifier())
    assert cross_val_score(voting, X, y, cv=3).mean() > 0.9
    own = make_pipeline(rf.TextVectorizer(min_df=1), rf.Similarity(rank=2, steps=500))
    assert own.fit(texts, labels).transform(texts).shape == (60, 2)


def test_grid_search() -> None:
    search = GridSearchCV(rf.Similarity(steps=200), {"rank": [1, 2]}, n_jobs=2, cv=2)
    assert search.fit(X, y).best_params_["rank"] in (1, 2)


def test_column_transformer_and_names() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    both = ColumnTransformer(
        [("metric", rf.Metric(rank=1), ["a", "b"]), ("similarity", rf.Similarity(rank=1, steps=99), ["c", "d"])]
    )
    both.set_output(transform="pandas")
    out = both.fit_transform(frame, y)
    assert list(out.columns) == ["metric__metric0", "similarity__similarity0"]
    model = rf.Metric(rank=2).fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(model.transform(X), model.transform(frame))
    with pytest.raises(ValueError, match="order"):
        model.transform(frame[["b", "a", "c", "d"]])


def test_metadata_routing() -> None:
    import sklearn

    tasks = np.arange(150) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        model = rf.Multitask(rank=1).set_fit_request(tasks=True).set_score_request(tasks=True)
        scores = cross_val_score(model, X[:, :3], X[:, 3], cv=2, params={"tasks": tasks})
    assert np.all(scores > 0.5)


def test_groups_are_routed() -> None:
    import sklearn
    from sklearn.model_selection import GroupKFold

    groups = np.arange(150) % 5
    model = make_pipeline(StandardScaler(), rf.Metric(rank=2), KNeighborsClassifier())
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_val_score(model, X, y, cv=GroupKFold(3), params={"groups": groups})
    assert np.all(scores > 0.8)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_output_can_be_a_frame(kind: str) -> None:
    model = rf.Similarity(rank=2, steps=99).set_output(transform=kind).fit(X, y)
    out = model.transform(X)
    assert type(out).__module__.startswith(kind)
    assert list(out.columns) == list(model.get_feature_names_out()) == ["similarity0", "similarity1"]


def test_fitted_attributes(similarity: rf.Similarity) -> None:
    assert similarity.components_.shape == (2, 4)
    assert similarity.singular_values_.shape == (2,)
    assert similarity.n_features_in_ == 4
    assert similarity.n_iter_ == 500
    assert similarity.history_[-1]["steps"] == 500
    np.testing.assert_allclose(X @ similarity.components_.T, similarity.transform(X), rtol=1e-4, atol=1e-5)
    with pytest.raises(NotFittedError):
        rf.Similarity().transform(X)
    assert not hasattr(rf.Similarity(), "components_")


def test_rank_is_a_parameter_and_a_method() -> None:
    model = rf.Ranking(rank=2)
    assert model.rank == 2
    assert model.get_params()["rank"] == 2
    assert clone(model).set_params(rank=1).rank == 1
    labels = np.array(["x", "y", "z"])[y]
    model.fit(X, labels)
    assert list(model.classes_) == ["x", "y", "z"]
    assert model.rank(X, n=2).shape == (150, 2)
    assert np.mean(model.predict(X) == labels) > 0.6
    assert model.decision_function(X).shape == (150, 3)


def test_saved_models_load(tmp_path: Any, similarity: rf.Similarity) -> None:
    similarity.save(tmp_path / "m.safetensors")
    loaded = rf.load(tmp_path / "m.safetensors")
    assert isinstance(loaded, rf.Similarity)
    np.testing.assert_array_equal(loaded.transform(X), similarity.transform(X))
    with pytest.raises(ValueError, match="among"):
        loaded.kneighbors(X[:1])
    scores, rows = loaded.kneighbors(X[:1], 3, among=X)
    np.testing.assert_array_equal(rows, similarity.kneighbors(X[:1], 3)[1])
    with pytest.raises(FileNotFoundError):
        rf.load(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"no model")
    with pytest.raises(ValueError):
        rf.load(tmp_path / "bad")


def test_neighbors(similarity: rf.Similarity) -> None:
    scores, rows = similarity.kneighbors(X, n_neighbors=5)
    best = similarity.pair_score(X, X[rows[:, 0]])
    np.testing.assert_allclose(scores[:, 0], best)
    assert np.all(np.diff(scores, axis=1) <= 0)
    _, others = similarity.kneighbors(n_neighbors=5)
    assert not np.any(others == np.arange(150)[:, None])
    for scaling in ("auto", "none", "global"):
        metric = rf.Metric(rank=2, standardize=scaling).fit(X, y)
        distances, rows = metric.kneighbors(X, n_neighbors=2)
        np.testing.assert_allclose(distances[:, 0], 0, atol=1e-9)
        W = metric.get_mahalanobis_matrix()
        delta = X - X[::-1]
        np.testing.assert_allclose(
            metric.pair_distance(X, X[::-1]) ** 2, np.einsum("ij,jk,ik->i", delta, W, delta), rtol=1e-6, atol=1e-9
        )


def test_standard_deviations() -> None:
    model = rf.Similarity(learner="aroma-factored", steps=300).fit(X, y)
    scores, deviations = model.pair_score(X, X[::-1], return_std=True)
    assert np.all(deviations > 0) and scores.shape == deviations.shape
    with pytest.raises(ValueError, match="sure"):
        rf.Similarity(rank=2, steps=9).fit(X, y).pair_score(X, X, return_std=True)


def test_before_fit() -> None:
    triplets = np.random.default_rng(0).integers(0, 150, size=(50, 3))
    model = rf.Similarity(rank=2).partial_fit(X, triplets=triplets)
    assert (model.n_iter_, model.transform(X).shape) == (50, (150, 2))
    model.partial_fit(X, y)
    assert model.n_iter_ == 200
    ranking = rf.Ranking(rank=2).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    assert list(ranking.partial_fit(X, y).classes_) == [0, 1, 2]
    for estimator, args in [
        (rf.Metric(rank=2), {"pairs": triplets[:, :2], "same": np.arange(50) % 2 == 0}),
        (rf.Multitask(rank=1), {"y": X[:, 0]}),
        (rf.Completion(rank=1, learner="als"), None),
        (rf.Pairs(rank=1), None),
    ]:
        if args is not None:
            estimator.partial_fit(X, **args)
        elif isinstance(estimator, rf.Completion):
            estimator.partial_fit(triplets[:, 0], triplets[:, 1], X[:50, 0])
        else:
            estimator.partial_fit(X, None, triplets[:, :2], X[:50, 0])
        assert estimator.n_iter_ >= 0
    bad = rf.Similarity(rank=2)
    with pytest.raises(ValueError):
        bad.partial_fit(X, triplets=[(0, 1, 150)])
    assert not hasattr(bad, "model_")
    with pytest.raises(ValueError, match="standardize"):
        rf.Similarity(standardize="global").partial_fit(X, y)


def test_gossip() -> None:
    users, items = np.divmod(np.arange(600), 20)
    ratings = 3 + np.sin(users) * np.cos(items)
    model = rf.Gossip("completion", agents=3, rank=2).fit(users, items, ratings)
    assert model.score(users, items, ratings) > -0.3
    assert sum(len(agent.users_) for agent in model.agents_) == 30
    assert len(model.recommend(3, 5)) == 5
    tasks = rf.Gossip("multitask", agents=2, rank=1).fit(X[:, :3], X[:, 3], tasks=np.arange(150) % 6)
    assert tasks.predict(X[:, :3], tasks=np.arange(150) % 6).shape == (150,)


def test_sparse_and_dense_agree() -> None:
    sparse = rf.Similarity(rank=2, steps=200).fit(sp.csr_matrix(X), y)
    np.testing.assert_array_equal(sparse.transform(X), sparse.transform(sp.csc_matrix(X)))
