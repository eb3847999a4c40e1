"""`vgi_cli.impute_batches`: batches of a table, in whatever process, are filled as `vgi impute` fills the table."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import vgi_cli
from tests.cli.test_shard import FLOW, MIXTURE
from vgi_cli.cli.app import main
from vgi_cli.columns.schema import Schema
from vgi_cli.commands import batches
from vgi_cli.commands.batches import BatchImputer, _keys_in
from vgi_cli.errors import InputError, RunError, UsageError
from vgi_cli.fitting.fitted import load_run
from vgi_cli.reporting import Silent
from vgi_cli.table.parquet.batches import batch_table

ROOT = Path(__file__).parents[2]
N = 47
CUTS = [0, 1, 19, 20, 46, N]


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2)) @ rng.normal(size=(2, 2))
    holes = [rng.random(N) < 0.3 for _ in range(5)]
    level = np.where(x[:, 0] > 0, "yes", "no")
    return pa.table(
        {
            "id": [f"r{i}" for i in range(N)],
            "row": np.arange(N),
            "u": pa.array(np.round(x[:, 0], 2), pa.float32(), mask=holes[0]),
            "v": pa.array(x[:, 1], mask=holes[1]),
            "level": pa.array(level, pa.string(), mask=holes[2]).dictionary_encode(),
            "count": pa.array(rng.poisson(4, N), pa.int64(), mask=holes[3]),
            "day": pa.array(20000 + rng.integers(99, size=N), pa.int32(), mask=holes[4]).cast(pa.date32()),
            "note": ["a", None] * (N // 2) + ["b"],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """data.parquet; runs of it: `mixture` keyed by the number of the row, `keyed` by its ids."""
    folder = tmp_path_factory.mktemp("batches")
    before = Path.cwd()
    os.chdir(folder)
    pq.write_table(table(), "data.parquet")
    leave = ("--exclude", "row", "--exclude", "id")
    assert main(["fit", "data.parquet", *MIXTURE, *leave, "--out", "mixture", "-q"]) == 0
    assert main(["fit", "data.parquet", *MIXTURE, "--id", "id", "--exclude", "row", "--out", "keyed", "-q"]) == 0
    assert main(["impute", "--checkpoint", "mixture", "--m", "2", "-o", "whole.parquet", "-q"]) == 0
    assert main(["impute", "--checkpoint", "keyed", "--m", "1", "-o", "keyed.parquet", "-q"]) == 0
    yield folder
    os.chdir(before)


def same(found: pa.Table, whole: pa.Table) -> bool:
    """Whether tables hold the same, in whatever dictionaries."""
    return bool(found.to_pylist() == whole.to_pylist()) and found.column_names == whole.column_names


def pieces(data: pa.Table) -> list[pa.Table]:
    return [data.slice(begin, end - begin) for begin, end in itertools.pairwise(CUTS)]


def test_batches_are_filled_as_the_whole_table(folder: Path) -> None:
    fill = vgi_cli.impute_batches("mixture", key="row")
    whole = pq.read_table("whole.1.parquet")
    for data in (table(), table().take(np.arange(N)[::-1])):  # in any order
        parts = [fill(piece) for piece in pieces(data)]
        assert len({str(part.schema) for part in parts}) == 1
        assert parts[0].schema == fill.schema(data.schema)
        assert same(pa.concat_tables(parts).sort_by("row"), whole)


def test_by_the_number_of_the_first_row_and_by_ids(folder: Path) -> None:
    fill = vgi_cli.impute_batches("mixture")
    parts = [fill(piece, start=begin) for piece, begin in zip(pieces(table()), CUTS, strict=False)]
    assert same(pa.concat_tables(parts), pq.read_table("whole.1.parquet"))
    by_id = vgi_cli.impute_batches("keyed")
    assert same(pa.concat_tables(map(by_id, pieces(table()))), pq.read_table("keyed.1.parquet"))
    assert by_id(table()).equals(vgi_cli.impute_batches("keyed", key="id")(table()))
    texts = vgi_cli.impute_batches("mixture", key="id")  # other keys, other draws; the run knows of no ids
    assert not same(texts(table()), pq.read_table("whole.1.parquet"))
    assert texts(table()).slice(5, 3).equals(texts(table().slice(5, 3)).cast(fill.schema(table().schema)))


def test_several_draws_and_point_estimates(folder: Path) -> None:
    two = vgi_cli.impute_batches("mixture", key="row", m=2)(table())
    for draw in (1, 2):
        own = two.filter(pa.compute.equal(two[".imp"], draw)).drop_columns(".imp")
        assert same(own, pq.read_table(f"whole.{draw}.parquet"))
    mean = vgi_cli.impute_batches("mixture", key="row", point="mean", m=3)
    assert main(["impute", "--checkpoint", "mixture", "--point", "mean", "--m", "3", "-o", "mean.parquet", "-q"]) == 0
    assert same(pa.concat_tables(map(mean, pieces(table()))), pq.read_table("mean.parquet"))


def test_record_batches_come_back_as_such_and_empty_ones_empty(folder: Path) -> None:
    fill = vgi_cli.impute_batches("mixture", key="row", m=2)
    (batch,) = table().combine_chunks().to_batches()
    found = fill(batch)
    assert isinstance(found, pa.RecordBatch) and found.num_rows == 2 * N
    for empty in (batch.slice(0, 0), table().slice(0, 0)):
        filled = fill(empty)
        assert type(filled) is type(empty) and filled.num_rows == 0 and filled.schema == found.schema


@pytest.mark.slow
@pytest.mark.full_fits
def test_a_pickled_one_fills_in_another_process(folder: Path) -> None:
    fill = vgi_cli.impute_batches("mixture", key="row")
    Path("fill.pickle").write_bytes(pickle.dumps(fill))
    code = (
        "import pickle, sys, pyarrow.parquet as pq\n"
        "from pathlib import Path\n"
        "fill = pickle.loads(Path(sys.argv[1]).read_bytes())\n"
        "data = pq.read_table(sys.argv[2])\n"
        "pq.write_table(fill(data.slice(19, 27)), sys.argv[3])\n"
    )
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    files = [str(folder / name) for name in ("fill.pickle", "data.parquet", "part.parquet")]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, *files], cwd=elsewhere, env=environ, check=True)
    here = fill(pq.read_table("data.parquet").slice(19, 27))  # `whole.1.parquet` has the short settings of other tests
    assert same(pq.read_table("part.parquet"), here)


def test_a_process_loads_a_run_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches._loaded.clear()
    loaded: list[object] = []
    load = batches.load
    monkeypatch.setattr(batches, "load", lambda run, reporter: loaded.append(run) or load(run, reporter))
    fill = vgi_cli.impute_batches("mixture", key="row")
    assert loaded == []
    for one in (fill, pickle.loads(pickle.dumps(fill))):
        for piece in pieces(table())[:2]:
            one(piece)
    assert len(loaded) == 1


def test_types_are_those_of_the_fit_and_not_of_the_fills(folder: Path) -> None:
    given = table().set_column(5, "count", table()["count"].cast(pa.int8()))
    given = given.set_column(4, "level", given["level"].cast(pa.dictionary(pa.int8(), pa.string())))
    given = given.set_column(6, "day", pa.nulls(N))
    fill = vgi_cli.impute_batches("mixture", key="row")
    types = fill.schema(given.schema)
    assert [str(types.field(name).type) for name in ("count", "day")] == ["int64", "date32[day]"]
    assert types.field("level").type == pa.dictionary(pa.int32(), pa.string())
    assert types.field("u").type == pa.float32()
    found = fill(given.slice(3, 4))
    assert found.schema == types and found["day"].null_count == 0
    assert found["count"].to_pylist() == pq.read_table("whole.1.parquet")["count"].slice(3, 4).to_pylist()
    fractions = given.set_column(3, "v", pa.array([1] * 20 + [None] * (N - 20), pa.int64()))
    assert fill(fractions).schema.field("v").type == pa.float64()


def test_what_cannot_be_is_refused(folder: Path) -> None:
    fill = vgi_cli.impute_batches("mixture", key="row")
    data = table()
    missing = data.set_column(1, "row", pa.array([None, *range(1, N)], pa.int64()))
    texts = data.set_column(1, "row", pa.array([None, *map(str, range(1, N))]))
    cases: list[tuple[BatchImputer, Any, dict[str, Any], type[Exception], str]] = [
        (fill, data.to_pylist(), {}, UsageError, "expected a table or a record batch of Arrow, got list"),
        (fill, data, {"start": 0}, UsageError, "key= and start= exclude each other"),
        *(
            (vgi_cli.impute_batches("mixture"), data, {"start": bad}, UsageError, f"0 on, got {bad!r}")
            for bad in (-1, 1.0, "1", True)
        ),
        (fill, missing, {}, InputError, "the key 'row' is missing in a row"),
        (fill, texts, {}, InputError, "the key 'row' is missing in a row"),
        (fill, pa.concat_tables([data, data]), {}, InputError, "in the key 'row' a value comes twice"),
        (fill, data.drop_columns("u"), {}, InputError, "lacks the fitted column 'u'"),
        (vgi_cli.impute_batches("mixture", key="day"), data, {}, InputError, "neither whole numbers nor texts"),
        (vgi_cli.impute_batches("mixture", key="rows"), data, {}, InputError, "no column 'rows'"),
        (vgi_cli.impute_batches("mixture"), data, {}, UsageError, "the rows have no keys"),
        (vgi_cli.impute_batches("keyed"), data, {"start": 0}, UsageError, "keys the rows by its --id columns (id)"),
        (vgi_cli.impute_batches("keyed", key="row"), data, {}, UsageError, "keys the rows by its --id columns (id)"),
        (vgi_cli.impute_batches("keyed"), pa.concat_tables([data, data]), {}, InputError, '["r0"] comes twice'),
        (
            vgi_cli.impute_batches("mixture", key="row", m=2),
            data.append_column(".imp", pa.nulls(N)),
            {},
            InputError,
            "has a column '.imp'",
        ),
    ]
    for number, (one, batch, more, kind, text) in enumerate(cases):
        with pytest.raises(kind) as found:
            one(batch, **more)
        assert text in found.value.message, number
    with pytest.raises(UsageError, match="--m: expected a whole number"):
        vgi_cli.impute_batches("mixture", m=0)
    with pytest.raises(RunError):
        vgi_cli.impute_batches("nowhere")


def test_a_key_that_comes_twice_is_found_in_a_large_batch() -> None:
    """In time that grows with the rows, not with their square."""
    rows = 200_000
    data = pa.table({"u": np.zeros(rows), "row": [*range(rows - 1), rows - 2]})
    began = time.monotonic()
    with pytest.raises(InputError, match=rf"in the key 'row' a value comes twice \({rows - 2}\)"):
        _keys_in(batch_table(data, Schema(()), ()), "row")
    assert time.monotonic() - began < 20


def test_another_run_in_the_place_of_the_first_is_refused(folder: Path) -> None:
    shutil.copytree("mixture", "copy")
    fill = vgi_cli.impute_batches("copy", key="row")
    shutil.rmtree("copy")
    shutil.copytree("keyed", "copy")
    with pytest.raises(RunError, match="is not the one that impute_batches was called with"):
        fill(table())


def test_a_fill_that_no_integer_holds_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill = vgi_cli.impute_batches("mixture", key="row")
    draw = batches.Sampling.draw

    def far(sampling: batches.Sampling, *arguments: Any) -> Any:
        found = draw(sampling, *arguments)
        found[..., load_run(Path("mixture"), Silent()).schema.modelled.index("count")] = 1e19
        return found

    monkeypatch.setattr(batches.Sampling, "draw", far)
    with pytest.raises(InputError, match=r"column 'count': the fill .* does not fit in int64"):
        fill(table())


# -- engines that are installed ---------------------------------------------------------------------------------------

ENGINES = {
    "ray": """
