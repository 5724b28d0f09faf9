# Written by `scripts/test-python --stubs` from the option tables of the library.
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

class SimilarityOptions(Options):
    learner: Literal["loreta-psd", "loreta", "manifold-identification", "oasis", "passive-aggressive", "gradient", "gradient-psd", "lego", "aroma-factored", "aroma-diagonal", "balanced", "polar", "flat", "polar-psd", "cone-flat", "cone-affine", "cone-logdet", "cone-log", "cone-von-neumann"] | None
    rank: str | int | float | tuple[float, ...]
    steps: int | None
    epochs: int | None
    step_size: float | None
    step_limit: float
    inner_steps: int
    inner_size: float | None
    decay: float | None
    aggressiveness: float
    confidence_r: float
    update_on: Literal["margin", "mistake", "strict-mistake"]
    covariance: Literal["old", "new"]
    inverse_diagonal: bool
    select: Literal["random", "uncertain"]
    negatives: Literal["random", "hard"]
    candidates: int | None
    batch: int
    average: bool
    init: Literal["identity", "gaussian", "zero", "ridge", "model"] | str | None
    score_as: Literal["dot", "cosine", "classes"] | None
    as_published: bool
    random_state: int | np.random.RandomState | np.random.Generator | None
    n_jobs: int | None
    weight: Literal["none", "tfidf"]
    normalize: Literal["none", "l2"]
    standardize: Literal["none", "global", "auto"]
    valid_fraction: float
    patience: int | None
    curve_every: int | None
    precision: Literal["f32", "f64"]
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        *,
        learner: Literal["loreta-psd", "loreta", "manifold-identification", "oasis", "passive-aggressive", "gradient", "gradient-psd", "lego", "aroma-factored", "aroma-diagonal", "balanced", "polar", "flat", "polar-psd", "cone-flat", "cone-affine", "cone-logdet", "cone-log", "cone-von-neumann"] | None = None,
        rank: str | int | float | tuple[float, ...] = "auto",
        steps: int | None = None,
        epochs: int | None = None,
        step_size: float | None = None,
        step_limit: float = 2.0,
        inner_steps: int = 3,
        inner_size: float | None = None,
        decay: float | None = None,
        aggressiveness: float = 0.1,
        confidence_r: float = 1.0,
        update_on: Literal["margin", "mistake", "strict-mistake"] = "margin",
        covariance: Literal["old", "new"] = "old",
        inverse_diagonal: bool = False,
        select: Literal["random", "uncertain"] = "random",
        negatives: Literal["random", "hard"] = "random",
        candidates: int | None = None,
        batch: int = 1,
        average: bool = False,
        init: Literal["identity", "gaussian", "zero", "ridge", "model"] | str | None = None,
        score_as: Literal["dot", "cosine", "classes"] | None = None,
        as_published: bool = False,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        weight: Literal["none", "tfidf"] = "none",
        normalize: Literal["none", "l2"] = "none",
        standardize: Literal["none", "global", "auto"] = "auto",
        valid_fraction: float = 0.0,
        patience: int | None = None,
        curve_every: int | None = None,
        precision: Literal["f32", "f64"] = "f32",
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...

class MetricOptions(Options):
    learner: Literal["polar", "flat", "cone-affine", "cone-logdet", "cone-log", "cone-flat", "cone-von-neumann", "itml", "lego"]
    solver: Literal["online", "descent", "cg", "trust-region"] | None
    rank: int
    pairs_from: Literal["random", "neighbors"] | None
    constraints: int | None
    neighbors: int
    init: Literal["pca", "class-means", "identity", "model"] | str | None
    steps: int | None
    epochs: int | None
    iterations: int | None
    tolerance: float
    subspace_weight: float
    retraction: Literal["uf", "qf"]
    slack: float
    step_size: float | None
    step_rule: Literal["falling", "convergent", "constant"] | None
    step_limit: float
    batch: int
    random_state: int | np.random.RandomState | np.random.Generator | None
    n_jobs: int | None
    weight: Literal["none", "tfidf"]
    normalize: Literal["none", "l2"]
    standardize: Literal["none", "global", "auto"]
    valid_fraction: float
    patience: int | None
    curve_every: int | None
    precision: Literal["f32", "f64"] | None
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        *,
        learner: Literal["polar", "flat", "cone-affine", "cone-logdet", "cone-log", "cone-flat", "cone-von-neumann", "itml", "lego"] = "flat",
        solver: Literal["online", "descent", "cg", "trust-region"] | None = None,
        rank: int = 20,
        pairs_from: Literal["random", "neighbors"] | None = None,
        constraints: int | None = None,
        neighbors: int = 5,
        init: Literal["pca", "class-means", "identity", "model"] | str | None = None,
        steps: int | None = None,
        epochs: int | None = None,
        iterations: int | None = None,
        tolerance: float = 1e-05,
        subspace_weight: float = 0.5,
        retraction: Literal["uf", "qf"] = "uf",
        slack: float = 1.0,
        step_size: float | None = None,
        step_rule: Literal["falling", "convergent", "constant"] | None = None,
        step_limit: float = 2.0,
        batch: int = 1,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        weight: Literal["none", "tfidf"] = "none",
        normalize: Literal["none", "l2"] = "none",
        standardize: Literal["none", "global", "auto"] = "auto",
        valid_fraction: float = 0.0,
        patience: int | None = None,
        curve_every: int | None = None,
        precision: Literal["f32", "f64"] | None = None,
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...

