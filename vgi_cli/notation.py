"""The symbols of this project: one meaning each, everywhere. Symbols are defined here and nowhere else.

| symbol   | meaning                                                                            |
|----------|------------------------------------------------------------------------------------|
| `N`      | rows of a table                                                                    |
| `d`      | encoded dimensions of the modelled columns, one of each number                     |
| `D`      | dimensions of the augmented row, `D >= d` (latents come after the data)            |
| `S`      | blocks: the D dimensions are cut into S blocks, each redrawn as one                |
| `C`      | missing cells                                                                      |
| `K`      | chains: persistent imputations of each incomplete row                              |
| `R`      | flattened rows: an incomplete row K times at weight 1/K, a complete row once       |
| `M`      | blocks redrawn per row for one estimate of the objective                           |
| `G`      | Gibbs steps per visit of a batch                                                   |
| `theta`  | parameters of the model p                                                          |
| `phi`    | parameters of the conditionals q                                                   |

`missing` is a boolean mask with True where a cell is ABSENT, never the reverse. Mask *files* follow the paper
(1 = observed, 0 = missing); only the table reader knows that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

LogDensity: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""`log_p(x [.., D], missing [.., D]) -> [..]`, nats, encoded space: the one hook through which a method sees p."""
