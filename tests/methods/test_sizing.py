"""Sizing: the truth is found on simulated tables, the user's values are kept, work is bounded, seeds decide."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.selection import first
from vgi_cli.data import TensorTable, make_table
from vgi_cli.layout import Layout
from vgi_cli.methods.em import sizing
from vgi_cli.methods.em.em import EmConfig, completed
from vgi_cli.methods.em.sizing import ComparedRows, choose_size, held_out
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.factors import FactorGaussians
from vgi_cli.models.gaussian.family import em_table, step_work
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig


def holes(x: Tensor, generator: torch.Generator) -> TensorTable:
    return make_table(x, torch.rand(x.shape, generator=generator) < 0.3)


def clusters(N: int = 300) -> TensorTable:
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[4.0, 0, 0], [0, 4.0, 0], [0, 0, 4.0]], dtype=torch.float64)
    x = centres[torch.arange(N) % 3] + 0.5 * torch.randn(N, 3, dtype=torch.float64, generator=generator)
    return holes(x, generator)


def test_the_number_of_clusters_is_found() -> None:
    found = choose_size(
        GaussianMixture, MixtureConfig(), ComparedRows(clusters(), torch.Generator().manual_seed(0)), EmConfig()
    )
    scores = {t.config.components: t.score for t in found.tried}
    assert max(scores[1], scores[2]) < scores[3] - 0.1  # the three clusters are worth it, more are not worth much
    chosen = max(scores, key=lambda K: scores[K])
    assert found.config.components == chosen >= 3
    assert found.reason.startswith(f"{chosen} clusters describe held-out rows best (tried 1 to ")


def test_of_many_rows_some_are_looked_at_and_the_reason_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "ROWS", 60)
    table = clusters(200)
    found = choose_size(
        GaussianMixture, MixtureConfig(), ComparedRows(table, torch.Generator().manual_seed(0)), EmConfig()
    )
    assert f" on 60 of {len(table.used)} rows; scores with -v)" in found.reason


def test_the_number_of_factors_is_found() -> None:
    generator = torch.Generator().manual_seed(1)
    F = torch.randn(8, 2, dtype=torch.float64, generator=generator)
    x = torch.randn(600, 2, dtype=torch.float64, generator=generator) @ F.mT
    table = holes(x + 0.5 * torch.randn(600, 8, dtype=torch.float64, generator=generator), generator)
    found = choose_size(FactorAnalysis, FaConfig(), ComparedRows(table, torch.Generator().manual_seed(0)), EmConfig())
    assert found.config.factors == 2


def test_rows_are_completed_once_for_all_families(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(table: TensorTable, generator: torch.Generator) -> Tensor:
        made.append(table.N)
        return completed(table, generator)

    monkeypatch.setattr(sizing, "completed", counted)
    rows = ComparedRows(clusters(30), torch.Generator().manual_seed(0))
    first = choose_size(FactorAnalysis, FaConfig(), rows, EmConfig())
    again = choose_size(FactorAnalysis, FaConfig(), rows, EmConfig())
    assert len(made) == sizing.FOLDS and again == first


@pytest.mark.full_fits("methods.em.sizing.EPOCHS", "methods.start.ITERATIONS")
def test_a_path_for_each_number_of_factors() -> None:
    config = MixtureConfig(covariance="factor")
    found = choose_size(
        GaussianMixture, config, ComparedRows(clusters(120), torch.Generator().manual_seed(0)), EmConfig()
    )
    assert {t.config.factors for t in found.tried} == {1}  # 2 L <= 3 columns
    assert found.config.covariance == "factor" and found.config.components == 3


def test_what_is_set_is_kept() -> None:
    config = MixtureConfig(components=4, covariance="full")
    found = choose_size(GaussianMixture, config, ComparedRows(clusters(60), torch.Generator()), EmConfig())
    assert found.config.components == 4 and found.reason == "4 clusters: as given"


def test_few_rows_take_the_smallest() -> None:
    found = choose_size(GaussianMixture, MixtureConfig(), ComparedRows(clusters(11), torch.Generator()), EmConfig())
    assert found.config.components == 1
    assert found.reason == "1 cluster: the only size that fits this table"
    factors = choose_size(FactorAnalysis, FaConfig(), ComparedRows(clusters(11), torch.Generator()), EmConfig())
    assert factors.config.factors == 0
    chosen = choose_size(
        GaussianMixture, MixtureConfig(components=2), ComparedRows(clusters(11), torch.Generator()), EmConfig()
    )
    assert chosen.reason == "2 clusters: as given"


def test_a_seed_fixes_the_answer() -> None:
    scores = [
        [
            t.score
            for t in choose_size(
                GaussianMixture,
                MixtureConfig(),
                ComparedRows(clusters(30), torch.Generator().manual_seed(seed)),
                EmConfig(),
            ).tried
        ]
        for seed in (0, 0, 1)
    ]
    assert scores[0] == scores[1] != scores[2]


def test_work_is_bounded_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "WORK", 1.0)
    found = choose_size(GaussianMixture, MixtureConfig(), ComparedRows(clusters(90), torch.Generator()), EmConfig())
    assert [t.config.components for t in found.tried] == [1]
    assert found.reason == "1 cluster: no other number was tried; more would take too long to compare"
    score = f"{found.tried[0].score:.2f}"
    every = f"log-likelihood of held-out rows, nats a row, encoded: 1 component, full {score}"
    assert found.scores == every


def test_factors_of_a_wide_table_are_within_the_work_of_a_search() -> None:
    """600 rows of 560 columns: no factor costs less than one, and no cube of the columns is counted for it."""
    counts = [config.factors for config in FactorAnalysis.sizes(FaConfig(), 600, 560)[0]]
    steps = 3 * sizing.EPOCHS * (sizing.FOLDS - 1)
    layout = Layout.plain(560)
    works = [step_work(FactorAnalysis.build(FaConfig(factors=L), layout), 600) for L in counts]
    assert works == sorted(works) and works[0] <= works[1]
    assert steps * sum(work for work, L in zip(works, counts, strict=True) if (L or 0) <= 8) < sizing.WORK


def test_factors_of_a_table_wider_than_long_are_found() -> None:
    generator = torch.Generator().manual_seed(2)
    F = torch.randn(90, 3, dtype=torch.float64, generator=generator)
    x = torch.randn(60, 3, dtype=torch.float64, generator=generator) @ F.mT
    table = holes(x + torch.randn(60, 90, dtype=torch.float64, generator=generator), generator)
    found = choose_size(FactorAnalysis, FaConfig(), ComparedRows(table, torch.Generator().manual_seed(0)), EmConfig())
    assert found.config.factors == 3


def test_factors_of_one_gaussian_are_counted_without_the_levels_that_shift_it() -> None:
    """Their path is that of `fa`, the search says how many it tried, and what it gives back keeps the shifts."""
    generator = torch.Generator().manual_seed(4)
    F = torch.randn(20, 2, dtype=torch.float64, generator=generator)
    x = torch.randn(150, 2, dtype=torch.float64, generator=generator) @ F.mT
    x = torch.cat([x + torch.randn(150, 20, dtype=torch.float64, generator=generator), torch.zeros(150, 1)], 1)
    x[:, 20] = torch.arange(150) % 2
    layout = replace(Layout.plain(21), levels=(0,) * 20 + (2,))
    table = make_table(x, torch.rand(x.shape, generator=generator) < 0.1, layout=layout)
    config = MixtureConfig(components=1, covariance="factor", dependence="linear")
    built: list[str | None] = []

    class Watched(GaussianMixture):
        @classmethod
        def build(cls, config: MixtureConfig, layout: Layout) -> Watched:
            built.append(config.dependence)
            return super().build(config, layout)

    found = choose_size(Watched, config, ComparedRows(table, torch.Generator().manual_seed(0)), EmConfig())
    assert set(built) == {"none"} and found.config.dependence == "linear"
    assert found.config.factors == 2 and [t.config.factors for t in found.tried] == [0, 1, 2, 3, 4]
    assert found.reason == "1 cluster with 2 factors describes held-out rows best (tried 0 to 4; scores with -v)"
    both = MixtureConfig(covariance="factor", factors=2, dependence="linear")
    built.clear()
    choose_size(Watched, both, ComparedRows(table, torch.Generator().manual_seed(0)), EmConfig())
    assert set(built) == {"linear"}  # of several clusters one without shifts would not be like the others


def test_no_factors_start_at_the_variances() -> None:
    model = FactorGaussians(1, 2, 0, ridge=0.0).double()
    covariance = torch.tensor([[[4.0, 1.0], [1.0, 9.0]]], dtype=torch.float64)
    model.set_moments(torch.zeros(1, 2, dtype=torch.float64), covariance)
    torch.testing.assert_close(model.moments().covariance[0], torch.diag(covariance[0].diagonal()))


def test_two_correlated_columns_get_a_factor() -> None:
    g = torch.Generator().manual_seed(0)
    a = torch.randn(200, 1, generator=g, dtype=torch.float64)
    x = torch.cat([a, a + 0.4 * torch.randn(200, 1, generator=g, dtype=torch.float64)], 1)
    found = choose_size(
        FactorAnalysis, FaConfig(), ComparedRows(make_table(x, torch.zeros(200, 2, dtype=torch.bool)), g), EmConfig()
    )
    assert found.config.factors == 1


def collinear(rows: int = 84) -> Tensor:
    """[rows, 6] as mammals.csv has them: `awake` = 24 - `sleep_total`, and two heavy-tailed columns that go together,
    of which a few giants decide the mean and the variance."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(rows, 6, dtype=torch.float64, generator=generator)
    sleep = z[:, 0]
    body = (3.0 * z[:, 1]).exp()
    brain = body**0.75 * (0.3 * z[:, 2]).exp()
    columns = [sleep, 0.7 * sleep + 0.7 * z[:, 3], 0.5 * z[:, 1] + z[:, 4], -sleep + 1e-3 * z[:, 5], brain, body]
    x = torch.stack(columns, 1)
    return (x - x.mean(0)) / x.std(0)


