"""Files of the guides, made from small archives of the form that publishers have."""

import gzip
import importlib.machinery
import importlib.util
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("data")
loader = importlib.machinery.SourceFileLoader("data", str(SCRIPT))
spec = importlib.util.spec_from_loader("data", loader)
data = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
loader.exec_module(data)


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


ARCHIVES = {
    "movielens-100k": (
        {"ml-100k/u.data": "196\t242\t3\t881250949\n", "ml-100k/u.item": "242|Kolya, (1996)|24-Jan-1997||\n".encode("latin-1")},
        {"ml-100k.csv": "user,item,rating,timestamp\n196,242,3,881250949\n", "ml-100k.titles.csv": 'item,title\n242,"Kolya, (1996)"\n'}),
    "movielens-1m": (
        {"ml-1m/ratings.dat": "1::1193::5::978300760\n", "ml-1m/movies.dat": "1193::Fantôme (1975)::Drama\n".encode("latin-1")},
        {"ml-1m.csv": "user,item,rating,timestamp\n1,1193,5,978300760\n", "ml-1m.titles.csv": "item,title\n1193,Fantôme (1975)\n"}),
    "wine": ({"wine.data": "1," + ",".join("1" * 13) + "\n"}, {"wine.csv": None}),
    "iris": ({"iris.data": "5.1,3.5,1.4,.2,Iris-setosa\n\n"},
             {"iris.csv": "sepal_length,sepal_width,petal_length,petal_width,species\n5.1,3.5,1.4,.2,Iris-setosa\n"}),
    "parkinsons": ({"parkinsons_updrs.data": "subject#,age\n1,72\n"}, {"parkinsons.csv": "subject#,age\n1,72\n"}),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_becomes_the_files_of_the_guides(name, tmp_path):
    files, wanted = ARCHIVES[name]
    (tmp_path / "a.zip").write_bytes(zipped(files))
    said = subprocess.run([sys.executable, SCRIPT, name, "-o", tmp_path / "out", "--archive", tmp_path / "a.zip"],
                          capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(wanted)
    for file, content in wanted.items():
        found = (tmp_path / "out" / file).read_text(encoding="utf-8")
        assert content is None or found == content
        assert len({line.count(",") for line in found.splitlines() if '"' not in line}) == 1


def test_speakers_of_isolet_are_in_five_folds():
    rows = "".join(f"{i / 10}, -.5, {1 + i % 26}.\n" for i in range(8)).encode()
    # Publishers pack with `compress`; gzip reads both by their first bytes.
    made = data.isolet(zipped({"isolet1+2+3+4.data.Z": gzip.compress(rows), "isolet5.data.Z": gzip.compress(b".1,.2,26.\n")}))
    lines = made["isolet.csv"].decode().splitlines()
    assert lines[0] == "fold,label,f1,f2"
    assert [line.split(",")[0] for line in lines[1:]] == list("112233445")
    assert lines[2] == "1,B,0.1,-.5" and lines[-1] == "5,Z,.1,.2"


def test_messages_keep_their_part_and_group():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as files:
        for name, text in [("20news-bydate-test/sci.med/2", b"caf\xe9"), ("20news-bydate-train/sci.med/1", b"a\nb")]:
            info = tarfile.TarInfo(name)
            info.size = len(text)
            files.addfile(info, io.BytesIO(text))
    made = data.news(out.getvalue())["20news-bydate.jsonl.gz"]
    lines = [json.loads(line) for line in gzip.decompress(made).decode().splitlines()]
    assert [line["split"] for line in lines] == ["test", "train"]
    assert lines[0] == {"split": "test", "label": "sci.med", "id": "2", "text": "café"}
    assert data.news(out.getvalue())["20news-bydate.jsonl.gz"] == made


@pytest.mark.parametrize("content", [b"no archive", zipped({"other.txt": "x"})])
def test_what_is_no_such_archive_writes_nothing(content, tmp_path):
    (tmp_path / "a.zip").write_bytes(content)
    said = subprocess.run([sys.executable, SCRIPT, "wine", "-o", tmp_path / "out", "--archive", tmp_path / "a.zip"],
                          capture_output=True, text=True)
    assert said.returncode == 1 and "is not what was expected" in said.stderr
    assert list((tmp_path / "out").iterdir()) == []
