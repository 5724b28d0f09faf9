"""Sweeps over parameters on Ray: scikit-learn's search by joblib, and a search of Ray Tune."""

import tempfile

import joblib
import numpy as np
import ray
from ray import tune
from ray.util.joblib import register_ray
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

import rankfold as rf

if not ray.is_initialized():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

# Estimators of rows are estimators of scikit-learn: its search runs on Ray as it does on threads.
X, y = load_digits(return_X_y=True)
register_ray()
with joblib.parallel_backend("ray"):
    search = GridSearchCV(rf.Metric(n_jobs=1), {"rank": [2, 8]}, cv=2)
    search.fit(X[:300], y[:300])
print("rank of the metric:", search.best_params_["rank"])

# Ratings are no rows: a function of the parameters gives what is to be small.
rng = np.random.default_rng(1)
users, items = rng.integers(0, 100, 3000), rng.integers(0, 50, 3000)
left, right = rng.normal(size=(100, 2)), rng.normal(size=(50, 2))
ratings = np.sum(left[users] * right[items], axis=1) + 0.1 * rng.normal(size=3000)
kept = np.arange(3000) % 5 > 0


def trial(config: dict[str, float]) -> dict[str, float]:
    """The error on held-out ratings."""
    model = rf.Completion(learner="als", rank=2, n_jobs=1, regularization=config["regularization"])
    model.fit(users[kept], items[kept], ratings[kept])
    return {"rmse": -model.score(users[~kept], items[~kept], ratings[~kept])}


space = {"regularization": tune.grid_search([0.1, 1.0, 10.0])}
with tempfile.TemporaryDirectory() as folder:
    tuner = tune.Tuner(
        trial,
        param_space=space,
        tune_config=tune.TuneConfig(metric="rmse", mode="min"),
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    )
    best = tuner.fit().get_best_result()
print("penalty of ratings:", best.config["regularization"], f"at {best.metrics['rmse']:.3f}")
