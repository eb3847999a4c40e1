"""Tables whose numbers have currencies, units and thousands marks: fitted, filled, sampled and scored as they are
written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.program import Vgi
from tests.selection import first

SHORT = ("--model", "mixture", "--set", "model.components=1", "--seed", "1")


@pytest.fixture
def sales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    price = np.exp(rng.normal(7, 1, 120))
    frame = pd.DataFrame(
        {
            "price": [f"${v:,.2f}" for v in price],
            "paid": [f"{v:,.2f} €".translate(str.maketrans(",.", ".,")) for v in price * rng.lognormal(0, 0.2, 120)],
            "profit": [f"({-v:,.0f})" if v < 0 else f"{v:,.0f}" for v in 1000 * rng.normal(0.5, 1, 120)],
        }
    )
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame.to_csv("sales.csv", index=False)
    frame.to_parquet("sales.parquet")
    return frame


@pytest.mark.parametrize("name", first(1, ["sales.csv", "sales.parquet"]))
def test_tables_are_filled_as_they_are_written(vgi: Vgi, sales: pd.DataFrame, name: str) -> None:
    assert vgi("fit", name, *SHORT, "--out", "run").code == 0
    assert vgi("impute", "--checkpoint", "run", "--m", "2", "-o", f"f.{name.partition('.')[2]}").code == 0
    shapes = {
        "price": r"\$\d{1,3}(,\d{3})*\.\d\d",
        "paid": r"\d{1,3}(\.\d{3})*,\d\d €",
        "profit": r"\(?\d{1,3}(,\d{3})*\)?",
    }
    for found in sorted(Path().glob("f*")):
        filled = pd.read_csv(found, dtype=str) if name.endswith("csv") else pd.read_parquet(found)
        for column, shape in shapes.items():
            assert filled[column].str.fullmatch(shape).all()
            assert (filled[column] == sales[column])[sales[column].notna()].all()
        read = filled.apply(lambda x: x.str.replace(r"[^\d.,]", "", regex=True))
        price = np.log(read["price"].str.replace(",", "").astype(float))
        paid = np.log(read["paid"].str.replace(".", "").str.replace(",", ".").astype(float))
        assert np.corrcoef(price, paid)[0, 1] > 0.9  # 0.98 of the law


def test_other_commands_keep_the_notation(vgi: Vgi, sales: pd.DataFrame) -> None:
    assert vgi("fit", "sales.csv", *SHORT, "--out", "run").code == 0
    drawn = vgi("sample", "run", "-n", "5").out.splitlines()
    assert len(drawn) == 6 and all(line.lstrip('"').startswith("$") for line in drawn[1:])
    assert vgi("impute", "--checkpoint", "run", "--m", "1", "--format", "mids-csv", "-o", "mids.csv").code == 0
    mids = pd.read_csv("mids.csv")
    assert all(mids[name].dtype == float for name in sales)
    assert mids["profit"].min() < 0
    mask = sales.notna() & (np.random.default_rng(1).random(sales.shape) > 0.3)
    mask.astype(int).to_csv("mask.csv", index=False)
    report = vgi("evaluate", "--checkpoint", "run", "sales.csv", "--truth", "sales.csv", "--mask", "mask.csv", "--json")
    assert report.code == 0, report.error
    columns = json.loads(report.out)["imputation"]["columns"]
    assert columns["paid"]["rmse"] < 0.7 * sales["paid"].dropna().map(as_number).std()


def as_number(text: str) -> float:
    """An amount as Germans write it."""
    return float(text.removesuffix(" €").replace(".", "").replace(",", "."))


def test_new_tables_are_read_in_the_notation_of_the_fit(vgi: Vgi, sales: pd.DataFrame) -> None:
    assert vgi("fit", "sales.csv", *SHORT, "--out", "run").code == 0
    Path("few.csv").write_text('price,paid,profit\n"$1234",,5\n,"1.000,00 €",\n')  # thousands may stand together
    assert vgi("impute", "--checkpoint", "run", "few.csv", "--m", "1", "-o", "out.csv").code == 0
    assert Path("out.1.csv").read_text().splitlines()[1].startswith('"$1234",')
    pd.DataFrame({"price": [1234.5, None], "paid": [None, 10.0], "profit": [1.0, 2.0]}).to_parquet("few.parquet")
    assert vgi("impute", "--checkpoint", "run", "few.parquet", "--m", "1", "-o", "out.parquet").code == 0
    assert pd.read_parquet("out.1.parquet").dtypes.eq(float).all()
    Path("other.csv").write_text("price,paid,profit\n€5,,5\n")
    refused = vgi("impute", "--checkpoint", "run", "other.csv", "-o", "no.csv")
    assert refused.code == 2
    assert "column 'price' is numeric in the fit but holds '€5' in row 1 (line 2)" in refused.error
    assert "or write it as in the fit: $8,122.49; a fit with" in refused.err
    Path("other.csv").write_text("price,paid,profit\n" + "".join(f"{i},,5\n" for i in range(5, 25)))
    refused = vgi("impute", "--checkpoint", "run", "other.csv", "-o", "no.csv")
    assert "column 'price' is numeric in the fit but holds '5' in row 1" in refused.error
    assert refused.hint.startswith("write it as in the fit: $8,122.49;")  # 5 does not mean missing
    assert not list(Path().glob("no*"))
