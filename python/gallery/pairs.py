"""How much people like films, from features of both."""

import matplotlib.pyplot as plt
import numpy as np

import rankfold as rf
import rankfold.plot

random = np.random.default_rng(0)
people, films = random.normal(size=(300, 12)), random.normal(size=(200, 8))
W = random.normal(size=(12, 2)) @ random.normal(size=(2, 8))
pairs = np.stack([random.integers(0, 300, 6000), random.integers(0, 200, 6000)], axis=1)
values = np.sum(people[pairs[:, 0]] @ W * films[pairs[:, 1]], axis=1)
model = rf.Pairs(rank=2).fit(people, films, pairs[:5000], values[:5000])
rmse = -model.score(people, films, pairs[5000:], values[5000:])
print(f"pairs: RMSE {rmse:.3f}, values vary by {values.std():.3f}")
rf.plot.singular_values(model)
plt.show()
