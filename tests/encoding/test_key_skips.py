"""What a key says of questions that are asked of some rows alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import codes_in, schema_of
from vgi_cli.columns.numerals import Floats
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.keys import told_by_keys
from vgi_cli.encoding.redundant import every_kept, rule_words
from vgi_cli.table.frames import from_frame


def smokers(*, of_life: bool) -> pd.DataFrame:
    """Persons in several years, how much they smoke in those in which they do, and whether they do: in all of them or
    in none (`of_life`), or as the year is."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(80), 5)
    smoke = rng.random(80)[person] < 0.5 if of_life else rng.random(400) < 0.5
    frame = pd.DataFrame({"person": [f"p{i}" for i in person], "smoke": np.where(smoke, "yes", "no")})
    frame["cigarettes"] = np.where(smoke, rng.integers(1, 40, 80)[person], np.nan)
    return frame.assign(x=rng.normal(size=400))


def filled(frame: pd.DataFrame, rows: pd.DataFrame, smoke: str) -> Floats:
    """[N, columns] rows with the fills of a draw in which the level is `smoke`, and of a year of 99 cigarettes."""
    schema = schema_of(frame)
    assert "'smoke' is not 'no' where 'cigarettes' is observed" in every_kept(schema)
    codes = codes_in(rows, schema)
    missing, draws = np.isnan(codes), np.nan_to_num(codes)[None].copy()
    level = codes_in(frame[frame.smoke == smoke].head(1), schema)[0, schema.modelled.index("smoke")]
    draws[:, missing[:, 0], 0], draws[:, missing[:, 1], 1] = level, 99.0
    told = told_by_keys(from_frame(rows), schema)
    apart = keep_relations(draws, codes, missing, schema, lambda name: np.full((1, len(rows)), 0.5), told=told)
    assert apart.count() == 0
    return np.asarray(draws[0])


@pytest.mark.parametrize("smoke", ["no", "yes"])
def test_what_a_key_says_is_no_answer(smoke: str) -> None:
    """Who smokes ten in other years may not this year, of which nothing is known: the draw of the model stands."""
    frame = smokers(of_life=False)
    assert "'cigarettes' follows from 'person'" in every_kept(schema_of(frame))
    some = frame.dropna()
    some = some[some.groupby("person").x.transform("size") > 1].groupby("person").head(1)
    rows = filled(frame, some.assign(smoke=None, cigarettes=np.nan), smoke)
    np.testing.assert_array_equal(rows[:, 1], some.cigarettes)
    levels = codes_in(frame[frame.smoke == smoke].head(1), schema_of(frame))[0, 0]
    assert (rows[:, 0] == levels).all()


def test_an_answer_is_heard_before_a_key() -> None:
    """Who smokes in no other year, and says how many cigarettes."""
    frame = smokers(of_life=True)
    schema = schema_of(frame)
    assert "'smoke' follows from 'person'" in every_kept(schema)
    some = frame[frame.smoke == "no"].groupby("person").head(1)
    no = codes_in(some, schema)[0, 0]
    assert (filled(frame, some.assign(smoke=None), "yes")[:, 0] == no).all()
    assert (filled(frame, some.assign(smoke=None, cigarettes=5.0), "no")[:, 0] != no).all()


def test_a_row_whose_answer_its_key_denies_is_counted() -> None:
    """By a number that is a key: what follows from it is kept, and the line says what is not."""
    frame = smokers(of_life=True)
    frame["person"] = 3000 + frame.person.str[1:].astype(int)
    schema = schema_of(frame)
    some = frame[frame.smoke == "no"].groupby("person").head(1).assign(smoke=None, cigarettes=5.0)
    codes = codes_in(some, schema)
    missing, draws = np.isnan(codes), np.nan_to_num(codes)[None].copy()
    apart = keep_relations(draws, codes, missing, schema, lambda name: np.full((1, len(some)), 0.5))
    words = "'smoke' is not 'no' where 'cigarettes' is observed"
    assert {rule_words(rule, schema): count for rule, count in apart.counts().items()} == {words: len(some)}
