"""Comparing what runs hold."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def same_tensors(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    """Whether two sets of tensors are equal bit for bit."""
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and a[name].shape == b[name].shape and bool(torch.equal(a[name], b[name]))
        for name in a
    )
