"""`vgi impute --shard`: shards one after the other are what one run writes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_refusals import TINY_VGI, refused
from tests.program import Vgi, fit_once
from vgi_cli.table import source as row_blocks
from vgi_cli.table.csv import rows as csv_rows
from vgi_cli.table.parquet import table as parquet_table

MIXTURE = [
    *("--model", "mixture", "--set", "model.components=2", "--threads", "1"),
    *("--set", "bootstrap=2", "--set", "trees=none"),
]
TREES = "--set trees=auto"
FLOW = [
    *("--model", "flow", "--method", "vgi", "--epochs", "1", "--threads", "1", "--set", "bootstrap=none"),
    *("--set", "model.steps=1", "--set", "model.hidden=4", "--set", "model.bins=4", "--set", "model.blocks=1"),
    *("--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1"),
    *("--set", "method.trunk=[4]", "--set", "method.hidden=[4]"),
]
LAYOUTS = (("long", "parquet"), ("long", "csv"), ("mids-csv", "csv"), ("files", "parquet"))
ROWS = 61
COUNT = 3


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven rows to a block, a few bytes to a read: shards begin inside of blocks."""
    monkeypatch.setattr(row_blocks, "block_rows", lambda width: 7)
    monkeypatch.setattr(csv_rows, "PIECE", 64)
    monkeypatch.setattr(parquet_table, "BATCH", 5)


