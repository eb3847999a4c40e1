"""A layout pairs columns, dimensions and blocks; f0 draws whole columns."""

import pytest
import torch

from vgi_cli.chains.store.packed import Chains
from vgi_cli.data import make_table, missing_together
from vgi_cli.fitting.chains import observed_quantiles
from vgi_cli.layout import Blocks, Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.methods.start import empirical
from vgi_cli.samplers.base import Box
from vgi_cli.samplers.starts import EmpiricalStart

WIDE = Layout.of(("age", "colour", "size"), (1, 3, 1))


def one_hots(n: int, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    colour = torch.eye(3, dtype=torch.float64)[torch.randint(3, (n,), generator=g)]
    rest = torch.randn(n, 2, generator=g, dtype=torch.float64)
    return torch.cat([rest[:, :1], colour, rest[:, 1:]], 1)


def missing_columns(n: int, seed: int = 1) -> torch.Tensor:
    missing = torch.rand(n, 3, generator=torch.Generator().manual_seed(seed)) < 0.4
    missing[0] = False
    return missing


def test_numbers_take_one_dimension_each() -> None:
    layout = Layout.plain(3)
    assert (layout.d, layout.D, layout.columns, layout.names) == (3, 3, ("0", "1", "2"), ("0", "1", "2"))
    assert layout.partition == Blocks.columns(3) and layout.partition.W == 1
    x = torch.zeros(2, 3)
    assert layout.data(x) is x and layout.of_columns(x) is x and layout.of_dimensions(x) is x


def test_wide_columns_blocks_and_latents() -> None:
    layout = WIDE.grouped([("size", "age")]).with_latents(2)
    assert (layout.d, layout.D, layout.L) == (5, 7, 2)
    assert layout.slices == (slice(0, 1), slice(1, 4), slice(4, 5))
    assert layout.units == (*layout.slices, slice(5, 6), slice(6, 7))
    assert layout.column_of == (0, 1, 1, 1, 2)
    assert layout.blocks == ((0, 2), (1,)) and layout.partition.of == ((0, 4), (1, 2, 3), (5, 6))
    assert [layout.label(i) for i in (0, 3, 4, 6)] == ["age", "colour", "size", "latent 1"]
    assert len(set(layout.names)) == 7 and layout.names[0] == "age" and "colour" not in layout.names
    x = torch.arange(7)
    data, latents = layout.split(x)
    assert data.tolist() == layout.data(x).tolist() == [0, 1, 2, 3, 4] and latents.tolist() == [5, 6]
    assert layout.with_latents(0) == WIDE.grouped([("age", "size")])


def test_a_column_is_missing_with_all_its_dimensions() -> None:
    columns = torch.tensor([[True, False, True], [False, True, False]])
    dimensions = WIDE.of_dimensions(columns)
    assert dimensions.tolist() == [[True, False, False, False, True], [False, True, True, True, False]]
    assert torch.equal(WIDE.of_columns(dimensions), columns)
    augmented = WIDE.with_latents(1)
    assert torch.equal(augmented.of_columns(torch.cat([dimensions, columns[:, :1]], 1)), columns)
    table = make_table(torch.zeros(2, 5), dimensions, WIDE)
    assert missing_together(table) == [(0, 2)]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Layout.of("ab", (1, 0)),
        lambda: Layout.of("ab", (1,)),
        lambda: Layout(("a", "b"), (1, 1), ((0,),)),
        lambda: make_table(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool), WIDE),
    ],
)
def test_what_does_not_fit_together_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"width|partition|dimensions"):
        wrong()


def test_the_first_imputations_of_a_wide_column_are_cells_of_it() -> None:
    n, K = 400, 3
    x, missing = one_hots(n), WIDE.of_dimensions(missing_columns(n))
    chains = Chains(make_table(x, missing, WIDE), K)
    empirical(chains, torch.Generator().manual_seed(2))
    seen = {tuple(cell) for cell in x[~missing[:, 1], 1:4].tolist()}
    ages = set(x[~missing[:, 0], 0].tolist())
    for chain in range(K):
        rows = chains.completed(chain)
        assert {tuple(cell) for cell in rows[:, 1:4].tolist()} == seen
        assert set(rows[:, 0].tolist()) <= ages
        assert torch.equal(rows[~missing], x[~missing])


def test_chains_of_a_sampler_start_at_cells_of_a_wide_column() -> None:
    n = 300
    x, missing = one_hots(n), WIDE.of_dimensions(missing_columns(n))
    kept = observed_quantiles(make_table(x, missing, WIDE)).double()
    share = x[~missing[:, 1], 1:4].mean(0)
    assert kept.shape == (512, 5) and ((kept[:, 1:4].mean(0) - share).abs() < 0.01).all()
    start = EmpiricalStart(kept, torch.zeros_like(kept, dtype=torch.bool), WIDE)
    noise = KeyedNoise(0, WIDE.names, torch.arange(n), torch.arange(20))
    free = torch.full((5,), torch.inf, dtype=torch.float64)
    states = start.states(x, missing, noise, Box(-free, free))[..., 1:4]
    assert (states.sum(-1) == 1).all() and (states.amax(-1) == 1).all()
    drawn = states[:, missing[:, 1]].flatten(0, 1).mean(0)
    assert ((drawn - share).abs() < 0.03).all()
