"""Questions that are asked of some rows alone: found, and kept by fills of the level that says where."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.selection import first
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.blanks import flags_of, unanswered_in
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Skip
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import kept_to_tell
from vgi_cli.encoding.skips import mask_probability
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

N = 400


def survey(seed: int = 0) -> pd.DataFrame:
    """Cigarettes a day and the brand are asked of who smokes; some did not answer whether they do."""
    rng = np.random.default_rng(seed)
    smoke = rng.choice(["no", "daily", "sometimes"], N, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame({"smoke": smoke, "age": rng.normal(50, 10, N).round(1)})
    frame["cigarettes"] = np.where(smoke == "no", np.nan, rng.poisson(12, N))
    frame["brand"] = np.where(smoke == "no", None, rng.choice(["u", "v", "w"], N))
    frame.loc[rng.random(N) < 0.2, "smoke"] = None
    return frame


def schema_of(frame: pd.DataFrame, encoding: Encoding = Encoding()) -> Schema:  # noqa: B008 - it is frozen
    return schema_alone(from_frame(frame), Said(encoding=encoding))


def test_they_are_found_and_said() -> None:
    schema = schema_of(survey())
    (skip,) = schema.skips
    levels = ["daily", "no", "sometimes"]
    assert (skip.name, skip.level, skip.others) == ("smoke", levels.index("no"), ("cigarettes", "brand"))
    asked = survey().dropna(subset=["smoke", "cigarettes"]).smoke.value_counts(normalize=True)
    assert skip.shares == pytest.approx([asked.get(level, 0.0) for level in levels])
    assert "'smoke' is not 'no' where one of columns 'cigarettes', 'brand' is observed" in kept_to_tell(schema)
    assert Schema.from_json(schema.to_json()).skips == schema.skips
    assert schema_of(survey(), Encoding(relations="ignore")).skips == ()
    assert schema_of(survey().assign(cigarettes=1.0 * np.arange(N), brand="u")).skips == ()  # asked of all


def test_fills_keep_to_them() -> None:
    """As often as the other levels where the question was asked; elsewhere, and what is observed, stays as it is."""
    frame = survey()
    schema = schema_of(frame)
    at = {name: i for i, name in enumerate(schema.modelled)}
    rng = np.random.default_rng(1)
    missing = np.stack([frame[name].isna().to_numpy() for name in schema.modelled], 1)
    draws = rng.normal(size=(50, N, len(at)))
    draws[..., at["smoke"]], draws[..., at["brand"]] = 1.0, rng.integers(0, 3, (50, N))
    before = draws.copy()
    numbers = rng.random((50, N))
    assert keep_relations(draws, np.zeros(missing.shape), missing, schema, uniform=lambda name: numbers).count() == 0
    asked = missing[:, at["smoke"]] & ~missing[:, [at["cigarettes"], at["brand"]]].all(1)
    new = draws[:, asked, at["smoke"]]
    (skip,) = schema.skips
    share = np.bincount(new.astype(int).ravel(), minlength=3) / new.size
    assert share[1] == 0 and np.abs(share - skip.shares).max() < 4 * np.sqrt(0.25 / new.size)
    draws[:, asked, at["smoke"]] = before[:, asked, at["smoke"]]
    np.testing.assert_array_equal(draws, before)
    some = before[:2, 100:].copy()  # a fill does not depend on what else is filled
    keep_relations(some, np.zeros(missing[100:].shape), missing[100:], schema, uniform=lambda name: numbers[:2, 100:])
    np.testing.assert_array_equal(some[:, asked[100:], at["smoke"]], new[:2, asked[:100].sum() :])


def test_rows_of_a_new_table_that_contradict_are_counted() -> None:
    schema = schema_of(survey())
    new = survey(5)
    new.loc[:2, ["smoke", "cigarettes"]] = "no", 4.0
    (line,) = [note for note in check(from_frame(new), schema) if "in every row of the fit" in note]
    assert "is observed in every row of the fit; 3 rows of" in line and line.endswith("fills keep to it all the same")


def test_a_filled_survey_contradicts_nobody(tmp_path: Path) -> None:
    frame = survey(2)
    settings = {"bootstrap": "none", "model.components": 1}
    run = vgi_cli.fit(frame, model="mixture", set=settings, out=tmp_path / "run")
    asked = frame.smoke.isna() & frame.cigarettes.notna()
    assert asked.sum() > 20
    for filled in run.impute(frame, m=3):
        assert not (filled.smoke[asked] == "no").any() and (filled.smoke == "no").any()
        assert (filled.smoke[frame.smoke.notna()] == frame.smoke.dropna()).all()


@pytest.mark.parametrize(
    "spoiled",
    [
        {"name": "age"},
        {"others": ["unknown"]},
        {"others": []},
        {"level": 7},
        {"shares": [0.5, 0.25, 0.25]},
        {"shares": [0.5, 0.0, 0.6]},
    ],
)
def test_skips_that_do_not_fit_are_refused(spoiled: dict[str, object]) -> None:
    raw = json.loads(schema_of(survey()).to_json())
    raw["skips"][0] |= spoiled
    with pytest.raises(RunError, match=r"schema\.json"):
        Schema.from_json(json.dumps(raw))


def test_several_skips_of_a_column_hold_together() -> None:
    """One column goes without `a`, another one without `b`: where both are observed, `c` is left."""
    rng = np.random.default_rng(4)
    level = rng.choice(["a", "b", "c"], N)
    frame = pd.DataFrame({"s": level, "x": rng.normal(size=N), "y": rng.normal(size=N), "z": rng.normal(size=N)})
    frame.loc[level == "a", "x"] = frame.loc[level == "b", "y"] = np.nan
    schema = schema_of(frame)
    assert [(one.level, one.others) for one in schema.skips] == [(0, ("x",)), (1, ("y",))]
    missing = np.zeros((N, 4), bool)
    missing[:, 0] = True
    missing[: N // 2, 2] = True  # y: of these `b` may be
    draws = rng.integers(0, 3, (4, N, 4)).astype(float)
    numbers = rng.random((4, N))
    assert keep_relations(draws, np.zeros((N, 4)), missing, schema, uniform=lambda name: numbers).count() == 0
    assert (draws[:, N // 2 :, 0] == 2).all() and set(np.unique(draws[:, : N // 2, 0])) == {1, 2}
    frame.loc[level == "c", "z"] = np.nan  # then nothing is left, and a line counts such rows
    schema, drawn = schema_of(frame), rng.integers(0, 3, (4, N, 4)).astype(float)
    missing[: N // 2, 2] = False
    kept = drawn.copy()
    assert keep_relations(kept, np.zeros((N, 4)), missing, schema, uniform=lambda name: numbers).count() == 4 * N
    np.testing.assert_array_equal(kept, drawn)


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_what_may_be_chance_is_not_kept(seed: int) -> None:
    """Many levels and many columns with half of their cells: some level has none in some column."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"c{i}": rng.choice([f"l{j}" for j in range(20)], 300) for i in range(10)})
    frame = frame.assign(**{f"x{i}": rng.normal(size=300) for i in range(40)})
    assert schema_of(frame.mask(rng.random(frame.shape) < 0.45)).skips == ()


