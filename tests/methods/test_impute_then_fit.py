"""impute-then-fit: the stacked fit against complete-data maximum likelihood and scikit-learn, and what it keeps."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from sklearn.decomposition import FactorAnalysis as Reference

from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable, make_table
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.gradient import COMPLETE, GradientState
from vgi_cli.methods.impute_then_fit import METHOD, ImputeThenFitConfig
from vgi_cli.methods.optimisation import AscentConfig
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.registry import names
from vgi_cli.registry.names import COMPLETERS


def rows(N: int = 400, share: float = 0.3) -> TensorTable:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N, 2, generator=g, dtype=torch.float64) @ torch.randn(2, 5, generator=g, dtype=torch.float64)
    x = 1.0 + x + 0.6 * torch.randn(N, 5, generator=g, dtype=torch.float64)
    missing = torch.rand(N, 5, generator=g) < share
    return make_table(x, missing)


def fa() -> FactorAnalysis:
    return FactorAnalysis.build(FaConfig(factors=2), Layout.plain(5)).double()


def fitted(table: TensorTable, seed: int = 0, **settings: Any) -> GradientState:
    config = ImputeThenFitConfig.model_validate({"epochs": 40, "optim": {"batch_size": 64}} | settings)
    state = METHOD.init(fa(), table, config, torch.Generator().manual_seed(seed))
    assert isinstance(state, GradientState)
    for _ in METHOD.run(state):
        pass
    return state


def test_without_holes_it_is_maximum_likelihood_on_the_complete_table() -> None:
    table = rows(share=0.0)
    config = AscentConfig.model_validate({"epochs": 3, "optim": {"batch_size": 64}})
    other = COMPLETE.init(fa(), table, config, torch.Generator().manual_seed(0))
    for _ in COMPLETE.run(other):
        pass
    for mine, value in zip(
        fitted(table, epochs=3, imputer="empirical").model.parameters(), other.model.parameters(), strict=True
    ):
        torch.testing.assert_close(mine, value, rtol=1e-3, atol=1e-8)


def test_the_stacked_fit_is_factor_analysis_of_the_stacked_tables() -> None:
    """Incomplete rows enter K times at weight 1/K, complete ones once: scikit-learn on the stacked K tables."""
    table = rows()
    state = fitted(table, imputer="mice", imputations=3, iterations=3)
    stacked = torch.cat([state.chains.completed(k) for k in range(3)])
    reference = Reference(2, tol=1e-3, max_iter=20000, svd_method="lapack").fit(stacked.numpy())
    assert abs(state.model.log_prob(stacked).mean().item() - reference.score(stacked.numpy())) < 2e-3


def test_imputations_are_the_imputers_in_encoded_space_and_stay() -> None:
    table = rows(60)
    state = fitted(table, imputer="mice", imputations=2, epochs=1, iterations=2)
    kept = state.parts()["imputations"]["values"].clone()
    assert kept.shape == (int(table.missing.sum()), 2)
    again = METHOD.init(fa(), table, state.config, torch.Generator().manual_seed(0))
    seeds: list[int] = []
    mice = COMPLETERS.load("mice")

    def spy(x: Any, missing: Any, seed: int, settings: Mapping[str, int | None], give_up: Any, levels: Any) -> Any:
        seeds.append(seed)
        return mice(x, missing, seed, settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COMPLETERS, "load", lambda name: spy)
        first = [event for _, event in zip(range(3), METHOD.run(again), strict=False)]
    assert [e.metrics.get("stage") for e in first if isinstance(e, EpochEnd)][:2] == ["imputation"] * 2
    assert len(set(seeds)) == 2
    for k, seed in enumerate(seeds):
        own = {"imputations": 2, "iterations": 2}
        made = COMPLETERS.load("mice")(table.x.numpy(), table.missing.numpy(), seed, own)
        assert (kept[:, k].numpy() == made[table.missing.numpy()]).all()


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_fit_that_was_stopped_between_imputations_makes_only_those_that_are_missing(stop: int) -> None:
    table, settings = rows(60), {"imputer": "mice", "imputations": 3, "epochs": 2, "iterations": 2}
    whole = fitted(table, **settings)
    config = whole.config
    broken = METHOD.init(fa(), table, config, torch.Generator().manual_seed(0))
    for _ in zip(range(stop), METHOD.run(broken), strict=False):
        pass
    parts = {stem: {k: v.clone() for k, v in some.items()} for stem, some in broken.parts().items()}
    resumed = METHOD.init(fa(), table, config, torch.Generator().manual_seed(9))
    resumed.restore(parts)
    calls = []

    load = COMPLETERS.load

    def counting(name: str) -> Callable[..., Any]:
        calls.append(name)
        return load(name)  # type: ignore[no-any-return]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COMPLETERS, "load", counting)
        for _ in METHOD.run(resumed, never):
            pass
    assert len(calls) == 3 - stop
    for stem, tensors in whole.parts().items():
        assert all(torch.equal(value, resumed.parts()[stem][key]) for key, value in tensors.items()), stem


@pytest.mark.parametrize("asked", [1, 4, 9])
def test_an_imputation_that_is_given_up_leaves_nothing_and_is_made_later(asked: int) -> None:
    """Five regressions a round, two rounds an imputation: in the first one and in the first round of the second."""
    table, settings = rows(60), {"imputer": "mice", "imputations": 2, "epochs": 2, "iterations": 1}
    whole = fitted(table, **settings)
    broken = METHOD.init(fa(), table, whole.config, torch.Generator().manual_seed(0))
    count = 0

    def stop_now() -> bool:
        nonlocal count
        count += 1
        return count == asked

    assert len(list(METHOD.run(broken, stop_now))) == asked // 6 and broken.epoch == 0  # imputations that were finished
    for _ in METHOD.run(broken, never):
        pass
    for stem, tensors in whole.parts().items():
        assert all(torch.equal(value, broken.parts()[stem][key]) for key, value in tensors.items()), stem


def test_fully_missing_rows_are_imputed_and_do_not_enter_the_fit() -> None:
    table = rows(80)
    missing = torch.cat([table.missing, torch.ones(3, 5, dtype=torch.bool)])
    longer = make_table(torch.cat([table.x, torch.zeros(3, 5, dtype=torch.float64)]), missing)
    with_empty, without = (fitted(t, imputer="mean", epochs=5) for t in (longer, table))
    for a, b in zip(with_empty.model.parameters(), without.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    means = with_empty.chains.completed(0)[-3:]
    assert bool((means == means[0]).all()) and bool((means != 0).all())


def unusable(**settings: Any) -> list[tuple[str, str, str]]:
    return [tuple(problem) for problem in ImputeThenFitConfig.model_validate(settings).check()]  # type: ignore[misc]


def test_what_nobody_says_is_the_imputers_own() -> None:
    assert ImputeThenFitConfig().own == COMPLETERS["mice"].traits.settings
    assert ImputeThenFitConfig(imputer="mean").imputations == 1
    config = ImputeThenFitConfig(imputer="miceforest", trees=7)
    assert config.own == {"imputations": 5, "iterations": 5, "trees": 7, "depth": None, "neighbours": 5}
    for name in COMPLETERS:
        again = ImputeThenFitConfig.model_validate(ImputeThenFitConfig(imputer=name).model_dump())
        assert unusable(imputer=name) == [] and list(again.check()) == []


def test_settings_that_an_imputer_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unusable(imputer="mise") == [("imputer", "unknown imputer 'mise'", "did you mean 'mice'?")]
    hint = "leave it out, or take another imputer"
    assert unusable(imputer="mean", imputations=5) == [
        ("imputations", "imputer 'mean' gives one imputation, got 5", hint)
    ]
    hint = "leave it out, or take --imputer missforest or miceforest"
    assert unusable(imputer="mice", trees=9) == [("trees", "imputer 'mice' has no setting 'trees'", hint)]
    assert [key for key, *_ in unusable(imputer="empirical", iterations=2, neighbours=3)] == [
        "iterations",
        "neighbours",
    ]
    found = importlib.util.find_spec
    monkeypatch.setattr(names.importlib.util, "find_spec", lambda m: None if m == "sklearn" else found(m))
    problem = (
        "imputer",
        "imputer 'missforest' needs scikit-learn, which is not installed",
        "pip install '.[baselines]' in a clone of vgi",
    )
    assert unusable(imputer="missforest") == [problem] and unusable(imputer="mice") == []
    with pytest.raises(UsageError, match="needs scikit-learn"):
        METHOD.init(fa(), rows(20), ImputeThenFitConfig(imputer="missforest"), torch.Generator())


@pytest.mark.parametrize("imputer", COMPLETERS)
def test_levels_are_imputed_and_fitted(imputer: str) -> None:
    """Every imputer beside a model of levels and numbers: chains hold levels, and the fit is that of the stack."""
    g = torch.Generator().manual_seed(2)
    kind = torch.randint(3, (90,), generator=g).double()
    x = torch.stack([kind, 2 * kind + torch.randn(90, generator=g, dtype=torch.float64)], 1)
    missing = torch.rand(90, 2, generator=g) < 0.3
    layout = Layout.of(("kind", "size"), None, (3, 0))
    table = make_table(x, missing, layout)
    model = GaussianMixture.build(MixtureConfig(components=2), layout).double()
    quick = {"epochs": 2, "optim": {"batch_size": 64}, "imputer": imputer}
    own = COMPLETERS[imputer].traits.settings
    config = ImputeThenFitConfig.model_validate(quick | {k: 3 for k in ("iterations", "trees") if k in own})
    state = METHOD.init(model, table, config, torch.Generator().manual_seed(0))
    assert isinstance(state, GradientState)
    for _ in METHOD.run(state):
        pass
    drawn = torch.stack([state.chains.completed(k, torch.arange(90)) for k in range(state.chains.K)])
    assert torch.isin(drawn[..., 0], torch.arange(3.0).double()).all()
    assert (drawn[:, ~missing] == x[~missing]).all()
    assert torch.isfinite(model.log_prob(drawn[0])).all()
