"""A table in blocks is the same table: what is read, refused and written does not depend on how it is cut."""

from __future__ import annotations

import gzip
import io
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.selection import covering
from tests.table.helpers import save, write_imputed
from vgi_cli.columns.numerals import SingleDecimals, shorten
from vgi_cli.encoding.check import Check, check
from vgi_cli.encoding.encoder import RowKeys, encode
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import FitError, InputError, VgiError
from vgi_cli.table import source as row_blocks
from vgi_cli.table.csv import rows as csv_rows
from vgi_cli.table.draws import HeldDraws, SpooledDraws, require_finite
from vgi_cli.table.fills import find_styles
from vgi_cli.table.parquet import table as parquet_table
from vgi_cli.table.parquet import write as write_parquet
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import block_rows, open_table
from vgi_cli.table.writer import Content, write_blocks

ROWS = [
    'a,1.50,"3",7,x',
    'b,NA,"",7,"y, z"',
    "",
    'c,,"NA",,"one',
    'two"',
    'd,2.25,"5",7,""',
    'e,1e-1,"",7,q"uote',
    'f,3,"9",NA,',
    'a,NA,"2",7,"""x"""',
    'h,4.75,"3",7,last',
]
HEADER = 'name,u,"k",c,t'
TEXT = "\ufeff\n" + "\n".join([HEADER, *ROWS]) + "\n\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows to a block, a few bytes to a read."""
    monkeypatch.setattr(row_blocks, "block_rows", lambda width: 3)
    monkeypatch.setattr(csv_rows, "PIECE", 5)
    monkeypatch.setattr(parquet_table, "BATCH", 2)
    monkeypatch.setattr(write_parquet, "GROUP_CELLS", 20)


def texts() -> dict[str, bytes]:
    plain = TEXT.encode()
    return {
        "plain": plain,
        "windows": TEXT.replace("\n", "\r\n").encode(),
        "old mac": TEXT.replace("\n", "\r").encode(),
        "no last line end": plain.rstrip(b"\n"),
        "regular": TEXT.replace('q"uote', "quote").encode(),
    }


def tables(folder: Path) -> dict[str, dict[str, Any]]:
    """Arguments for a reader, by what they stand for."""
    out: dict[str, dict[str, Any]] = {
        name: {"paths": [save(folder, f"{name}.csv", text)]} for name, text in texts().items()
    }
    out["gz"] = {"paths": [save(folder, "t.csv.gz", gzip.compress(TEXT.encode()))]}
    swapped = "c,name,u,k,t\n7,z,NA,4,p\n,z,0.5,,r"
    tabs = swapped.replace(",", "\t").encode()
    others = [save(folder, "other.csv", swapped), save(folder, "other.tsv", tabs)]
    out["joined"] = {"paths": [out["no last line end"]["paths"][0], *others]}
    mask = "name,u,k,c,t\n" + "\n".join(f"1,{i % 2},1,{int(i != 0)},1" for i in range(8)) + "\n"
    out["masked"] = {**out["plain"], "mask": save(folder, "mask.csv", mask)}
    arrow = pa.table(
        {
            "u": pa.array([0.1, None, 2.5, None, 3.75, 0.2, None, 1.0], pa.float32()),
            "k": pa.array([100, None, 3, 127, None, 2, 9, 1], pa.int8()),
            "t": pa.array(["p", "q", None, "p", "q", "r", "p", None]).dictionary_encode(),
            "c": pa.array([7, 7, None, 7, 7, 7, 7, 7], pa.int32()),
        }
    )
    pq.write_table(arrow, folder / "t.parquet", row_group_size=3)
    out["parquet"] = {"paths": [folder / "t.parquet"]}
    (folder / "parts").mkdir()
    pq.write_table(arrow, folder / "parts" / "1.parquet")
    pq.write_table(arrow.set_column(1, "k", arrow["k"].cast(pa.int32())), folder / "parts" / "2.parquet")
    out["folder"] = {"paths": [folder / "parts"]}
    return out


