"""Files with measurements: all comes back; what is no such file, and what is no measurement in one, is told with its place."""

import io
import json
import sys

import pytest
from andiron.dsl.errors.database import BadMeasurement
from andiron.dsl.errors.module import NoSuchFile
from andiron.dsl.errors.run import DamagedFile, NoPackage
from andiron.dsl.errors.target import CannotWrite
from andiron.runtime.tuning.database import parquet_file
from andiron.runtime.tuning.database.exchange import export_rows, import_rows
from andiron.runtime.tuning.database.open_database import open_database

from ....support.tuning.measurements import row, rows

ALL = [*rows(12), row(32, run="é", detail="a\nb", verdict="died", seconds=()), row(1, seconds=(0.1 + 0.2,))]


@pytest.fixture
def database(tmp_path):
    out = open_database(tmp_path / "x.db")
    out.add(ALL)
    return out


def empty(tmp_path):
    return open_database(tmp_path / "empty.db")


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet"])
def test_there_and_back(database, tmp_path, monkeypatch, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="the extra `parquet`")
        monkeypatch.setattr(parquet_file, "_GROUP", 5)
        monkeypatch.setattr(parquet_file, "_BATCH", 3)
    path = str(tmp_path / name)
    assert export_rows(database, path) == len(ALL)
    other = empty(tmp_path)
    assert [import_rows(other, path), import_rows(other, path)] == [len(ALL), 0]
    assert sorted(other.rows(), key=lambda m: m.key) == sorted(ALL, key=lambda m: m.key)
    assert export_rows(database, path, op="nothing") == 0
    assert import_rows(other, path) == 0


def test_lines_that_are_no_measurements(database, tmp_path):
    path = tmp_path / "x.jsonl"
    export_rows(database, str(path))
    good = path.read_text(encoding="utf-8").splitlines()
    values = json.loads(good[-2])
    wrong = {
        "line 5 is no measurement": good[4][:-5],
        "line 5: `good` is no verdict": json.dumps(values | {"verdict": "good"}),
        "line 5 is no measurement: it has no 'host'": json.dumps({k: v for k, v in values.items() if k != "host"}),
        "line 5 is no measurement: .*more": json.dumps(values | {"more": 1}),
        "line 5 is no measurement: it has no 'x'": json.dumps(values | {"of": "x"}),
        "line 5 is no measurement: list": "[]",
        "line 5: the verdict is `right`, and there are no samples\n.*leave": json.dumps(values | {"samples": []}),
        "line 5: a sample is no time of a call: 0 s": json.dumps(values | {"samples": [1e-3, 0]}),
        "line 5: a sample is no time of a call: nan s": json.dumps(values | {"samples": [float("nan")]}),
        "line 5: the host .* half of a character": json.dumps(values | {"host": "\ud800"}),
        "line 5: a sample is larger than any": json.dumps(values | {"samples": [10**400]}),
        "not what its key stands for": good[2].replace('"cpu"', '"cuda:sm_80"'),
    }
    for match, line in wrong.items():
        path.write_text("\n".join([*good[:4], line, *good[5:]]), encoding="utf-8")
        with pytest.raises(BadMeasurement, match=match):
            import_rows(empty(tmp_path), str(path))
    assert list(empty(tmp_path).rows()) == []


@pytest.mark.parametrize("kept", [1, 2, 4, 9, -2, -1])
def test_a_file_that_was_cut_at_the_end_of_a_line(database, tmp_path, monkeypatch, kept):
    """Nothing of it is stored, whether it is a file or a stream."""
    path = tmp_path / "x.jsonl"
    export_rows(database, str(path))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept]))
    for where in (str(path), "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        with pytest.raises(DamagedFile, match=r"was cut.*\n.*export the measurements again"):
            import_rows(empty(tmp_path), where)
    assert list(empty(tmp_path).rows()) == []


def test_the_number_of_rows(database, tmp_path):
    path = tmp_path / "x.jsonl"
    export_rows(database, str(path))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1]) == {"rows": len(ALL)}
    path.write_text("\n".join([*lines[:5], *lines[6:]]), encoding="utf-8")
    with pytest.raises(DamagedFile, match=f"has {len(ALL) - 1} rows, and its last line states {len(ALL)}"):
        import_rows(empty(tmp_path), str(path))
    path.write_text("\n".join([*lines, lines[-2]]), encoding="utf-8")
    with pytest.raises(BadMeasurement, match="the line before it is the last one"):
        import_rows(empty(tmp_path), str(path))
    assert list(empty(tmp_path).rows()) == []


def test_files_of_earlier_versions_do_not_state_it(database, tmp_path):
    path = tmp_path / "x.jsonl"
    export_rows(database, str(path))
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([lines[0].replace("2", "1"), *lines[1:-1]]), encoding="utf-8")
    said = []
    assert import_rows(empty(tmp_path), str(path), said.append) == len(ALL)
    assert len(said) == 1
    assert "does not state how many rows it has" in said[0]


def test_files_that_are_something_else(database, tmp_path):
    path = tmp_path / "x.jsonl"
    for data in (b"", b"a text\n", b"\xff\xfe", b'{"format": "andiron measurements", "form": 3}\n'):
        path.write_bytes(data)
        with pytest.raises(DamagedFile, match="no file of measurements"):
            import_rows(empty(tmp_path), str(path))
    with pytest.raises(NoSuchFile):
        import_rows(empty(tmp_path), str(tmp_path / "nothing.jsonl"))
    with pytest.raises(CannotWrite):
        export_rows(database, str(tmp_path / "nowhere" / "x.jsonl"))


def test_parquet_files_that_are_something_else(database, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="the extra `parquet`")
    import pyarrow.parquet as pq

    path = str(tmp_path / "x.parquet")
    export_rows(database, path)
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["host"]), path)
    with pytest.raises(DamagedFile, match="no column host"):
        import_rows(empty(tmp_path), path)
    verdicts = pa.array(["good"] * len(ALL))
    pq.write_table(table.set_column(table.schema.get_field_index("verdict"), "verdict", verdicts), path)
    with pytest.raises(BadMeasurement, match="row 1: `good` is no verdict"):
        import_rows(empty(tmp_path), path)
    (tmp_path / "x.parquet").write_text("a text")
    with pytest.raises(DamagedFile, match="Parquet"):
        import_rows(empty(tmp_path), path)


def test_parquet_without_its_package(database, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NoPackage, match="pyarrow"):
        export_rows(database, str(tmp_path / "x.parquet"))
    assert [p.name for p in tmp_path.iterdir()] == ["x.db"]
