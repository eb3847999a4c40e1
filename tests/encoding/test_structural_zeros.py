"""Cells of two columns that go together in no row: found, and kept apart by fills."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.selection import covering, first
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import SCHEMA_FORMAT, Schema
from vgi_cli.columns.structural_zeros import Part, StructuralZeros
from vgi_cli.encoding import structural_zeros
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import every_kept, kept_to_tell, kept_words
from vgi_cli.encoding.structural_zeros import _middle, meetings, possible
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

N = 3000


def clinic(seed: int = 0) -> pd.DataFrame:
    """No man is pregnant, and nobody from 45 on; who does not smoke has no cigarettes. Each column has holes."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["m", "f"], N)
    age = rng.integers(18, 80, N).astype(float)
    pregnant = np.where((sex == "f") & (age < 45) & (rng.random(N) < 0.8), "yes", "no")
    smoker = rng.choice(["yes", "no"], N)
    cigarettes = np.where(smoker == "yes", rng.integers(0, 40, N), 0).astype(float)
    weight = (60 + 12 * (sex == "m") + rng.normal(0, 8, N)).round(1)
    frame = pd.DataFrame(
        {"sex": sex, "age": age, "pregnant": pregnant, "smoker": smoker, "cigarettes": cigarettes, "weight": weight}
    )
    return frame.mask(rng.random(frame.shape) < 0.1)


def schema_of(frame: pd.DataFrame, encoding: Encoding = Encoding()) -> Schema:  # noqa: B008 - it is frozen
    return schema_alone(from_frame(frame), Said(encoding=encoding))


def words(schema: Schema) -> set[str]:
    return set(every_kept(schema))


def test_they_are_found_and_said() -> None:
    """Levels with levels, with values that pile up and those beyond, and with numbers beyond a limit."""
    frame = clinic()
    schema = schema_of(frame)
    assert words(schema) == {
        "'sex' = m never goes with 'pregnant' = yes",
        "'age' > 44 never goes with 'pregnant' = yes",
        "'smoker' = no never goes with 'cigarettes' > 0",
    }
    smoking = schema.structural_zeros[-1]
    codes = {level: float(i) for i, level in enumerate(schema.encoded[3].texts)}  # type: ignore[attr-defined]
    assert smoking.pairs == ((Part("at", codes["no"]), Part("above", 0.0)),)
    both = frame.dropna(subset=["smoker", "cigarettes"])
    assert len(smoking.seen) == 200 and set(smoking.seen) <= {
        (codes[a], b) for a, b in zip(both.smoker, both.cigarettes, strict=True)
    }
    (line,) = kept_words(schema)
    assert line.startswith("fills keep to what holds in every row: ")
    assert Schema.from_json(schema.to_json()).structural_zeros == schema.structural_zeros
    assert schema_of(frame, Encoding(relations="ignore")).structural_zeros == ()


def test_what_follows_from_relations_is_not_said_again() -> None:
    """A town says its country by way of its region: fills keep the cells apart, and no line repeats it."""
    rng = np.random.default_rng(5)
    town = rng.integers(0, 12, 900)
    frame = pd.DataFrame({"town": [f"T{i:02}" for i in town], "region": [f"R{i // 2}" for i in town]})
    frame["country"] = [f"C{i // 4}" for i in town]
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    schema = schema_of(frame)
    assert {one.names for one in schema.structural_zeros} == {("town", "country")}
    assert "'town' and 'country'" in " ".join(every_kept(schema))
    assert kept_to_tell(schema) == ["'region' follows from 'town'", "'country' follows from 'region'"]


@pytest.mark.parametrize("seeds", first(1, [range(8), range(8, 20)]))
def test_chance_is_none(seeds: range) -> None:
    """In columns that have nothing to do with each other one in 150 of what is found is there by chance at most."""
    found = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({f"c{i}": rng.choice(list("abcdef"), 200) for i in range(10)})
        frame["n"] = rng.normal(size=200)
        found += len(schema_of(frame.mask(rng.random(frame.shape) < 0.3)).structural_zeros)
    assert found == 0


