"""Fills of cells that arithmetic leaves no value are counted, and stay blank on request; `vgi sample` draws none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import vgi_cli
from tests.encoding.test_relations import holed
from tests.encoding.test_undefined import firms
from tests.program import Vgi


def test_fills_there_are_counted_and_may_stay_blank(tmp_path: Path, vgi: Vgi) -> None:
    frame = holed(firms())
    frame.to_csv(tmp_path / "t.csv", index=False)
    run = ["--model", "mixture", "--set", "model.components=2", "--set", "bootstrap=0"]
    vgi("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *run)
    none = [(frame.before == 0) & frame.growth.isna(), (frame.sales == 0) & frame.log.isna()]
    at = ["impute", "--checkpoint", tmp_path / "run", "--m", 2, "-o", tmp_path / "f.csv"]
    (line,) = [line for line in vgi(*at).err.splitlines() if "leave the column no value" in line]
    flags = ["--leave-blank growth:before=0", "--leave-blank log:sales=0"]
    assert line == (
        f"warning: {sum(map(sum, none))} fills in each table lie in rows whose observed cells leave the column no "
        f"value (a ratio to 0, a logarithm of 0): they mean nothing (`vgi impute {' '.join(flags)}` leaves them blank)"
    )
    assert "not keep to what holds" not in vgi(*at, "--force").err
    said = vgi(*at, "--force", *" ".join(flags).split()).err
    assert "leave the column no value" not in said
    for k in (1, 2):
        filled = pd.read_csv(tmp_path / f"f.{k}.csv")
        blank = [(filled.before == 0) & frame.growth.isna(), (filled.sales == 0) & frame.log.isna()]
        assert (filled.growth.isna() == blank[0]).all() and (filled.log.isna() == blank[1]).all()
        assert filled[["before", "sales", "staff"]].notna().all(axis=None)
    vgi("sample", tmp_path / "run", "-n", 400, "-o", tmp_path / "s.csv")
    drawn = pd.read_csv(tmp_path / "s.csv")
    assert (drawn.sales == 0).any() and (drawn.log.isna() == (drawn.sales == 0)).all()
    numbers = vgi_cli.report(tmp_path / "run")["runs"][0]
    assert numbers["undefined"]["names"] == ["growth", "log"] and numbers["not_asked"] is None
    assert numbers["undefined"]["holes"] == sum(map(sum, none))
