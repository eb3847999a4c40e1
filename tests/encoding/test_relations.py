"""What holds between columns in every row is found, and not what holds by chance; fills keep to it, and observed cells
stay as they are."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.selection import covering, first
from tests.table.helpers import from_text
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import ByPairs, _parts, kept_words, rest_of_kept
from vgi_cli.encoding.relations import _roundest, departing, departures
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table

N = 200
KEPT, IGNORED = Encoding(), Encoding(relations="ignore")


def columns(seed: int = 0, n: int = N) -> pd.DataFrame:
    """Columns of numbers, levels and dates, the later ones said by the earlier ones."""
    rng = np.random.default_rng(seed)
    celsius, net = rng.normal(15, 8, n).round(1), rng.gamma(2, 20, n).round(2)
    tax = np.where(rng.random(n) < 0.3, 0.0, rng.gamma(2, 10, n)).round(2)
    frame = pd.DataFrame({"celsius": celsius, "net": net, "tax": tax})
    frame["gross"] = (net + tax).round(2)
    frame["fahrenheit"] = (1.8 * celsius + 32).round(1)
    frame["ordered"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    frame["sent"] = frame.ordered + pd.Timedelta(days=3)
    code = rng.integers(0, 3, n)
    frame["number"] = np.array([2, 1, 3])[code]
    frame["country"], frame["iso"] = np.array(["de", "fr", "it"])[code], np.array(["i276", "i250", "i380"])[code]
    return frame


def holed(frame: pd.DataFrame, seed: int = 1, share: float = 0.2) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


_SCHEMAS: dict[tuple[bytes, Encoding], Schema] = {}


def schema_of(frame: pd.DataFrame, encoding: Encoding = KEPT) -> Schema:
    """Inferred once in each process for the same table."""
    key = (hashlib.sha256(pickle.dumps(frame)).digest(), encoding)
    if key not in _SCHEMAS:
        _SCHEMAS[key] = schema_alone(from_frame(frame), Said(encoding=encoding))
    return _SCHEMAS[key]


def codes_in(frame: pd.DataFrame, schema: Schema) -> Floats:
    """[N, columns] codes, NaN where a cell is missing."""
    table = from_frame(frame)
    cells = [(column, table.column(column.name)) for column in schema.encoded]
    return np.stack([np.where(own.missing, np.nan, column.codes(own)) for column, own in cells], 1)


class TestFound:
    def test_sums_lines_dates_and_levels(self) -> None:
        schema, notes = infer_schema(from_frame(holed(columns())))
        by = {relation.names[0]: relation for relation in schema.relations}
        assert set(by) == {"gross", "fahrenheit", "sent", "iso", "number"}
        assert by["number"].names == ("number", "country") and by["number"].codes == (2, 1, 3)
        assert by["gross"].words() == "'gross' = 'net' + 'tax'" and not by["gross"].rounded
        assert by["fahrenheit"].words() == "'fahrenheit' = 1.8 'celsius' + 32, rounded"
        assert by["iso"].words() == "'iso' and the levels of 'country' go one to one"
        assert by["iso"].codes == (1, 0, 2)  # de i276, fr i250, it i380
        line = next(note for note in notes if note.startswith("fills keep to what holds in every row: "))
        assert line.endswith(" (`--set table.relations=ignore` if that is chance)")
        assert "; 'sent' follows from column 'ordered'; 'number' and the levels of 'country' go one to one; " in line

    def test_more_than_a_few_are_listed_apart(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.normal(size=N).round(2)})
        for factor in range(2, 9):
            frame[f"x{factor}"] = (factor * frame.x).round(2)
        schema = schema_of(frame)
        (line,) = kept_words(schema)
        assert "'x6' = 6 'x'; and 2 more, which -v lists (" in line
        assert rest_of_kept(schema) == [
            "in every row, and in fills: 'x7' = 7 'x'",
            "in every row, and in fills: 'x8' = 8 'x'",
        ]

    def test_weights_of_a_conversion_are_those_that_fit_every_row(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"kg": rng.normal(70, 12, N).round(1), "x": rng.normal(size=N)})
        frame["lb"] = (2.20462 * frame.kg).round(0)
        (found,) = schema_of(frame).relations
        assert found.rounded and found.weights[1] == pytest.approx(-2.2046, abs=2e-3)
        departs = frame.lb + found.weights[1] * frame.kg - found.constant
        assert np.abs(departs).max() <= 0.5 * (1 + 1e-6)

    def test_of_weights_that_fit_those_are_taken_that_fit_best(self) -> None:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            frame = pd.DataFrame({"temp": (0.02 * rng.integers(5, 48, 700)).round(2), "x": rng.normal(size=700)})
            frame["fahrenheit"] = (73.8 * frame.temp + 32).round(1)  # within the rounding 73.75 of temp would do too
            assert [one.words() for one in schema_of(frame).relations] == ["'fahrenheit' = 73.8 'temp' + 32, rounded"]

    def test_differences_and_many_terms_are_spelled(self) -> None:
        parts = tuple("abcdef")
        long = Relation(names=("total", *parts), weights=(1.0, *(-1.0,) * 6))
        assert long.words() == "'total' = 'a' + 'b' + 'c' + … (3 more)"
        less = Relation(names=("y", "a", "b"), weights=(1.0, 1.0, -2.5), constant=-7.0)
        assert less.words() == "'y' = 2.5 'b' - 'a' - 7"
        assert less.words(counted=False) == "'y' follows from columns 'a', 'b'"

    def test_long_round_factors_are_powers_of_ten(self) -> None:
        for factor, text in ((1e9, "1e9 × "), (2.5e8, "2.5e8 × "), (1e4, "10000 × "), (1e-9, "1e-09 × ")):
            one = Relation(names=("pc", "gdp", "people"), how="product", weights=(1.0, -1.0, 1.0), constant=factor)
            assert one.words() == f"'pc' = {text}'gdp' / 'people'"
        inverse = Relation(names=("net", "gross", "n"), how="product", weights=(1.0, -1.0, 1.0), constant=1 / 0.86)
        assert inverse.words() == "'net' = 'gross' / 0.86 / 'n'"

    @pytest.mark.parametrize(
        "spoiled",
        [
            lambda f: f.assign(gross=f.gross + (np.arange(len(f)) % 50 == 7)),  # more than a few rows depart
            lambda f: f.assign(gross=f.gross + np.random.default_rng(5).normal(0, 0.3, len(f)).round(2)),  # it is noisy
            lambda f: f.assign(gross=f.gross.where(np.arange(len(f)) < 9)),  # hardly a row says so
        ],
        ids=["rows depart", "nearly", "few rows"],
    )
    def test_what_holds_in_too_few_rows_is_not_kept(self, spoiled: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        frame = spoiled(columns()[["net", "tax", "gross"]])
        assert schema_of(frame).relations == ()

    def test_levels_that_go_together_in_few_rows_do_so_by_chance(self) -> None:
        rng = np.random.default_rng(0)
        rare = np.where(np.arange(100) == 3, "yes", "no")
        frame = pd.DataFrame({"a": rare, "b": rare, "x": rng.normal(size=100)})
        frame["b"] = np.where(frame.b == "yes", "ja", "nein")
        assert schema_of(frame).relations == ()
        often = np.where(np.arange(100) % 2 == 0, "yes", "no")
        frame["a"], frame["b"] = often, np.where(often == "yes", "ja", "nein")
        assert len(schema_of(frame).relations) == 1

    @pytest.mark.parametrize("seeds", first(1, [range(4), range(4, 12)]))
    def test_rows_that_lack_a_column_which_is_no_part_in_the_end_are_asked_too(self, seeds: range) -> None:
        """24 less the sleep of mammals is what they are awake, but for two rows."""
        mammals = pd.read_csv(Path(__file__).parents[2] / "sample_data" / "mammals.csv")
        awake = []
        for seed in seeds:
            frame = from_frame(mammals.mask(np.random.default_rng(seed).random(mammals.shape) < 0.2))
            schema = schema_alone(frame)
            assert departures(frame, schema) == [one.but for one in schema.relations]
            awake += [one.but for one in schema.relations if {"awake", "sleep_total"} == set(one.names)]
        assert len(awake) == len(seeds) and 0 < max(awake) <= 2

    def test_it_can_be_left_alone(self) -> None:
        schema, notes = infer_schema(from_frame(columns()), encoding=IGNORED)
        assert schema.relations == ()
        assert any("'gross' is a linear function" in note and "fills need not be" in note for note in notes)

    def test_sums_are_found_where_hardly_a_row_is_complete(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.gamma(2, 10, (400, 20)).round(2), columns=[f"part{i}" for i in range(20)])
        frame["two"] = (frame.part3 + frame.part7).round(2)
        frame["four"] = (frame.part1 + frame.part2 - frame.part11 + frame.part15).round(2)
        sparse = holed(frame, 1, 0.3)
        assert len(sparse.dropna()) <= 1
        words = {relation.words() for relation in schema_of(sparse).relations}
        assert words == {"'two' = 'part3' + 'part7'", "'four' = 'part1' + 'part2' - 'part11' + 'part15'"}

    def test_sums_of_many_parts_of_a_wide_table(self) -> None:
        rng = np.random.default_rng(0)
        parts = pd.DataFrame(rng.gamma(2, 10, (250, 60)).round(2), columns=[f"part{i}" for i in range(60)])
        chosen = sorted(rng.choice(60, 12, replace=False).tolist())
        frame = parts.assign(total=parts.iloc[:, chosen].sum(axis=1).round(2))
        (relation,) = schema_of(frame).relations
        assert relation.names[1:] == tuple(f"part{i}" for i in chosen) and not relation.rounded

    def test_parts_that_add_nothing_are_left_out(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.normal(50, 10, (80, 6)).round(1), columns=list("abcdef"))
        frame["mean"] = (0.5 * (frame.a + frame.b)).round(0)
        frame["tenths"] = (frame.c / 3 + frame.d).round(2)
        assert {one.names for one in schema_of(frame).relations} <= {("tenths", "c", "d"), ("mean", "a", "b")}
        assert ("tenths", "c", "d") in {one.names for one in schema_of(frame).relations}

    def test_masked_cells_say_nothing(self, tmp_path: Path) -> None:
        frame = columns()[["net", "tax", "gross"]]
        frame.loc[100:, "gross"] = 7.0
        mask = pd.DataFrame(1, index=frame.index, columns=frame.columns)
        mask.loc[100:, "gross"] = 0
        for name, one in (("t", frame), ("m", mask)):
            one.to_csv(tmp_path / f"{name}.csv", index=False)
        data = [str(tmp_path / "t.csv")]
        assert len(schema_alone(read_table(data, mask=str(tmp_path / "m.csv"))).relations) == 1
        assert schema_alone(read_table(data)).relations == ()


class TestKept:
    frame = columns()
    schema = schema_of(frame)
    true = codes_in(frame, schema)
    at: ClassVar = {name: i for i, name in enumerate(schema.modelled)}

    def filled(self, missing: Bools, seed: int, m: int = 3) -> tuple[Floats, Floats]:
        """Draws of columns that know nothing of each other (rows of the table in another order), before and after."""
        rng = np.random.default_rng(seed)
        drawn = np.stack([np.stack([rng.permutation(column) for column in self.true.T], 1) for _ in range(m)])
        draws = np.where(missing, drawn, self.true)
        after = draws.copy()
        keep_relations(after, np.where(missing, 0.0, self.true), missing, self.schema)
        return draws, after

    def departing(self, values: Floats, name: str) -> Bools:
        """[m, N] which rows depart from the relation of a column."""
        (relation,) = (one for one in self.schema.relations if one.names[0] == name)
        own = values[..., [self.at[each] for each in relation.names]]
        if relation.how == "levels":
            return np.asarray(np.array(relation.codes)[own[..., 1].astype(int)] != own[..., 0])
        most = 0.05001 if relation.rounded else 1e-6
        return np.asarray(np.abs(own @ np.array(relation.weights) - relation.constant) > most)

    @given(seed=st.integers(0, 10**6), share=st.floats(0.05, 1.0))
    def test_rows_keep_to_every_relation(self, seed: int, share: float) -> None:
        missing = np.random.default_rng(seed).random(self.true.shape) < share
        draws, after = self.filled(missing, seed)
        assert np.array_equal(np.broadcast_to(self.true, after.shape)[:, ~missing], after[:, ~missing])
        for name in ("fahrenheit", "sent", "iso", "number", "gross"):  # where a part exceeds the total, both parts move
            assert not self.departing(after, name).any()
        assert (after[..., self.at["tax"]] >= 0).all() and (after[..., self.at["net"]] >= 0).all()
        own = [self.at[name] for relation in self.schema.relations for name in relation.names]
        free = missing & ~np.isin(np.arange(missing.shape[1]), own)
        assert np.array_equal(draws[:, free], after[:, free])

    def test_what_the_other_cells_say_is_computed(self) -> None:
        for name in ("gross", "net", "tax", "fahrenheit", "sent", "ordered", "iso", "number"):
            missing = np.zeros(self.true.shape, bool)
            missing[:, self.at[name]] = True
            _, after = self.filled(missing, 0)
            assert np.allclose(after, self.true, rtol=0, atol=1e-9), name

    def test_all_but_one_stay_as_they_were_drawn(self) -> None:
        missing = np.zeros(self.true.shape, bool)
        missing[:, [self.at["net"], self.at["tax"], self.at["gross"]]] = True
        draws, after = self.filled(missing, 0)
        same = draws[..., [self.at["net"], self.at["tax"]]] == after[..., [self.at["net"], self.at["tax"]]]
        assert same.all()  # the total, which varies most, is computed
        assert np.allclose(after[..., self.at["gross"]], after[..., self.at["net"]] + after[..., self.at["tax"]])

    def test_a_cell_whose_rounded_sum_is_known_keeps_its_draw_where_that_agrees(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"net": rng.gamma(2, 20_000, N).round(2), "x": rng.normal(size=N)})
        frame["thousands"] = (frame.net / 1000).round(1)
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, 0] = True
        draws = np.repeat(true[None], 2, 0)
        draws[0, :, 0] += 1e6  # far off
        draws[1, :, 0] = 1000 * true[:, 2] + rng.uniform(-49, 49, N).round(2)  # another number of that many thousands
        before = draws.copy()
        keep_relations(draws, true, missing, schema)
        assert np.array_equal(draws[1], before[1])
        away = draws[0, :, 0] - 1000 * true[:, 2]
        assert np.abs(away).max() <= 50.011  # wherever it lay between two of them, not at an end
        assert np.abs(away).mean() < 40

    def test_cells_that_cannot_go_together_stay_as_they_were_drawn(self) -> None:
        observed = self.true.copy()
        observed[:, self.at["gross"]] = -5.0  # no two positive parts add up to that
        missing = np.zeros(self.true.shape, bool)
        missing[:, [self.at["net"], self.at["tax"]]] = True
        draws = self.true[None].copy()
        before = draws.copy()
        keep_relations(draws, observed, missing, self.schema)
        assert np.array_equal(draws, before)

    def test_levels_that_no_row_has_together_stay_as_they_were_drawn(self) -> None:
        frame = columns()[["country", "iso", "net"]]
        apart = frame.assign(iso=frame.iso.where(frame.country != "it"), net=frame.net)
        apart.loc[:9, "iso"], apart.loc[:9, "country"] = "i380", None
        schema = schema_of(apart)
        (relation,) = schema.relations
        assert relation.codes == (1, 0, None)
        missing = np.ones((3, 3), bool)
        draws = np.array([[[2.0, 2.0, 5.0], [2.0, 1.0, 5.0], [0.0, 2.0, 5.0]]])  # country, iso, net
        keep_relations(draws, draws[0], missing, schema)
        assert draws[0, :, :2].tolist() == [[2.0, 2.0], [2.0, 1.0], [0.0, 2.0]]


def products(seed: int = 0, n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"height": rng.normal(172, 9, n).round(0), "weight": rng.normal(75, 12, n).round(1)})
    frame["bmi"] = (frame.weight / (frame.height / 100) ** 2).round(1)
    frame["price"], frame["count"] = rng.gamma(3, 7, n).round(2), rng.poisson(2, n)
    frame["amount"] = (frame.price * frame["count"]).round(2)
    return frame


class TestProducts:
    frame = products()
    schema = schema_of(frame)
    true = codes_in(frame, schema)
    at: ClassVar = {name: i for i, name in enumerate(schema.modelled)}

    @pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
    def test_they_are_found(self, share: float) -> None:
        words = [relation.words() for relation in schema_of(holed(self.frame, 3, share)).relations]
        assert words == ["'bmi' = 10000 × 'weight' / 'height'^2, rounded", "'amount' = 'price' × 'count'"]

    def test_what_is_nearly_one_is_not(self) -> None:
        noisy = self.frame.assign(bmi=self.frame.bmi * np.random.default_rng(0).normal(1, 0.01, len(self.frame)))
        schema, notes = infer_schema(from_frame(noisy))
        assert [relation.names[0] for relation in schema.relations] == ["amount"]
        assert not any("bmi" in note for note in notes)

    @given(seed=st.integers(0, 10**6), share=st.floats(0.05, 1.0))
    def test_fills_keep_to_them(self, seed: int, share: float) -> None:
        rng = np.random.default_rng(seed)
        missing = rng.random(self.true.shape) < share
        drawn = np.stack([rng.permutation(column) for column in self.true.T], 1)[None]
        draws = np.where(missing, drawn, self.true)
        after = draws.copy()
        keep_relations(after, np.where(missing, 0.0, self.true), missing, self.schema)
        assert np.array_equal(after[0][~missing], self.true[~missing])
        filled = dict(zip(self.schema.modelled, after[0].T, strict=True))
        hole = dict(zip(self.schema.modelled, missing.T, strict=True))
        away = np.abs(filled["bmi"] - 10000 * filled["weight"] / filled["height"] ** 2)
        assert (away[hole["bmi"] | ~hole["height"]] <= 0.0501).all()  # else no height may fit the other two
        away = np.abs(filled["amount"] - filled["price"] * filled["count"])
        both = hole["price"] & hole["count"] & ~hole["amount"]
        assert (away[~both] <= 1e-6).all()
        able = both & (filled["amount"] > 0) & (filled["count"] > 0)  # a price in cents, a number drawn before
        assert (away[able] <= 0.005001 * filled["count"][able]).all()
        assert (filled["count"] >= 0).all() and (filled["price"] > 0).all()

    def test_a_cell_that_is_divided_by_nothing_stays_as_it_was_drawn(self) -> None:
        missing = np.zeros(self.true.shape, bool)
        missing[:, self.at["price"]] = True
        draws = self.true[None] + 0.0
        draws[..., self.at["price"]] = 5.0
        keep_relations(draws, self.true, missing, self.schema)
        none = self.true[:, self.at["count"]] == 0
        assert none.sum() > 20 and (draws[0, none, self.at["price"]] == 5.0).all()
        assert np.allclose(draws[0, ~none, self.at["price"]], self.true[~none, self.at["price"]])


def kept(frame: pd.DataFrame, missing: pd.DataFrame, schema: Schema, m: int = 2) -> list[pd.DataFrame]:
    """Codes of the rows of a frame, holes drawn from the values of their columns, after the relations are kept."""
    true = codes_in(frame, schema)
    holes = missing[list(schema.modelled)].to_numpy()
    rng = np.random.default_rng(0)
    draws = np.stack([np.where(holes, np.stack([rng.permutation(c) for c in true.T], 1), true) for _ in range(m)])
    keep_relations(draws, np.where(holes, 0.0, true), holes, schema)
    assert np.array_equal(draws[:, ~holes], np.broadcast_to(true, draws.shape)[:, ~holes])
    return [pd.DataFrame(draw, columns=schema.modelled) for draw in draws]


def hidden(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    return pd.DataFrame({name: np.full(len(frame), name in names) for name in frame})


class TestHardTables:
    def test_numbers_of_full_precision_that_repeat_are_computed_in_full(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"net": rng.gamma(2, 20, N), "tax": np.where(rng.random(N) < 0.3, 0, rng.gamma(2, 9, N))})
        frame["gross"] = frame.net + frame.tax
        items = rng.integers(0, 11, (N, 3))
        frame["a"], frame["b"], frame["c"] = items.T.astype(float)
        frame["mean"] = items.mean(1)
        frame["city"] = np.array(list("uvw"))[rng.integers(0, 3, N)]
        frame["gdp"] = frame.city.map({"u": 9877.945678123, "v": 1234.567891011, "w": 31.4159265358})
        schema = schema_of(frame)
        by = {relation.names[0]: relation for relation in schema.relations}
        assert set(by) == {"gross", "mean", "gdp"} and by["mean"].words() == "'mean' = 1/3 'a' + 1/3 'b' + 1/3 'c'"
        for name in ("net", "tax", "gross", "mean", "gdp"):
            for filled in kept(frame, hidden(frame, name), schema):
                assert np.allclose(filled[name], frame[name], rtol=1e-12, atol=1e-12), name

    def test_fills_of_a_run_have_all_their_digits(self, tmp_path: Path) -> None:
        import vgi_cli

        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {"a": rng.integers(0, 11, 150), "b": rng.integers(0, 11, 150), "c": rng.integers(0, 11, 150)}
        )
        frame["mean"] = frame.mean(axis=1)
        settings = {"model.components": 1, "bootstrap": 1}
        run = vgi_cli.fit(holed(frame, 2, 0.3), out=tmp_path / "run", model="mixture", set=settings)
        for point in (None, "median"):
            for filled in run.impute(m=2, point=point):
                assert np.allclose(filled["mean"], filled[["a", "b", "c"]].mean(axis=1), rtol=0, atol=1e-12)
        new = pd.DataFrame({"a": [3.5], "b": [2.25], "c": [4.0], "mean": [np.nan]})
        assert run.impute(new, m=1)[0]["mean"].tolist() == [3.25]

    def test_new_rows_are_taken_as_they_are(self, tmp_path: Path) -> None:
        import vgi_cli

        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"base": 50 * rng.integers(1, 20, 150), "extra": rng.choice([0, 10, 50], 150)})
        frame["total"] = frame.base + frame.extra
        settings = {"model.components": 1, "bootstrap": "none"}
        run = vgi_cli.fit(holed(frame, 2, 0.2), out=tmp_path / "run", model="mixture", set=settings)
        new = pd.DataFrame({"base": [100, 120, 1234], "extra": [30, 10, 50], "total": [None, None, None]}, dtype=float)
        said: list[str] = []
        totals = run.impute(new, m=1, say=said.append)[0].total.tolist()
        assert totals[:2] == [130, 130]
        assert totals[2] % 10 == 0  # all totals of the fit are tens
        left = "left as drawn, since the search found no fills (there may be some)"
        why = f"{left} that suit the limits of their columns, observed cells and all such rules"
        rule = "not kept: 'total' = 'base' + 'extra' (1 row)"
        assert f"1 filled row does not keep to what holds in every row of the fit: it is {why}; {rule}" in said
        run.impute(new, m=3, say=said.append)
        kept = "do not keep to what holds in every row of the fit"
        assert (
            f"3 rows of the 3 filled tables together {kept}: they are {why}; {rule.replace('1 row', '3 rows')}" in said
        )

    def test_sums_that_share_missing_cells_hold_together(self) -> None:
        rng = np.random.default_rng(0)
        for order in (
            ["total", "a", "b", "c", "sub"],
            ["a", "b", "c", "total", "sub"],
            ["a", "b", "c", "sub", "total"],
        ):
            frame = pd.DataFrame(rng.gamma(2, 10, (N, 3)).round(2), columns=list("abc"))
            frame["sub"], frame["total"] = (frame.a + frame.b).round(2), (frame.a + frame.b + frame.c).round(2)
            frame = frame[order]
            schema = schema_of(frame)
            for filled in kept(frame, hidden(frame, "a", "b", "c"), schema):
                assert np.allclose(filled.c, frame.c) and np.allclose(filled.a + filled.b, frame["sub"])
        u, v = rng.gamma(2, 10, (2, N)).round(2)
        frame = pd.DataFrame({"u": u, "v": v, "sum": (u + v).round(2), "less": (u - v).round(2)})
        for filled in kept(frame, hidden(frame, "u", "v"), schema_of(frame)):
            assert np.allclose(filled.u, u) and np.allclose(filled.v, v)

    def test_exact_relations_come_before_rounded_ones(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"c": rng.normal(15, 8, N).round(2)})
        frame["f"], frame["k"] = (1.8 * frame.c + 32).round(1), (frame.c + 273.15).round(2)
        for filled in kept(frame, hidden(frame, "c"), schema_of(frame)):
            assert np.allclose(filled.c, frame.c)
        frame = pd.DataFrame({"x": rng.gamma(2, 20_000, N).round(0)})
        frame["tenths"], frame["cents"] = (frame.x / 1000).round(1), (frame.x / 1000).round(2)
        for filled in kept(frame, hidden(frame, "x"), schema_of(frame)):
            assert (np.abs(filled.x / 1000 - frame.cents) <= 0.00501).all()

    @pytest.mark.parametrize("size", [1e200, 1e-200])
    def test_numbers_of_any_size(self, size: float) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.normal(size=N) * size, "z": rng.normal(size=N)})
        frame["y"] = 2 * frame.x
        (relation,) = schema_of(frame).relations
        assert relation.words() == "'y' = 2 'x'"

    def test_a_part_that_is_small_is_a_part(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"net": rng.gamma(2, 6000, N).round(2), "fee": rng.choice([0, 4.9, 9.9], N)})
        frame["total"] = (frame.net + frame.fee).round(2)
        assert [one.words() for one in schema_of(frame).relations] == ["'total' = 'net' + 'fee'"]
        men = rng.lognormal(13, 1, N).round(0)
        frame = pd.DataFrame({"men": men, "women": (men * rng.normal(1.01, 0.005, N)).round(0)})
        frame["people"] = frame.men + frame.women
        assert "'people' = 'men' + 'women'" in [one.words() for one in schema_of(frame).relations]

    def test_the_tightest_relation_says_what_a_cell_is(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"kg": rng.normal(800, 60, N).round(0), "truck": rng.gamma(3, 3, N).round(2)})
        lb, tons = Relation(names=("lb", "kg"), weights=(1.0, -2.2), rounded=True), (1.0, -0.0005, -1.0)
        frame["lb"] = (2.2 * frame.kg).round(0)
        frame["gross"] = (frame.truck + frame.lb / 2000).round(2)
        gross = Relation(names=("gross", "lb", "truck"), weights=tons, rounded=True)
        schema = replace(schema_of(frame), relations=(gross, lb))  # which says lb to the next ten
        for filled in kept(frame, hidden(frame, "lb"), schema):
            assert np.array_equal(filled.lb, frame.lb)

    def test_large_numbers_that_differ_by_little_are_not_the_same(self) -> None:
        rng = np.random.default_rng(0)
        start = 1.7e12 + rng.integers(0, 10**10, 300)
        assert schema_of(pd.DataFrame({"start": start, "end": start + rng.integers(1, 15, 300)})).relations == ()
        x = rng.normal(size=300).round(2)
        frame = pd.DataFrame({"x": x, "y": (x + 1e9 + rng.choice([0, 0.03], 300)).round(2)})
        assert schema_of(frame).relations == ()

    @pytest.mark.parametrize("seed", range(4))
    def test_exact_sums_are_not_shadowed_by_rounded_ones_of_fewer_columns(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"net": rng.gamma(2, 20, N).round(2)})
        frame["vat"] = (0.19 * frame.net).round(2)
        frame["gross"] = (frame.net + frame.vat).round(2)
        frame["disc"] = (0.03 * frame.gross).round(2)
        frame["pay"] = (frame.gross - frame.disc).round(2)
        schema = schema_of(frame)
        words = {relation.words() for relation in schema.relations}
        assert {"'gross' = 'net' + 'vat'", "'pay' = 'net' + 'vat' - 'disc'"} <= words
        for filled in kept(frame, hidden(frame, "pay"), schema):
            assert np.allclose(filled.pay, frame.pay)

    @pytest.mark.parametrize("seed", range(4))
    def test_columns_that_nearly_say_the_same_are_no_junk_in_a_sum(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"a": rng.gamma(2, 20, N).round(2), "b": rng.gamma(2, 10, N).round(2)})
        frame["x"], frame["c"] = (frame.a + frame.b).round(1), rng.normal(50, 9, N).round(1)
        frame["y"] = (frame.x + frame.c).round(0)
        words = {relation.words() for relation in schema_of(frame).relations}
        assert words == {"'x' = 'a' + 'b', rounded", "'y' = 'x' + 'c', rounded"}

    def test_small_weights_beside_large_ones_do_not_drop_out(self) -> None:
        rng = np.random.default_rng(0)
        k, size = rng.integers(0, 50, (2, 400)), rng.integers(0, 10**7, (2, 400))
        frame = pd.DataFrame({"k": k[0], "l": k[1], "s": size[0], "u": size[1]})
        frame["A"] = 1e10 * frame.k + 1e10 * frame.l + frame.s
        frame["B"] = 2e10 * frame.l - 1e10 * frame.k + frame.s + frame.u
        for filled in kept(frame, hidden(frame, "k"), schema_of(frame)):
            assert np.array_equal(filled.k, frame.k)
        for filled in kept(frame, hidden(frame, "k", "s"), schema_of(frame)):
            assert np.allclose(filled.A, 1e10 * filled.k + 1e10 * filled.l + filled.s, rtol=1e-9)

    def test_one_large_row_makes_no_relation(self) -> None:
        for seed in range(5):
            rng = np.random.default_rng(seed)
            frame = pd.DataFrame(rng.lognormal(size=(60, 2)).round(3), columns=["a", "b"])
            frame.loc[7] = [1e11, 3e11]
            assert schema_of(frame).relations == ()

    def test_what_is_determined_may_be_beyond_what_the_values_suggest_but_not_beyond_what_was_asked_for(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"a": rng.poisson(20, N) + 1, "b": rng.poisson(3, N) + 1})
        frame["sum"] = frame.a + frame.b
        missing = hidden(frame, "b")
        for bounds, filled in (({}, 0.0), ({"b": "1:"}, 4.0)):
            schema, _ = infer_schema(from_frame(frame), bounds=bounds)
            true = codes_in(frame, schema)
            true[0] = [20, 4, 20]  # no zero was observed
            draws = true[None] + 0.0
            apart = keep_relations(draws, np.where(missing, 0.0, true), missing.to_numpy(), schema).count()
            assert (draws[0, 0, 1], apart) == (filled, int(bounds != {}))

    def test_a_limit_is_met_in_spite_of_rounding_errors(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.gamma(2, 1, (N, 7)), columns=[f"p{i}" for i in range(7)])
        frame["z"] = np.where(np.arange(N) < 4, 0.0, rng.gamma(2, 1, N))
        frame["t"] = frame.sum(axis=1)
        for filled in kept(frame, hidden(frame, "z"), schema_of(frame)):
            assert np.allclose(filled.z, frame.z, rtol=0, atol=1e-12) and (filled.z >= 0).all()


def shares(seed: int = 0, n: int = 300) -> pd.DataFrame:
    """Percentages of one decimal that add up to 100 but for their rounding."""
    parts = 100 * np.random.default_rng(seed).dirichlet([4, 3, 2, 1], n)
    return pd.DataFrame(parts.round(1), columns=list("abcd"))


class TestRoundedParts:
    def test_shares_add_up_as_far_as_they_are_rounded(self) -> None:
        frame = shares()
        off = (frame.sum(axis=1) - 100).abs()
        assert off.max() == pytest.approx(0.1)
        schema = schema_of(holed(frame))
        (found,) = schema.relations
        assert found.words() == "'d' = 100 - 'a' - 'b' - 'c', as all are rounded" and found.slack == pytest.approx(0.15)
        assert departures(from_frame(frame), schema) == [0]
        for names in (("a",), ("d",), ("b", "c"), tuple("abcd")):
            for filled in kept(frame, hidden(frame, *names), schema):
                assert ((filled.sum(axis=1) - 100).abs() <= 0.2 + 1e-9).all()
        assert departures(from_frame(frame.assign(a=frame.a + 0.3 * (np.arange(300) == 5))), schema) == [1]

    def test_a_unit_that_was_rounded_on_its_own(self) -> None:
        x = np.random.default_rng(0).normal(70, 12, 400)
        frame = pd.DataFrame({"kg": x.round(1), "lb": (2.2046 * x).round(1), "x": x[::-1].round(1)})
        (found,) = schema_of(frame).relations
        assert found.names == ("lb", "kg") and 0.05 < found.slack < 0.2
        for filled in kept(frame, hidden(frame, "lb"), schema_of(frame)):
            assert (filled.lb - frame.lb).abs().max() <= 0.2 + 1e-9

    def test_what_is_off_by_more_than_rounding_is_none(self) -> None:
        rng = np.random.default_rng(1)
        frame = shares()
        assert schema_of(frame.assign(d=(frame.d + rng.normal(0, 0.2, 300)).round(1))).relations == ()

    def test_what_varies_more_than_rounding_is_not_rounded(self) -> None:
        """Two columns in the same units that were rounded differ by two neighbouring numbers at most."""
        rng = np.random.default_rng(4)
        x = rng.normal(20, 5, 300).round(1)
        days = pd.Timestamp("2022-01-03") + pd.to_timedelta(rng.integers(0, 900, 300), "D")
        for share in ([0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]):
            apart = rng.choice([-0.1, 0.0, 0.1], 300, p=share)
            relations = schema_of(pd.DataFrame({"a": x, "b": (x + apart).round(1)})).relations
            assert all(one.apart for one in relations)
        for count in (2, 3):
            later = days + pd.to_timedelta(rng.integers(0, count, 300), "D")
            schema = schema_of(pd.DataFrame({"ordered": days, "delivered": later, "x": x}))
            assert schema.relations == () and len(schema.orders) == 1
        three = pd.DataFrame(rng.normal(50, 10, (300, 2)).round(), columns=["a", "b"])
        sum_off = three.assign(c=three.a + three.b + rng.integers(-1, 2, 300))
        assert schema_of(sum_off).relations == ()

    def test_two_units_with_one_scale_differ_as_often_by_each_number_as_they_did(self) -> None:
        """Degrees Celsius and kelvins, each rounded: the sum lies at the mean of what they differ by."""
        rng = np.random.default_rng(5)
        x = rng.normal(15, 30, 2_000)
        frame = pd.DataFrame({"celsius": x.round().astype(int), "kelvin": (x + 273.15).round().astype(int)})
        schema = schema_of(frame)
        (relation,) = schema.relations
        assert relation.rounded and relation.slack == 0.5 and abs(relation.constant - 273.15) < 0.04
        true, holes = codes_in(frame, schema), hidden(frame, "kelvin").to_numpy()
        u = rng.random((1, len(frame)))
        for far in (0.4, 500.0):  # draws that are as precise as rounding is, and others
            draws = np.where(holes, np.rint(true[:, :1] + 273.15 + far * rng.normal(size=true.shape)), true)[None]
            assert keep_relations(draws, np.where(holes, 0.0, true), holes, schema, lambda _: u).count() == 0
            apart = draws[0, :, 1] - draws[0, :, 0]
            assert set(apart.tolist()) == {273.0, 274.0} and 0.05 < (apart == 274).mean() < 0.35

    def test_a_draw_that_rounding_explains_stays(self) -> None:
        x = np.random.default_rng(0).normal(70, 12, 400)
        frame = pd.DataFrame({"kg": x.round(1), "lb": (2.2046 * x).round(1)})
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        for name in frame:
            holes = hidden(frame, name).to_numpy()
            draws = true[None].copy()
            assert keep_relations(draws, np.where(holes, 0.0, true), holes, schema).count() == 0
            assert (np.abs(draws[0] - true) < 1e-9).all(1).mean() > 0.95

    @pytest.mark.parametrize("parts", [(2, 1), (1, 1, 1)])
    def test_means_of_whole_numbers(self, parts: tuple[int, ...]) -> None:
        rng = np.random.default_rng(2)
        x = rng.integers(40, 100, (400, len(parts)))
        frame = pd.DataFrame(x, columns=list("abc")[: len(parts)])
        frame["mean"] = np.rint(x @ parts / sum(parts)).astype(int)
        schema = schema_of(holed(frame, share=0.1))
        assert [one.rounded for one in schema.relations] == [True] and not schema.relations[0].slack
        for filled in kept(frame, hidden(frame, "mean"), schema):
            assert np.array_equal(filled["mean"], frame["mean"])

    @pytest.mark.parametrize("seeds", first(1, [range(5), range(5, 10)]))
    def test_dice_make_no_relation(self, seeds: range) -> None:
        """Of whole numbers from 1 to 6, or smooth ones in whole units, nothing holds but by chance."""
        for seed in seeds:
            rng = np.random.default_rng(seed)
            dice = rng.integers(1, 7, (150, 6))
            near = (10 + rng.normal(0, 2, (150, 1)) + rng.normal(0, 0.4, (150, 6))).round(0).astype(int)
            assert schema_of(pd.DataFrame(np.c_[dice, near], columns=[f"x{i}" for i in range(12)])).relations == ()


class TestFewApart:
    """Deliveries some days after orders, and two instruments that differ by a digit at most."""

    def days(self, shares: tuple[float, ...], least: int = 1, n: int = 300) -> pd.DataFrame:
        rng = np.random.default_rng(6)
        ordered = pd.Timestamp("2022-01-03") + pd.to_timedelta(rng.integers(0, 900, n), "D")
        later = ordered + pd.to_timedelta(least + rng.choice(len(shares), n, p=shares), "D")
        return pd.DataFrame({"ordered": ordered, "delivered": later})

    def test_few_days_apart(self) -> None:
        frame = self.days((0.1, 0.2, 0.7))
        schema = schema_of(frame)
        (relation,) = schema.relations
        assert relation.names == ("delivered", "ordered") and len(set(relation.apart)) == 3
        assert "'delivered' is as far from 'ordered' as was seen" in kept_words(schema)[0]
        true, u = codes_in(frame, schema) / relation.slack, np.random.default_rng(7).random((40, len(frame)))
        shift = true[:, 1] - true[:, 0] - (frame.delivered - frame.ordered).dt.days.to_numpy()
        for names in (("delivered",), ("ordered",), ("ordered", "delivered")):
            holes = hidden(frame, *names).to_numpy()
            noise = np.random.default_rng(8).normal(0, 3, (40, *true.shape)).round()
            draws = np.where(holes, true + noise, true)
            inside = np.abs(draws[..., 1] - draws[..., 0] - shift - 2) <= 1
            after, observed = draws * relation.slack, np.where(holes, 0.0, true * relation.slack)
            assert keep_relations(after, observed, holes, schema, lambda _: u).count() == 0
            after = after / relation.slack
            days = after[..., 1] - after[..., 0] - shift
            assert set(days.ravel().tolist()) == {1.0, 2.0, 3.0} and np.array_equal(after[inside], draws[inside])
            others = [(days[~inside] == day).mean() for day in (1, 2, 3)]  # drawn as those that were seen
            seen = [(true[:, 1] - true[:, 0] - shift == day).mean() for day in (1, 2, 3)]
            np.testing.assert_allclose(others, seen, rtol=0, atol=0.03)
        after = draws * relation.slack  # without random numbers they lie there all the same
        assert keep_relations(after, observed, holes, schema).count() == 0
        days = (after[..., 1] - after[..., 0]) / relation.slack - shift
        assert all((days[~inside] == day).mean() > 0.2 for day in (1, 2, 3))
        assert departures(from_frame(frame.assign(delivered=frame.delivered + pd.Timedelta("4D"))), schema) == [300]

    @pytest.mark.parametrize("days", [5, 7])
    def test_up_to_seven_days_apart(self, days: int) -> None:
        """Also where one date leaves more of the other than rounding does."""
        frame = self.days((1 / days,) * days, n=500)
        (relation,) = schema_of(frame).relations
        assert relation.names == ("delivered", "ordered") and len(set(relation.apart)) == days
        assert schema_of(self.days((1 / 8,) * 8, n=500)).relations == ()

    def test_numbers_that_are_a_few_apart(self) -> None:
        rng = np.random.default_rng(9)
        x = rng.integers(0, 200, 500)
        frame = pd.DataFrame({"z": rng.normal(0, 1, 500), "a": x, "b": x + rng.integers(1, 8, 500)})
        assert [one.words() for one in schema_of(frame).relations] == ["'b' - 'a' is from 1 to 7"]
        few = pd.DataFrame({"a": rng.integers(0, 5, 500), "b": rng.integers(0, 4, 500)})  # never 7 apart, by themselves
        assert schema_of(few).relations == ()

    def test_numbers_that_differ_by_a_digit(self) -> None:
        rng = np.random.default_rng(9)
        x = rng.normal(20, 5, 300).round(1)
        frame = pd.DataFrame({"a": x, "b": (x + rng.choice([-0.1, 0, 0.1], 300)).round(1)})
        schema = schema_of(frame)
        assert [one.words() for one in schema.relations] == ["'b' - 'a' is from -0.1 to 0.1"]
        for filled in kept(frame, hidden(frame, "b"), schema):
            assert ((filled.b - filled.a).abs() < 0.1 + 1e-9).all()

    def test_a_run_folder_keeps_them(self) -> None:
        schema = schema_of(self.days((0.1, 0.2, 0.7)))
        assert Schema.from_json(schema.to_json()).relations == schema.relations
        good = {"names": ("b", "a"), "weights": (1.0, -1.0), "rounded": True, "slack": 1.0, "apart": (1.0, 2.0)}
        Relation(**good)
        for bad in ({"apart": (2.0, 1.0)}, {"slack": 0.0}, {"weights": (1.0, 1.0)}, {"rounded": False}):
            with pytest.raises(ValueError, match="does not fit its columns"):
                Relation(**{**good, **bad})

    def test_what_has_no_end_makes_none(self) -> None:
        """A tail, in which the next day was not seen by chance; and gaps of which no day is an end."""
        for shares in ((0.7, 0.25, 0.05), (0.05, 0.25, 0.4, 0.25, 0.05), (0.5, 0.0, 0.5), (1 / 9,) * 9):
            assert schema_of(self.days(shares, n=100 if len(shares) < 9 else 900)).relations == ()

    def test_days_from_none_on_are_an_order(self) -> None:
        schema = schema_of(self.days((0.6, 0.3, 0.1), least=0))
        assert schema.relations == () and [one.words() for one in schema.orders] == ["'ordered' ≤ 'delivered'"]


def test_no_column_is_twice_part_of_a_sum() -> None:
    """Where half of the cells are missing, no column may be left that enough rows have beside the others."""
    y, x = np.random.default_rng(0).normal(size=(2, 60))
    y[20:] = np.nan
    lone = np.where(np.arange(60) < 40, np.nan, x)
    assert [parts for parts, _ in _parts(y, np.column_stack([x, lone]))] == [[0]]


def test_correlations_are_those_of_the_rows_with_both_cells() -> None:
    """Also far from zero, and where a column is constant in these rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5))
    x[:, 1] += 1e7
    y = x[:, 0] + 1e-4 * x[:, 1] + rng.normal(size=60)
    x[rng.random(x.shape) < 0.3], y[rng.random(60) < 0.3] = np.nan, np.nan
    x[~np.isnan(y), 3] = 4.0
    x[9:, 4] = np.nan  # too few rows
    (found,) = ByPairs.of(x).correlations(ByPairs.of(y[:, None]))
    for j in range(3):
        both = ~np.isnan(x[:, j]) & ~np.isnan(y)
        assert found[j] == pytest.approx(abs(np.corrcoef(x[both, j], y[both])[0, 1]), abs=1e-9)
    assert found[3] == 0.0 and found[4] == -1.0


