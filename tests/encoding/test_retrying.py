"""Cells of several relations keep to all of them, where one relation after another would meet only some."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import codes_in, hidden, kept, schema_of
from vgi_cli.columns.numerals import Bools
from vgi_cli.encoding import keeping
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.table.frames import from_frame

RULES = {"'vat' = 0.19 'net', rounded", "'gross' = 'net' + 'vat'"}


def invoices(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """A tax that is rounded, and the sum of net and tax."""
    net = np.exp(np.random.default_rng(seed).normal(4, 0.8, n)).round(2)
    frame = pd.DataFrame({"net": net, "vat": (0.19 * net).round(2)})
    return frame.assign(gross=(frame.net + frame.vat).round(2))


def broken(frame: pd.DataFrame) -> Bools:
    """Rows of invoices that do not keep to the rate, or do not add up."""
    off = (frame.vat - 0.19 * frame.net).abs() > 0.005001
    return np.asarray(off | ((frame.gross - frame.net - frame.vat).abs() > 1e-6))


class TestInvoices:
    frame = invoices()
    schema = schema_of(frame)

    def test_the_table_has_two_relations(self) -> None:
        assert {one.words() for one in self.schema.relations} == RULES

    def test_two_cells_that_two_relations_determine_get_their_only_values(self) -> None:
        """From draws that lie far off: those of other rows."""
        for names in (("net", "vat"), ("net", "gross")):
            for filled in kept(self.frame, hidden(self.frame, *names), self.schema):
                assert not broken(filled).any()
                if "vat" in names:  # of a tax alone many nets are possible
                    np.testing.assert_allclose(filled, self.frame, rtol=0, atol=1e-9)

    def test_all_holes_of_any_row_keep_to_both(self) -> None:
        for count in (1, 2, 3):
            for names in itertools.combinations(self.frame, count):
                for filled in kept(self.frame, hidden(self.frame, *names), self.schema):
                    assert not broken(filled).any() and (filled > 0).all(axis=None), names

    def test_one_cell_stays_as_it_was_drawn(self) -> None:
        true, holes = codes_in(self.frame, self.schema), np.ones((300, 3), bool)
        drawn = np.random.default_rng(1).permuted(true, axis=0)[None]
        after = drawn.copy()
        assert keep_relations(after, np.zeros_like(true), holes, self.schema).count() == 0
        assert (after == drawn).any(-1).all() and (after[..., 0] == drawn[..., 0]).mean() > 0.8

    def test_rows_that_keep_to_all_are_left_as_they_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def tables() -> list[pd.DataFrame]:
            return kept(self.frame, holes, self.schema)

        holes = pd.DataFrame(np.random.default_rng(2).random(self.frame.shape) < 0.5, columns=self.frame.columns)
        after = tables()
        monkeypatch.setattr(keeping, "retry", lambda *_: None)
        before = tables()
        for old, new in zip(before, after, strict=True):
            wrong = broken(old)
            assert wrong.any() and not broken(new).any() and old[~wrong].equals(new[~wrong])

    def test_a_row_without_a_solution_stays_and_is_counted(self) -> None:
        """Some sums are those of no net and its tax."""
        nets = np.arange(1, 20_000) / 100
        sums = np.rint(100 * nets + np.rint(19 * nets)).astype(int)
        none = sorted(set(range(3_000, 20_000)) - set(sums.tolist()))
        true = codes_in(self.frame, self.schema)
        true[0, 2] = none[0] / 100
        holes = np.zeros(true.shape, bool)
        holes[:5, :2] = True
        draws = np.where(holes, 50.0, true)[None].copy()
        assert keep_relations(draws, np.where(holes, 0.0, true), holes, self.schema).count() == 1
        assert draws[0, 0].sum() == pytest.approx(2 * true[0, 2])  # the exact sum is met all the same
        np.testing.assert_allclose(draws[0, 1:], true[1:], rtol=0, atol=1e-9)

    def test_limits_of_a_column_count(self) -> None:
        """What determined cells should be may lie beyond limits that were guessed, not beyond those that were asked."""
        true = codes_in(self.frame, self.schema)
        true[0] = [10_000.0, 1_900.0, 11_900.0]
        holes = np.zeros(true.shape, bool)
        holes[0, :2] = True
        draws = np.where(holes, 50.0, true)[None].copy()
        assert keep_relations(draws, np.where(holes, 0.0, true), holes, self.schema).count() == 0
        np.testing.assert_allclose(draws[0, 0], true[0], rtol=0, atol=1e-9)


class TestOrders:
    """A price times a number, a tax on that, and their sum, all of two decimals."""

    def frame(self, n: int = 400) -> pd.DataFrame:
        rng = np.random.default_rng(3)
        frame = pd.DataFrame({"price": np.exp(rng.normal(2, 0.5, n)).round(2), "number": 1 + rng.poisson(3, n)})
        frame["net"] = (frame.price * frame.number).round(2)
        frame["vat"] = (0.2 * frame.net).round(2)
        return frame.assign(total=(frame.net + frame.vat).round(2))

    def test_a_chain_of_relations_is_met_whatever_is_missing(self) -> None:
        frame = self.frame()
        schema = schema_of(frame)
        assert len(schema.relations) == 3
        for names in (("net", "vat"), ("net", "vat", "total"), ("price", "net", "vat"), tuple(frame)):
            for filled in kept(frame, hidden(frame, *names), schema):
                off = (filled.net - filled.price * filled.number).abs() > 1e-6
                off |= (filled.vat - 0.2 * filled.net).abs() > 0.005001
                off |= (filled.total - filled.net - filled.vat).abs() > 1e-6
                assert not off.any(), names


class TestListPrices:
    """A price for each item, times a number: known amounts leave few of the items."""

    @pytest.mark.parametrize("prices", [(199.0, 89.5, 34.9, 129.0), (199.0, 89.5, 34.9, 89.5)], ids=["own", "shared"])
    def test_an_item_that_goes_with_a_known_amount_is_found(self, prices: tuple[float, ...]) -> None:
        rng = np.random.default_rng(5)
        items = rng.integers(0, 4, 400)
        frame = pd.DataFrame({"item": np.array(["desk", "chair", "lamp", "shelf"])[items]})
        frame["price"], frame["number"] = np.array(prices)[items], rng.integers(1, 9, 400)
        frame["net"] = (frame.price * frame.number).round(2)
        schema = schema_of(frame)
        listed = dict(zip(codes_in(frame, schema)[:, 0], frame.price, strict=True))
        assert {one.how for one in schema.relations} == {"product", "levels" if len(set(prices)) == 4 else "groups"}
        for filled in kept(frame, hidden(frame, "item", "price", "number"), schema):  # from draws of other rows
            assert ((filled.net - filled.price * filled.number).abs() < 1e-6).all()
            assert (filled.price == filled["item"].map(listed)).all()
            assert filled.number.between(1, 8).all()


class TestLimits:
    """A subtotal is a product, and a total what is left of it after a discount, which is never below 0."""

    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"price": rng.gamma(4, 10, 400).round(2) + 2, "qty": rng.integers(1, 9, 400)})
    frame["subtotal"] = (frame.price * frame.qty).round(2)
    frame["discount"] = np.where(rng.random(400) < 0.5, 0.0, np.minimum(rng.gamma(2, 3, 400), frame.subtotal / 2))
    frame["discount"] = frame.discount.round(2)
    frame["total"] = (frame.subtotal - frame.discount).round(2)
    schema = schema_of(frame)

    @pytest.mark.parametrize(
        "names", [("price", "subtotal", "discount"), ("qty", "subtotal", "discount"), ("price", "qty", "subtotal")]
    )
    def test_what_follows_from_a_draw_stays_within_limits(self, names: tuple[str, ...]) -> None:
        """Another cell moves instead."""
        assert len(self.schema.relations) == 2
        for filled in kept(self.frame, hidden(self.frame, *names), self.schema):
            holds = (filled.price * filled.qty - filled.subtotal).abs() < 0.006
            holds &= (filled.subtotal - filled.discount - filled.total).abs() < 0.006
            assert holds.mean() > 0.98 and (filled.discount >= 0).all() and (filled.qty >= 1).all()

    def test_what_observed_cells_determine_may_lie_beyond_them(self) -> None:
        true, holes = codes_in(self.frame, self.schema), np.zeros((400, 5), bool)
        true[0, 4] = true[0, 2] + 3  # a total above its subtotal
        holes[0, 3] = True
        draws = np.where(holes, 0.0, true)[None]
        assert keep_relations(draws, true, holes, self.schema).count() == 0 and abs(draws[0, 0, 3] + 3) < 1e-9

    def test_what_has_no_other_value_may_too(self) -> None:
        """A quantity of the price in which the total is more than at any quantity without a discount."""
        true, holes = codes_in(self.frame, self.schema), np.zeros((400, 5), bool)
        true[0] = 10.0, 8.0, 80.0, 0.0, 83.0
        holes[0, 1:4] = True
        draws = np.where(holes, true, true)[None]
        draws[0, 0, 1:4] = 7.0, 66.0, 1.0
        assert keep_relations(draws, true, holes, self.schema).count() == 0
        assert draws[0, 0, 1:4].tolist() == [7.0, 70.0, -13.0]


def payroll(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """Pay in cents of hours in halves, a share of it that is rounded, and what is left of it without this and a tax."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"hourly": np.exp(rng.normal(3, 0.2, n)).round(2)})
    frame["hours"] = rng.choice([80, 120, 152, 160, 168], n) + rng.integers(-8, 9, n) * 0.5
    half_cents = np.rint(200 * frame.hourly * frame.hours)
    frame["gross"] = (half_cents + rng.integers(0, 2, n)) // 2 / 100  # half a cent is rounded down or up
    frame["social"] = (0.2 * frame.gross).round(2)
    frame["tax"] = (0.16 * frame.gross * np.exp(rng.normal(0, 0.05, n))).round(2)
    return frame.assign(net=(frame.gross - frame.tax - frame.social).round(2))


