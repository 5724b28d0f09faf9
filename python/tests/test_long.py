"""Long work: events, stopping, Ctrl-C, threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pytest

import rankfold as rf

random = np.random.default_rng(0)
X, y = random.normal(size=(2000, 50)), random.integers(0, 5, 2000)


def test_a_callback_gets_every_event() -> None:
    events: list[dict[str, Any]] = []
    rf.Similarity(rank=3, steps=2000, callback=events.append).fit(X, y)
    kinds = {event["event"] for event in events}
    assert {"progress", "measured", "finished"} <= kinds
    assert [e for e in events if e["event"] == "progress"][-1]["done"] == 2000


def test_a_callback_stops_a_run() -> None:
    model = rf.Similarity(
        rank=3, steps=10**9, step_size=0.01, callback=lambda event: event["event"] != "measured"
    )
    # The first point of the curve is far away: stop at the first progress instead.
    model.set_params(curve_every=1000)
    model.fit(X, y)
    assert model.report_["stopped"] == "interrupted"
    assert model.transform(X).shape == (2000, 3)


@pytest.mark.parametrize(
    ("estimator", "use"),
    [
        (rf.Similarity(rank=2, steps=10**9, step_size=0.01), lambda model: model.kneighbors(X[:1], 3)),
        (rf.Ranking(rank=2, epochs=10**6), lambda model: model.rank(X[:1], n=2)),
        (rf.Metric(solver="online", rank=2, steps=10**9), lambda model: model.kneighbors(X[:1], 3)),
    ],
)
def test_an_interrupted_estimator_can_be_used(estimator: Any, use: Any) -> None:
    def callback(event: dict[str, Any]) -> None:
        if event["event"] == "progress":
            raise KeyboardInterrupt

    estimator.set_params(callback=callback)
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        estimator.fit(X, y)
    use(estimator)
    assert estimator.n_features_in_ == 50


def test_gossip_stops_while_it_chooses() -> None:
    code = textwrap.dedent(
        """
        import os, signal, threading, numpy as np, rankfold as rf
        users, items = np.divmod(np.arange(3000), 50)
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            rf.Gossip("completion", agents=3, rank=2, slots=10**9).fit(users, items, np.sin(users + items**2))
        except KeyboardInterrupt:
            print("stopped")
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "stopped\n"


def test_the_command_starts_without_numpy() -> None:
    code = "import sys, rankfold._command; print(sorted({'numpy', 'sklearn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_an_error_in_a_callback_is_raised() -> None:
    def callback(event: dict[str, Any]) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        rf.Similarity(rank=3, steps=2000, callback=callback).fit(X, y)


def test_progress_is_shown(capsys: Any) -> None:
    rf.Similarity(rank=3, steps=2000, verbose=2).fit(X, y)
    assert "Similarity" in capsys.readouterr().err


def test_other_threads_run_meanwhile() -> None:
    counted = [0]
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    rf.Similarity(rank=30, steps=100_000, step_size=0.1, n_jobs=1).fit(X, y)
    done.set()
    thread.join()
    assert counted[0] > 20


def test_models_can_be_asked_and_taught_by_many_threads() -> None:
    model = rf.Similarity(rank=3, steps=500).fit(X, y)
    triplets = random.integers(0, 2000, size=(500, 3))
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(5):
                if number % 2:
                    model.model_.info()
                    model.transform(X[:50])
                else:
                    model.partial_fit(X, triplets=triplets)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert model.model_.info()["counters"]["steps"] == 500 + 2 * 5 * 500


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_children_of_a_fork_can_learn() -> None:
    code = "import os, numpy as np, rankfold as rf\n" + textwrap.dedent(
        """
        X, y = np.random.default_rng(0).normal(size=(300, 5)), np.arange(300) % 3
        rf.Metric(rank=2, n_jobs=2).fit(X, y)
        child = os.fork()
        if child == 0:
            rf.Metric(rank=2, n_jobs=2).fit(X, y)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_control_c_stops_at_once_and_keeps_what_was_learned() -> None:
    code = textwrap.dedent(
        """
        import sys, time, warnings, numpy as np, rankfold as rf
        X, y = np.random.default_rng(0).normal(size=(2000, 50)), np.arange(2000) % 5
        model = rf.Similarity(rank=10, steps=10**10, step_size=0.01)
        print("ready", flush=True)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.fit(X, y)
        except KeyboardInterrupt:
            print("stopped", model.n_iter_ > 0, model.transform(X).shape, len(caught), flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(2)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out == "stopped True (2000, 10) 1\n"
    assert time.monotonic() - start < 20
