"""What this machine offers a fit, and where its settings come from: `vgi doctor`.

Importing this loads no torch: a torch that does not load is the first thing that a user wants to be told.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from vgi_cli.errors import UsageError, VgiError, nearest
from vgi_cli.fast import SWITCH, numba_version, triton_version
from vgi_cli.machine.device import check_device_name, cores, resolve_device, set_threads
from vgi_cli.settings.gather import gather
from vgi_cli.settings.options import ENVIRONMENT
from vgi_cli.settings.problems import Setting
from vgi_cli.version import __version__

REQUIRED = ("torch", "numpy", "pyarrow", "pandas", "scipy", "scikit-learn", "safetensors", "pydantic", "typer", "rich")
OPTIONAL = {"numba": "fast", "lightgbm": "baselines", "matplotlib": "report", "tensorboard": "tensorboard"}
"""Packages that may be missing, and the extra that installs each."""

DEFAULTS = {"device": "auto", "threads": None}


class Unusable(VgiError):
    """What was asked for cannot be used on this machine (exit code 1)."""


class Device(NamedTuple):
    """A device: whether it can be used, and why or why not; free and whole memory in bytes, where it has its own."""

    name: str
    usable: bool
    why: str
    memory: tuple[int, int] | None = None


class Sourced(NamedTuple):
    """A setting: its value (None: by a rule), where it was said, and what was said elsewhere and does not count."""

    key: str
    value: Any
    origin: str
    overridden: Sequence[tuple[str, Any]]


class Findings(NamedTuple):
    """What was found.

    versions     of the program, Python and the libraries; None: not installed
    devices      all that could be there, usable or not
    chosen       the device of a fit; None: the one asked for cannot be used
    loops        whether the innermost loops are compiled, on a GPU fused kernels, and why or why not
    cores        CPU cores that this process may use
    memory       free and whole main memory, bytes; None: not known
    settings     what decides where a fit computes, and all that a recipe says
    environment  variables that are set and change something
    problems     why what was asked for cannot be used
    notes        what is unusual and stops nothing
    """

    versions: dict[str, str | None]
    devices: list[Device]
    chosen: str | None
    loops: tuple[bool, str]
    cores: int
    memory: tuple[int, int] | None
    settings: list[Sourced]
    environment: dict[str, str]
    problems: list[str]
    notes: list[str]

    def values(self) -> dict[str, Any]:
        """As plain values (schemas/doctor.json)."""
        return {
            "format": 1,
            "system": platform.platform(),
            "versions": self.versions,
            "devices": [{"name": d.name, "usable": d.usable, "why": d.why} | _bytes(d.memory) for d in self.devices],
            "chosen": self.chosen,
            "compiled_loops": {"usable": self.loops[0], "why": self.loops[1]},
            "threads": {"cores": self.cores},
            "memory": _bytes(self.memory),
            "settings": [
                {
                    "key": key,
                    "value": value,
                    "from": origin,
                    "overridden": [{"from": where, "value": other} for where, other in others],
                }
                for key, value, origin, others in self.settings
            ],
            "environment": self.environment,
            "problems": self.problems,
            "notes": self.notes,
        }

    def _loops(self) -> tuple[str, str]:
        """What is computed by them, and how."""
        gpu = _is_gpu(self.chosen)
        way = ("by fused kernels: " if gpu else "compiled: ") if self.loops[0] else "by torch: "
        return "splines" if gpu else "inner loops", way + self.loops[1]

    def json_text(self) -> str:
        """One JSON object."""
        return json.dumps(self.values(), indent=1, ensure_ascii=False) + "\n"

    def text(self) -> str:
        """For a reader."""
        absent = {
            name: f"not installed (pip install '.[{extra}]' in a clone of vgi)" for name, extra in OPTIONAL.items()
        }
        lines = [
            "versions",
            *_columns((name, found or absent.get(name, "not installed")) for name, found in self.versions.items()),
            "devices",
            *_columns(
                (d.name, ("usable: " if d.usable else "not usable: ") + d.why + _free(d.memory)) for d in self.devices
            ),
            "a fit computes",
            *_columns(
                [
                    ("on", self.chosen or "nothing: see below"),
                    ("cores", f"{self.cores} that this process may use"),
                    ("memory", "not known" if self.memory is None else _free(self.memory).removeprefix(", ")),
                    self._loops(),
                ]
            ),
            "settings",
            *_columns((setting.key, _said(setting)) for setting in self.settings),
            "environment",
            *_columns((name, f"{value} ({ENVIRONMENT[name]})") for name, value in self.environment.items()),
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines) + "\n"

    def require(self) -> None:
        """Unusable where what was asked for cannot be used."""
        if self.problems:
            raise Unusable("; ".join(self.problems), "--device auto takes what can be used")


def examine(flags: Mapping[str, Any], recipe: Path | None, environ: Mapping[str, str] | None = None) -> Findings:
    """Look at this machine. UsageError for settings that could be used on none.

    flags    what was typed of `--device` and `--threads`, by name; None: nothing was
    environ  the environment; None: that of the process
    """
    environ = os.environ if environ is None else environ
    settings = sources(flags, recipe, environ)
    of = {setting.key: setting for setting in settings}
    check_device_name(of["device"].value, of["device"].origin)
    problems: list[str] = []
    library, why_not = _torch()
    chosen: str | None = None
    devices = [Device("cpu", False, why_not)] if library is None else _devices(library)
    if library is None:
        problems.append(why_not)
    else:
        chosen = _resolved(of["device"], problems)
        _check_threads(of["threads"], problems)
    loops = _kernels() if _is_gpu(chosen) else _loops(library is not None)
    return Findings(
        versions(),
        devices,
        chosen,
        loops,
        cores(),
        None if library is None else _memory(),
        settings,
        {name: environ[name] for name in ENVIRONMENT if name in environ},
        problems,
        _misspelt(environ),
    )


def versions() -> dict[str, str | None]:
    """Of vgi, Python and the libraries that it uses; None: not installed."""
    return {"vgi": __version__, "python": platform.python_version()} | {
        name: _version(name) for name in (*REQUIRED, *OPTIONAL)
    }


def sources(flags: Mapping[str, Any], recipe: Path | None, environ: Mapping[str, str]) -> list[Sourced]:
    """Device, threads, everything that a recipe says and whether loops may be compiled, each with where it was said
    with most weight. UsageError with every problem of the settings."""
    typed = {key: (value, f"--{key}") for key, value in flags.items()}
    gather(typed, environ=environ, recipe=recipe)  # their problems at once
    layers = [gather(typed), gather({}, environ=environ)]
    layers += [] if recipe is None else [gather({}, recipe=recipe)]
    keys = list(dict.fromkeys([*DEFAULTS, *(key for layer in layers for key in layer)]))
    found = []
    for key in keys:
        first, *others = [*(layer[key] for layer in layers if key in layer), Setting(DEFAULTS.get(key), "default")]
        beaten = [(other.origin, other.value) for other in others if other.origin != "default"]
        found.append(Sourced(key, first.value, first.origin, beaten))
    switch = environ.get(SWITCH)
    return [*found, Sourced("compiled loops", switch != "0", SWITCH if switch else "default", ())]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _torch() -> tuple[Any, str]:
    """torch, or None and why it cannot be loaded."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: one of its shared libraries
        return None, f"torch cannot be loaded: {error}"
    return torch, ""


