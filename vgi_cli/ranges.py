"""The ranges of numeric settings: what lies outside is refused with the range before anything is read, instead of
running out of memory, or on for ever without a word.

Each upper end is far above what anybody has had a use for, and low enough to be computed with. Importing this loads no
torch.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

Seed: TypeAlias = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
"""Of keyed noise, which computes with 64 bits."""
Threads: TypeAlias = Annotated[int, Field(ge=1, le=256)]
Epochs: TypeAlias = Annotated[int, Field(ge=1, le=10_000_000)]
WarmUp: TypeAlias = Annotated[int, Field(ge=0, le=10_000_000)]
"""Epochs that may be none."""
Patience: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
StopAfter: TypeAlias = Annotated[int, Field(ge=0, le=10**15)]
Refits: TypeAlias = Annotated[int, Field(ge=0, le=1000)]

Imputations: TypeAlias = Annotated[int, Field(ge=1, le=10_000)]
GibbsSteps: TypeAlias = Annotated[int, Field(ge=1, le=10_000)]
Blocks: TypeAlias = Annotated[int, Field(ge=1, le=1000)]
Columns: TypeAlias = Annotated[int, Field(ge=1, le=10_000)]
"""That are redrawn together."""
BatchRows: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]
"""Of a batch."""
Draws: TypeAlias = Annotated[int, Field(ge=1, le=10_000)]
"""Of latents."""
ChainSteps: TypeAlias = Annotated[int, Field(ge=1, le=10_000_000)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
ShareBelow1: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
HeldCells: TypeAlias = Annotated[float, Field(gt=0, le=0.5)]
"""Share of the observed cells: what is left has to resemble the table."""

Rate: TypeAlias = Annotated[float, Field(gt=0, le=100)]
"""Of learning."""
Clip: TypeAlias = Annotated[float, Field(gt=0, le=1e6)]
Positive: TypeAlias = Annotated[float, Field(gt=0, le=1000)]
"""A width, a deviation, a temperature, a tolerance: of the order of 1 on standardised columns."""
NotNegative: TypeAlias = Annotated[float, Field(ge=0, le=1000)]
PseudoRows: TypeAlias = Annotated[float, Field(ge=0, le=1e9)]
Redraws: TypeAlias = Annotated[int, Field(ge=0, le=100)]

Width: TypeAlias = Annotated[int, Field(ge=1, le=10_000)]
"""Of a layer, or of a vector of latents."""
Layers: TypeAlias = Annotated[tuple[Width, ...], Field(max_length=50)]
FlowSteps: TypeAlias = Annotated[int, Field(ge=1, le=100)]
FlowWidth: TypeAlias = Annotated[int, Field(ge=1, le=4096)]
FlowBlocks: TypeAlias = Annotated[int, Field(ge=0, le=100)]
Bins: TypeAlias = Annotated[int, Field(ge=2, le=256)]
Components: TypeAlias = Annotated[int, Field(ge=1, le=1000)]
Factors: TypeAlias = Annotated[int, Field(ge=0, le=10_000)]

Rounds: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
Trees: TypeAlias = Annotated[int, Field(ge=1, le=100_000)]
Depth: TypeAlias = Annotated[int, Field(ge=1, le=10_000)]
Neighbours: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]

MOST_COLUMNS = 100_000
"""Of a table."""
MOST_ROW = 1 << 26
"""Bytes of a row of CSV."""
FREE_EXPANSION, MOST_EXPANSION = 1 << 30, 200
"""What a compressed table may expand to: so many bytes, or so many times its own size where that is more."""
FREE_CELLS, MOST_CELLS = 10**9, 1000
"""Cells that a Parquet file may promise: so many, or so many for each of its bytes where that is more."""

MECHANISMS = ("mcar", "mar", "mnar")
"""By which `vgi hide` hides cells: see maths/mechanisms.py."""
MOST_IMPUTATIONS = 10_000
"""Draws of a hole that `vgi impute` makes."""
MOST_ROWS = 100_000_000
"""That `vgi sample` draws."""
MOST_SAMPLES = 1_000_000
"""Draws of the latents of a row that `vgi evaluate` takes."""
MOST_REFIT_EPOCHS = 1_000_000
LONGEST = 365 * 24 * 3600.0
"""Seconds of a time limit."""
