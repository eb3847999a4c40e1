"""Rows whose cells are computed from others and would then never go together, drawn otherwise."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.encoding.test_structural_zeros import schema_of
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import rule_words
from vgi_cli.table.frames import from_frame


def matches(n: int = 900) -> pd.DataFrame:
    """Goals of both halves, their sum, and a mood at half time, of two where there was a goal, else of two others."""
    rng = np.random.default_rng(0)
    goals = rng.poisson(1.0, (2, n))
    frame = pd.DataFrame({"h1": goals[0], "h2": goals[1], "sum": goals.sum(0)})
    return frame.assign(mood=np.where(goals[0] > 0, rng.choice(["glad", "loud"], n), rng.choice(["sad", "quiet"], n)))


def codes_of(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    table = from_frame(frame)
    return np.stack([column.codes(table.column(column.name)) for column in schema.encoded], 1)


def test_a_row_that_can_keep_to_all_rules_does() -> None:
    """One goal in all, and a glad half time; halves are drawn that add up, 0 and 1, in all draws but one."""
    frame = matches()
    schema = schema_of(frame)
    assert any(set(one.names) == {"h1", "mood"} for one in schema.structural_zeros)
    row = frame[(frame.h1 == 1) & (frame.h2 == 0) & (frame.mood == "glad")].head(1)
    observed = codes_of(row, schema)
    missing = np.array([[name in ("h1", "h2") for name in schema.modelled]])
    for halves in ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (3.0, 2.0)):
        draws = np.repeat(observed[None], 4, 0)
        draws[:, 0, [schema.modelled.index("h1"), schema.modelled.index("h2")]] = halves
        apart = keep_relations(draws, observed, missing, schema, uniform=lambda name: np.full((4, 1), 0.5))
        assert apart.count() == 0 and not apart.counts()
        np.testing.assert_array_equal(draws, np.repeat(observed[None], 4, 0))


def test_a_row_that_cannot_stays_and_is_counted_by_its_rule() -> None:
    """No goal in all, and a glad half time."""
    frame = matches()
    schema = schema_of(frame)
    row = frame[(frame.h1 == 1) & (frame.h2 == 0) & (frame.mood == "glad")].head(1).assign(sum=0)
    observed = codes_of(row, schema)
    missing = np.array([[name in ("h1", "h2") for name in schema.modelled]])
    draws = np.repeat(observed[None], 2, 0)
    apart = keep_relations(draws, observed, missing, schema, uniform=lambda name: np.full((2, 1), 0.5))
    words = {rule_words(rule, schema): n for rule, n in apart.counts().items()}
    assert words == {"'h1' = 0 never goes with 'mood' = glad": 2}
    assert apart.count() == 2
    np.testing.assert_array_equal(draws[:, 0, :2], 0)
