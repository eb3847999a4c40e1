"""Files that are small and expand enormously, or no table at all, are refused before they fill the memory."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.table.helpers import save
from vgi_cli import ranges
from vgi_cli.errors import InputError, TooLarge
from vgi_cli.table import inputs, join, reader, source
from vgi_cli.table.csv import rows, text

READS = {"whole": reader.read_table, "in blocks": source.open_table}


@pytest.fixture(params=READS)
def read(request: pytest.FixtureRequest) -> object:
    return READS[request.param]


def refused(read: object, path: Path | str, **options: object) -> str:
    with pytest.raises(TooLarge) as caught:
        read([path], **options)  # type: ignore[operator]
    assert caught.value.hint and caught.value.exit_code == 2
    return caught.value.message


def test_columns(read: object, tmp_path: Path) -> None:
    header = ",".join(f"c{i}" for i in range(ranges.MOST_COLUMNS + 1))
    path = save(tmp_path, "t.csv", f"{header}\n{'1,' * ranges.MOST_COLUMNS}1\n")
    assert refused(read, path) == "t.csv: the header has 100,001 columns, at most 100,000 are read"


def test_parquet_columns(read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "MOST_COLUMNS", 3)
    pq.write_table(pa.table({name: [1.0] for name in "abcd"}), tmp_path / "t.parquet")
    assert refused(read, tmp_path / "t.parquet") == "t.parquet: 4 columns, at most 3 are read"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("x" * 3000, "t.csv: a line is longer than 0 MiB"),
        ('"' + "x\n" * 1500 + '"', "t.csv: the row that begins on line 3 is longer than 0 MiB"),
    ],
)
def test_rows(read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str, said: str) -> None:
    for module in (inputs, rows, text):
        monkeypatch.setattr(module, "MOST_ROW", 1000)
    monkeypatch.setattr(inputs, "PIECE", 100)
    monkeypatch.setattr(rows, "PIECE", 100)
    assert refused(read, save(tmp_path, "t.csv", f"a,b\n1,2\n3,{cell}\n5,6\n" * 1)) == said


def test_a_quote_that_nothing_closes_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_ROW", 1000)
    monkeypatch.setattr(rows, "PIECE", 100)
    path = save(tmp_path, "t.csv", 'a,b\n1,2\n3,"' + "4,5\n" * 5000)
    assert refused(source.open_table, path) == "t.csv: the row that begins on line 3 is longer than 64 MiB"


def test_gzip(read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 250_000)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(data)
    assert read([path]).origin.N == 250_000  # type: ignore[operator]
    monkeypatch.setattr(inputs, "FREE_EXPANSION", 1 << 19)
    assert refused(read, path).startswith(f"t.csv.gz: its {len(data):,} bytes expand to more than")


@pytest.mark.parametrize(("name", "said"), [("FREE_CELLS", "rows of 2 columns in"), ("FREE_EXPANSION", "expand to")])
def test_parquet(read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    zeros = np.zeros(3_000_000)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": zeros, "b": zeros}), path, compression="zstd", use_dictionary=name == "FREE_CELLS")
    assert path.stat().st_size < 50_000
    for limit in (name, name.replace("FREE", "MOST")):
        monkeypatch.setattr(join, limit, 1)
    assert said in refused(read, path)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"PK\x03\x04rest", "a zip archive or a spreadsheet"),
        (b"BZh91AY", "a bzip2 file"),
        (b"\xfd7zXZ\x00", "an xz file"),
        (b"\x28\xb5\x2f\xfd", "a Zstandard file"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    ],
)
def test_archives(read: object, tmp_path: Path, data: bytes, what: str) -> None:
    path = save(tmp_path, "t.csv", data)
    with pytest.raises(InputError, match=f"t.csv: {what}, not a table"):
        read([path])  # type: ignore[operator]


def test_what_is_within_the_limits_is_read() -> None:
    cell = "x" * (1 << 20)
    table = reader.read_table(["-"], stdin=io.BytesIO(f"a,b\n1,{cell}\n".encode()))
    assert table.text("b")[0] == cell
