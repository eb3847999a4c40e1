"""What imputing relies on: in a batch of one size a row of a product is rounded alike wherever it stands."""

from __future__ import annotations

import os

import pytest
import torch

import vgi_cli


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="of MKL, which has to be asked for it")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("K", [5, 9, 16, 33, 50])
def test_rows_of_a_product_do_not_depend_on_their_place(K: int, dtype: torch.dtype) -> None:
    assert vgi_cli.__version__ and os.environ["MKL_CBWR"] == "AUTO"
    g = torch.Generator().manual_seed(0)
    x = torch.randn(512, K, generator=g, dtype=dtype)
    order = torch.randperm(512, generator=g)
    for N in (1, 2, 4, 5, 8, 10, 20, 50):
        W = torch.randn(N, K, generator=g, dtype=dtype)
        assert torch.equal(torch.nn.functional.linear(x, W)[order], torch.nn.functional.linear(x[order], W))
        batches, weights = x.view(2, 256, K), W.mT.expand(2, K, N).contiguous()
        again = batches[:, order[order < 256]]
        assert torch.equal(torch.bmm(batches, weights)[:, order[order < 256]], torch.bmm(again, weights))
