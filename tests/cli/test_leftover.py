"""Holes that stay are named at fit and at impute, `filled X of Y holes` is the last line, `--strict` refuses them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import vgi_cli
from tests.program import Vgi
from vgi_cli.errors import HolesLeft

STAY = "3 holes will stay, in columns that are not modelled: 'word' (2), 'ok' (1)"
FIT = ("fit", "data.csv", "--model", "fa", "--carry-others", "--set", "model.factors=1", "--set", "bootstrap=none")


@pytest.fixture
def fitted(vgi: Vgi) -> str:
    """Two holes that are filled, three that stay; what the fit said."""
    rows = [f"{i % 7},{i * i % 11},w{i % 3},{'true' if i % 2 else 'false'}" for i in range(20)]
    rows[3], rows[5] = "3,,,true", ",4,,"
    Path("data.csv").write_text("a,b,word,ok\n" + "\n".join(rows) + "\n")
    done = vgi(*FIT, "--out", "run")
    assert done.code == 0, done.err
    return done.err


def test_the_fit_and_the_imputation_name_them(vgi: Vgi, fitted: str) -> None:
    assert STAY in fitted.splitlines()
    done = vgi("impute", "--checkpoint", "run", "--m", "2")
    assert (done.code, done.err.splitlines()[-1]) == (0, "filled 2 of 5 holes in each of 2 tables")
    assert STAY in done.err.splitlines() and "sampler" not in done.err
    assert len(done.out.splitlines()) == 2
    done = vgi("impute", "--checkpoint", "run", "--point", "mean", "-o", "-", "-v")
    lines = done.err.splitlines()
    assert lines[-1] == "filled 2 of 5 holes" and any(line.startswith("sampler exact: cells ") for line in lines)


def test_strict_refuses_before_anything_is_written(vgi: Vgi, fitted: str) -> None:
    before = sorted(Path().rglob("*"))
    for more in ((), ("-o", "out.csv"), ("--format", "single", "-o", "-")):
        done = vgi("impute", "--checkpoint", "run", "--strict", *more)
        assert (done.code, done.out) == (1, "")
        assert done.error == f"data.csv: {STAY.replace('will', 'would')}"
        hint = "leave out --strict (strict=True in Python) to fill the others, or drop these columns"
        assert done.hint == f"nothing was written; {hint}"
    assert sorted(Path().rglob("*")) == before


def test_strict_passes_where_every_hole_is_filled(vgi: Vgi, fitted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b,word,ok\n,3,x,true\n")))
    done = vgi("impute", "--checkpoint", "run", "-", "--strict")
    assert (done.code, done.err.splitlines()[-1]) == (0, "filled 1 of 1 holes")


def test_in_python(vgi: Vgi, fitted: str) -> None:
    said: list[str] = []
    tables = vgi_cli.impute("run", m=2, say=said.append)
    assert len(tables) == 2 and said[-1] == "filled 2 of 5 holes in each of 2 tables" and STAY in said
    with pytest.raises(HolesLeft, match=r"3 holes would stay, in columns that are not modelled: 'word' \(2\)"):
        vgi_cli.impute("run", strict=True)
    with pytest.raises(HolesLeft) as caught:
        vgi_cli.impute("run", strict=True, out="out.csv")
    assert caught.value.exit_code == 1 and not Path("out.1.csv").exists()
    frame = vgi_cli.impute("run", m=1, strict=True, data=tables[0][["a", "b"]])[0]
    assert not frame.isna().any().any()
