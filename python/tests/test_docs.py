"""The pages, the notebook and the gallery hold what they say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

ROOT = Path(__file__).parents[2]
random = np.random.default_rng(0)
X, y = load_iris(return_X_y=True)
WIDE = np.hstack([X, random.normal(size=(150, 30))])


def run(page: str, **names: Any) -> dict[str, Any]:
    """Runs the blocks of a page that are meant for rankfold."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    code = [block for block in blocks if "import rankfold" in block]
    assert code
    for block in code:
        exec(compile(block, page, "exec"), names)
    return names


def ratings() -> pd.DataFrame:
    users, items = np.divmod(np.arange(400), 20)
    return pd.DataFrame({"user": users, "item": items, "rating": 3 + np.sin(users) * np.cos(items)})


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", ["README.md", "python/README.md"])
def test_readme(page: str) -> None:
    run(page)


def test_guide() -> None:
    run("docs/python.md", X=X, y=y, q=0, p=1, n=149)


def test_metric_learn() -> None:
    pairs = random.integers(0, 150, size=(60, 2))
    theirs = SimpleNamespace(components_=random.normal(size=(3, 34)))
    names = {"pairs": pairs, "same": y[pairs[:, 0]] == y[pairs[:, 1]], "A": WIDE, "B": WIDE[::-1]}
    run("docs/coming-from/metric-learn.md", X=WIDE, y=y, np=np, theirs=theirs, **names)


def factors() -> SimpleNamespace:
    users, items = random.normal(size=(40, 3)), random.normal(size=(35, 3))
    biases = {"bu": random.normal(size=40), "bi": random.normal(size=35)}
    return SimpleNamespace(user_factors=users, item_factors=items, pu=users, qi=items, **biases)


def test_implicit() -> None:
    user_items = sp.random(40, 35, 0.6, format="csr", random_state=0)
    theirs = factors()
    found = run("docs/coming-from/implicit.md", user_items=user_items, u=3, i=5, theirs=theirs)
    scores = theirs.user_factors @ theirs.item_factors.T
    np.testing.assert_allclose(found["model"].predict([3, 7], [5, 0]), scores[[3, 7], [5, 0]], rtol=1e-5)
    assert not set(found["model"].recommend(3, 35, exclude=found["seen"])) & set(found["seen"])


def test_lightfm() -> None:
    F = random.normal(size=(40, 34))
    interactions = (random.random((40, 35)) < 0.2).astype(int)
    theirs = factors()
    theirs.get_user_representations = lambda F: (theirs.bu, theirs.pu)
    theirs.get_item_representations = lambda: (theirs.bi, theirs.qi)
    names = {"F": F, "interactions": sp.csr_matrix(interactions), "more": interactions, "u": 3}
    found = run("docs/coming-from/lightfm.md", items=[1, 2], theirs=theirs, **names)
    scores = theirs.bu[3] + theirs.bi + theirs.pu[3] @ theirs.qi.T
    np.testing.assert_array_equal(found["model"].recommend(3, 10), np.argsort(-scores)[:10])


def test_surprise() -> None:
    frame = ratings()
    names = np.array(["ann", "bob", *map(str, range(2, 40))])
    frame["user"], frame["item"] = names[frame["user"]], np.array(["alien", *"bcdefghijklmnopqrst"])[frame["item"]]
    films = [f"film{i}" for i in range(34)] + ["alien"]
    trainset = SimpleNamespace(
        n_users=40, n_items=35, global_mean=3.0, to_raw_uid=names.__getitem__, to_raw_iid=films.__getitem__
    )
    theirs = factors()
    found = run("docs/coming-from/surprise.md", frame=frame, test_frame=frame, trainset=trainset, theirs=theirs)
    want = np.clip(3 + theirs.bu[0] + theirs.bi[34] + theirs.pu[0] @ theirs.qi[34], 1, 5)
    assert found["model"].predict(["ann"], ["alien"])[0] == pytest.approx(want, rel=1e-5)


def test_cmfrec() -> None:
    frame = ratings().rename(columns={"user": "UserId", "item": "ItemId", "rating": "Rating"})
    # More users and items than the rank.
    frame = pd.concat([frame, frame + 20, frame + 40])
    theirs = factors()
    vars(theirs).update(A_=theirs.pu, B_=theirs.qi, user_bias_=theirs.bu, item_bias_=theirs.bi)
    vars(theirs).update(glob_mean_=3.0, user_mapping_=np.arange(40), item_mapping_=np.arange(35))
    names = {"u": [1], "i": [2], "seen": [3], "items": [1, 2], "ratings": [3.0, 4.0]}
    run("docs/coming-from/cmfrec.md", frame=frame, theirs=theirs, **names)


def test_pymanopt() -> None:
    frame = ratings()
    u, s, vt = np.linalg.svd(frame["rating"].to_numpy().reshape(20, 20))
    names = {"rows": frame["user"], "columns": frame["item"], "values": frame["rating"], "k": 1}
    point = {"u": u[:, :2], "s": s[:2], "vt": vt[:2], "m": 20, "n": 20}
    found = run("docs/coming-from/pymanopt.md", **names, **point)
    # The ratings have rank 2.
    assert found["model"].score(frame["user"], frame["item"], frame["rating"]) > -1e-6


def test_notebook(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    cells = json.loads((ROOT / "python/gallery/text_search.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            lines = [line for line in cell["source"] if not line.startswith("!")]
            exec("".join(lines), names)
    assert names["topics"][names["rows"][0][0]] == "space"
    assert Path("news.safetensors").exists()


def test_gallery_is_short() -> None:
    scripts = sorted((ROOT / "python/gallery").glob("*.py"))
    assert len(scripts) >= 9
    for script in scripts:
        assert len(script.read_text().splitlines()) <= 40
        assert "plt.show()" in script.read_text()