@pytest.mark.parametrize("seed", [39, 69, 82])
def test_columns_that_go_together_closely_make_no_relation(seed: int) -> None:
    """Two factors behind all columns, which are rounded in several ways: odd weights would fit every row."""
    kinds: list[Callable[[Floats], Floats]] = [
        np.rint,
        lambda v: np.clip(np.rint(3 + v), 1, 5),
        lambda v: np.exp(v).round(2),
        lambda v: v.round(1),
        lambda v: (10 * v).round(),
    ]
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 15)) + 0.05 * rng.normal(size=(100, 15))
    frame = pd.DataFrame({f"x{j}": kinds[rng.integers(0, 5)](x[:, j]) for j in range(15)})
    assert schema_of(frame).relations == ()


def correlated(others: int, n: int) -> pd.DataFrame:
    """A mean and a ratio among many columns that go together, where hardly a row has all."""
    rng = np.random.default_rng(10)
    z = rng.normal(size=n)
    y = [(50 + 8 * z + rng.normal(0, 6, n)).round(1) for _ in range(3)]
    frame = pd.DataFrame({f"y{i}": part for i, part in enumerate(y)}).assign(mean=(sum(y) / 3).round(2))
    frame["people"] = np.exp(5 + 0.4 * z + rng.normal(0, 0.3, n)).round()
    frame["events"] = rng.binomial(frame.people.astype(int), 0.3)
    frame["rate"] = (frame.events / frame.people).round(3)
    return frame.assign(**{f"n{j}": (20 + z + rng.normal(0, 0.8, n)).round(2) for j in range(others)})


