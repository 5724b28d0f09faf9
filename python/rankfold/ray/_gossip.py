"""Agents that keep their data and agree on a subspace, each an actor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from .. import _rankfold
from .._gossip import Gossip as _Gossip
from .._inputs import column
from .._ratings import _COLUMNS, rated
from ._actors import _Crew
from ._cluster import OnCluster, connect
from ._read import read

#: Parameters beside those of `rankfold.Gossip`: name, default.
_OWN: dict[str, Any] = {"num_cpus": 1}


class _Seat:
    """An agent. All it knows is its data and how far it is: a new one goes on from its state."""

    def __init__(self, place: list[Any]) -> None:
        self.seat, self.turns = _rankfold.GossipSeat(ray.get(place[0])), -1

    def _at(self, turns: int, state: list[Any]) -> None:
        # A new actor, or one whose answer was lost on the way.
        if self.turns != turns:
            self.seat.restore(ray.get(state[0]))
            self.turns = turns

    def begin(self) -> NDArray[np.uint8]:
        """Goes to its start; gives its state there."""
        self.turns = 0
        return self.seat.begin()

    def turn(
        self, turns: int, state: list[Any], other: int, message: NDArray[np.uint8], size: float | None
    ) -> NDArray[np.uint8]:
        """Hears a neighbor and steps; gives its state after that."""
        self._at(turns, state)
        self.turns = -1
        after = self.seat.turn(other, message, size)
        self.turns = turns + 1
        return after

    def cost(self, turns: int, state: list[Any]) -> float:
        """Its own cost."""
        self._at(turns, state)
        return self.seat.cost()


class _Seats(_Crew):
    """All agents. Their states are kept here: in them is what neighbors hear."""

    def deal(self, places: list[NDArray[np.uint8]]) -> None:
        """Gives each agent its data."""
        self.sources = [ray.put(place) for place in places]
        self.moved.sent += sum(place.nbytes for place in places)
        for source in self.sources:
            # In a list it is read where it is needed.
            self.hire(_Seat, [source])

    def _kept(self, agents: Sequence[int], states: list[NDArray[np.uint8]]) -> None:
        for i, state in zip(agents, states, strict=True):
            self.states[i] = ray.put(state)

    def begin(self) -> list[NDArray[np.uint8]]:
        """The states of all agents at their starts."""
        found: list[NDArray[np.uint8]] = self._get([actor.begin.remote() for actor in self.actors])
        self.moved.received += sum(state.nbytes for state in found)
        self.restore(found)
        return found

    def restore(self, states: list[NDArray[np.uint8]]) -> None:
        """Sets all agents to these states."""
        self.turns_of = [0] * len(states)
        self.states: list[Any] = [None] * len(states)
        self._kept(range(len(states)), states)

    def turns(
        self, turns: list[tuple[int, int, NDArray[np.uint8], float | None]]
    ) -> list[NDArray[np.uint8]]:
        """Lets some agents take their turns, all at once; their states after that."""
        asked = []
        for agent, other, message, size in turns:
            named = self.actors[agent].turn.options(name=f"rankfold.turn[{agent}]")
            asked.append(
                named.remote(self.turns_of[agent], [self.states[agent]], other, message, size)
            )
            self.turns_of[agent] += 1
            self.moved.sent += message.nbytes
        found: list[NDArray[np.uint8]] = self._get(asked)
        self.moved.received += sum(state.nbytes for state in found)
        self._kept([turn[0] for turn in turns], found)
        return found

    def costs(self) -> list[float]:
        """The own costs of all agents where they are."""
        known = zip(self.actors, self.turns_of, self.states, strict=True)
        found: list[float] = self._get([actor.cost.remote(turns, [state]) for actor, turns, state in known])
        return found


class Gossip(OnCluster, _Gossip):
    """Learn by agents that keep their data and agree on a subspace, on a cluster that runs Ray.

    Each agent is an actor. It gets the ratings of its users or the rows of its tasks once, and from
    then on only what a neighbor says. This process draws the same slots as `rankfold.Gossip` and
    passes subspaces on. So the models have the bytes that `rankfold.Gossip` gives with the same
    parameters and data, also after some of the actors died.

    Parameters beside those of `rankfold.Gossip`:

    num_cpus : float, default=1
        Cores of an actor, for Ray.

    What is not given and chosen on held-out data is chosen in this process before the run, as
    `rankfold.Gossip` does: give `regularization` to begin at once. The geometry is 'grassmann'.

    Attributes
    ----------
    estimator_ : Completion or Multitask
        The model of all users or tasks, with the mean of the subspaces.
    agents_ : list of Completion or Multitask
        The model of each agent, for its own users or tasks.

    Examples
    --------
    >>> import numpy as np
    >>> import rankfold.ray
    >>> users, items = np.divmod(np.arange(200), 10)
    >>> ratings = 3 + np.sin(users) * np.cos(items)
    >>> options = {"agents": 2, "rank": 1, "regularization": 0.01, "num_cpus": 0.1}
    >>> model = rankfold.ray.Gossip("completion", **options).fit(users, items, ratings)
    >>> len(model.agents_)
    2
    """

    _own = _OWN
    num_cpus: float

    def fit_parts(
        self,
        parts: Sequence[Any],
        *,
        edges: Any = None,
        columns: tuple[str, str, str] = _COLUMNS,
    ) -> Gossip:
        """Learn from one part of the data for each agent.

        Parameters
        ----------
        parts : list
            For "completion" paths of Parquet or CSV files, frames, Ray Datasets, sparse matrices or
            (users, items, ratings) of each agent; for "multitask" its (X, y, tasks). No user or
            task is in two parts.
        edges : array-like of shape (m, 2), optional
            A graph of your own: numbers of two agents, from 0.
        columns : tuple of three names
            The columns of frames, Datasets or files.

        Returns
        -------
        Gossip
            The fitted estimator.
        """
        tasks = vars(self)["task"] == "multitask"
        found = [_columns(part, columns, tasks) for part in parts]
        owners = [column(part[2 if tasks else 0], "tasks" if tasks else "users") for part in found]
        distinct = [np.unique(own) for own in owners]
        known: dict[Any, int] = {}
        for number, own in enumerate(distinct):
            for name in own.tolist():
                if known.setdefault(name, number) != number:
                    raise ValueError(
                        f"{'task' if tasks else 'user'} {name!r} is in the parts {known[name]} and "
                        f"{number}: each agent has its own"
                    )
        shares = [len(own) for own in distinct]
        if not shares or min(shares) == 0:
            raise ValueError("parts: each agent needs data")
        of_rows = np.concatenate(owners)
        if tasks:
            rows = _stacked([part[0] for part in found])
            targets = np.concatenate([column(part[1], "y") for part in found])
            self._fit(rows, targets, None, of_rows, edges, columns, shares)
        else:
            items, ratings = (
                np.concatenate([column(part[i], name) for part in found])
                for i, name in ((1, "items"), (2, "ratings"))
            )
            self._fit(of_rows, items, ratings, None, edges, columns, shares)
        return self

    def _run(
        self,
        inputs: dict[str, Any],
        given: list[tuple[str, str]],
        then: Callable[[], None] | None = None,
    ) -> None:
        connect()
        crew = _Seats(self.num_cpus)
        try:
            super()._run(inputs | {"elsewhere": crew}, given, then)
        finally:
            # Also after Ctrl-C.
            crew.close()
            if "report_" in vars(self):
                moved = {"bytes_sent": crew.moved.sent, "bytes_received": crew.moved.received}
                self.report_ |= {"actors": len(crew.actors), **moved}


def _columns(part: Any, columns: tuple[str, str, str], tasks: bool) -> tuple[Any, Any, Any]:
    """The three columns of a part: users, items and ratings, or X, y and tasks."""
    if isinstance(part, (tuple, list)):
        if len(part) != 3:
            raise ValueError(f"parts: expected three arrays of an agent, found {len(part)}")
        return part[0], part[1], part[2]
    if tasks:
        raise ValueError("parts: expected (X, y, tasks) of each agent")
    return rated(read(part, columns), None, None, columns)


def _stacked(rows: list[Any]) -> Any:
    """Rows of all parts, sparse where those of one are."""
    if any(hasattr(part, "tocsr") for part in rows):
        from scipy.sparse import vstack

        return vstack(rows, format="csr")
    if all(hasattr(part, "columns") for part in rows):
        import pandas as pd

        return pd.concat(rows, ignore_index=True)
    return np.concatenate([np.asarray(part) for part in rows])