def test_rows_alike_are_not_filled_alike(tmp_path: Path) -> None:
    """Of a table of levels alone many rows are the same; what replaces a level is drawn for each row."""
    rng = np.random.default_rng(3)
    frame = survey(3)[["smoke", "brand"]].assign(sex=rng.choice(["f", "m"], N))
    settings = {"bootstrap": "none", "model.components": 1}
    run = vgi_cli.fit(frame, model="mixture", set=settings, out=tmp_path / "run")
    asked = frame.smoke.isna() & frame.brand.notna()
    share = np.mean([(filled.smoke[asked] == "daily").mean() for filled in run.impute(frame, m=20)])
    assert abs(share - 0.6) < 0.15


def test_a_skip_needs_other_columns() -> None:
    with pytest.raises(ValueError, match="do not fit together"):
        Skip("a", 0, ("a",), (0.0, 1.0))


def test_a_level_is_likelier_where_the_question_was_not_answered() -> None:
    """What the model takes for missing at random speaks for the level that is not asked: by Bayes' rule."""
    frame = survey(3)
    frame.loc[np.random.default_rng(4).random(N) < 0.1, ["cigarettes", "brand"]] = [np.nan, None]
    schema = schema_of(frame)
    (one,) = schema.unasked
    assert one.others == ("cigarettes", "brand") and Schema.from_json(schema.to_json()).unasked == schema.unasked
    silent = frame[["cigarettes", "brand"]].isna().all(axis=1)
    known = frame.dropna(subset="smoke").assign(silent=silent)
    own = known.groupby("smoke").silent.agg(lambda column: (column.sum() + 0.5) / (len(column) + 1))
    assert own["no"] > 0.99 and one.blank[1] == 1.0
    q = silent[frame.smoke.isna()].mean()  # no more rows without both than there are that lack each by itself
    p, b = (
        (known.smoke == "no").mean(),
        (known[known.smoke != "no"].silent.sum() + 0.5) / ((known.smoke != "no").sum() + 1),
    )
    expected = p + (1 - p) * b
    t = (q - expected) / (1 - expected)
    t = t if q > expected + np.sqrt(expected * (1 - expected) / frame.smoke.isna().sum()) else 0.0
    assert t < 0.15
    shares = [own["daily"], 1.0, own["sometimes"]]
    assert one.blank == pytest.approx([share + t * (1 - share) for share in shares])
    blank = np.array(one.blank)
    x = np.zeros((3, 4, schema.layout.D))
    names = ("smoke", "cigarettes", "brand")
    smoke, cigarettes, brand = (schema.layout.slices[schema.modelled.index(name)].start for name in names)
    x[..., smoke] = np.arange(3)[:, None]
    missing = np.zeros((4, schema.layout.D), bool)
    missing[1:, smoke] = True  # observed, both asked, one asked, none asked
    missing[2:, cigarettes] = missing[3, brand] = True
    got = mask_probability(x, missing, schema, blanks=True)
    asked = (1 - blank) / (1 - blank).max()
    np.testing.assert_allclose(got, np.stack([np.ones(3), asked, asked, blank], 1))
    without = mask_probability(x, missing, schema, blanks=False)
    rule = np.array([1.0, 0.0, 1.0])
    np.testing.assert_array_equal(without, np.stack([np.ones(3), rule, rule, np.ones(3)], 1))