def _devices(torch: Any) -> list[Device]:
    cpu = Device("cpu", True, f"{platform.machine()}, {torch.get_num_threads()} threads in torch")
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    found = [cpu, *(_gpu(torch, number) for number in gpus)]
    for name in ("mps",) if gpus else ("cuda", "mps"):
        try:
            resolve_device(name)
        except UsageError as error:
            found.append(Device(name, False, error.message.partition(": ")[2] + _driver(torch, name)))
    return found


def _driver(torch: Any, name: str) -> str:
    """What else there is to say of a device that is not there."""
    if name == "mps":
        return "" if torch.backends.mps.is_available() else "; there is none here"
    device = Path("/dev/nvidiactl")
    seen = "; the system has an NVIDIA driver" if device.exists() else "; the system shows no NVIDIA driver"
    return seen if torch.version.cuda else ""


def _gpu(torch: Any, number: int) -> Device:
    """A GPU that CUDA sees, after a small product on it."""
    name = f"cuda:{number}"
    try:
        about = torch.cuda.get_device_name(number)
        ones = torch.ones(8, 8, dtype=torch.float64, device=name)
        if float((ones @ ones).sum()) != 512.0:
            return Device(name, False, f"{about}: computes wrong numbers")
        free, whole = torch.cuda.mem_get_info(number)
    except (RuntimeError, AssertionError) as error:
        return Device(name, False, f"it fails at a small product: {str(error).splitlines()[0]}")
    return Device(name, True, f"{about}, CUDA {torch.version.cuda}", (int(free), int(whole)))