class RankingOptions(Options):
    learner: Literal["loreta", "passive-aggressive", "perceptron", "group-perceptron"]
    rank: str | int | float | tuple[float, ...]
    steps: int | None
    epochs: int | None
    step_size: float | None
    step_limit: float
    decay: float | None
    aggressiveness: float
    sampler: Literal["top", "warp"] | None
    gradient: Literal["single", "summed"]
    bias_step: float | None
    popularity: float | None
    average: bool
    init: Literal["identity", "gaussian", "zero", "ridge", "model"] | str
    order: Literal["shuffled", "given"]
    random_state: int | np.random.RandomState | np.random.Generator | None
    n_jobs: int | None
    weight: Literal["none", "tfidf", "auto"]
    normalize: Literal["none", "l2", "auto"]
    standardize: Literal["none", "global", "auto"]
    valid_fraction: float
    patience: int | None
    curve_every: int | None
    precision: Literal["f32", "f64"]
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        *,
        learner: Literal["loreta", "passive-aggressive", "perceptron", "group-perceptron"] = "loreta",
        rank: str | int | float | tuple[float, ...] = "auto",
        steps: int | None = None,
        epochs: int | None = None,
        step_size: float | None = None,
        step_limit: float = 2.0,
        decay: float | None = None,
        aggressiveness: float = 0.1,
        sampler: Literal["top", "warp"] | None = None,
        gradient: Literal["single", "summed"] = "single",
        bias_step: float | None = None,
        popularity: float | None = None,
        average: bool = False,
        init: Literal["identity", "gaussian", "zero", "ridge", "model"] | str = "ridge",
        order: Literal["shuffled", "given"] = "shuffled",
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        weight: Literal["none", "tfidf", "auto"] = "auto",
        normalize: Literal["none", "l2", "auto"] = "auto",
        standardize: Literal["none", "global", "auto"] = "auto",
        valid_fraction: float = 0.0,
        patience: int | None = None,
        curve_every: int | None = None,
        precision: Literal["f32", "f64"] = "f32",
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...

class CompletionOptions(Options):
    learner: Literal["auto", "bayes", "als", "polar", "balanced", "embedded", "grassmann", "gradient", "svp", "optspace", "loreta"]
    solver: Literal["online", "descent", "cg", "trust-region"] | None
    rank: str | int | float | tuple[float, ...]
    regularization: float | None
    penalty_power: float
    no_bias: bool
    no_implicit: bool
    iterations: int | None
    tolerance: float | None
    first_step: float | None
    step_size: float | None
    init: Literal["spectral", "continuation", "random", "model"] | str | None
    retraction: Literal["uf", "qf"]
    clip: str | int | float | tuple[float, ...]
    valid_fraction: float
    random_state: int | np.random.RandomState | np.random.Generator | None
    n_jobs: int | None
    curve_every: int | None
    precision: Literal["f32", "f64"]
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        *,
        learner: Literal["auto", "bayes", "als", "polar", "balanced", "embedded", "grassmann", "gradient", "svp", "optspace", "loreta"] = "auto",
        solver: Literal["online", "descent", "cg", "trust-region"] | None = None,
        rank: str | int | float | tuple[float, ...] = "auto",
        regularization: float | None = None,
        penalty_power: float = 0.5,
        no_bias: bool = False,
        no_implicit: bool = False,
        iterations: int | None = None,
        tolerance: float | None = None,
        first_step: float | None = None,
        step_size: float | None = None,
        init: Literal["spectral", "continuation", "random", "model"] | str | None = None,
        retraction: Literal["uf", "qf"] = "uf",
        clip: str | int | float | tuple[float, ...] = "auto",
        valid_fraction: float = 0.0,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        curve_every: int | None = None,
        precision: Literal["f32", "f64"] = "f32",
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...

