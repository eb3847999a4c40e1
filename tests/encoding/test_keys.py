"""What has one value for each key: a whole number, or a text or an id that is carried; and first digits of codes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_following import kept_apart, spread
from tests.encoding.test_relations import KEPT, codes_in, holed, schema_of
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.lookups import Lookup, digest
from vgi_cli.columns.number import Number
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.keys import told_by_keys, unlike_keys
from vgi_cli.encoding.redundant import every_kept
from vgi_cli.encoding.relations import departures
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame


def panel(n: int = 60, waves: int = 5, seed: int = 0) -> pd.DataFrame:
    """Persons in several years: what is theirs in all of them, what is the same for all in a year, and what is not."""
    rng = np.random.default_rng(seed)
    person, year = np.repeat(np.arange(1, n + 1), waves), np.tile(2001 + np.arange(waves), n)
    return pd.DataFrame(
        {
            "person": person,
            "year": year,
            "sex": rng.choice(["f", "m"], n)[person - 1],
            "born": rng.integers(1940, 1990, n)[person - 1],
            "index": np.array([97.1, 100.0, 102.4, 101.3, 105.9, 108.0])[year - 2001],
            "income": np.exp(rng.normal(10, 1, n * waves)).round(),
        }
    )


def coded(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Pupils, numbered within their schools, and something else."""
    rng = np.random.default_rng(seed)
    school = rng.integers(1, 90, n)
    return pd.DataFrame(
        {"school": school, "pupil": 10_000 * school + rng.integers(7_001, 7_219, n), "x": rng.normal(size=n)}
    )


def daily(n: int = 900, days: int = 120, *, times: bool = False, seed: int = 0) -> pd.DataFrame:
    """Sales of some days (`times`: of some moments), with what is the same for all of a day, and what is not."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, days, n)
    date = np.datetime64("2024-01-05") + day
    rate = (1.07 + np.cumsum(rng.normal(0, 0.004, days))).round(4)
    return pd.DataFrame(
        {
            "date": [f"{own} {i % 24:02d}:15:00" for own, i in zip(date, day, strict=True)]
            if times
            else date.astype(str),
            "month": date.astype("M8[M]").astype(int) % 12 + 1,
            "weekday": (date.astype(int) + 3) % 7 + 1,
            "rate": rate[day],
            "holiday": np.where(np.isin(day, rng.choice(days, 8, replace=False)), "yes", "no"),
            "amount": rng.normal(size=n),
        }
    )


def invoices(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Codes of several kinds, and what they begin with, or what follows from that."""
    rng = np.random.default_rng(seed)
    country, site = rng.integers(0, 4, n), rng.integers(101, 109, n)
    short = np.array(["DE", "FR", "NL", "AT"])[country]
    return pd.DataFrame(
        {
            "invoice": [f"{one}-2024-{i:05d}" for i, one in enumerate(short)],
            "tax": [f"{one}{number}" for one, number in zip(short, rng.integers(10**8, 10**9, n), strict=True)],
            "patient": [f"{one}P{i:04d}" for i, one in enumerate(site)],
            "country": short,
            "site": site,
            "clinic": rng.permutation(8)[site - 101] % 3 + 10,
            "amount": rng.normal(size=n),
        }
    )


def firsts(frame: pd.DataFrame) -> list[str]:
    """What is said to follow from what comes first in texts."""
    return [one.words() for one in schema_of(frame).lookups if one.first is not None]


def measured(n: int = 800, seed: int = 0) -> pd.DataFrame:
    """A measurement, what is computed from it with fewer digits, and whether it is low, normal or high."""
    glucose = np.random.default_rng(seed).normal(98, 20, n).round().clip(60, 140)
    flag = np.select([glucose < 70, glucose < 100], ["L", "N"], "H")
    return pd.DataFrame({"glucose": glucose, "mmol": (glucose**1.5 / 200).round(1), "flag": flag})


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """With the persons by names, which are carried."""
    return frame.assign(person=[f"who {i}" for i in frame.person])


def kept(schema: Schema, frame: pd.DataFrame, missing: np.ndarray, m: int = 3) -> np.ndarray:
    """[m, N, columns] draws of other rows, kept to what holds in every row; no row departs from it."""
    true = codes_in(frame, schema)
    draws = spread(true, missing, m)
    told = told_by_keys(from_frame(frame), schema)
    rng = np.random.default_rng(2)
    numbers = {name: rng.random(draws.shape[:2]) for name in schema.modelled}
    apart = keep_relations(draws, true, missing, schema, uniform=numbers.__getitem__, told=told)
    assert apart.count() == 0
    assert kept_apart(schema, draws) == 0
    np.testing.assert_array_equal(draws[:, ~missing], np.broadcast_to(true[~missing], draws[:, ~missing].shape))
    return draws


