"""Plugins: Python files, named by the user, whose names are known for as long as a command runs.

A plugin is code. Only what a user says with the command imports one (`--plugin FILE.py`, or `plugins=` in Python). A
run and a recipe hold no more than the file name and the SHA-256 of the plugins that a fit used: enough to name what is
missing and to notice what has changed, and nothing that loading them could run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.abc import SourceLoader
from pathlib import Path
from typing import Any, TypeAlias

from vgi_cli.errors import RunError, UsageError, VgiError
from vgi_cli.registry import names as registry
from vgi_cli.registry.entries import Entries, ExtensionPoint, Plugin, active, active_with, collected
from vgi_cli.reporting import Reporter

POINTS: tuple[ExtensionPoint[Any], ...] = (
    registry.MODELS,
    registry.METHODS,
    registry.FAMILIES,
    registry.SAMPLERS,
    registry.KINDS,
)
"""What a plugin can add to."""

_imported: dict[tuple[Path, str], Plugin] = {}
"""Plugins by absolute path and hash: a file that has not changed is run once in a process."""


@contextmanager
def plugged(files: Sequence[str | Path] | str | Path) -> Iterator[None]:
    """Import plugins, and have their names in the registry as long as the context lasts.

    UsageError for a file that is missing, not Python, fails, registers nothing, or registers what exists already.
    """
    with ExitStack() as stack:
        for file in [files] if isinstance(files, str | Path) else files:
            plugin = _load(Path(file))
            _check(plugin)
            stack.enter_context(active_with([plugin]))
            for name, entry in plugin.entries.get(registry.MODELS.word, {}).items():
                try:
                    registry.check_pair(name, entry.traits.method)
                except UsageError as error:
                    raise UsageError(f"plugin {plugin.file}: model '{name}': {error.message}", error.hint) from None
        yield


def _check(plugin: Plugin) -> None:
    """UsageError for a plugin that does not go together with those that are active; one may be said twice."""
    if any(other.entries is plugin.entries for other in active()):
        return
    if any(other.file == plugin.file for other in active()):
        raise UsageError(f"two plugins are called {plugin.file}", "rename one: a run tells its plugins by file name")
    taken = [name for point in POINTS for name in plugin.entries.get(point.word, {}) if name in point]
    if taken:
        raise UsageError(f"plugin {plugin.file}: '{min(taken)}' is registered already", "choose another name")


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


def _run(path: Path, content: bytes, name: str) -> Entries:
    """Import the bytes and return what they register; UsageError where that fails."""
    spec = importlib.util.spec_from_loader(name, _Source(path.resolve(), content))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where classes look up the names in their annotations
    entries: Entries = {}
    collected.append(entries)
    try:
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
    finally:
        collected.pop()
    if not entries:
        del sys.modules[name]
        raise UsageError(
            f"plugin {path.name} registers nothing",
            f"call vgi_cli.{' or '.join(f'register_{point.word}' for point in POINTS)} in it",
        )
    return entries


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


Names: TypeAlias = Iterable[tuple[str, str | None]]
"""What a command uses: pairs of an extension point and a name, such as `("model", "fa")`; None: not said."""


def in_use(names: Names) -> dict[str, str]:
    """File name -> SHA-256 of the active plugins that give one of these names."""
    names = list(names)
    return {p.file: p.sha256 for p in active() if any(p.gives(point, name) for point, name in names)}


def flags() -> str:
    """` --plugin FILE` for every active plugin: what a command line that goes on needs to say again."""
    return "".join(f" --plugin {shlex.quote(str(path))}" for path in dict.fromkeys(p.path for p in active()))


def say_unused(names: Names, reporter: Reporter) -> None:
    """A line for every active plugin that gives none of these names."""
    names = list(names)
    said, used = dict(names), in_use(names)
    for file in dict.fromkeys(plugin.file for plugin in active() if plugin.file not in used):
        reporter.say(f"plugin {file} is not used: model {said.get('model')} by {said.get('method')}")


def require(recorded: Mapping[str, str], names: Names, who: str, reporter: Reporter) -> dict[str, str]:
    """The plugins in use, for a fit that used the `recorded` ones (file name -> SHA-256).

    RunError names a plugin that was not said again; one whose file has changed gets a warning. `who` is what needs
    them, such as `run 'run1'`.
    """
    used = in_use(names)
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
