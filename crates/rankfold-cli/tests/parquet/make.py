"""Makes the files of these tests with pyarrow (made with 26.0): `python3 make.py files`.

A table is written once as CSV and in as many ways as there are: the CSV file is the oracle.
"""

import datetime
import pathlib
import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

folder = pathlib.Path(sys.argv[1])


def at(name):
    return str(folder / name)


# Rows with every type of numbers, missing cells, texts as labels and whole numbers as ids.
n = 24
rows = pa.table(
    {
        "id": pa.array([10_000_000_000 + i for i in range(n)], pa.int64()),
        "label": pa.array(["first" if i % 2 else "sec,ond" for i in range(n)]),
        "a": pa.array([None if i == 3 else i / 4 - (i % 2) for i in range(n)], pa.float32()),
        "b": pa.array([float("nan") if i == 5 else 1e-7 * i for i in range(n)], pa.float64()),
        "c": pa.array([i % 5 for i in range(n)], pa.int8()),
        "d": pa.array([None if i == 7 else i % 3 == 0 for i in range(n)], pa.bool_()),
        "e": pa.array([2**40 + i for i in range(n)], pa.uint64()),
        "f": pa.array([i * 25 for i in range(n)], pa.int64()).cast(pa.decimal128(20, 0)),
    }
)
text = ["id,label,a,b,c,d,e,f"]
for row in rows.to_pylist():
    cell = lambda v: "" if v is None or v != v else str(int(v)) if isinstance(v, bool) else str(v)
    label = f'"{row["label"]}"' if "," in row["label"] else row["label"]
    text.append(",".join(label if k == "label" else cell(v) for k, v in row.items()))
(folder / "rows.csv").write_text("\n".join(text) + "\n")
for codec in ["none", "snappy", "gzip", "zstd", "lz4"]:
    pq.write_table(rows, at(f"rows-{codec}.parquet"), compression=codec, row_group_size=10)
pq.write_table(rows, at("rows-brotli.parquet"), compression="brotli")
pq.write_table(rows, at("rows-v2.parquet"), data_page_version="2.0", use_dictionary=False,
               column_encoding={"e": "DELTA_BINARY_PACKED", "label": "DELTA_BYTE_ARRAY",
                                "b": "BYTE_STREAM_SPLIT"}, store_schema=False)
for codec in ["uncompressed", "lz4", "zstd"]:
    pyarrow.feather.write_feather(rows, at(f"rows-{codec}.feather"), compression=codec, chunksize=7)
with pa.ipc.new_stream(at("rows-stream.arrow"), rows.schema) as stream:
    stream.write_table(rows, max_chunksize=5)
others = rows.set_column(1, "label", rows["label"].cast(pa.large_string()).dictionary_encode())
others = others.set_column(2, "a", others["a"].dictionary_encode())
pq.write_table(others, at("rows-dictionary.parquet"))
with pa.ipc.new_file(at("rows-dictionary.arrow"), others.schema) as file:
    file.write_table(others)
views = rows.set_column(1, "label", rows["label"].cast(pa.string_view()))
with pa.ipc.new_file(at("rows-view.arrow"), views.schema) as file:
    file.write_table(views)

# Ratings as people have them: whole numbers as ids, floats, a time that is no number, a list.
ratings = [(u * 7, (u * u + j * 3) % 11, (u + j) % 9 / 2 + 0.5) for u in range(20) for j in range(5)]
when = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=i) for i in range(len(ratings))]
table = pa.table(
    {
        "userId": pa.array([r[0] for r in ratings], pa.int64()),
        "movieId": pa.array([r[1] for r in ratings], pa.float64()),
        "rating": pa.array([r[2] for r in ratings], pa.float32()),
        "timestamp": pa.array(when, pa.timestamp("us")),
        "genres": pa.array([["a", "b"]] * len(ratings)),
    }
)
pq.write_table(table, at("ratings.parquet"))
pyarrow.feather.write_feather(table.drop(["genres"]), at("ratings.arrow"))
text = ["userId,movieId,rating,timestamp"]
text += [f"{u},{i},{r},{t.isoformat()}Z" for (u, i, r), t in zip(ratings, when)]
(folder / "ratings.csv").write_text("\n".join(text) + "\n")
broken = table.set_column(2, "rating", pa.array([None if i == 4 else 1.0 for i in range(len(ratings))]))
pq.write_table(broken, at("hole.parquet"))

# Tasks.
school = pa.table(
    {
        "task": [f"t{i % 3}" for i in range(60)],
        "x": [i / 8 for i in range(60)],
        "y": [(i * i) % 7 for i in range(60)],
        "target": [i / 8 * (1 + i % 3) + (i * i) % 7 for i in range(60)],
        "__index_level_0__": list(range(60)),
    }
)
pq.write_table(school, at("tasks.parquet"))
(folder / "tasks.csv").write_text(
    "task,x,y,target\n"
    + "".join(f"{r['task']},{r['x']},{r['y']},{r['target']}\n" for r in school.to_pylist())
)

# Documents with quotes and line breaks.
words = ["apple pie", 'the "red" apple', "a tree,\nan apple", "carrot soup", "soup\r\nof carrots"]
texts = pa.table({"text": words * 3, "label": ["fruit", "fruit", "fruit", "root", "root"] * 3})
pq.write_table(texts, at("texts.parquet"))
with (folder / "texts.jsonl").open("w") as out:
    import json

    for row in texts.to_pylist():
        out.write(json.dumps(row) + "\n")

# Names that are numbers, as a frame of pandas without names has them.
pq.write_table(pa.table({"0": [1.0, 2.0, 3.0], "1": [0.5, 0.0, 4.0]}), at("numbers.parquet"))
pq.write_table(pa.table({"tags": [["a"], ["b"]]}), at("lists.parquet"))
pq.write_table(pa.table({"a": [1.0, 2.0], "tags": [["a"], ["b"]]}), at("some-lists.parquet"))
pq.write_table(pa.table({"a": pa.array([], pa.float64())}), at("empty.parquet"))
(folder / "old.feather").write_bytes(b"FEA1" + bytes(60) + b"FEA1")
