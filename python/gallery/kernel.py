"""A kernel of flowers that keeps to what is known of some pairs."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.metrics import normalized_mutual_info_score

import rankfold as rf
import rankfold.plot

X, y = load_iris(return_X_y=True)
pairs = np.random.default_rng(0).integers(0, 150, size=(400, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
model = rf.Kernel(rank=3).fit(X, pairs=pairs, same=y[pairs[:, 0]] == y[pairs[:, 1]])
for name, rows in [("before", X), ("after", model.embedding_)]:
    clusters = KMeans(3, n_init=10, random_state=0).fit_predict(rows)
    print(f"kernel: NMI {name} {normalized_mutual_info_score(y, clusters):.3f}")
rf.plot.rows(model, labels=y)
plt.show()
