"""The way from tensors to the compiled loops of `kernels.py`, `net_kernels.py`, `row_kernels.py` and `step_kernels.py`
and, on a GPU, to the kernels of `gpu_kernels.py`. numba or triton is imported, and a loop or kernel is compiled or
loaded from a cache, when what it computes is first asked for, and not before.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from vgi_cli.errors import UsageError
from vgi_cli.fast import SWITCH, numba_version, triton_version

ROOM = 128 << 20
"""Bytes that must be free before a loop is compiled or loaded: where they are not, LLVM ends the process."""


Loop: TypeAlias = Literal[
    "splines",
    "keep",
    "holes",
    "rows",
    "moments",
    "uncertain",
    "sums",
    "factors",
    "factor_rows",
    "factor_moments",
    "factor_sums",
    "forest",
    "counts",
    "joined",
    "penalty",
    "maximise",
    "laws",
    "networks",
    "network_gradients",
    "residual",
    "residual_gradients",
]


_ask: ContextVar[Callable[[], None] | None] = ContextVar("_ask", default=None)
"""What `asking` was given."""


@contextmanager
def asking(ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` in this context before each loop is compiled, which takes seconds, or loaded; what it raises ends the
    work that wanted the loop."""
    token = _ask.set(ask)
    try:
        yield
    finally:
        _ask.reset(token)


@functools.cache
def kernel(name: Loop) -> Any:
    """The loop of that name in `kernels.py`, `net_kernels.py`, `row_kernels.py` or `step_kernels.py`, compiled; None
    where nothing is (`fast.py`). UsageError where numba is installed and does not load, such as beside a numpy that is
    too new for it; MemoryError where little is left."""
    if numba_version() is None:
        return None
    if (ask := _ask.get()) is not None:
        ask()
    try:
        mmap.mmap(-1, ROOM).close()
    except OSError as error:
        raise MemoryError("loops cannot be compiled") from error
    try:
        from vgi_cli.maths import kernels, net_kernels, row_kernels, step_kernels
    except ImportError as error:
        hint = f"install the versions of constraints.txt, or set {SWITCH}=0, which does without numba"
        raise UsageError(f"numba is installed and cannot be loaded: {error}", hint) from error
    for file in (row_kernels, step_kernels, net_kernels):
        if name in file.LOOPS:
            return file.compiled_loop(name)
    return kernels.compiled_splines() if name == "splines" else kernels.compiled_keep()


OF_ROWS: tuple[Loop, ...] = (
    "holes",
    "rows",
    "moments",
    "uncertain",
    "sums",
    "forest",
    "counts",
    "joined",
    "penalty",
    "maximise",
    "laws",
)
"""The loops that fits of mixtures need."""


def load_rows() -> None:
    """Load the loops that fits of mixtures need, or compile them: before processes are made that would each do it."""
    for name in OF_ROWS:
        kernel(name)


class OnGpu(NamedTuple):
    """The module `gpu_kernels`, or None and why there is nothing to compute with."""

    kernels: Any
    why: str = ""


@functools.cache
def on_gpu() -> OnGpu:
    """Tried once, with a small spline: Triton wants a C compiler."""
    if triton_version() is None:
        return OnGpu(None, f"triton is not installed, or {SWITCH} turns it off")
    try:
        from vgi_cli.maths import gpu_kernels

        x = torch.zeros(1, device="cuda")
        gpu_kernels.values(x, x.new_zeros(5, 1), 1.0, False)
    except Exception as error:  # of whatever kind: Triton's own, of the linker, of the driver
        said = str(error).strip().splitlines() or [type(error).__name__]
        return OnGpu(None, f"triton cannot compile them: {said[-1]}")  # before it, where in the code
    return OnGpu(gpu_kernels)


def unfused(device: torch.device) -> str | None:
    """A line that says why splines are not computed by fused kernels on a GPU; None where they are, and on a CPU."""
    if device.type != "cuda" or on_gpu().kernels is not None:
        return None
    return f"splines take several times as long as they could on this GPU: there are no fused kernels, {on_gpu().why}"


def is_for(x: Tensor, parameters: Tensor) -> bool:
    """Whether there are compiled loops or kernels for a spline of these numbers, whose shapes are as
    `packed_rational_quadratic` wants them."""
    fits = all(own in (1, size) for own, size in zip(parameters.shape[1:], x.shape, strict=True))
    if not (fits and _suits(x) and _suits(parameters) and x.device == parameters.device):
        return False
    return (on_gpu().kernels if x.is_cuda else kernel("splines")) is not None


