"""A map of patients from the distances of their measurements."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

import rankfold as rf
import rankfold.plot

X, y = load_diabetes(return_X_y=True)
model = rf.Map(metric="euclidean").fit(X[:150])
print(f"map: {model.embedding_.shape[0]} points in {model.embedding_.shape[1]} dimensions")
rf.plot.rows(model, labels=y[:150] > y.mean())
plt.show()
