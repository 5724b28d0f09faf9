"""Gossip with agents as actors: the models of the simulation, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from actors import killer, ours
from test_completion import planted as ratings
from test_multitask import planted as tasks

import rankfold as rf
import rankfold.ray

COMPLETION: dict[str, Any] = {"agents": 4, "rank": 2, "slots": 20, "regularization": 0.01}
MULTITASK: dict[str, Any] = COMPLETION | {"regularization": 0.5, "standardize": "global"}
SEEDED: dict[str, Any] = {"random_state": 2}


def fitted(kind: type, task: str, **options: Any) -> Any:
    usual = COMPLETION if task == "completion" else MULTITASK
    model = kind(task, **(SEEDED | usual | options))
    if task == "completion":
        return model.fit(*ratings(1500))
    X, y, of_rows = tasks()
    return model.fit(X, y, tasks=of_rows)


def bytes_of(model: Any) -> list[bytes]:
    return [bytes(m.model_.to_bytes()) for m in (model, model.estimator_, *model.agents_)]


@pytest.mark.parametrize("task", ["completion", "multitask"])
def test_models_are_those_of_the_simulation(local: None, task: str) -> None:
    for options in (
        {},
        {"graph": "ring", "init": "random", "trust": 0.5},
        {"schedule": "stochastic", "step_a": 0.002, "step_b": 0.1, "precondition": True},
    ):
        one = fitted(rf.Gossip, task, **options)
        two = fitted(rankfold.ray.Gossip, task, num_cpus=0.1, **options)
        assert bytes_of(two) == bytes_of(one), options
        assert np.array_equal(two.consensus_, one.consensus_)
        assert two.report_["actors"] == 4 and two.report_["bytes_sent"] > 0
    assert ours() == []


@pytest.mark.parametrize("task", ["completion", "multitask"])
@pytest.mark.parametrize("at", [0, 7])
def test_agents_that_die_change_nothing(local: None, task: str, at: int) -> None:
    kill, killed = killer(at, 2)
    found = fitted(rankfold.ray.Gossip, task, num_cpus=0.1, callback=kill, curve_every=1)
    assert len(killed) == 2
    assert bytes_of(found) == bytes_of(fitted(rf.Gossip, task, curve_every=1))


def test_each_agent_has_a_part_of_its_own(local: None, tmp_path: Path) -> None:
    import pandas as pd

    users, items, values = ratings(1500)
    frame = pd.DataFrame({"user": users, "item": items, "rating": values})
    cuts = [frame[frame.user % 3 == part] for part in range(3)]
    cuts[0].to_parquet(tmp_path / "0.parquet")
    cuts[1].to_csv(tmp_path / "1.csv", index=False)
    parts = [tmp_path / "0.parquet", str(tmp_path / "1.csv"), cuts[2]]
    model = rankfold.ray.Gossip("completion", num_cpus=0.1, **(SEEDED | COMPLETION)).fit_parts(parts)
    assert len(model.agents_) == 3
    for part, agent in zip(cuts, model.agents_, strict=True):
        assert sorted(agent.users_) == sorted(part.user.unique())
    arrays = [tuple(part.to_numpy().T) for part in cuts]
    again = rankfold.ray.Gossip("completion", num_cpus=0.1, **(SEEDED | COMPLETION)).fit_parts(arrays)
    assert np.array_equal(again.predict(users, items), model.predict(users, items))
    with pytest.raises(ValueError, match="is in the parts 0 and 1"):
        rankfold.ray.Gossip("completion", **COMPLETION).fit_parts([frame, frame])
    with pytest.raises(ValueError, match="each agent needs data"):
        rankfold.ray.Gossip("completion", **COMPLETION).fit_parts([])

    X, y, of_rows = tasks()
    own = [np.isin(of_rows, names) for names in np.array_split(np.unique(of_rows), 3)]
    parts = [(X[rows], y[rows], of_rows[rows]) for rows in own]
    found = rankfold.ray.Gossip("multitask", num_cpus=0.1, **(SEEDED | MULTITASK)).fit_parts(parts)
    assert [len(agent.tasks_) for agent in found.agents_] == [10, 10, 10]
    assert found.score(X, y, tasks=of_rows) > 0.8


def test_a_run_that_is_stopped_ends_its_actors(local: None) -> None:
    def stop(event: dict[str, Any]) -> None:
        if event["event"] == "measured" and event["steps"] > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="was interrupted"):
        fitted(rankfold.ray.Gossip, "completion", num_cpus=0.1, callback=stop)
    assert ours() == []


def test_what_agents_elsewhere_cannot_do_is_refused(local: None) -> None:
    plain = {"geometry": "euclidean", "step_a": 0.01}
    with pytest.raises(ValueError, match="agents elsewhere have subspaces"):
        fitted(rankfold.ray.Gossip, "completion", num_cpus=0.1, **plain)
    clone = rankfold.ray.Gossip(**rankfold.ray.Gossip("multitask", num_cpus=2).get_params())
    assert clone.num_cpus == 2 and clone.get_params()["task"] == "multitask"
