"""Completion by shards: the same bytes for any actors, also where some of them die."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from actors import killer, ours

import rankfold as rf
import rankfold.ray

LEARNERS: dict[str, dict[str, Any]] = {
    "bayes": {"learner": "bayes", "rank": "auto", "iterations": 12},
    "bayes-3": {"learner": "bayes", "rank": 3, "iterations": 8, "no_bias": True},
    "explicit": {"learner": "bayes", "rank": "auto", "iterations": 12, "no_implicit": True},
    "explicit-3": {"learner": "bayes", "rank": 3, "iterations": 8, "no_bias": True, "no_implicit": True},
    "als": {"learner": "als", "rank": 3, "iterations": 8, "regularization": 0.5},
}


def planted(count: int = 4000) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    users, items = rng.integers(0, 120, count), rng.integers(0, 40, count)
    left, right = rng.normal(size=(120, 2)), rng.normal(size=(40, 2))
    noise = 0.1 * rng.normal(size=count)
    ratings = 3 + np.sin(users) + np.sum(left[users] * right[items], axis=1) + noise
    return users, items, ratings


def fitted(**options: Any) -> rankfold.ray.Completion:
    return rankfold.ray.Completion(random_state=1, **options).fit(*planted())


def bytes_of(model: Any) -> bytes:
    return bytes(model.model_.to_bytes())


@pytest.mark.parametrize("name", LEARNERS)
def test_any_number_of_actors_gives_the_same_bytes(local: None, name: str) -> None:
    options = LEARNERS[name]
    alone = fitted(shards=8, actors=0, **options)
    for actors in (1, 2, 4, 8) if not name.endswith("-3") else (3,):
        found = fitted(shards=8, actors=actors, num_cpus=0.1, **options)
        assert bytes_of(found) == bytes_of(alone), actors
        assert found.report_["actors"] == actors
        assert found.report_["bytes_received"] > 0
    assert -alone.score(*planted()) < 0.2
    # Another cut is another order of sums, and hardly another model.
    other = fitted(shards=5, actors=0, **options)
    assert bytes_of(other) != bytes_of(alone)
    users, items, _ = planted()
    assert np.abs(other.predict(users, items) - alone.predict(users, items)).max() < 1e-2


def test_quality_is_that_of_the_single_process(local: None) -> None:
    users, items, ratings = planted()
    kept = np.arange(len(users)) % 5 > 0
    train = users[kept], items[kept], ratings[kept]
    held = users[~kept], items[~kept], ratings[~kept]
    sizes: list[dict[str, Any]] = [
        {},
        {"learner": "bayes", "no_implicit": True},
        {"learner": "als", "regularization": 0.5, "rank": 2},
    ]
    for options in sizes:
        one = rf.Completion(random_state=1, **options).fit(*train).score(*held)
        two = rankfold.ray.Completion(random_state=1, shards=4, actors=2, num_cpus=0.1, **options)
        assert abs(two.fit(*train).score(*held) - one) < 0.02


@pytest.mark.parametrize("at", [1, 4, 7])
@pytest.mark.parametrize("name", ["bayes", "als"])
def test_an_actor_that_dies_changes_nothing(local: None, name: str, at: int) -> None:
    options = LEARNERS[name]
    kill, killed = killer(at)
    found = fitted(shards=8, actors=2, num_cpus=0.1, callback=kill, **options)
    assert killed
    assert bytes_of(found) == bytes_of(fitted(shards=8, actors=0, **options))


def test_a_run_is_resumed_from_its_checkpoint(local: None, tmp_path: Path) -> None:
    options = LEARNERS["bayes"]
    path = tmp_path / "run.npz"
    whole = fitted(shards=4, actors=0, **options)
    stop = {"callback": lambda event: event["steps"] < 6}
    fitted(shards=4, actors=2, num_cpus=0.1, checkpoint=str(path), checkpoint_every=3, **stop, **options)
    resumed = fitted(shards=4, actors=4, num_cpus=0.1, resume=f"file://{path}", **options)
    assert bytes_of(resumed) == bytes_of(whole)
    with pytest.raises(ValueError, match="4 shards"):
        fitted(shards=5, actors=0, resume=str(path), **options)
    other = {**options, "no_implicit": not options.get("no_implicit", False)}
    with pytest.raises(ValueError, match="other values of rank"):
        fitted(shards=4, actors=0, resume=str(path), **other)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="not the checkpoint"):
        fitted(shards=4, actors=0, resume=str(path), **options)


def test_shards_are_mapped_and_data_comes_from_anywhere(local: None, tmp_path: Path) -> None:
    import pandas as pd

    options = LEARNERS["als"]
    want = bytes_of(fitted(shards=4, actors=0, **options))
    mapped = fitted(shards=4, actors=2, num_cpus=0.1, folder=str(tmp_path / "shards"), **options)
    assert bytes_of(mapped) == want
    assert len(list((tmp_path / "shards").iterdir())) == 4 * 6
    users, items, ratings = planted()
    frame = pd.DataFrame({"user": users, "item": items, "rating": ratings})
    frame.to_parquet(tmp_path / "r.parquet")
    frame.to_csv(tmp_path / "r.csv", index=False)
    sources = [frame, ray.data.from_pandas(frame), str(tmp_path / "r.parquet"), tmp_path / "r.csv"]
    for source in sources:
        model = rankfold.ray.Completion(random_state=1, shards=4, actors=0, **options).fit(source)
        assert bytes_of(model) == want, source


def test_what_has_no_meaning_by_shards_is_refused() -> None:
    for options, message in [
        ({"learner": "polar"}, "expected 'bayes' or 'als'"),
        ({"learner": "als"}, "regularization"),
        ({"no_implicit": True, "learner": "als", "regularization": 1.0}, "no_implicit"),
        ({"init": "random", "learner": "als"}, "init"),
        ({"shards": 0}, "shards"),
        ({"actors": -1}, "actors"),
        ({"rank": 99}, "1 to 40"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted(**({"actors": 0} | options))
    clone = rankfold.ray.Completion(**rankfold.ray.Completion(shards=3).get_params())
    assert clone.shards == 3 and clone.get_params() == rankfold.ray.Completion(shards=3).get_params()


def test_ctrl_c_ends_the_actors(local: None) -> None:
    def stop(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(shards=4, actors=2, num_cpus=0.1, callback=stop, **LEARNERS["als"])
    assert ours() == []


def test_without_ray_the_import_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['ray'] = None\ntry:\n    import rankfold.ray\nexcept ImportError as e:\n    print(e)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'rankfold[ray]'" in said.stdout


def test_sweeps_run_on_ray() -> None:
    sweep = Path(__file__).parents[1] / "gallery" / "ray" / "sweep.py"
    said = subprocess.run([sys.executable, sweep], capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    assert "rank of the metric" in said.stdout and "penalty of ratings" in said.stdout