class RecommendOptions(Options):
    learner: Literal["auto", "items", "als", "loreta"]
    rank: str | int | float | tuple[float, ...]
    regularization: float | None
    unchosen_weight: float
    damping: float
    own_share: float | None
    teacher: Literal["auto", "full", "none"]
    weights: Literal["log", "raw", "none"]
    half_life: float | None
    iterations: int | None
    steps: int | None
    step_size: float | None
    init: Literal["own", "model"] | str
    valid_fraction: float
    random_state: int | np.random.RandomState | np.random.Generator | None
    n_jobs: int | None
    curve_every: int | None
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        *,
        learner: Literal["auto", "items", "als", "loreta"] = "auto",
        rank: str | int | float | tuple[float, ...] = "auto",
        regularization: float | None = None,
        unchosen_weight: float = 0.3,
        damping: float = 0.5,
        own_share: float | None = None,
        teacher: Literal["auto", "full", "none"] = "auto",
        weights: Literal["log", "raw", "none"] = "log",
        half_life: float | None = None,
        iterations: int | None = None,
        steps: int | None = None,
        step_size: float | None = None,
        init: Literal["own", "model"] | str = "own",
        valid_fraction: float = 0.0,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        curve_every: int | None = None,
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...

class PairsOptions(Options):
    learner: Literal["loreta", "gradient", "balanced", "polar"]
    solver: Literal["online", "descent", "cg", "trust-region"]
    rank: int
    steps: int | None
    epochs: int | None
    iterations: int | None
    first_step: float | None
    step_size: float | None
    step_limit: float
    batch: int
    decay: float | None
    regularization: float
    retraction: Literal["uf", "qf"]
    init: Literal["own", "model"] | str
    random_state: int | np.random.RandomState | np.random.Generator | None
    weight: Literal["none", "tfidf"]
    normalize: Literal["none", "l2"]
    standardize: Literal["none", "global"]
    valid_fraction: float
    patience: int | None
    curve_every: int | None
    precision: Literal["f32", "f64"]
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        *,
        learner: Literal["loreta", "gradient", "balanced", "polar"] = "balanced",
        solver: Literal["online", "descent", "cg", "trust-region"] = "online",
        rank: int = 10,
        steps: int | None = None,
        epochs: int | None = None,
        iterations: int | None = None,
        first_step: float | None = None,
        step_size: float | None = None,
        step_limit: float = 2.0,
        batch: int = 1,
        decay: float | None = None,
        regularization: float = 0.0,
        retraction: Literal["uf", "qf"] = "uf",
        init: Literal["own", "model"] | str = "own",
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        weight: Literal["none", "tfidf"] = "none",
        normalize: Literal["none", "l2"] = "none",
        standardize: Literal["none", "global"] = "none",
        valid_fraction: float = 0.0,
        patience: int | None = None,
        curve_every: int | None = None,
        precision: Literal["f32", "f64"] = "f32",
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...

