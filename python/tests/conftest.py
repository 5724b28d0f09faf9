"""What the tests share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_iris

import rankfold as rf

Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """The command ``rankfold`` of the installed package, run in a directory of its own."""

    def run(*args: Any, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rankfold", *map(str, args)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr if code else done.stdout

    return run


@pytest.fixture(scope="session")
def iris() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows without zeros, and their classes."""
    X, y = load_iris(return_X_y=True)
    return X, y


@pytest.fixture(scope="session")
def similarity(iris: tuple[Any, Any]) -> rf.Similarity:
    """A small fitted model, which no test changes."""
    return rf.Similarity(rank=2, steps=500).fit(*iris)