def test_what_two_levels_say_of_the_same_blanks_counts_once() -> None:
    rng = np.random.default_rng(7)
    smoke = rng.choice(["never", "former", "current", "pipe"], 4000, p=[0.15, 0.15, 0.4, 0.3])
    frame = pd.DataFrame({"smoke": smoke, "x": rng.normal(size=4000)})
    asked = np.isin(smoke, ["current", "pipe"])
    answered = asked & (rng.random(4000) < np.where(smoke == "pipe", 0.6, 0.9))
    frame["cigarettes"] = np.where(answered, rng.poisson(9, 4000), np.nan)
    levels = ["current", "former", "never", "pipe"]
    known = frame.assign(blank=frame.cigarettes.isna()).groupby("smoke").blank.mean()[levels].to_numpy()
    frame.loc[rng.random(4000) < 0.2, "smoke"] = None
    schema = schema_of(frame)
    assert len(schema.skips) == 2 and len(schema.unasked) == 1
    x = np.arange(4.0)[:, None, None] * np.ones((1, 2, schema.layout.D))
    missing = np.zeros((2, schema.layout.D), bool)
    missing[:, 0] = True
    missing[1, schema.layout.slices[2].start] = True
    got = mask_probability(x, missing, schema, blanks=True)
    np.testing.assert_allclose(got[:, 1], known, atol=0.12)
    np.testing.assert_allclose(got[:, 0], np.where(known == 1, 0, 1 - known) / (1 - known).max(), atol=0.12)