def _suits(x: Tensor) -> bool:
    plain = x.dtype is torch.float32 and x.numel() > 0
    return plain and (x.is_cpu or x.is_cuda) and not torch.compiler.is_compiling()


def suits_rows(*values: Tensor) -> bool:
    """Whether there are compiled loops for incomplete rows, and parameters, such as these (`lanes.py`)."""
    plain = all(some.dtype is torch.float64 and some.is_cpu for some in values)
    return plain and not torch.is_grad_enabled() and kernel("rows") is not None


def suits_networks(*values: Tensor) -> bool:
    """Whether there are compiled loops for networks, and rows, such as these (`networks.py`, `residual.py`).
    Products of rounded factors are left to torch (`products.py`)."""
    plain = all(_suits(some) and some.is_cpu for some in values)
    return plain and torch.get_float32_matmul_precision() == "highest" and kernel("networks") is not None


def kept_units(x: Tensor, seed: Tensor, threshold: int, scale: float) -> Tensor | None:
    """The mask of a dropout of the units of x, `scale` where one stays, else 0: unit u does where mix64(u ^ seed) is
    not below the threshold. None where there is no compiled loop or kernel for it."""
    if not _suits(x):
        return None
    if x.is_cuda:
        kernels = on_gpu().kernels
        return None if kernels is None else kernels.kept(x.shape, seed, threshold, scale)
    if (keep := kernel("keep")) is None:
        return None
    mask = x.new_empty(x.shape)
    keep(mask.data_ptr(), x.numel(), int(seed), threshold, scale)
    return mask


def rational_quadratic(x: Tensor, parameters: Tensor, *, bound: float, inverse: bool) -> tuple[Tensor, Tensor]:
    """`packed_rational_quadratic`, compiled; where `is_for` says so."""
    if not _follow(parameters.shape[1:], x.shape):
        parameters = parameters.expand(-1, *x.shape)
    if torch.is_grad_enabled() and (x.requires_grad or parameters.requires_grad):
        y, log_slope = _CompiledSpline.apply(x, parameters, bound, inverse)
        return y, log_slope
    return _values(x, parameters, bound, inverse)


def _follow(own: torch.Size, shape: torch.Size) -> bool:
    """Whether elements that share parameters follow each other: `own` is `shape` but for ones at its end."""
    count = len(shape)
    while count and own[count - 1] == 1:
        count -= 1
    return own[:count] == shape[:count]


def _values(x: Tensor, parameters: Tensor, bound: float, inverse: bool) -> tuple[Tensor, Tensor]:
    x, parameters = x.contiguous(), parameters.contiguous()
    if x.is_cuda:
        y, log_slope = on_gpu().kernels.values(x, parameters, bound, inverse)
        return y, log_slope
    y, log_slope = torch.empty_like(x), torch.empty_like(x)
    addresses = (x.data_ptr(), y.data_ptr(), log_slope.data_ptr(), 0, 0, 0, parameters.data_ptr(), 0)
    kernel("splines")(addresses, _sizes(x, parameters, False), bound, inverse)
    return y, log_slope


def _sizes(x: Tensor, parameters: Tensor, derive: bool) -> tuple[int, int, int, int]:
    lines = len(parameters)
    return x.numel(), parameters.numel() // lines, (lines + 1) // 3, derive


class _CompiledSpline(torch.autograd.Function):
    """The loops or kernels with their first derivatives, which compute the spline anew: only the arguments are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, parameters: Tensor, bound: float, inverse: bool) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, parameters)
        ctx.bound, ctx.inverse = bound, inverse
        return _values(x, parameters, bound, inverse)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, grad_log: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # the caller asked for create_graph=True: refuse rather than give half of it
            raise NotImplementedError("splines have derivatives of first order only, got create_graph=True")
        x, parameters, grad_y, grad_log = (tensor.contiguous() for tensor in (*ctx.saved_tensors, grad_y, grad_log))
        if x.is_cuda:
            made = on_gpu().kernels.derivatives(x, parameters, grad_y, grad_log, ctx.bound, ctx.inverse)
            return (*made, None, None)
        grad_x, gradient = torch.empty_like(x), torch.empty_like(parameters)
        read = (x.data_ptr(), 0, 0, grad_y.data_ptr(), grad_log.data_ptr())
        addresses = (*read, grad_x.data_ptr(), parameters.data_ptr(), gradient.data_ptr())
        kernel("splines")(addresses, _sizes(x, parameters, True), ctx.bound, ctx.inverse)
        return grad_x, gradient, None, None