@pytest.mark.parametrize("seed", first(1, [0, 2]))
def test_they_are_found_among_columns_that_go_together(seed: int) -> None:
    frame = correlated(25, 800)
    found = holed(frame, seed, share=0.15)
    assert found.notna().all(axis=1).sum() < 2 * frame.shape[1]
    assert [one.words() for one in schema_of(found).relations] == [
        "'mean' = 1/3 'y0' + 1/3 'y1' + 1/3 'y2', rounded",
        "'rate' = 'events' / 'people', rounded",
    ]


class TestSigns:
    def test_factors_may_be_negative(self) -> None:
        rng = np.random.default_rng(3)
        frame = pd.DataFrame(
            {"number": rng.choice([-3, -2, -1, 1, 2, 3, 4], 400), "price": np.exp(rng.normal(3, 0.5, 400))}
        )
        frame["price"] = frame.price.round(2)
        frame["total"] = (frame.number * frame.price).round(2)
        schema = schema_of(holed(frame, share=0.1))
        assert [one.words() for one in schema.relations] == ["'total' = 'number' × 'price'"]
        for filled in kept(frame, hidden(frame, "total"), schema):
            np.testing.assert_allclose(filled.total, frame.total, atol=1e-9)
        for filled in kept(frame, hidden(frame, "price"), schema):
            np.testing.assert_allclose(filled.price, frame.price, atol=1e-9)
        for filled in kept(frame, hidden(frame, "price", "total"), schema):
            np.testing.assert_allclose(filled.total, filled.number * filled.price, atol=0.00501)

    def test_a_rounded_ratio_keeps_its_side_of_zero(self) -> None:
        rng = np.random.default_rng(4)
        frame = pd.DataFrame({"base": rng.normal(50, 10, 400).round(1), "change": rng.normal(0, 5, 400).round(1)})
        frame["percent"] = (100 * frame.change / frame.base).round(1)
        schema = schema_of(holed(frame, share=0.1))
        assert [one.words() for one in schema.relations] == ["'percent' = 100 × 'change' / 'base', rounded"]
        for filled in kept(frame, hidden(frame, "change"), schema):
            assert (np.abs(100 * filled.change / frame.base - frame.percent) <= 0.0501).all()

    @pytest.mark.parametrize("decimals", [1, 3])
    def test_the_square_of_what_has_both_signs(self, decimals: int) -> None:
        """The square is computed; a root has the sign of its draw, for the square does not tell it."""
        x = np.random.default_rng(5).normal(0, 10, 400).round(decimals)
        frame = pd.DataFrame({"x": x, "square": (x**2).round(2 * decimals)})
        schema = schema_of(holed(frame, share=0.1))
        assert [one.words() for one in schema.relations] == ["'square' = 'x'^2"]
        for filled in kept(frame, hidden(frame, "square"), schema):
            np.testing.assert_allclose(filled.square, frame.square, atol=1e-9)
        for filled in kept(frame, hidden(frame, "x"), schema):
            np.testing.assert_allclose(filled.x.abs(), frame.x.abs(), atol=1e-9)
            assert 0.3 < (filled.x < 0).mean() < 0.7
        for filled in kept(frame, hidden(frame, "x", "square"), schema):
            np.testing.assert_allclose(filled.square, filled.x**2, atol=1e-9)
            assert not np.allclose(filled.x, frame.x) and (filled.x < 0).any() and (filled.x > 0).any()

    def test_no_cube_of_what_has_both_signs(self) -> None:
        x = np.random.default_rng(5).normal(0, 10, 400).round(1)
        assert schema_of(pd.DataFrame({"x": x, "cube": (x**3).round(3)})).relations == ()

    def test_the_power_of_a_squared_rounded_ratio_keeps_its_digits(self) -> None:
        rng = np.random.default_rng(6)
        frame = pd.DataFrame({"z": rng.normal(0, 2, 400).round(2), "w": rng.normal(60, 9, 400).round(1)})
        frame["ratio"] = (frame.w * frame.z**2).round(1)
        schema = schema_of(holed(frame, share=0.1))
        assert [one.words() for one in schema.relations] == ["'ratio' = 'z'^2 × 'w', rounded"]
        for filled in kept(frame, hidden(frame, "z"), schema):
            off = np.abs(filled.w * filled.z**2 - frame.ratio)
            assert (off <= 0.0501 + frame.w * 0.0051 * (2 * frame.z.abs() + 0.0051)).all()


