"""Whether splines and masks of dropouts are computed by compiled loops on a CPU: where numba is installed (the extra
`fast`), unless the environment turns it off. Nothing here imports numba."""

from __future__ import annotations

import importlib.util
import os

SWITCH = "VGI_FAST"
"""Environment variable: 0 turns compiled loops off, 1 and nothing leave them on."""


def numba_version() -> str | None:
    """The version of numba that compiles loops; None: nothing is compiled, because numba is not installed, or VGI_FAST
    or numba's own NUMBA_DISABLE_JIT turns it off."""
    off = os.environ.get(SWITCH) == "0" or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
    if off or importlib.util.find_spec("numba") is None:
        return None
    from importlib.metadata import version

    return version("numba")
