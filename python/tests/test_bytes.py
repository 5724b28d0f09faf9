"""Python and the command line write the same bytes, for every task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_iris, make_multilabel_classification

import rankfold as rf

Command = Any
random = np.random.default_rng(0)
X, y = load_iris(return_X_y=True)


@pytest.fixture
def svm(tmp_path: Path) -> Path:
    path = tmp_path / "train.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


def same(model: Any, path: Path) -> None:
    model.save(path.with_suffix(".python"))
    assert path.with_suffix(".python").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"rank": 2, "steps": 500}, ["--rank", "2", "--steps", "500"]),
        ({"rank": 2, "steps": 300, "random_state": 7}, ["--rank", "2", "--steps", "300", "--seed", "7"]),
        (
            {"learner": "oasis", "steps": 300, "precision": "f64"},
            ["--learner", "oasis", "--steps", "300", "--precision", "f64"],
        ),
        (
            {"learner": "aroma-factored", "steps": 200, "standardize": "global", "valid_fraction": 0.2},
            "--learner aroma-factored --steps 200 --standardize global --valid-fraction 0.2".split(),
        ),
    ],
)
def test_similarity(tmp_path: Path, svm: Path, command: Command, options: Any, flags: Any) -> None:
    command("train", "similarity", svm, "-o", "m.safetensors", "--quiet", *flags)
    model = rf.Similarity(**options).fit(X, y)
    same(model, tmp_path / "m.safetensors")
    # Sparse rows are the same rows.
    same(rf.Similarity(**options).fit(sp.csr_matrix(X), y), tmp_path / "m.safetensors")


def test_similarity_update(tmp_path: Path, svm: Path, command: Command) -> None:
    command("train", "similarity", svm, "-o", "m.safetensors", "--rank", 2, "--steps", 300)
    triplets = random.integers(0, 150, size=(400, 3))
    lines = [json.dumps({"query": int(q), "positive": int(p), "negative": int(n)}) for q, p, n in triplets]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    command("update", "m.safetensors", "t.jsonl", "--rows", svm, "-o", "u.safetensors")
    model = rf.Similarity(rank=2, steps=300).fit(X, y)
    model.partial_fit(X, triplets=triplets[:100]).partial_fit(X, triplets=triplets[100:])
    same(model, tmp_path / "u.safetensors")
    assert model.n_iter_ == 700
    # One at a time, through a handle.
    model = rf.Similarity(rank=2, steps=300).fit(X, y)
    learner = model.online(X)
    for q, p, n in triplets.tolist():
        learner.learn(q, p, n)
    same(model, tmp_path / "u.safetensors")


def test_new_features(tmp_path: Path, svm: Path, command: Command) -> None:
    wide = np.hstack([X, random.normal(size=(150, 2))])
    dump_svmlight_file(wide, y, str(tmp_path / "wide.svm"), zero_based=False)
    command("train", "similarity", svm, "-o", "m.safetensors", "--rank", 2, "--steps", 300)
    (tmp_path / "t.jsonl").write_text('{"query":1,"positive":2,"negative":149}\n')
    command("update", "m.safetensors", "t.jsonl", "--rows", "wide.svm", "-o", "u.safetensors")
    model = rf.Similarity(rank=2, steps=300).fit(X, y)
    # Decimal numbers of the file are f32 in the model.
    rows = np.asarray(wide, dtype=np.float32)
    model.partial_fit(rows, triplets=[(1, 2, 149)])
    assert model.n_features_in_ == 6
    same(model, tmp_path / "u.safetensors")


@pytest.mark.parametrize("solver", [None, "online"])
def test_metric(tmp_path: Path, svm: Path, command: Command, solver: Any) -> None:
    flags = ["--rank", "2"] + (["--solver", "online", "--steps", "300"] if solver else [])
    command("train", "metric", svm, "-o", "m.safetensors", *flags)
    options: Any = {"rank": 2} | ({"solver": "online", "steps": 300} if solver else {})
    model = rf.Metric(**options).fit(X, y)
    same(model, tmp_path / "m.safetensors")
    pairs = random.integers(0, 150, size=(100, 2))
    alike = y[pairs[:, 0]] == y[pairs[:, 1]]
    lines = [
        json.dumps({"left": int(a), "right": int(b), "same": bool(s)}) for (a, b), s in zip(pairs, alike)
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(lines) + "\n")
    command("update", "m.safetensors", "p.jsonl", "--rows", svm, "-o", "u.safetensors")
    model.partial_fit(X, pairs=pairs, same=alike)
    same(model, tmp_path / "u.safetensors")


def test_metric_of_pairs(tmp_path: Path, svm: Path, command: Command) -> None:
    pairs = random.integers(0, 150, size=(200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    alike = y[pairs[:, 0]] == y[pairs[:, 1]]
    lines = [f"{a} {b} {'same' if s else 'different'}" for (a, b), s in zip(pairs, alike)]
    (tmp_path / "known.txt").write_text("\n".join(lines) + "\n")
    command("train", "metric", svm, "-o", "m.safetensors", "--rank", 2, "--pairs", "known.txt")
    same(rf.Metric(rank=2).fit_pairs(X, pairs, alike), tmp_path / "m.safetensors")


@pytest.mark.parametrize("form", ["dense", "sparse", "lists"])
def test_ranking(tmp_path: Path, command: Command, form: str) -> None:
    rows, Y = make_multilabel_classification(200, n_classes=6, random_state=0)
    labels: Any = {
        "dense": Y,
        "sparse": sp.csr_matrix(Y),
        "lists": [np.flatnonzero(row).tolist() for row in Y],
    }[form]
    dump_svmlight_file(rows, Y, str(tmp_path / "t.svm"), zero_based=False, multilabel=True)
    command("train", "ranking", "t.svm", "-o", "m.safetensors", "--rank", 3, "--epochs", 2)
    model = rf.Ranking(rank=3, epochs=2).fit(rows, labels)
    same(model, tmp_path / "m.safetensors")
    lines = [
        json.dumps({"row": i, "labels": [str(j) for j in np.flatnonzero(Y[i])]}) for i in range(50)
    ]
    (tmp_path / "s.jsonl").write_text("\n".join(lines) + "\n")
    command("update", "m.safetensors", "s.jsonl", "--rows", "t.svm", "-o", "u.safetensors")
    model.partial_fit(rows[:50], labels[:50])
    same(model, tmp_path / "u.safetensors")


@pytest.mark.parametrize("learner", ["als", "polar", "auto"])
def test_completion(tmp_path: Path, command: Command, learner: Any) -> None:
    users, items = random.integers(0, 40, 900), random.integers(0, 30, 900)
    ratings = np.round(3 + np.sin(users) * np.cos(items) + random.normal(size=900) / 4, 1)
    frame = pd.DataFrame({"user": users, "item": items, "rating": ratings})
    frame.to_csv(tmp_path / "r.csv", index=False)
    command("train", "completion", "r.csv", "-o", "m.safetensors", "--rank", 2, "--learner", learner)
    model = rf.Completion(rank=2, learner=learner).fit(users, items, ratings)
    same(model, tmp_path / "m.safetensors")
    same(rf.Completion(rank=2, learner=learner).fit(frame), tmp_path / "m.safetensors")
    lines = [json.dumps({"user": f"new{i % 5}", "item": str(i % 30), "rating": 3.5}) for i in range(40)]
    (tmp_path / "s.jsonl").write_text("\n".join(lines) + "\n")
    command("update", "m.safetensors", "s.jsonl", "-o", "u.safetensors")
    model.partial_fit([f"new{i % 5}" for i in range(40)], [i % 30 for i in range(40)], [3.5] * 40)
    same(model, tmp_path / "u.safetensors")
    assert len(model.users_) == len(model.user_factors_) == 45


@pytest.mark.parametrize("learner", ["auto", "items", "als"])
def test_recommend(tmp_path: Path, command: Command, learner: str) -> None:
    users, items = random.integers(0, 40, 500), random.integers(0, 25, 500)
    frame = pd.DataFrame({"user": users, "item": items})
    frame.to_csv(tmp_path / "c.csv", index=False)
    command("train", "recommend", "c.csv", "-o", "m.safetensors", "--rank", 2, "--learner", learner)
    model = rf.Recommend(rank=2, learner=learner).fit(users, items)
    same(model, tmp_path / "m.safetensors")
    same(rf.Recommend(rank=2, learner=learner).fit(frame), tmp_path / "m.safetensors")
    lines = [json.dumps({"user": f"new{i % 5}", "item": str(i % 30)}) for i in range(40)]
    (tmp_path / "s.jsonl").write_text("\n".join(lines) + "\n")
    command("update", "m.safetensors", "s.jsonl", "-o", "u.safetensors")
    model.partial_fit([f"new{i % 5}" for i in range(40)], [i % 30 for i in range(40)])
    same(model, tmp_path / "u.safetensors")
    assert len(model.users_) == len(model.user_factors_) == 45
    seen = set(items[users == 3])
    assert not seen & set(model.recommend(3, n=5).tolist())
    shown, scores = model.recommend(3, n=5, exclude=[4], return_scores=True)
    assert 4 not in shown and list(scores) == sorted(scores, reverse=True)
    assert len(model.recommend(3, n=40, seen=True)) == len(model.items_)
    assert len(model.recommend_for([1, 2, "unknown"], n=3)) == 3
    assert len(model.similar_items(2, n=4)) == 4
    assert 0.0 <= model.score(users[:50], (items[:50] + 1) % 25) <= 1.0
    model.save(tmp_path / "p.safetensors")
    again = rf.load(tmp_path / "p.safetensors")
    assert again.recommend("3", n=5).tolist() == [str(i) for i in model.recommend(3, n=5)]
    with pytest.raises(ValueError, match="knows no user"):
        model.recommend("nobody")
    with pytest.raises(ValueError, match="weight above 0"):
        model.partial_fit([1], [1], [0.0])


def test_gossip(tmp_path: Path, command: Command) -> None:
    users, items = random.integers(0, 20, 300), random.integers(0, 15, 300)
    ratings = 1.0 + (users * items) % 5
    rows = [f"u{u},i{i},{r}" for u, i, r in zip(users, items, ratings)]
    (tmp_path / "r.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    flags = "--agents 3 --rank 2 --slots 30 --regularization 0.01".split()
    command("gossip", "run", "completion", "r.csv", "-o", "g.safetensors", *flags)
    model = rf.Gossip("completion", agents=3, rank=2, slots=30, regularization=0.01)
    model.fit([f"u{u}" for u in users], [f"i{i}" for i in items], ratings)
    same(model, tmp_path / "g.safetensors")


def test_multitask(tmp_path: Path, command: Command) -> None:
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    schools = [f"s{i % 5}" for i in range(150)]
    table = frame.assign(task=schools, target=X[:, 3])
    table.to_csv(tmp_path / "t.csv", index=False)
    command("train", "multitask", "t.csv", "-o", "m.safetensors", "--rank", 2)
    model = rf.Multitask(rank=2).fit(frame, X[:, 3], tasks=schools)
    same(model, tmp_path / "m.safetensors")
    table[:20].assign(task="new").to_csv(tmp_path / "n.csv", index=False)
    command("update", "m.safetensors", "n.csv", "-o", "u.safetensors")
    model.partial_fit(frame[:20], X[:20, 3], tasks=["new"] * 20)
    same(model, tmp_path / "u.safetensors")
    assert list(model.tasks_) == ["s0", "s1", "s2", "s3", "s4", "new"]


def test_pairs(tmp_path: Path, svm: Path, command: Command) -> None:
    pairs = random.integers(0, 150, size=(300, 2))
    values = np.round(X[pairs[:, 0], 0] * X[pairs[:, 1], 1], 3)
    lines = [f"{a} {b} {v}" for (a, b), v in zip(pairs, values)]
    (tmp_path / "v.txt").write_text("\n".join(lines) + "\n")
    command("train", "pairs", svm, "--pairs", "v.txt", "-o", "m.safetensors", "--rank", 2)
    model = rf.Pairs(rank=2).fit(X, None, pairs, values)
    same(model, tmp_path / "m.safetensors")
    stream = [json.dumps({"left": int(a), "right": int(b), "value": v}) for (a, b), v in zip(pairs, values)]
    (tmp_path / "s.jsonl").write_text("\n".join(stream) + "\n")
    command("update", "m.safetensors", "s.jsonl", "--rows", svm, "-o", "u.safetensors")
    same(model.partial_fit(X, None, pairs, values), tmp_path / "u.safetensors")


def test_kernel_and_map(tmp_path: Path, svm: Path, command: Command) -> None:
    command("train", "kernel", svm, "-o", "k.safetensors", "--rank", 3, "--constraints", 200)
    same(rf.Kernel(rank=3, constraints=200).fit(X, y), tmp_path / "k.safetensors")
    points = random.normal(size=(12, 2))
    D = np.round(np.linalg.norm(points[:, None] - points, axis=2), 4)
    np.save(tmp_path / "d.npy", D)
    command("train", "kernel", "--mds", "d.npy", "-o", "map.safetensors")
    same(rf.Map().fit(D), tmp_path / "map.safetensors")


def test_text(tmp_path: Path, command: Command) -> None:
    texts = ["red apple pie", "green apple", "fast red car", "a fast car", "apple pie pie"]
    labels = ["fruit", "fruit", "car", "car", "fruit"]
    lines = [json.dumps({"text": t, "label": c}) for t, c in zip(texts, labels)]
    (tmp_path / "d.jsonl").write_text("\n".join(lines) + "\n")
    command("vectorize", "d.jsonl", "-o", "d.svm", "--fit", "v.json")
    vectorizer = rf.TextVectorizer().fit(texts, labels)
    assert bytes(vectorizer.vocabulary_.to_bytes()) == (tmp_path / "v.json").read_bytes()
    from sklearn.datasets import load_svmlight_file

    rows, _ = load_svmlight_file(str(tmp_path / "d.svm"), n_features=len(vectorizer.vocabulary_.terms))
    np.testing.assert_allclose(vectorizer.transform(texts).toarray(), rows.toarray(), rtol=1e-6)