import os, time, pyarrow as pa, pyarrow.parquet as pq, ray
import vgi_cli
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
fill = vgi_cli.impute_batches("{run}", key="row", threads=1)
data = ray.data.read_parquet("data.parquet").repartition(6)
def seen(batch):
    time.sleep(0.5)
    return fill(batch).append_column("pid", [[os.getpid()] * len(batch)])
filled = data.map_batches(seen, batch_format="pyarrow", batch_size=None, compute=ray.data.TaskPoolStrategy(size=2))
found = pa.concat_tables(ray.get(filled.to_arrow_refs())).sort_by("row")
assert len(set(found["pid"].to_pylist())) >= 2, "one worker did it all"
pq.write_table(found.drop_columns("pid"), "{out}")
ray.shutdown()
""",
    "pyspark": """
import pyarrow as pa, pyarrow.parquet as pq
import vgi_cli
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
fill = vgi_cli.impute_batches("{run}", key="row", threads=1)
def of_partition(batches):
    for batch in batches:
        yield fill(batch)
data = spark.read.parquet("data.parquet").repartition(3)
types = from_arrow_schema(fill.schema(data.limit(1).toArrow().schema))
filled = data.mapInArrow(of_partition, types)
pq.write_table(filled.toArrow().sort_by("row"), "{out}")
spark.stop()
""",
    "dask": """
