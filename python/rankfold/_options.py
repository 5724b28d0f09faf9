"""Constructors of estimators, made from the option tables of the library.

A table names the options of a task with their kinds, defaults, ranges and
documentation. A class for each task has them as the parameters of its constructor,
so that an option that the library gets later is a parameter without new code here.
The types are in ``_options.pyi``, which ``scripts/test-python --stubs`` writes.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from . import _rankfold

TABLES: dict[str, list[dict[str, Any]]] = _rankfold.tables()

#: What the package calls options that scikit-learn has its own names for. `score` is a
#: method there.
RENAMED = {"seed": "random_state", "threads": "n_jobs", "score": "score_as"}

#: The precision of tasks whose command has ``--precision``; None where it depends on
#: other options.
PRECISION: dict[str, str | None] = {
    "similarity": "f32",
    "ranking": "f32",
    "completion": "f32",
    "pairs": "f32",
    "metric": None,
    "kernel": None,
    "gossip": "f32",
}

#: Parameters that need no name.
POSITIONAL = {"gossip": "task"}

#: Parameters that belong to arrays, and not to the library: name, default, documentation.
OWN: dict[str, list[tuple[str, Any, str]]] = {
    "map": [("metric", "precomputed", "'precomputed' dissimilarities, or 'euclidean' for rows.")],
}

_SHARED_DOC = {
    "precision": "How tall factors are stored: 'f32' or 'f64'.",
    "verbose": "1 shows a progress bar, 2 also prints what is measured.",
    "callback": "Called with every event of a run, a dict. If it returns False, the run stops.",
}


def default_of(spec: dict[str, Any]) -> Any:
    """The default of an option as a value of Python."""
    text = spec["default"]
    if text is None or spec["kind"] in ("choice",):
        return text
    if spec["kind"] == "flag":
        return text == "true"
    if spec["kind"] == "integer":
        return int(text)
    if spec["kind"] == "number":
        return float(text)
    return int(text) if text.isdigit() else text


def parameters(task: str) -> dict[str, Any]:
    """The parameters of the constructor of a task, with their defaults."""
    out = {RENAMED.get(s["name"], s["name"]): default_of(s) for s in TABLES[task]}
    if task in PRECISION:
        out["precision"] = PRECISION[task]
    out |= {name: default for name, default, _ in OWN.get(task, [])}
    return out | {"verbose": 0, "callback": None}


def text_of(value: Any) -> str:
    """The text of a value, as the library reads it."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return ",".join(text_of(v) for v in value)
    return str(value)


def documented(task: str) -> str:
    """The section ``Parameters`` of the documentation of a task."""
    lines = ["Parameters", "----------"]
    kinds = {"flag": "bool", "integer": "int", "number": "float"}
    for spec in TABLES[task]:
        name = RENAMED.get(spec["name"], spec["name"])
        default = default_of(spec)
        if spec["kind"] == "choice":
            kind = "{" + ", ".join(repr(c) for c, _ in spec["choices"]) + "}"
        elif spec["kind"] == "text":
            # What the command line shows in its help, such as "auto or N".
            kind = f"{spec['shape'] or 'str'}"
        else:
            kind = kinds[spec["kind"]]
        lines.append(f"{name} : {kind}, default={default!r}")
        text = spec["doc"].replace("`--", "`").replace("--", "")
        if spec["kind"] in ("integer", "number") and spec["range"] != "a number":
            text += f" Must be {spec['range']}."
        if spec["applies_to"]:
            text += f" Applies to {spec['applies_to'].replace('--', '')}."
        lines += textwrap.wrap(text, 84, initial_indent="    ", subsequent_indent="    ")
    for name, default, text in OWN.get(task, []):
        lines += [f"{name} : str, default={default!r}", f"    {text}"]
    shared = ("precision", "verbose", "callback") if task in PRECISION else ("verbose", "callback")
    for name in shared:
        kind = {"precision": "str", "verbose": "int", "callback": "callable"}[name]
        lines.append(f"{name} : {kind}, default={parameters(task)[name]!r}")
        lines += textwrap.wrap(
            _SHARED_DOC[name], 84, initial_indent="    ", subsequent_indent="    "
        )
    return "\n".join(lines)


class Options:
    """The parameters of a task; a constructor only stores them."""

    _task: str

    def _given(self) -> list[tuple[str, str]]:
        """The options of the library that have a value."""
        out = []
        for spec in TABLES[self._task]:
            name = spec["name"]
            value = vars(self)[RENAMED.get(name, name)]
            if name == "seed":
                value = seed_of(value)
            elif name == "threads":
                value = threads_of(value)
            if value is not None:
                out.append((name, text_of(value)))
        return out


def seed_of(random_state: Any) -> int:
    """The seed that a ``random_state`` of scikit-learn stands for."""
    import numpy as np

    if random_state is None:
        return int(np.random.mtrand._rand.randint(2**31))
    if isinstance(random_state, (np.random.RandomState, np.random.Generator)):
        draw = getattr(random_state, "integers", None) or random_state.randint  # type: ignore[union-attr]
        return int(draw(2**31))
    return random_state  # type: ignore[no-any-return]


def threads_of(n_jobs: Any) -> int | None:
    """The threads that an ``n_jobs`` of scikit-learn stands for: None and -1 are all cores."""
    import os

    if n_jobs is None or n_jobs == -1:
        return None
    if isinstance(n_jobs, int) and n_jobs < -1:
        return max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    return n_jobs  # type: ignore[no-any-return]


def _class_for(task: str) -> type:
    known = parameters(task)

    first = POSITIONAL.get(task)

    def __init__(self: Any, *unnamed: Any, **given: Any) -> None:
        if len(unnamed) > (first is not None):
            raise TypeError(f"{type(self).__name__}() takes keyword arguments only")
        if unnamed and first is not None:
            given[first] = unnamed[0]
        if "score" in given and "score_as" in known:
            # The name of the command line, where nothing stands in its way.
            given.setdefault("score_as", given.pop("score"))
        for name in given:
            if name not in known:
                raise TypeError(
                    f"{type(self).__name__}() got an unexpected keyword argument {name!r}"
                )
        for name, default in known.items():
            setattr(self, name, given.get(name, default))

    kind = inspect.Parameter
    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [kind("self", kind.POSITIONAL_OR_KEYWORD)]
        + [
            kind(
                name,
                kind.POSITIONAL_OR_KEYWORD if name == first else kind.KEYWORD_ONLY,
                default=value,
            )
            for name, value in known.items()
        ]
    )
    name = f"{task.capitalize()}Options"
    __init__.__qualname__ = f"{name}.__init__"
    namespace = {"__init__": __init__, "_task": task, "__doc__": documented(task)}
    return type(name, (Options,), namespace | {"__module__": __name__})


for _task in TABLES:
    globals()[f"{_task.capitalize()}Options"] = _class_for(_task)
