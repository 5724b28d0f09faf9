"""Recommendations from choices, beside other programs."""

import csv
import gzip
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from reproduce.peers import Item, Peer

TOP = 10


def ndcg(lists, test):
    """NDCG and recall of lists of items, over users with a test item; gains are binary."""
    gains, recalls = [], []
    discount = 1 / np.log2(np.arange(2, TOP + 2))
    for user, found in enumerate(lists):
        wanted = test.indices[test.indptr[user]:test.indptr[user + 1]]
        if len(wanted):
            hits = np.isin(found, wanted)
            gains.append(float(discount[: len(found)] @ hits / discount[: min(TOP, len(wanted))].sum()))
            recalls.append(hits.sum() / len(wanted))
    return float(np.mean(gains)), float(np.mean(recalls))


def lists_of(scores, train):
    """The best items of each user, without those chosen before. `scores` gives those of some users."""
    out = []
    for first in range(0, train.shape[0], 500):
        rows = train[first:first + 500]
        block = np.array(scores(slice(first, first + rows.shape[0])), dtype=np.float64)
        block[rows.nonzero()] = -np.inf
        best = np.argpartition(-block, TOP - 1, axis=1)[:, :TOP]
        places = np.arange(len(block))[:, None]
        out.append(best[places, np.argsort(-block[places, best], axis=1, kind="stable")])
    return np.concatenate(out)


def popularity(train, _wanted, _setting):
    counts = np.asarray(train.sum(axis=0)).ravel()
    return lists_of(lambda users: np.tile(counts, (users.stop - users.start, 1)), train)


def ease(train, _wanted, penalty):
    gram = (train.T @ train).toarray().astype(np.float64)
    gram[np.diag_indices_from(gram)] += penalty
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return lists_of(lambda users: train[users] @ weights, train)


def implicit_als(train, _wanted, setting):
    from implicit.als import AlternatingLeastSquares

    factors, penalty, alpha = setting
    model = AlternatingLeastSquares(factors=factors, regularization=penalty, alpha=alpha, random_state=0,
                                    num_threads=1, use_gpu=False)
    model.fit(train, show_progress=False)
    return lists_of(lambda users: model.user_factors[users] @ model.item_factors.T, train)


def implicit_bpr(train, _wanted, setting):
    from implicit.bpr import BayesianPersonalizedRanking

    factors, penalty, iterations = setting
    model = BayesianPersonalizedRanking(factors=factors, regularization=penalty, iterations=iterations,
                                        random_state=0, num_threads=1, use_gpu=False)
    model.fit(train, show_progress=False)
    return lists_of(lambda users: model.user_factors[users] @ model.item_factors.T, train)


def lightfm_warp(train, _wanted, epochs):
    from lightfm import LightFM

    model = LightFM(no_components=64, loss="warp", random_state=0).fit(train, epochs=epochs)
    (item_bias, items), (_, users_of) = model.get_item_representations(), model.get_user_representations()
    return lists_of(lambda users: users_of[users] @ items.T + item_bias, train)


class Clicks(Item):
    """Lists of items for users: a tenth of the choices of each user, or the last one, is looked for."""

    metric, less_is_better, also = "NDCG@10", False, "recall"

    def __init__(self, lab, name, source, last=False, large=False, share=0.1):
        super().__init__(lab, name)
        self.source, self.last = source, last
        self.splits = 1 if last else 5
        self.large, self.share = large, share

    def files(self, split):
        prefix = self.lab.folder / f"{self.name.replace(' ', '-')}-{split}"
        paths = [Path(f"{prefix}.{part}.csv") for part in ("train", "test")]
        if not paths[0].exists():
            whole = self.lab.folder / f"{self.name.replace(' ', '-')}.csv"
            if not whole.exists():
                self.source(self.lab.data, whole)
            how = ["--last", 1] if self.last else ["--test", self.share, "--seed", split]
            self.lab.rankfold("split", whole, "-o", prefix, "--by", "user", *how)
        return paths

    def run(self, split, options):
        train, test = self.files(split)
        model = self.lab.folder / "m"
        _, cpu = self.lab.rankfold("train", "recommend", train, "-o", model, "--threads", 1, *options)
        found, _ = self.lab.rankfold("eval", model, test)
        return {"value": found["metrics"]["ndcg_at_10"], "also": found["metrics"]["recall_at_10"], "cpu": cpu}

    def sides(self, split):
        users, items, parts = {}, {}, []
        for path in self.files(split):
            with open(path) as lines:
                rows = [(line["user"], line["item"]) for line in csv.DictReader(lines)]
            pairs = [(users.setdefault(u, len(users)), items.setdefault(i, len(items))) for u, i in rows]
            parts.append(np.array(pairs))
        shape = (len(users), len(items))
        return [sp.csr_matrix((np.ones(len(p), np.float32), (p[:, 0], p[:, 1])), shape=shape) for p in parts]

    def divided(self, train, split):
        entries = train.tocoo()
        held = np.random.RandomState(1000 + split).rand(train.nnz) < 0.1
        return [sp.csr_matrix((entries.data[part], (entries.row[part], entries.col[part])), shape=train.shape)
                for part in (~held, held)]

    def value(self, predicted, test, train):
        return ndcg(predicted, test)

    def peers(self):
        few = 2 if self.large else None
        als = tuple((64, p, a) for p in (0.1, 1, 10, 30) for a in (1, 3, 10))
        return {
            "popularity": Peer("numpy", popularity),
            "EASE (full rank)": Peer("numpy", ease, (30, 100, 300, 1000, 3000, 10000), once=self.large),
            "implicit ALS, rank 64": Peer("implicit", implicit_als, als, once=True),
            "implicit BPR, rank 64":
                Peer("implicit", implicit_bpr, tuple((64, p, n) for p in (0.003, 0.01, 0.03) for n in (100, 300)),
                     once=True, slow=True, splits=few),
            "LightFM WARP, rank 64":
                Peer("lightfm-next", lightfm_warp, (10, 30, 60), once=True, slow=True, splits=few),
        }


def movielens(file):
    """Who rated what, and when where the file says so."""

    def write(data, path):
        with gzip.open(data / "movielens" / file, "rt") as lines, open(path, "w") as out:
            timed = "ml-100k" in file
            out.write("user,item,time\n" if timed else "user,item\n")
            for line in csv.DictReader(lines):
                when = f",{line['timestamp']}" if timed else ""
                out.write(f"{line['user']},{line['item']}{when}\n")

    return write


def tags(data, path):
    """Documents that choose their tags."""
    with open(path, "w") as out:
        out.write("user,item\n")
        number = 0
        for part in ("train", "test"):
            with gzip.open(data / "bibtex" / f"bibtex-{part}.svm.gz", "rt") as lines:
                for line in lines:
                    labels = line.split(" ", 1)[0].split(",")
                    if len(labels) > 1 and labels[0]:
                        out.writelines(f"d{number},t{label}\n" for label in labels)
                    number += 1


def items(lab):
    return [
        Clicks(lab, "MovieLens 100K choices", movielens("ml-100k.csv.gz")),
        Clicks(lab, "MovieLens 100K last choice", movielens("ml-100k.csv.gz"), last=True),
        Clicks(lab, "MovieLens 1M choices", movielens("ml-1m.csv.gz"), large=True),
        # Documents have two or three tags: half of them, rounded down, is looked for.
        Clicks(lab, "bibtex tags", tags, share=0.5),
    ]
