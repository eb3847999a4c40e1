"""--max-memory: a table in files gives the fit that it gives in memory, limits that cannot hold are refused."""

from __future__ import annotations

import errno
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.program import Vgi
from tests.program import vgi as vgi
from tests.scripts import script
from tests.selection import covering, first
from vgi_cli import data
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.schema import Schema
from vgi_cli.commands import memory
from vgi_cli.encoding import encoder
from vgi_cli.encoding.encoder import Respread, encode, encode_in_files
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import UsageError, VgiError
from vgi_cli.fitting import driver
from vgi_cli.machine import memory as machine
from vgi_cli.methods.base import Parts
from vgi_cli.runs.folder import RunFolder
from vgi_cli.settings.options import size
from vgi_cli.table import columns, source
from vgi_cli.table.columns import TableInFiles
from vgi_cli.table.inputs import Origin
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import open_table

TWO = ["--model", "mixture", "--set", "model.components=2", "--threads", "1"]
MIXTURE = [*TWO, "--epochs", "6"]


def frame(rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """A table of all kinds of columns; a fifth of the cells are missing, and one row is."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 2, rows)
    made = pd.DataFrame(
        {
            "number": rng.normal(size=rows) + 3 * cluster,
            "rounded": np.round(rng.normal(size=rows) + cluster, 1),
            "count": rng.poisson(3 + 2 * cluster).astype(float),
            "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), unit="D"),
            "flag": rng.choice([True, False], rows).astype(object),
            "colour": np.array(["red", "gre, en", 'bl"ue'])[(cluster + (rng.random(rows) < 0.2)) % 3],
            "note": [f"a note of its own, {i}" for i in range(rows)],
        }
    )
    for name in made.columns[:-1]:
        made.loc[rng.random(rows) < 0.2, name] = None
    made.loc[7, made.columns[:-1]] = None
    return made


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table needs more memory than there may be, and comes in many small pieces."""
    monkeypatch.setattr(memory, "CELL", 10**9)
    monkeypatch.setattr(columns, "CELLS", 300)
    monkeypatch.setattr(source, "BLOCK_CELLS", 200)
    monkeypatch.setattr(source, "LEAST_ROWS", 16)
    monkeypatch.setattr(data, "FEW_BYTES", 100)


def write(table: pd.DataFrame, name: str) -> Path:
    path = Path(name)
    if path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    return path


@covering(
    pytest.mark.parametrize("masked", [False, True]), pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
)
def test_columns_and_codes_are_those_of_the_table_in_memory(vgi: Vgi, in_files: None, name: str, masked: bool) -> None:
    table = frame()
    path, mask = write(table, name), None
    if masked:
        mask = Path("mask.csv")
        hidden = np.random.default_rng(1).random(table.shape) < 0.1
        pd.DataFrame((~hidden).astype(int), columns=table.columns).to_csv(mask, index=False)
    tokens = ["count=3", "red", "never"]
    held = read_table([path], mask=mask, na_values=tokens)
    spread = TableInFiles(open_table([path], mask=mask, na_values=tokens), Path())
    (one, notes), (other, same) = (infer_schema(t, encoding=Encoding("normal")) for t in (held, spread))
    assert one == other
    assert notes == same
    assert any("never" in note for note in notes)
    assert [held.where(i) for i in (0, 200)] == [spread.where(i) for i in (0, 200)]
    assert _encoded(held, one) == _encoded(spread, other)
    which = np.arange(held.N) % 3 == 0
    held.forget("colour", which)
    spread.forget("colour", which)
    for table_of in ("missing", "blank", "forgotten"):
        assert (getattr(held, table_of)("colour") == getattr(spread, table_of)("colour")).all()
    assert (held.distinct("colour").places == spread.distinct("colour").places).all()
    held.forget("count", which)
    spread.forget("count", which)
    np.testing.assert_array_equal(held.numeric("count"), spread.numeric("count"))


def test_cells_are_spread_anew_from_one_file_whatever_the_number_of_columns(vgi: Vgi, in_files: None) -> None:
    """A file of each column would take all descriptors that a process may have."""
    numbers = np.random.default_rng(2).normal(size=(40, 12)).round(1)
    path = write(pd.DataFrame(numbers, columns=[f"c{i}" for i in range(12)]), "wide.csv")
    held, spread = read_table([path]), TableInFiles(open_table([path]), Path())
    schema, _ = infer_schema(held, encoding=Encoding("normal"))
    keys, places = encode(held, schema, seed=5).keys, torch.arange(40)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc").exists() else 0
    one, other = (Respread(table, schema, seed=5, keys=keys, places=places) for table in (held, spread))
    assert not before or len(list(Path("/proc/self/fd").iterdir())) <= before + 1
    assert torch.equal(one(3)[1], other(3)[1]) and one(3)[0].tolist() == list(range(12))


def test_a_full_disk_while_a_table_goes_to_files_says_which_folder_to_change(
    vgi: Vgi, in_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    path = write(frame(), "data.csv")
    monkeypatch.setattr(columns, "scratch", lambda near: Full())
    with pytest.raises(VgiError, match="cannot write a temporary file: No space left on device") as caught:
        TableInFiles(open_table([path]), Path())
    assert caught.value.hint == "free some space, or choose a folder on a larger disk with --out"


def _encoded(table: object, schema: Schema) -> tuple[list[float], list[bool], list[int]]:
    by = encode_in_files if isinstance(table, TableInFiles) else encode
    rows = by(table, schema, seed=5)  # type: ignore[arg-type]
    return rows.table.x.flatten().tolist(), rows.table.missing.flatten().tolist(), rows.keys.tolist()


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("data.csv", MIXTURE),
        pytest.param(
            "data.parquet",
            ["--model", "fa", "--carry-others", "--epochs", "9", "--threads", "1"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_fit_from_files_is_the_fit_in_memory(
    vgi: Vgi, in_files: None, monkeypatch: pytest.MonkeyPatch, name: str, more: list[str]
) -> None:
    path = write(frame(), name)
    more = [*more, "--set", "bootstrap=2"]
    on_disk = vgi("fit", path, "-o", "disk", *more, "--max-memory", "2G")
    assert on_disk.code == 0, on_disk.err
    assert "its rows are kept in files" in on_disk.err
    monkeypatch.setattr(memory, "CELL", 1)
    held = vgi("fit", path, "-o", "held", *more)
    assert "kept in files" not in held.err
    for file in ("model.safetensors", "schema.json", "recipe.yaml"):
        assert Path("disk", file).read_bytes() == Path("held", file).read_bytes(), file
    assert json.loads(Path("disk/manifest.json").read_text())["max_memory"] == 2_000_000_000
    assert "max_memory" not in json.loads(Path("held/manifest.json").read_text())
    assert not list(Path().glob(".vgi-*"))


FLOW = [
    *("--model", "flow", "--threads", "1", "--epochs", "2", "--set", "model.steps=2"),
    *("--set", "method.trunk=[4]", "--set", "method.hidden=[4]", "--set", "model.hidden=4", "--set", "model.bins=2"),
    *("--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1", "--set", "optim.batch_size=64"),
]


VAE = [
    *("--model", "vae", "--threads", "1", "--epochs", "1", "--set", "model.latents=2", "--set", "model.encoder=[4]"),
    *("--set", "model.decoder=[4]", "--set", "optim.batch_size=64"),
]


@pytest.mark.parametrize(
    "more",
    [
        FLOW,
        pytest.param(VAE, marks=pytest.mark.slow),
        pytest.param([*VAE, "--method", "vgi"], marks=pytest.mark.slow),
    ],
    ids=["flow", "vae", "vae-vgi"],
)
def test_what_is_trained_from_files_is_what_is_trained_in_memory(
    vgi: Vgi, in_files: None, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    path = write(frame(160)[["number", "rounded", "count", "colour"]], "data.csv")
    monkeypatch.setattr(machine, "FOR_CHAINS", 0.0)
    done = vgi("fit", path, "-o", "disk", *more, "--set", "bootstrap=2", "--max-memory", "2G")
    assert done.code == 0, done.err
    assert "its rows are kept in files" in done.err
    assert "kept in a file" in done.err  # the chains, of which the limit leaves none in memory
    monkeypatch.setattr(memory, "CELL", 1)
    assert vgi("fit", path, "-o", "held", *more, "--set", "bootstrap=2").code == 0
    for file in ("model.safetensors", "conditionals.safetensors", "imputations.safetensors"):
        assert Path("disk", file).read_bytes() == Path("held", file).read_bytes(), file


@pytest.mark.slow
def test_models_are_compared_on_rows_in_files(vgi: Vgi, in_files: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(frame(90)[["number", "rounded", "count", "colour"]], "data.csv")
    arguments = ["fit", path, "--threads", "1", "--epochs", "3", "--set", "bootstrap=none"]
    assert vgi(*arguments, "-o", "disk", "--max-memory", "2G").code == 0
    monkeypatch.setattr(memory, "CELL", 1)
    assert vgi(*arguments, "-o", "held").code == 0
    for file in ("model.safetensors", "contest.json"):
        assert Path("disk", file).read_bytes() == Path("held", file).read_bytes(), file


def test_a_fit_from_files_goes_on_from_files(vgi: Vgi, in_files: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(frame(), "data.csv")
    whole = [path, *MIXTURE, "--set", "bootstrap=none", "--max-memory", "2G"]
    assert vgi("fit", *whole, "-o", "whole").code == 0
    assert vgi("fit", *whole, "-o", "parts", "--epochs", "2").code == 0
    again = vgi("fit", "-o", "parts", "--resume", "--epochs", "6")
    assert again.code == 0, again.err
    assert "its rows are kept in files" in again.err  # as the manifest says, with the limit of the first part
    assert Path("whole/model.safetensors").read_bytes() == Path("parts/model.safetensors").read_bytes()


def test_encoded_rows_that_a_run_keeps_are_found_again_and_checked(
    vgi: Vgi, in_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(frame(120)[["number", "rounded", "colour"]], "data.csv")
    common = [path, *TWO, "--set", "bootstrap=none", "--max-memory", "2G"]
    assert vgi("fit", *common, "-o", "whole", "--epochs", "4").code == 0
    assert not Path("whole/encoded.safetensors").exists()
    assert vgi("fit", *common, "-o", "run", "--epochs", "1", "--keep-encoded").code == 0
    file = Path("run/encoded.safetensors")
    written = file.read_bytes()

    def resumed(epochs: int) -> str:
        again = vgi("fit", "-o", "run", "--resume", "--epochs", epochs)
        assert again.code == 0, again.err
        assert file.read_bytes() == written
        return again.err

    with monkeypatch.context() as patched:
        patched.setattr(encoder, "encode", lambda *_, **__: pytest.fail("the table is encoded again"))
        assert "the encoded rows are those that the run keeps" in resumed(2)
    file.write_bytes(written[:-1] + bytes([written[-1] ^ 1]))
    assert vgi("impute", "--checkpoint", "run").code == 0  # which has no use for it
    said = f"{file} does not match its SHA-256 in manifest.json: the table is encoded again, and written anew there"
    assert said in resumed(3)
    file.unlink()
    assert f"{file} is missing: the table is encoded again" in resumed(4)
    assert Path("whole/model.safetensors").read_bytes() == Path("run/model.safetensors").read_bytes()
    monkeypatch.setattr(memory, "CELL", 1)
    assert "--keep-encoded changes nothing: the table is in memory" in vgi("fit", *common, "--keep-encoded").err


@pytest.mark.parametrize(
    ("more", "where"), first(1, [(FLOW, "counters"), ([*TWO, "--epochs", "1"], "iteration/rows")]), ids=["vgi", "em"]
)
def test_a_fit_from_files_that_is_killed_goes_on_after_its_last_block_of_rows(
    vgi: Vgi, in_files: None, monkeypatch: pytest.MonkeyPatch, more: list[str], where: str
) -> None:
    """What a kill within a pass over the rows leaves is the folder as the checkpoint before it left it."""
    path = write(frame(160)[["number", "rounded", "count", "colour"]], "data.csv")
    monkeypatch.setattr(memory, "PIECE", 10**6)
    save, left = RunFolder.save, []
    monkeypatch.setattr(driver, "due_to_save", lambda since, saving: len(left) < 3)

    def kept(run: RunFolder, parts: Parts, *more: Any) -> None:
        save(run, parts, *more)
        state = parts.get("state", {})
        if where in state and (where != "counters" or state[where][3] > 0):  # steps of this epoch
            left.append(shutil.copytree(run.path, f"left{len(left)}", ignore=shutil.ignore_patterns(".lock")))

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "save", kept)
        done = vgi("fit", path, *more, "--set", "bootstrap=none", "--max-memory", "2G", "-o", "whole")
    assert done.code == 0, done.err
    assert len(left) == 3
    again = vgi("fit", "--resume", "-o", left[-1])
    assert again.code == 0, again.err
    for file in Path("whole").glob("*.safetensors"):
        assert file.read_bytes() == Path(left[-1], file.name).read_bytes(), file


def test_a_table_beyond_the_free_memory_is_kept_in_files(
    vgi: Vgi, in_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(frame(), "data.csv")
    monkeypatch.setattr(machine, "free_ram", lambda: 10**5)
    monkeypatch.setattr(memory, "PIECE", 1)  # EM takes all rows at once all the same
    done = vgi("fit", path, "-o", "run", *MIXTURE, "--set", "bootstrap=none")
    assert done.code == 0, done.err
    assert "are free, so its rows are kept in files" in done.err


@pytest.mark.parametrize(
    ("said", "more", "reason"),
    [
        ("100M", MIXTURE, "with its rows in files"),
        ("2G", ["--model", "mixture", "--set", "uncertainty=posterior", "--exclude", "flag"], "posterior"),
        ("2G", ["--model", "mixture", "--holdout-cells", "5%"], "--holdout-cells works in memory only"),
        ("2G", ["--model", "mixture", "--val", "data.csv"], "--val FRACTION is not"),
        ("2G", ["--model", "vae", "--method", "miwae"], "method miwae works in memory only"),
        ("2G", ["--method", "impute-then-fit"], "works in memory only (in files: em, vgi, vbgi)"),
    ],
)
def test_what_cannot_be_held_is_refused_with_the_number_that_would_do(
    vgi: Vgi, in_files: None, said: str, more: list[str], reason: str
) -> None:
    path = write(frame(), "data.csv")
    done = vgi("fit", path, "-o", "run", *more, "--max-memory", said)
    assert done.code == 2
    assert reason in done.error
    assert done.hint.startswith("--max-memory ")
    assert done.hint.endswith(" would do")
    assert not Path("run").exists()


def test_one_byte_is_not_a_thousand(vgi: Vgi) -> None:
    done = vgi("fit", write(frame(60), "data.csv"), "--max-memory", "1")
    assert done.error.startswith("--max-memory 1: data.csv (60 rows, 7 columns) takes about ")


@pytest.mark.parametrize("said", ["1", "999", "1234", "1.5k", "1250M", "1.5G", "20G", "123456.7G", "2Gi", "1.5Mi"])
def test_a_limit_is_named_as_it_was_said(said: str) -> None:
    assert memory.as_said(size(said)) == said


def test_imputing_is_refused_with_the_number_that_would_do(vgi: Vgi) -> None:
    path = write(frame(60), "data.csv")
    assert vgi("fit", path, "-o", "run", *MIXTURE, "--set", "bootstrap=none").code == 0
    done = vgi("impute", "--checkpoint", "run", "--max-memory", "300M")
    assert done.code == 2
    assert done.error.startswith("--max-memory 300M: imputing data.csv (60 rows, 7 columns) takes about ")
    asked = done.hint.removeprefix("--max-memory ").removesuffix(" would do")
    assert vgi("impute", "--checkpoint", "run", "--max-memory", asked).code == 0


@pytest.mark.parametrize(
    ("said", "bytes"),
    [("2G", 2 * 10**9), ("1.5gb", 15 * 10**8), ("500M", 5 * 10**8), ("2GiB", 2**31), (" 7k ", 7000), (12, 12)],
)
def test_sizes(said: str | int, bytes: int) -> None:
    assert size(said) == bytes


@pytest.mark.parametrize("said", ["", "two", "0", "-1G", "3X", "1i", "2 G B"])
def test_what_is_no_size(said: str) -> None:
    with pytest.raises(UsageError, match="expected a size such as 2G or 500M"):
        size(said)


@pytest.mark.parametrize(("bytes", "words"), [(2_300_000_001, "2.4G"), (650 * 10**6, "650M"), (1, "1k")])
def test_sizes_are_rounded_up(bytes: int, words: str) -> None:
    assert memory.in_words(bytes) == words
    assert size(words) >= bytes


def test_needs_grow_with_the_table() -> None:
    few, many = (Origin("t", ".csv", "t", "", "csv", tuple("abcdefgh"), n) for n in (10, 10**8))
    assert memory.needed(few, in_files=False).in_files is None
    small, large = memory.needed(few, in_files=True), memory.needed(many, in_files=True)
    assert small.in_files is not None
    assert large.in_files is not None
    assert small.in_files < large.in_files < large.in_memory
    flow = memory.needed(few, in_files=True, networks=True)
    assert flow.in_memory - small.in_memory == memory.to_impute(few, 0, True) - memory.to_impute(few, 0) > 0


def test_checking_and_evaluating_are_refused_with_the_number_that_would_do(vgi: Vgi) -> None:
    path = write(frame(60), "data.csv")
    assert vgi("fit", path, "-o", "run", *MIXTURE, "--set", "bootstrap=none").code == 0
    dry = ["fit", path, "--dry-run", "-o", "other"]
    for command in (["check", "--no-trial", path], ["evaluate", "--checkpoint", "run", path], dry):
        done = vgi(*command, "--max-memory", "300M")
        assert done.code == 2
        assert done.error.startswith("--max-memory 300M: looking at data.csv (60 rows, 7 columns) takes about ")
        asked = done.hint.removeprefix("--max-memory ").removesuffix(" would do")
        assert vgi(*command, "--max-memory", asked).code == 0


def test_a_table_in_memory_has_no_limit(vgi: Vgi) -> None:
    run = vgi_cli.fit(frame(60), out="run", model="mixture", epochs=2, set={"bootstrap": "none"})
    words = "max_memory holds for tables"
    with pytest.raises(UsageError, match=words):
        vgi_cli.fit(frame(60), max_memory="2G")
    with pytest.raises(UsageError, match=words):
        vgi_cli.check(frame(60), max_memory="2G")
    with pytest.raises(UsageError, match=words):
        run.evaluate(frame(60), max_memory="2G")
    with pytest.raises(UsageError, match=words):
        run.impute(frame(60), max_memory="2G")


@pytest.mark.slow
def test_the_system_saw_no_more_memory_than_was_allowed(tmp_path: Path) -> None:
    arguments = ["--rows", 400_000, "--columns", 10, "--max-memory", "1G", "--folder", tmp_path, "--"]
    done = script("larger", *arguments, *MIXTURE, "--epochs", "2", "--set", "bootstrap=2")
    assert done.code == 0, done.err
    peaks = [float(found) for found in re.findall(r"on disk .* peak +([0-9.]+) GB", done.out)]
    assert len(peaks) == 2
    assert max(peaks) <= 1.0
    assert not list(tmp_path.iterdir())
