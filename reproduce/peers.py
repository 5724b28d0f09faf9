"""The defaults of rankfold beside other programs, on the same splits.

Every peer is tuned on a tenth of the training part and then learns from all of it. CPU seconds are
those of the last fit and of predicting, with settings already chosen; those of rankfold include all
that it chooses.
"""

import csv
import gzip
import importlib.metadata
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from reproduce.lab import Lab, mean, measured, shown, table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results"


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


def held_out(count, seed=0):
    """A tenth of the rows for tuning, and the rest."""
    order = np.random.RandomState(1000 + seed).permutation(count)
    return order[count // 10:], order[:count // 10]


def tuned(settings, fit, judge):
    """The setting with the least loss; says whether it stands at an edge of its grid."""
    losses = [judge(fit(setting)) for setting in settings]
    best = int(np.argmin(losses))
    return settings[best], len(settings) > 1 and best in (0, len(settings) - 1)


class Item:
    """A data set with a task: its parts, ours and theirs."""

    metric, less_is_better, digits = "", True, 4

    def __init__(self, lab, name):
        self.lab, self.name = lab, name

    def compare(self, splits, missing, quick):
        rows = []
        for label, options in self.ours().items():
            found = [self.lab.once(f"{self.name}/{label}/{s}", self.lab.build,
                                   lambda s=s: self.run(s, options)) for s in range(splits)]
            rows.append((f"rankfold, {label}", found))
        for label, (package, slow, peer) in self.peers().items():
            if package in missing or (slow and quick):
                continue
            try:
                found = [self.lab.once(f"{self.name}/{label}/{s}", version(package),
                                       lambda s=s: peer(s)) for s in range(splits)]
            except RuntimeError as failure:
                print(f"{self.name}: {label} failed: {failure}", file=sys.stderr)
                continue
            rows.append((label, found))
        return rows

    def lines(self, rows):
        best = (min if self.less_is_better else max)(mean([f["value"] for f in found]) for _, found in rows)
        for label, found in rows:
            values = [f["value"] for f in found]
            text = shown(values, self.digits)
            edge = " (edge of its grid)" if any(f.get("edge") for f in found) else ""
            yield [self.name, label + edge, f"**{text}**" if mean(values) == best else text,
                   f"{mean([f['cpu'] for f in found]):.1f}", len(values)]


class Ratings(Item):
    metric = "RMSE"

    def __init__(self, lab, name, file):
        super().__init__(lab, name)
        self.file = lab.data / "movielens" / file

    def parts(self, split):
        prefix = self.lab.folder / f"{self.name}-{split}"
        train, test = Path(f"{prefix}.train.csv.gz"), Path(f"{prefix}.test.csv.gz")
        if not train.exists():
            self.lab.rankfold("split", self.file, "-o", prefix, "--test", 0.1, "--seed", split)
        return train, test

    def arrays(self, path):
        values = np.loadtxt(gzip.open(path, "rt"), delimiter=",", skiprows=1, usecols=(0, 1, 2))
        return values[:, 0].astype(int), values[:, 1].astype(int), values[:, 2]

    def ours(self):
        return {"default": [], "--rank 10": ["--rank", 10]}

    def run(self, split, options):
        train, test = self.parts(split)
        model = self.lab.folder / "m"
        _, cpu = self.lab.rankfold("train", "completion", train, "-o", model, *options)
        found, _ = self.lab.rankfold("eval", model, test)
        return {"value": found["metrics"]["rmse"], "cpu": cpu}

    def peer(self, split, settings, fit):
        """A peer that gives a function of users and items."""
        users, items, ratings = self.arrays(self.parts(split)[0])
        keep, judge = held_out(len(ratings), split)

        def loss(predict, at):
            found = np.clip(predict(at[0], at[1]), ratings.min(), ratings.max())
            return float(np.sqrt(np.mean((found - at[2]) ** 2)))

        part = (users[judge], items[judge], ratings[judge])
        setting, edge = tuned(settings, lambda s: fit(users[keep], items[keep], ratings[keep], s),
                              lambda predict: loss(predict, part))
        test = self.arrays(self.parts(split)[1])
        value, cpu = measured(lambda: loss(fit(users, items, ratings, setting), test))
        return {"value": value, "cpu": cpu, "edge": edge, "setting": str(setting)}

    def peers(self):
        return {
            "cmfrec, rank 10": ("cmfrec", False, lambda s: self.peer(s, [3.0, 6.0, 10.0, 20.0, 35.0], cmfrec)),
            "myFM, rank 10, 100 samples": ("myfm", True, lambda s: self.peer(s, [100], myfm)),
            "LIBMF, rank 10": ("libmf", False, lambda s: self.peer(s, [0.02, 0.05, 0.1, 0.2], libmf)),
            "Surprise SVD, rank 10": ("surprise", True, lambda s: self.peer(s, [0.02, 0.05, 0.1], surprise)),
        }


def cmfrec(users, items, ratings, penalty):
    import pandas as pd
    from cmfrec import CMF

    model = CMF(k=10, lambda_=penalty, verbose=False, nthreads=1)
    model.fit(pd.DataFrame({"UserId": users, "ItemId": items, "Rating": ratings}))
    return lambda u, i: np.nan_to_num(model.predict(u, i), nan=ratings.mean())


def one_hot(users, items, known):
    """A row for each rating, with its user and its item."""
    places = {name: at for at, name in enumerate(known)}
    columns = np.array([[places.get(("u", u), -1), places.get(("i", i), -1)] for u, i in zip(users, items)])
    rows = np.repeat(np.arange(len(users)), 2)[(columns >= 0).ravel()]
    flat = columns.ravel()[(columns >= 0).ravel()]
    return sp.csr_matrix((np.ones(len(flat)), (rows, flat)), shape=(len(users), len(known)))


def myfm(users, items, ratings, samples):
    from myfm import MyFMRegressor

    known = [("u", u) for u in np.unique(users)] + [("i", i) for i in np.unique(items)]
    groups = [len(np.unique(users)), len(np.unique(items))]
    model = MyFMRegressor(rank=10, random_seed=0)
    model.fit(one_hot(users, items, known), ratings, n_iter=samples, n_kept_samples=samples, group_shapes=groups)
    return lambda u, i: model.predict(one_hot(u, i, known))


def libmf(users, items, ratings, penalty):
    import mf as library

    engine = library.MF(k=10, lambda_p2=penalty, lambda_q2=penalty, lambda_p1=0.0, lambda_q1=0.0, nr_threads=1)
    data = np.column_stack([users, items, ratings]).astype(np.float32)
    engine.fit(np.asfortranarray(data))
    return lambda u, i: engine.predict(np.asfortranarray(np.column_stack([u, i]).astype(np.int32)))


def surprise(users, items, ratings, penalty):
    from surprise import SVD, Dataset, Reader
    import pandas as pd

    reader = Reader(rating_scale=(ratings.min(), ratings.max()))
    data = Dataset.load_from_df(pd.DataFrame({"u": users, "i": items, "r": ratings}), reader)
    model = SVD(n_factors=10, reg_all=penalty, n_epochs=30, random_state=0).fit(data.build_full_trainset())
    return lambda u, i: np.array([model.predict(a, b).est for a, b in zip(u, i)])


def average_precision(scores, labels):
    """The mean over rows of the average precision of their labels; ties count against labels."""
    found = []
    for row, wanted in zip(scores, labels):
        if len(wanted):
            good = np.zeros(len(row), bool)
            good[wanted] = True
            order = np.lexsort((good, -row))
            ranks = np.flatnonzero(good[order]) + 1
            found.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return float(np.mean(found))


class Labels(Item):
    metric, less_is_better = "mAP", False

    def whole(self):
        """All rows, and how many of them the published split trains on."""
        from sklearn.datasets import load_svmlight_file

        parts = []
        for part in ("train", "test"):
            path = self.lab.data / self.name / f"{self.name}-{part}.svm.gz"
            lines = [line for line in gzip.open(path, "rt")]
            clean = self.lab.folder / "plain.svm"
            clean.write_text("".join(f"0 {line.split(' ', 1)[1].strip()}\n" for line in lines))
            labels = [[int(v) for v in line.split(" ", 1)[0].split(",") if v] for line in lines]
            parts.append((load_svmlight_file(str(clean), n_features=20000)[0], labels, lines))
        (a, la, ra), (b, lb, rb) = parts
        return sp.vstack([a, b]).tocsr(), la + lb, ra + rb, len(la)

    def split(self, number):
        """The published split first, then random ones of the same size."""
        rows, labels, lines, count = self.whole()
        order = np.arange(len(labels)) if number == 0 else np.random.RandomState(number).permutation(len(labels))
        return rows, labels, lines, order[:count], order[count:]

    def ours(self):
        return {"default": []}

    def run(self, split, options):
        _, _, lines, train, test = self.split(split)
        paths = [self.lab.folder / f"{self.name}.{part}.svm" for part in ("train", "test")]
        for path, part in zip(paths, (train, test)):
            path.write_text("".join(lines[i] for i in part))
        model = self.lab.folder / "m"
        _, cpu = self.lab.rankfold("train", "ranking", paths[0], "-o", model, *options)
        found, _ = self.lab.rankfold("eval", model, paths[1])
        return {"value": found["metrics"]["map"], "cpu": cpu}

    def peer(self, split, settings, fit):
        from sklearn.feature_extraction.text import TfidfTransformer

        rows, labels, _, train, test = self.split(split)
        rows = TfidfTransformer().fit(rows[train]).transform(rows)
        many = 1 + max(max(row, default=0) for row in labels)
        matrix = sp.lil_matrix((len(labels), many))
        for i, row in enumerate(labels):
            matrix[i, row] = 1
        matrix = matrix.tocsr()

        def learned(at, judged, setting):
            scores = fit(rows[at], matrix[at].toarray(), setting)(rows[judged])
            return average_precision(scores, [labels[i] for i in judged])

        keep, judge = held_out(len(train), split)
        setting, edge = tuned(settings, lambda s: s, lambda s: -learned(train[keep], train[judge], s))
        value, cpu = measured(lambda: learned(train, test, setting))
        return {"value": value, "cpu": cpu, "edge": edge, "setting": str(setting)}

    def peers(self):
        return {
            "ridge (scikit-learn)": ("scikit-learn", False, lambda s: self.peer(s, [0.3, 1.0, 3.0, 10.0], ridge)),
            "one-vs-rest logistic (scikit-learn)":
                ("scikit-learn", True, lambda s: self.peer(s, [1.0, 3.0, 10.0], logistic)),
        }


def ridge(rows, labels, penalty):
    from sklearn.linear_model import Ridge

    return Ridge(alpha=penalty, solver="sparse_cg").fit(rows, labels).predict


def logistic(rows, labels, c):
    from sklearn.linear_model import LogisticRegression

    models = [LogisticRegression(C=c, solver="liblinear").fit(rows, y) if 0 < y.sum() < len(y) else None
              for y in labels.T]
    low = -30.0

    def scores(at):
        return np.column_stack([m.decision_function(at) if m else np.full(at.shape[0], low) for m in models])

    return scores


class News(Item):
    metric, less_is_better = "mAP", False

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

    def ours(self):
        return {"default": []}

    def run(self, split, options):
        train, test = self.files(split)
        model = self.lab.folder / "m"
        _, cpu = self.lab.rankfold("train", "similarity", train, "-o", model, *options)
        found, _ = self.lab.rankfold("eval", model, test)
        return {"value": found["metrics"]["map"], "cpu": cpu, "precision_at_1": found["metrics"]["precision_at_1"]}

    def peer(self, split):
        from sklearn.datasets import load_svmlight_file
        from sklearn.svm import LinearSVC

        train, test = self.files(split)
        (a, y), (b, z) = (load_svmlight_file(str(path), n_features=200000) for path in (train, test))

        def learned(rows, known, judged, wanted, setting):
            c, temperature = setting
            margins = LinearSVC(C=c, random_state=0).fit(rows, known).decision_function(judged)
            raised = np.exp((margins - margins.max(1, keepdims=True)) / temperature)
            return retrieval(raised / raised.sum(1, keepdims=True), wanted)

        keep, judge = held_out(len(y), split)
        settings = [(c, t) for c in (0.3, 1.0) for t in (0.1, 0.2, 0.4)]
        setting, edge = tuned(settings, lambda s: s, lambda s: -learned(a[keep], y[keep], a[judge], y[judge], s))
        value, cpu = measured(lambda: learned(a, y, b, z, setting))
        return {"value": value, "cpu": cpu, "edge": edge, "setting": str(setting)}

    def peers(self):
        return {"linear SVM, softmax of margins": ("scikit-learn", False, self.peer)}


def retrieval(points, classes):
    """The mean average precision of every row as a query; ties count against its class."""
    found = []
    for i in range(len(points)):
        scores = points @ points[i]
        good = classes == classes[i]
        keep = np.arange(len(points)) != i
        order = np.lexsort((good[keep], -scores[keep]))
        ranks = np.flatnonzero(good[keep][order]) + 1
        if len(ranks):
            found.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return float(np.mean(found))


class Metric(Item):
    metric = "5-NN error"

    def __init__(self, lab, name, file, column, tested, rank):
        super().__init__(lab, f"{name}, rank {rank}")
        self.file, self.column, self.tested, self.rank = lab.data / file, column, tested, rank

    def whole(self):
        lines = list(csv.reader(gzip.open(self.file, "rt")))
        head, body = lines[0], lines[1:]
        part = np.array([row[head.index(self.column)] in self.tested for row in body])
        label = head.index("label")
        features = [j for j in range(len(head)) if j not in (label, head.index(self.column))]
        return np.array([[float(row[j]) for j in features] for row in body]), np.array([row[label] for row in body]), part

    def split(self, number):
        """The published split first, then random ones of the same size."""
        rows, labels, part = self.whole()
        if number:
            part = np.random.RandomState(number).permutation(part)
        return rows, labels, part

    def ours(self):
        return {"default": []}

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

    def peer(self, split, settings, fit):
        from sklearn.neighbors import KNeighborsClassifier

        rows, labels, part = self.split(split)
        train, test = np.flatnonzero(~part), np.flatnonzero(part)

        def learned(at, judged, setting):
            change = fit(rows[at], labels[at], self.rank, setting)
            model = KNeighborsClassifier(5).fit(change(rows[at]), labels[at])
            return float(np.mean(model.predict(change(rows[judged])) != labels[judged]))

        keep, judge = held_out(len(train), split)
        setting, edge = tuned(settings, lambda s: s, lambda s: learned(train[keep], train[judge], s))
        value, cpu = measured(lambda: learned(train, test, setting))
        return {"value": value, "cpu": cpu, "edge": edge, "setting": str(setting)}

    def peers(self):
        return {
            "all features": ("scikit-learn", False, lambda s: self.peer(s, [None], lambda *_: lambda x: x)),
            "PCA": ("scikit-learn", False, lambda s: self.peer(s, [None], pca)),
            "shrunk LDA": ("scikit-learn", False, lambda s: self.peer(s, [0.01, 0.03, 0.1, 0.3], lda)),
        }


def pca(rows, labels, rank, _):
    from sklearn.decomposition import PCA

    return PCA(rank, random_state=0).fit(rows).transform


def lda(rows, labels, rank, shrinkage):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    count = min(rank, len(np.unique(labels)) - 1)
    return LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage, n_components=count).fit(rows, labels).transform


