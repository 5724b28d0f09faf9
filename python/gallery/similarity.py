"""Search among digits: which images are alike."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rankfold as rf
import rankfold.plot

X, y = load_digits(return_X_y=True)
train, test, train_labels, test_labels = train_test_split(X, y, random_state=0)
model = rf.Similarity(rank=10, normalize="l2", valid_fraction=0.2).fit(train, train_labels)
print(f"similarity: mAP {model.score(test, test_labels):.3f}")
_, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
rf.plot.learning_curve(model, ax=left)
rf.plot.rows(model, test, test_labels, ax=right)
plt.show()
