"""Values that pile up at an end, as a level of their own: found, read back exactly, with probabilities that sum to one,
recoded between transforms, and filled as often as they occur by whatever goes with having any."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vgi_cli
from tests.selection import first
from tests.table.helpers import from_text
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.form import FEWEST_OFF
from vgi_cli.columns.number import Number
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import box, decode, encode, log_volume
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.encoding.recode import recoder
from vgi_cli.encoding.rounding import rounding_in
from vgi_cli.errors import RunError
from vgi_cli.fitting.rows import new_schema, refitted
from vgi_cli.reporting import Silent
from vgi_cli.settings.recipe import Recipe
from vgi_cli.table.frames import from_frame

TRANSFORMS = ["linear", "normal"]


def of(values: object, transform: str = "linear", **options: object) -> Number:
    """The column x of a table of texts."""
    lines = "\n".join(f"{value},{i}.5" for i, value in enumerate(values))  # type: ignore[var-annotated, arg-type]
    table = from_text(f"x,y\n{lines}\n")
    return infer_schema(table, encoding=Encoding(transform, "split"), **options)[0].encoded[0]  # type: ignore[arg-type,return-value]


def spent(N: int = 300, zeros: float = 0.3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(N) < zeros, 0.0, np.exp(3 + rng.standard_normal(N))).round(2)


def test_zeros_at_an_end_are_a_level() -> None:
    column = of(spent())
    assert (column.pile, column.spikes, column.width, column.level_counts) == (0.0, (), 2, (2, 0))
    assert column.tail_ends == (0.01, np.inf) and column.ends == (0.0, np.inf)
    capped = of(np.minimum(spent(zeros=0.0), 30.0))
    assert capped.pile == 30.0 and capped.tail_ends[1] == pytest.approx(29.99)
    assert of(spent().astype(int)).kind == "integer" and of(spent().astype(int)).pile == 0.0


def measured(below: float, N: int = 300, seed: int = 0) -> np.ndarray:
    """A concentration with one decimal, `below` where it is less than 0.5."""
    rng = np.random.default_rng(seed)
    found = np.exp(0.3 + 0.9 * rng.standard_normal(N)).round(1)
    return np.where(found < 0.5, below, found)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("below", [0.49, 0.25, 0.354, 0.5 / 2**0.5])
def test_an_end_with_more_decimals_than_all_others_says_nothing_of_their_rounding(below: float, transform: str) -> None:
    """What stands for less than a detection limit of 0.5: just less, half of it, or over the root of two."""
    values = measured(below)
    assert 0.5 in values and (values == below).sum() > 20
    column = of(values, transform)
    assert (column.pile, column.resolution, column.ends) == (below, 0.1, (below, np.inf))
    assert column.tail_ends[0] == 0.5 and column.gaps == (() if below == 0.49 else ((below, 0.5),))
    table = from_text("x\n" + "\n".join(map(str, values)) + "\n")
    schema = schema_alone(table, Said(encoding=Encoding(transform, "split")))  # type: ignore[arg-type]
    (x, missing, *_), _ = encode(table, schema, seed=1)
    assert decode(x, schema)[:, 0].tolist() == values.tolist()
    assert np.array_equal(missing[:, 1].numpy(), values == below)
    drawn = x.clone()
    drawn[:, 0] = 0.0
    low, high = (end[1].item() for end in box(schema))
    drawn[:, 1] = torch.randn(len(values), generator=torch.Generator().manual_seed(0)).clamp(low, high)
    fills = decode(drawn, schema)[:, 0]
    assert np.abs(10 * fills - np.rint(10 * fills)).max() < 1e-9 and fills.min() >= column.tail_ends[0]


def test_several_values_with_more_decimals_say_how_a_column_is_rounded() -> None:
    values = measured(0.49)
    values[np.flatnonzero(values > 1)[:30]] += 0.03
    assert of(values.round(2)).resolution == pytest.approx(0.01)
    assert of(measured(0.5)).resolution == pytest.approx(0.1)
    said = of(measured(0.49), bounds={"x": "0.2:"})  # a limit that somebody said is kept
    assert said.ends[0] == 0.2 and said.pile is None
    assert of(measured(0.49), bounds={"x": ":90"}).pile == 0.49


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (np.where(np.arange(300) % 3, np.random.default_rng(0).normal(0, 9, 300).round(1), 0), {}),  # inside the range
        (spent(), {"transform": "none"}),
        (spent(), {"bounds": {"x": "-5:"}}),  # more may lie below
        (spent(), {"unbounded": ["x"]}),
        (np.clip(spent() * 0.1, 0, 10).astype(int), {}),  # a scale
        (np.where(np.arange(300) < 300 - FEWEST_OFF + 1, 0.0, 5.0 + np.arange(300)), {}),  # too few others
        (np.random.default_rng(0).poisson(1.5, 500), {}),  # an ordinary count
    ],
)
def test_what_is_none(values: np.ndarray, options: dict[str, object]) -> None:
    assert of(values, **options).pile is None  # type: ignore[arg-type]


def test_days_have_room_and_so_has_every_column_unasked() -> None:
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.maximum(spent() - 10, 0).round(), unit="D")
    table = from_frame(pd.DataFrame({"x": days, "y": spent()}))
    moment, number = schema_alone(table, Said(encoding=Encoding(spikes="split"))).encoded
    assert isinstance(moment, Moment) and moment.number.pile is None and moment.number.spikes
    assert isinstance(number, Number) and number.pile == 0
    plain = schema_alone(table).encoded[1]
    assert isinstance(plain, Number) and plain.pile is None and plain.spikes[0].value == 0


def test_zero_is_one_by_request_however_rare() -> None:
    values = spent(zeros=0.02)
    assert of(values).pile is None
    assert of(values, kinds={"x": "zero-inflated"}).pile == 0.0


def test_of_many_columns_the_three_with_the_largest_piles() -> None:
    table = from_frame(pd.DataFrame({f"x{i}": spent(400, 0.1 + 0.05 * (i % 7), seed=i) for i in range(7)}))
    columns = schema_alone(table, Said(encoding=Encoding("normal", "split"))).encoded
    assert [column.width for column in columns] == [1, 1, 1, 1, 2, 2, 2]
    assert isinstance(columns[0], Number) and columns[0].spikes[0].value == 0


def test_beside_a_gap_the_others_begin_behind_it() -> None:
    values = np.where(np.arange(400) % 4 == 0, 0, 100 + np.arange(400) % 50)
    column = of(values)
    assert column.pile == 0 and column.gaps == ((0.0, 100.0),) and column.tail_ends == (100.0, np.inf)
    fills = column.decode(np.stack([np.zeros(2001), np.linspace(*column.box()[:, 1].clip(-8, 8), 2001)], 1))
    assert fills.min() == 100.0


@settings(max_examples=15)
@given(st.integers(0, 999), st.sampled_from(TRANSFORMS), st.booleans())
def test_every_cell_is_read_back_exactly(seed: int, transform: str, upper: bool) -> None:
    rng = np.random.default_rng(seed)
    units = np.concatenate([rng.choice(10**4, 60, replace=False) + 1, np.zeros(rng.integers(10, 60))])
    cells = [f"{-unit / 100 if upper else unit / 100:.2f}" for unit in rng.permutation(units).astype(int)]
    table = from_text("x\n" + "\n".join(cells) + "\n")
    schema = schema_alone(table, Said(encoding=Encoding(transform, "split")))  # type: ignore[arg-type]
    if schema.layout.D == 1:  # too near: no spike
        return
    assert Schema.from_json(schema.to_json()) == schema
    (x, missing, *_), _ = encode(table, schema, seed=seed)
    values = np.array([float(cell) for cell in cells])
    assert decode(x, schema)[:, 0].tolist() == (values + 0.0).tolist()
    assert missing[:, 0].sum() == 0 and np.array_equal(missing[:, 1].numpy(), values == 0)
    low, high = box(schema)
    assert bool((((x >= low) & (x <= high)) | missing).all())


@pytest.mark.parametrize("transform", first(1, TRANSFORMS))
def test_the_probabilities_of_all_values_sum_to_one(transform: str) -> None:
    """0 with probability 0.3, else N(0, 1) encoded; over many draws of the noise."""
    table = from_text("x\n" + "\n".join(f"{v:.1f}" for v in np.minimum(spent(), 60)) + "\n")
    schema = schema_alone(table, Said(encoding=Encoding(transform, "split")))  # type: ignore[arg-type]
    every = from_text("x\n" + "\n".join(f"{v / 10:.1f}" for v in range(601)) + "\n")
    total = []
    for draw in range(200):
        (x, missing, *_), _ = encode(every, schema, seed=2, draw=draw)
        normal = np.log(0.7) - 0.5 * (x[:, 1].square() + np.log(2 * np.pi))
        density = torch.where(missing[:, 1], np.log(0.3), normal)
        total.append(float((density + log_volume(missing, x, schema)).exp().sum()))
    low, high = box(schema)[0][1], box(schema)[1][1]
    inside = torch.distributions.Normal(0.0, 1.0).cdf(torch.stack([low, high])).diff()
    assert np.mean(total) == pytest.approx(0.3 + 0.7 * float(inside), rel=0.02)


def test_a_damaged_pile_is_refused() -> None:
    schema = schema_alone(
        from_text("x\n" + "\n".join(map(str, spent())) + "\n"), Said(encoding=Encoding(spikes="split"))
    )
    raw = json.loads(schema.to_json())
    raw["columns"][0]["pile"] = 3.0
    with pytest.raises(RunError, match=r"the pile does not fit its column"):
        Schema.from_json(json.dumps(raw))


def test_rows_are_recoded_between_transforms() -> None:
    table = from_frame(pd.DataFrame({"x": spent(), "y": spent(seed=1) ** 0.5}))
    coded = {t: schema_alone(table, Said(encoding=Encoding(t, "split"))) for t in TRANSFORMS}  # type: ignore[arg-type]
    rows = {name: encode(table, schema, seed=3).table for name, schema in coded.items()}
    there = recoder(coded["linear"], coded["normal"])
    assert there is not None and there.rounding == rounding_in(coded["normal"])
    assert torch.allclose(there.table(rows["linear"]).x, rows["normal"].x, rtol=1e-9, atol=1e-9)
    for j in range(4):
        x = rows["linear"].x
        assert torch.equal(there.dimension(x[:, j], j), there(x)[:, j])


def test_statistics_of_some_rows_keep_the_dimensions() -> None:
    """The first hundred rows have no zero, the last hundred nothing else."""
    values = np.concatenate([np.sort(spent(200, 0.0)), np.zeros(100)])
    table, recipe = from_frame(pd.DataFrame({"x": values, "y": spent()})), Recipe().with_table(spikes="split")
    schema = new_schema(table, recipe, Silent())
    for rows in (torch.arange(100), torch.arange(200, 300)):
        some = refitted(schema, table, recipe, rows)
        assert some.layout == schema.layout and some.encoded[0].pile == 0.0  # type: ignore[union-attr]


def two_part(N: int, seed: int) -> pd.DataFrame:
    """Whether anything is spent goes with a, how much with b, against it."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, N)).round(2)
    any_ = rng.random(N) < 1 / (1 + np.exp(-2 * a))
    return pd.DataFrame(
        {"a": a, "b": b, "x": np.where(any_, np.exp(3 - 0.5 * b + 0.3 * rng.standard_normal(N)), 0).round(1)}
    )


