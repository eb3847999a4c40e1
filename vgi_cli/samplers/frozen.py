"""Networks as fixed functions: no gradients, no dropout, and their mode as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def frozen(*modules: nn.Module | None) -> Iterator[None]:
    """Inside, the modules are in evaluation mode and nothing records gradients."""
    present = [module for module in modules if module is not None]
    modes = [module.training for module in present]
    try:
        for module in present:
            module.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in zip(present, modes, strict=True):
            module.train(mode)
