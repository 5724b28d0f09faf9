"""Models merged, and the arithmetic of shards without a cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rankfold as rf
from rankfold._shards import InProcess, Plan, Run, cut, mapped, store, without_repeats


def planted(count: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    users, items = rng.integers(0, 60, count), rng.integers(0, 30, count)
    left, right = rng.normal(size=(60, 2)), rng.normal(size=(30, 2))
    return users, items, 3 + np.sum(left[users] * right[items], axis=1) + 0.1 * rng.normal(size=count)


def test_halves_become_one_model(tmp_path: Path) -> None:
    users, items, ratings = planted()
    halves = []
    for half in (users < 30, users >= 30):
        model = rf.Completion(learner="als", rank=2, regularization=0.5, random_state=1)
        halves.append(model.fit(users[half], items[half], ratings[half]))
    merged = rf.merge(halves)
    assert len(merged.users_) == 60 and merged.rank_ == 2
    assert -merged.score(users, items, ratings) < 0.5
    assert merged.report_["lost"] < 0.5
    halves[0].save(tmp_path / "a.safetensors")
    same = rf.merge([tmp_path / "a.safetensors", halves[0]])
    mine = users < 30
    found, want = same.predict(users[mine], items[mine]), halves[0].predict(users[mine], items[mine])
    assert np.abs(found - want).max() < 1e-4
    with pytest.raises(ValueError, match="expected one task"):
        rf.merge([halves[0], rf.Metric.from_components([[1.0, 0.0]])])


def test_tasks_of_two_parts_become_one_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X, schools = rng.normal(size=(600, 4)), rng.integers(0, 8, 600)
    y = X @ [1.0, 2.0, 0.0, -1.0] + schools * (1 + X[:, 2]) + 0.1 * rng.normal(size=600)
    parts = []
    for part in (schools < 5, schools >= 3):
        model = rf.Multitask(rank=1, regularization=1.0, standardize="global")
        parts.append(model.fit(X[part], y[part], tasks=schools[part]))
    both = rf.merge(parts, rank=4)
    assert len(both.tasks_) == 8 and both.report_["lost"] < 1e-9
    for part, own in zip(parts, (schools < 3, schools >= 5)):
        want = part.predict(X[own], tasks=schools[own])
        assert np.abs(both.predict(X[own], tasks=schools[own]) - want).max() < 1e-6
    assert rf.merge(parts).rank_ == 1
    both.partial_fit(X[:50], y[:50], tasks=schools[:50])
    both.save(tmp_path / "both.safetensors")
    again = rf.merge([tmp_path / "both.safetensors", parts[0]])
    assert again.score(X, y, tasks=schools) > 0.9


def test_distributions_add_up_what_they_learned() -> None:
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 3, 90)
    X = 0.3 * rng.normal(size=(90, 6)) + np.eye(3, 6)[labels]
    half = np.arange(90) < 45
    parts = [rf.Similarity(learner="aroma-factored", steps=200).fit(X[own], labels[own]) for own in (half, ~half)]
    both, same = rf.merge(parts), rf.merge([parts[0], parts[0]])
    scores, deviations = parts[0].pair_score(X[:9], X[9:18], return_std=True)
    found, surer = same.pair_score(X[:9], X[9:18], return_std=True)
    assert np.allclose(found, scores, atol=1e-5) and (surer < deviations).all()
    assert (both.pair_score(X[:9], X[9:18], return_std=True)[1] < deviations).all()


def run(shards: int, threads: int, folder: Path | None = None, learner: str = "bayes") -> bytes:
    users, items, ratings = planted()
    entries = without_repeats(users, items, ratings, 30)
    implicit = learner == "implicit"
    learner = "bayes" if implicit else learner
    plan = Plan(learner, 3, True, False, implicit, 0.5, 0.5, 8, 0.0, 1, threads, shards, (60, 30))
    parts = cut(*entries, (60, 30), shards)
    if folder is not None:
        parts = [mapped(store(part, str(folder), s)) for s, part in enumerate(parts)]
    holder = InProcess(parts, threads)
    going = Run.start(plan, holder)
    while going.goes_on():
        going.sweep(holder)
        going = Run.from_bytes(plan, going.to_bytes())
    names = [str(i) for i in range(60)], [str(i) for i in range(30)]
    counts = np.bincount(entries[0], minlength=60)
    return bytes(going.model(holder, *names, counts, None, "f32").to_bytes())


@pytest.mark.parametrize("learner", ["implicit", "bayes", "als"])
def test_bytes_follow_from_the_number_of_shards(tmp_path: Path, learner: str) -> None:
    want = run(4, 1, learner=learner)
    assert run(4, 3, learner=learner) == want
    assert run(4, 1, tmp_path, learner) == want
    assert run(3, 1, learner=learner) != want


def test_damaged_shards_are_refused() -> None:
    users, items, ratings = planted(50)
    (rows, columns), *_ = cut(*without_repeats(users, items, ratings, 30), (60, 30), 1)
    broken = (rows[0], rows[1] + np.uint32(30), rows[2])
    with pytest.raises(ValueError, match="place"):
        rf._rankfold.shard_counts(broken, columns)
    with pytest.raises(ValueError, match="do not fit"):
        rf._rankfold.shard_counts((rows[0] + np.uint64(1), rows[1], rows[2]), columns)
    with pytest.raises(ValueError, match="not the whole state"):
        rf._rankfold.Shards.from_bytes(b"rfshard2 and more")
