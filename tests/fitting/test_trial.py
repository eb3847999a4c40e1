"""What a fit would take: what is counted, what is refused, and (slow) how near it comes to fits."""

from __future__ import annotations

import time

import pytest
import torch

from vgi_cli.chains.store.formats import formats_of, packed_bytes
from vgi_cli.data import make_table
from vgi_cli.fitting import trial
from vgi_cli.fitting.fit_rows import fit_rows
from vgi_cli.fitting.rows import Rows
from vgi_cli.fitting.trial import CHAINS, Trial, trials, tried
from vgi_cli.settings.recipe import Recipe


def rows(N: int, share: float = 0.2) -> Rows:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 2, generator=generator, dtype=torch.float64) @ torch.ones(2, 4, dtype=torch.float64)
    x = x + 0.3 * torch.randn(N, 4, generator=generator, dtype=torch.float64)
    return Rows.of(make_table(x, torch.rand(N, 4, generator=generator) < share))


def every(some: Rows) -> dict[str, Trial]:
    shares: list[float] = []
    found = {one.model: one for one in trials(some, Recipe(), shares.append)}
    assert shares == sorted(shares) and min(shares) >= 0 and max(shares) < 1
    return found


def test_every_model_by_its_own_method() -> None:
    some = rows(300)
    found = every(some)
    assert {name: one.method for name, one in found.items()} == {
        "auto": "em",
        "fa": "em",
        "mixture": "em",
        "flow": "vgi",
        "flow-ar": "vgi",
        "vae": "vbgi",
    }
    assert all(one.why_not is None and one.seconds and one.memory and one.rows for one in found.values())
    assert found["fa"].epochs is None and (found["flow"].epochs or 0) > 100
    chains = packed_bytes(some.table.missing, 5, formats_of(some.table.layout, torch.float32))
    assert (found["flow"].memory or 0) > CHAINS * chains


def test_what_is_fitted_by_default_is_compared_where_rows_have_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "tried", lambda rows, recipe, known: Trial(recipe.model.name, "em", 10.0, 1))
    default, *others = trials(rows(300), Recipe(), lambda share: None)
    assert default == Trial("auto", "em", 28.0, 1) and all(one.seconds == 10.0 for one in others)
    default, *_ = trials(rows(300, 0.0), Recipe(), lambda share: None)
    assert default.seconds == 10.0


def test_what_is_fitted_by_default_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    by_em = trial._by_em
    monkeypatch.setattr(trial, "_by_em", lambda rows, recipe: (tables.append(recipe), by_em(rows, recipe))[1])
    some = rows(300)
    default, *others = trials(some, Recipe(), lambda share: None)
    mixture = next(one for one in others if one.model == "mixture")
    assert default.seconds == trial.when_compared(mixture.seconds or 0.0)
    assert len([recipe for recipe in tables if recipe.model.name == "mixture"]) == 1


@pytest.mark.slow
def test_one_row_is_no_reason_to_fail() -> None:
    assert all(one.seconds is not None or one.why_not for one in every(rows(1, 0.0)).values())


def test_chains_count() -> None:
    """Ten thousand rows more with as many holes: their imputations, and the rows."""
    named = Recipe().with_model("vae")
    small, large = (tried(rows(N), named).memory or 0 for N in (1_000, 11_000))
    imputations = CHAINS * 5 * 4 * 0.2 * 4 * 10_000
    assert large - small == pytest.approx(imputations + trial.COPIES * 5 * 4 * 10_000, rel=0.05)


@pytest.mark.slow
@pytest.mark.full_fits
def test_em_is_right_to_a_factor_of_four() -> None:
    some = rows(2_000)
    found = every(some)
    for model in ("fa", "mixture"):
        before = time.process_time()
        fit_rows(some, Recipe().with_model(model))
        taken = time.process_time() - before
        assert taken / 4 < (found[model].seconds or 0.0) < 4 * taken, model