import pandas as pd, pyarrow as pa, pyarrow.parquet as pq
import dask, dask.dataframe
import vgi_cli
if __name__ == "__main__":
    fill = vgi_cli.impute_batches("{run}", key="row", threads=1)
    def of_partition(frame):
        return fill(pa.Table.from_pandas(frame, preserve_index=False)).to_pandas(types_mapper=pd.ArrowDtype)
    data = dask.dataframe.read_parquet("data.parquet", dtype_backend="pyarrow").repartition(npartitions=3)
    meta = of_partition(data.partitions[0].head(0))
    filled = data.map_partitions(of_partition, meta=meta)
    with dask.config.set(scheduler="processes", num_workers=2):
        frame = filled.compute()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False).sort_by("row"), "{out}")
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mixture", "flow"])
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_with_two_workers_equals_vgi_impute(folder: Path, engine: str, model: str) -> None:
    """Of docs/batches.md, where the engine is installed."""
    pytest.importorskip(engine)
    if engine == "pyspark" and shutil.which("java") is None:
        pytest.skip("Spark needs a Java runtime")
    if engine == "dask":
        pytest.importorskip("dask.dataframe")
    if model == "flow" and not Path("flow").exists():
        assert main(["fit", "data.parquet", *FLOW, "--exclude", "row", "--exclude", "id", "--out", "flow", "-q"]) == 0
    whole = f"{engine}-{model}-whole.parquet"
    words = ["--threads", "1", "--m", "1", "-o", whole, "-q"]
    assert main(["impute", "--checkpoint", model, *words]) == 0
    out = f"{engine}-{model}.parquet"
    script = folder / f"{engine}_script.py"
    script.write_text(ENGINES[engine].replace("{run}", model).replace("{out}", out))
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    done = subprocess.run(
        [sys.executable, script], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found, expected = pq.read_table(out), pq.read_table(whole.replace(".parquet", ".1.parquet"))
    assert same(found.select(expected.column_names), expected)


def test_torch_keeps_its_threads(folder: Path) -> None:
    before = torch.get_num_threads()
    fill = vgi_cli.impute_batches("mixture", key="row", threads=2)
    try:
        torch.set_num_threads(3)
        for _ in range(2):
            fill(table())
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