def test_rows_that_lack_both_say_nothing(tmp_path: Path) -> None:
    """Somebody left: neither answer is there, whatever it was."""
    rng = np.random.default_rng(5)
    smoke = rng.random(1200) < 0.6
    frame = pd.DataFrame({"smoke": np.where(smoke, "yes", "no"), "age": rng.normal(50, 10, 1200).round()})
    frame["cigarettes"] = np.where(smoke, rng.poisson(9, 1200) + 1.0, np.nan)
    left = rng.random(1200) < 0.3
    frame.loc[left, "smoke"] = None
    frame.loc[left, "cigarettes"] = np.nan
    run = vgi_cli.fit(frame, model="mixture", set={"bootstrap": "none", "model.components": 1}, out=tmp_path / "run")
    share = np.mean([(one.smoke[left] == "yes").mean() for one in run.impute(frame, m=10)])
    assert abs(share - smoke[left].mean()) < 0.06  # it was 0.04


def test_what_an_observed_cell_explains_says_nothing_of_another() -> None:
    """Births are asked of women of 15 and more: of a girl without a sex the blank says nothing."""
    rng = np.random.default_rng(6)
    woman, age = rng.random(1500) < 0.5, rng.integers(5, 80, 1500).astype(float)
    frame = pd.DataFrame({"sex": np.where(woman, "f", "m"), "age": age})
    frame["births"] = np.where(woman & (age >= 15) & (rng.random(1500) < 0.95), rng.poisson(1.5, 1500), np.nan)
    frame.loc[rng.random(1500) < 0.2, "sex"] = None
    frame.loc[rng.random(1500) < 0.2, "age"] = np.nan
    schema = schema_of(frame)
    assert [(one.name, one.side, one.limit, one.others) for one in schema.thresholds] == [
        ("age", "below", 15.0, ("births",))
    ]
    ((blank,),) = (one.blank for one in schema.unasked)
    assert 0.04 < blank < 0.2
    rows = [(code, years) for code in (0.0, 1.0) for years in (10.0, 40.0)]  # f, m
    sex, births = (schema.layout.slices[schema.modelled.index(name)].start for name in ("sex", "births"))
    own = schema.layout.slices[schema.modelled.index("age")]
    x, missing = np.zeros((1, 4, schema.layout.D)), np.zeros((4, schema.layout.D), bool)
    x[0, :, sex] = [code for code, _ in rows]
    column = schema.encoded[schema.modelled.index("age")]
    x[0, :, own] = column.encode(np.array([years for _, years in rows]), None)
    missing[:, births] = missing[:, sex] = True
    np.testing.assert_allclose(mask_probability(x, missing, schema, blanks=True), [[1, blank, 1, 1]])
    missing[:, own] = True  # both deciders are missing: one factor for the blank
    np.testing.assert_allclose(mask_probability(x, missing, schema, blanks=True), [[1, blank, 1, 1]])


def test_blanks_of_another_table_say_nothing(tmp_path: Path) -> None:
    """There the question may have been left out."""
    frame = survey(8)
    run = vgi_cli.fit(frame, model="mixture", set={"bootstrap": "none", "model.components": 1}, out=tmp_path / "run")
    new = survey(9).assign(cigarettes=np.nan, brand=None)
    hidden = new.smoke.isna()
    share = np.mean([(one.smoke[hidden] == "no").mean() for one in run.impute(new, m=20)])
    assert abs(share - (frame.smoke == "no").sum() / frame.smoke.notna().sum()) < 0.12


