"""Labels of rows that carry several."""

import matplotlib.pyplot as plt
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import train_test_split

import rankfold as rf
import rankfold.plot

X, Y = make_multilabel_classification(2000, 50, n_classes=20, random_state=0)
train, test, train_labels, test_labels = train_test_split(X, Y, random_state=0)
model = rf.Ranking(rank=10, weight="tfidf", normalize="l2").fit(train, train_labels)
print(f"ranking: mAP {model.score(test, test_labels):.3f}, best labels {model.rank(test[:1], n=3)[0]}")
rf.plot.learning_curve(model, "loss")
plt.show()
