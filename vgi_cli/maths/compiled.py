"""Whether splines are computed by compiled loops, and the way there: float32 on the CPU, where numba is installed (the
extra `fast`) and VGI_FAST is not 0. numba is imported, and the loops are compiled or loaded from its cache, when the
first such spline is computed and not before.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import Any, NamedTuple

import torch
from torch import Tensor

SWITCH = "VGI_FAST"
"""Environment variable: 0 turns compiled loops off."""


@functools.cache
def kernel() -> Any:
    """The compiled loops (`spline_kernels.KERNEL`), None where they are turned off or numba is not installed."""
    if os.environ.get(SWITCH) == "0" or importlib.util.find_spec("numba") is None:
        return None
    from vgi_cli.maths.spline_kernels import KERNEL

    return KERNEL


def is_for(x: Tensor, parameters: Tensor) -> bool:
    """Whether there are compiled loops for a spline of these numbers, whose shapes are as `packed_rational_quadratic`
    wants them."""
    numbers = x.dtype is torch.float32 and parameters.dtype is torch.float32 and x.numel() > 0
    return numbers and x.is_cpu and parameters.is_cpu and not torch.compiler.is_compiling() and kernel() is not None


def rational_quadratic(x: Tensor, parameters: Tensor, *, bound: float, inverse: bool) -> tuple[Tensor, Tensor]:
    """`packed_rational_quadratic`, compiled; where `is_for` says so."""
    own = parameters.shape[1:]
    shared = own.numel() < x.numel()
    # Elements in a row may share their parameters; other ways of sharing are written out.
    if shared and own != x.shape[: (columns := _leading(own))] + (1,) * (x.ndim - columns):
        parameters, shared = parameters.expand(-1, *x.shape), False
    y, log_slope = _CompiledSpline.apply(x, parameters, _How(shared, bound, inverse))
    return y, log_slope


def _leading(shape: torch.Size) -> int:
    """Dimensions before the ones at the end."""
    count = len(shape)
    while count and shape[count - 1] == 1:
        count -= 1
    return count


class _How(NamedTuple):
    """Whether elements share parameters; the end of the interval; which way."""

    shared: bool
    bound: float
    inverse: bool


class _CompiledSpline(torch.autograd.Function):
    """The loops with their first derivatives, which compute the spline anew: nothing but the arguments is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, parameters: Tensor, how: _How) -> tuple[Tensor, Tensor]:
        y, log_slope, none = x.new_empty(x.shape), x.new_empty(x.shape), x.new_empty(0)
        _run((x, y, log_slope, none, none, none), parameters, x.new_empty(0, 0), how)
        ctx.save_for_backward(x, parameters)
        ctx.how = how
        return y, log_slope

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, grad_log: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # the caller asked for create_graph=True: refuse rather than give half of it
            raise NotImplementedError("splines have derivatives of first order only, got create_graph=True")
        x, parameters = ctx.saved_tensors
        grad_x, gradient, none = x.new_empty(x.shape), x.new_empty(parameters.shape), x.new_empty(0)
        _run((x, none, none, grad_y, grad_log, grad_x), parameters, gradient, ctx.how)
        return grad_x, gradient, None


def _run(elements: tuple[Tensor, ...], parameters: Tensor, gradient: Tensor, how: _How) -> None:
    """Call the loops (`spline_kernels.splines`) on the memory of these tensors; those that are written are contiguous."""
    lines = tuple(element.detach().contiguous().view(-1).numpy() for element in elements)
    logits = parameters.detach().contiguous().view(len(parameters), -1).numpy()
    grad_logits = gradient.view(len(gradient), -1).numpy() if len(gradient) else gradient.numpy()
    kernel()(lines, logits, grad_logits, *how)