@pytest.mark.slow
def test_what_goes_with_a_level_goes_with_it_in_fills(tmp_path: Path) -> None:
    """The row is drawn anew, not the level alone: who smokes has a higher pressure, in rows without both as well."""
    found = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        smoke = rng.random(1500) < 0.4
        frame = pd.DataFrame(
            {"smoke": np.where(smoke, "yes", "no"), "pressure": 120 + 15 * smoke + 15 * rng.normal(size=1500)}
        )
        frame["cigarettes"] = np.where(smoke, rng.gamma(4, 4, 1500).round() + 1, np.nan)
        lost = rng.random(1500) < 0.35
        frame.loc[lost, "smoke"] = None
        frame.loc[lost & (rng.random(1500) < 0.7), "pressure"] = np.nan
        settings = {"model.components": 1, "bootstrap": "none"}
        run = vgi_cli.fit(frame, out=tmp_path / str(seed), model="mixture", set=settings, seed=seed)
        both = frame.pressure.isna()
        fills = pd.concat([one[both] for one in run.impute(m=10)])
        means = fills.groupby("smoke").pressure.mean()
        found.append(means["yes"] - means["no"])
        asked = fills.smoke[fills.cigarettes.index.isin(frame.index[frame.cigarettes.notna()])]
        assert (asked == "yes").all()
    assert abs(np.mean(found) - 15) < 2.5  # it was 0.2


def test_the_share_of_the_level_is_that_of_the_whole_table(tmp_path: Path) -> None:
    """A quarter of the answers to the first question is missing: fills took too many for smokers."""
    shares = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        smoke = rng.random(800) < 0.35
        frame = pd.DataFrame({"age": rng.uniform(18, 80, 800), "smoke": np.where(smoke, "yes", "no")})
        frame["cigarettes"] = np.where(smoke & (rng.random(800) < 0.95), rng.gamma(6, 2, 800), np.nan)
        frame["bmi"] = rng.normal(26, 3, 800)
        frame.loc[rng.random(800) < 0.25, "smoke"] = None
        few = {"model.components": 2, "bootstrap": "none"}
        run = vgi_cli.fit(frame, out=tmp_path / str(seed), model="mixture", set=few, seed=seed)
        shares.append(np.mean([(one.smoke == "yes").mean() for one in run.impute(m=10)]) - smoke.mean())
    assert abs(np.mean(shares)) < 0.012  # it was 0.055


def test_what_the_rest_of_a_row_says_of_the_level_stays(tmp_path: Path) -> None:
    """Who smokes is told almost surely by x: of those who do and left both answers blank, fills say so."""
    rng = np.random.default_rng(1)
    smoke = rng.random(600) < 0.3
    frame = pd.DataFrame({"x": smoke * 16 + rng.normal(size=600), "smoke": np.where(smoke, "yes", "no")})
    frame["cigarettes"] = np.where(smoke & (rng.random(600) < 0.8), rng.gamma(6, 2, 600), np.nan)
    frame.loc[rng.random(600) < 0.25, "smoke"] = None
    both = frame.smoke.isna() & frame.cigarettes.isna() & smoke
    run = vgi_cli.fit(frame, out=tmp_path / "run", model="mixture", set={"model.components": 2, "bootstrap": "none"})
    assert both.sum() > 5
    share = np.mean([(one.smoke[both] == "yes").mean() for one in run.impute(m=10)])
    assert share > 0.6  # the mixture says 0.95 before it looks at the blank answers; by the share in the table: 0.3
    imputer = vgi_cli.Imputer(model="mixture", how="mode", set={"model.components": 2, "bootstrap": "none"})
    assert (imputer.fit_transform(frame).smoke[both] == "yes").mean() > 0.8


