from collections.abc import Callable
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__version__: str
__all__ = [
    "Data",
    "GossipSeat",
    "Learner",
    "MetricShard",
    "Model",
    "Shards",
    "TaskShard",
    "Vocabulary",
    "__version__",
    "begin",
    "check",
    "choice_lists",
    "choice_ndcg",
    "choice_vectors",
    "choosers",
    "command",
    "fit",
    "fit_metric_shards",
    "fit_task_shards",
    "learn_choices",
    "learn_classes",
    "learn_distances",
    "learn_labels",
    "learn_map",
    "learn_ratings",
    "learn_tasks",
    "learn_triplets",
    "learn_values",
    "learner",
    "merge",
    "precision",
    "shard_add",
    "shard_answer",
    "shard_biases",
    "shard_counts",
    "shard_pattern",
    "shard_rows",
    "shard_squares",
    "tables",
]

_Labels = tuple[list[str], NDArray[np.int64], NDArray[np.int64] | None]
_Coded = tuple[list[str], NDArray[np.int64]]
_Relations = tuple[NDArray[np.int64], list[str], NDArray[np.float64]]
_Options = list[tuple[str, str]]
_Path = str | PathLike[str]

@final
class Data:
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def precision(self) -> str: ...
    @property
    def address(self) -> int: ...
    @staticmethod
    def dense(array: NDArray[Any], names: list[str] | None = None, labels: _Labels | None = None) -> Data: ...
    @staticmethod
    def csr(
        indptr: NDArray[Any],
        indices: NDArray[Any],
        values: NDArray[Any],
        columns: int,
        names: list[str] | None = None,
        labels: _Labels | None = None,
    ) -> Data: ...