class TestPayroll:
    """Of a rounded share that is known the whole is one of a few values, and only some of them are a product that is
    rounded, too; few pairs of factors have a product of so many digits."""

    frame = payroll()
    schema = schema_of(frame)

    def broken(self, frame: pd.DataFrame) -> Bools:
        off = (frame.gross - frame.hourly * frame.hours).abs() > 0.005001
        off |= (frame.social - 0.2 * frame.gross).abs() > 0.005001
        return np.asarray(off | ((frame.gross - frame.tax - frame.social - frame.net).abs() > 1e-6))

    def test_the_relations(self) -> None:
        said = {one.words() for one in self.schema.relations}
        assert said >= {"'gross' = 'hourly' × 'hours', rounded", "'social' = 0.2 'gross', rounded"}

    @pytest.mark.parametrize(
        "names", [("gross", "tax", "net"), ("gross", "tax"), ("gross", "net"), ("gross", "social")]
    )
    def test_a_product_halfway_between_two_cents_is_the_one_with_the_known_share(self, names: tuple[str, ...]) -> None:
        halfway = np.rint(self.frame.hourly * self.frame.hours * 1_000) % 10 == 5
        assert halfway.sum() > 20
        for filled in kept(self.frame, hidden(self.frame, *names), self.schema):
            assert not self.broken(filled).any()

    @pytest.mark.parametrize(
        "names", [("hourly", "gross", "tax"), ("hours", "gross", "tax"), ("hourly", "gross", "net")]
    )
    def test_a_factor_and_its_product_agree_with_the_share(self, names: tuple[str, ...]) -> None:
        for filled in kept(self.frame, hidden(self.frame, *names), self.schema):
            assert not self.broken(filled).any()

    @pytest.mark.parametrize(
        "names", [("hourly", "hours"), ("hourly", "hours", "social"), ("hourly", "hours", "gross")]
    )
    def test_two_factors_of_a_known_product_meet_it(self, names: tuple[str, ...]) -> None:
        for filled in kept(self.frame, hidden(self.frame, *names), self.schema):
            assert not self.broken(filled).any()

    def test_of_a_product_without_such_factors_the_row_stays_and_is_counted(self) -> None:
        frame = self.frame[["hourly", "hours", "gross"]]
        schema = infer_schema(from_frame(frame), bounds={"hourly": "observed", "hours": "observed"})[0]
        (relation,) = schema.relations
        true = codes_in(frame, schema)
        true[:, 2] = 1e6
        holes = np.zeros(true.shape, bool)
        holes[:5, :2] = True
        drawn = true[None].copy()
        apart = keep_relations(drawn, true, holes, schema)
        assert relation.how == "product" and apart.rows()[0, :5].all() and apart.count() == 5

    def test_a_product_that_is_often_halfway_is_found(self) -> None:
        """In about a quarter of the rows; rounded down or up it does not hold."""
        words = [one.words() for one in schema_of(self.frame[["hourly", "hours", "gross"]]).relations]
        assert words == ["'gross' = 'hourly' × 'hours', rounded"]
        down = self.frame.assign(gross=np.floor(self.frame.hourly * self.frame.hours * 100 + 1e-6) / 100)
        words = [one.words() for one in schema_of(down[["hourly", "hours", "gross"]]).relations]
        assert words == ["'gross' = 'hourly' × 'hours', rounded down"]