class TestBandsOfSums:
    """A level that follows from a sum or a product leaves room for what the parts can be."""

    @pytest.mark.parametrize("names", [("c", "d", "score"), ("a", "b", "c", "d", "score"), ("d", "score", "high")])
    def test_scores(self, names: tuple[str, ...]) -> None:
        rng = np.random.default_rng(6)
        z = rng.normal(size=(500, 1))
        frame = pd.DataFrame(np.clip((3 + 0.8 * z + rng.normal(0, 0.7, (500, 4))).round(), 1, 5), columns=list("abcd"))
        frame["score"] = frame.sum(axis=1)
        frame["high"] = np.where(frame.score >= 14, "yes", "no")
        schema = schema_of(frame)
        assert [one.how for one in schema.relations] == ["sum", "bands"]
        levels = codes_in(frame, schema)[:, -1]
        for filled in kept(frame, hidden(frame, *names), schema, m=5):
            assert np.array_equal(filled[list("abcd")].sum(axis=1), filled.score)
            assert "high" in names or np.array_equal(filled.high, levels)
            assert np.array_equal(filled.score >= 14, filled.high == levels[frame.score >= 14][0])

    def test_counts_whose_bands_end_between_two_of_them(self) -> None:
        rng = np.random.default_rng(8)
        frame = pd.DataFrame({"a": rng.poisson(6, 400), "b": rng.poisson(6, 400)})
        frame["score"] = frame.a + frame.b
        frame = frame[~frame.score.isin([10, 15])].reset_index(drop=True)
        frame["band"] = pd.cut(frame.score, [-1, 10, 15, 99], labels=list("xyz")).astype(str)
        schema = schema_of(frame)
        assert [one.how for one in schema.relations] == ["sum", "bands"]
        for filled in kept(frame, hidden(frame, "a", "score"), schema, m=10):
            assert np.array_equal(filled.a + filled.b, filled.score)
            assert not departing(schema.relations[1], filled[["band", "score"]].to_numpy(), 0.0).any()

    @pytest.mark.parametrize("names", [("height", "index"), ("weight", "index"), ("height", "weight", "index")])
    def test_mass_indices(self, names: tuple[str, ...]) -> None:
        rng = np.random.default_rng(7)
        height = rng.normal(171, 9, 500).round()
        weight = ((22 + rng.normal(0, 4, 500)) * (height / 100) ** 2).round(1)
        frame = pd.DataFrame({"height": height, "weight": weight, "index": (weight / (height / 100) ** 2).round(1)})
        frame["class"] = pd.cut(frame["index"], [0, 18.5, 25, 30, 99], right=False, labels=list("abcd")).astype(str)
        schema = schema_of(frame)
        assert [one.how for one in schema.relations] == ["product", "bands"]
        for filled in kept(frame, hidden(frame, *names), schema):
            for one, half in zip(schema.relations, (0.05, 0.0), strict=True):
                assert departing(one, filled[list(one.names)].to_numpy(), half).mean() <= 0.004  # heights are whole