class Tasks(Item):
    metric = "NMSE"

    def __init__(self, lab, name, file, task, target, ignored):
        super().__init__(lab, name)
        self.file, self.task, self.target, self.ignored = lab.data / file, task, target, ignored

    def parts(self, split):
        prefix = self.lab.folder / f"{self.name}-{split}"
        paths = [Path(f"{prefix}.{part}.csv.gz") for part in ("train", "test")]
        if not paths[0].exists():
            self.lab.rankfold("split", self.file, "-o", prefix, "--test", 0.2, "--seed", split, "--by", self.task)
        return paths

    def ours(self):
        return {"default": []}

    def columns(self):
        more = [word for column in self.ignored for word in ("--ignore-column", column)]
        return ["--task-column", self.task, "--target-column", self.target, *more]

    def run(self, split, options):
        train, test = self.parts(split)
        model = self.lab.folder / "m"
        _, cpu = self.lab.rankfold("train", "multitask", train, "-o", model, *self.columns(), *options)
        found, _ = self.lab.rankfold("eval", model, test)
        return {"value": found["metrics"]["nmse"], "cpu": cpu}

    def arrays(self, path):
        lines = list(csv.reader(gzip.open(path, "rt")))
        head, body = lines[0], lines[1:]
        other = {head.index(name) for name in (self.task, self.target, *self.ignored)}
        features = [j for j in range(len(head)) if j not in other]
        return (np.array([[float(row[j]) for j in features] for row in body]),
                np.array([float(row[head.index(self.target)]) for row in body]),
                np.array([row[head.index(self.task)] for row in body]))

    def peer(self, split, fit):
        train, test = (self.arrays(path) for path in self.parts(split))

        def nmse(predict, at, known):
            found = []
            for task in np.unique(at[2]):
                rows, every = at[2] == task, np.concatenate([known[1][known[2] == task], at[1][at[2] == task]])
                found.append(np.mean((predict(at[0][rows], task) - at[1][rows]) ** 2) / max(every.var(), 1e-12))
            return float(np.mean(found))

        keep, judge = held_out(len(train[1]), split)
        inner, judged = (tuple(a[i] for a in train) for i in (keep, judge))
        penalties = [0.1, 1.0, 10.0, 100.0, 1000.0]
        setting, edge = tuned(penalties, lambda s: fit(*inner, s), lambda predict: nmse(predict, judged, inner))
        value, cpu = measured(lambda: nmse(fit(*train, setting), test, train))
        return {"value": value, "cpu": cpu, "edge": edge, "setting": str(setting)}

    def peers(self):
        return {
            "ridge a task": ("scikit-learn", False, lambda s: self.peer(s, each_ridge)),
            "pooled ridge on z-scores": ("scikit-learn", False, lambda s: self.peer(s, pooled_ridge)),
        }


