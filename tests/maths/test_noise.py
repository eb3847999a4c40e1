"""Keyed noise: of some columns of each row alone it is what it is of all."""

from __future__ import annotations

import torch

from vgi_cli.maths.noise import KeyedNoise, mix64, numbered


def test_noise_of_some_columns_of_each_row_is_that_of_all() -> None:
    noise = KeyedNoise(3, numbered("x", 7), mix64(torch.arange(50)), torch.arange(2), "there")
    columns = torch.randint(7, (50, 3), generator=torch.Generator().manual_seed(0))
    for every, some in ((noise.uniform(), noise.uniform_at(columns)), (noise.normal(), noise.normal_at(columns))):
        assert torch.equal(some, every.gather(2, columns.expand(2, -1, -1)))
