"""A distance for wines, and neighbors that vote by it."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import rankfold as rf
import rankfold.plot

X, y = load_wine(return_X_y=True)
metric = rf.Metric(rank=2, standardize="global")
voting = make_pipeline(metric, KNeighborsClassifier())
print(f"metric: accuracy {cross_val_score(voting, X, y).mean():.3f}")
rf.plot.rows(metric.fit(X, y), X, y)
plt.show()
