"""Ratings of items by users."""

import matplotlib.pyplot as plt
import numpy as np

import rankfold as rf
import rankfold.plot

random = np.random.default_rng(0)
taste, kind = random.normal(size=(200, 3)), random.normal(size=(100, 3))
users, items = random.integers(0, 200, 8000), random.integers(0, 100, 8000)
noise = random.normal(size=8000) / 2
ratings = np.clip(np.round(3 + np.sum(taste[users] * kind[items], axis=1) / 2 + noise), 1, 5)
model = rf.Completion(rank=3).fit(users[:7000], items[:7000], ratings[:7000])
rmse = -model.score(users[7000:], items[7000:], ratings[7000:])
print(f"completion: RMSE {rmse:.3f}, items for user 7: {model.recommend(7, 5)}")
model.partial_fit(["new"] * 3, [1, 2, 3], [5.0, 1.0, 4.0])
print(f"a new user likes: {model.recommend('new', 5)}")
rf.plot.singular_values(model)
plt.show()