@final
class Model:
    @staticmethod
    def load(path: _Path) -> Model: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Model: ...
    @staticmethod
    def of_ratings(
        users: list[str],
        items: list[str],
        factors: tuple[NDArray[np.float64], NDArray[np.float64]],
        mean: float = 0.0,
        bias: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
        scale: tuple[float, float] | None = None,
        precision: str = "f32",
    ) -> Model: ...
    @staticmethod
    def of_metric(
        factor: NDArray[np.float64],
        distances: tuple[float, float] | None = None,
        precision: str = "f64",
    ) -> Model: ...
    def save(self, path: _Path) -> None: ...
    def to_bytes(self) -> bytes: ...
    def info(self) -> dict[str, Any]: ...
    def names(self, side: str) -> list[str] | None: ...
    def singular_values(self) -> NDArray[np.float64] | None: ...
    def components(self, side: str) -> NDArray[np.float64]: ...
    def transform(self, data: Data, side: str = "left") -> NDArray[Any]: ...
    def pair_scores(
        self, left: Data, right: Data, score: str | None = None, deviations: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]: ...
    def scores_at(self, left: Data, right: Data, pairs: NDArray[np.int64]) -> NDArray[np.float64]: ...
    def neighbors(
        self,
        queries: Data,
        candidates: Data | None = None,
        k: int = 10,
        score: str | None = None,
        threads: int | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
    def evaluate(
        self,
        data: Data,
        train: Data | None = None,
        k: int = 3,
        score: str | None = None,
        threads: int | None = None,
    ) -> dict[str, Any]: ...
    def label_scores(self, data: Data) -> NDArray[np.float64]: ...
    def ratings(
        self, users: _Coded, items: _Coded, sure: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def recommend(
        self, users: list[int], k: int, leave_out: NDArray[np.int64], threads: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
    def targets(self, data: Data, tasks: _Coded) -> NDArray[np.float64]: ...
    def coordinates(self) -> NDArray[np.float64]: ...
    def __reduce__(self) -> tuple[Callable[[bytes], Model], tuple[bytes]]: ...

@final
class Learner:
    def learn(self, query: int, positive: int, negative: int) -> bool: ...

@final
class Vocabulary:
    @property
    def terms(self) -> list[str]: ...
    @staticmethod
    def fit(
        texts: list[str],
        labels: list[str] | None = None,
        features: int | None = None,
        min_df: int = 2,
        tf: str = "log",
        strip: list[str] | None = None,
    ) -> Vocabulary: ...
    def rows(self, texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Vocabulary: ...
    def __reduce__(self) -> tuple[Callable[[bytes], Vocabulary], tuple[bytes]]: ...

_Lines = tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.float64]]

@final
class Shards:
    def __new__(
        cls,
        learner: str,
        rank: int,
        biases: bool,
        counts: NDArray[np.float64],
        squares: float,
        seed: int = 0,
        regularization: float = 0.0,
        penalty_power: float = 0.5,
        prune: bool = False,
        implicit: bool = False,
    ) -> Shards: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Shards: ...
    def to_bytes(self) -> bytes: ...
    def step(self, answer: NDArray[np.float64], threads: int) -> float: ...
    def question(self) -> NDArray[np.float64] | None: ...
    def hear(self, answer: NDArray[np.float64]) -> None: ...
    def settled(self, tolerance: float) -> bool: ...
    @property
    def iteration(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def center(self) -> float: ...
    @property
    def costs(self) -> list[float]: ...
    @property
    def answer_len(self) -> int: ...
    def factors(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]: ...
    def model(
        self,
        users: list[str],
        items: list[str],
        user_factors: NDArray[np.float64],
        user_bias: list[float] | None,
        user_count: list[int],
        baseline: tuple[list[float], list[float]],
        squares: float,
        scale: tuple[float, float] | None,
        seed: int,
        precision: str,
    ) -> Model: ...

@final
class TaskShard:
    def __new__(
        cls,
        options: _Options,
        rows: Data,
        tasks: _Coded,
        targets: NDArray[np.float64],
    ) -> TaskShard: ...
    def answer(
        self,
        what: str,
        numbers: NDArray[np.float64],
        sums: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]: ...

@final
class GossipSeat:
    def __new__(cls, place: NDArray[np.uint8]) -> GossipSeat: ...
    def begin(self) -> NDArray[np.uint8]: ...
    def restore(self, state: NDArray[np.uint8]) -> None: ...
    def turn(
        self, other: int, message: NDArray[np.uint8], size: float | None = None
    ) -> NDArray[np.uint8]: ...
    def cost(self) -> float: ...

@final
class MetricShard:
    def __new__(
        cls,
        rows: Data,
        pairs: NDArray[np.int64],
        kinds: NDArray[np.int64],
        targets: NDArray[np.float64],
        all: int,
        threads: int,
    ) -> MetricShard: ...
    def answer(self, what: str, numbers: NDArray[np.float64]) -> NDArray[np.float64]: ...

def fit_metric_shards(
    options: _Options,
    rows: Data,
    relations: _Relations | None,
    deal: Callable[[Any, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]], object],
    ask: Callable[[str, NDArray[np.float64], bool], NDArray[np.float64]],
    told: Callable[[int, float], object],
) -> tuple[Model, float, int, int, bool]: ...
def fit_task_shards(
    options: _Options,
    features: list[str],
    tasks: list[str],
    ask: Callable[[str, NDArray[np.float64], bool], NDArray[np.float64]],
    told: Callable[[int, float], object],
) -> tuple[Model, float]: ...
def merge(
    models: list[Model],
    rank: int | None = None,
    weights: list[float] | None = None,
    seed: int = 0,
) -> tuple[Model, float, list[str]]: ...
def shard_add(to: NDArray[np.float64], other: NDArray[np.float64]) -> None: ...
def shard_answer(
    rows: _Lines,
    columns: _Lines,
    state: NDArray[np.uint8],
    weights: NDArray[np.float32],
    threads: int,
) -> tuple[NDArray[np.float64], NDArray[np.float32]]: ...
def shard_biases(
    rows: _Lines,
    columns: _Lines,
    center: float,
    biases: NDArray[np.float64],
    ridge: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def shard_counts(rows: _Lines, columns: _Lines) -> NDArray[np.float64]: ...
def shard_pattern(
    rows: _Lines, columns: _Lines, question: NDArray[np.float64], threads: int
) -> NDArray[np.float64]: ...
def shard_rows(
    rows: _Lines,
    columns: _Lines,
    state: NDArray[np.uint8],
    weights: NDArray[np.float32],
    threads: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, float]: ...
def shard_squares(rows: _Lines, columns: _Lines, center: float) -> float: ...
def tables() -> dict[str, list[dict[str, Any]]]: ...
def check(task: str, options: _Options) -> None: ...
def precision(task: str, options: _Options) -> str: ...
def command(args: list[str]) -> int: ...
def fit(
    task: str,
    options: _Options,
    inputs: dict[str, Any],
    precision: str = "f32",
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> tuple[Model | None, dict[str, Any], BaseException | None, list[Model]]: ...
def begin(
    task: str,
    options: _Options,
    columns: int,
    precision: str,
    names: list[str] | None = None,
    labels: list[str] | None = None,
) -> Model: ...
def learn_triplets(
    model: Model,
    rows: Data,
    triplets: NDArray[np.int64],
    objects: Data | None = None,
    step_size: float | None = None,
) -> int: ...
def learn_classes(model: Model, rows: Data, step_size: float | None = None) -> int: ...
def learn_labels(model: Model, rows: Data, labels: _Labels, step_size: float | None = None) -> int: ...
def learn_distances(
    model: Model, rows: Data, relations: _Relations, step_size: float | None = None
) -> int: ...
def learn_values(
    model: Model,
    rows: Data,
    pairs: NDArray[np.int64],
    values: NDArray[np.float64],
    objects: Data | None = None,
    step_size: float | None = None,
) -> int: ...
def learn_ratings(
    model: Model,
    users: _Coded,
    items: _Coded,
    ratings: NDArray[np.float64],
    step_size: float | None = None,
) -> int: ...
def learn_choices(
    model: Model, users: _Coded, items: _Coded, weights: NDArray[np.float64]
) -> int: ...
def choosers(model: Model) -> list[str]: ...
def choice_vectors(model: Model, side: str, threads: int | None = None) -> NDArray[np.float64]: ...
def choice_lists(
    model: Model,
    users: list[int],
    history: list[int] | None,
    k: int,
    leave_out: NDArray[np.int64],
    seen: bool,
    threads: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
def choice_ndcg(model: Model, users: _Coded, items: _Coded) -> float: ...
def learn_tasks(model: Model, rows: Data, tasks: _Coded, targets: NDArray[np.float64]) -> int: ...
def learn_map(
    model: Model,
    items: list[str],
    pairs: NDArray[np.int64],
    values: NDArray[np.float64],
    threads: int | None = None,
) -> int: ...
def learner(model: Model, rows: Data) -> Learner: ...
