"""Columns of files and of Ray Datasets."""

from __future__ import annotations

import os
from typing import Any

import ray


def read(source: Any, columns: tuple[str, str, str]) -> Any:
    """A frame of a Ray Dataset, or of the files at a path; all else as it is."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        read = ray.data.read_csv if path.endswith((".csv", ".csv.gz")) else ray.data.read_parquet
        source = read(path)
    if isinstance(source, ray.data.Dataset):
        return source.select_columns(list(columns)).to_pandas()
    return source
