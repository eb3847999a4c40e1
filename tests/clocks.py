"""Clocks that do not depend on the machine."""

from __future__ import annotations

import time

import pytest


class Ticking:
    """A monotonic clock that is later by `step` seconds each time somebody looks at it."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def ticking(monkeypatch: pytest.MonkeyPatch, step: float = 1e-3) -> Ticking:
    """Replace `time.monotonic`."""
    clock = Ticking(step)
    monkeypatch.setattr(time, "monotonic", clock)
    return clock