def test_earlier_schemas_and_damaged_ones() -> None:
    schema = schema_of(survey())
    raw = json.loads(schema.to_json())
    old = {**raw, "format": 7, "skips": [{**raw["skips"][0], "blank": [0.1, 1.0, 0.2]}]}
    del old["unasked"], old["thresholds"]
    read = Schema.from_json(json.dumps(old))
    assert read.skips == schema.skips and read.unasked == ()
    for spoiled in ({"others": ["age"]}, {"others": []}, {"blank": [0.5, 0.5]}, {"blank": [0.0]}, {"blank": []}):
        damaged = {**raw, "unasked": [{**raw["unasked"][0], **spoiled}]}
        with pytest.raises(RunError, match=r"schema\.json"):
            Schema.from_json(json.dumps(damaged))
    assert read.unanswered == schema.unanswered and len(schema.unanswered) == 1
    for wrong in ({"levels": [9]}, {"levels": []}, {"others": ["none"]}, {"others": []}, {"name": "age"}):
        with pytest.raises(RunError, match=r"schema\.json"):
            Schema.from_json(json.dumps({**raw, "unanswered": [{**raw["unanswered"][0], **wrong}]}))


class TestSeveralLevels:
    """Incomes of those who are employed alone: a third of the rows, so that each other level has none, and most of the
    rows without that level neither."""

    def table(self, seed: int = 0) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        work = rng.choice(["employed", "none", "retired", "student"], N, p=[0.3, 0.2, 0.3, 0.2])
        frame = pd.DataFrame({"age": rng.normal(50, 10, N).round(1), "work": work})
        frame["income"] = np.where((work == "employed") & (rng.random(N) < 0.9), rng.gamma(5, 500, N).round(), np.nan)
        frame.loc[rng.random(N) < 0.1, "work"] = None
        return frame

    def test_each_is_found_and_they_are_said_together(self) -> None:
        schema, lines = infer_schema(from_frame(self.table()))
        assert [(one.name, one.level, one.others) for one in schema.skips] == [
            ("work", k, ("income",)) for k in (1, 2, 3)
        ]
        words = "'work' is none of 'none', 'retired', 'student' where 'income' is observed"
        assert any(words in line for line in kept_to_tell(schema))
        (line,) = [line for line in lines if "has no cell" in line]
        rows = int(self.table().work.isin(["none", "retired", "student"]).sum())
        assert f"no cell in the {rows} rows where 'work' is 'none', 'retired' or 'student', and" in line
        assert "(`vgi impute --leave-blank 'income:work!=employed'` leaves them blank)" in line

    def test_fills_keep_to_all_of_them(self) -> None:
        frame = self.table()
        schema = schema_of(frame)
        missing = np.stack([frame[name].isna().to_numpy() for name in schema.modelled], 1)
        rng = np.random.default_rng(1)
        draws = rng.normal(size=(3, N, 3))
        draws[..., 1] = rng.integers(0, 4, (3, N))
        asked = missing[:, 1] & ~missing[:, 2]
        assert asked.sum() > 5 and (draws[:, asked, 1] != 0).any()
        apart = keep_relations(draws, np.zeros(missing.shape), missing, schema, uniform=lambda _: rng.random((3, N)))
        assert apart.count() == 0 and (draws[:, asked, 1] == 0).all()

    def test_rows_of_a_new_table_that_contradict_are_counted_together(self) -> None:
        schema, other = schema_of(self.table()), self.table(1)
        other.loc[other.index[:4], "work"] = ["none", "retired", "student", "employed"]
        other.loc[other.index[:4], "income"] = 900.0
        (note,) = [note for note in check(from_frame(other), schema) if "depart" in note]
        assert note.startswith(
            "'work' is none of 'none', 'retired', 'student' where 'income' is observed in every row of"
        )
        assert "3 rows of the table depart from it" in note

    def test_two_levels(self) -> None:
        frame = self.table()
        frame["work"] = frame.work.replace("retired", "none")
        schema, lines = infer_schema(from_frame(frame))
        assert any(
            "'work' is neither 'none' nor 'student' where 'income' is observed" in line for line in kept_to_tell(schema)
        )
        assert any("where 'work' is 'none' or 'student', and" in line for line in lines)

    @pytest.mark.parametrize("levels", first(1, [20, 5]))
    @pytest.mark.parametrize("seeds", first(1, [range(12), range(12, 30)]))
    def test_few_cells_accuse_no_level_by_chance(self, levels: int, seeds: range) -> None:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            frame = pd.DataFrame({"x": rng.normal(size=N).round(2), "site": rng.integers(0, levels, N).astype(str)})
            frame["site"] = "s" + frame.site
            for cells in (1, 3, 8, 20):
                frame[f"y{cells}"] = np.where(rng.permutation(N) < cells, rng.normal(size=N), np.nan)
            schema, lines = infer_schema(from_frame(frame))
            assert schema.skips == () and not any("no cell in the" in line for line in lines), seed

    def test_one_level_with_too_few_rows_to_tell_accuses_none_of_the_others(self) -> None:
        """Three cells, all beside a level of four rows."""
        frame = self.table()
        frame["note"] = np.nan
        frame.loc[:3, "work"], frame.loc[:2, "note"] = "other", [1.0, 2.5, 3.0]
        assert all("note" not in one.others for one in schema_of(frame).skips)


