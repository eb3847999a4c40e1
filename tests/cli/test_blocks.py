"""`--block`: columns that are redrawn together, named or found; new tables whose holes cut through a block."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_refusals import TINY_VGI, refused
from tests.program import Vgi
from vgi_cli.runs.folder import RunFolder

LINE = "columns with holes in the same rows are filled together: a, c"


@pytest.fixture
def data(vgi: Vgi) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3))
    rows = [[f"{v:.3f}" for v in row] for row in x]
    for i in range(0, 40, 3):
        rows[i][0] = rows[i][2] = ""  # a and c, together
        rows[(i + 1) % 40][1] = ""
    Path("data.csv").write_text("a,b,c\n" + "\n".join(map(",".join, rows)) + "\n")
    Path("new.csv").write_text("a,b,c\n,0.1,0.2\n0.3,0.1,\n,,\n,0.5,\n0.1,,0.3\n")
    return Path("data.csv")


def filled(path: str) -> list[list[float]]:
    return [[float(cell) for cell in row] for row in list(csv.reader(Path(path).read_text().splitlines()))[1:]]


def test_of_many_columns_that_are_filled_together_the_first_are_named(vgi: Vgi) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 9)).round(3).astype(str)
    rows[::3, :7] = ""
    Path("wide.csv").write_text(",".join("abcdefghi") + "\n" + "\n".join(map(",".join, rows)) + "\n")
    done = vgi("fit", "wide.csv", *TINY_VGI, "--block", "auto", "--out", "run")
    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if "filled together" in line]
    assert lines == ["columns with holes in the same rows are filled together: a, b, c, d, e and 2 more"]
    assert RunFolder.open(Path("run")).recipe().table.blocks == (tuple("abcdefg"),)


def test_a_named_block_is_fitted_imputed_and_finetuned(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "data.csv", *TINY_VGI, "--block", "a, c", "--out", "run")
    assert done.code == 0, done.err
    assert RunFolder.open(Path("run")).recipe().table.blocks == (("a", "c"),)
    for sampler in ("metropolis", "gibbs"):  # new.csv has rows that miss only one of a and c
        done = vgi("impute", "--checkpoint", "run", "new.csv", "--sampler", sampler, "--m", "2", "-o", f"{sampler}.csv")
        assert done.code == 0, done.err
        first, second = filled(f"{sampler}.1.csv"), filled(f"{sampler}.2.csv")
        assert first != second and first[0][1:] == [0.1, 0.2]
    done = vgi("finetune", "--checkpoint", "run", "new.csv", "--epochs", "1", "--out", "tuned")
    assert done.code == 0, done.err
    for sampler, count in (("metropolis", 20), ("exact", 100)):  # of chains a point estimate has fewer
        planned = vgi("impute", "--checkpoint", "tuned", "--sampler", sampler, "--point", "mean", "--dry-run")
        assert f"{count} of each hole, of which the mean is kept" in planned.out, planned.err
    assert vgi("impute", "--checkpoint", "tuned", "--sampler", "metropolis", "--m", "1", "-o", "t.csv").code == 0
    assert len(filled("t.1.csv")) == 5


def test_vbgi_finds_the_columns_and_a_rerun_of_its_recipe_repeats_it(vgi: Vgi, data: Path) -> None:
    flags = [f if f != "vgi" else "vbgi" for f in TINY_VGI]
    done = vgi("fit", "data.csv", *flags, "--out", "one")
    assert done.code == 0 and LINE in done.err.splitlines(), done.err
    assert vgi("fit", "data.csv", "--recipe", "one/recipe.yaml", "--out", "two").code == 0
    one, two = (RunFolder.open(Path(name)) for name in ("one", "two"))
    assert one.recipe().table.blocks == two.recipe().table.blocks == (("a", "c"),)
    for stem in ("model", "conditionals"):
        first, second = one.tensors(stem), two.tensors(stem)
        assert first.keys() == second.keys() and all(bool((first[k] == second[k]).all()) for k in first)
    assert "finished" in vgi("fit", "--resume", "--out", "one").err


def test_without_such_columns_it_says_so(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "new.csv", *TINY_VGI, "--block", "auto")
    assert done.code == 0, done.err
    assert "no two columns have their holes in exactly the same rows: each is filled on its own" in done.err


@pytest.mark.parametrize(
    ("flags", "error", "hint"),
    [
        (["--block", "a"], "--block: a block needs two columns or more, got a", "for example --block height,weight"),
        (["--block", "a,b", "--block", "b,c"], "--block: column 'b' stands in blocks twice", "in one block"),
        (["--block", "a,bb"], "--block bb: the column is not modelled", "did you mean 'b'?"),
        (["--set", "table.blocks=a"], "--set: expected 'auto' or lists of column names, got 'a'", "--block height"),
        (["--set", "table.blocks=[[1, 2]]"], "--set: expected 'auto' or lists of column names", ""),
        (["--block", ",".join(f"x{i}" for i in range(65))], "--block: a block has 65 columns, at most 64", ""),
    ],
)
def test_blocks_that_cannot_be(vgi: Vgi, data: Path, flags: list[str], error: str, hint: str) -> None:
    found, suggestion = refused(vgi, "fit", "data.csv", *TINY_VGI, *flags)
    assert error in found
    assert hint in suggestion


def test_methods_without_conditionals_refuse_blocks_before_reading(vgi: Vgi) -> None:
    Path("data.csv").write_bytes(b"\0\0\0")  # refused as soon as it is read
    error, hint = refused(vgi, "fit", "data.csv", "--model", "fa", "--block", "a,b")
    assert error == "--block: method 'em' has no conditionals of single columns of a 'fa', so none to put into a block"
    assert hint == "with --model fa say --method vgi or vbgi"
    error, hint = refused(vgi, "fit", "data.csv", "--block", "a,b")
    assert (error, hint) == ("--block: table.blocks needs a named method", "say --method vgi or vbgi")
