"""Plugins: Python files, named by the user, that register models and methods for as long as a command runs.

A plugin is code. Only what a user says with the command imports one (`--plugin FILE.py`, or `plugins=` in Python). A
run and a recipe hold no more than the file name and the SHA-256 of the plugins that a fit used: enough to name what is
missing and to notice what has changed, and nothing that loading them could run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import SourceLoader
from pathlib import Path
from typing import NamedTuple

from vgi_cli.errors import RunError, UsageError, VgiError
from vgi_cli.registry import names as registry
from vgi_cli.registry import registration
from vgi_cli.reporting import Reporter


class Plugin(NamedTuple):
    """An imported plugin: the path that was said, the SHA-256 of the bytes that were run, what they registered."""

    path: Path
    sha256: str
    names: registration.Registrations

    @property
    def file(self) -> str:
        """Its file name, as recipes and messages have it."""
        return self.path.name


_imported: dict[tuple[Path, str], Plugin] = {}
"""Plugins by absolute path and hash: a file that has not changed is run once in a process."""

_active: list[Plugin] = []
"""Plugins whose names are in the registry; one that is said twice, or by nested calls, is here twice."""


@contextmanager
def plugged(files: Sequence[str | Path] | str | Path) -> Iterator[None]:
    """Import plugins, and keep their names in the registry as long as the context lasts.

    UsageError for a file that is missing, not Python, fails, registers nothing, or registers what exists already.
    """
    before = len(_active)
    try:
        for file in [files] if isinstance(files, str | Path) else files:
            _activate(_load(Path(file)))
        yield
    finally:
        while len(_active) > before:
            _deactivate(_active.pop())


def _activate(plugin: Plugin) -> None:
    if any(other.names is plugin.names for other in _active):
        _active.append(plugin)
        return
    if any(other.file == plugin.file for other in _active):
        raise UsageError(f"two plugins are called {plugin.file}", "rename one: a run tells its plugins by file name")
    models, methods = plugin.names
    taken = [*(models.keys() & registry.MODELS.keys()), *(methods.keys() & registry.METHODS.keys())]
    if taken:
        raise UsageError(f"plugin {plugin.file}: '{min(taken)}' is registered already", "choose another name")
    _active.append(plugin)
    registry.MODELS.update(models)
    registry.METHODS.update(methods)
    for name, entry in models.items():
        try:
            registry.check_pair(name, entry.method)
        except UsageError as error:
            raise UsageError(f"plugin {plugin.file}: model '{name}': {error.message}", error.hint) from None


def _deactivate(plugin: Plugin) -> None:
    if not any(other.names is plugin.names for other in _active):
        for name in plugin.names.models:
            del registry.MODELS[name]
        for name in plugin.names.methods:
            del registry.METHODS[name]


def _load(path: Path) -> Plugin:
    """The plugin of a file: its bytes are read once, hashed, and these very bytes are run."""
    if path.suffix != ".py":
        raise UsageError(f"plugin '{path}': expected a Python file", "give the path of a .py file")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"plugin '{path}': no such file", "check the path") from None
    except OSError as error:
        raise UsageError(f"plugin '{path}': {error.strerror}", "give the path of a .py file") from None
    key = (path.resolve(), hashlib.sha256(content).hexdigest())
    if key not in _imported:
        _imported[key] = Plugin(path, key[1], _run(path, content, f"vgi_plugin_{path.stem}_{key[1][:8]}"))
    return _imported[key]._replace(path=path)


class _Source(SourceLoader):
    """Bytes in memory as a module: nothing is read again, and no bytecode is written beside the file."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path, self._content = path, content

    def get_filename(self, fullname: str) -> str:
        """For tracebacks."""
        return str(self._path)

    def get_data(self, path: str | bytes) -> bytes:
        """The source."""
        return self._content


def _run(path: Path, content: bytes, name: str) -> registration.Registrations:
    """Import the bytes and return what they register; UsageError where that fails."""
    spec = importlib.util.spec_from_loader(name, _Source(path.resolve(), content))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where classes look up the names in their annotations
    try:
        with registration.collecting() as names:
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin that ends the process is one that failed
        del sys.modules[name]
        where = f"plugin {path.name}{_line(error, path.resolve())}"
        if isinstance(error, VgiError):
            raise UsageError(f"{where}: {error.message}", error.hint) from error
        raise UsageError(
            f"{where}: {type(error).__name__} while it was imported: {error}", "--debug shows where it came from"
        ) from error
    if not names.models and not names.methods:
        del sys.modules[name]
        raise UsageError(
            f"plugin {path.name} registers no model and no method",
            "call vgi_cli.register_model or vgi_cli.register_method in it",
        )
    return names


def _line(error: BaseException, path: Path) -> str:
    """`, line 7`: the last line of the file that the error passed through, or at which it cannot be parsed."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    if line is None and isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
    return "" if line is None else f", line {line}"


def in_use(model: str | None, method: str | None) -> dict[str, str]:
    """File name -> SHA-256 of the active plugins that give this model or this method."""
    return {
        plugin.file: plugin.sha256
        for plugin in _active
        if model in plugin.names.models or method in plugin.names.methods
    }


def flags() -> str:
    """` --plugin FILE` for every active plugin: what a command line that goes on needs to say again."""
    return "".join(f" --plugin {shlex.quote(str(path))}" for path in dict.fromkeys(p.path for p in _active))


def say_unused(model: str | None, method: str | None, reporter: Reporter) -> None:
    """A line for every active plugin that this model and this method do not come from."""
    used = in_use(model, method)
    for file in dict.fromkeys(plugin.file for plugin in _active if plugin.file not in used):
        reporter.say(f"plugin {file} is not used: model {model} by {method}")


def require(
    recorded: Mapping[str, str], model: str | None, method: str | None, who: str, reporter: Reporter
) -> dict[str, str]:
    """The plugins in use, for a fit that used the `recorded` ones (file name -> SHA-256).

    RunError names a plugin that was not said again; one whose file has changed gets a warning. `who` is what needs
    them, such as `run 'run1'`.
    """
    used = in_use(model, method)
    if len(used) < len(recorded):
        lost = {file: sha for file, sha in recorded.items() if file not in used and sha not in used.values()}
        lost = lost or dict(recorded)
        said = "".join(f" --plugin {file}" for file in lost)
        hashes = ", ".join(sha[:12] for sha in lost.values())
        raise RunError(
            f"{who} needs the plugin {' and '.join(lost)}: it is code, which is imported only where you name it",
            f"if you trust the file, say{said} (SHA-256 of the one that was used: {hashes}…)",
        )
    for file, sha in used.items():
        if recorded and sha not in recorded.values():
            reporter.warn(
                f"plugin {file} is not the file that {who} was made with "
                f"(SHA-256 {sha[:12]}…, then {recorded.get(file, next(iter(recorded.values())))[:12]}…)"
            )
    return used