def _resolved(device: Sourced, problems: list[str]) -> str | None:
    """The device of a fit; None, with why, where it cannot be used."""
    try:
        return str(resolve_device(device.value, device.origin))
    except UsageError as error:
        problems.append(error.message)
        return None


def _check_threads(threads: Sourced, problems: list[str]) -> None:
    if threads.value is None:
        return
    try:
        set_threads(threads.value, threads.origin)
    except UsageError as error:
        problems.append(error.message)


def _loops(loads: bool) -> tuple[bool, str]:
    """Whether compiled loops are used, tried once, and why or why not."""
    installed, used = _version("numba"), numba_version()
    if installed is None:
        return False, f"numba is not installed (pip install '.[{OPTIONAL['numba']}]' in a clone of vgi)"
    if used is None:
        return False, f"numba {installed} is installed; {SWITCH} or NUMBA_DISABLE_JIT turns it off"
    if not loads:
        return False, "torch cannot be loaded"
    from vgi_cli.maths.compiled import kernel

    try:
        kernel("keep")
    except UsageError as error:
        return False, error.message
    return True, f"numba {used}"


def _is_gpu(device: str | None) -> bool:
    return device is not None and device.startswith("cuda")


def _kernels() -> tuple[bool, str]:
    """Whether fused kernels are used on a GPU, tried once, and why or why not."""
    from vgi_cli.maths.compiled import on_gpu

    found = on_gpu()
    return (True, f"triton {triton_version()}") if found.kernels is not None else (False, found.why)


def _memory() -> tuple[int, int]:
    from vgi_cli.machine.memory import free_ram

    return free_ram(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _misspelt(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like ours and are not read."""
    known = [name for name in ENVIRONMENT if name.startswith("VGI_")]
    strange = [name for name in sorted(environ) if name.startswith("VGI_") and name not in known]
    return [f"the environment variable {name} is not read: {nearest(name, known)}" for name in strange]


def _bytes(memory: tuple[int, int] | None) -> dict[str, int]:
    return {} if memory is None else {"free_bytes": memory[0], "total_bytes": memory[1]}


def _free(memory: tuple[int, int] | None) -> str:
    if memory is None:
        return ""
    from vgi_cli.machine.memory import in_words

    return f", {in_words(memory[0])} free of {in_words(memory[1])}"


def _said(setting: Sourced) -> str:
    value = "by the work of a step" if setting.value is None else setting.value
    beaten = "".join(f"; not {other}, said by {where}" for where, other in setting.overridden)
    return f"{value} ({setting.origin}{beaten})"


def _columns(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of names and texts, the texts below each other."""
    pairs = list(pairs)
    width = max((len(name) for name, _ in pairs), default=0)
    return [f"  {name:<{width}}  {text}" for name, text in pairs]