class TestNewTables:
    def test_rows_that_depart_are_counted(self) -> None:
        schema = schema_of(columns())
        other = columns(seed=9, n=30)
        other.loc[:4, "gross"] += 1.0
        other.loc[7, "iso"] = "i250" if other.country[7] != "fr" else "i276"
        counts = dict(
            zip((one.names[0] for one in schema.relations), departures(from_frame(other), schema), strict=True)
        )
        assert counts == {"gross": 5, "fahrenheit": 0, "sent": 0, "iso": 1, "number": 0}
        notes = check(from_frame(other), schema)
        assert (
            "'gross' = 'net' + 'tax' in every row of the fit; 5 rows of the table depart from it, and fills keep to it "
            "all the same"
        ) in notes
        assert any("1 row of the table departs from it" in note for note in notes)


class TestJson:
    schema = schema_of(columns())

    def test_relations_survive(self) -> None:
        assert self.schema.relations and Schema.from_json(self.schema.to_json()) == self.schema

    def test_schemas_of_format_3_have_none(self) -> None:
        plain = schema_of(columns(), IGNORED)
        text = plain.to_json().replace('"format": 4', '"format": 3').replace(',\n "relations": []', "")
        assert "relations" not in text and Schema.from_json(text) == plain

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"net",\n    "tax"', '"net",\n    "none"'),
            ('"net",\n    "tax"', '"net",\n    "net"'),
            ('"net",\n    "tax"', '"net",\n    "iso"'),
            ('"weights": [\n    1.0', '"weights": [\n    2.0'),
        ],
    )
    def test_damage_is_named(self, old: str, new: str) -> None:
        text = self.schema.to_json()
        place = text.index('"relations"')
        assert old in text[place:]
        with pytest.raises(RunError, match=r"schema\.json: damaged \(.*relation"):
            Schema.from_json(text[:place] + text[place:].replace(old, new, 1))


