"""Tests of the plain programs that stand beside rankfold, and of what keeps the results."""

import json
import math

import numpy as np
import pytest

from reproduce import gossip, items, lab, page
from reproduce.plain import balanced, bounds, completion, d_lmafit, metrics


def planted(d, rank, share, seed=0):
    random = np.random.default_rng(seed)
    left, right = random.standard_normal((d, rank)), random.standard_normal((d, rank))
    known = random.choice(d * d, int(share * d * d), replace=False)
    i, j = known // d, known % d
    return left @ right.T, completion.Known((d, d), i, j, (left[i] * right[j]).sum(1))


def test_svt_and_admira_fill_a_matrix_of_low_rank():
    truth, known = planted(120, 2, .4)
    for left, right in (completion.svt(known, 1e-4), completion.admira(known, 2, 300, 1e-4)):
        assert left.shape[1] == 2
        assert np.linalg.norm(left @ right.T - truth) < 1e-2 * np.linalg.norm(truth)


def test_atoms_are_fitted_by_least_squares():
    random = np.random.default_rng(1)
    _, known = planted(20, 2, .5)
    left, right = random.standard_normal((20, 3)), random.standard_normal((20, 3))
    atoms = left[known.i] * right[known.j]
    want = np.linalg.lstsq(atoms, known.y, rcond=None)[0]
    assert np.allclose(completion.fitted(known, left, right), want)


def test_agents_of_d_lmafit_agree_on_the_matrix():
    truth, known = planted(60, 3, .5)
    parts, sizes = [], []
    for a in range(3):
        own = (known.j >= 20 * a) & (known.j < 20 * a + 20)
        parts.append((known.i[own], known.j[own] - 20 * a, known.y[own]))
        sizes.append(20)
    agents = d_lmafit.run(parts, 60, sizes, 3, 400, 1, lambda *_: None)
    found = np.hstack([agent.x @ agent.y for agent in agents])
    assert np.linalg.norm(found - truth) < 1e-4 * np.linalg.norm(truth)
    assert np.allclose(d_lmafit.mixing(4).sum(0), 1) and np.allclose(d_lmafit.mixing(4).sum(1), 1)


def heaps(seed=0, count=40):
    """Two classes that differ in one direction of five, which varies least."""
    random = np.random.default_rng(seed)
    classes = np.arange(count) % 2
    x = random.standard_normal((count, 5)) * [4, 4, 4, 4, .3]
    x[:, 4] += classes
    return x, classes


def test_learned_metrics_find_the_direction_of_the_classes():
    (x, c), (z, t) = heaps(0), heaps(1)
    plain = metrics.knn_error(x, c, z, t)
    for factor in (metrics.lmnn(x, c), metrics.pola(x, c, 4_000)):
        assert metrics.knn_error(x @ factor, c, z @ factor, t) < plain


def test_votes_are_those_of_the_definition():
    (x, c), (z, t) = heaps(2), heaps(3)
    wrong = 0
    for row, own in zip(z, t):
        near = np.argsort(((x - row) ** 2).sum(1), kind="stable")[:5]
        wrong += np.bincount(c[near], minlength=2).argmax() != own
    assert metrics.knn_error(x, c, z, t) == wrong / len(z)


def test_bregman_projections_end_where_distances_are_met():
    random = np.random.default_rng(4)
    g = random.standard_normal((12, 12))
    kernel = g @ g.T
    pairs = np.array([(i, j) for i in range(12) for j in range(i)])[::3]
    d = np.diag(kernel)
    want = d[pairs[:, 0]] + d[pairs[:, 1]] - 2 * kernel[pairs[:, 0], pairs[:, 1]]
    points = metrics.logdet(np.eye(12), pairs, np.zeros(len(pairs)), want, rounds=500, tolerance=1e-12)
    found = ((points[pairs[:, 0]] - points[pairs[:, 1]]) ** 2).sum(1)
    assert np.allclose(found, want, rtol=1e-3)
    # Bounds that hold change nothing.
    same = metrics.logdet(np.eye(12), pairs, np.ones(len(pairs)), np.full(len(pairs), 3.0))
    assert np.allclose(same @ same.T, np.eye(12))


def test_spectral_regression_joins_what_is_known_to_be_alike():
    random = np.random.default_rng(5)
    truth = np.arange(30) % 3
    x = random.standard_normal((30, 4)) + 1.0 * random.standard_normal((3, 4))[truth]
    pairs = np.array([(i, j) for i in range(30) for j in range(i)])
    alike = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    points = metrics.spectral_regression(x @ x.T, pairs[alike], pairs[~alike], 2, ridge=1e-9)
    few = metrics.spectral_regression(x @ x.T, pairs[:0], pairs[:0], 2)
    assert metrics.kmeans_nmi(points, truth, 3) >= metrics.kmeans_nmi(few, truth, 3)


