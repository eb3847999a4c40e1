"""Columns that name groups of rows, and are carried or taken for quantities: what is said of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.selection import first
from tests.table.helpers import from_text
from vgi_cli.columns.wording import Alarm
from vgi_cli.encoding.groups import Alike, Ranked, alike, analyses, isotonic, repeated, von_neumann
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.table.base import Table
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table


def table(**columns: Sequence[object] | np.ndarray) -> Table:
    return from_text(pd.DataFrame(columns).round(4).to_csv(index=False))


def said_of(table: Table, **asked: object) -> list[str]:
    schema, notes = infer_schema(table, **asked)  # type: ignore[arg-type]
    lines = repeated(Ranked(table, schema, asked.get("kinds", ())))  # type: ignore[arg-type]
    assert set(lines) <= set(notes)
    return lines


def clinics(groups: int, rows: int, icc: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The group of each row, and a number that rows of one group have in common."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), rows)
    return group, math.sqrt(icc / (1 - icc)) * rng.normal(size=groups)[group] + rng.normal(size=len(group))


def test_texts_that_name_groups_of_rows_are_said() -> None:
    rng = np.random.default_rng(0)
    person, size = [f"p{i // 3}" for i in range(60)], rng.normal(size=60)
    [line] = said_of(table(person=person, size=size))
    assert line == (
        "column 'person' names 20 groups of 3 rows each on average: what rows of one group have in common is not "
        "modelled, each is filled as if by itself (`--id person` if it is a key); `--column person=categorical` models "
        "it"
    )
    assert not isinstance(line, Alarm)
    assert not said_of(table(person=person, size=size), exclude=["person"])
    uneven = [f"p{min(i, 19) if i < 40 else 0}" for i in range(60)]
    assert not said_of(table(person=uneven, size=size))


def test_texts_whose_groups_are_alike_are_said_with_the_column() -> None:
    group, y = clinics(60, 5, 0.4)
    x = np.random.default_rng(1).normal(size=len(y))
    [line] = said_of(table(site=[f"s{i}" for i in group], x=x, y=y))
    assert isinstance(line, Alarm) and line.startswith(
        "column 'site' names 60 groups of 5 rows each on average: rows of one are alike in 'y' (intraclass correlation "
    )
    assert line.endswith("`--column site=categorical` models it")
    near = said_of(table(site=[f"s{i}" for i in group], y=y, town=100 * group + np.arange(len(y)) % 2, x=x))
    assert any("'site' names 60" in line and "alike in 'y'" in line for line in near)  # it all but decides the town
    uneven = np.sort(np.random.default_rng(2).integers(0, 150, 900) ** 2 // 150)
    y = clinics(150, 1, 0.6)[1][uneven] + 0.3 * np.random.default_rng(3).normal(size=900)
    assert "are alike in 'y'" in said_of(table(site=[f"s{i}" for i in uneven], y=y))[0]
    group, y = clinics(300, 4, 0.4)
    many = said_of(table(site=[f"s{i}" for i in group], y=y))[0]
    assert many.endswith("; a table with one row for each group and its cells side by side keeps it")


def test_measurements_in_texts_name_no_groups() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    y = z + rng.normal(size=300)
    number = [round(120 + 10 * x) for x in z]
    for cells in (
        [f"{x}/{round(80 + 6 * a)}" for x, a in zip(number, z, strict=True)],
        [f"PT{x}M" for x in number],
        [f"{sign}{x}" for x, sign in zip(number, rng.choice(["$", "€"], 300), strict=True)],
        [f"{x} {unit}" for x, unit in zip(number, rng.choice(["g", "kg"], 300), strict=True)],
        [chr(0x661) + "".join(chr(0x660 + int(digit)) for digit in str(x)) for x in number],
    ):
        of = table(cell=cells, y=y)
        schema, _ = infer_schema(of, kinds={"cell": "carry"})
        assert not repeated(Ranked(of, schema)), cells[0]
    for cells in ([f"s{x}" for x in number], [f"0{x}" for x in number], [f"{x}{'ABCD'[x % 4]}" for x in number]):
        of = table(cell=cells, y=y)
        schema, _ = infer_schema(of, kinds={"cell": "carry"})
        assert "are alike in 'y'" in repeated(Ranked(of, schema))[0]
    group, y = clinics(60, 5, 0.4)
    assert "names 60 groups" in said_of(table(room=[f"{i // 9 + 1}/{i % 9 + 1}" for i in group], y=y))[0]


@pytest.mark.parametrize(("groups", "rows"), [(30, 10), (80, 4), (250, 4)])
def test_numbers_that_work_like_names_are_said(groups: int, rows: int) -> None:
    group, y = clinics(groups, rows, 0.45)
    x = np.random.default_rng(1).normal(size=len(y))
    [line] = said_of(table(nummer=1001 + group, x=x, y=y))
    assert isinstance(line, Alarm) and line.startswith(
        "column 'nummer' is modelled as a quantity, but its numbers work like names: rows of one are alike in 'y' "
        "(intraclass correlation 0."
    )
    models = "`--column nummer=categorical` models what rows of one have in common"
    assert line.endswith(models if groups <= 200 else "`--id nummer` carries it")
    assert not said_of(table(nummer=1001 + group, x=x, y=y), kinds={"nummer": "integer"})
    assert not said_of(table(nummer=1001 + group, x=x, y=x[::-1].copy()))


def numbered(table: Table) -> set[str]:
    """The columns whose numbers are said to work like names."""
    return set(Ranked(table, schema_alone(table)).numbered)


@pytest.mark.parametrize("order", ["sorted", "mixed"])
@pytest.mark.parametrize("seed", range(3))
def test_a_quantity_that_is_the_same_in_all_rows_of_a_subject_is_no_name(seed: int, order: str) -> None:
    """The age of each patient: rows of one age are alike since those of a patient are."""
    rng = np.random.default_rng(seed)
    patient, y = clinics(90, 5, 0.7, seed)
    age = np.round(20 + 50 * rng.random(90) ** 1.5).astype(int)[patient]
    frame = pd.DataFrame({"person": 1 + patient, "age": age, "y": y, "x": rng.normal(size=len(y))})
    if order == "mixed":
        frame = frame.sample(frac=1, random_state=seed)
    assert numbered(table(**frame)) == {"person"}
    text = frame.assign(person=[f"p{i}" for i in frame["person"]])
    assert numbered(table(**text)) == set()
    if order == "sorted":  # the rows of a patient follow each other, and nothing else names him
        assert numbered(table(**frame.drop(columns="person"))) == set()


def test_numbers_of_districts_are_names_beside_those_of_their_schools() -> None:
    rng = np.random.default_rng(4)
    school = np.repeat(np.arange(120), 5)
    district = rng.permutation(np.repeat(np.arange(20), 6))[school]
    y = rng.normal(size=20)[district] + rng.normal(size=120)[school] + rng.normal(size=600)
    frame = {"district": 3 + 7 * district, "school": 1 + school, "y": y}
    assert numbered(table(**frame)) == {"district", "school"}


def test_what_rows_of_a_value_that_piles_up_have_in_common_is_no_evidence_of_names() -> None:
    rng = np.random.default_rng(0)
    time = np.where(rng.random(500) < 0.3, 150, rng.integers(0, 150, 500))  # followed up to the end
    ended = ((time < 150) & (rng.random(500) < 0.85)).astype(int)
    assert numbered(table(time=time, ended=ended)) == set()
    subject, y = clinics(30, 6, 0.6)
    more = np.insert(np.where(subject < 12, subject, subject + 1), 72, np.full(90, 12))
    assert numbered(table(nr=1 + more, y=np.insert(y, 72, rng.normal(size=90)))) == {"nr"}


def test_numbers_along_which_another_column_follows_a_curve_are_no_names() -> None:
    """Days of measurement, which differ between two years: the plants grow along them."""
    rng = np.random.default_rng(1)
    day = np.concatenate([np.arange(14, 84, 6), np.arange(16, 84, 7)])
    late = (np.arange(len(day)) >= 12).astype(int)
    at = np.tile(np.arange(len(day)), 16)
    flip = rng.random(len(at)) < 0.02
    size = (np.exp(day[at] / 30) * np.exp(0.5 * rng.normal(size=len(at)))).round(2)
    frame = {"day": day[at], "late": late[at] ^ flip, "size": size}
    assert numbered(table(**frame)) == set()
    assert numbered(table(day=day[at], late=late[at] ^ flip)) == {"day"}


@pytest.mark.parametrize(("share", "said"), [(0.12, True), (0.25, True), (0.4, False)])
def test_numbers_of_which_a_quarter_is_missing_are_names_too(share: float, said: bool) -> None:
    group, y = clinics(60, 6, 0.5)
    firm = pd.Series(1001 + group).mask(np.random.default_rng(2).random(len(y)) < share).astype("Int64")
    assert numbered(table(firma=firm, y=y)) == ({"firma"} if said else set())


def test_numbers_that_count_the_patients_of_each_centre_are_names() -> None:
    centre, patient = np.repeat([1, 2], 5 * 40), np.tile(np.repeat(np.arange(1, 41), 5), 2)
    y = np.random.default_rng(0).normal(size=80)[np.repeat(np.arange(80), 5)]
    y = y + 0.3 * np.random.default_rng(1).normal(size=400)
    assert "nr" in numbered(table(centre=centre, nr=patient, y=y))


def test_numbers_that_work_like_names_are_no_scale() -> None:
    group, y = clinics(10, 40, 0.6)
    found = infer_schema(table(nummer=group + 1, y=y))[1]
    assert any("column 'nummer' is modelled as a quantity, but its numbers work like names" in line for line in found)
    assert not any("even steps" in line for line in found)
    found = infer_schema(table(nummer=group + 1, y=np.random.default_rng(1).normal(size=len(y))))[1]
    assert any("column 'nummer' of few whole numbers is modelled as a quantity, as suits a scale" in x for x in found)


def test_codes_that_name_groups_have_one_advice() -> None:
    """A line that tells to carry a postcode, and one that tells to take it for categories, stood side by side."""
    group, y = clinics(60, 8, 0.5)
    lines = [line for line in infer_schema(table(postcode=10_115 + 7 * group, y=y))[1] if "postcode" in line]
    assert len(lines) == 1 and "its numbers work like names" in lines[0]
    apart = infer_schema(table(postcode=10_115 + 7 * group, y=np.random.default_rng(0).normal(size=480)))[1]
    assert any("'postcode' has the name of a code" in line and "postcode=carry" in line for line in apart)


def test_less_evidence_is_enough_of_groups_whose_rows_follow_each_other() -> None:
    group, y = clinics(40, 5, 0.2, seed=8)  # p = 0.009
    mixed = np.random.default_rng(0).permutation(len(y))
    assert "work like names" in said_of(table(number=group, y=y))[0]
    assert not said_of(table(number=group[mixed], y=y[mixed]))


def test_quantities_are_not_taken_for_names() -> None:
    """Whole numbers that decide another column along a curve, evenly and unevenly spread, with many rows for each."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        even, count = rng.integers(20, 60, 1200), rng.poisson(15, 1200)
        u, v = (even - 40) / 12, (count - 15) / 4
        curve = np.sin(2 * u + seed) + v**2 + rng.normal(size=1200)
        assert not said_of(table(age=even, visits=count, y=curve)), seed


