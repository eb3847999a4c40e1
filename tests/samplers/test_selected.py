"""Draws given which cells are missing: accepted by the probability of the mask."""

from __future__ import annotations

import torch
from torch import Tensor

from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import ROW_BLOCK, Box, Imputer, impute
from vgi_cli.samplers.selected import ATTEMPTS, Coherent, Selected

BOX = Box(torch.full((2,), -torch.inf, dtype=torch.float64), torch.full((2,), torch.inf, dtype=torch.float64))
LAW = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
CHANCE = torch.tensor([0.1, 1.0, 0.4], dtype=torch.float64)


class Levels(Imputer):
    """A level by LAW, and a number that goes with it."""

    calls = 0

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        self.calls += 1
        self.watch(0.0)
        level = (noise.uniform(("level",)) >= LAW.cumsum(0)[:-1]).sum(-1).double()
        rows = torch.stack([level, 10 * level + noise.at("y").uniform(("y",))[..., 0]], -1)
        return torch.where(missing, rows, x)

    def diagnostics(self) -> dict[str, object]:
        return {"calls": self.calls}


def by_level(x: Tensor, missing: Tensor) -> Tensor:
    return torch.where(missing[:, 0], CHANCE[x[..., 0].long()], 1.0)


def noise(rows: int, draws: int = 4) -> KeyedNoise:
    return KeyedNoise(3, ("level", "y"), torch.arange(rows), torch.arange(draws))


def drawn(imputer: Imputer, rows: int, draws: int = 4) -> Tensor:
    x, missing = torch.zeros(rows, 2, dtype=torch.float64), torch.ones(rows, 2, dtype=torch.bool)
    missing[::3, 0] = False
    return impute(imputer, x, missing, noise(rows, draws), BOX)


def test_levels_are_drawn_by_the_product_and_rows_go_together() -> None:
    selected = Selected(Levels(), by_level)
    rows = drawn(selected, 6000)
    free = torch.arange(6000) % 3 > 0
    wanted = LAW * CHANCE / (LAW * CHANCE).sum()
    share = torch.bincount(rows[:, free, 0].long().flatten(), minlength=3) / (4 * free.sum())
    assert (share - wanted).abs().max() < 4 * (0.25 / (4 * free.sum())) ** 0.5
    assert torch.equal((rows[:, free, 1] / 10).floor(), rows[:, free, 0])
    plain = drawn(Levels(), 6000)
    assert torch.equal(rows[:, ~free], plain[:, ~free])  # of which nothing is said
    same = (rows == plain).all(-1)[:, free].double().mean()
    assert abs(same - (LAW * CHANCE).sum()) < 0.02  # those that are accepted stay as they were drawn
    report = selected.diagnostics()
    assert report["unlikely_rows"] <= 10  # 1 of 14,000 is refused so often
    assert report["redrawn_rows"] - int((~same_rows(rows, plain)).sum()) <= report["unlikely_rows"]


def same_rows(a: Tensor, b: Tensor) -> Tensor:
    return (a == b).all(-1)


def test_draws_that_are_made_without_gradients_are_drawn_anew_too() -> None:
    """Those of a mixture, and of trees."""

    class Plain(Levels):
        @torch.inference_mode()
        def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
            return super().sample(x, missing, noise, box)

    assert torch.equal(drawn(Selected(Plain(), by_level), 300), drawn(Selected(Levels(), by_level), 300))


def test_draws_do_not_depend_on_what_else_is_drawn() -> None:
    whole = drawn(Selected(Levels(), by_level), 2 * ROW_BLOCK)
    few = drawn(Selected(Levels(), by_level), 2 * ROW_BLOCK, draws=2)
    assert torch.equal(whole[:2], few)
    x, missing = torch.zeros(9, 2, dtype=torch.float64), torch.ones(9, 2, dtype=torch.bool)
    missing[::3, 0] = False
    some = impute(Selected(Levels(), by_level), x, missing, noise(9), BOX)
    assert torch.equal(some, whole[:, :9])


def test_what_is_never_accepted_stays() -> None:
    inner = Levels()
    selected = Selected(inner, lambda x, missing: torch.zeros(x.shape[:2], dtype=torch.float64))
    told: list[float] = []
    selected.watch = told.append
    assert torch.equal(drawn(selected, 5), drawn(Levels(), 5))
    assert inner.calls == 1 + 4 * ATTEMPTS and selected.diagnostics()["unlikely_rows"] == 4 * ROW_BLOCK
    assert told == sorted(told) and told[0] >= 0 and told[-1] < 1


