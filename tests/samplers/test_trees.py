"""Draws revised by trees: the corrected laws against closed forms, and what the sampler keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest, norm
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.maths.trees import Tree
from vgi_cli.models.gaussian.family import CellLaws, ColumnLaw
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.trees import BINS, EVEN, SMALL, Cell, TreesImputer, _unbent

LEVELS = (0, 3, 2)
LAYOUT = Layout.of(("x", "a", "b"), levels=LEVELS)
NUMBER, THREE, TWO = range(3)


def model(seed: int = 0) -> GaussianMixture:
    """Two components of a number and two columns of levels."""
    made = GaussianMixture.build(MixtureConfig(components=2), LAYOUT).double()
    g = torch.Generator().manual_seed(seed)
    rows = torch.stack(
        [torch.randint(n, (200,), generator=g).double() if n else torch.randn(200, generator=g) for n in LEVELS], 1
    )
    made.initialise(rows, g)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return made.eval().requires_grad_(False)


def stump(*leaf: float) -> Tree:
    """A tree of one leaf."""
    return Tree(torch.tensor([-1]), torch.zeros(1), torch.tensor([[-1, -1]]), torch.tensor([leaf]))


def split(feature: int, left: list[float], right: list[float]) -> Tree:
    """Rows whose feature is 0 go left, those with 1 right."""
    children = torch.tensor([[1, 2], [-1, -1], [-1, -1]])
    table = torch.tensor([left, right])
    return Tree(torch.tensor([feature, -1, -1]), torch.tensor([0.5, 0.0, 0.0]), children, table)


def free(low: float = -torch.inf) -> Box:
    low_ = torch.tensor([low, 0.0, 0.0], dtype=torch.float64)
    return Box(low_, torch.tensor([torch.inf, 2.0, 1.0], dtype=torch.float64))


def noise(rows: int, draws: int = 1) -> KeyedNoise:
    return KeyedNoise(3, tuple("xab"), torch.arange(rows), torch.arange(draws))


def drawn(column: int, tree: Tree | None, rows: int = 4000, b: int = 0, box: Box | None = None) -> Tensor:
    """Draws of one column, which alone is missing and has the tree, of rows that are equal elsewhere."""
    x = torch.tensor([[0.3, 1.0, float(b)]], dtype=torch.float64).repeat(rows, 1)
    missing = torch.zeros(rows, 3, dtype=torch.bool)
    missing[:, column] = True
    trees = [tree if j == column else None for j in range(3)]
    imputer = TreesImputer([model()], [trees], LAYOUT)
    return impute(imputer, x.masked_fill(missing, 0.0), missing, noise(rows), box or free())[0, :, column]


def cell(column: int, b: int = 0) -> Cell:
    x = torch.tensor([[0.3, 1.0, float(b)]], dtype=torch.float64)
    return Cell(model().cell_laws(), Indicators(LAYOUT.level_counts), x, column)


def test_quantiles_are_the_inverse_of_the_distribution_function() -> None:
    law = ColumnLaw(
        torch.tensor([[0.3, 0.7]], dtype=torch.float64).log(), torch.tensor([[-4.0, 1.0]]), torch.ones(1, 2)
    )
    u = torch.tensor([1e-6, 0.2, 0.3, 0.5, 0.999], dtype=torch.float64)
    several = ColumnLaw(*(part.double().expand(5, 2) for part in law))
    x = several.quantile(u)
    torch.testing.assert_close(several.cdf(x), u, rtol=0, atol=1e-9)
    expected = 0.3 * norm.cdf(x.numpy(), -4, 1) + 0.7 * norm.cdf(x.numpy(), 1, 1)
    torch.testing.assert_close(several.cdf(x), torch.from_numpy(expected))
    assert several.centre()[0].item() == 0.3 * -4 + 0.7 * 1


def test_a_density_on_intervals_is_inverted() -> None:
    weight = torch.rand(5000, BINS, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.05
    u = torch.rand(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    v = _unbent(weight, u)
    place = (v * BINS).long()
    whole = torch.nn.functional.pad(weight.cumsum(1), (1, 0)).gather(1, place[:, None])[:, 0]
    reached = whole + weight.gather(1, place[:, None])[:, 0] * (v * BINS - place)
    torch.testing.assert_close(reached / weight.sum(1), u, rtol=0, atol=1e-12)


def test_corrected_probabilities_sum_to_one() -> None:
    level = cell(THREE)
    probs = level.probs
    assert probs is not None
    torch.testing.assert_close(level.probabilities(None), probs)
    expected = probs * torch.tensor([3.0, 1.0, 0.2]).float().double()
    torch.testing.assert_close(level.probabilities(stump(3.0, 1.0, 0.2)), expected / expected.sum())


def test_without_trees_a_number_has_the_law_of_the_model() -> None:
    law = cell(NUMBER).law
    assert law is not None
    one = drawn(NUMBER, None)
    assert kstest(_cdf(law, one).numpy(), "uniform").pvalue > 0.01


def _cdf(law: ColumnLaw, x: Tensor) -> Tensor:
    return ColumnLaw(*(part.expand(len(x), -1) for part in law)).cdf(x)


def test_a_number_is_corrected_in_its_distribution_function() -> None:
    """The density of F(x) is the one that the leaf keeps."""
    kept = [0.4, 0.3, 0.1, 0.05, 0.05, 0.02, 0.02, 0.02, 0.02, 0.02]
    law = cell(NUMBER).law
    assert law is not None
    v = _cdf(law, drawn(NUMBER, stump(*kept)))
    counts = torch.histc(v, BINS, 0, 1)
    assert chisquare(counts.numpy(), 4000 * np.array(kept)).pvalue > 0.01
    first = v[v < 1 / BINS] * BINS
    assert kstest(first.numpy(), "uniform").pvalue > 0.01


def test_a_level_is_corrected_in_its_probability() -> None:
    probs = cell(THREE).probs
    assert probs is not None
    expected = probs[0] * torch.tensor([3.0, 1.0, 0.2]).double()
    counts = torch.bincount(drawn(THREE, stump(3.0, 1.0, 0.2)).long(), minlength=3)
    assert chisquare(counts.numpy(), (4000 * expected / expected.sum()).numpy()).pvalue > 0.01


def test_a_tree_asks_for_the_other_columns() -> None:
    """The indicator of the second level of b decides here; of the column itself it sees nothing."""
    own = Indicators(LAYOUT.level_counts)
    feature = int((own.of == TWO).nonzero()[1])
    tree = split(feature, [1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    assert drawn(THREE, tree, 50, b=0).unique().tolist() == [0.0]
    assert drawn(THREE, tree, 50, b=1).unique().tolist() == [2.0]
    for column in range(3):
        assert bool((cell(column).features[:, : own.F][:, own.of == column] == 0).all())


def test_what_falls_outside_is_drawn_from_the_truncated_law() -> None:
    law = cell(NUMBER).law
    assert law is not None
    low = law.centre().item()
    everything_below = stump(1.0, *[0.0] * (BINS - 1))
    x = drawn(NUMBER, everything_below, box=free(low))
    assert float(x.min()) >= low
    at = _cdf(law, torch.tensor([low], dtype=torch.float64))
    assert kstest(((_cdf(law, x) - at) / (1 - at)).numpy(), "uniform").pvalue > 0.01


def test_draws_do_not_depend_on_other_rows_or_draws() -> None:
    rows = 300
    g = torch.Generator().manual_seed(4)
    full = torch.stack(
        [torch.randint(n, (rows,), generator=g).double() if n else torch.randn(rows, generator=g) for n in LEVELS], 1
    )
    missing = torch.rand(rows, 3, generator=g) < 0.5
    trees = [[stump(*torch.rand(BINS).tolist()), stump(2.0, 1.0, 1.0), None], [None, None, stump(1.0, 3.0)]]
    imputer = TreesImputer([model(), model(1)], trees, LAYOUT)
    x = full.masked_fill(missing, 0.0)
    whole = impute(imputer, x, missing, noise(rows, 4), free())
    some = torch.tensor([7, 260, 3])
    few = impute(imputer, x[some], missing[some], noise(rows, 2).select(rows=some), free())
    assert torch.equal(few, whole[:2, some])
    assert bool((whole == x)[:, ~missing].all())


def test_numbers_alone_have_laws_too() -> None:
    plain = GaussianMixture.build(MixtureConfig(components=1), Layout.plain(2)).double()
    laws: CellLaws = plain.cell_laws()
    assert laws.levels(0) == 0
    assert laws.number(torch.zeros(3, 2, dtype=torch.float64), 1).mean.shape == (3, 1)


def test_draws_do_not_depend_on_how_many_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws of one refit are revised together, many rows at a time: their bits stay."""
    generator = torch.Generator().manual_seed(4)
    x = torch.stack(
        [
            torch.randn(700, generator=generator),
            torch.randint(3, (700,), generator=generator).float(),
            torch.randint(2, (700,), generator=generator).float(),
        ],
        1,
    ).double()
    missing = torch.rand(x.shape, generator=generator) < 0.5
    trees = [stump(*torch.rand(BINS, generator=generator).add(0.1).tolist()), stump(3.0, 1.0, 0.2), None]

    def all_draws(count: int) -> Tensor:
        imputer = TreesImputer([model(), model()], [trees, trees], LAYOUT)
        return impute(imputer, x.masked_fill(missing, 0.0), missing, noise(700, count), free(-1.0))

    many = all_draws(7)
    assert torch.equal(all_draws(2), many[:2])
    monkeypatch.setattr("vgi_cli.samplers.trees.TOGETHER", 256)
    assert torch.equal(all_draws(7), many)