def test_few_whole_numbers_that_work_like_codes_are_said() -> None:
    rng = np.random.default_rng(0)
    region, noise = rng.integers(1, 6, 300), rng.normal(size=300)
    effect = np.array([0.0, 0.0, 1.5, -1.5, 0.0, 1.5])[region]
    line = (
        "column 'region' is modelled as a quantity, but its numbers work like codes: the means of 'y' by them follow "
        "no curve: `--column region=categorical` models levels without an order"
    )
    for y in (effect + noise, (effect + noise > 0).astype(int)):
        of = table(region=region, y=y, x=rng.normal(size=300))
        assert said_of(of) == [line] and isinstance(said_of(of)[0], Alarm)
        assert not any("scale" in note for note in infer_schema(of)[1])
        assert not said_of(of, kinds={"region": "integer"})
    for y in (region + noise, (region - 3) ** 2 + noise, np.exp(region / 2) + noise, noise):
        of = table(region=region, y=y)
        assert not said_of(of) and any("as suits a scale" in note for note in infer_schema(of)[1])


def test_what_a_parabola_leaves_is_the_test_of_lack_of_fit() -> None:
    """An F test of two linear models, as by regression on indicators and on a parabola."""
    from scipy.stats import f as fisher

    rng = np.random.default_rng(3)
    group, y = rng.integers(0, 6, 200), rng.normal(size=200)
    y += np.array([0.0, 0.6, -0.5, 0.2, 0.9, 0.0])[group]
    of = table(a=[f"s{i}" for i in group], y=y)
    [found] = analyses(Ranked(of, schema_alone(of)), "a", group)
    ranks = pd.Series(y).round(4).rank(method="min") - 1
    one_hot, curve = np.eye(6)[group], np.vander(group, 3)
    full, less = (np.square(ranks - m @ np.linalg.lstsq(m, ranks, rcond=None)[0]).sum() for m in (one_hot, curve))
    off, share, p = found.off_curve()
    between = np.square(ranks - ranks.mean()).sum()
    assert share == pytest.approx((less - full) / between) and off == pytest.approx((less - full) / (between - full))
    assert p == pytest.approx(fisher.sf((less - full) / 3 / (full / 194), 3, 194))