@pytest.mark.parametrize("seed", first(2, range(4)))
def test_collinear_and_heavy_tailed_columns_get_factors(seed: int) -> None:
    table = holes(collinear(), torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(seed)
    found = choose_size(FactorAnalysis, FaConfig(), ComparedRows(table, generator), EmConfig())
    assert found.config.factors in (1, 2, 3)
    scores = {t.config.factors: t.score for t in found.tried}
    assert scores[1] > scores[0] + 1  # a column is all but known from another; a giant outweighs that no more


def test_the_score_of_a_row_that_no_candidate_describes_is_bounded() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, dtype=torch.float64, generator=generator)
    table = make_table(x, torch.zeros(60, 2, dtype=torch.bool))
    far = table._replace(x=x.index_fill(0, torch.tensor([7]), 1e3))
    config, starts = FaConfig(factors=1), [x[torch.arange(60) % 3 != n] for n in range(3)]
    plain, one_far = (
        sum(held_out(FactorAnalysis, config, t, fold, EmConfig(), 0) for fold in enumerate(starts)) / 60
        for t in (table, far)
    )
    assert plain - 10 < one_far < plain  # nats a row: the far row alone would cost 8,000


@pytest.mark.full_fits
def test_a_mixture_is_charged_for_every_row() -> None:
    assert GaussianMixture.undescribed == 0
    x = torch.tensor([[0.0], [1.0], [1e4]], dtype=torch.float64).repeat(20, 1)[:59]
    far = make_table(x, torch.zeros(59, 1, dtype=torch.bool))
    starts = [x[torch.arange(59) % 3 != n] for n in range(3)]
    config = MixtureConfig(components=1)
    score = sum(held_out(GaussianMixture, config, far, fold, EmConfig(), 0) for fold in enumerate(starts)) / 59
    total = 0.0
    for number in range(3):
        held = torch.arange(59) % 3 == number
        model = GaussianMixture.build(config, Layout.plain(1)).double()
        model.initialise(starts[number], torch.Generator().manual_seed(0))
        train = em_table(x[~held], far.missing[~held])
        climb(model, train, model.penalty(None, EmConfig().floor), epochs=sizing.EPOCHS, tolerance=sizing.TOLERANCE)
        total += model.marginal_log_prob(x[held], far.missing[held]).sum().item()
    assert score == pytest.approx(total / 59, rel=1e-12)


