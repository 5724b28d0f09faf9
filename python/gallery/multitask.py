"""Many small regressions that share a subspace."""

import matplotlib.pyplot as plt
import numpy as np

import rankfold as rf
import rankfold.plot

random = np.random.default_rng(0)
shared, own = random.normal(size=(20, 2)), random.normal(size=(2, 50))
tasks = np.repeat(np.arange(50), 15)
X = random.normal(size=(750, 20))
y = np.sum(X * (shared @ own).T[tasks], axis=1) + random.normal(size=750) / 2
train = np.arange(750) % 3 > 0
model = rf.Multitask(rank=2).fit(X[train], y[train], tasks=tasks[train])
print(f"multitask: R² {model.score(X[~train], y[~train], tasks=tasks[~train]):.3f}")
rf.plot.singular_values(model)
plt.show()