@pytest.mark.parametrize("seeds", first(1, [range(4), range(4, 10)]))
def test_steps_are_no_codes(seeds: range) -> None:
    """Means that only go up or only down, by a step; and whether both teams scored by the goals of one: never where it
    has none, and the less often the more it has. Numbers from 0 that go up and down are codes."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        goals, grade = rng.poisson(1.2, 300).clip(max=6), rng.integers(1, 10, 300)
        both = (goals > 0) & (rng.random(300) < 1 - 0.17 * goals)
        passed = (grade == 9) & (rng.random(300) < 0.9)
        for y in (both, ~both):
            assert not said_of(table(goals=goals, y=y.astype(int), x=rng.normal(size=300))), seed
        for y in (passed, ~passed):
            assert not said_of(table(grade=grade, y=y.astype(int), x=rng.normal(size=300))), seed
        region = rng.integers(0, 6, 300)
        y = np.array([0.0, 1.5, -1.5, 0.0, 1.5, -1.5])[region] + rng.normal(size=300)
        assert len(said_of(table(region=region, y=y))) == 1, seed


def test_means_are_fitted_by_ones_that_do_not_go_down() -> None:
    """By least squares, as scipy does; an F test of what they leave says so of means in both directions."""
    from scipy.optimize import isotonic_regression

    rng = np.random.default_rng(0)
    for groups in (1, 2, 5, 9):
        means, counts = rng.normal(size=groups), rng.integers(1, 30, groups)
        assert isotonic(means, counts) == pytest.approx(isotonic_regression(means, weights=counts).x)
    counts = np.array([20, 0, 10, 40])
    for means in ([1.0, np.nan, 1.0, 4.0], [4.0, np.nan, 2.0, 2.0]):
        assert Alike("y", np.array(means), counts, 3.0, 1.0).off_monotone() == (0.0, 0.0, 1.0)
    off, share, p = Alike("y", np.array([0.0, np.nan, 3.0, 0.0]), counts, 77.1, 1.0).off_monotone()
    assert off == pytest.approx(60 / 77.1) and share == pytest.approx(60 / (77.1 + 67)) and p < 1e-9


def test_names_of_groups_are_said_without_evidence() -> None:
    rng = np.random.default_rng(0)
    patient, y = np.repeat(np.arange(20), 4), rng.normal(size=80)
    for name in ("patient", "PatientID", "site_no", "clinic"):
        [line] = said_of(table(**{name: patient, "y": y}))
        assert not isinstance(line, Alarm) and line == (
            f"column '{name}' is modelled as a quantity, but its name is one of groups of rows: "
            f"`--column {name}=categorical` models what rows of one have in common"
        )
    for name in ("patience", "visits", "sitea"):
        assert not said_of(table(**{name: patient, "y": y}))
    assert not said_of(table(patient=np.arange(80), y=y)) and not said_of(table(patient=patient % 5, y=y))


def test_the_analysis_of_variance_is_that_of_scipy() -> None:
    from scipy.stats import f_oneway, rankdata

    group, y = clinics(12, 9, 0.3, seed=5)
    of = table(a=[f"s{i}" for i in group], y=y)
    schema = schema_alone(of)
    found = alike(Ranked(of, schema), "a", group.astype(np.int64), 1.0)
    ranks = rankdata(y)
    expected = f_oneway(*(ranks[group == i] for i in range(12)))
    assert isinstance(found, Alike) and found.name == "y"
    assert found.ratio == pytest.approx(expected.statistic)
    assert found.icc == pytest.approx((expected.statistic - 1) / (expected.statistic - 1 + 9))
    assert alike(Ranked(of, schema), "a", group.astype(np.int64), float(expected.pvalue) * 0.99) is None
    assert alike(Ranked(of, schema), "a", group.astype(np.int64), float(expected.pvalue) * 1.01) is not None
    assert alike(Ranked(of, schema), "a", np.arange(len(y)), 1.0) is None  # no row shares a group


def test_von_neumanns_ratio() -> None:
    rng = np.random.default_rng(0)
    assert von_neumann(rng.normal(size=4000)) == pytest.approx(1.0, abs=0.05)
    assert von_neumann(np.sin(np.linspace(0, 6, 100))) < 0.01 and von_neumann(np.ones(5)) == 0.0


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_that_share_their_ids_are_said(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame(
        {"id": np.repeat(np.arange(10), 4), "of": ["a", "b"] * 20, "y": np.random.default_rng(1).normal(size=40)}
    )
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    said = [line for line in infer_schema(read_table([str(path)]), ids=["id"])[1] if "have 10 different values" in line]
    assert len(said) == 1 and said[0].startswith(
        "40 rows have 10 different values of column 'id' (--id): what rows of one have in common is not modelled, each "
    )
    both = infer_schema(read_table([str(path)]), ids=["id", "of"])[1]
    assert any("have 20 different values of columns 'id', 'of' (--id)" in line for line in both)
    frame["id"] = np.arange(40)
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    assert not any("different values" in line for line in infer_schema(read_table([str(path)]), ids=["id"])[1])


def test_rows_that_share_one_of_several_ids_are_said() -> None:
    def ids(*names: str, **columns: Sequence[object] | np.ndarray) -> list[str]:
        frame = {**columns, "y": np.random.default_rng(1).normal(size=len(columns[names[0]]))}
        return [line for line in said_of(table(**frame), ids=names) if "different values" in line]

    firm, year = np.repeat(np.arange(30), 6), np.tile(np.arange(2010, 2016), 30)
    alone = ids("firm", firm=firm)
    assert len(alone) == 1 and "180 rows have 30 different values of column 'firm' (--id): what rows" in alone[0]
    assert ids("firm", "year", firm=firm, year=year) == alone
    assert ids("year", "firm", firm=firm, year=year) == alone
    study, number = np.repeat(["x", "y"], 20), np.tile(np.arange(20), 2)  # names of large parts, numbers within them
    assert not ids("study", "number", study=study, number=number[::-1] + 20 * (study == "x"))
    site, patient, visit = (
        np.repeat(np.arange(12), 20),
        np.tile(np.repeat(np.arange(5), 4), 12),
        np.tile([1, 2, 3, 4], 60),
    )
    [line] = ids("site", "patient", "visit", site=site, patient=patient, visit=visit)
    assert line.startswith("240 rows have 60 different values of columns 'site', 'patient' (--id): ")


@pytest.mark.parametrize("ids", [["country", "year"], ["year", "country"]])
def test_the_id_from_which_columns_follow_names_the_groups(ids: list[str]) -> None:
    """Fewer countries than years, whose region follows from the country; some cells of ids are missing."""
    rng = np.random.default_rng(2)
    country, year = np.repeat(np.arange(25), 34), np.tile(np.arange(1990, 2024), 25)
    region = np.array(list("NESW"))[rng.integers(0, 4, 25)][country]
    names = [f"c{i}" if rng.random() > 0.04 else "" for i in country]
    of = table(country=names, year=year, region=region, y=rng.normal(size=len(year)))
    (line,) = [line for line in said_of(of, ids=ids) if "different values" in line]
    assert line.startswith(
        "850 rows have 25 different values of column 'country' (--id): but for 'region', which follows"
    )


@pytest.mark.parametrize("seed", range(3))
def test_what_other_columns_explain_is_no_alarm(seed: int) -> None:
    """Wells of a plate are alike by their concentration, which the row has; patients are not by what theirs has."""
    rng = np.random.default_rng(seed)
    well = np.tile(np.arange(96), 5)
    dose = (well % 12) / 2.0
    reading = 0.3 * dose + rng.normal(0, 0.2, len(well))
    frame = pd.DataFrame({"well": [f"w{i:02d}x" for i in well], "dose": dose, "reading": reading.round(3)})
    frame["reading"] = frame["reading"].mask(rng.random(len(well)) < 0.1)

    def alarms(frame: pd.DataFrame) -> list[str]:
        table = from_frame(frame)
        lines = repeated(Ranked(table, schema_alone(table)))
        return [line for line in lines if isinstance(line, Alarm) and "'well'" in line]

    assert alarms(frame) == []
    (line,) = alarms(frame.drop(columns="dose"))
    assert "rows of one are alike in 'reading'" in line
    own = frame.assign(reading=frame["reading"] + rng.normal(0, 0.5, 96)[well])
    assert "rows of one are alike in 'reading'" in alarms(own)[0]
    other = own.assign(second=(rng.normal(0, 1, 96)[well] + rng.normal(0, 0.5, len(well))).round(3))
    assert len(alarms(other)) == 1


def test_what_follows_from_a_group_explains_it_by_any_curve() -> None:
    """Wells of a plate by their dose, in steps of which the first ones and the last ones hardly matter."""
    rng = np.random.default_rng(0)
    well = np.tile(np.arange(96), 4)
    dose = np.array([0, 0.1, 0.3, 1, 3, 10, 30, 100])[well // 12]
    alive = 100 / (1 + (dose / 8) ** 1.2) + rng.normal(0, 4, len(well))
    frame = pd.DataFrame({"well": [f"{'ABCDEFGH'[w // 12]}{1 + w % 12}" for w in well], "alive": alive.round(1)})

    def line(frame: pd.DataFrame) -> str:
        table = from_frame(frame)
        [line] = [line for line in repeated(Ranked(table, schema_alone(table))) if "'well'" in line]
        return line

    assert isinstance(line(frame), Alarm)
    assert not isinstance(line(frame.assign(dose=dose)), Alarm)
    holes = frame.assign(dose=np.where(rng.random(len(well)) < 0.1, np.nan, dose))
    assert not isinstance(line(holes[holes.dose.notna()]), Alarm)
    own = frame.assign(dose=dose, alive=(alive + rng.normal(0, 5, 96)[well]).round(1))
    assert isinstance(line(own), Alarm)


def test_a_number_that_goes_one_to_one_with_a_level_is_no_name() -> None:
    """How many houses a suburb has, beside its name; not that of another column."""
    rng = np.random.default_rng(0)
    suburb, houses = rng.integers(0, 20, 600), rng.choice(np.arange(300, 21_000), 20, replace=False)
    price = (rng.normal(0, 4, 20)[suburb] + rng.normal(50, 4, len(suburb))).round(2)
    frame = pd.DataFrame({"suburb": [f"s{i}" for i in suburb], "houses": houses[suburb], "price": price})
    for own, said in ((frame, False), (frame.drop(columns="suburb"), True)):
        lines = infer_schema(from_frame(own))[1]
        assert (
            any("'houses' is modelled as a quantity, but its numbers work like names" in line for line in lines) == said
        )


def schools(rows: int = 12) -> pd.DataFrame:
    """Pupils of schools of known sizes, which score alike."""
    rng = np.random.default_rng(0)
    school, size = np.repeat(np.arange(25), rows), rng.permutation(np.arange(150, 900, 30))
    score = rng.normal(0, 4, 25)[school] + rng.normal(50, 8, len(school))
    return pd.DataFrame({"school": 1 + school, "size": size[school], "score": score})


def test_a_number_that_follows_from_a_key_is_no_name() -> None:
    """The size of a school, which differs from those of all others, and has nothing of a name beside the school's."""
    frame = schools()
    schema = schema_alone(table(**frame))
    assert [one.names for one in schema.relations] == [("size", "school")]
    assert numbered(table(**frame)) == {"school"}
    assert numbered(table(**frame.drop(columns="school"))) == {"size"}
    text = frame.assign(school=[f"s{i}" for i in frame.school])
    kept = infer_schema(table(**text), kinds={"school": "carry"})[0]
    assert [one.name for one in kept.lookups] == ["size"]
    assert not Ranked(table(**text), kept).numbered


def test_what_follows_from_a_key_is_no_part_of_what_is_lost() -> None:
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 4)
    frame = pd.DataFrame({"person": [f"p{i}" for i in person], "y": rng.normal(size=240)})
    frame["sex"], frame["born"] = rng.choice(["f", "m"], 60)[person], rng.integers(1930, 1990, 60)[person]
    one = "but for 'sex', which follows from 'person', what rows of one have in common is not modelled, each is filled"
    two = one.replace("'sex', which follows", "'sex', 'born', which follow")
    assert two in said_of(table(**frame), ids=["person"])[0]
    assert one in said_of(table(**frame.drop(columns="born")), ids=["person"])[0]
    assert two.replace("one have", "one group have") in said_of(table(**frame), kinds={"person": "carry"})[0]
    [line] = said_of(table(**frame.drop(columns=["born", "sex"])), ids=["person"])
    assert "(--id): what rows of one have in common is not modelled, each is filled" in line