def test_independence_is_a_property_of_the_size() -> None:
    assert FactorAnalysis.build(FaConfig(factors=0), Layout.plain(3)).independent
    assert not FactorAnalysis.build(FaConfig(factors=1), Layout.plain(3)).independent
    sizes = {1: True, 2: False}
    for K, alone in sizes.items():
        config = MixtureConfig(components=K, covariance="factor", factors=0)
        assert GaussianMixture.build(config, Layout.plain(3)).independent == alone
    assert not GaussianMixture.build(MixtureConfig(components=1), Layout.plain(3)).independent
    assert GaussianMixture.build(MixtureConfig(components=1), Layout.plain(1)).independent


def test_levels_may_depend_on_levels_before_it_is_known_which_do() -> None:
    """The forest of a model that is about to be fitted has no edges yet."""
    levels = Layout.of(("x", "a", "b"), levels=(0, 2, 3))
    for kept, alone in (("forest", False), ("independent", True)):
        config = MixtureConfig(components=1, levels=kept, dependence="none")  # type: ignore[arg-type]
        assert GaussianMixture.build(config, levels).independent == alone
    assert GaussianMixture.build(MixtureConfig(components=1), Layout.of(("a",), levels=(2,))).independent


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (MixtureConfig(components=1, covariance="full", outliers=True), "1 cluster"),
        (MixtureConfig(components=3, covariance="full"), "3 clusters"),
        (MixtureConfig(components=2, factors=1), "2 clusters with 1 factor each"),
        (MixtureConfig(components=1, factors=4), "1 cluster with 4 factors"),
        (FaConfig(factors=0), "0 factors"),
    ],
)
def test_sizes_are_said_in_words(config: MixtureConfig | FaConfig, words: str) -> None:
    assert sizing.plain(config) == words
