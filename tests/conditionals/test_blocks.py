"""Joint conditionals of blocks of columns: densities under every pattern of holes, by closed forms and autograd."""

import itertools
import math

import pytest
import torch

from tests.oracles import random_covariance
from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.families.joint import JointFamily
from vgi_cli.conditionals.networks.heads import HeadNetwork
from vgi_cli.conditionals.networks.modulated import ModulatedNetwork
from vgi_cli.data import make_table, missing_together
from vgi_cli.layout import Blocks
from vgi_cli.maths.laws import normal_log_prob

D = 5
PARTITION = Blocks.grouped(D, [(0, 2, 3)])  # blocks (0, 2, 3), (1,), (4,)
PATTERNS = [torch.tensor(p) for p in itertools.product([False, True], repeat=3) if any(p)]


def block_conditionals(family="gaussian", extended=False, layout="shared", seed=0, partition=PARTITION):
    """Block conditionals with random parameters everywhere."""
    joint = JointFamily(partition.W, 2 if family == "spline" else 0, 5)
    if layout == "modulated":
        network = ModulatedNetwork(partition.S, joint.width, (8, 8), (6, 6), partition.D)
    else:
        network = HeadNetwork(partition.S, joint.width, (8, 8) if layout == "shared" else (), (6,), partition.D)
    q = AmortisedConditionals(joint, network, extended=extended, partition=partition).double()
    g = torch.Generator().manual_seed(seed)
    q.initialise(g)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return q


def exact_conditionals(covariance, partition):
    """The block conditionals of N(0, covariance), in the parameters of linear heads."""
    joint = JointFamily(partition.W, 0, 5)
    network = HeadNetwork(partition.S, joint.width, (), (), partition.D)
    q = AmortisedConditionals(joint, network, extended=False, partition=partition).double()
    precision, W = torch.linalg.inv(covariance), partition.W
    with torch.no_grad():
        layer = network.heads[0]
        for s, block in enumerate(partition.of):
            rest = [c for c in range(partition.D) if c not in block]
            own = precision[list(block)][:, list(block)]
            layer.weight[s][rest, : len(block)] = -torch.linalg.solve(own, precision[list(block)][:, rest]).T
            U = torch.linalg.cholesky(own, upper=True)
            layer.bias[s, 0, W : W + len(block)] = 7 * torch.atanh(-U.diagonal().log() / 7)
            for i, k in itertools.combinations(range(len(block)), 2):
                layer.bias[s, 0, 2 * W + joint.table(layer.bias.device)[i * W + k]] = -U[i, k] / U[i, i]
    return q


def rows(n, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, D, generator=g, dtype=torch.float64), g


def holes(n, pattern):
    """Columns 0, 2, 3 missing by the pattern, and column 4."""
    missing = torch.zeros(n, D, dtype=torch.bool)
    missing[:, [0, 2, 3]] = pattern
    missing[:, 4] = True
    return missing


def log_q(q, x, wanted):
    """Of block 0, hidden."""
    j = torch.zeros(len(x), dtype=torch.int64)
    return q.law(x, wanted, j, hidden=True).log_prob(q.at(x, j))


def redrawn(q, x, missing, j, noise):
    """Rows with blocks j [R, 1] redrawn, and log q of the draws or minus the entropy, as the objective takes it."""
    law = q.law(x, missing, j)
    value, log_q = law.draw_scored(noise)
    entropy = law.entropy()
    return q.put(x[:, None], j, value), log_q if entropy is None else -entropy


families = pytest.mark.parametrize("family", ["gaussian", "spline"])
kernels = pytest.mark.parametrize("extended", [False, True])


def test_blocks_partition_the_columns_and_know_their_members():
    assert PARTITION.of == ((0, 2, 3), (1,), (4,)) and (PARTITION.S, PARTITION.W, PARTITION.D) == (3, 3, 5)
    columns, real = PARTITION.members()
    assert columns == [[0, 2, 3], [1, 1, 1], [4, 4, 4]]
    assert list(map(sum, real)) == [3, 1, 1] and all(row[0] for row in real)
    with pytest.raises(ValueError, match="partition"):
        Blocks.grouped(3, [(0, 1), (1, 2)])


def test_columns_that_are_missing_together_are_found():
    missing = torch.rand(200, 6, generator=torch.Generator().manual_seed(0)) < 0.3
    missing[:, 3] = missing[:, 0]
    missing[:, 5] = missing[:, 1]
    missing[:, 4] = missing[:, 1]
    missing[:, 2] = False
    assert missing_together(make_table(0.0 * missing, missing)) == [(0, 3), (1, 4, 5)]
    missing[7, 4] ^= True
    assert missing_together(make_table(0.0 * missing, missing)) == [(0, 3), (1, 5)]
    none = torch.zeros(5, 3, dtype=torch.bool)
    assert missing_together(make_table(0.0 * none, none)) == []  # columns without holes are no group


@pytest.mark.parametrize("pattern", PATTERNS)
def test_exact_parameters_give_the_conditional_of_every_pattern(pattern):
    """log p(x) - log q(x_A | rest) is log p(x_rest), whatever part A of the block is wanted."""
    covariance = random_covariance(D, torch.Generator().manual_seed(3))
    q = exact_conditionals(covariance, PARTITION)
    x, _ = rows(20)
    wanted = holes(20, pattern)
    kept = [c for c in range(D) if not (wanted[0, c] and c != 4)]
    joint = torch.distributions.MultivariateNormal(x.new_zeros(D), covariance).log_prob(x)
    marginal = torch.distributions.MultivariateNormal(x.new_zeros(len(kept)), covariance[kept][:, kept])
    torch.testing.assert_close(joint - log_q(q, x, wanted), marginal.log_prob(x[:, kept]), rtol=0, atol=1e-8)