KINDS = ["plain", "windows", "old mac", "no last line end", "regular", "gz", "joined", "masked", "parquet", "folder"]


@covering(
    pytest.mark.parametrize(
        ("layout", "output"), list(product(["files", "long"], ["o.csv", "o.tsv", "o.csv.gz", "o.parquet"]))
    ),
    pytest.mark.parametrize("kind", KINDS),
)
def test_blocks_are_written_as_the_whole_is(tmp_path: Path, kind: str, output: str, layout: Any) -> None:
    options = tables(tmp_path)[kind]
    whole, source = read_table(**options), open_table(**options)
    assert (source.origin.sha256, source.origin.N) == (whole.sha256, whole.N)
    assert sum(1 for _ in source.blocks()) > 2
    schema = infer_schema(whole, ids=["name"] if "name" in whole.names else [])[0]
    draws = np.random.default_rng(0).uniform(1, 3, (2, whole.N, len(schema.modelled)))
    draws[1] *= 100  # more than the int8 of the Parquet table holds
    one, other = tmp_path / "whole", tmp_path / "blocks"
    expected = write_imputed(whole, schema, draws, layout=layout, out=one / output)
    styles = find_styles((block.table for block in source.blocks()), schema)
    content = Content(source, schema, styles, HeldDraws(draws))
    found = write_blocks(content, layout=layout, out=other / output)
    assert [path.name for path in found] == [path.name for path in expected]
    for a, b in zip(expected, found, strict=True):
        if output.endswith(".parquet"):
            left, right = pq.read_table(a), pq.read_table(b)
            assert left.schema.equals(right.schema, check_metadata=True) and left.equals(right)
        else:
            assert a.read_bytes() == b.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_encoded_as_the_whole_is(tmp_path: Path, kind: str) -> None:
    options = tables(tmp_path)[kind]
    whole, source = read_table(**options), open_table(**options)
    schema = infer_schema(whole, ids=["name"] if "name" in whole.names else [])[0]
    expected, keys = encode(whole, schema, seed=3), RowKeys(schema)
    first = 0
    for block in source.blocks():
        assert block.first == first == block.table.first
        part = encode(block.table, schema, seed=3, keys=keys.of(block.table))
        rows = slice(first, first + block.table.N)
        assert (part.keys == expected.keys[rows]).all()
        assert (part.table.x == expected.table.x[rows]).all()
        assert (part.table.missing == expected.table.missing[rows]).all()
        first += block.table.N
    assert first == whole.N


