"""Files of other programs are named, with what converts them, and are never taken for a CSV."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.table.helpers import save
from vgi_cli.errors import InputError
from vgi_cli.table import reader, source
from vgi_cli.table.inputs import require_files
from vgi_cli.table.reader import read_table

FRAME = pd.DataFrame({"x": [1.5, None, 2.25], "g": ["a", "b", "a"]})


def stream(frame: pd.DataFrame, path: Path) -> None:
    table = pa.Table.from_pandas(frame)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


WRITTEN: dict[str, tuple[str, Callable[[pd.DataFrame, Path], object]]] = {
    "t.jsonl": ("JSON with an object on each line", lambda f, p: f.to_json(p, orient="records", lines=True)),
    "t.json": ("JSON", lambda f, p: f.to_json(p, orient="records")),
    "columns.json": ("JSON", lambda f, p: f.to_json(p)),
    "t.json.gz": ("JSON with an object on each line", lambda f, p: f.to_json(p, orient="records", lines=True)),
    "t.feather": ("a Feather file (Arrow)", lambda f, p: f.to_feather(p)),
    "t.arrows": ("an Arrow stream", stream),
    "t.orc": ("an ORC file", lambda f, p: f.to_orc(p)),
    "t.dta": ("a Stata file", lambda f, p: f.to_stata(p, write_index=False)),
    "new.dta": ("a Stata file", lambda f, p: f.to_stata(p, write_index=False, version=118)),
    "t.pkl": ("a pickle of Python", lambda f, p: f.to_pickle(p)),
    "t.npy": ("an array of NumPy", lambda f, p: np.save(p, f[["x"]].to_numpy())),
}


def refusal(path: Path) -> tuple[str, str]:
    said = set()
    for read in (reader.read_table, source.open_table):
        with pytest.raises(InputError) as caught:
            read([path])
        said.add((caught.value.message, caught.value.hint or ""))
    return said.pop()


@pytest.mark.parametrize("name", WRITTEN)
def test_the_line_that_is_named_converts_the_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    what, write = WRITTEN[name]
    path = Path(name)
    write(FRAME, path)
    message, hint = refusal(path)
    assert message == f"{name}: {what}, not CSV or Parquet"
    found = re.search(r"`(.*)`", hint)
    assert found is not None
    _, *rest = shlex.split(found[1])
    if name == "t.jsonl":
        subprocess.run([sys.executable, *rest], check=True)
    else:  # half a second less
        option, line = rest
        assert option == "-c"
        exec(line, {})
    out = Path(f"{name.split('.')[0]}.parquet")
    column = "x" if name != "t.npy" else "x0"
    np.testing.assert_array_equal(pd.read_parquet(out)[column], FRAME["x"])


@pytest.mark.parametrize(
    ("begin", "what", "hint"),
    [
        (b"$FL2@(#) SPSS DATA FILE" + bytes(9), "an SPSS file", "p.read_spss('t.csv').to_parquet('t.parquet')"),
        (bytes(12) + b"\xc2\xea\x81\x60", "a SAS file", "p.read_sas('t.csv', format='sas7bdat', encoding='infer')"),
        (b"HEADER RECORD*******LIBRARY", "a SAS transport file", "format='xport'"),
        (b"X\n\0\0\0\x03", "an R file (saveRDS)", "`write.csv(readRDS('t.csv'), 't.csv', row.names=FALSE, na='')`"),
        (gzip.compress(b"X\n\0\0\0\x02\0", mtime=0), "an R file (saveRDS)", "readRDS('t.csv')"),
        (gzip.compress(b"RDX3\nX\n", mtime=0), "an R file (save)", "get(load('t.csv'))"),
        (
            b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
            "a spreadsheet (OpenDocument)",
            "engine='odf'",
        ),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel file (.xls)", "engine='xlrd'"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "p.read_hdf('t.csv')"),
        (b"FEA1\0\0", "a Feather file (Arrow)", "p.read_feather('t.csv')"),
        (b'\xef\xbb\xbf{"x": 1}\r\n\r\n{"x": 2}\r\n', "JSON with an object on each line", "lines=True"),
        (b'[\n  {"x": 1},\n  {"x": 2}\n]\n', "JSON", "p.read_json('t.csv', dtype=False)"),
        (b'{"x\\"": [1, 2]}', "JSON", "(with lines=True if each line is an object)"),
    ],
)
def test_named(begin: bytes, what: str, hint: str, tmp_path: Path) -> None:
    path = save(tmp_path, "t.csv", begin)
    message, said = refusal(path)
    assert message == f"t.csv: {what}, not CSV or Parquet"
    assert hint.replace("'t.csv'", f"'{path}'", 1) in said
    if not begin.startswith(b"\x1f\x8b"):
        with pytest.raises(InputError, match=re.escape(what)):  # before anything costly is loaded
            require_files([path])


def test_a_name_that_begins_as_another_format_does_is_read(tmp_path: Path) -> None:
    path = save(tmp_path, "t.csv", b"FEA1,FEA2\n1,2\n2,3\n")
    assert read_table([str(path)]).names == ("FEA1", "FEA2")


def test_in_an_archive(tmp_path: Path) -> None:
    text = b'{"x":1}\n{"x":2}\n'
    save(tmp_path, "t.jsonl.xz", lzma.compress(text))
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", text)
    for name in ("t.jsonl.xz", "t.zip"):
        message, hint = refusal(tmp_path / name)
        assert message == f"{name}: JSON with an object on each line, not CSV or Parquet"
        assert "p.read_json('FILE', lines=True, dtype=False).to_parquet('FILE.parquet')" in hint


def test_a_pipe() -> None:
    with pytest.raises(InputError) as caught:
        reader.read_table(["-"], stdin=io.BytesIO(b'{"x":1}\n{"x":2}\n'))
    assert caught.value.message == "standard input: JSON with an object on each line, not CSV or Parquet"
    assert "p.read_json('FILE', lines=True, dtype=False).to_parquet('FILE.parquet')" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["a b.csv", "it's.csv", "OUT.csv"])
def test_names_in_a_line_for_the_shell(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, name, b"ARROW1\0\0")
    file, out = ("FILE", "FILE") if "'" in name else (str(path), path.stem)
    assert f"p.read_feather('{file}').to_parquet('{out}.parquet')" in refusal(path)[1]


@pytest.mark.parametrize(
    "text",
    [
        "ORC,x\n1,2\n",
        "{x},[y]\n1,2\n",
        '"{""x"": 1}",y\n1,2\n',
        "RDX,A\n1,2\n",
        "FEA,x\n1,2\n",
        "$FL2,x\n1,2\n",
        "A\n2\n3\n",
        "[{x},y\n1,2\n",
    ],
)
def test_tables_that_begin_alike_are_read(text: str, tmp_path: Path) -> None:
    assert reader.read_table([save(tmp_path, "t.csv", text)]).N >= 1