def test_rare_cells_are_no_rule() -> None:
    """Who stays in a school, but for one in some hundred: of the moves that no row has, others have some. Where there
    are no such cells beside them, and nobody moves, they are a rule."""
    kept: dict[float, int] = {}
    for moves in (0.01, 0.0):
        kept[moves] = 0
        for seed in range(10):
            rng = np.random.default_rng(seed)
            before = rng.choice(list("abcd"), 1500, p=[0.4, 0.3, 0.2, 0.1])
            others = rng.choice(list("abcd"), 1500, p=[0.4, 0.3, 0.2, 0.1])
            after = np.where(rng.random(1500) < moves, others, before)
            mixed = np.where(after == "a", rng.choice(["b", "a"], 1500), after)  # not one to one
            frame = pd.DataFrame({"before": before, "after": mixed, "weight": rng.normal(size=1500)})
            kept[moves] += sum(len(zeros.pairs) for zeros in schema_of(frame).structural_zeros)
    assert kept[0.01] <= 6 and kept[0.0] == 10 * 11, kept


def houses(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """From five floors on each has a lift. Large ones have many rooms, but for a few; the lift is of no size."""
    floors, rooms = rng.integers(3, 9, rows).astype(float), (1 + rng.poisson(1.7, rows)).clip(max=7).astype(float)
    lift = np.where((floors >= 5) | (rng.random(rows) < 0.5), "y", "n")
    grade = rooms + rng.normal(0, 0.6, rows)
    size = np.select([grade < 1.8, grade < 3.4], ["small", "medium"], "large")
    frame = pd.DataFrame({"floors": floors, "lift": lift, "rooms": rooms, "size": size})
    return frame.mask(rng.random(frame.shape) < 0.1)


def test_rare_cells_of_other_columns_do_not_hide_a_rule() -> None:
    """Of four cells of the two columns that no row has, some would be in few rows were they rare."""
    for seed in range(6):
        frame = houses(np.random.default_rng(seed), 700)
        assert len(schema_of(frame[["floors", "lift"]]).structural_zeros[0].pairs) == 4, seed
        (rule,) = [one for one in schema_of(frame).structural_zeros if one.names == ("floors", "lift")]
        assert len(rule.pairs) == 4, seed


def test_columns_that_are_shuffled_have_no_rule() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = houses(rng, 700)
        shuffled = frame.assign(**{name: rng.permutation(frame[name]) for name in ("floors", "lift")})
        assert {one.names for one in schema_of(shuffled).structural_zeros} <= {("rooms", "size")}, seed


def test_a_pair_without_others_to_compare_it_with_needs_more_rows() -> None:
    """By chance 25 rows would have both, or 100: in the first case another table of as many rows may well have one."""
    rng = np.random.default_rng(0)
    for rows, found in ((1000, 0), (4000, 1)):
        sex = rng.choice(["m", "f"], rows)
        ill = np.where((sex == "f") & (rng.random(rows) < 0.1), "yes", "no")
        frame = pd.DataFrame({"sex": sex, "ill": ill, "weight": rng.normal(size=rows)})
        assert len(schema_of(frame).structural_zeros) == found


def test_rows_of_one_person_count_once() -> None:
    """Where the persons of visits are named: what they have in common by chance is no rule; what no visit has is."""
    rng = np.random.default_rng(4)
    person = np.repeat(np.arange(60), 20)
    sex, site = rng.choice(["m", "f"], 60)[person], rng.choice(list("abcdefghijklmnopqrst"), 60)[person]
    ward = np.where(sex == "m", rng.choice(["1", "2"], len(person)), rng.choice(["3", "4"], len(person)))
    frame = pd.DataFrame({"person": person.astype(str), "sex": sex, "site": site, "ward": np.char.add("w", ward)})
    by_rows = schema_alone(from_frame(frame.drop(columns="person")))
    assert any({"sex", "site"} == set(one.names) for one in by_rows.structural_zeros)
    named = infer_schema(from_frame(frame), ids=["person"])[0]
    assert not any("site" in one.names for one in named.structural_zeros)


@covering(pytest.mark.parametrize("rows", [150, 2000]), pytest.mark.parametrize("apart", [1.0, 3.0, 6.0]))
def test_tails_of_numbers_end_nowhere(apart: float, rows: int) -> None:
    """The numbers of a level have a least one, beyond which those of others lie: no limit where they grow rarer."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        level = rng.integers(0, 3, rows)
        for noise in (rng.normal(size=rows), -rng.exponential(size=rows)):
            frame = pd.DataFrame({"level": np.array(["a", "b", "c"])[level], "x": apart * level - noise})
            parts = {part for zeros in schema_of(frame).structural_zeros for pair in zeros.pairs for part in pair}
            sharp = {"below"} if (noise < 0).all() else set()  # where an exponential law begins
            assert {part.where for part in parts} - {"at"} <= sharp


def test_shares_that_fall_step_by_step_are_no_limit() -> None:
    """Retired or not, by age: the share rises, however steeply."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        age = rng.uniform(18, 90, 1000).round(1)
        retired = rng.random(1000) < 1 / (1 + np.exp(-rng.choice([0.3, 1.0]) * (age - 62)))
        frame = pd.DataFrame({"age": age, "retired": np.where(retired, "yes", "no")})
        assert schema_of(frame).structural_zeros == ()


def limits(frame: pd.DataFrame, number: str = "x") -> list[tuple[str, Part]]:
    """The levels of a frame that have a limit of a column of numbers, with what lies beyond it."""
    found = []
    schema = schema_of(frame)
    texts = {column.name: column.texts for column in schema.encoded if isinstance(column, Levelled)}
    for zeros in schema.structural_zeros:
        for pair in zeros.pairs:
            parts = dict(zip(zeros.names, pair, strict=True))
            if number in parts and parts[number].where != "at":
                (name,) = set(parts) - {number}
                found.append((texts[name][int(parts[name].code)], parts[number]))
    return found


def test_the_end_of_a_rounded_law_may_be_a_part_of_a_digit() -> None:
    """Whole numbers end where many cells are; of others the last digit may be one that hardly any cell rounds to."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 2, 6000)
    x = np.where(level == 0, rng.uniform(0, 4.95, 6000), rng.uniform(3, 8, 6000)).round(1)
    assert x[level == 0].max() == 4.9 and (x[level == 0] == 4.9).sum() > 40
    frame = pd.DataFrame({"level": np.array(["a", "b"])[level], "x": x})
    assert dict(limits(frame))["a"] == Part("above", 5.0)
    assert dict(limits(frame.assign(x=(10 * x).round())))["a"] == Part("above", 49.0)


@pytest.mark.parametrize("end", [66.6, 8.2])
def test_a_limit_is_a_number_that_the_column_can_write(end: float) -> None:
    """66.6 + 0.1 is 66.69999999999999, and 8.2 + 0.1 is 8.299999999999999."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 2, 3000)
    x = (end + np.where(level == 0, rng.uniform(-4.99, 0.04, 3000), rng.uniform(-2, 3, 3000))).round(1)
    frame = pd.DataFrame({"level": np.array(["a", "b"])[level], "x": x})
    assert dict(limits(frame))["a"] == Part("above", round(end + 0.1, 1))
    (line,) = words(schema_of(frame))
    assert f" a with 'x' > {end + 0.1:.1f} or" in line


@pytest.mark.parametrize("law", ["uniform", "exponential", "ages"])
def test_a_limit_lies_a_little_beyond_the_last_cell(law: str) -> None:
    """So that none of a hundred times as many rows of the same law breaks it, and not far."""

    def rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        level = rng.integers(0, 3, n)
        if law == "ages":
            return level, np.floor(18 + np.array([27.0, 40.0, 62.0])[level] * rng.random(n))
        return level, 2.0 * level + (rng.uniform(0, 4, n) if law == "uniform" else rng.exponential(1, n))

    count = 0
    for seed in range(6):
        level, x = rows(np.random.default_rng(seed), 1000)
        more, others = rows(np.random.default_rng([seed, 1]), 100_000)
        for text, part in limits(pd.DataFrame({"level": np.array(["a", "b", "c"])[level], "x": x})):
            own = "abc".index(text)
            assert not part.holds(others[more == own]).any()
            last = x[level == own].min() if part.where == "below" else x[level == own].max()
            assert abs(part.code - last) < 0.12 * np.ptp(x[level == own])
            count += 1
    assert count >= 8


def test_the_middle_of_ordered_numbers_is_that_of_their_quantiles() -> None:
    rng = np.random.default_rng(8)
    for n in (1, 2, 12, 13, 20, 21, 101, 400):
        own = np.sort(rng.normal(50, 20, n).round(1))
        assert _middle(own) == tuple(np.quantile(own, [0.05, 0.95]))


def test_heaps_of_a_level_end_nowhere() -> None:
    """Shops of three towns of a country: each town's lie about its middle, far from those of the others."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        level = rng.integers(0, 3, 600)
        x = 10.0 * level + rng.choice([0.0, 17.0, 37.0], 600) + rng.normal(0, 0.4, 600)
        assert limits(pd.DataFrame({"level": np.array(["a", "b", "c"])[level], "x": x})) == []


@pytest.mark.parametrize("kind", ["levels", "values", "follows"])
def test_numbers_of_groups_that_lie_far_apart_have_limits_on_both_sides(kind: str) -> None:
    """Parts of three sizes, or harvests of three years (as numbers; the year may follow from the date): the limit lies
    as far beyond the last number as these are from each other."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 3, 300)
    if kind == "levels":
        x = np.array([40.0, 400.0, 4000.0])[which] + rng.normal(0, 3, 300)
        frame = pd.DataFrame({"part": np.array(["A", "B", "C"])[which], "x": x.round(2)})
        found = sorted(limits(frame), key=lambda one: (one[0], one[1].code))
        assert [(level, part.where) for level, part in found] == [
            (level, where) for level in "ABC" for where in ("below", "above")
        ]
        for level, part in found:
            own = frame.x[frame.part == level]
            width = own.max() - own.min()
            beyond = own.min() - part.code if part.where == "below" else part.code - own.max()
            assert width <= beyond <= 1.5 * width
        return
    day = pd.to_datetime(np.array(["2021-08-01", "2022-08-01", "2023-08-01"])[which])
    day = day + pd.to_timedelta(rng.integers(-10, 11, 300), unit="D")
    year = np.where(rng.random(300) < 0.2, np.nan, day.year) if kind == "follows" else 7.0 + which
    frame = pd.DataFrame({"year": year, "day": day.strftime("%Y-%m-%d")})
    (zeros,) = schema_of(frame).structural_zeros
    assert zeros.names == ("year", "day") and len(zeros.pairs) == 6
    near = frame.assign(day=(day + pd.to_timedelta(rng.integers(-60, 61, 300), unit="D")).strftime("%Y-%m-%d"))
    assert schema_of(near).structural_zeros == ()


def test_rows_that_follow_each_other_say_nothing_of_a_limit() -> None:
    """Counters of four devices, in blocks, mixed by time, and in any order with their times; where the same numbers
    come in any order without times, as far as a table can say, they are independent."""
    rng = np.random.default_rng(0)
    device = np.repeat(np.arange(4), 300)
    counter = np.concatenate([start + rng.poisson(30, 300).cumsum() for start in (1000, 8000, 14000, 30000)])
    hour = np.tile(np.arange(300), 4)
    frame = pd.DataFrame({"device": np.array(list("abcd"))[device], "x": counter})
    assert limits(frame) == []
    assert limits(frame.iloc[np.argsort(hour, kind="stable")]) == []
    some = rng.permutation(len(frame))
    assert len(limits(frame.iloc[some])) == 6
    timed = frame.assign(when=pd.Timestamp("2024-03-01") + pd.to_timedelta(hour, unit="h"))
    assert limits(timed.iloc[some]) == []


def test_a_table_that_is_sorted_by_its_numbers_is_no_log() -> None:
    rng = np.random.default_rng(0)
    level = rng.integers(0, 2, 1200)
    x = np.where(level == 0, rng.uniform(0, 6, 1200), rng.uniform(4, 10, 1200))
    frame = pd.DataFrame({"level": np.array(["a", "b"])[level], "x": x})
    assert len(limits(frame)) == len(limits(frame.sort_values("x"))) == 2


def test_rows_of_one_group_count_once_where_a_column_names_it() -> None:
    """150 persons with five rows each and numbers of their own: neither their numbers, nor what they have in common,
    are said of their regions."""
    rng = np.random.default_rng(1)
    person = rng.permutation(np.repeat(np.arange(150), 5))
    region, kind = rng.choice(["n", "s", "e"], 150), rng.choice(list("abcdefghijklmno"), 150)
    region[140:], region[:3] = "e", ["n", "s", "e"]
    frame = pd.DataFrame({"region": region[person], "kind": kind[person], "y": rng.normal(size=750)})
    assert schema_of(frame.assign(x=2000 + person)).structural_zeros == ()
    rng = np.random.default_rng(0)
    person = rng.permutation(np.repeat(np.arange(60), 15))
    region, kind = rng.choice(["n", "s", "e"], 60), rng.choice(list("abcdef"), 60)
    frame = pd.DataFrame({"region": region[person], "kind": kind[person], "y": rng.normal(size=900)})
    schema = schema_of(frame)
    assert any(zeros.names == ("region", "kind") for zeros in schema.structural_zeros)
    assert schema_of(frame.assign(x=2000 + person)).structural_zeros == ()
    whole = pd.DataFrame({"region": rng.choice(["n", "s", "e"], 1500), "x": rng.uniform(0, 150, 1500)})
    whole.loc[(whole.x > 120) & (whole.region == "n"), "region"] = "s"
    assert [text for text, _ in limits(whole)] == ["n"]


def test_a_number_beyond_a_limit_comes_within_it() -> None:
    """By as much as it was drawn beyond; where that is beyond all that was seen, to the limit. A level is drawn among
    those with the nearest numbers."""
    rng = np.random.default_rng(2)
    level = rng.integers(0, 3, 2400)
    x = (np.array([0.0, 100.0, 200.0])[level] + rng.uniform(0, 150, 2400)).round(1)
    frame = pd.DataFrame({"level": np.array(["a", "b", "c"])[level], "x": x})
    schema = schema_of(frame)
    parts = dict(limits(frame))
    end = parts["a"].code
    codes = {text: float(i) for i, text in enumerate(schema.encoded[0].texts)}  # type: ignore[attr-defined]
    draws = np.array([[[codes["a"], end + 20], [codes["a"], end + 200], [codes["c"], 10.0]]])
    missing = np.array([[False, True], [False, True], [True, False]])
    keep_relations(draws, draws[0].copy(), missing, schema, uniform=lambda name: np.full((1, 3), 0.9))
    assert draws[0, 0, 1] == pytest.approx(end - 20) and draws[0, 1, 1] == pytest.approx(end)
    assert draws[0, 2, 0] == codes["a"]


def test_several_pairs_are_said_in_one_line() -> None:
    a, b, c = Part("at", 0.0), Part("below", 2.0), Part("at", 3.0)
    zeros = StructuralZeros(("sex", "age"), ((a, b), (a, c)), ((1.0, 1.0),))
    assert zeros.words([("m", "2"), ("m", "3")]) == "'sex' and 'age' never go together as m with 'age' < 2 or m with 3"
    several = StructuralZeros(("sex", "age"), ((a, b), (a, c), (c, c), (c, a), (b, a)), ((1.0, 1.0),))
    assert several.words([("m", "2"), ("m", "3"), ("f", "3")]) == (
        "'sex' and 'age' never go together as m with 'age' < 2, m with 3, f with 3 or in 2 other ways"
    )
    assert zeros.single()[0].words([("m", "2")]) == "'sex' = m never goes with 'age' < 2"
    np.testing.assert_array_equal(zeros.excludes(np.array([0, 0, 0, 1]), np.array([1, 2, 3, 1])), [1, 0, 1, 0])


def test_values_in_an_order_are_left_to_the_model() -> None:
    """Two scales that go together closely meet at their far ends in no row."""
    rng = np.random.default_rng(0)
    a = rng.integers(1, 11, 5000)
    frame = pd.DataFrame({"a": a, "b": np.clip(a + rng.integers(-2, 3, 5000), 1, 10)})
    assert schema_of(frame).structural_zeros == ()


def test_what_a_relation_or_an_order_says_is_not_said_again() -> None:
    rng = np.random.default_rng(1)
    town = rng.choice(["kiel", "bonn", "jena", "ulm"], N)
    state = pd.Series(town).map({"kiel": "sh", "bonn": "nw", "jena": "th", "ulm": "bw"})
    schema = schema_of(pd.DataFrame({"town": town, "state": state}).mask(rng.random((N, 2)) < 0.1))
    assert schema.relations and not schema.structural_zeros


def test_which_rows_are_possible() -> None:
    frame = clinic()
    schema = schema_of(frame)
    (sex, pregnant) = (schema.encoded[0], schema.encoded[2])
    m, yes = sex.texts.index("m"), pregnant.texts.index("yes")  # type: ignore[attr-defined]
    rows = {"sex": m, "pregnant": yes}
    x = np.zeros((1, 3, schema.layout.D))
    for name, code in rows.items():
        x[..., schema.layout.slices[schema.modelled.index(name)].start] = code
    missing = np.zeros((3, schema.layout.D), bool)
    missing[1, schema.layout.slices[0].start] = True
    missing[2, schema.layout.slices[2].start] = True
    age = schema.layout.slices[1]
    x[..., age] = schema.encoded[1].encode(np.array([30.0]), None)
    smoker = schema.layout.slices[3].start
    x[..., smoker] = schema.encoded[3].texts.index("no")  # type: ignore[attr-defined]
    x[..., schema.layout.slices[4].start] = 1.0  # on the pile
    np.testing.assert_array_equal(possible(x, missing, schema), [[True, False, False]])


def test_fills_keep_to_them() -> None:
    """Where the sampler does not: another cell of those seen beside the other one. What is observed stays, and so does
    a row whose observed cells say it."""
    frame = clinic(1)
    schema = schema_of(frame)
    rng = np.random.default_rng(1)
    missing = frame.isna().to_numpy()
    codes = np.stack([column.codes(from_frame(frame).column(column.name)) for column in schema.encoded], 1)
    any_row = np.stack([rng.choice(codes[~np.isnan(codes[:, j]), j], (10, N)) for j in range(6)], -1)
    draws = np.where(missing, any_row, codes)
    before = draws.copy()
    uniform = rng.random((10, N))
    wrong = np.zeros((10, N), bool)
    for one in schema.structural_zeros:
        a, b = (schema.modelled.index(name) for name in one.names)
        wrong |= one.excludes(draws[..., a], draws[..., b])
    assert wrong.sum() > 1000
    assert keep_relations(draws, codes, missing, schema, uniform=lambda name: uniform).count() == 0
    for one in schema.structural_zeros:
        a, b = (schema.modelled.index(name) for name in one.names)
        assert not one.excludes(draws[..., a], draws[..., b]).any()
    np.testing.assert_array_equal(draws[~wrong], before[~wrong])
    np.testing.assert_array_equal(draws[:, ~missing], before[:, ~missing])


def test_what_is_seen_beside_a_code_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for every cell: the fills of a large table are of the same few codes."""
    frame = clinic()
    schema = schema_of(frame)
    asked: list[tuple[int, float]] = []
    beside = structural_zeros._beside

    def counted(one: StructuralZeros, seen: Floats, place: int, code: float) -> Floats:
        asked.append((place, code))
        return beside(one, seen, place, code)

    monkeypatch.setattr(structural_zeros, "_beside", counted)
    (rule,) = (one for one in schema.structural_zeros if one.names == ("sex", "pregnant"))
    sex, pregnant = (schema.modelled.index(name) for name in rule.names)
    draws = np.zeros((2, 500, len(schema.modelled)))
    draws[..., [sex, pregnant]] = [part.code for part in rule.pairs[0]]
    missing = np.zeros(draws.shape[1:], bool)
    missing[:, sex] = True
    alone = replace(schema, structural_zeros=(rule,))
    u = np.random.default_rng(0).random(draws.shape[:2])
    assert structural_zeros.keep_structural_zeros(draws, missing, alone, lambda name: u).count() == 0
    assert not rule.excludes(draws[..., sex], draws[..., pregnant]).any()
    assert asked == [(1, rule.pairs[0][1].code)]


def test_a_new_table_that_breaks_them_is_told() -> None:
    frame = clinic()
    schema = schema_of(frame)
    new = frame.dropna().head(50).reset_index(drop=True)
    new.loc[:2, "sex"], new.loc[:2, "pregnant"] = "m", "yes"
    new.loc[:2, "age"] = 30.0
    table = from_frame(new)
    assert sum(meetings(table, schema)) == 3
    notes = check(table, schema)
    expected = "'sex' = m never goes with 'pregnant' = yes in every row of the fit; 3 rows of"
    assert any(note.startswith(expected) and note.endswith("fills keep to it all the same") for note in notes)


def test_damaged_ones_are_refused() -> None:
    raw = json.loads(schema_of(clinic()).to_json())
    raw["structural_zeros"][0]["names"] = ["sex", "height"]
    with pytest.raises(RunError, match="structural zeros do not fit the columns"):
        Schema.from_json(json.dumps(raw))
    raw["structural_zeros"][0]["names"] = ["sex", "sex"]
    with pytest.raises(RunError, match="structural zeros are of two columns"):
        Schema.from_json(json.dumps(raw))
    with pytest.raises(ValueError, match="are of two columns"):
        StructuralZeros(("a", "b"), (), ((0.0, 1.0),))


def test_schemas_without_them_are_read() -> None:
    raw = json.loads(schema_of(clinic()).to_json())
    del raw["structural_zeros"]
    raw["format"] = 8
    schema = Schema.from_json(json.dumps(raw))
    assert schema.structural_zeros == () and schema.format == SCHEMA_FORMAT == 10


def test_limits_are_found_where_the_number_decides_the_level() -> None:
    """Who is 18 to 64 works, and nobody else: no band, as the others lie on both sides."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, 90, 3_000)
    frame = pd.DataFrame({"age": age, "status": np.where((age >= 18) & (age < 65), "work", "none")})
    schema = schema_of(frame.assign(x=rng.normal(size=3_000).round(2)))
    assert {pair[0].where for one in schema.structural_zeros for pair in one.pairs} >= {"below", "above"}


def matches(rows: int, teams: int, seed: int = 0, equal: bool = False) -> pd.DataFrame:
    """Who plays at home, and away: never the same team, unless it is `equal`, by chance."""
    rng = np.random.default_rng(seed)
    names = np.array([f"Team {i}" for i in range(teams)])
    home = rng.integers(0, teams, rows)
    away = rng.integers(0, teams, rows) if equal else (home + rng.integers(1, teams, rows)) % teams
    frame = pd.DataFrame({"home": names[home], "away": names[away], "goals": rng.poisson(2.6, rows).astype(float)})
    return frame.mask(rng.random(frame.shape) < 0.15)


@pytest.mark.parametrize(("rows", "teams"), [(150, 12), (400, 20), (100, 4)])
def test_two_columns_that_are_never_equal(rows: int, teams: int) -> None:
    """Each team plays too seldom to tell by itself; fills keep to it, of teams that never play at home too."""
    frame = matches(rows, teams)
    schema = schema_of(frame)
    assert words(schema) == {"'home' and 'away' are never equal"}
    (own,) = schema.structural_zeros
    assert len(own.pairs) == teams and all(a == b for a, b in own.pairs)
    rng = np.random.default_rng(1)
    draws = np.stack([rng.integers(0, teams, (20, rows)), rng.integers(0, teams, (20, rows)), np.ones((20, rows))], 2)
    missing = np.zeros((rows, 3), bool)
    missing[:, 1] = True
    draws = draws.astype(float)
    kept = structural_zeros.keep_structural_zeros(draws, missing, schema, lambda name: rng.random((20, rows)))
    assert kept.count() == 0 and (draws[..., 0] != draws[..., 1]).all()


def test_columns_that_are_equal_by_chance_or_may_be_are_no_rule() -> None:
    for seed in range(5):
        assert not words(schema_of(matches(400, 20, seed, equal=True)))
        assert not words(schema_of(matches(40, 20, seed)))  # two rows would be equal by chance


def test_columns_that_are_equal_in_rows_without_numbers_are_no_rule() -> None:
    """One row with the same level in both is enough against it."""
    frame = matches(400, 20)
    frame.loc[7, ["home", "away"]] = "Team 3"
    assert not words(schema_of(frame))


def test_persons_with_many_rows_who_are_never_equal_count_once() -> None:
    """Sixteen couples: who lives in which of two towns never changes."""
    rng = np.random.default_rng(3)
    couple = np.repeat(np.arange(16), 40)
    towns = np.array(["A", "B", "C", "D"])
    own = rng.integers(0, 4, 16)
    other = (own + rng.integers(1, 4, 16)) % 4
    frame = pd.DataFrame(
        {
            "couple": [f"couple {i}" for i in couple],
            "born": towns[own[couple]],
            "lives": towns[other[couple]],
            "hours": rng.normal(0, 1, len(couple)).round(2),
        }
    )
    assert not any("never" in line for line in words(schema_of(frame)))


def heap_apart(low: float, high: float, others: Floats, seed: int = 0) -> pd.DataFrame:
    """A level whose numbers all lie far from those of the other one."""
    rng = np.random.default_rng(seed)
    numbers = np.r_[rng.uniform(low, high, 60), others].round(2)
    return pd.DataFrame({"level": ["a"] * 60 + ["b"] * len(others), "v": numbers, "x": rng.normal(size=len(numbers))})


def test_numbers_that_the_column_never_has_go_with_nothing() -> None:
    """Below zero, of what is never negative: a level's heap at the end of all numbers has one limit."""
    others = np.maximum(np.random.default_rng(0).lognormal(2.2, 0.4, 440), 2.2)
    for own in ((0.2, 0.8), (0.01, 0.6), (0.0, 0.5)):
        schema = schema_of(heap_apart(*own, others))
        (one,) = schema.structural_zeros
        ((_, part),) = one.pairs
        assert part.where == "above" and 0.5 < part.code < 2.2
        assert any(f"'level' = a never goes with 'v' > {part.code:g}" in line for line in every_kept(schema))


def test_numbers_beyond_all_observed_ones_are_kept_from_a_far_level_without_a_word() -> None:
    """Of a column without an end fills of a level stay near its own numbers on either side."""
    schema = schema_of(heap_apart(-9, -8, np.random.default_rng(0).normal(size=440)))
    (one,) = schema.structural_zeros
    assert [part.where for _, part in one.pairs] == ["above", "below"]
    assert one.pairs[1][1].code < -9
    assert "'level' = a never goes with 'v' > -7" in every_kept(schema)
    assert not any("'v' <" in line for line in every_kept(schema))