BAD = {
    "ragged": "\n".join(["a,b", *["1,2"] * 7, "1,2,3", "1"]),
    "unclosed": "\n".join(["a,b", *["1,2"] * 7, '1,"2', "1,2"]),
    "nul after ragged": "\n".join(["a,b", "1", *["1,2"] * 7, "1,\0"]),
    "latin": "\n".join(["a,b", *["1,2"] * 7]).encode() + b"\n1,\xe9\n",
    "duplicate": "a,a\n1,2\n",
    "header only": "a,b\n",
    "blank": "\n\n",
    "semicolons": "a;b\n" + "1;2\n" * 9,
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_is_refused_in_the_same_words(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, "t.csv", BAD[name])
    with pytest.raises(InputError) as expected:
        read_table([path])
    with pytest.raises(InputError) as found:
        open_table([path])
    assert (found.value.message, found.value.hint) == (expected.value.message, expected.value.hint)


@pytest.mark.parametrize("rows", [8, 10])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_masks_of_other_lengths_are_refused(tmp_path: Path, rows: int, suffix: str) -> None:
    path = save(tmp_path, "t.csv", "a,b\n" + "1,2\n" * 9)
    mask = tmp_path / f"mask.{suffix}"
    if suffix == "csv":
        save(tmp_path, "mask.csv", "a,b\n" + "1,0\n" * rows)
    else:
        pq.write_table(pa.table({"a": [1] * rows, "b": [0] * rows}), mask)
    with pytest.raises(InputError, match=f"the mask has {rows} rows, t.csv has 9"):
        open_table([path], mask=mask)


def test_a_later_row_with_the_other_delimiter_is_no_reason_to_refuse(tmp_path: Path) -> None:
    lines = ["a;b", "1", *["1;2"] * 6]
    assert open_table([save(tmp_path, "t.csv", "\n".join(lines))]).origin.N == 7


def test_blank_lines_of_one_column_are_rows(tmp_path: Path) -> None:
    text = "\n\na\n1\n\n\n2\n\n\n\n3\n\n"
    path = save(tmp_path, "t.csv", text)
    assert open_table([path]).origin.N == read_table([path]).N == 9


def test_new_tables_are_checked_over_all_blocks(tmp_path: Path) -> None:
    schema = infer_schema(read_table([save(tmp_path, "f.csv", "a,b\n" + "1,2.5\n2,3.5\n3,4\n" * 4)]))[0]
    for cell in ("?", "inf", "2.5"):
        text = "b,a\n" + "1.5,2\n" * 5 + f"1.5,{cell}\n,\n" * 2
        path = save(tmp_path, "new.csv", text)
        whole, source = read_table([path]), open_table([path])

        def blockwise(source: Any = source) -> list[str]:
            checking = Check(schema, source.origin.names, source.origin.label, "imputed from the model")
            for block in source.blocks():
                checking.add(block.table)
            return checking.notes()

        if cell == "2.5":
            assert blockwise() == check(whole, schema) and "row 6 (line 7) and 1 more cell" in blockwise()[0]
            continue
        with pytest.raises(InputError) as expected:
            check(whole, schema)
        with pytest.raises(InputError) as found:
            blockwise()
        assert (found.value.message, found.value.hint) == (expected.value.message, expected.value.hint)
        assert "row 6 (line 7) and 1 more cell" in found.value.message


def test_standard_input_can_be_read_again(tmp_path: Path) -> None:
    source = open_table(["-"], stdin=io.BytesIO(TEXT.encode()))
    for _ in range(2):
        assert sum(block.table.N for block in source.blocks()) == source.origin.N == 8


def test_a_table_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, "t.csv", "a,b\n" + "1,2\n" * 9)
    source = open_table([path])
    save(tmp_path, "t.csv", "a,b\n" + "1,2\n" * 10)
    with pytest.raises(InputError, match=r"t\.csv: changed while it was being read") as caught:
        list(source.blocks())
    assert caught.value.hint == "start again when nothing writes to it"


def test_a_full_disk_of_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    with pytest.raises(VgiError, match="cannot write a temporary file: No space left on device") as caught:
        SpooledDraws(1, None)
    assert "TMPDIR" in str(caught.value.hint) and caught.value.exit_code == 1


@pytest.mark.parametrize(("where", "hint"), [(None, "in TMPDIR"), ("new/o.csv", "with --out")])
def test_a_folder_that_takes_no_temporary_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str | None, hint: str
) -> None:
    def fail(**options: object) -> None:
        raise OSError(13, os.strerror(13))

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    with pytest.raises(VgiError, match="cannot write a temporary file: Permission denied") as caught:
        SpooledDraws(1, None if where is None else tmp_path / where)
    assert caught.value.hint == f"name a folder that can be written {hint}"
    assert caught.value.message.endswith(f"denied ('{tmp_path}')" if where else "denied")


def test_spooled_draws_come_back(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(3, 7, 2))
    missing = values[0] > 0
    draws = SpooledDraws(3, tmp_path / "new" / "o.csv")
    assert list(tmp_path.iterdir()) == []
    for first, stop in ((0, 4), (4, 7)):
        draws.add(first, missing[first:stop], values[:, first:stop])
    for i in (2, 0, 1):
        for first, stop in ((4, 7), (0, 4)):
            found = draws.rows(i, first, missing[first:stop])
            np.testing.assert_array_equal(found, np.where(missing, values[i], 0.0)[first:stop])
    draws.close()


