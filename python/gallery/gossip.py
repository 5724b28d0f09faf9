"""Agents that keep their ratings and agree on a subspace of the items."""

import matplotlib.pyplot as plt
import numpy as np

import rankfold as rf
import rankfold.plot

random = np.random.default_rng(0)
users, items = np.divmod(np.arange(100 * 40), 40)
taste, kind = random.normal(size=(100, 2)), random.normal(size=(40, 2))
ratings = np.sum(taste[users] * kind[items], axis=1)
train = random.random(len(users)) < 0.5
model = rf.Gossip("completion", agents=5, rank=2).fit(users[train], items[train], ratings[train])
print(f"gossip: RMSE {-model.score(users[~train], items[~train], ratings[~train]):.3f}")
rf.plot.gossip(model)
plt.show()
