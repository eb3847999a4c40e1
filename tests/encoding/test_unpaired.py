"""Levels and numbers that stand beside no cell of the column they go one to one with: a free plan without a code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import codes_of, kept_words
from vgi_cli.table.frames import from_frame

CODES = {"free": None, "basic": "B-10", "pro": "P-20"}
FEES = {"free": None, "basic": 9.9, "pro": 29.9}
TIERS = {"free": None, "monthly": "basic", "yearly": "basic", "pro": "top"}
COUPONS = {0.0: None, 5.0: "SAVE5", 10.0: "SAVE10", 20.0: "SAVE20"}
ONE_TO_ONE = "one to one"


def customers(deciding: str, other: str, codes: dict[object, object], n: int = 400) -> pd.DataFrame:
    """Rows in which a level of the column that decides, the first of `codes`, is there in 60 % and has no code."""
    rng = np.random.default_rng(4)
    levels = list(codes)
    rest = 0.4 / (len(levels) - 1)
    own = rng.choice(np.arange(len(levels)), n, p=[0.6, *[rest] * (len(levels) - 1)])
    frame = pd.DataFrame({deciding: [levels[k] for k in own], other: [codes[levels[k]] for k in own]})
    frame["usage"] = np.exp(rng.normal(3, 0.5, n)).round(1)
    return frame


def schema_of(frame: pd.DataFrame, words: str) -> Schema:
    schema = infer_schema(from_frame(frame))[0]
    assert words in kept_words(schema)[0]
    return schema


def filled(frame: pd.DataFrame, schema: Schema, drawn: dict[str, object]) -> tuple[list[object], int]:
    """What the cells of some columns, all missing, are in the end, and how many rows do not keep to rules."""
    table, n = from_frame(frame), len(frame)
    observed = np.stack([codes_of(table, one) for one in schema.encoded], 1)
    missing = np.isnan(observed)
    cells = pd.concat([frame.astype(object), pd.DataFrame([drawn | {"usage": 20.0}]).astype(object)], ignore_index=True)
    codes = np.stack([codes_of(from_frame(cells.astype(frame.dtypes)), one) for one in schema.encoded], 1)
    draws = np.where(missing, codes[n], observed)[None]
    places = [schema.modelled.index(name) for name in drawn]
    missing[0], draws[0, 0] = True, codes[n]
    apart = keep_relations(draws, observed, missing, schema, lambda name: np.full((1, n), 0.5))
    texts = [schema.encoded[place].spell(draws[0, :1, place], None)[0] for place in places]
    return texts, apart.count()


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("codes", "drawn", "words"),
    [
        (CODES, ("free", "B-10"), ONE_TO_ONE),
        (FEES, ("free", 9.9), ONE_TO_ONE),
        (TIERS, ("free", "basic"), "'tier' follows from 'plan'"),
        (COUPONS, (0.0, "SAVE5"), ONE_TO_ONE),
    ],
)
def test_a_filled_partner_does_not_decide(
    swapped: bool, codes: dict[object, object], drawn: tuple[object, object], words: str
) -> None:
    names = ("plan", "tier" if codes is TIERS else "code")
    frame = customers(*names, codes)
    frame = frame[list(frame.columns[[1, 0, 2]])] if swapped else frame
    schema = schema_of(frame, words)
    texts, apart = filled(frame, schema, dict(zip(names, drawn, strict=True)))
    assert texts == [str(drawn[0]).removesuffix(".0"), str(drawn[1])]
    assert not apart  # nor do the rows with a free plan and no code, whose code is filled with any


def test_others_are_computed_still() -> None:
    frame = customers("plan", "code", CODES)
    texts, apart = filled(frame, schema_of(frame, ONE_TO_ONE), {"plan": "pro", "code": "B-10"})
    assert texts == ["pro", "P-20"] and not apart


@pytest.mark.parametrize("order", [("plan", "code", "name"), ("code", "name", "plan"), ("name", "plan", "code")])
def test_nor_do_several_filled_partners(order: tuple[str, ...]) -> None:
    """Of three columns that go one to one: the code settles the name, and neither the plan."""
    frame = customers("plan", "code", CODES)
    frame["name"] = frame.code.map({"B-10": "Basic!", "P-20": "Pro!"})
    frame = frame[[*order, "usage"]]
    texts, apart = filled(frame, schema_of(frame, ONE_TO_ONE), {"plan": "free", "code": "B-10", "name": "Pro!"})
    assert texts[0] == "free" and not apart


@pytest.mark.parametrize("codes", [CODES, FEES])
def test_a_level_without_a_code_is_drawn(codes: dict[object, object], tmp_path: Path) -> None:
    frame = customers("plan", "code", codes)
    frame.loc[np.random.default_rng(1).random(len(frame)) < 0.15, "plan"] = None
    both = frame.plan.isna() & frame.code.isna()
    run = vgi_cli.fit(frame, out=tmp_path / "run", model="mixture", set={"model.components": 2, "bootstrap": "none"})
    tables = run.impute(m=3, leave_blank={"code": "plan=free"})
    assert both.sum() > 20
    for one in tables:
        assert (one.plan[both] == "free").mean() > 0.9  # it was 0
        assert (one.code.isna() == (one.plan == "free")).all()
    drawn = run.sample(n=1000)
    assert abs((drawn.plan == "free").mean() - (frame.plan == "free").sum() / frame.plan.notna().sum()) < 0.05
