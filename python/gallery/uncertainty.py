"""How sure a similarity is, and whether that is right."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import rankfold as rf
import rankfold.plot

X, y = load_breast_cancer(return_X_y=True)
train, test, train_labels, test_labels = train_test_split(X, y, random_state=0)
model = rf.Similarity(
    learner="aroma-factored", steps=5000, standardize="global", valid_fraction=0.2
).fit(train, train_labels)
random = np.random.default_rng(0)
triplets = random.integers(0, len(test), size=(4000, 3))
classes = test_labels[triplets]
right = (classes[:, 0] == classes[:, 1]) & (classes[:, 0] != classes[:, 2])
rf.plot.calibration(model, test, triplets[right])
print(f"uncertainty: mAP {model.score(test, test_labels):.3f}")
plt.show()
