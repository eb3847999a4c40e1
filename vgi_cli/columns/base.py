"""What a fit knows about each column: kind, role, resolution, range, codec and spelling; and its JSON form."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from vgi_cli.columns.levels import levels_at, numbers_of
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.errors import RunError
from vgi_cli.layout import Layout

Kind = Literal["numeric", "integer", "carried", "constant", "empty"]
Role = Literal["data", "id", "exclude", "index"]
Transform = Literal["linear", "normal", "none"]

Why = Literal["sign", "spike", "few", "levels", "type", "asked", "observed"]

SCHEMA_FORMAT = 3
"""1: without spikes; 2: fills of all columns, unless `bounded` was false, stay in the observed range."""
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, config=_STRICT)
class Lattice:
    """The values that a rounded column can take: (origin + k * step) * 10^-decimals for whole k."""

    decimals: int
    step: int
    origin: int

    @property
    def resolution(self) -> float:
        """Distance of neighbouring values, data units."""
        return self.step / 10.0**self.decimals

    def snap(self, values: Floats) -> Floats:
        """The nearest values of the lattice, each the float64 nearest to its decimal fraction."""
        units = np.rint((values * 10.0**self.decimals - self.origin) / self.step) * self.step + self.origin
        if abs(self.decimals) > 22:  # 10^23 is no float64: go through decimal text
            return np.array([float(f"{u:.0f}e{-self.decimals}") for u in units.ravel().tolist()]).reshape(units.shape)
        scaled = units / 10.0**self.decimals if self.decimals >= 0 else units * 10.0**-self.decimals
        return np.asarray(scaled + 0.0, np.float64)  # never -0.0


@dataclass(frozen=True, config=_STRICT)
class Scale:
    """State of a codec: u = (x - mean) / sd, then a monotone spline through knots (u, encoded value, slope) if any."""

    mean: float
    sd: float
    knots: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True, config=_STRICT)
class Spike:
    """A value that holds far more cells than its neighbours, and the room that it is given beside its resolution, data
    units (see spikes.py)."""

    value: float
    width: float

    def holds(self, values: Floats, resolution: float) -> Bools:
        """Which values lie on the spike: no farther from it than half of the resolution."""
        return np.asarray(np.abs(values - self.value) <= 0.5 * resolution)


@dataclass(frozen=True, config=_STRICT)
class Bound:
    """The least or the greatest admissible fill of a column, a value that it can take, and why (see bounds.py).

    sign      no observed value lies on the other side of zero
    spike     values pile up there
    few       the end of a few whole numbers
    levels    the end of those values that alone occur
    type      what the column's type in the file can hold
    asked     the user said so
    observed  the end of the observed range: by request, or in a run of an earlier version
    """

    value: float
    why: Why


@dataclass(frozen=True, config=_STRICT)
class Column:
    """One column of a fitted table.

    name        its name
    kind        numeric, integer: modelled when the role is data; constant: holes get `low`; empty: nothing was observed
    role        data, or why it is carried: id (keys the randomness), exclude, index (numbers the rows)
    low, high   least and greatest observed value, data units (None where there is none)
    lower, upper  bounds of the fills, None where there is none
    lattice     the values of a rounded column, None where nothing is rounded
    dequantise  whether noise of one resolution is spread around each value before it is modelled
    spikes      values that are spread wider, smallest first
    levels      the values that alone can occur, smallest first: their numbers are modelled (see levels.py)
    scale       codec state of a modelled column (of its values with room for the spikes, of the levels' numbers)
    sd          standard deviation of the observed values where there are spikes or levels; else that of the scale
    decimals    fewest decimals with which the table spells a number (`2.0`: 1, `1.50`: 2)
    digits      significant digits of all but a few values, for fills of a column without lattice
    """

    name: str
    kind: Kind
    role: Role = "data"
    low: float | None = None
    high: float | None = None
    lower: Bound | None = None
    upper: Bound | None = None
    lattice: Lattice | None = None
    dequantise: bool = False
    spikes: tuple[Spike, ...] = ()
    levels: tuple[float, ...] = ()
    scale: Scale | None = None
    sd: float | None = None
    decimals: int = 0
    digits: int = 17

    @property
    def resolution(self) -> float | None:
        """Distance of neighbouring values, data units; None where nothing is rounded."""
        return None if self.lattice is None else self.lattice.resolution

    @property
    def deviation(self) -> float:
        """Standard deviation of the observed values of a modelled column, data units (1 without transform)."""
        if self.scale is None:
            raise ValueError(f"column '{self.name}' is not modelled")
        return self.scale.sd if self.sd is None else self.sd

    @property
    def modelled(self) -> bool:
        """Whether the column is one of the D that a model sees."""
        return self.role == "data" and self.kind in ("numeric", "integer")

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Those that there are."""
        return tuple(bound for bound in (self.lower, self.upper) if bound is not None)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest admissible fill, data units; infinite where there is no bound."""
        return (
            -np.inf if self.lower is None else self.lower.value,
            np.inf if self.upper is None else self.upper.value,
        )

    def snap(self, values: Floats) -> Floats:
        """Values at the resolution of the column, or on a spike; whole for integers; levels where these alone occur.
        Rounding does not leave the bounds."""
        if self.levels:
            return levels_at(numbers_of(values, self.levels), self.levels)
        if self.lattice is None:
            return np.rint(values) + 0.0 if self.kind == "integer" else values
        snapped = self.lattice.snap(values)
        for spike in self.spikes:  # which need not be on a lattice that stands in for none
            snapped = np.where(spike.holds(values, self.lattice.resolution), spike.value, snapped)
        half, (least, most) = 0.5 * self.lattice.resolution, self.ends
        inside = (values >= least - half) & (values <= most + half)
        return np.where(inside, np.clip(snapped, least, most), snapped)


@dataclass(frozen=True, config=_STRICT)
class Schema:
    """The columns of a fitted table in its order, and the transform behind the codecs."""

    columns: tuple[Column, ...]
    transform: Transform = "linear"
    format: int = SCHEMA_FORMAT

    @property
    def encoded(self) -> tuple[Column, ...]:
        """The modelled columns, in encoded order."""
        return tuple(c for c in self.columns if c.modelled)

    @property
    def modelled(self) -> tuple[str, ...]:
        """Names of the modelled columns, in encoded order (D of them)."""
        return tuple(c.name for c in self.encoded)

    @property
    def layout(self) -> Layout:
        """The modelled columns, each a block of its own."""
        return Layout.of(self.modelled)

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the columns that key the randomness."""
        return tuple(c.name for c in self.columns if c.role == "id")

    @property
    def constants(self) -> tuple[Column, ...]:
        """Columns with one observed value: their holes get it."""
        return tuple(c for c in self.columns if c.role == "data" and c.kind == "constant")

    def to_json(self) -> str:
        """JSON text; numbers survive the round trip exactly."""
        return json.dumps(_ADAPTER.dump_python(self, mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Schema:
        """The schema of a run. RunError when the text is damaged or written by a newer program."""
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RunError(f"schema.json: not JSON ({error})", "restore the run folder, or fit again") from None
        found = raw.get("format") if isinstance(raw, dict) else None
        if isinstance(found, int) and found > SCHEMA_FORMAT:
            raise RunError(
                f"schema.json: format {found} is newer than this program's {SCHEMA_FORMAT}",
                "upgrade vgi to read this run",
            )
        if found in (1, 2):
            raw = _of_format_2(raw)
        try:
            schema = _ADAPTER.validate_python(raw)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            message = f"schema.json: damaged ({place}: {first['msg']})"
            raise RunError(message, "restore the run folder, or fit again") from None
        names = {c.name for c in schema.columns}
        whole = all(c.scale is not None and c.low is not None and c.high is not None for c in schema.encoded)
        whole = whole and all(
            c.ends[0] <= c.ends[1] and list(c.levels) == sorted(set(c.levels)) for c in schema.encoded
        )
        if schema.format != SCHEMA_FORMAT or len(names) < len(schema.columns) or not whole:
            raise RunError("schema.json: damaged (columns do not fit together)", "restore the run folder, or fit again")
        return schema


def _of_format_2(raw: dict[str, Any]) -> dict[str, Any]:
    """A schema of an earlier version in today's form, where it is whole."""
    columns = []
    for column in raw["columns"] if isinstance(raw.get("columns"), list) else []:
        if isinstance(column, dict) and isinstance(column.get("bounded", True), bool):
            column = dict(column)
            if column.pop("bounded", True) and column.get("kind") in ("numeric", "integer"):
                ends = {"lower": column.get("low"), "upper": column.get("high")}
                column |= {name: {"value": end, "why": "observed"} for name, end in ends.items() if end is not None}
        columns.append(column)
    return {**raw, "columns": columns, "format": SCHEMA_FORMAT}


_ADAPTER = TypeAdapter(Schema)