class TestNumbers:
    @pytest.mark.parametrize("share", [0.0, 0.15])
    def test_years_and_persons(self, share: float) -> None:
        schema = schema_of(holed(panel(), share=share))
        assert every_kept(schema)[:3] == [
            "'sex' follows from 'person'",
            "'born' follows from 'person'",
            "'index' follows from 'year'",
        ]
        index = next(one for one in schema.relations if one.names == ("index", "year"))
        assert index.how == "groups" and index.keys == (2001, 2002, 2003, 2004, 2005)
        assert index.codes == (97.1, 100.0, 102.4, 101.3, 105.9)
        assert Schema.from_json(schema.to_json()).relations == schema.relations

    @pytest.mark.parametrize("hidden", ["index", "year", "sex", "person", "index year", "sex born", "person sex year"])
    def test_fills_keep_to_them(self, hidden: str) -> None:
        frame = panel()
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[::4, [schema.modelled.index(name) for name in hidden.split()]] = True
        draws = kept(schema, frame, missing)
        if hidden in ("index", "year", "sex", "sex born"):  # the others determine it
            assert (draws == true).all()

    @pytest.mark.parametrize("hidden", ["glucose", "glucose flag", "glucose mmol", "glucose mmol flag"])
    def test_a_key_lies_in_a_band_too(self, hidden: str) -> None:
        frame = measured()
        schema = schema_of(frame)
        assert every_kept(schema) == ["'flag' follows from 'glucose'", "'mmol' follows from 'glucose'"]
        missing = np.zeros(frame.shape, bool)
        missing[::2, [schema.modelled.index(name) for name in hidden.split()]] = True
        kept(schema, frame, missing)

    def test_what_a_key_is_that_was_not_seen_is_drawn(self) -> None:
        frame = panel()
        schema = schema_of(frame[frame.year > 2001])
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        place = schema.modelled.index("index")
        missing[:, place] = True
        draws = spread(true, missing)
        before = draws.copy()
        keep_relations(draws, true, missing, schema)
        unseen = (frame.year == 2001).to_numpy()
        assert (draws[:, unseen, place] == before[:, unseen, place]).all()
        assert (draws[:, ~unseen, place] == true[~unseen, place]).all()

    def test_rows_of_another_table_that_depart_are_counted(self) -> None:
        frame = panel()
        schema = schema_of(frame)
        other = frame.assign(
            sex=frame.sex.mask(frame.index == 7, "x").replace("x", "f" if frame.sex[7] == "m" else "m")
        )
        place = [one.names[0] for one in schema.relations].index("sex")
        assert departures(from_frame(other), schema)[place] == 1

    def test_two_columns_that_go_one_to_one(self) -> None:
        """The later one follows from the earlier one, and others from the earlier one alone."""
        frame = panel(waves=6)
        frame["round"] = np.array([3, 1, 4, 2, 6, 5])[frame.year - 2001]
        words = every_kept(schema_of(frame))
        assert "'round' follows from 'year'" in words and "'index' follows from 'year'" in words
        assert not any(one.endswith("from 'round'") or one.startswith("'year'") for one in words)

    def test_what_follows_from_a_person_is_no_matter_of_what_else_does(self) -> None:
        """Two persons of one age and one sex are a coincidence; that their rows agree is not."""
        rng = np.random.default_rng(0)
        age, person = rng.integers(18, 80, 40), np.repeat(np.arange(40), 8)
        frame = pd.DataFrame({"age": age[person], "tall": (age % 3 == 0)[person], "person": person})
        frame["x"] = rng.normal(size=len(frame))
        frame["group"] = np.where(np.arange(40) % 5 == 0, "a", "b")[person]
        twice = pd.Series(age).duplicated(keep=False).to_numpy()
        group = pd.Series(age).map(lambda value: "a" if value % 2 else "b").to_numpy()
        frame["group"] = np.where(twice, group, rng.choice(["a", "b"], 40))[person]
        words = every_kept(schema_of(frame))
        assert "'group' follows from 'person'" in words and "'group' follows from 'age'" not in words

    def test_a_column_that_is_computed_from_such_is_not_said_twice(self) -> None:
        frame = panel()
        frame["age"] = 2020 - frame.born
        words = every_kept(schema_of(frame))
        assert "'age' = 2020 - 'born'" in words and "'age' follows from 'person'" not in words

    @pytest.mark.parametrize("seed", range(6))
    def test_nothing_in_what_changes_little_by_little(self, seed: int) -> None:
        """Numbers that are all but decided by a whole one, though one row of a number in a few is off, or none is."""
        rng = np.random.default_rng(seed)
        n = 300
        walk = np.cumsum(rng.normal(0, 0.5, n))
        frame = pd.DataFrame(
            {
                "minute": np.arange(n) // 3,
                "level": np.round(walk / 10),
                "age": rng.integers(20, 80, n),
                "count": rng.poisson(1.0, n),
                "rare": np.where(rng.random(n) < 0.97, 0, rng.integers(1, 9, n)),
            }
        )
        frame["old"] = np.where(frame.age + rng.normal(0, 0.5, n) > 50, "old", "young")
        frame["tens"] = (frame.age + rng.normal(0, 0.05, n)) // 10
        assert not [one for one in schema_of(frame).relations if one.keys]

    def test_not_in_few_rows_nor_where_one_is_off(self) -> None:
        frame = panel()
        assert not schema_of(frame.head(15)).relations
        frame.loc[17, "index"] = 90.0
        assert "'index' follows from 'year'" not in every_kept(schema_of(frame))

    def test_damage_is_named(self) -> None:
        schema = schema_of(panel())
        text = schema.to_json().replace("2001.0,\n    2002.0", "2002.0,\n    2001.0")
        assert text != schema.to_json()
        with pytest.raises(RunError, match="the relation does not fit its columns"):
            Schema.from_json(text)
        place = schema.to_json().index('"relations"')
        text = schema.to_json()[:place] + schema.to_json()[place:].replace('"year"\n', '"sex"\n')
        with pytest.raises(RunError, match="relations do not fit the columns"):
            Schema.from_json(text)


