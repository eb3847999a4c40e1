"""Folders of Parquet whose names are values, and compressed CSV."""

from __future__ import annotations

import bz2
import errno
import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.cli.test_refusals import refused
from tests.program import Vgi, vgi
from tests.selection import some
from vgi_cli.errors import InputError, UsageError, VgiError
from vgi_cli.table import folders
from vgi_cli.table import source as row_blocks
from vgi_cli.table.folders import refuse_folders, write_folders
from vgi_cli.table.inputs import CODECS
from vgi_cli.table.outputs import packed_name
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import open_table
from vgi_cli.table.writer import compressed

__all__ = ["vgi"]


def save(folder: Path, name: str, table: pa.Table) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name)


@pytest.fixture
def hive(tmp_path: Path) -> Path:
    """Four files in folders of two columns, and what is not part of the table."""
    folder = tmp_path / "hive"
    for number, name in enumerate(
        ["year=2020/area=a%20b/0.parquet", "year=2020/area=c/0.parquet", "year=2021/area=c/0.parquet"]
    ):
        save(folder, name, pa.table({"x": [number + 0.5, None, 1.0], "k": [number, 1, 2]}))
    save(folder, "year=2021/area=__HIVE_DEFAULT_PARTITION__/0.parquet", pa.table({"k": [7], "x": [9.5]}))
    save(folder, "_delta_log/0.parquet", pa.table({"other": [1]}))
    save(folder, "year=2021/.hidden.parquet", pa.table({"other": [1]}))
    (folder / "_SUCCESS").write_text("")
    return folder


def test_names_of_folders_are_columns_as_arrow_reads_them(hive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "block_rows", lambda width: 4)
    table = read_table([hive])
    assert table.names == ("x", "k", "year", "area") and table.N == 10
    assert table.numeric("year").tolist() == [2020.0] * 6 + [2021.0] * 4
    assert table.text("area").tolist() == ["a b"] * 3 + ["c"] * 3 + [None] + ["c"] * 3
    source = open_table([hive])
    assert source.origin.N == 10 and source.origin.label == "hive" and source.origin.sha256 == table.sha256
    parts = [block.table for block in source.blocks()]
    assert [cell for part in parts for cell in part.text("area")] == table.text("area").tolist()
    arrow = ds.dataset(hive, partitioning="hive").to_table().sort_by([("year", "ascending"), ("k", "ascending")])
    own = pa.table({name: table.text(name).tolist() for name in table.names})
    assert sorted(map(str, own["year"].to_pylist())) == sorted(map(str, arrow["year"].to_pylist()))
    assert sorted(map(str, own["area"].to_pylist())) == sorted(map(str, arrow["area"].to_pylist()))


def test_another_value_is_another_table(hive: Path) -> None:
    before = read_table([hive]).sha256
    (hive / "year=2020").rename(hive / "year=2019")
    assert read_table([hive]).sha256 != before


def test_codes_with_leading_zeros_are_texts(tmp_path: Path) -> None:
    for month in ("07", "11"):
        save(tmp_path / "t", f"month={month}/a.parquet", pa.table({"x": [1.0]}))
    assert read_table([tmp_path / "t"]).text("month").tolist() == ["07", "11"]
    assert read_table([tmp_path / "t"]).stored("month") == "string"


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ([], "the folder holds no Parquet file"),
        (["_a/x.parquet"], "'_a/x.parquet' begins with _ or ., or lies in such a folder"),
        (["_a=1/x.parquet", "b=1/x.parquet"], "'_a=1/x.parquet' lies in folders of _a=…, 'b=1/x.parquet' of b=…"),
        ([".b/x.parquet", "_c.parquet"], "its Parquet files are left out: '.b/x.parquet'"),
        (["a=1/x.parquet", "b=1/x.parquet"], "'a=1/x.parquet' lies in folders of a=…, 'b=1/x.parquet' of b=…"),
        (["a=1/b=2/x.parquet", "x.parquet"], "'a=1/b=2/x.parquet' lies in folders of a=…/b=…, 'x.parquet' of none"),
        (["a=1/a=2/x.parquet"], "'a=1/a=2/x.parquet': a column names two of its folders"),
        (["v=1/x.parquet"], "v=1/x.parquet: the column 'v' stands in the file, and its folder is named by it"),
    ],
)
def test_folders_that_are_no_table(tmp_path: Path, names: list[str], error: str) -> None:
    (tmp_path / "t").mkdir()
    for name in names:
        save(tmp_path / "t", name, pa.table({"v": [1.0]}))
    for read in (read_table, open_table):
        with pytest.raises(InputError) as found:
            read([tmp_path / "t"])  # type: ignore[operator]
        assert error in found.value.message


def test_schemas_that_do_not_fit_are_named_by_their_file(tmp_path: Path) -> None:
    save(tmp_path / "t", "p=1/x.parquet", pa.table({"v": [1.0]}))
    save(tmp_path / "t", "p=2/x.parquet", pa.table({"w": [1.0]}))
    with pytest.raises(InputError, match=r"p=2/x\.parquet: other columns than p=1/x\.parquet"):
        read_table([tmp_path / "t"])
    save(tmp_path / "t", "p=2/x.parquet", pa.table({"v": [[1.0]]}))
    with pytest.raises(InputError, match="columns differ in type"):
        open_table([tmp_path / "t"])