def marked(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Points of two tasks, their total, and a mark from 1, the best, to 6."""
    rng = np.random.default_rng(seed)
    tasks = np.clip(np.rint(rng.normal([12, 20], [4, 6], (n, 2))), 0, [20, 30]).astype(int)
    frame = pd.DataFrame(tasks, columns=["first", "second"])
    frame["total"] = frame.sum(axis=1)
    frame["mark"] = 6 - np.searchsorted([15, 24, 31, 38, 44], frame.total, side="right")
    return frame.assign(x=rng.normal(size=n).round(2))


class TestMarks:
    """Few numbers that are intervals of another number."""

    @pytest.mark.parametrize("names", [("mark",), ("total",), ("mark", "total")])
    def test_marks_need_not_be_whole(self, names: tuple[str, ...]) -> None:
        frame = marked().drop(columns=["first", "second"])
        frame["mark"] = frame.mark.map({1: 1.0, 2: 1.7, 3: 2.3, 4: 3.0, 5: 4.0, 6: 5.0})
        schema = schema_of(holed(frame, share=0.1))
        (relation,) = schema.relations
        assert relation.words() == "'mark' follows from 'total'" and 1.7 in relation.codes
        assert Schema.from_json(schema.to_json()).relations == schema.relations
        for filled in kept(frame, hidden(frame, *names), schema):
            assert not departing(relation, filled[["mark", "total"]].to_numpy(), 0.0).any()

    @pytest.mark.parametrize(
        "names", [("mark",), ("total",), ("mark", "total"), ("second", "total"), ("mark", "first")]
    )
    def test_fills_keep_to_them(self, names: tuple[str, ...]) -> None:
        frame = marked()
        schema = schema_of(holed(frame, share=0.1))
        assert [one.words() for one in schema.relations] == [
            "'total' = 'first' + 'second'",
            "'mark' follows from 'total'",
        ]
        assert Schema.from_json(schema.to_json()).relations == schema.relations
        assert schema.relations[1].codes == (6, 5, 4, 3, 2, 1)
        for filled in kept(frame, hidden(frame, *names), schema):
            assert np.array_equal(filled["first"] + filled["second"], filled.total)
            assert not departing(schema.relations[1], filled[["mark", "total"]].to_numpy(), 0.0).any()

    @pytest.mark.parametrize(
        "mark",
        [
            lambda frame: frame.mark.replace({1: 3, 3: 1}),  # neither up nor down
            lambda frame: frame.mark.where(frame.index % 50 != 7, frame.mark % 6 + 1),  # but for more than a few rows
            lambda frame: np.where(frame.total < frame.total.nlargest(2).min(), 3, 2),  # hardly a row says so
        ],
    )
    def test_others_are_none(self, mark: Callable[[pd.DataFrame], Any]) -> None:
        frame = marked().drop(columns=["first", "second"])
        frame["mark"] = mark(frame)
        assert "bands" not in [one.how for one in schema_of(frame).relations]  # each total has a mark of its own

    @pytest.mark.parametrize(
        ("unit", "words"),
        [(10, "the first digits of 'total' are 'ten', the others 0 to 9"), (4, "'ten' = 0.25 'total', rounded")],
    )
    def test_digits_say_more(self, unit: int, words: str) -> None:
        frame = marked().drop(columns=["first", "second", "mark"])
        frame["ten"] = frame.total // unit if unit == 10 else (frame.total / unit + 0.1).round().astype(int)
        assert next(one.words() for one in schema_of(frame).relations) == words

    def test_months_are_those_of_their_date(self) -> None:
        frame = banded().drop(columns=["band", "quarter"])
        frame = frame[frame.day.dt.year == 2021].assign(month=lambda rows: rows.day.dt.month)
        assert [one.words() for one in schema_of(frame).relations] == ["'month' is the month of 'day'"]


BANDS = {"18-24": 18, "25-34": 25, "35-64": 35, "65+": 65}


def banded(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Ages with their bands, and days with their quarters, whose names do not sort as their days do."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    day = pd.Timestamp("2021-01-15") + pd.to_timedelta(rng.integers(0, 500, n), "D")
    band = np.array(list(BANDS))[np.searchsorted(list(BANDS.values()), age, side="right") - 1]
    quarter = [f"Q{(one.month + 2) // 3} {one.year}" for one in day]
    return pd.DataFrame({"band": band, "age": age, "day": day, "quarter": quarter, "x": rng.normal(size=n).round(2)})


class TestBands:
    """Levels that are intervals of a number."""

    @pytest.mark.parametrize("share", [0.0, 0.3])
    def test_they_are_found(self, share: float) -> None:
        schema = schema_of(holed(banded(), share=share))
        ages, days = schema.relations
        assert (ages.names, ages.how, ages.codes) == (("band", "age"), "bands", (0, 1, 2, 3))
        assert all(last < cut <= first for last, cut, first in zip((24, 34, 64), ages.cuts, (25, 35, 65), strict=True))
        assert days.names == ("quarter", "day") and len(days.cuts) == 7
        first = min(banded().day[~holed(banded(), share=share).day.isna()]) if share else min(banded().day)
        starts = [pd.Timestamp(2021, 4, 1), *(pd.Timestamp(2021, m, 1) for m in (7, 10)), pd.Timestamp(2022, 1, 1)]
        assert days.codes[0] is days.codes[-1] is None and list(days.cuts[1:5]) == [
            (one - first).total_seconds() for one in starts
        ]
        assert "'band' follows from 'age'" in kept_words(schema)[0]
        assert Schema.from_json(schema.to_json()).relations == schema.relations

    @pytest.mark.parametrize(
        ("low", "high", "cut"),
        [
            (84, 88, 85),
            (47, 52, 50),
            (0.23, 0.28, 0.25),
            (61.2, 61.4, 61.3),
            (-88, -84, -85),
            (1230, 1280, 1250),
            (-1, 1, 0),
        ],
    )
    def test_a_cut_is_a_round_number(self, low: float, high: float, cut: float) -> None:
        assert _roundest(low, high) == cut

    def test_whole_numbers_lie_in_their_bands_wherever_they_were_drawn(self) -> None:
        """A cut may lie half way between two of them (44.5 for 44 and 45)."""
        frame = banded(3_000).drop(columns=["day", "quarter", "x"])
        frame = frame[~frame.age.isin([35, 65])]  # no number of few digits is between 34 and 36
        schema = schema_of(frame)
        (relation,) = schema.relations
        observed = codes_in(frame, schema)
        missing = np.zeros(observed.shape, bool)
        missing[:, 1] = True
        for age in range(5, 100):
            draws = observed[None].copy()
            draws[..., 1] = age
            assert keep_relations(draws, observed, missing, schema).count() == 0
            assert (relation.said(draws[0, :, 1]) == observed[:, 0]).all()

    def test_a_level_whose_band_is_another_is_counted(self) -> None:
        """The days of a month that the fit has not seen, and a fill that says another one."""
        frame = banded()
        schema = schema_of(frame[frame.day < "2021-10-01"])
        later = frame[frame.day >= "2021-10-01"].head(20).assign(quarter="Q1 2021")
        place = [one.names[0] for one in schema.relations].index("quarter")
        assert departures(from_frame(later), schema)[place] == len(later)

    def test_they_are_found_in_sorted_rows(self) -> None:
        frame = banded(3_000).drop(columns=["day", "quarter"]).sort_values("age", ignore_index=True)
        assert [one.how for one in schema_of(frame).relations] == ["bands"]

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda frame: frame.assign(
                band=frame.band.where(frame.index % 50 != 7, np.where(frame.age < 65, "65+", "18-24"))
            ),
            lambda frame: frame.iloc[:12],
            lambda frame: frame.assign(band=np.where(frame.age < 89, "most", "oldest")),  # hardly a row says so
            lambda frame: frame.assign(
                age=frame.x + np.where(frame.band == "65+", 40, 0), band=np.where(frame.band == "65+", "old", "young")
            ),
        ],
    )
    def test_what_may_be_chance_is_not(self, spoil: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        schema = schema_of(spoil(banded().drop(columns=["day", "quarter"])))
        assert not schema.relations

    def test_levels_that_take_turns_are_no_bands(self) -> None:
        frame = banded().drop(columns=["day", "quarter"])
        frame["band"] = np.where(frame.age % 2 == 0, "even", "odd")
        assert [one.how for one in schema_of(frame).relations] == ["groups"]  # each age has one
        frame["age"] += 0.5  # no whole numbers: no keys
        assert not schema_of(frame).relations

    @pytest.mark.parametrize("hidden", [(0,), (1,), (0, 1), (2,), (3,), (2, 3), (0, 1, 2, 3)])
    def test_fills_keep_to_them(self, hidden: tuple[int, ...]) -> None:
        schema = schema_of(banded())
        true = codes_in(banded(), schema)
        rng = np.random.default_rng(1)
        missing = np.zeros(true.shape, bool)
        missing[:, hidden] = True
        draws = np.repeat(true[None], 4, 0)
        for j in hidden:  # of other rows
            draws[:, :, j] = rng.permuted(draws[:, :, j], axis=1)
        before = draws.copy()
        assert keep_relations(draws, true, missing, schema).count() == 0
        assert np.array_equal(draws[:, ~missing], before[:, ~missing])
        for draw in draws:
            for relation, places in zip(schema.relations, ((0, 1), (3, 2)), strict=True):
                assert np.array_equal(relation.said(draw[:, places[1]]), draw[:, places[0]])
        if hidden == (1,):  # what lies in its band stays as it was drawn
            inside = schema.relations[0].said(before[..., 1]) == true[:, 0]
            assert np.array_equal(draws[..., 1][inside], before[..., 1][inside]) and 0.1 < inside.mean() < 0.6
            assert np.array_equal(draws[..., 1], np.rint(draws[..., 1])) and draws[..., 1].min() >= 18

    def test_new_rows_that_depart_are_counted(self) -> None:
        schema = schema_of(banded())
        new = banded(30, seed=5)
        new.loc[:1, "band"] = ["65+" if age < 65 else "18-24" for age in new.age[:2]]
        assert departures(from_frame(new), schema) == [2, 0]
        assert any(
            "'band' follows from 'age' in every row of the fit; 2 rows" in line
            for line in check(from_frame(new), schema)
        )

    def test_damage_is_named(self) -> None:
        text = schema_of(banded().drop(columns=["day", "quarter"])).to_json()
        for old, new in (('"cuts": [', '"cuts": [-5e9, '), ('"band",\n    "age"', '"band",\n    "sex"')):
            place = text.index('"relations"')
            assert old in text[place:]
            with pytest.raises(RunError, match=r"schema\.json: damaged \(.*relation"):
                Schema.from_json(text[:place] + text[place:].replace(old, new, 1))


def test_a_moment_lies_on_its_day_whenever_records_are_made() -> None:
    rng = np.random.default_rng(0)
    hours = rng.uniform(6.5, 20, N)  # when a day begins, the records do not say
    day = np.datetime64("2023-03-01") + rng.integers(0, 90, N)
    created = day.astype("datetime64[m]") + np.round(60 * hours).astype("timedelta64[m]")
    frame = pd.DataFrame({"created": created.astype("datetime64[ms]"), "day": day, "x": rng.normal(size=N)})
    frame["day"] = [one.astype(object) for one in day]
    schema = schema_of(frame)
    [relation] = schema.relations
    assert relation.names == ("day", "created") and relation.rounded
    true = codes_in(frame, schema)
    missing = np.zeros(true.shape, bool)
    missing[:, 0] = True
    draws = np.repeat(true[None], 3, 0)
    draws[:, :, 0] = rng.uniform(true[:, 0].min(), true[:, 0].max(), (3, N))
    draws[0, :, 0] = true[:, 0] - hours * 3600  # midnight is the first moment of a day
    before = draws.copy()
    assert keep_relations(draws, true, missing, schema).count() == 0
    moments = schema.encoded[0]
    for draw, old in zip(draws, before, strict=True):
        texts = moments.spell(moments.held(draw[:, 0]), None)
        assert [text[:10] for text in texts] == [str(one) for one in day]
        apart = (draw[:, 0] - old[:, 0]) % 86_400  # and keeps its time of day, to the minute
        assert np.minimum(apart, 86_400 - apart).max() <= 60


def test_fills_of_a_run_keep_to_them(tmp_path: Path) -> None:
    import vgi_cli

    frame = columns(seed=3, n=120)[["celsius", "net", "tax", "gross", "country", "iso"]]
    run = vgi_cli.fit(
        holed(frame, 2, 0.3), out=tmp_path / "run", model="mixture", set={"model.components": 1, "bootstrap": 1}
    )
    for filled in [*run.impute(m=2), run.sample(n=50)]:
        assert np.allclose(filled.gross, filled.net + filled.tax, rtol=0, atol=1e-6)
        assert dict(zip(filled.iso, filled.country, strict=True)) == {"i276": "de", "i250": "fr", "i380": "it"}
    moved = run.impute(m=1, delta={"gross": "+100"})[0]
    assert not np.allclose(moved.gross, moved.net + moved.tax)


def grouped(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """A town, the state that it lies in, the region of that, and what has to do with none."""
    rng = np.random.default_rng(seed)
    town = rng.integers(0, 24, n)
    state = np.array([f"s{i % 8}" for i in range(24)])
    region = np.array([("north", "south")[i % 2] for i in range(24)])
    return pd.DataFrame(
        {
            "region": region[town],
            "town": [f"t{i:02d}" for i in town],
            "state": state[town],
            "other": rng.choice(["a", "b", "c"], n),
            "x": rng.normal(size=n).round(3),
        }
    )


class TestGroups:
    """Levels that belong to levels of another column."""

    @pytest.mark.parametrize("share", [0.0, 0.2])
    def test_they_are_found(self, share: float) -> None:
        schema = schema_of(holed(grouped(), share=share))
        assert [(one.names, one.how) for one in schema.relations] == [
            (("region", "state"), "groups"),
            (("state", "town"), "groups"),
        ]
        assert "'region' follows from 'state'; 'state' follows from 'town'" in kept_words(schema)[0]
        assert Schema.from_json(schema.to_json()).relations == schema.relations

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda frame: frame.assign(region=frame.region.mask(frame.index % 50 == 5, "west")),
            lambda frame: frame.iloc[:30],
            lambda frame: frame.assign(region=np.where(frame.index < 398, "north", "south")),
        ],
    )  # fmt: skip
    def test_what_may_be_chance_is_not(self, spoil: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        assert not schema_of(spoil(grouped())[["region", "town", "other", "x"]]).relations

    @pytest.mark.parametrize("hidden", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
    def test_fills_keep_to_them(self, hidden: tuple[int, ...]) -> None:
        schema = schema_of(grouped())
        true = codes_in(grouped(), schema)
        missing = np.zeros(true.shape, bool)
        missing[:, hidden] = True
        rng = np.random.default_rng(1)
        draws = np.where(missing, rng.permuted(np.repeat(true[None], 4, 0), axis=1), true)
        before = draws.copy()
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        assert np.array_equal(draws[:, ~missing], before[:, ~missing])
        for draw in draws:
            for relation in schema.relations:
                first, second = (schema.modelled.index(name) for name in relation.names)
                assert np.array_equal(relation.said(draw[:, second]), draw[:, first])
        if hidden == (1,):  # a town of the state stays as it was drawn, others are spread over its three towns
            right = schema.relations[1].said(before[..., 1]) == true[:, 2]
            assert np.array_equal(draws[..., 1][right], before[..., 1][right]) and 0.05 < right.mean() < 0.3
            counts = np.unique(draws[..., 1], return_counts=True)[1]
            assert len(counts) == 24 and counts.min() > 0.4 * counts.mean()

    def test_a_level_lies_in_all_the_groups_that_are_known(self) -> None:
        """State and kind of a town: neither says what the other is."""
        rng = np.random.default_rng(0)
        town = rng.integers(0, 24, 400)
        frame = pd.DataFrame({"town": [f"t{i:02d}" for i in town], "state": [f"s{i % 8}" for i in town]})
        frame["kind"] = [("port", "hill", "fen")[i // 8] for i in town]
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        assert {one.names for one in schema.relations} == {("state", "town"), ("kind", "town")}
        missing = np.zeros(true.shape, bool)
        missing[:, 0] = True
        draws = rng.permuted(true[None], axis=1).copy()
        draws[..., 1:] = true[:, 1:]
        assert keep_relations(draws, true, missing, schema).count() == 0
        assert np.array_equal(draws[0], true)

    def test_damage_is_named(self) -> None:
        text = schema_of(grouped()).to_json()
        place = text.index('"relations"')
        for old, new in (('"town"\n', '"x"\n'), ('"how": "groups"', '"how": "levels"')):
            assert old in text[place:]
            with pytest.raises(RunError, match=r"schema\.json: damaged \(.*relation"):
                Schema.from_json(text[:place] + text[place:].replace(old, new, 1))


def test_of_a_product_the_factor_of_the_widest_range_takes_what_is_left() -> None:
    """A ratio is observed and both of its parts are missing: the one that varies little stays as it was drawn."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"wide": np.exp(rng.normal(4, 1, N)).round(2), "narrow": rng.normal(1, 0.1, N).round(2)})
    frame["ratio"] = frame.wide / frame.narrow
    schema = schema_of(frame)
    (relation,) = schema.relations
    at = {name: i for i, name in enumerate(schema.modelled)}
    observed = codes_in(frame, schema)
    missing = np.zeros(observed.shape, bool)
    missing[:, [at["wide"], at["narrow"]]] = True
    draws = observed[None].copy()
    draws[..., at["wide"]] = rng.permutation(draws[0, :, at["wide"]])
    keep_relations(draws, observed, missing, schema)
    assert relation.how == "product"
    assert np.abs(draws[0, :, at["narrow"]] - observed[:, at["narrow"]]).max() < 0.1


def test_a_copy_of_numbers_with_powers_of_ten_is_that_of_the_written_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    cells = [f"{value:.1E}" for value in np.exp(rng.normal(-17, 2, N))]
    text = "mol,nmol,x\n" + "".join(f"{cell},{float(cell) * 1e9:.3f},{rng.normal():.2f}\n" for cell in cells)
    (tmp_path / "t.csv").write_text(text)
    table = read_table([str(tmp_path / "t.csv")])
    schema = schema_alone(table)
    assert [one.names for one in schema.relations] == [("nmol", "mol")]
    observed = np.stack([column.codes(table.column(column.name)) for column in schema.encoded], 1)
    missing = np.ones(observed.shape, bool)
    draws = observed[None] * np.exp(0.3 * rng.normal(size=(3, *observed.shape)))
    assert keep_relations(draws, observed, missing, schema).count() == 0
    column = schema.encoded[0]
    written = np.array([float(text) for text in column.spell(draws[0, :, 0], None)])
    np.testing.assert_allclose(1e9 * written, draws[0, :, 1], atol=1e-3)


def test_more_digits_than_the_column_has_are_copied() -> None:
    """A copy of an observed cell is that, however the others are written; and bounds hold after rounding."""
    rng = np.random.default_rng(8)
    cells = [f"{value:.2e}" for value in np.exp(rng.normal(10, 2, N))]
    text = "x,y,z\n" + "".join(f"{cell},{cell},{rng.normal():.2f}\n" for cell in cells)
    table = from_text(text)
    schema = infer_schema(table, bounds={"z": "none"})[0]
    observed = np.array([[1.23456e05, 0.0, 0.0]])
    missing, draws = np.array([[False, True, False]]), np.array([[[1.23456e05, 77.0, 0.0]]])
    assert [one.names for one in schema.relations] == [("y", "x")]
    assert keep_relations(draws, observed, missing, schema).count() == 0 and draws[0, 0, 1] == 1.23456e05
    bounded = infer_schema(table, bounds={"x": "0:4.866e8", "y": "0:4.866e8"})[0].encoded[0]
    assert isinstance(bounded, Number) and bounded.written(np.array([4.8659e8])).tolist() == [4.866e8]


def election(seed: int, n: int = 300) -> pd.DataFrame:
    """Votes, of which valid ones are nearly all, of five parties, and their rounded shares."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.normal(7.6, 1, n)).round() + 60
    voters = (size * np.clip(rng.normal(0.68, 0.07, n), 0.35, 0.92)).round()
    frame = pd.DataFrame({"size": size, "voters": voters, "invalid": rng.binomial(voters.astype(int), 0.012)})
    frame["valid"] = frame.voters - frame.invalid
    weight = np.exp(rng.normal(0, 0.2, (n, 5)))
    votes = rng.multinomial(frame.valid.astype(int), weight / weight.sum(1, keepdims=True))
    for party in range(5):
        frame[f"votes{party}"] = votes[:, party]
    for party in range(5):
        frame[f"share{party}"] = (100 * votes[:, party] / frame.valid).round(1)
    return frame


@pytest.mark.parametrize(("seed", "share"), first(2, [(0, 0.1), (7, 0.15), (1, 0.1), (2, 0.15)]))
def test_of_columns_that_nearly_say_the_same_the_right_one_is_found(seed: int, share: float) -> None:
    words = {one.names[0]: one.words() for one in schema_of(holed(election(seed), seed, share)).relations}
    for party in range(5):
        assert words[f"share{party}"] == f"'share{party}' = 100 × 'votes{party}' / 'valid', rounded"


@pytest.mark.parametrize("seed", range(3))
def test_a_line_goes_through_zero_where_it_can(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"kg": rng.normal(400, 50, N).round(2)})
    frame["yield"] = (frame.kg / 1.05).round(2)
    (found,) = schema_of(holed(frame, seed, 0.1)).relations
    assert found.words() == "'yield' = 1/1.05 'kg', rounded" and found.constant == 0
    frame["yield"] = (0.19 * frame.kg + 0.3).round(2)  # not by a factor of more digits than these have together
    assert schema_of(frame).relations[0].words() == "'yield' = 0.19 'kg' + 0.3, rounded"


def calls(seed: int, n: int = 600) -> pd.DataFrame:
    """Calls, some of which nobody answers, and the minutes that are billed, each that has begun."""
    rng = np.random.default_rng(seed)
    seconds = np.where(rng.random(n) < 0.3, 0, np.ceil(rng.lognormal(4.6, 1, n))).astype(int)
    return pd.DataFrame({"seconds": seconds, "billed": np.ceil(seconds / 60).astype(int)})


@covering(pytest.mark.parametrize("seed", range(3)), pytest.mark.parametrize("answered", [True, False]))
def test_coarse_steps_are_found_too(seed: int, answered: bool) -> None:
    frame = calls(seed)
    if answered:
        frame = frame[frame.seconds > 0].reset_index(drop=True)
    (found,) = schema_of(holed(frame, seed, 0.1)).relations
    assert found.words() == "'billed' = 1/60 'seconds', rounded up"
    (found,) = schema_of(frame.assign(billed=frame.seconds // 60)).relations
    assert found.words() == "'billed' = 1/60 'seconds', rounded down"
    (found,) = schema_of(frame.assign(seconds=pd.to_timedelta(frame.seconds, "s"))).relations
    assert found.weights == (1, -1 / 60) and found.shift > 0
    frame["billed"] += np.arange(len(frame)) == 7
    assert schema_of(frame).relations == ()


def test_steps_of_few_rows_or_of_a_scale_of_few_points_are_chance() -> None:
    for seed in range(5):
        assert schema_of(calls(seed, 60)).relations == ()
        points = np.random.default_rng(seed).integers(0, 20, 400)
        frame = pd.DataFrame({"points": points, "mark": np.ceil(points / 2.3)})
        assert not [one for one in schema_of(frame).relations if one.how == "sum"]


def test_fills_of_coarse_steps_keep_to_the_limits_of_their_column() -> None:
    frame = calls(0)
    schema = schema_of(frame)
    true = frame.to_numpy(float)
    missing = np.zeros(true.shape, bool)
    missing[:, 0] = True
    draws = np.where(missing, np.random.default_rng(0).gamma(1, 200, true.shape), true)[None]
    keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
    assert np.array_equal(np.ceil(draws[0, :, 0] / 60), true[:, 1]) and draws[0, :, 0].min() == 0
