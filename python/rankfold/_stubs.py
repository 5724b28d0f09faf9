"""Writes ``_options.pyi`` from the option tables: ``python -m rankfold._stubs FILE``.

``scripts/test-python --stubs`` builds the package and does that for the sources.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ._options import OWN, POSITIONAL, PRECISION, RENAMED, TABLES, default_of

HEAD = '''# Written by `scripts/test-python --stubs` from the option tables of the library.
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

TABLES: dict[str, list[dict[str, Any]]]
RENAMED: dict[str, str]
PRECISION: dict[str, str | None]
POSITIONAL: dict[str, str]
OWN: dict[str, list[tuple[str, Any, str]]]

def default_of(spec: dict[str, Any]) -> Any: ...
def parameters(task: str) -> dict[str, Any]: ...
def text_of(value: Any) -> str: ...
def documented(task: str) -> str: ...
def seed_of(random_state: Any) -> int: ...
def threads_of(n_jobs: Any) -> int | None: ...

class Options:
    _task: str
    def _given(self) -> list[tuple[str, str]]: ...
'''


def type_of(spec: dict[str, Any]) -> str:
    """The type of an option."""
    if spec["name"] == "seed":
        return "int | np.random.RandomState | np.random.Generator | None"
    kinds = {"flag": "bool", "integer": "int", "number": "float"}
    # A list of numbers is joined by commas.
    kinds["text"] = "str | int | float | tuple[float, ...]"
    kind = kinds.get(spec["kind"])
    if kind is None:
        names = [name for name, _ in spec["choices"]]
        kind = "Literal[" + ", ".join(f'"{name}"' for name in names) + "]"
        if spec["name"] == "init" and "model" in names:
            # Or the file of a model to start from.
            kind += " | str"
    return kind if default_of(spec) is not None else f"{kind} | None"


def written() -> str:
    """The text of the stub."""
    out = [HEAD]
    for task, table in TABLES.items():
        types = {RENAMED.get(s["name"], s["name"]): (type_of(s), default_of(s)) for s in table}
        if task in PRECISION:
            optional = "" if PRECISION[task] else " | None"
            types["precision"] = (f'Literal["f32", "f64"]{optional}', PRECISION[task])
        types |= {name: ("str", default) for name, default, _ in OWN.get(task, [])}
        types["verbose"] = ("int", 0)
        types["callback"] = ("Callable[[dict[str, Any]], object] | None", None)
        out.append(f"class {task.capitalize()}Options(Options):")
        out += [f"    {name}: {kind}" for name, (kind, _) in types.items()]
        out.append("    def __init__(\n        self,")
        first = POSITIONAL.get(task)
        if first is None:
            out.append("        *,")
        for name, (kind, default) in types.items():
            shown = f'"{default}"' if isinstance(default, str) else repr(default)
            out.append(f"        {name}: {kind} = {shown},")
            if name == first:
                out.append("        *,")
        out.append("    ) -> None: ...\n")
    return "\n".join(out)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(written())
