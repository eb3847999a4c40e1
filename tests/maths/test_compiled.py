"""The compiled splines against the ones of torch, whose float64 is the truth here; and when which of them is used."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.scripts import module
from vgi_cli import fast
from vgi_cli.errors import UsageError
from vgi_cli.maths import compiled
from vgi_cli.maths.nets import Dropout
from vgi_cli.maths.splines import packed_rational_quadratic
from vgi_cli.version import provenance

BOUND = 3.0
SHAPES = [  # of x, of what follows the parameters
    ((7, 150), (7, 150)),
    ((1000,), (1000,)),
    ((5, 300), (5, 1)),
    ((300, 5), (1, 5)),
    ((4, 3, 50), (4, 1, 1)),
    ((4, 3, 50), (1, 3, 1)),
    ((200,), (1,)),
]

pytestmark = pytest.mark.skipif(fast.numba_version() is None, reason="compiled loops are turned off, or not installed")


def draws(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def arguments(shape: tuple[int, ...], own: tuple[int, ...], bins: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """x, a fifth of it outside the interval, and parameters; float32."""
    return draws(*shape, seed=1, scale=2.0), draws(3 * bins - 1, *own, seed=2, scale=scale)


def spline(x: Tensor, parameters: Tensor, inverse: bool = False) -> tuple[Tensor, Tensor]:
    return packed_rational_quadratic(x, parameters, bound=BOUND, inverse=inverse)


def differentiated(x: Tensor, parameters: Tensor, inverse: bool) -> tuple[Tensor, ...]:
    """Value, log slope, and the gradients in x and the parameters of a loss that weighs both."""
    x, parameters = x.clone().requires_grad_(), parameters.clone().requires_grad_()
    y, log_slope = spline(x, parameters, inverse)
    weights = draws(2, *x.shape, seed=3).to(x)
    return (
        y.detach(),
        log_slope.detach(),
        *torch.autograd.grad((weights * torch.stack([y, log_slope])).sum(), (x, parameters)),
    )


def assert_as_exact(
    ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], truth: tuple[Tensor, ...], slack: tuple[float, float, float]
) -> None:
    """That our float32 is as near to the truth, in float64, as theirs. Slack: of the mean error, of the largest one as
    a share of the largest number, and of that in itself."""
    for name, got, other, true in zip(("y", "log slope", "grad x", "grad"), ours, theirs, truth, strict=True):
        assert got.dtype is torch.float32 and got.shape == true.shape
        typical, rough = (got - true).abs().mean(), (other - true).abs().mean()
        assert float(typical) <= 3 * float(rough) + slack[0], name
        worst, roughest = (got - true).abs().max(), (other - true).abs().max()
        assert float(worst) <= 4 * float(roughest) + slack[1] * float(true.abs().max()) + slack[2], name


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that computes the same by torch."""

    def compute(function: Any, *args: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(compiled, "kernel", lambda name: None)
            return function(*args)

    return compute


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("bins", [2, 4, 9])
@pytest.mark.parametrize(("shape", "own"), SHAPES)
def test_as_exact_as_torch(
    by_torch: Any, shape: tuple[int, ...], own: tuple[int, ...], bins: int, inverse: bool
) -> None:
    x, parameters = arguments(shape, own, bins)
    truth = differentiated(x.double(), parameters.double(), inverse)
    ours, theirs = differentiated(x, parameters, inverse), by_torch(differentiated, x, parameters, inverse)
    assert_as_exact(ours, theirs, truth, (1e-7, 1e-6, 0.0))
    assert not all(torch.equal(got, other) for got, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("inverse", [False, True])
def test_float64_is_left_to_torch(by_torch: Any, inverse: bool) -> None:
    x, parameters = (each.double() for each in arguments((50,), (50,), 5))
    assert torch.equal(spline(x, parameters, inverse)[0], by_torch(spline, x, parameters, inverse)[0])


def test_inverse_of_the_other_direction() -> None:
    x, parameters = arguments((20, 100), (20, 100), 8)
    y, log_slope = spline(x, parameters)
    back, back_log = spline(y, parameters, inverse=True)
    torch.testing.assert_close(back, x, atol=2e-4, rtol=0)
    torch.testing.assert_close(back_log, -log_slope, atol=2e-3, rtol=0)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("own", [(3, 700), (3, 1)])
def test_an_element_has_the_same_bits_at_every_place_and_in_every_batch(own: tuple[int, ...], inverse: bool) -> None:
    x, parameters = arguments((3, 700), own, 6)
    y, log_slope = spline(x, parameters, inverse)
    x_grad, grad = differentiated(x, parameters, inverse)[2:]
    weights = draws(2, 3, 700, seed=3)
    for start, stop in ((0, 1), (0, 700), (127, 130), (1, 700), (300, 309), (513, 700)):
        part = slice(start, stop)
        some = parameters[..., part] if own[1] > 1 else parameters
        x_part, some = x[:, part].clone().requires_grad_(), some.clone().requires_grad_()
        y_part, log_part = spline(x_part, some, inverse)
        assert torch.equal(y_part, y[:, part]) and torch.equal(log_part, log_slope[:, part])
        (weights[:, :, part] * torch.stack([y_part, log_part])).sum().backward()
        assert x_part.grad is not None and torch.equal(x_part.grad, x_grad[:, part])
        if own[1] > 1:
            assert some.grad is not None and torch.equal(some.grad, grad[..., part])
    one = [spline(x[:, [i]], parameters[..., [i]] if own[1] > 1 else parameters, inverse)[0] for i in range(700)]
    assert torch.equal(torch.cat(one, 1), y)


@pytest.mark.parametrize("inverse", [False, True])
def test_shared_parameters_have_the_bits_of_repeated_ones(inverse: bool) -> None:
    x, parameters = arguments((3, 200), (3, 1), 4)
    for got, repeated in zip(
        spline(x, parameters, inverse), spline(x, parameters.expand(-1, 3, 200), inverse), strict=True
    ):
        assert torch.equal(got, repeated)


@pytest.mark.parametrize("inverse", [False, True])
def test_strides_change_nothing(inverse: bool) -> None:
    x, parameters = arguments((30, 40), (30, 40), 4)
    expected = differentiated(x, parameters, inverse)
    turned = parameters.movedim(0, -1).contiguous().movedim(-1, 0)
    aside = torch.stack([x, x], -1)[..., 0]
    assert not turned.is_contiguous() and not aside.is_contiguous()
    x, turned = aside.t().contiguous().t().detach().requires_grad_(), turned.detach().requires_grad_()
    y, log_slope = spline(x, turned, inverse)
    weights = draws(2, 30, 40, seed=3)
    grads = torch.autograd.grad((weights * torch.stack([y, log_slope])).sum(), (x, turned))
    assert all(torch.equal(a, b) for a, b in zip((y, log_slope, *grads), expected, strict=True))


@pytest.mark.parametrize("inverse", [False, True])
def test_tails_and_what_is_not_finite(by_torch: Any, inverse: bool) -> None:
    x = torch.tensor([-1e30, 1e30, -math.inf, math.inf, math.nan, -BOUND, BOUND, 5.0, -0.0])
    parameters = draws(11, len(x), seed=2)
    (y, log_slope), (y_torch, log_torch) = spline(x, parameters, inverse), by_torch(spline, x, parameters, inverse)
    torch.testing.assert_close(y, y_torch, atol=1e-6, rtol=1e-6, equal_nan=True)
    torch.testing.assert_close(log_slope, log_torch, atol=1e-5, rtol=0, equal_nan=True)
    assert math.isnan(float(y[4])) and torch.equal(y[:4], x[:4]) and bool((log_slope[:4] == 0).all())


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("line", [0, 5, 9])
def test_logits_that_are_not_finite(by_torch: Any, line: int, inverse: bool) -> None:
    x, parameters = arguments((3,), (3,), 4)
    parameters[line, 1] = math.nan
    (y, log_slope), (y_torch, log_torch) = spline(x, parameters, inverse), by_torch(spline, x, parameters, inverse)
    assert torch.equal(y.isnan(), y_torch.isnan()) and torch.equal(log_slope.isnan(), log_torch.isnan())


@pytest.mark.parametrize("scale", [30.0, 1e3, 1e6, 1e20])
@pytest.mark.parametrize("inverse", [False, True])
def test_extreme_logits_stay_finite(by_torch: Any, scale: float, inverse: bool) -> None:
    parameters = scale * draws(23, 5000, seed=4).clamp(-1, 1)
    x = torch.linspace(-BOUND, BOUND, 5000)
    ours, theirs = differentiated(x, parameters, inverse), by_torch(differentiated, x, parameters, inverse)
    assert all(bool(torch.isfinite(each).all()) for each in ours)
    truth = spline(x.double(), parameters.double(), inverse)[0]  # float32 is far from it, where the map is a staircase
    assert float((ours[0] - truth).abs().mean()) <= 2 * float((theirs[0] - truth).abs().mean())


def test_second_derivatives_are_refused() -> None:
    x, parameters = arguments((4,), (4,), 4)
    y, log_slope = spline(x.requires_grad_(), parameters)
    with pytest.raises(NotImplementedError, match="first order only, got create_graph=True"):
        torch.autograd.grad((y + log_slope).sum(), x, create_graph=True)


def test_a_single_number(by_torch: Any) -> None:
    x, parameters = torch.tensor(0.3), draws(11, seed=2)
    for got, other in zip(spline(x, parameters), by_torch(spline, x, parameters), strict=True):
        assert got.shape == ()
        torch.testing.assert_close(got, other, atol=1e-6, rtol=1e-6)


def test_nothing_is_nothing() -> None:
    y, log_slope = spline(torch.empty(3, 0), torch.empty(11, 3, 0))
    assert y.shape == log_slope.shape == (3, 0)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_dropout_drops_the_units_that_torch_drops(by_torch: Any, share: float) -> None:
    x = draws(130, 17, seed=5)

    def twice() -> tuple[Tensor, Tensor]:
        layer = Dropout(share)
        layer.initialise(torch.Generator().manual_seed(1))
        return layer(x), layer(x)

    (first, second), expected = twice(), by_torch(twice)
    assert torch.equal(first, expected[0]) and torch.equal(second, expected[1]) and not torch.equal(first, second)
    assert int((first == 0).sum()) > 0


def test_the_benchmark_times_both_and_leaves_the_choice_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    splines, chosen = module("splines"), compiled.kernel
    x, parameters = arguments((40, 50), (40, 50), 4)
    x.requires_grad_()
    loops, calls = chosen("splines"), []

    def counted(*arguments: Any) -> None:
        calls.append(arguments)
        loops(*arguments)

    monkeypatch.setattr(compiled, "kernel", chosen := lambda name: counted)
    for work, passes in ((splines.forward, 1), (splines.backward, 2)):
        calls.clear()
        by_torch, by_loops = splines.medians(lambda work=work: work(x, parameters.requires_grad_(), False), 5)
        assert by_torch > 0 and by_loops > 0 and by_torch != by_loops
        assert len(calls) == passes * (5 + 3)  # of the 16 runs every second one, forwards and backwards
    assert compiled.kernel is chosen


# Which of the two.


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The choice is made anew in the test, and again after it."""
    compiled.kernel.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    compiled.kernel.cache_clear()


@pytest.mark.parametrize("value", ["", "1"])
def test_the_switch_leaves_it_on(anew: pytest.MonkeyPatch, value: str) -> None:
    anew.setenv(fast.SWITCH, value)
    assert compiled.kernel("splines") is not None and provenance()["versions"]["numba"] == fast.numba_version()


@pytest.mark.parametrize("name", [fast.SWITCH, "NUMBA_DISABLE_JIT"])
def test_the_switch_turns_it_off(anew: pytest.MonkeyPatch, by_torch: Any, name: str) -> None:
    anew.setenv(name, "0" if name == fast.SWITCH else "1")
    x, parameters = arguments((50,), (50,), 5)
    assert compiled.kernel("splines") is None and "numba" not in provenance()["versions"]
    assert torch.equal(spline(x, parameters)[0], by_torch(spline, x, parameters)[0])


def test_without_numba_torch_computes(anew: pytest.MonkeyPatch, by_torch: Any) -> None:
    anew.setattr("importlib.util.find_spec", lambda name: None)
    x, parameters = arguments((50,), (50,), 5)
    assert compiled.kernel("splines") is None and "numba" not in provenance()["versions"]
    assert torch.equal(spline(x, parameters)[0], by_torch(spline, x, parameters)[0])


def test_a_numba_that_does_not_load_is_an_error(anew: pytest.MonkeyPatch) -> None:
    anew.delattr("vgi_cli.maths.kernels", raising=False)
    anew.setitem(sys.modules, "vgi_cli.maths.kernels", None)  # importing it is then an ImportError
    with pytest.raises(UsageError, match="numba is installed and cannot be loaded") as caught:
        compiled.kernel("splines")
    assert caught.value.hint is not None and "set VGI_FAST=0" in caught.value.hint


def test_with_little_memory_nothing_is_compiled(anew: pytest.MonkeyPatch) -> None:
    """LLVM would end the process."""
    anew.setattr(compiled, "ROOM", 1 << 60)
    with pytest.raises(MemoryError, match="loops cannot be compiled"):
        spline(*arguments((50,), (50,), 5))


@pytest.mark.parametrize("error", [RuntimeError("no locator available"), OSError(28, "No space left on device")])
def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from vgi_cli.maths import kernels

    asked = []

    def njit(signature: Any, *, cache: bool = False, **options: Any) -> Any:
        asked.append(cache)
        if cache:
            raise error
        return lambda function: function

    monkeypatch.setattr(kernels.numba, "njit", njit)
    assert kernels.compiled(len, None) is len and asked == [True, False]


def assert_loaded_as_compiled(code: str, folder: Path) -> None:
    """A process that compiles into a folder prints what one prints that loads from there."""
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        ).stdout
        for _ in range(2)
    ]
    assert any(folder.rglob("*.nbc")) and printed[0] == printed[1]


@pytest.mark.slow
def test_who_compiles_has_the_bits_of_those_who_load(tmp_path: Path) -> None:
    code = """
import hashlib, sys
from tests.maths.test_compiled import SHAPES, arguments, differentiated
digest = hashlib.sha256()
for shape, own in SHAPES:
    for inverse in (False, True):
        for part in differentiated(*arguments(shape, own, 8), inverse):
            digest.update(part.numpy().tobytes())
print(digest.hexdigest())
"""
    assert_loaded_as_compiled(code, tmp_path)


@pytest.mark.slow
def test_numba_is_imported_with_the_first_spline() -> None:
    code = """
import sys, torch
import vgi_cli.models.flows.coupling, vgi_cli.conditionals.families.spline
from vgi_cli.maths.splines import packed_rational_quadratic
packed_rational_quadratic(torch.zeros(2).double(), torch.zeros(5, 2).double(), bound=3.0)
assert "numba" not in sys.modules
packed_rational_quadratic(torch.zeros(2), torch.zeros(5, 2), bound=3.0)
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
