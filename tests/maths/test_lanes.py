"""Compiled loops over incomplete rows under Gaussians against the same in torch, which its own tests hold to closed
forms."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from vgi_cli import fast
from vgi_cli.maths import compiled, lanes
from vgi_cli.maths.forests import Forest, evidence, expected_counts, see
from vgi_cli.maths.gaussian import patterns_of
from vgi_cli.models.gaussian.factors import WORTH, FactorGaussians, FactorObserved, SummedFactors
from vgi_cli.models.gaussian.full import FullGaussians, FullObserved, SummedObserved
from vgi_cli.models.gaussian.gaussians import Penalty, Scale
from vgi_cli.models.gaussian.incomplete import Incomplete

pytestmark = pytest.mark.skipif(fast.numba_version() is None, reason="compiled loops are turned off, or missing")

SHAPES = [  # rows, columns, components, share of holes
    (400, 1, 1, 0.5),
    (300, 2, 3, 0.3),
    (200, 6, 8, 0.3),
    (300, 9, 20, 0.5),
    (90, 30, 3, 0.8),
    (40, 40, 9, 0.5),
    (300, 5, 7, 0.0),
    (300, 5, 7, 1.0),
]


def gaussians(D: int, K: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Means [K, D] and lower factors [K, D, D] of covariances."""
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(K, D, 2 * D, dtype=torch.float64, generator=generator)
    mean = torch.randn(K, D, dtype=torch.float64, generator=generator)
    return mean, torch.linalg.cholesky(root @ root.mT / (2 * D))


def summed(mean: Tensor, factor: Tensor, rows: Incomplete, fixed: bool = False) -> SummedObserved:
    """Rows as Gaussians with these means and lower factors of covariances see them by loops."""
    model = FullGaussians(*mean.shape).double()
    model.set_moments(mean, factor @ factor.mT)
    return SummedObserved(model, rows, fixed)


def rows_of(R: int, D: int, share: float, seed: int = 1, **how: bool) -> Incomplete:
    generator = torch.Generator().manual_seed(seed)
    missing = torch.rand(R, D, generator=generator) < share
    x = torch.where(missing, 0.0, torch.randn(R, D, dtype=torch.float64, generator=generator))
    return Incomplete(x, patterns_of(missing), **how)


def weights_of(R: int, K: int) -> Tensor:
    return torch.softmax(torch.randn(R, K, dtype=torch.float64, generator=torch.Generator().manual_seed(2)), -1)


def both(R: int, D: int, K: int, share: float) -> tuple[FullObserved, SummedObserved]:
    mean, factor = gaussians(D, K)
    rows = rows_of(R, D, share)
    return FullObserved(mean, factor, rows, False), summed(mean, factor, rows)


