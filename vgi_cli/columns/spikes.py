"""Spikes: values that hold far more cells than their neighbours do (no rain, nothing spent, a cap of the instrument).

A density that has to be high at one value and low beside it is a bad fit, and what is drawn from a smooth one lies
beside the spike instead of on it. So a spike is given room: where a column is spread over its resolution before it is
modelled (see encoder.py), the cell of a spike is made wider, until its density is that of its neighbours, and all
larger values move up. Reading back, everything in that cell is the value itself.
"""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.base import Spike
from vgi_cli.columns.numerals import Floats

FEWEST = 10
"""Distinct values from which on a column can have spikes: with fewer every value is one."""
SHARE, CELLS = 0.05, 10
"""Share of the observed cells, and their number, that a spike holds at least ..."""
HEIGHT = 5.0
"""... and how many times the density of its neighbours."""


def find_spikes(values: Floats, resolution: float, share: float = SHARE) -> tuple[Spike, ...]:
    """The spikes among observed values [n] of a column of that resolution, smallest value first; each holds at least
    that share of them.

    The neighbours of a value are the cells next to it: as many as it holds, or half of all others. What differs by less
    than the resolution (8.46 and 8.459999999999999) is one value.
    """
    cell = np.rint((values - values.min()) / resolution)
    cells, counts = np.unique(cell, return_counts=True)
    if len(cells) < FEWEST:
        return ()
    spikes = []
    for i in np.flatnonzero(counts >= max(share * len(values), CELLS)):
        own = cell == cells[i]
        spellings, often = np.unique(values[own], return_counts=True)
        value = float(spellings[often.argmax()])
        distance = np.abs(values[~own] - value)
        near = min(int(counts[i]), -(-len(distance) // 2))
        reach = float(np.partition(distance, near - 1)[near - 1])
        sides = 1 if i in (0, len(cells) - 1) else 2
        width = float(counts[i]) * sides * reach / near
        if width > HEIGHT * resolution:
            spikes.append(Spike(value, width - resolution))
    return tuple(spikes)


def stretched(values: Floats, places: Floats | float, spikes: tuple[Spike, ...], resolution: float) -> Floats:
    """Data values with room for the spikes; those on a spike are that value.

    places      where in the cell of a spike its values lie, 0 to 1
    resolution  see Spike.holds
    """
    out = values
    for spike in spikes:
        here = spike.holds(values, resolution)
        shift = spike.width * np.where(here, places, values > spike.value)
        out = out + shift + np.where(here, spike.value - values, 0.0)
    return out


def squeezed(values: Floats, spikes: tuple[Spike, ...]) -> Floats:
    """The inverse of `stretched`: the room of a spike is its value."""
    before, out = 0.0, values
    for spike in spikes:
        out = out - np.clip(values - (spike.value + before), 0.0, spike.width)
        before += spike.width
    return out


def cell_widths(values: Floats, spikes: tuple[Spike, ...], resolution: float) -> Floats:
    """[n] over how much of the data units each of the values (not `stretched`) is spread."""
    widths = np.full(values.shape, resolution)
    for spike in spikes:
        widths[spike.holds(values, resolution)] += spike.width
    return widths