TEXT = "a,b,g\n" + "".join(f"{i / 8},{'' if i % 3 else i},{'xy'[i % 2]}\n" for i in range(30))


@pytest.mark.parametrize("suffix", some([".gz", ".zst"], CODECS))
def test_compressed_csv_comes_and_goes(vgi: Vgi, suffix: str) -> None:
    Path("plain.csv").write_text(TEXT)
    Path(f"data.csv{suffix}").write_bytes(b"".join(compressed([TEXT[:20].encode(), TEXT[20:].encode()], suffix)))
    assert read_table([f"data.csv{suffix}"]).numeric("a").tolist() == read_table(["plain.csv"]).numeric("a").tolist()
    fit = ("--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none", "-q", "--out", "run")
    assert vgi("fit", f"data.csv{suffix}", *fit).code == 0
    done = vgi("impute", "--checkpoint", "run", "--m", "1")
    assert (done.code, done.out) == (0, f"run/imputed/data.1.csv{suffix}\n"), done.err
    assert vgi("impute", "--checkpoint", "run", "plain.csv", "--m", "1", "-o", "out.csv").code == 0
    packed = Path(f"run/imputed/data.1.csv{suffix}").read_bytes()
    unpacked = pa.CompressedInputStream(pa.BufferReader(packed), CODECS[suffix]).read()
    assert unpacked == Path("out.1.csv").read_bytes()
    if suffix in (unpackers := {".gz": gzip.decompress, ".bz2": bz2.decompress}):
        assert unpackers[suffix](packed) == unpacked
    assert vgi("score", "run", "plain.csv", "-o", f"scores.csv{suffix}").code == 0
    assert read_table([f"scores.csv{suffix}"]).N == 30
    damaged = Path(f"data.csv{suffix}").read_bytes()[:-5]
    Path(f"data.csv{suffix}").write_bytes(damaged)
    error, hint = refused(vgi, "fit", f"data.csv{suffix}")
    assert f"data.csv{suffix}: damaged {CODECS[suffix]} file" in error and hint == "compress it again"
    Path(f"data.csv{suffix}").write_bytes(TEXT.encode())
    assert f"data.csv{suffix}: damaged {CODECS[suffix]} file" in refused(vgi, "fit", f"data.csv{suffix}")[0]


def test_names_without_what_packs_them() -> None:
    assert packed_name(".csv.zst") == (".csv", ".zst") and packed_name(".tsv") == (".tsv", "")


def test_a_hive_folder_goes_through_every_command(vgi: Vgi, hive: Path) -> None:
    fit = ("--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none", "-q", "--out", "run")
    done = vgi("fit", "hive", *fit)
    assert done.code == 0, done.err
    for words in (
        ("check", "hive", "--no-trial", "--json"),
        ("impute", "--checkpoint", "run", "--m", "1"),
        ("evaluate", "--checkpoint", "run", "hive", "--json"),
        ("score", "run", "hive"),
        ("hide", "hive", "-o", "trial"),
    ):
        done = vgi(*words)
        assert done.code == 0, done.err
    filled = pq.read_table("run/imputed/hive.1.parquet")
    assert filled.column_names == ["x", "k", "year", "area"] and filled["x"].null_count == 0


@pytest.fixture
def run(vgi: Vgi, hive: Path) -> Path:
    """A run of the folder `hive`, whose partition columns have no holes, but for one file that is taken away."""
    (hive / "year=2021/area=__HIVE_DEFAULT_PARTITION__/0.parquet").unlink()
    fit = ("--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none", "-q", "--out", "run")
    assert vgi("fit", "hive", *fit).code == 0
    return hive


def listing(folder: str) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())


@pytest.mark.slow
def test_a_folder_goes_into_folders_with_the_same_files(vgi: Vgi, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "block_rows", lambda width: 4)
    assert vgi("impute", "--checkpoint", "run", "--m", "2", "-o", "whole.parquet").code == 0
    done = vgi("impute", "--checkpoint", "run", "--m", "2", "-o", "filled/")
    assert (done.code, done.out) == (0, "filled.1\nfilled.2\n"), done.err
    files = ["year=2020/area=a%20b/0.parquet", "year=2020/area=c/0.parquet", "year=2021/area=c/0.parquet"]
    for draw in (1, 2):
        assert listing(f"filled.{draw}") == files
        whole = pq.read_table(f"whole.{draw}.parquet")
        assert pq.ParquetFile(f"filled.{draw}/{files[0]}").schema_arrow.names == ["x", "k"]
        own = read_table([f"filled.{draw}"])
        assert own.names == ("x", "k", "year", "area")
        assert own.numeric("x").tolist() == whole["x"].to_pylist()
        assert own.text("area").tolist() == whole["area"].to_pylist()
    done = vgi("impute", "--checkpoint", "run", "hive", "--point", "mean", "-o", "mean/")
    assert (done.code, done.out) == (0, "mean\n") and listing("mean") == files
    plan = vgi("impute", "--checkpoint", "run", "--m", "2", "-o", "other/", "--dry-run")
    assert plan.code == 0 and "other.1\n" in plan.out and not Path("other.1").exists()
    assert not [path for path in Path().iterdir() if path.name.startswith(".filled")]