def test_few_rows_are_multiplied_as_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the library for matrices, whatever the processor: torch itself rounds small batched products otherwise."""
    seen: list[int] = []
    number = CellLaws.number

    def counted(self: CellLaws, x: Tensor, j: int) -> ColumnLaw:
        seen.append(len(x))
        return number(self, x, j)

    for numbers in (1, 3, 30):
        layout = Layout.plain(numbers)
        made = GaussianMixture.build(MixtureConfig(components=2), layout).double()
        made.initialise(torch.randn(200, numbers, dtype=torch.float64), torch.Generator().manual_seed(0))
        laws = TreesImputer([made.eval().requires_grad_(False)], [], layout)
        with monkeypatch.context() as patched:
            patched.setattr(CellLaws, "number", counted)
            for rows in (1, 50, 500):
                missing = torch.ones(rows, numbers, dtype=torch.bool)
                keys = KeyedNoise(3, layout.names, torch.arange(rows), torch.arange(1))
                far = torch.full((numbers,), torch.inf, dtype=torch.float64)
                impute(laws, torch.zeros(rows, numbers, dtype=torch.float64), missing, keys, Box(-far, far))
        assert all(rows * numbers >= SMALL and rows % EVEN == 0 for rows in seen)
        assert seen
        seen.clear()
