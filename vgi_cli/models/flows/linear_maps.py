"""LU-factorised linear maps between the layers of a flow (Kingma and Dhariwal 2018; Durkan et al. 2019, section 3.2).

Rows are the last dimension: X is [D, R].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LinearMaps(nn.Module):
    """Linear maps y = L U P x + b: P a fixed random permutation, L unit lower triangular, U upper triangular.

    One matrix holds a map: L strictly below its diagonal, U strictly above, and on it the logarithms of U's diagonal.
    The zero matrix is the identity and the log-determinant is the trace. All maps of a flow live together, so that
    their products cost one call.
    """

    permutation: Tensor

    def __init__(self, count: int, D: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.zeros(count, D, D))
        self.bias = nn.Parameter(torch.zeros(count, D))
        self.register_buffer("permutation", torch.arange(D).repeat(count, 1))

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw the permutations; the first map standardises the columns of x [R, D], the others start at identity."""
        count, D = self.bias.shape
        order = [torch.randperm(D, generator=generator, device=generator.device) for _ in range(count)]
        self.permutation.copy_(torch.stack(order))
        first = order[0].to(x.device)  # x may lie elsewhere than the parameters
        spread = x.std(0, correction=0)
        log_scale = -torch.where(spread > 0, spread, 1.0).log()[first]
        self.factors.zero_()
        self.factors[0].diagonal().copy_(log_scale)
        self.bias.zero_()
        self.bias[0].copy_(-x.mean(0)[first] * log_scale.exp())

    def weights(self) -> tuple[Tensor, Tensor]:
        """The matrices L U P [count, D, D], and the sum of all log-determinants.

        The products are formed: one dense product with the rows is faster than two triangular ones and a gather at
        every D that coupling flows are used for. Inverses are never formed.
        """
        lower, upper = self._triangles()
        columns = self.permutation.argsort(1)[:, None, :].expand_as(lower)
        return (lower @ upper).gather(2, columns), self.factors.diagonal(dim1=1, dim2=2).sum()

    def inverse(self, index: int, Y: Tensor) -> Tensor:
        """x = P^-1 U^-1 L^-1 (y - b) for map `index`, by triangular solves: [D, R] -> [D, R]."""
        lower, upper = self._triangles()
        Y = torch.linalg.solve_triangular(lower[index], Y - self.bias[index, :, None], upper=False, unitriangular=True)
        Y = torch.linalg.solve_triangular(upper[index], Y, upper=True)
        return Y[self.permutation[index].argsort()]

    def _triangles(self) -> tuple[Tensor, Tensor]:
        """L and U [count, D, D] of all maps."""
        eye = torch.eye(self.bias.shape[1], dtype=self.factors.dtype, device=self.factors.device)
        diagonal = self.factors.diagonal(dim1=1, dim2=2).exp()
        return self.factors.tril(-1) + eye, self.factors.triu(1) + torch.diag_embed(diagonal)