@pytest.mark.slow
def test_having_any_and_how_much_are_two_things(tmp_path: Path) -> None:
    """The coefficients of both regressions in five completed tables of 600 rows, 40 % of x missing."""
    import statsmodels.api as sm

    whole = two_part(600, 5)
    holes = whole.mask(np.random.default_rng(6).random(whole.shape) < [0.0, 0.0, 0.4])

    def coefficients(table: pd.DataFrame) -> list[float]:
        some = sm.add_constant(table[["a", "b"]])
        any_ = sm.Logit(table.x > 0, some).fit(disp=0).params
        spent = table[table.x > 0]
        much = sm.OLS(np.log(spent.x), some.loc[spent.index]).fit().params
        return [any_["a"], any_["b"], much["a"], much["b"]]

    few = {"trees": "none", "bootstrap": 5, "model.components": 1}
    run = vgi_cli.fit(holes, model="mixture", out=tmp_path / "run", seed=1, threads=1, set=few)
    assert (tmp_path / "run" / "recipe.yaml").read_text().count("spikes: split") == 1
    found = np.mean([coefficients(table) for table in run.impute(m=5)], 0)
    assert (np.abs(found - [2.0, 0.0, 0.0, -0.5]) < [0.5, 0.25, 0.06, 0.06]).all(), found
