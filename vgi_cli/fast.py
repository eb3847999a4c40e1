"""Whether the innermost loops (steps of EM, networks of conditionals, splines, masks of dropouts) are compiled on a
CPU, where numba is installed (the extra `fast`), and the latter two fused kernels on a GPU, where triton is (CUDA
builds of torch for Linux bring it); unless the environment turns it off. Nothing here imports either."""

from __future__ import annotations

import importlib.util
import os

SWITCH = "VGI_FAST"
"""Environment variable: 0 turns compiled loops and fused kernels off, 1 and nothing leave them on."""


def numba_version() -> str | None:
    """The version of numba that compiles loops; None: nothing is compiled, because numba is not installed, or VGI_FAST
    or numba's own NUMBA_DISABLE_JIT turns it off."""
    return None if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") else _version("numba")


def triton_version() -> str | None:
    """The version of triton that compiles kernels for a GPU; None: none are, because triton is not installed, or
    VGI_FAST turns it off."""
    return _version("triton")


def _version(package: str) -> str | None:
    if os.environ.get(SWITCH) == "0" or importlib.util.find_spec(package) is None:
        return None
    from importlib.metadata import version

    return version(package)