def test_mutual_information_of_equal_and_of_independent_labels():
    a = np.arange(40) % 4
    assert metrics.nmi(a, 3 - a) == pytest.approx(1)
    assert metrics.nmi(np.arange(40) // 20, a) == pytest.approx(0, abs=1e-12)


def test_balancing_moves_no_iterate():
    random = np.random.default_rng(6)
    w = random.standard_normal((8, 2)) @ random.standard_normal((2, 6))
    z, x = random.standard_normal((200, 8)), random.standard_normal((200, 6))
    samples = [(b, a, a @ w @ b) for a, b in zip(z, x)]
    start = random.standard_normal((8, 2)) * 3, random.standard_normal((6, 2))
    without, with_it = (balanced.run(samples, start, 1e-4, every) for every in (None, 5))
    assert all(np.allclose(a, b, rtol=1e-9) for (a, _), (b, _) in zip(without, with_it))
    assert with_it[-1][1] < without[-1][1] / 10


def test_mistakes_of_the_plain_stream_are_below_the_bound():
    found = bounds.mistakes(3)
    assert 0 < found["mistakes"] <= found["bound"]


def test_a_result_is_kept_until_its_sources_change(tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "fingerprint", lambda task: "one")
    notes = lab.Notebook(tmp_path / "a.json", "pairs", True)
    assert notes.once("command", lambda: {"x": 1}) == {"x": 1}
    assert lab.Notebook(tmp_path / "a.json", "pairs", True).once("command", lambda: 1 / 0) == {"x": 1}
    # Another item takes it from there.
    assert lab.Notebook(tmp_path / "b.json", "pairs", True).once("command", lambda: 1 / 0) == {"x": 1}
    with pytest.raises(lab.Missing):
        lab.Notebook(tmp_path / "c.json", "pairs", False).once("command", lambda: {})
    monkeypatch.setattr(lab, "fingerprint", lambda task: "two")
    reader = lab.Notebook(tmp_path / "a.json", "pairs", False)
    reader.once("command", lambda: 1 / 0)
    assert reader.builds()[1] and list(reader.stale()) == ["command"]
    assert lab.Notebook(tmp_path / "a.json", "pairs", True).once("command", lambda: {"x": 2}) == {"x": 2}
    assert json.loads((tmp_path / "a.json").read_text())["command"]["sources"] == "two"


def test_rounds_that_ran_count_and_one_of_several_decides_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(items, "RESULTS", tmp_path)
    paper = items.Paper("p", "", "", [], [])

    def run(bench):
        found = bench.rounds(range(3), lambda seed: bench.once(f"seed {seed}", lambda: seed))
        return items.Outcome(items.CONFIRMED, str(found))

    item = items.Item("i", "", "", task="plain/bounds", run=run)
    notes = lab.Notebook(tmp_path / "p-i.json", "plain/bounds", True)
    assert items.outcome(paper, item, ".", False, False).verdict == items.NOT_RUN
    notes.once("seed 0", lambda: 0)
    found = items.outcome(paper, item, ".", False, False)
    assert found.rounds == (1, 3) and page.kind(found) == items.NOT_RUN
    notes.once("seed 1", lambda: 1)
    found = items.outcome(paper, item, ".", False, False)
    assert found.ours == "[0, 1]" and page.verdict(found) == "confirmed, 2 of 3 rounds"
    notes.once("seed 2", lambda: 2)
    assert page.verdict(items.outcome(paper, item, ".", False, False)) == "confirmed"


def test_a_recheck_runs_the_cheapest_command_of_each_learner_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(items, "RESULTS", tmp_path)
    monkeypatch.setattr(items, "Lab", lambda *_: type("Lab", (), {"folder": tmp_path / "none"})())
    ran = []

    def run(bench):
        def work(name, value):
            def inner():
                ran.append(name)
                return {"x": value, "cpu": len(ran)}
            return inner
        for name in ("--learner a", "--learner a --long", "--learner b"):
            bench.once(name, work(name, values[name]))
        return items.Outcome(items.CONFIRMED, "")

    paper, item = items.Paper("p", "", "", [], []), items.Item("i", "", "", task="pairs", run=run)
    values = {"--learner a": 1, "--learner a --long": 2, "--learner b": 3}
    for module in (lab, items):
        monkeypatch.setattr(module, "fingerprint", lambda task: "one")
    items.outcome(paper, item, ".", False, True)
    kept = json.loads((tmp_path / "p-i.json").read_text())
    kept["--learner a --long"]["cpu"] = 9.0
    (tmp_path / "p-i.json").write_text(json.dumps(kept))
    ran.clear()
    assert items.recheck(paper, item, ".") == "" and ran == []
    for module in (lab, items):
        monkeypatch.setattr(module, "fingerprint", lambda task: "two")
    assert "same bits" in items.recheck(paper, item, ".")
    assert ran == ["--learner a", "--learner b"]
    assert not items.outcome(paper, item, ".", False, False).stale
    # Other figures stay stale.
    for module in (lab, items):
        monkeypatch.setattr(module, "fingerprint", lambda task: "three")
    values["--learner b"] = 4
    assert "1 of 2" in items.recheck(paper, item, ".")
    assert items.outcome(paper, item, ".", False, False).stale


def test_comments_and_tests_of_a_source_do_not_count():
    code = "fn a() {\n    1\n}\n"
    assert lab.bare(f"//! What.\n{code}\n#[cfg(test)]\nmod tests {{\n}}\n") == lab.bare(f"/// Why.\n\n{code}")
    assert lab.bare(code) != lab.bare(code.replace("1", "2"))


def test_runs_that_did_not_end_are_no_choice():
    runs = [{"valid": None}, {"valid": 2.0}, {"valid": math.inf}, {"valid": math.nan}, {"valid": 1.0}]
    assert gossip.least(runs) == {"valid": 1.0}