def cars(n: int = 400) -> pd.DataFrame:
    """Electric cars, of two makes and four models, have no size of engine; single cells are lost."""
    rng = np.random.default_rng(3)
    makes = {"ID.3": "VW", "Golf": "VW", "Polo": "VW", "Model 3": "Tesla", "Model Y": "Tesla", "Corolla": "Toyota"}
    model = rng.choice(list(makes), n)
    electric = np.isin(model, ["ID.3", "Model 3", "Model Y"])
    frame = pd.DataFrame({"make": [makes[one] for one in model], "model": model})
    frame["fuel"] = np.where(electric, "electric", rng.choice(["petrol", "diesel"], n))
    frame["cc"] = np.where(electric, np.nan, rng.normal(1600, 300, n).round())
    frame["price"] = rng.gamma(5, 4000, n).round(2)
    return frame.mask(rng.random(frame.shape) < 0.1)


def test_flags_that_another_one_makes_needless_are_not_suggested() -> None:
    schema, notes = infer_schema(from_frame(cars()))
    assert [flags_of(one, schema) for one in unanswered_in(schema)] == ["--leave-blank cc:fuel=electric"]
    (line,) = [note for note in notes if "has no cell in" in note]
    assert line.startswith("column 'cc' has no cell in the ") and "rows where 'fuel' is 'electric'" in line
    assert {one.name for one in schema.skips} == {"make", "model", "fuel"}  # which fills keep to all the same
    frame = cars()
    hybrid = frame["model"] == "Golf"
    frame.loc[hybrid, ["fuel", "cc"]] = ["petrol", np.nan]  # of which the fuel says nothing
    schema = schema_alone(from_frame(frame))
    flags = " ".join(flags_of(one, schema) for one in unanswered_in(schema))
    assert "--leave-blank cc:model=Golf" in flags and "cc:make" not in flags


def test_what_says_who_is_asked_in_its_place_says_it_too(tmp_path: Path) -> None:
    """Who has a product had a dose at least, by 'had', which follows from the number of doses."""
    rng = np.random.default_rng(4)
    rows = 500
    doses = rng.choice([0, 1, 2], rows, p=[0.4, 0.2, 0.4])
    product = np.where(doses > 0, rng.choice(["B", "C", "M"], rows), None)
    full = pd.DataFrame({"had": np.where(doses > 0, "yes", "no"), "doses": doses.astype(float), "product": product})
    frame = full.mask(rng.random(full.shape) < 0.15)
    both = frame["product"].notna() & (rng.random(rows) < 0.3)
    frame.loc[both, ["had", "doses"]] = None
    assert "'had' follows from 'doses'" in kept_to_tell(schema_alone(from_frame(frame)))
    settings = {"bootstrap": 0, "model.components": 1, "trees": "none"}
    run = vgi_cli.fit(frame, out=tmp_path / "run", model="mixture", threads=1, set=settings)
    for filled in run.impute(m=5):
        assert (filled.had[frame["product"].notna()] == "yes").all()
        assert (filled.doses[frame["product"].notna()] > 0).all()