def test_fills_that_are_not_finite_are_refused_by_the_name_of_their_column() -> None:
    values, missing = np.zeros((2, 3, 2)), np.array([[False, True]] * 3)
    values[:, :, 0] = np.inf  # observed there: means nothing
    require_finite(values, missing, ["a", "b"])
    values[1, 2, 1] = np.nan
    with pytest.raises(FitError, match="a fill of column 'b' is not finite"):
        require_finite(values, missing, ["a", "b"])


def test_decimals_of_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    for digits, scale in ((0, 10), (2, 10), (3, 1e6), (9, 1)):
        values = np.float32(np.round(rng.normal(size=50) * scale, digits)).astype(np.float64)
        parts = SingleDecimals()
        for some in np.split(values, 10):
            parts.add(some)
        found, whole = parts.found, shorten(values)
        if found is None:
            np.testing.assert_array_equal(whole, values)
        else:
            np.testing.assert_array_equal(whole, np.rint(values * 10.0**found) / 10.0**found)


def test_blocks_have_a_bounded_number_of_cells() -> None:
    assert block_rows(43) == 3048 and block_rows(1_000_000) == 256


@pytest.mark.parametrize("before", ["\ufeff", "\ufeff\ufeff", "\ufeff\n", "\n\ufeff", "\ufeff\n\ufeff"])
@pytest.mark.parametrize("order", ["A1,b", "b,A1"])
def test_byte_order_marks_belong_to_the_file_and_not_to_its_blocks(tmp_path: Path, before: str, order: str) -> None:
    rows = "".join(f"{i},{i * i % 7}\n" for i in range(9))
    path = save(tmp_path, "t.csv", f"{before}A1,b\n{rows},\n")
    other = save(tmp_path, "u.csv", f"{before}{order}\n1,2\n")
    whole = read_table([path])
    name = whole.names[0]
    assert name == ("\ufeffA1" if "\n\ufeff" in before else "A1")
    blocks = [block.table for block in open_table([path]).blocks()]
    assert len(blocks) > 2 and {block.names for block in blocks} == {whole.names}
    schema, _ = infer_schema(whole)
    draws = np.full((1, 10, 2), 3.0)
    written = write_imputed(whole, schema, draws, layout="single", out=tmp_path / "a.csv")[0].read_bytes()
    content = Content(open_table([path]), schema, find_styles(blocks, schema), HeldDraws(draws))
    assert write_blocks(content, layout="single", out=tmp_path / "b.csv")[0].read_bytes() == written
    assert written.decode() == f"{before}A1,b\n{rows}3,3\n"
    if "\n" not in before:
        names = {block.table.names for block in open_table([path, other]).blocks()}
        assert names == {("A1", "b")}


def test_a_name_that_looks_like_a_mark_is_written_in_quotes(tmp_path: Path) -> None:
    table = pa.table({"\ufeffz": [1.5, None, 2.5, 4.0], "b": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "t.parquet")
    source = read_table([tmp_path / "t.parquet"])
    schema, _ = infer_schema(source)
    (path,) = write_imputed(source, schema, np.full((1, 4, 2), 2.0), layout="single", out=tmp_path / "o.csv")
    assert path.read_bytes().decode() == '"\ufeffz",b\n1.5,1\n2,2\n2.5,3\n4,4\n'
    assert list(read_table([path]).names) == table.column_names


@pytest.mark.parametrize("first", ["a;b", '"x|y"'])
def test_a_delimiter_in_the_first_row_alone_is_none(tmp_path: Path, first: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"n;m|k\n{first}\n" + "1\n2\n" * 300)
    assert open_table([path]).origin.N == read_table([path]).N == 601