def written(folder: Path, texts: dict[str, bytes], force: bool = True) -> None:
    write_folders([folder], [[(name, [text]) for name, text in texts.items()]], force=force)


@pytest.mark.parametrize("failing", [1, 2, "sync"])
def test_a_folder_that_cannot_be_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int | str
) -> None:
    """The first rename, the second, and the sync after both."""
    written(tmp_path / "t", {"a/x.parquet": b"old"})
    calls = 0

    def rename(a: Path, b: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(errno.EIO, "Input/output error")
        plain(a, b)

    def sync(folder: Path) -> None:
        if failing == "sync" and calls == 2:
            raise OSError(errno.EIO, "Input/output error")

    plain = os.rename
    with monkeypatch.context() as patch:
        patch.setattr(folders.os, "rename", rename)
        patch.setattr(folders, "sync_folder", sync)
        with pytest.raises(VgiError, match=r"cannot write .*: Input/output error"):
            written(tmp_path / "t", {"b.parquet": b"new"})
    assert listing(str(tmp_path / "t")) == (["b.parquet"] if failing == "sync" else ["a/x.parquet"])
    written(tmp_path / "t", {"c.parquet": b"newer"})
    assert listing(str(tmp_path)) == ["t/c.parquet"]  # whatever was left beside it has gone


def test_a_folder_that_a_kill_left_aside_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number, name in ((7, "older"), (12, "old")):
        written(path, {f"{name}.parquet": b"1"})
        path.rename(tmp_path / f".t.{number}.old")
    written(tmp_path / "t.1", {"other.parquet": b"1"})
    (tmp_path / "t.1").rename(tmp_path / ".t.1.7.old")
    with pytest.raises(UsageError, match="t exists"):
        written(path, {"new.parquet": b"2"}, force=False)
    assert listing(str(path)) == ["old.parquet"]
    written(path, {"new.parquet": b"2"})
    assert sorted(one.name for one in tmp_path.iterdir()) == [".t.1.7.old", "t"]
    refuse_folders([tmp_path / "t.1"], (), force=True)
    assert listing(str(tmp_path)) == ["t.1/other.parquet", "t/new.parquet"]


def test_files_and_folders_are_synced_before_they_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    plain = os.rename
    monkeypatch.setattr(folders, "sync_folder", lambda folder: done.append(folder.name))
    monkeypatch.setattr(folders.os, "rename", lambda a, b: (done.append("rename"), plain(a, b)))
    written(tmp_path / "t", {"a=1/b=2/x.parquet": b"1"})
    assert done == ["b=2", "a=1", f".t.{os.getpid()}.tmp", "rename", tmp_path.name]


def test_a_partition_whose_column_begins_with_a_line_is_read(tmp_path: Path) -> None:
    save(tmp_path / "t", "_a=1/x.parquet", pa.table({"v": [1.0]}))
    assert read_table([tmp_path / "t"]).names == ("v", "_a")


def test_folders_are_replaced_only_where_they_are_tables(vgi: Vgi, run: Path) -> None:
    words = ("impute", "--checkpoint", "run", "--m", "1", "-o", "filled/")
    assert vgi(*words).code == 0
    assert refused(vgi, *words)[0] == "filled.1 exists"
    (Path("filled.1") / "old.parquet").write_bytes(b"x")
    assert vgi(*words, "--force").code == 0 and "old.parquet" not in listing("filled.1")
    (Path("filled.1") / "notes.txt").write_text("mine")
    error, hint = refused(vgi, *words, "--force")
    assert error == "filled.1 holds other files than Parquet ('notes.txt'): it is not replaced"
    assert hint == "name another folder, or remove it"


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["-o", "x/", "--format", "long"], "--format long is one file, and 'x/' a folder"),
        (["-o", "x/", "--shard", "1/2"], "--shard writes files, and 'x/' is a folder"),
        (["-o", "hive/x/", "--m", "1"], "hive/x.1 and the table that is imputed lie in each other"),
        (["-o", "taken/", "--m", "1"], "taken.1 is a file"),
    ],
)
def test_folders_that_cannot_be(vgi: Vgi, run: Path, flags: list[str], error: str) -> None:
    Path("taken.1").write_text("")
    assert error in refused(vgi, "impute", "--checkpoint", "run", "hive", *flags)[0]


def test_names_of_folders_are_not_filled(vgi: Vgi, run: Path) -> None:
    save(run, "year=2021/area=__HIVE_DEFAULT_PARTITION__/0.parquet", pa.table({"k": [7], "x": [9.5]}))
    error, hint = refused(vgi, "impute", "--checkpoint", "run", "hive", "-o", "filled/")
    assert error == "column 'area' names the folders and has holes, whose fills no folder's name can hold"
    assert hint == "write files (-o filled.parquet), or leave the column out of the fit (--exclude)"