@pytest.mark.parametrize("kind", ["numbers", "levels"])
def test_what_says_who_is_asked_is_drawn_otherwise_where_the_sampler_found_nothing(kind: str) -> None:
    """The nearest number of those that say so; levels as often as they occur."""
    rng = np.random.default_rng(4)
    rows = 600
    doses = rng.choice([0, 1, 2], rows, p=[0.4, 0.15, 0.45])
    product = np.where(doses > 0, rng.choice(["B", "C", "M"], rows), None)
    status = doses.astype(float) if kind == "numbers" else np.array(["none", "once", "twice"])[doses]
    full = pd.DataFrame({"had": np.where(doses > 0, "yes", "no"), "status": status, "product": product})
    schema = schema_alone(from_frame(full.mask(rng.random(full.shape) < 0.1)))
    assert "'had' follows from 'status'" in kept_to_tell(schema)
    had, second = (column.texts if isinstance(column, Levelled) else () for column in schema.encoded[:2])
    no, never = float(had.index("no")), 0.0 if kind == "numbers" else float(second.index("none"))
    draws = np.tile([no, never, 0.0], (4, rows, 1))
    missing = np.tile([True, True, False], (rows, 1))
    missing[: rows // 3, 2] = True  # of these no cell says that they were asked
    exact = draws[0].copy()
    random = {name: rng.random((4, rows)) for name in schema.modelled}
    apart = keep_relations(draws, exact, missing, schema, random.__getitem__)
    assert apart.count() == 0
    assert (draws[:, : rows // 3, 0] == no).all() and (draws[:, : rows // 3, 1] == never).all()
    asked = draws[:, rows // 3 :]
    assert (asked[..., 0] == had.index("yes")).all()
    if kind == "numbers":
        assert (asked[..., 1] == 1).all()
    else:
        assert (asked[..., 1] == second.index("once")).mean() == pytest.approx(0.25, abs=0.05)
        assert (asked[..., 1] != never).all()


def test_a_draw_is_impossible_where_what_says_who_is_asked_says_nobody_was() -> None:
    """Whatever was drawn for the column that follows from it."""
    rng = np.random.default_rng(4)
    rows = 500
    doses = rng.choice([0, 1, 2], rows, p=[0.4, 0.15, 0.45])
    product = np.where(doses > 0, rng.choice(["B", "C", "M"], rows), None)
    frame = pd.DataFrame({"had": np.where(doses > 0, "yes", "no"), "doses": doses.astype(float), "product": product})
    schema = schema_alone(from_frame(frame.mask(rng.random(frame.shape) < 0.1)))
    assert [one.name for one in schema.skips] == ["had"] and not schema.thresholds
    had, number = schema.encoded[:2]
    assert isinstance(had, Levelled)
    yes, no = float(had.texts.index("yes")), float(had.texts.index("no"))
    encoded = number.encode(np.array([0.0, 1.0, 2.0]), None)[:, 0]
    x = np.array(
        [[[yes, encoded[0], 0.0]], [[yes, encoded[1], 0.0]], [[no, encoded[2], 0.0]], [[yes, encoded[2], 0.0]]]
    )
    both, alone = np.array([[True, True, False]]), np.array([[True, False, False]])
    assert mask_probability(x, both, schema, blanks=False)[:, 0].tolist() == [0, 1, 0, 1]
    assert mask_probability(x, alone, schema, blanks=False)[:, 0].tolist() == [1, 1, 0, 1]  # of a known cell it knows
    assert mask_probability(x, np.array([[True, True, True]]), schema, blanks=False)[:, 0].tolist() == [1, 1, 1, 1]