def each_ridge(rows, targets, tasks, penalty):
    from sklearn.linear_model import Ridge

    models = {t: Ridge(alpha=penalty).fit(rows[tasks == t], targets[tasks == t]) for t in np.unique(tasks)}
    return lambda x, task: models[task].predict(x) if task in models else np.full(len(x), targets.mean())


def pooled_ridge(rows, targets, tasks, penalty):
    """One ridge regression for all tasks, whose targets have mean 0 and variance 1 in each."""
    from sklearn.linear_model import Ridge

    center, scale = rows.mean(0), np.where(rows.std(0) > 0, rows.std(0), 1.0)
    means = {t: targets[tasks == t].mean() for t in np.unique(tasks)}
    sizes = {t: max(targets[tasks == t].std(), 1e-9) for t in np.unique(tasks)}
    wanted = np.array([(y - means[t]) / sizes[t] for y, t in zip(targets, tasks)])
    model = Ridge(alpha=penalty).fit((rows - center) / scale, wanted)
    return lambda x, task: means.get(task, targets.mean()) + sizes.get(task, 1.0) * model.predict((x - center) / scale)


def items(lab):
    parkinsons = ("parkinsons/parkinsons_updrs.csv.gz", "subject#", "total_UPDRS", ["motor_UPDRS"])
    folds = ("isolet/isolet.csv.gz", "fold", {"5"})
    digits = ("usps/usps.csv.gz", "split", {"test"})
    return [
        Ratings(lab, "MovieLens 100K", "ml-100k.csv.gz"), Ratings(lab, "MovieLens 1M", "ml-1m.csv.gz"),
        Labels(lab, "bibtex"), Labels(lab, "corel5k"), Labels(lab, "delicious"), News(lab, "20 Newsgroups"),
        Metric(lab, "Isolet", *folds, 10), Metric(lab, "Isolet", *folds, 20), Metric(lab, "USPS", *digits, 20),
        Tasks(lab, "School", "school/school.csv.gz", "task", "y", []), Tasks(lab, "Parkinsons", *parkinsons),
    ]


