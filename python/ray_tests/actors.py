"""The actors of a run, and a callback that kills some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray


def ours() -> list[str]:
    """The actors of rankfold that live."""
    return sorted(name for name in ray.util.list_named_actors() if name.startswith("rankfold-"))


def killer(at: int, count: int = 1) -> tuple[Callable[[dict[str, Any]], None], list[str]]:
    """A callback that kills some actors after step `at`, and whom it killed."""
    killed: list[str] = []

    def kill(event: dict[str, Any]) -> None:
        if event["event"] == "measured" and event["steps"] >= at and not killed:
            for victim in ours()[:count]:
                # As a crash does, not as a user who wants no other one.
                ray.kill(ray.get_actor(victim), no_restart=False)
                killed.append(victim)

    return kill, killed