@families
@kernels
@pytest.mark.parametrize("pattern", PATTERNS)
def test_draws_change_what_is_missing_and_carry_their_density(family, extended, pattern):
    """The change of variables by autograd; only the missing cells of the block move; entropies are means of -log q."""
    q = block_conditionals(family, extended)
    x, g = rows(6)
    missing, j = holes(6, pattern), torch.zeros(6, 1, dtype=torch.int64)
    noise = torch.randn(6, 1, q.noise_width, generator=g, dtype=torch.float64)
    new, scores = redrawn(q, x, missing, j, noise)
    moved = holes(6, pattern)
    moved[:, 4] = False
    assert torch.equal(new[:, 0] != x, moved)
    wanted = [i for i, w in enumerate(pattern.tolist()) if w]
    columns = [(0, 2, 3)[i] for i in wanted]
    for r in range(6):
        row, mask = x[r : r + 1], missing[r : r + 1]

        def value(u, row=row, mask=mask):
            full = torch.zeros(1, 1, q.noise_width, dtype=torch.float64)
            full[0, 0, wanted] = u
            return redrawn(q, row, mask, torch.zeros(1, 1, dtype=torch.int64), full)[0][0, 0, columns]

        u = noise[r, 0, wanted]
        log_q = normal_log_prob(u).sum() - torch.autograd.functional.jacobian(value, u).det().abs().log()
        if family == "gaussian":  # minus the entropy: the mean of log q
            log_q = log_q - normal_log_prob(u).sum() - len(wanted) * 0.5 * math.log(2 * math.pi * math.e)
        assert scores[r, 0].item() == pytest.approx(log_q.item(), abs=1e-8)


@families
@kernels
@pytest.mark.parametrize("layout", ["independent", "shared", "modulated"])
def test_widened_laws_are_mixtures_over_the_missing_cells(family, extended, layout):
    q = block_conditionals(family, extended, layout)
    x, g = rows(60)
    missing = torch.rand(60, D, generator=g) < 0.7
    missing[:, 1] = True
    j = torch.where(missing[:, [0, 2, 3]].any(1), torch.arange(60) % 2, 1)
    law = q.law(x, missing, j)
    value, log_density = law.widened().draw_scored(torch.randn(60, q.noise_width, generator=g, dtype=torch.float64))
    new = q.put(x, j, value)
    assert not bool((new != x)[~missing].any())
    assert torch.equal(law.wanted.bool(), missing.gather(1, q.members[j]) & q.real[j])
    for at, got in ((value, log_density), (q.at(x, j), law.widened().log_prob(q.at(x, j)))):
        u, log_det = law.to_base(at)
        narrow = math.log(0.95) + (normal_log_prob(u) * law.wanted).sum(1)
        wide = math.log(0.05) + ((normal_log_prob(u / 3) - math.log(3)) * law.wanted).sum(1)
        torch.testing.assert_close(got, torch.logaddexp(narrow, wide) + log_det, rtol=1e-6, atol=1e-6)


@kernels
def test_only_the_extended_kernel_sees_its_own_values(extended):
    q = block_conditionals(extended=extended)
    x, _ = rows(4)
    missing = torch.ones_like(x, dtype=torch.bool)
    other = x.clone()
    other[:, [0, 2, 3]] += 1.0
    j = torch.zeros(4, 1, dtype=torch.int64)
    before, after = (q.law(row, missing, j).mean for row in (x, other))
    assert torch.equal(before, after) != extended


@families
def test_every_conditional_starts_standard_normal(family):
    q = block_conditionals(family)
    q.initialise(torch.Generator().manual_seed(0))
    x, _ = rows(9)
    wanted = torch.ones_like(x, dtype=torch.bool)
    torch.testing.assert_close(log_q(q, x, wanted), normal_log_prob(x[:, [0, 2, 3]]).sum(1), rtol=1e-9, atol=1e-9)


def test_gradients_are_those_of_whole_and_part_rows_alone():
    """Rows of which nothing or all of a block is missing leave no trace in the gradient of the others."""
    q = block_conditionals("spline")
    x, g = rows(8)
    part, whole = torch.tensor([True, False, True]), torch.ones(3, dtype=torch.bool)
    missing = torch.cat([holes(4, part), holes(4, whole)])
    noise = torch.randn(8, 1, q.W, generator=g, dtype=torch.float64)
    j = torch.zeros(8, 1, dtype=torch.int64)
    grads = []
    for pieces in ([slice(0, 8)], [slice(0, 4), slice(4, 8)]):
        q.zero_grad()
        for piece in pieces:
            new, scores = redrawn(q, x[piece], missing[piece], j[piece], noise[piece])
            (scores.sum() + new.square().sum()).backward()
        grads.append([p.grad.clone() for p in q.parameters()])
    assert all(torch.isfinite(grad).all() for grad in grads[0])
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-8)


def test_nearly_singular_blocks_stay_finite_in_single_precision():
    """Correlations of 1 - 1e-7 between the cells of a block, part of them given."""
    joint = JointFamily(3, 0, 5)
    params = torch.zeros(50, joint.width)
    params[:, 3:6] = -2.0
    params[:, 6:9] = torch.tensor([1.0, 0.5, 1.0])
    params[:, 3] = -7.0
    params.requires_grad_()
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    wanted = torch.tensor([True, False, True]).expand(50, 3)
    law = joint.law(params, x, wanted, torch.ones(50, 3, dtype=torch.bool))
    value, log_det = law.to_value(torch.ones(50, 3))
    (value.sum() + log_det.sum()).backward()
    assert bool(torch.isfinite(value).all()) and bool(torch.isfinite(params.grad).all())