HEAD = """# rankfold beside other programs

Every program learns from the same training parts and is measured on the same test parts. Peers are
tuned on a tenth of the training part; rankfold has no options, except where the line names one.
Mean and standard error over splits; the best mean is bold. The first split of labels, news and metrics
is the published one, the others are random ones of the same sizes (for news, 65 to 35). CPU seconds are
those of the last fit and of predicting for peers, and of all that is chosen and learned for rankfold.
Made by `scripts/reproduce peers`; what was measured is in [peers.json](peers.json).
"""


def main(data, splits, quick, missing, action, *chosen):
    lab = Lab(PAGE / "peers.json", data)
    every = items(lab)
    if action == "list":
        print("\n".join(item.name for item in every))
        return
    names = [item.name for item in every]
    unknown = [name for name in chosen if name not in names]
    if unknown:
        sys.exit(f"no item `{unknown[0]}`; there are: {', '.join(names)}")
    missing = [name for name in missing.split(",") if name]
    lines = []
    for item in every:
        if chosen and item.name not in chosen:
            continue
        print(item.name, file=sys.stderr, flush=True)
        found = item.compare(int(splits), missing, quick == "1")
        lines += [[line[0] + f" ({item.metric})", *line[1:]] for line in item.lines(found)]
    text = table(["data", "program", "result", "CPU s", "splits"], lines)
    print(text)
    if not chosen and quick != "1":
        absent = f"\nNot installed here: {', '.join(missing)}.\n" if missing else ""
        (PAGE / "peers.md").write_text(f"{HEAD}\n{text}\n{absent}")


if __name__ == "__main__":
    main(*sys.argv[1:])
