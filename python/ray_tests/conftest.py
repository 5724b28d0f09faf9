"""Small clusters of Ray on this machine, with a token as Ray wants one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

# Before Ray is imported: the token is that of this run alone.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
os.environ.setdefault("RAY_DEDUP_LOGS", "0")

import ray

STORE = 100 * 2**20


@pytest.fixture(scope="session")
def local() -> Iterator[None]:
    """One node with two cores."""
    ray.init(num_cpus=2, object_store_memory=STORE, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()