class TestDates:
    @pytest.mark.parametrize("times", [False, True])
    @pytest.mark.parametrize("share", [0.0, 0.15])
    def test_rates_and_holidays(self, times: bool, share: float) -> None:
        schema = schema_of(holed(daily(times=times), share=share))
        assert every_kept(schema) == [
            "'month' is the month of 'date'",
            "'weekday' is the weekday of 'date'",
            "'rate' follows from 'date'",
            "'holiday' follows from 'date'",
        ]
        assert Schema.from_json(schema.to_json()).relations == schema.relations

    @pytest.mark.parametrize("times", [False, True])
    @pytest.mark.parametrize(
        "hidden",
        [
            "rate",
            "date",
            "rate date",
            "date month",
            "date month weekday",
            "rate holiday",
            "date holiday",
            "date rate month",
        ],
    )
    def test_fills_keep_to_them(self, hidden: str, times: bool) -> None:
        frame = daily(times=times)
        frame = frame[frame.groupby("date").amount.transform("count") > 1].reset_index(drop=True)
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[::4, [schema.modelled.index(name) for name in hidden.split()]] = True
        draws = kept(schema, frame, missing)
        if "rate" not in hidden:  # which hardly two days have
            assert (draws == true)[:, missing].mean() > 0.85
        if "date" not in hidden:
            assert (draws == true).all()

    def test_not_by_chance_nor_what_changes_little_by_little(self) -> None:
        rng = np.random.default_rng(0)
        frame = daily()
        day = (pd.to_datetime(frame.date) - pd.Timestamp("2024-01-05")).dt.days.to_numpy()
        for name, values in {"stage": day // 23, "rare": rng.random(len(day)) < 0.01}.items():
            frame[name] = np.array(["a", "b", "c", "d", "e", "f"])[np.asarray(values, int)]
        assert not {"stage", "rare", "amount"} & {one.names[0] for one in schema_of(frame).relations if one.keys}
        assert not [one for one in schema_of(frame.drop_duplicates("date")).relations if one.keys]

    def test_a_date_of_birth_is_no_key_of_what_follows_from_a_person(self) -> None:
        frame = panel(n=150)
        born = np.random.default_rng(1).permutation(2000)[:150]
        sex = frame.sex.to_numpy()[::5]
        born[np.flatnonzero(sex == "f")[-1]] = born[np.flatnonzero(sex == "f")[0]]  # two agree in what is theirs
        frame["born"] = (np.datetime64("1980-01-01") + born[frame.person - 1]).astype(str)
        words = every_kept(schema_of(frame))
        assert "'sex' follows from 'person'" in words and "'sex' follows from 'born'" not in words


class TestTexts:
    @pytest.mark.parametrize("ids", [(), ("person",)])
    def test_names_that_are_carried(self, ids: tuple[str, ...]) -> None:
        frame = holed(named(panel()), share=0.1)
        schema = infer_schema(from_frame(frame), ids=ids, encoding=KEPT)[0]
        assert "person" not in schema.modelled
        assert {(one.name, one.by) for one in schema.lookups} == {("sex", "person"), ("born", "person")}
        assert "'born' follows from 'person'" in every_kept(schema)
        assert "who 1" not in schema.to_json()
        assert Schema.from_json(schema.to_json()).lookups == schema.lookups

    def test_fills_are_what_other_rows_of_the_name_have(self) -> None:
        whole = named(panel())
        frame = whole.copy()
        frame.loc[frame.index % 5 == 2, ["sex", "born"]] = np.nan
        frame.loc[frame.index % 7 == 3, "index"] = np.nan
        schema = schema_of(frame)
        missing = np.isnan(codes_in(frame, schema))
        true = codes_in(whole, schema)
        draws = spread(true, missing)
        keep_relations(
            draws, np.where(missing, 0.0, true), missing, schema, told=told_by_keys(from_frame(frame), schema)
        )
        assert (draws == true).all()

    def test_some_rows_and_tables_without_the_name(self) -> None:
        frame = named(panel())
        schema, place = schema_of(frame), schema_of(frame).modelled.index("born")
        told = told_by_keys(from_frame(frame), schema, np.array([7, 3]))
        assert told[:, place].tolist() == [frame.born[7], frame.born[3]]
        assert np.isnan(told_by_keys(from_frame(frame.drop(columns="person")), schema)).all()
        other = frame.head(3).assign(person=["who 1", "someone", None])
        assert (~np.isnan(told_by_keys(from_frame(other), schema)[:, place])).tolist() == [True, False, False]

    def test_rows_of_another_table_that_depart_are_counted(self) -> None:
        frame = named(panel())
        schema = schema_of(frame)
        other = frame.assign(born=frame.born + (frame.index == 7))
        place = [one.name for one in schema.lookups].index("born")
        assert unlike_keys(from_frame(other), schema)[place] == 1
        assert any(
            "'born' follows from 'person' in every row of the fit; 1 row" in note
            for note in check(from_frame(other), schema)
        )

    def test_measurements_are_no_names(self) -> None:
        frame = panel()
        frame["pressure"] = [f"{100 + i}/{60 + i}" for i in frame.person]
        schema = infer_schema(from_frame(frame), kinds={"pressure": "carry", "person": "carry"}, encoding=KEPT)[0]
        assert {one.by for one in schema.lookups} == {"person"}

    def test_damage_is_named(self) -> None:
        text = schema_of(named(panel())).to_json()
        place = text.index('"lookups"')
        for old, new in (
            ('"by": "person"', '"by": "year"'),
            ('"name": "born"', '"name": "person"'),
            ('"name": "born"', '"name": "no"'),
        ):
            assert old in text[place:]
            with pytest.raises(RunError, match=r"what follows from carried|lookup does not fit"):
                Schema.from_json(text[:place] + text[place:].replace(old, new))

    def test_a_lookup_has_one_code_for_each_key(self) -> None:
        with pytest.raises(ValueError, match="the lookup does not fit its columns"):
            Lookup(name="a", by="b", keys=(digest("x"), digest("x")), codes=(1.0, 2.0))


class TestNested:
    @pytest.mark.parametrize("share", [0.0, 0.15])
    def test_first_digits(self, share: float) -> None:
        schema = schema_of(holed(coded(), share=share))
        (relation,) = schema.relations
        assert relation.names == ("pupil", "school") and relation.weights == (1, -10_000)
        (words,) = every_kept(schema)
        assert words.startswith("the first digits of 'pupil' are 'school', the others 70")
        assert "rounded" not in words
        assert Schema.from_json(schema.to_json()).relations == schema.relations

    def test_leading_zeros_of_the_others(self) -> None:
        frame = coded()
        frame["pupil"] = 1_000 * frame.school + np.arange(len(frame)) % 40 + 1
        assert every_kept(schema_of(frame)) == ["the first digits of 'pupil' are 'school', the others 001 to 040"]

    @pytest.mark.parametrize("hidden", ["pupil", "school", "pupil school"])
    def test_fills_have_digits_that_were_seen(self, hidden: str) -> None:
        frame = coded()
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[::3, [schema.modelled.index(name) for name in hidden.split()]] = True
        draws = kept(schema, frame, missing)
        school, pupil = (draws[..., schema.modelled.index(name)] for name in ("school", "pupil"))
        rest = pupil - 10_000 * school
        assert rest.min() >= 7_001 and rest.max() <= 7_218
        if hidden == "school":
            assert (draws == true).all()
        if hidden == "pupil":
            assert len(np.unique(rest[:, ::3])) > 30  # not all at one end

    def test_not_where_a_row_has_others_nor_in_few_rows(self) -> None:
        frame = coded()
        assert not schema_of(frame.head(9)).relations
        frame.loc[frame.index % 50 == 7, "pupil"] += 10_000
        assert not any(one.apart for one in schema_of(frame).relations)

    def test_numbers_that_are_rounded_are_none(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.uniform(0, 1e6, 400)
        frame = pd.DataFrame({"thousands": np.round(x / 1e3), "number": np.round(x)})
        words = every_kept(schema_of(frame))
        assert words and not any("digits" in one for one in words)

    def test_a_weight_of_differences_is_one_or_more(self) -> None:
        with pytest.raises(ValueError, match="the relation does not fit its columns"):
            Relation(names=("a", "b"), weights=(1.0, 2.0), rounded=True, slack=1.0, apart=(0.0,))


@pytest.mark.parametrize("carried", [True, False])
def test_a_key_of_one_row_alone_says_nothing(carried: bool) -> None:
    """It would answer for its own cell where that is hidden, and keep a value of every single person."""
    frame = panel(seed=3)
    once = pd.DataFrame(
        {"person": np.arange(900, 960), "year": 2003, "sex": "f", "born": 1950, "index": 102.4, "income": 20_000.0}
    )
    every = pd.concat([frame, once], ignore_index=True)
    table = named(every) if carried else every
    schema = schema_of(table)
    if carried:
        (sex,) = (one for one in schema.lookups if one.name == "sex")
        assert set(sex.keys) == {digest(text) for text in table.person[: len(frame)]}
    else:
        (sex,) = (one for one in schema.relations if one.names == ("sex", "person"))
        assert set(sex.keys) == set(frame.person)


def test_a_row_of_which_only_the_key_is_known_is_not_said_to_come_from_the_model_alone() -> None:
    frame = named(panel())
    frame.loc[69, ["year", "sex", "born", "index", "income"]] = None
    schema, notes = infer_schema(from_frame(frame), encoding=KEPT)
    bare = "row 70 has no cell of a modelled column: "
    told = "imputed from the model, but for what follows from column 'person'"
    assert f"{bare}not used by the fit, {told}" in notes
    assert f"{bare}{told}" in check(from_frame(frame), schema)
    assert f"{bare}left out" in check(from_frame(frame), schema, "left out")
    frame.loc[69, "person"] = "somebody else"
    assert f"{bare}imputed from the model" in check(from_frame(frame), schema)


@pytest.mark.parametrize("carried", [True, False])
def test_one_observed_row_of_a_key_speaks_for_its_others(carried: bool) -> None:
    frame = named(panel(seed=4)) if carried else panel(seed=4)
    lost = np.zeros(len(frame), bool)
    lost[1:5] = True  # of the first person one row says the sex; of the second none
    lost[5:10] = True
    table = frame.assign(sex=frame.sex.mask(lost))
    schema = schema_of(table)
    if carried:
        (sex,) = (one for one in schema.lookups if one.name == "sex")
        assert set(sex.keys) == {digest(text) for text in set(frame.person) - {"who 2"}}
        assert (told_by_keys(from_frame(table), schema)[1:5, schema.modelled.index("sex")] == sex.codes[0]).all()
    else:
        (relation,) = (one for one in schema.relations if one.names == ("sex", "person"))
        assert set(relation.keys) == set(frame.person) - {2}


@pytest.mark.parametrize("carried", [True, False])
@pytest.mark.parametrize("dates", [True, False])
def test_values_of_keys_with_several_rows_make_no_gaps(carried: bool, dates: bool) -> None:
    """A value counts once for each person; without the persons its repeats are those of a column with gaps."""
    rng = np.random.default_rng(0)
    born = rng.choice(20_000, 40, replace=False)
    person, n = np.repeat(np.arange(40), 6), 240
    days = pd.Series(born[person])
    cells = (pd.Timestamp("1950-01-01") + pd.to_timedelta(days, unit="D")).dt.strftime("%Y-%m-%d") if dates else days
    frame = pd.DataFrame({"person": person, "born": cells, "x": rng.normal(size=n)})
    frame = named(frame) if carried else frame

    def gaps(table: pd.DataFrame) -> tuple[tuple[float, float], ...]:
        (column,) = (one for one in schema_alone(from_frame(table), Said(encoding=KEPT)).encoded if one.name == "born")
        number = column.number if isinstance(column, Moment) else column
        assert isinstance(number, Number)
        return number.gaps

    assert len(gaps(frame.drop(columns="person"))) > 20
    assert gaps(frame) == ()


class TestFirstOfTexts:
    @pytest.mark.parametrize("share", [0.0, 0.15])
    @pytest.mark.parametrize(
        ("code", "name", "words"),
        [
            ("invoice", "country", "the first part of 'invoice' is 'country'"),
            ("tax", "country", "the first letters of 'tax' are 'country'"),
            ("patient", "site", "the first 3 characters of 'patient' are 'site'"),
            ("patient", "clinic", "'clinic' follows from the first 3 characters of 'patient'"),
        ],
    )
    def test_codes(self, code: str, name: str, words: str, share: float) -> None:
        frame = holed(invoices()[[code, name, "amount"]], share=share)
        assert firsts(frame) == [words]

    def test_what_is_said_of_texts_that_were_not_seen(self) -> None:
        """Texts of which no row has the other column, and those that begin as none did, where a value is written so."""
        frame = invoices()
        rest = frame[(frame.site != 103) & (frame.country != "AT")].copy()
        rest.loc[rest.index % 3 == 0, ["site", "clinic", "country"]] = np.nan
        assert "AT" not in set(rest.country)
        schema = schema_of(pd.concat([rest, frame[frame.country == "AT"].assign(invoice=None, tax=None).head(5)]))
        told = told_by_keys(from_frame(frame), schema)
        true = codes_in(frame, schema)
        of = {name: schema.modelled.index(name) for name in ("country", "site", "clinic")}
        np.testing.assert_array_equal(told[:, of["country"]], true[:, of["country"]])
        np.testing.assert_array_equal(told[:, of["site"]], true[:, of["site"]])
        unseen = (frame.site == 103).to_numpy()
        assert np.isnan(told[unseen, of["clinic"]]).all()
        np.testing.assert_array_equal(told[~unseen, of["clinic"]], true[~unseen, of["clinic"]])
        assert Schema.from_json(schema.to_json()).lookups == schema.lookups
        assert "2024" not in schema.to_json()

    def test_rows_of_another_table_that_depart_are_counted(self) -> None:
        frame = invoices()[["invoice", "country", "amount"]]
        schema = schema_of(frame)
        assert unlike_keys(from_frame(frame), schema) == [0]
        other = frame.assign(country=frame.country.mask(frame.index == 7, "FR" if frame.country[7] != "FR" else "DE"))
        assert unlike_keys(from_frame(other), schema) == [1]

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("kind", ["counter", "digest", "persons", "pairs"])
    def test_nothing_by_chance(self, kind: str, seed: int) -> None:
        """Persons in several rows each have one sex, and hardly two of them have numbers that begin alike."""
        rng = np.random.default_rng(seed)
        person = {"persons": np.arange(300) // 4, "pairs": np.arange(300) // 2}.get(kind, np.arange(300))
        numbers = rng.permutation(9000)[:300]
        form = {"counter": "P{0:04d}", "digest": "{2:08x}"}.get(kind, "S{1:05d}")
        codes = [form.format(i, numbers[i], int(rng.integers(16**8))) for i in range(300)]
        frame = pd.DataFrame({"code": [codes[i] for i in person], "sex": rng.choice(["f", "m"], 300)[person]})
        frame["rare"] = np.where(rng.random(300) < 0.03, "yes", "no")
        frame["block"] = np.array(["a", "b", "c", "d"])[np.searchsorted([77, 141, 219], np.arange(300), "right")]
        frame["amount"] = rng.normal(size=300)
        assert not firsts(frame)

    def test_not_where_a_row_is_off(self) -> None:
        frame = invoices()[["invoice", "country", "amount"]]
        frame.loc[17, "country"] = "FR" if frame.country[17] != "FR" else "DE"
        assert not firsts(frame)
