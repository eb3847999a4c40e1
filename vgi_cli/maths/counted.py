"""Normal noise inside a model: drawn without a generator, so that a restored model goes on exactly, on every device,
and a captured graph draws anew at each replay."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from vgi_cli.maths.noise import mix64


class Counted(nn.Module):
    """Randomness by a key and the number of calls so far: buffers, so that a restored model goes on exactly."""

    key: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("key", torch.zeros((), dtype=torch.int64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the key and start counting anew."""
        self.key.copy_(torch.randint(2**62, (), generator=generator, device=generator.device))
        self.count.zero_()

    def next_seed(self) -> Tensor:
        """Count a call and return its seed: a 64-bit integer."""
        self.count.add_(1)
        return mix64(self.key ^ mix64(self.count))


class CountedNormal(Counted):
    """Standard normal noise for the rows of a batch.

    In training it depends on a key, on the number of calls so far and on the place in the batch, as `nets.Dropout`
    does; key and count are buffers. In evaluation mode it depends on the key and on the row itself, bit for bit: the
    same row meets the same noise in any batch, different rows meet independent noise, and nothing is counted.
    """

    def __init__(self, width: int) -> None:
        """`width`: normals for each row."""
        super().__init__()
        self.width = width

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Noise [.., width] for rows x [.., D], in their precision; without gradient."""
        if self.training:
            rows = torch.arange(math.prod(x.shape[:-1]), device=x.device).view(x.shape[:-1])
            seed = self.next_seed()
        else:
            rows, seed = row_bits(x), mix64(self.key)
        unit = mix64(torch.arange(self.width, device=x.device))
        return normal_of(mix64(mix64(rows ^ seed)[..., None] ^ unit), x.dtype)


def row_bits(x: Tensor) -> Tensor:
    """A 64-bit integer [..] for each row x [.., D] (float32 or float64), made of the bits of its numbers."""
    kind = torch.int64 if x.dtype == torch.float64 else torch.int32
    bits = x.detach().contiguous().view(kind).to(torch.int64)
    place = mix64(torch.arange(x.shape[-1], device=x.device))
    return mix64(bits ^ place).sum(-1)


def normal_of(bits: Tensor, dtype: torch.dtype) -> Tensor:
    """Standard normals from uniform 64-bit integers, by the inverse of the normal distribution function.

    Of the bits as many are used as make every step exact: 23 in float32 (draws up to 5.2 in size), 52 in float64.
    """
    used = 52 if dtype == torch.float64 else 23
    whole = (bits >> (64 - used)) & ((1 << used) - 1)
    u = (whole.to(dtype) + 0.5) * 2.0**-used
    return math.sqrt(2.0) * torch.erfinv(2.0 * u - 1.0)