class KernelOptions(Options):
    learner: Literal["polar", "flat", "cone-affine", "cone-logdet", "cone-log", "cone-flat"]
    solver: Literal["descent", "cg", "trust-region"] | None
    rank: int
    kernel: Literal["linear", "gaussian"]
    gamma: float | None
    alpha: float
    constraints: int | None
    init: Literal["start", "range", "model"] | str | None
    iterations: int
    tolerance: float
    subspace_weight: float
    retraction: Literal["uf", "qf"]
    random_state: int | np.random.RandomState | np.random.Generator | None
    n_jobs: int | None
    weight: Literal["none", "tfidf"]
    normalize: Literal["none", "l2"]
    standardize: Literal["none", "global"]
    curve_every: int | None
    precision: Literal["f32", "f64"] | None
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        *,
        learner: Literal["polar", "flat", "cone-affine", "cone-logdet", "cone-log", "cone-flat"] = "polar",
        solver: Literal["descent", "cg", "trust-region"] | None = None,
        rank: int = 20,
        kernel: Literal["linear", "gaussian"] = "linear",
        gamma: float | None = None,
        alpha: float = 0.25,
        constraints: int | None = None,
        init: Literal["start", "range", "model"] | str | None = None,
        iterations: int = 300,
        tolerance: float = 1e-09,
        subspace_weight: float = 0.5,
        retraction: Literal["uf", "qf"] = "uf",
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        weight: Literal["none", "tfidf"] = "none",
        normalize: Literal["none", "l2"] = "none",
        standardize: Literal["none", "global"] = "none",
        curve_every: int | None = None,
        precision: Literal["f32", "f64"] | None = None,
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...

class MapOptions(Options):
    dimensions: int
    init: Literal["own", "model"] | str
    random_state: int | np.random.RandomState | np.random.Generator | None
    n_jobs: int | None
    curve_every: int | None
    metric: str
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        *,
        dimensions: int = 2,
        init: Literal["own", "model"] | str = "own",
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        curve_every: int | None = None,
        metric: str = "precomputed",
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...

class MultitaskOptions(Options):
    learner: Literal["auto", "grassmann", "mixed"]
    solver: Literal["trust-region", "cg", "descent"]
    rank: int | None
    regularization: float | None
    standardize: Literal["none", "global", "task"] | None
    no_bias: bool
    no_common: bool
    common_ridge: float
    iterations: int
    tolerance: float
    init: Literal["own", "model"] | str
    valid_fraction: float
    random_state: int | np.random.RandomState | np.random.Generator | None
    n_jobs: int | None
    curve_every: int | None
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        *,
        learner: Literal["auto", "grassmann", "mixed"] = "auto",
        solver: Literal["trust-region", "cg", "descent"] = "trust-region",
        rank: int | None = None,
        regularization: float | None = None,
        standardize: Literal["none", "global", "task"] | None = None,
        no_bias: bool = False,
        no_common: bool = False,
        common_ridge: float = 1.0,
        iterations: int = 200,
        tolerance: float = 1e-10,
        init: Literal["own", "model"] | str = "own",
        valid_fraction: float = 0.0,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        curve_every: int | None = None,
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...

class GossipOptions(Options):
    task: Literal["completion", "multitask"]
    agents: int
    graph: Literal["path", "ring", "grid", "star", "random"]
    rank: int
    init: Literal["own", "shared", "random"]
    rho: float | None
    regularization: float | None
    center: float | None
    clip: str | int | float | tuple[float, ...]
    standardize: Literal["none", "global", "task"] | None
    no_bias: bool
    no_common: bool
    common_ridge: float
    trust: float | None
    schedule: Literal["stochastic", "parallel"]
    step_a: float | None
    step_b: float
    cross_validate: int | None
    geometry: Literal["grassmann", "euclidean"]
    precondition: bool
    as_published: bool
    slots: int | None
    curve_every: int | None
    random_state: int | np.random.RandomState | np.random.Generator | None
    n_jobs: int | None
    precision: Literal["f32", "f64"]
    verbose: int
    callback: Callable[[dict[str, Any]], object] | None
    def __init__(
        self,
        task: Literal["completion", "multitask"] = "completion",
        *,
        agents: int = 5,
        graph: Literal["path", "ring", "grid", "star", "random"] = "path",
        rank: int = 5,
        init: Literal["own", "shared", "random"] = "own",
        rho: float | None = None,
        regularization: float | None = None,
        center: float | None = None,
        clip: str | int | float | tuple[float, ...] = "auto",
        standardize: Literal["none", "global", "task"] | None = None,
        no_bias: bool = False,
        no_common: bool = False,
        common_ridge: float = 1.0,
        trust: float | None = None,
        schedule: Literal["stochastic", "parallel"] = "parallel",
        step_a: float | None = None,
        step_b: float = 0.0,
        cross_validate: int | None = None,
        geometry: Literal["grassmann", "euclidean"] = "grassmann",
        precondition: bool = False,
        as_published: bool = False,
        slots: int | None = None,
        curve_every: int | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        precision: Literal["f32", "f64"] = "f32",
        verbose: int = 0,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None: ...