@pytest.fixture
def data(vgi: Vgi) -> Path:
    """data.csv: ids that come twice, numbers, levels, a note with line ends and quotes, and holes; blank lines."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 2)) @ rng.normal(size=(2, 2))
    lines = ["id,u,v,level,count,note"]
    for i in range(ROWS):
        cells = [f"{x[i, 0]:.2f}", f"{x[i, 1]:.3f}", "yes" if x[i, 0] > 0 else "no", str(int(rng.poisson(4)))]
        cells = ["NA" if rng.random() < 0.3 else cell for cell in cells]
        lines += [",".join([f"r{i // 2}", *cells, '"a ""b""\nc"' if i % 5 == 0 else ""]), *[""] * (i % 11 == 3)]
    Path("data.csv").write_bytes(("\ufeff" + "\n".join(lines)).encode())
    mask = ["id,u,v,level,count,note", *(f"1,{int(i % 4 > 0)},1,{int(i % 7 > 0)},1,1" for i in range(ROWS))]
    Path("mask.csv").write_text("\n".join(mask) + "\n")
    return Path("data.csv")


def done(vgi: Vgi, *words: str) -> str:
    result = vgi(*words)
    assert result.code == 0, result.err
    return result.err


def shards(vgi: Vgi, *words: str) -> str:
    """What the shards of an imputation said, whose files are `part…`."""
    return "".join(done(vgi, "impute", *words, "--shard", f"{i}/{COUNT}") for i in range(1, COUNT + 1))


def joined(pattern: str) -> bytes:
    files = sorted(Path().glob(pattern))
    assert files
    return b"".join(path.read_bytes() for path in files)


def rows_of(pattern: str) -> pa.Table:
    tables = [pq.read_table(path) for path in sorted(Path().glob(pattern))]
    return pa.concat_tables(tables, promote_options="permissive")


@pytest.mark.parametrize(
    ("keyed", "flags", "layouts"),
    [
        (["--id", "id"], ["--mask", "mask.csv"], LAYOUTS[:1]),
        pytest.param(["--id", "id"], ["--mask", "mask.csv"], LAYOUTS[1:], marks=pytest.mark.slow),
        pytest.param([], ["--mask", "mask.csv"], LAYOUTS, marks=pytest.mark.slow),
        pytest.param(["--id", "id"], [], LAYOUTS, marks=pytest.mark.slow),
        pytest.param([], [], LAYOUTS, marks=pytest.mark.slow),
        pytest.param(["--id", "id", TREES], [], LAYOUTS, marks=pytest.mark.slow),
    ],
)
def test_three_shards_of_a_mixture_are_one_run_in_every_form(
    vgi: Vgi, data: Path, keyed: list[str], flags: list[str], layouts: Sequence[tuple[str, str]]
) -> None:
    fit = MIXTURE if TREES not in keyed else MIXTURE[:-2]
    fit_once(vgi, "data.csv", *fit, *(word for word in keyed if word != TREES))
    with_table = ("--checkpoint", "run", "data.csv", *flags, "--seed", "3")
    one = done(vgi, "impute", *with_table, "--m", "2", "-o", "one.csv")
    said = shards(vgi, *with_table, "--m", "2", "-o", "part.csv")
    for draw in (1, 2):
        assert joined(f"part.{draw}.shard-*-of-3.csv") == Path(f"one.{draw}.csv").read_bytes()
    assert "shard 2/3: rows 21 to 40 of 61" in said
    total = int(one.split("filled ")[1].split()[0])
    assert sum(int(text.split()[0]) for text in said.split("filled ")[1:]) == total
    for layout, out in layouts:
        flags = ["--format", layout, "--m", "2"]
        done(vgi, "impute", *with_table, *flags, "-o", f"{layout}.{out}")
        shards(vgi, *with_table, *flags, "-o", f"{layout}-part.{out}")
        if out == "csv":
            assert joined(f"{layout}-part.imp-*.csv") == Path(f"{layout}.csv").read_bytes(), layout
        else:
            whole = Path("long.parquet") if layout == "long" else Path("files.1.parquet")
            parts = "long-part.imp-*.parquet" if layout == "long" else "files-part.1.shard-*.parquet"
            assert rows_of(parts).equals(pq.read_table(whole)), layout


@pytest.mark.parametrize(
    ("sampler", "suffix"),
    [
        pytest.param("metropolis", "csv", marks=pytest.mark.slow),
        pytest.param("metropolis", "parquet", marks=pytest.mark.slow),
        pytest.param("gibbs", "csv", marks=pytest.mark.slow),
        pytest.param("chains", "csv", marks=pytest.mark.slow),
    ],
)
def test_three_shards_of_a_flow_are_one_run(vgi: Vgi, data: Path, sampler: str, suffix: str) -> None:
    done(vgi, "fit", "data.csv", *FLOW, "--out", "run")
    flags = ("--checkpoint", "run", "--m", "1" if sampler == "metropolis" else "2", "--sampler", sampler)
    done(vgi, "impute", *flags, "-o", f"one.{suffix}")
    shards(vgi, *flags, "-o", f"part.{suffix}")
    if suffix == "csv":
        assert joined("part.1.shard-*.csv") == Path("one.1.csv").read_bytes()
    else:
        assert rows_of("part.1.shard-*.parquet").equals(pq.read_table("one.1.parquet"))


@pytest.fixture
def run(vgi: Vgi, data: Path) -> Path:
    return fit_once(vgi, "data.csv", *MIXTURE)


@pytest.mark.slow
def test_point_estimates_stdout_and_gzip(vgi: Vgi, run: Path) -> None:
    flags = ("--checkpoint", "run", "data.csv", "--point", "mean", "--m", "3")
    one = vgi("impute", *flags, "-o", "-")
    parts = [vgi("impute", *flags, "--shard", f"{i}/3", "-o", "-") for i in (1, 2, 3)]
    assert "".join(part.out for part in parts) == one.out != ""
    shards(vgi, *flags, "-o", "part.csv.gz")
    assert gzip.decompress(joined("part.shard-*.csv.gz")).decode() == one.out
    shards(vgi, "--checkpoint", "run", "--m", "1")  # these lie beside the run
    assert len(list(Path("run/imputed").glob("data.1.shard-*-of-3.csv"))) == 3


def test_several_files_and_a_parquet_folder(vgi: Vgi, run: Path) -> None:
    Path("other.csv").write_text("level,id,count,v,u,note\nno,a,3,,0.5,\n,b,4,0.25,,x\nyes,c,,0.5,1.25,")
    for data in (["other.csv"], ["folder"]):
        if data == ["folder"]:
            Path("folder").mkdir()
            table = pa.table({"u": [None, 1.5] * 10, "v": [0.25] * 20, "level": ["no", None] * 10, "count": [1] * 20})
            for part in range(2):
                pq.write_table(table.slice(part * 9, 9 + 2 * part), f"folder/{part}.parquet", row_group_size=4)
        one = done(vgi, "impute", "--checkpoint", "run", *data, "--m", "1", "-o", "one.parquet", "--force")
        shards(vgi, "--checkpoint", "run", *data, "--m", "1", "-o", "part.parquet", "--force")
        assert "filled" in one
        assert rows_of("part.1.shard-*.parquet").equals(pq.read_table("one.1.parquet"))


def test_a_shard_of_parquet_has_the_types_that_its_own_fills_need(vgi: Vgi, run: Path) -> None:
    small = pa.table({"u": [0.5] * 9, "v": [0.5] * 9, "level": ["no"] * 9, "count": pa.array([1] * 8 + [None], "int8")})
    pq.write_table(small, "small.parquet")
    flags = ("--checkpoint", "run", "small.parquet", "--m", "1", "--delta", "count=+1000")
    done(vgi, "impute", *flags, "-o", "one.parquet")
    shards(vgi, *flags, "-o", "part.parquet")
    kinds = [pq.read_schema(path).field("count").type for path in sorted(Path().glob("part.1.*"))]
    assert kinds == [pa.int8(), pa.int8(), pa.int64()]
    assert rows_of("part.1.*").equals(pq.read_table("one.1.parquet"))
    record = json.loads(Path("part.shard-3-of-3.delta.json").read_text())
    assert record["shard"] == "3/3" and record["files"] == ["part.1.shard-3-of-3.parquet"]
    assert len(list(Path().glob("part.shard-*.delta.json"))) == 3


def test_a_dry_run_is_of_the_shard(vgi: Vgi, run: Path) -> None:
    plan = vgi("impute", "--checkpoint", "run", "data.csv", "--shard", "2/3", "--m", "1", "-o", "x.csv", "--dry-run")
    assert plan.code == 0, plan.err
    assert "of 20 rows" in plan.out and "x.1.shard-2-of-3.csv" in plan.out


def test_what_comes_before_and_after_a_shard_is_checked_but_not_read_again(
    vgi: Vgi, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split: list[int] = []
    whole = csv_rows.split_csv

    def counted(*arguments: object, **options: object) -> object:
        text = whole(*arguments, **options)  # type: ignore[arg-type]
        split.append(text.N)
        return text

    monkeypatch.setattr(csv_rows, "split_csv", counted)
    rows = row_blocks.open_table(["data.csv"], mask=Path("mask.csv")).part(range(30, 40))
    split.clear()
    blocks = list(rows.blocks())
    assert [(block.first, block.table.N) for block in blocks] == [(30, 7), (37, 3)]
    assert sum(split) == 2 * (2 + 10)  # of table and mask: what is left of the block in which it begins, and its own


@pytest.mark.parametrize(
    ("flags", "error", "hint"),
    [
        (["--shard", "2"], "--shard: expected I/N, got '2'", "for example --shard 2/3, the second of three"),
        (["--shard", "1/x"], "--shard: expected I/N, got '1/x'", "for example --shard 2/3"),
        (["--shard", "0/3"], "--shard 0/3: shards are counted from 1 to their number", "for example --shard 1/3"),
        (["--shard", "4/3"], "--shard 4/3: shards are counted from 1 to their number", "for example --shard 1/3"),
        (["--shard", "1/0"], "--shard 1/0: shards are counted from 1 to their number", "for example --shard 1/1"),
        (["--shard", "1/62"], "--shard 1/62: the table has 61 rows, fewer than shards", "at most --shard 1/61"),
        (
            ["--shard", "1/2", "--format", "long", "-o", "-"],
            "--shard: of --format long a shard is one file for each .imp, which cannot go to stdout",
            "name a file with -o",
        ),
    ],
)
def test_shards_that_cannot_be(vgi: Vgi, run: Path, flags: list[str], error: str, hint: str) -> None:
    found, suggestion = refused(vgi, "impute", "--checkpoint", "run", "data.csv", *flags)
    assert error in found
    assert hint in suggestion


def test_a_shard_that_is_there_is_not_overwritten(vgi: Vgi, run: Path) -> None:
    words = ("impute", "--checkpoint", "run", "data.csv", "--m", "1", "--shard", "2/3", "-o", "x.csv")
    done(vgi, *words)
    assert "x.1.shard-2-of-3.csv exists" in refused(vgi, *words)[0]
    done(vgi, *words, "--force")


def test_tables_in_memory_have_no_shards(vgi: Vgi, run: Path) -> None:
    import vgi_cli
    from vgi_cli.errors import UsageError

    impute: Callable[..., object] = vgi_cli.impute
    tables: list[object] = [pa.table({"u": [None], "v": [1.0], "level": ["no"], "count": [1]}), "data.csv"]
    for data in tables:
        with pytest.raises(UsageError, match="--shard is of files"):
            impute(vgi_cli.load("run"), data, shard="1/1")
    assert impute(vgi_cli.load("run"), "data.csv", shard="1/2", out="x.csv", m=1) == [Path("x.1.shard-1-of-2.csv")]


def test_three_shards_of_a_factor_analysis_are_one_run(vgi: Vgi, data: Path) -> None:
    done(vgi, "fit", "data.csv", *TINY_VGI, "--column", "level=carry", "--out", "run")
    done(vgi, "impute", "--checkpoint", "run", "--m", "1", "--sampler", "exact", "-o", "one.csv")
    shards(vgi, "--checkpoint", "run", "--m", "1", "--sampler", "exact", "-o", "part.csv")
    assert joined("part.1.shard-*.csv") == Path("one.1.csv").read_bytes()