def test_of_rows_that_are_hardly_accepted_the_likelier_draws_are_taken() -> None:
    """Where one draw in a thousand would be accepted, those in proportion to their probabilities are nearly as good."""
    selected = Selected(Levels(), lambda x, missing: 1e-3 * by_level(x, missing))
    rows = drawn(selected, 3000)
    free = torch.arange(3000) % 3 > 0
    share = torch.bincount(rows[:, free, 0].long().flatten(), minlength=3) / (4 * free.sum())
    assert selected.diagnostics()["unlikely_rows"] > 10_000
    assert (share - LAW * CHANCE / (LAW * CHANCE).sum()).abs().max() < 0.04
    assert torch.equal((rows[:, free, 1] / 10).floor(), rows[:, free, 0])


WIDTH = torch.tensor([1.0, 4.0, 2.0], dtype=torch.float64)


class Spread(Imputer):
    """A level by LAW, and a number from 0 to the width of the level."""

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        level = (noise.uniform(("level",)) >= LAW.cumsum(0)[:-1]).sum(-1).double()
        level = torch.where(missing[:, 0], level, x[:, 0])
        number = WIDTH[level.long()] * noise.at("y").uniform(("y",))[..., 0]
        return torch.where(missing, torch.stack([level, number], -1), x)


def narrow(x: Tensor, missing: Tensor, left_out: Tensor | None) -> Tensor:
    """Numbers are below 1, and the third level is of no row whose number is observed at 0.5."""
    number = x[..., 1] if left_out is None else x[..., 1].masked_fill(left_out[..., 1], 0)
    return (number < 1) & ~((x[..., 0] == 2) & ~missing[:, 1])


def below_one(x: Tensor, missing: Tensor) -> Tensor:
    return narrow(x, missing, None).double()


def spread(imputer: Imputer, rows: int) -> tuple[Tensor, Tensor]:
    """Draws of rows of which each third has its number, each third its level, and which have none."""
    x, missing = torch.zeros(rows, 2, dtype=torch.float64), torch.ones(rows, 2, dtype=torch.bool)
    missing[::3, 1] = missing[1::3, 0] = False
    x[::3, 1], x[1::3, 0] = 0.5, 1.0
    return impute(imputer, x, missing, noise(rows), BOX), missing.all(1)


def test_levels_stay_where_numbers_can_be_drawn_that_suit_them() -> None:
    selected = Selected(Spread(), below_one, Coherent(narrow, torch.tensor([True, False])))
    rows, free = spread(selected, 6000)
    plain, _ = spread(Spread(), 6000)
    assert (rows[..., 1] < 1).float().mean() > 0.995  # of level 1 one in a hundred finds none in ATTEMPTS
    share = torch.bincount(rows[:, free, 0].long().flatten(), minlength=3) / (4 * free.sum())
    assert (share - LAW).abs().max() < 4 * (0.25 / (4 * free.sum())) ** 0.5
    inside = plain[..., 1] < 1
    assert torch.equal(rows[inside & free], plain[inside & free])  # what agrees stays as it was drawn
    number = rows[:, free, 1][rows[:, free, 0] == 1]
    assert abs(number[number < 1].mean() - 0.5) < 0.03
    assert (rows[:, ::3, 0] != 2).float().mean() > 0.999  # no number helps there: another level
    assert selected.diagnostics()["redrawn_rows"] > 1000
    whole, _ = spread(Selected(Spread(), below_one), 6000)
    share = torch.bincount(whole[:, free, 0].long().flatten(), minlength=3) / (4 * free.sum())
    wanted = LAW / WIDTH / (LAW / WIDTH).sum()
    assert (share - wanted).abs().max() < 0.03  # by the law within limits, as without


def test_numbers_of_kept_levels_do_not_depend_on_what_else_is_drawn() -> None:
    coherent = Coherent(narrow, torch.tensor([True, False]))
    whole, _ = spread(Selected(Spread(), below_one, coherent), 2 * ROW_BLOCK)
    some, _ = spread(Selected(Spread(), below_one, coherent), 9)
    assert torch.equal(some, whole[:, :9])
