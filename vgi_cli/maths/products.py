"""Matrix products of single precision whose factors are rounded to fewer digits, where the processor has such ones."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Products = Literal["float32", "bfloat16"]
"""What the factors are rounded to: `float32`, not at all; `bfloat16`, to 8 bits (a relative error of 0.4 % at most; of
sums of many products far less). Sums and results are float32 in either case."""


@functools.cache
def available() -> bool:
    """Whether products are rounded where that is asked for: on some processors with such products torch has none."""
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    x = torch.full((256, 256), 1 + 2.0**-12)  # 1 in bfloat16
    with rounded("bfloat16"):
        return bool((x @ x == 256).all())


@contextmanager
def rounded(products: Products) -> Iterator[None]:
    """In this context factors of float32 products on the CPU are rounded so; those of float64 products never are."""
    if products == "float32":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