def close(got: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(got, wanted, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_densities_means_and_sums_are_those_of_torch(shape: tuple[int, int, int, float]) -> None:
    R, _, K, _ = shape
    by_torch, by_loops = both(*shape)
    close(by_loops.log_prob, by_torch.log_prob)
    for k in {0, K - 1}:
        close(by_loops.mean(k), by_torch.mean(k))
    weights = weights_of(R, K)
    for got, wanted in zip(by_loops.statistics(weights), by_torch.statistics(weights), strict=True):
        close(got, wanted)
    place = torch.arange(R) % 3
    close(by_loops.shift_statistics(weights, place, 4), by_torch.shift_statistics(weights, place, 4))


def test_a_draw_is_that_of_torch() -> None:
    by_torch, by_loops = both(300, 4, 3, 0.4)
    noise = torch.randn(300, 4, dtype=torch.float64)
    close(by_loops.draw(1, noise, noise[:, :0]).detach(), by_torch.draw(1, noise, noise[:, :0]))


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_determinants_of_any_size_are_right(scale: float) -> None:
    """30 pivots of 1e120 would be infinite as a product."""
    mean, factor = gaussians(30, 2)
    rows = rows_of(150, 30, 0.9)
    rows = Incomplete(rows.x * scale, rows.patterns)
    by_torch = FullObserved(mean * scale, factor * scale, rows, False)
    by_loops = summed(mean * scale, factor * scale, rows)
    close(by_loops.log_prob, by_torch.log_prob)


def test_columns_that_all_but_determine_each_other_lose_no_more_digits_than_by_torch() -> None:
    generator = torch.Generator().manual_seed(3)
    root = torch.randn(3, 8, 2, dtype=torch.float64, generator=generator)
    covariance = root @ root.mT + 1e-7 * torch.eye(8, dtype=torch.float64)
    factor, mean = torch.linalg.cholesky(covariance), torch.zeros(3, 8, dtype=torch.float64)
    rows = rows_of(200, 8, 0.5)
    some = torch.randn(200, 2, dtype=torch.float64, generator=generator) @ root[0].mT
    rows = Incomplete(torch.where(rows.patterns.missing[rows.patterns.of_row], 0.0, some), rows.patterns)
    by_loops, by_torch = summed(mean, factor, rows), FullObserved(mean, factor, rows, False)
    observed = ~rows.patterns.missing[rows.patterns.of_row]
    for r in range(0, 200, 17):
        o = observed[r]
        if not o.any():
            continue
        law = torch.distributions.MultivariateNormal(mean[0, o], covariance[0][o][:, o])
        truth = law.log_prob(some[r, o])
        for seen in (by_loops, by_torch):
            assert seen.log_prob[r, 0].item() == pytest.approx(truth.item(), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("broken", [-1.0, math.nan])
@pytest.mark.parametrize("missing", [[False, True, True], [True, False, True]])
def test_what_is_not_positive_definite_is_an_error(missing: list[bool], broken: float) -> None:
    eye = torch.eye(3, dtype=torch.float64).expand(2, 3, 3)
    zeros = torch.zeros(2, 3, dtype=torch.float64)
    laws = lanes.Laws(*map(lanes.in_lanes, (zeros, eye, eye, zeros[:, 0])))
    some = lanes.holes_of(torch.tensor([missing]))
    triangles = lanes.hole_triangles(laws, some)
    assert torch.equal(triangles.packed[:, :2], torch.tensor([[1.0], [0.0], [1.0]]).double().expand(3, 2))
    assert torch.equal(triangles.logdet[:, :2], torch.zeros(1, 2, dtype=torch.float64))
    laws.precision[2, 2, 1] = broken
    with pytest.raises(torch.linalg.LinAlgError, match="not positive definite"):
        lanes.hole_triangles(laws, some)


def test_patterns_are_looked_at_from_the_side_that_is_less_work() -> None:
    missing = torch.arange(12) < torch.tensor([0, 3, 6, 8, 9, 12])[:, None]
    holes = lanes.holes_of(missing)
    assert holes.sides.tolist() == [0, 0, 0, 0, 1, 1]
    assert holes.starts.tolist() == [0, 0, 6, 27, 63, 141] and holes.cells == 219
    laws = lanes.Laws(*(lanes.in_lanes(torch.eye(12, dtype=torch.float64)[None]) for _ in range(4)))
    broken = laws._replace(covariance=-laws.covariance, mean=laws.mean[0], logdet=laws.logdet[0, 0])
    with pytest.raises(torch.linalg.LinAlgError):
        lanes.hole_triangles(broken, holes)
    lanes.hole_triangles(broken, lanes.holes_of(missing[:4]))


def test_a_row_has_the_bits_that_it_has_alone() -> None:
    mean, factor = gaussians(7, 11)
    rows = rows_of(64, 7, 0.5)
    whole = summed(mean, factor, rows)
    for r in range(0, 64, 5):
        alone = Incomplete(rows.x[[r]], patterns_of(rows.patterns.missing[rows.patterns.of_row[[r]]]))
        assert torch.equal(summed(mean, factor, alone).log_prob[0], whole.log_prob[r])
    few = summed(mean[:3], factor[:3], rows)
    assert torch.equal(few.log_prob, whole.log_prob[:, :3])


def test_triangles_are_kept_until_the_covariances_change() -> None:
    mean, factor = gaussians(5, 2)
    rows = rows_of(300, 5, 0.4, again=True, summed=True)
    first, again = (summed(mean, factor, rows, True) for _ in range(2))
    assert again.triangles is first.triangles
    other = summed(mean, 2 * factor, rows, True)
    assert other.triangles is not first.triangles
    close(other.log_prob, FullObserved(mean, 2 * factor, rows, False).log_prob)
    assert summed(mean, factor, rows).triangles is not first.triangles


def test_they_are_used_for_sums_over_many_rows_on_a_cpu_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FullGaussians(2, 4).double()
    many, few = (rows_of(R, 4, 0.4, summed=True) for R in (lanes.WORTH // 2, lanes.WORTH // 2 - 1))
    with torch.no_grad():
        assert type(model.observe(many)) is SummedObserved
        assert type(model.observe(few)) is FullObserved
        assert type(model.observe(rows_of(lanes.WORTH, 4, 0.4))) is FullObserved  # of which more may be asked
        assert type(model.float().observe(many)) is FullObserved
    assert type(model.double().observe(many)) is FullObserved
    with torch.no_grad():
        monkeypatch.setattr(compiled, "kernel", lambda name: None)
        assert type(model.observe(many)) is FullObserved


@pytest.mark.parametrize("pooling", [0.0, 3.0])
@pytest.mark.parametrize(("D", "K"), [(1, 1), (4, 3), (12, 9)])
def test_a_step_is_that_of_torch(monkeypatch: pytest.MonkeyPatch, D: int, K: int, pooling: float) -> None:
    """Penalty, M-step and precisions, and the rows as they see them."""
    mean, factor = gaussians(D, K)
    rows, weights = rows_of(200, D, 0.4, summed=True), weights_of(200, K)
    scale = Scale(torch.linspace(-1, 1, D).double(), torch.linspace(0.5, 2, D).double(), 300)
    penalty = Penalty(floor=1e-3, pooling=pooling, common=1.0, mean=0.01, weight=1e-6)
    found = []
    for kernel in (compiled.kernel, lambda name: None):
        monkeypatch.setattr(compiled, "kernel", kernel)
        model = FullGaussians(K, D).double()
        model.set_moments(mean, factor @ factor.mT)
        with torch.no_grad():
            before = model.log_penalty(scale, penalty)
            model.maximise(model.observe(rows).statistics(weights), scale, penalty)
            found.append(
                (before, model.log_penalty(scale, penalty), model.mean.clone(), model.tril.clone(), *model.precision())
            )
    for got, wanted in zip(*found, strict=True):
        close(got, wanted)
    assert found[0][0].ndim == 0


def test_a_step_that_cannot_be_taken_is_an_error_and_changes_nothing() -> None:
    model = FullGaussians(2, 3).double()
    scale, penalty = Scale(torch.zeros(3).double(), torch.ones(3).double(), 900), Penalty(0.0, 0.0, 0.0, 0.01, 0.0)
    statistics = (torch.ones(2).double(), torch.zeros(2, 3).double(), -torch.eye(3).double().expand(2, 3, 3))
    with torch.no_grad():
        with pytest.raises(torch.linalg.LinAlgError, match="not positive definite"):
            model.maximise(statistics, scale, penalty)
        assert not bool(model.mean.any()) and not bool(model.tril.any())
        model.tril[0, 0, 0] = torch.nan
        with pytest.raises(torch.linalg.LinAlgError, match="not positive definite"):
            model.log_penalty(scale, penalty._replace(pooling=1.0, common=1.0))


FACTORS = [  # rows, columns, factors, components, share of holes
    (300, 1, 0, 1, 0.5),
    (120, 6, 0, 3, 0.3),
    (120, 6, 1, 8, 0.5),
    (60, 9, 3, 20, 0.8),
    (300, 12, 6, 1, 0.3),
    (90, 5, 2, 3, 0.0),
    (90, 5, 2, 3, 1.0),
]


def both_factors(R: int, D: int, L: int, K: int, share: float) -> tuple[FactorObserved, SummedFactors]:
    generator = torch.Generator().manual_seed(5)
    F, mean, log_psi = (
        torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in ((K, D, L), *[(K, D)] * 2)
    )
    rows = rows_of(R, D, share)
    return FactorObserved(F, mean, log_psi, rows), SummedFactors(F, mean, log_psi, rows)


@pytest.mark.parametrize("shape", FACTORS)
def test_factor_models_see_rows_as_by_torch(shape: tuple[int, int, int, int, float]) -> None:
    R, _, _, K, _ = shape
    by_torch, by_loops = both_factors(*shape)
    close(by_loops.log_prob, by_torch.log_prob)
    weights, place = weights_of(R, K), torch.arange(R) % 3
    for got, wanted in zip(by_loops.statistics(weights), by_torch.statistics(weights), strict=True):
        close(got, wanted)
    close(by_loops.shift_statistics(weights, place, 4), by_torch.shift_statistics(weights, place, 4))


def test_means_and_draws_of_factor_models_are_those_of_torch() -> None:
    by_torch, by_loops = both_factors(120, 6, 2, 3, 0.4)
    columns, factors = torch.randn(120, 6, dtype=torch.float64), torch.randn(120, 2, dtype=torch.float64)
    assert torch.equal(by_loops.mean(1), by_torch.mean(1))
    assert torch.equal(by_loops.draw(1, columns, factors), by_torch.draw(1, columns, factors))


def test_factor_models_of_many_rows_are_seen_by_loops_where_their_sums_are_small() -> None:
    rows = rows_of(WORTH, 4, 0.4, summed=True)
    with torch.no_grad():
        assert type(FactorGaussians(1, 4, 2, 0.0).double().observe(rows)) is SummedFactors
        few = rows_of(WORTH - 1, 4, 0.4, summed=True)
        assert type(FactorGaussians(1, 4, 2, 0.0).double().observe(few)) is FactorObserved
        wide = rows_of(WORTH, 40, 0.4, summed=True)
        assert type(FactorGaussians(1, 40, 12, 0.0).double().observe(wide)) is FactorObserved  # 40 * 91 > COMPILED
        assert type(FactorGaussians(1, 40, 6, 0.0).double().observe(wide)) is SummedFactors
    assert type(FactorGaussians(1, 4, 2, 0.0).double().observe(rows)) is FactorObserved


def test_what_is_no_factor_model_is_an_error() -> None:
    F, mean, log_psi = torch.full((1, 3, 1), torch.nan).double(), torch.zeros(1, 3).double(), torch.zeros(1, 3).double()
    with pytest.raises(torch.linalg.LinAlgError, match="not positive definite"):
        SummedFactors(F, mean, log_psi, rows_of(5, 3, 0.2))


FORESTS = [  # levels, parents, components, rows, share of holes
    ((2, 3, 2, 4), (-1, -1, -1, -1), 3, 120, 0.4),
    ((2, 3, 2, 4), (-1, 0, 1, 2), 1, 300, 0.9),
    ((2, 3, 2, 4), (3, 0, 3, -1), 8, 120, 0.0),
    ((2, 3, 2, 4), (-1, 0, 0, 0), 9, 120, 1.0),
    ((24, 7, 1, 12, 2, 2), (-1, 0, 0, 1, 3, 3), 12, 60, 0.5),
    ((40,), (-1,), 2, 200, 0.3),
]


@pytest.mark.parametrize(("levels", "parent", "K", "R", "share"), FORESTS)
def test_levels_are_seen_as_by_torch(
    levels: tuple[int, ...], parent: tuple[int, ...], K: int, R: int, share: float
) -> None:
    generator = torch.Generator().manual_seed(4)
    forest = Forest(levels, parent)
    tables = forest.log_softmax(2 * torch.randn(K, forest.T, dtype=torch.float64, generator=generator)).exp()
    codes = torch.stack([torch.randint(0, n, (R,), generator=generator) for n in levels], 1)
    missing = torch.rand(R, len(levels), generator=generator) < share
    by_torch = see(forest, forest.tables(tables), evidence(codes, missing, levels))
    by_loops = lanes.Levels(lanes.in_lanes(tables), lanes.branches_of(forest), codes.masked_fill(missing, -1))
    close(by_loops.log_prob()[:, :K], by_torch.log_prob)
    weights = weights_of(R, K)
    close(by_loops.counts(lanes.weighted_lanes(weights))[:, :K].mT, expected_counts(by_torch, weights))


def test_many_likely_levels_do_not_overflow() -> None:
    """1,100 columns, each seen with probability 0.999: the mantissas of these numbers multiply to 2^1098."""
    n, likely = 1_100, 0.999
    forest = Forest((2,) * n, (-1,) * n)
    tables = torch.tensor([likely, 1 - likely], dtype=torch.float64).repeat(n)[None]
    seen = lanes.Levels(lanes.in_lanes(tables), lanes.branches_of(forest), torch.zeros(1, n, dtype=torch.int64))
    close(seen.log_prob()[0, 0], torch.tensor(n * math.log(likely), dtype=torch.float64))


def test_what_stands_for_a_row_is_taken_together() -> None:
    log_prob = 300 * torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    log_prob[2] = -torch.inf  # has no share
    ends = torch.tensor([1, 4, 9])
    rows, shares = lanes.joined(log_prob, ends)
    for r, (start, end) in enumerate(((0, 1), (1, 4), (4, 9))):
        close(rows[r], torch.logsumexp(log_prob[start:end], 0))
        close(shares[start:end], torch.softmax(log_prob[start:end], 0))


def test_many_rare_levels_do_not_underflow() -> None:
    """A root with 400 children, each seen with probability 1e-3: as a product 1e-1200."""
    n, rare = 401, 1e-3
    forest = Forest((2,) * n, (-1, *(0,) * (n - 1)))
    table = torch.tensor([[rare, 1 - rare], [2 * rare, 1 - 2 * rare]], dtype=torch.float64).flatten()
    tables = torch.cat([torch.tensor([0.5, 0.5], dtype=torch.float64), table.repeat(n - 1)])[None]
    codes = torch.zeros(2, n, dtype=torch.int64)
    codes[0, 0] = -1
    seen = lanes.Levels(lanes.in_lanes(tables), lanes.branches_of(forest), codes)
    low, high = ((n - 1) * math.log(value * rare) + math.log(0.5) for value in (1, 2))
    wanted = torch.tensor([max(low, high) + math.log1p(math.exp(low - high)), low], dtype=torch.float64)
    close(seen.log_prob()[:, 0], wanted)
    counts = seen.counts(lanes.in_lanes(torch.ones(1, 2, dtype=torch.float64)))[:, 0]
    share = 1 / (1 + math.exp(high - low))
    close(counts[:2], torch.tensor([1 + share, 1 - share], dtype=torch.float64))
    close(counts[2:6], torch.tensor([1 + share, 0, 1 - share, 0], dtype=torch.float64))


def everything() -> tuple[list[Tensor], list[Tensor]]:
    """What all loops make of some rows: row by row, and summed."""
    mean, factor = gaussians(12, 9)
    weights, place = weights_of(90, 9), torch.arange(90) % 3
    generator = torch.Generator().manual_seed(7)
    forest = Forest((2, 3, 2, 4), (-1, 0, 0, 2))
    tables = forest.log_softmax(torch.randn(9, forest.T, dtype=torch.float64, generator=generator)).exp()
    codes = torch.randint(-1, 2, (90, 4), generator=generator)
    seen = summed(mean, factor, rows_of(90, 12, 0.7))
    factors = both_factors(90, 6, 2, 9, 0.5)[1]
    levels = lanes.Levels(lanes.in_lanes(tables), lanes.branches_of(forest), codes)
    added = [*seen.statistics(weights), seen.shift_statistics(weights, place, 3), *factors.statistics(weights)]
    added += [factors.shift_statistics(weights, place, 3), levels.counts(lanes.weighted_lanes(weights))]
    joined = lanes.joined(weights.log(), torch.arange(3, 91, 3))
    return [seen.log_prob, seen.delta, factors.log_prob, levels.log_prob(), *joined], added


def test_loops_neither_read_nor_write_beside_their_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each array gets room before and behind, whose NaN would show in what is computed."""
    room, names, run = 512, set(), lanes._run

    def guarded(name: Any, tensors: Any, sizes: Any) -> Any:
        names.add(name)
        beside = [torch.full((2 * room,), torch.nan if t.is_floating_point() else 0).to(t.dtype) for t in tensors]
        whole = [torch.cat([b[:room], t.reshape(-1), b[room:]]) for b, t in zip(beside, tensors, strict=True)]
        inner = [w[room : w.numel() - room] for w in whole]
        found = run(name, inner, sizes)
        for b, w, i, t in zip(beside, whole, inner, tensors, strict=True):
            assert torch.equal(torch.cat([w[:room], w[len(w) - room :]]).nan_to_num(7), b.nan_to_num(7)), name
            t.copy_(i.view(t.shape))
        return found

    wanted = everything()
    monkeypatch.setattr(lanes, "_run", guarded)
    got = everything()
    assert all(map(torch.equal, [*got[0], *got[1]], [*wanted[0], *wanted[1]]))
    others = {"splines", "keep", "penalty", "maximise", "laws"}  # and those of networks, which have a test of their own
    networks = {"networks", "network_gradients", "residual", "residual_gradients"}
    assert names == set(get_args(compiled.Loop)) - others - networks


def test_threads_change_no_row_and_sums_only_in_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    alone = everything()
    monkeypatch.setattr(lanes, "LARGE", 1)
    assert lanes._parts(90, 2) == [slice(0, 30), slice(30, 60), slice(60, 90)]
    shared, again = everything(), everything()
    assert all(map(torch.equal, shared[0], alone[0]))
    for got, wanted, same in zip(shared[1], alone[1], again[1], strict=True):
        close(got, wanted)
        assert torch.equal(got, same)


def test_both_know_how_many_components_go_together() -> None:
    from vgi_cli.maths import row_kernels

    assert row_kernels.LANES == lanes.LANES
    assert [lanes.filled(K) for K in (1, 8, 9)] == [8, 8, 16]


@pytest.mark.slow
def test_who_compiles_has_the_bits_of_those_who_load(tmp_path: Path) -> None:
    code = """
import sys, torch
from tests.maths.test_lanes import both, weights_of
_, seen = both(300, 9, 12, 0.5)
for part in (seen.log_prob, *seen.statistics(weights_of(300, 12))):
    sys.stdout.write(str(part.contiguous().view(torch.int64).sum().item()) + " ")
"""
    environment: dict[str, Any] = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    printed = [
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert printed[0] == printed[1] and printed[0]
    assert any(tmp_path.rglob("*.nbi"))
