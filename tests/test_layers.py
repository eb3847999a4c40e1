"""The import rules and the other rules that a reader of the source can rely on, checked on the syntax tree.

`violations` is a pure function of a file's place and text, so that the second half of this file can show that every
rule is able to fail.
"""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vgi_cli"

_BASE = {"background", "durable", "errors", "notation", "version", "fast", "ranges"}
_CORE = _BASE | {"data", "layout", "maths", "ranks", "registry", "scratch", "workers"}
_FITS = _CORE | {"models", "conditionals", "chains"}
_OUTER = _FITS | {
    "methods",
    "samplers",
    "completers",
    "columns",
    "table",
    "encoding",
    "evaluation",
    "reporting",
}
ALLOWED: dict[str, set[str]] = {
    # what each part of the package may import, besides itself
    **{
        part: set[str]()
        for part in ("background", "durable", "errors", "fast", "notation", "ranges", "ranks", "workers")
    },
    "reporting": {"errors"},
    "version": {"fast"},
    "layout": _BASE,
    "scratch": _BASE,
    "data": _BASE | {"layout", "scratch"},
    "maths": _BASE,
    "columns": _BASE | {"layout", "registry"},
    "table": _CORE | {"columns"},
    "encoding": _CORE | {"columns", "table"},
    "models": _CORE,
    "conditionals": _CORE,
    "chains": _CORE | {"conditionals"},
    "samplers": _FITS,
    "completers": _CORE,
    "methods": _FITS | {"completers"},
    "evaluation": _FITS | {"columns", "samplers"},
    "registry": _BASE,  # the tables of names; whoever looks one up loads what it names
    "registry.plugins": _CORE | {"columns", "conditionals", "models", "methods", "reporting"},
    "settings": _CORE | {"columns", "models", "methods", "reporting"},
    "machine": _CORE | {"chains", "reporting", "settings"},
    "runs": _CORE | {"methods", "settings"},
    "fitting": _OUTER | {"registry.plugins", "settings", "machine", "runs"},
    "pooling": _BASE | {"table"},
    "reports": _BASE | {"columns", "encoding"},
}
ALLOWED["commands"] = ALLOWED["fitting"] | {"fitting", "pooling", "reports"}
ALLOWED["api"] = ALLOWED["commands"] | {"commands"}
ALLOWED["estimators"] = ALLOWED["api"]
ALLOWED["__init__"] = {"api", "errors", "estimators", "registry.plugins", "version"}
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["__main__"] = {"cli"}

_ASCENT = {"base", "loop", "optimisation", "gradient", "reweighted", "start"}
INSIDE: dict[str, set[str]] = {
    # what a folder of a part may import of its own part, besides itself
    "chains.store": set(),
    "commands.check": {"memory", "requests", "dry_run", "pages"},
    "commands.evaluate": {"memory", "requests", "run_table", "samplers", "sampling", "finetune"},
    "commands.report": {"deltas", "pages", "requests", "run_table", "samplers", "sampling", "evaluate"},
    "conditionals.families": set(),
    "conditionals.networks": set(),
    "evaluation.likelihood": set(),
    "evaluation.truth": {"conditional_quality", "imputation"},
    "fitting.contest": {"averaging", "choosing", "fitted", "plan", "refits", "rows", "tables"},
    "methods.em": _ASCENT,
    "methods.vgi": _ASCENT,
    "models.flows": {"base"},
    "models.gaussian": {"base"},
    "models.vae": {"base"},
    "table.csv": {"base", "texts", "fills", "inputs", "join"},
    "table.parquet": {"base", "texts", "fills", "inputs", "join", "pandas_notes", "partitions"},
}
LOADS_LATE = ("vgi_cli.commands.requests", "vgi_cli.commands.report.request")
"""What asks for a command loads the command itself, and torch with it, when the request is carried out."""

FRAMES = {"pandas", "pyarrow"}
CONSOLE = {"typer", "rich", "click"}
BASELINES = {"sklearn": "iterative", "lightgbm": "boosted"}
"""Packages that take long to load or may be missing, and the file of completers/ that needs each: only
`COMPLETERS.load` loads it."""
DRAWING = {"matplotlib": "vgi_cli.reports.drawing", "jinja2": "vgi_cli.reports.page"}
"""Packages of the extra `report`, which may be missing, and the one file that needs each; the command loads these when
a page is wanted."""
KERNELS = {
    "vgi_cli.maths.kernels": ("numba",),
    "vgi_cli.maths.net_kernels": ("numba", "llvmlite"),
    "vgi_cli.maths.row_kernels": ("numba", "llvmlite"),
    "vgi_cli.maths.step_kernels": ("numba",),
    "vgi_cli.maths.gpu_kernels": ("triton",),
}
"""The files that import packages which compile and may be missing; `maths/compiled.py` imports them when they are first
needed."""
BOARD = "vgi_cli.fitting.tensorboard"
"""The one file that imports what needs the package tensorboard, which may be missing, when a fit begins to log."""
TREES = "vgi_cli.fitting.trees"
"""What learns trees by scikit-learn, which it loads then. The estimators load it where it calls them."""
FILES_IN = {"api", "cli", "commands", "durable", "fitting", "machine", "registry.plugins", "runs", "settings", "table"}
MOST_PARAMETERS = 8
PIPES = "vgi_cli.machine.workers"
"""The one file that puts Python objects into bytes and back: between a process and its own forks."""
CODE_RUNNING = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


class Import(NamedTuple):
    """One imported module, absolute and dotted; `runs_on_import` is False inside functions and under TYPE_CHECKING."""

    name: str
    line: int
    runs_on_import: bool


def part_of(module: str) -> str:
    """The part of the package (first level under `vgi_cli`) that a dotted module belongs to."""
    pieces = module.split(".")
    if pieces[1:2] == ["registry"] and pieces[2:3] in (["plugins"], ["registration"]):
        return "registry.plugins"
    return pieces[1] if len(pieces) > 1 else "__init__"


def _is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).split(".")[-1] == "TYPE_CHECKING"


def imports(module: str, tree: ast.Module, is_package: bool) -> Iterator[Import]:
    """Every import of a file. `from a import b` gives `a.b`: whether b is a module is the reader's business."""

    def walk(node: ast.AST, on_import: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, on_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*parents, base]).rstrip(".")
            yield from (Import(f"{base}.{alias.name}", node.lineno, on_import) for alias in node.names)
        else:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                on_import = False
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    continue
                typing_only = isinstance(node, ast.If) and _is_type_checking(node) and child in node.body
                yield from walk(child, on_import and not typing_only)

    yield from walk(tree, True)


def _import_violations(module: str, part: str, found: list[Import]) -> Iterator[str]:
    for item in found:
        top = item.name.split(".")[0]
        if top == "vgi_cli":
            target = part_of(item.name)
            if target not in ALLOWED:
                target = "__init__"  # a name that the package itself offers
            if target != part and target not in ALLOWED[part]:
                yield f"{module}:{item.line}: {part} must not import {target}"
            folder, (first, *_) = ".".join(module.split(".")[1:3]), [*item.name.split(".")[2:], ""]
            if target == part and folder in INSIDE and f"{part}.{first}" != folder and first not in INSIDE[folder]:
                yield f"{module}:{item.line}: {folder} must not import {part}.{first}"
        if top in FRAMES and part not in ("table", "api", "__init__"):
            yield f"{module}:{item.line}: {top} outside table/ and the Python API"
        if top in CONSOLE and part != "cli":
            yield f"{module}:{item.line}: {top} outside cli/"
        learns = top == "sklearn" and (module == TREES or part == "estimators") and not item.runs_on_import
        if top in BASELINES and module != f"vgi_cli.completers.{BASELINES[top]}" and not learns:
            yield f"{module}:{item.line}: {top} outside completers/{BASELINES[top]}.py"
        if item.name.startswith(tuple(f"vgi_cli.completers.{file}" for file in BASELINES.values())):
            yield f"{module}:{item.line}: {item.name} needs packages that may be missing: use COMPLETERS.load"
        if top in DRAWING and module != DRAWING[top]:
            yield f"{module}:{item.line}: {top} outside {DRAWING[top]}"
        if item.name.startswith("vgi_cli.reports.page") and item.runs_on_import:
            yield f"{module}:{item.line}: {item.name} needs packages that may be missing: import it late"
        homes = [file for file, packages in KERNELS.items() if top in packages]
        if homes and module not in homes:
            yield f"{module}:{item.line}: {top} outside {', '.join(homes)}"
        for file, packages in KERNELS.items():
            late = module == "vgi_cli.maths.compiled" and not item.runs_on_import
            if item.name.startswith(file) and not late and packages[0] not in KERNELS.get(module, ()):
                yield f"{module}:{item.line}: {file} needs {packages[0]}: ask maths/compiled.py"
        board = top == "tensorboard" or item.name.startswith("torch.utils.tensorboard")
        if board and (module != BOARD or item.runs_on_import):
            yield f"{module}:{item.line}: {item.name} outside {BOARD}"
        if top == "click":
            yield f"{module}:{item.line}: click is typer's own business"
        if top == "torch" and part == "columns":
            yield f"{module}:{item.line}: torch in columns/, which is numpy"
        if top == "torch" and item.runs_on_import and part in ("cli", "__init__", "__main__"):
            yield f"{module}:{item.line}: torch at module level in {part}"
        if top == "scipy" and item.runs_on_import:
            yield f"{module}:{item.line}: scipy at module level"
        own = module == PIPES and top == "pickle"
        if (top in CODE_RUNNING and not own) or item.name in ("torch.load", "torch.save"):
            yield f"{module}:{item.line}: {item.name} can run code when it loads a file"


def _parameters(arguments: ast.arguments) -> list[str]:
    """Names of the parameters, without self and cls."""
    rest = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]
    return [one.arg for one in every if one.arg not in ("self", "cls")]


def _dots(node: ast.expr) -> str:
    """`a.b.c` as it stands; of what comes before the dots and is no name nothing (`ast.unparse` takes ten times as
    long)."""
    if isinstance(node, ast.Attribute):
        return f"{_dots(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _other_violations(module: str, part: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        text = _dots(node) if isinstance(node, ast.Attribute | ast.Name) else ""
        where = f"{module}:{getattr(node, 'lineno', 0)}"
        if text in ("os.environ", "os.getenv", "os.putenv", "os.environb") and part not in (
            "cli",
            "api",
            "estimators",
            "machine",
            "fast",
            "__init__",
        ):
            yield f"{where}: environment variables outside cli/, Python API, machine/, fast.py and the package itself"
        if text in ("sys.stdin", "sys.stdout") and part not in ("cli", "commands", "table", "__main__"):
            yield f"{where}: {text} outside cli/ (and, for a table that is piped, commands/ and table/)"
        if text == "sys.stderr" and part not in ("cli", "__main__"):
            yield f"{where}: sys.stderr outside cli/"
        if text in ("sys.exit", "os._exit", "SystemExit", "exit", "quit") and part not in ("cli", "__main__"):
            yield f"{where}: the process is ended outside cli/"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = len(_parameters(node.args))
            own = module == "vgi_cli.maths.gpu_kernels"  # a kernel takes each address by itself
            if count > MOST_PARAMETERS and not own:
                yield f"{where}: {node.name} has {count} parameters"
        if not isinstance(node, ast.Call):
            continue
        call = _dots(node.func)
        if call == "print" and part != "cli":
            yield f"{where}: print outside cli/"
        if call == "hasattr" and not (part == "machine" and ast.unparse(node.args[0]) in ("os", "signal")):
            yield f"{where}: hasattr; capabilities are types"  # what a platform lacks is not a capability of ours
        if call in ("torch.load", "torch.save", "eval", "exec", "yaml.unsafe_load", "yaml.full_load"):
            yield f"{where}: {call} can run code"
        reads = call == "open" or call.split(".")[-1] in ("read_text", "read_bytes", "write_text", "write_bytes")
        if reads and part not in FILES_IN:
            yield f"{where}: files are read and written in {sorted(FILES_IN)} only"


def violations(module: str, source: str, is_package: bool = False) -> list[str]:
    """Broken rules of one file: `module` is its dotted name, such as `vgi_cli.models.gaussian.fa`."""
    part = part_of(module)
    if part not in ALLOWED:
        return [f"{module}: {part} has no place in the layers"]
    tree = ast.parse(source)
    found = [
        *_import_violations(module, part, list(imports(module, tree, is_package))),
        *_other_violations(module, part, tree),
    ]
    if part != "notation" and any(f"| `{symbol}` " in source for symbol in "NdDSCKRMG"):
        found.append(f"{module}: symbols are defined in notation.py only")
    return found


def dotted(path: Path) -> tuple[str, bool]:
    """Dotted name of a file of the package, and whether it is a package's `__init__`."""
    pieces = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    if pieces[-1] == "__init__":
        return ".".join(pieces[:-1]), True
    return ".".join(pieces), False


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_file_keeps_the_rules(path: Path) -> None:
    module, is_package = dotted(path)
    assert violations(module, path.read_text(encoding="utf-8"), is_package) == []


def loaded_with(start: str) -> dict[str, list[str]]:
    """Modules of this package that importing `start` runs, each with the outside modules it imports on the way."""
    sources = {dotted(path)[0]: path for path in FILES}
    todo, seen = [start], dict[str, list[str]]()
    while todo:
        module = todo.pop()
        if module in seen or module not in sources:
            continue
        tree = ast.parse(sources[module].read_text(encoding="utf-8"))
        names = [i.name for i in imports(module, tree, dotted(sources[module])[1]) if i.runs_on_import]
        seen[module] = [name.split(".")[0] for name in names if not name.startswith("vgi_cli")]
        for name in [*names, module]:
            pieces = name.split(".")
            todo += [".".join(pieces[:n]) for n in range(1, len(pieces) + 1) if pieces[0] == "vgi_cli"]
    return seen


def cycle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Modules that import each other in a ring, the first that is found; empty: the files can be read in one order."""
    sorter = graphlib.TopologicalSorter(graph)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_two_files_import_each_other() -> None:
    sources = {dotted(path)[0]: path for path in FILES}
    graph = {}
    for module, path in sources.items():
        if module not in LOADS_LATE:
            found = imports(module, ast.parse(path.read_text(encoding="utf-8")), dotted(path)[1])
            names = [item.name if item.name in sources else item.name.rpartition(".")[0] for item in found]
            graph[module] = {name for name in names if name in sources} - {module, "vgi_cli"}
    assert cycle(graph) == []
    assert cycle({"a": ["b"], "b": ["c"], "c": ["a"]}) != []


def test_no_torch_on_the_way_to_the_command_line() -> None:
    seen = loaded_with("vgi_cli.cli.app")
    assert len(seen) > 1
    assert {module: outside for module, outside in seen.items() if "torch" in outside} == {}


@pytest.mark.parametrize("module", ["vgi_cli", "vgi_cli.cli.app"])
def test_importing_loads_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_loads_no_numpy(flag: str) -> None:
    code = (
        f"import sys, vgi_cli.cli.start; sys.argv = ['vgi', '{flag}']; code = vgi_cli.cli.start.start(); "
        "sys.exit(code or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True).returncode == 0


# The rules themselves: each of these lines breaks exactly one.


@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        (
            "vgi_cli.models.base",
            "from vgi_cli.conditionals.base import Draw",
            "models must not import conditionals",
        ),
        ("vgi_cli.models.base", "import vgi_cli.conditionals", "models must not import conditionals"),
        ("vgi_cli.models.base", "from ..conditionals import base", "models must not import conditionals"),
        (
            "vgi_cli.models.base",
            "def f():\n    from vgi_cli import conditionals",
            "models must not import conditionals",
        ),
        (
            "vgi_cli.conditionals.families.spline",
            "from vgi_cli.models.base import Model",
            "conditionals must not import models",
        ),
        ("vgi_cli.maths.nets", "from vgi_cli.data import Blocks", "maths must not import data"),
        ("vgi_cli.models.vae.vae", "from vgi_cli.models.gaussian.fa import x", "models.vae must not import models.gau"),
        ("vgi_cli.methods.em.em", "from vgi_cli.methods.vgi import state", "methods.em must not import methods.vgi"),
        ("vgi_cli.table.csv.rows", "import vgi_cli.table.parquet.types", "table.csv must not import table.parquet"),
        ("vgi_cli.chains.store.link", "from vgi_cli.chains import moves", "chains.store must not import chains.moves"),
        ("vgi_cli.methods.vgi.vgi", "from vgi_cli.settings.recipe import Recipe", "methods must not import settings"),
        ("vgi_cli.fitting.driver", "from vgi_cli.cli import console", "fitting must not import cli"),
        ("vgi_cli.fitting.driver", "from vgi_cli import fit", "fitting must not import __init__"),
        ("vgi_cli.table.reader", "from vgi_cli.methods.em.em import em", "table must not import methods"),
        ("vgi_cli.errors", "from vgi_cli import data", "errors must not import data"),
        ("vgi_cli.fitting.driver", "import pyarrow.parquet as pq", "pyarrow outside table/"),
        ("vgi_cli.evaluation.report", "import pandas", "pandas outside table/"),
        ("vgi_cli.methods.em.em", "def f():\n    import sklearn.mixture", "sklearn outside completers/iterative.py"),
        ("vgi_cli.estimators.base", "import sklearn.base", "sklearn outside completers/iterative.py"),
        ("vgi_cli.completers.iterative", "import lightgbm", "lightgbm outside completers/boosted.py"),
        ("vgi_cli.reports.cells", "import matplotlib", "matplotlib outside vgi_cli.reports.drawing"),
        ("vgi_cli.reports.drawing", "def f():\n    import jinja2", "jinja2 outside vgi_cli.reports.page"),
        ("vgi_cli.commands.report.command", "from vgi_cli.reports.page import page", "page needs packages that may be"),
        ("vgi_cli.methods.em.em", "from vgi_cli.completers.boosted import matched", "use COMPLETERS.load"),
        ("vgi_cli.samplers.exact", "from vgi_cli.methods.em.em import run", "samplers must not import methods"),
        ("vgi_cli.fitting.driver", "from rich.console import Console", "rich outside cli/"),
        ("vgi_cli.evaluation.report", "import typer", "typer outside cli/"),
        (
            "vgi_cli.fitting.driver",
            "def f():\n    import tensorboard",
            "tensorboard outside vgi_cli.fitting.tensorboard",
        ),
        ("vgi_cli.fitting.tensorboard", "from torch.utils.tensorboard import SummaryWriter", "outside vgi_cli.fitting"),
        ("vgi_cli.cli.app", "import click", "click is typer's own business"),
        ("vgi_cli.columns.number", "def f():\n    import torch", "torch in columns/"),
        ("vgi_cli.columns.numerals", "import pyarrow as pa", "pyarrow outside table/"),
        ("vgi_cli.columns.base", "from vgi_cli.table.base import Table", "columns must not import table"),
        ("vgi_cli.cli.app", "import torch", "torch at module level in cli"),
        ("vgi_cli.cli.app", "if True:\n    from torch import nn", "torch at module level in cli"),
        ("vgi_cli", "import torch", "torch at module level in __init__"),
        ("vgi_cli.evaluation.imputation", "from scipy.optimize import minimize", "scipy at module level"),
        ("vgi_cli.maths.splines", "def f():\n    import numba", "numba outside vgi_cli.maths.kernels"),
        (
            "vgi_cli.models.base",
            "from vgi_cli.maths.kernels import KERNEL",
            "needs numba: ask maths/compiled.py",
        ),
        ("vgi_cli.maths.compiled", "import vgi_cli.maths.kernels", "needs numba: ask maths/compiled.py"),
        ("vgi_cli.maths.compiled", "import triton", "triton outside vgi_cli.maths.gpu_kernels"),
        (
            "vgi_cli.maths.splines",
            "def f():\n    from vgi_cli.maths import gpu_kernels",
            "needs triton: ask maths/compiled.py",
        ),
        ("vgi_cli.models.base", "print(1)", "print outside cli/"),
        ("vgi_cli.fitting.driver", "import sys\nsys.exit(1)", "the process is ended outside cli/"),
        ("vgi_cli.fitting.driver", "raise SystemExit(2)", "the process is ended outside cli/"),
        ("vgi_cli.fitting.driver", "import sys\nsys.stderr.write('x')", "sys.stderr outside cli/"),
        ("vgi_cli.models.base", "import sys\nsys.stdout.write('x')", "sys.stdout outside cli/"),
        ("vgi_cli.maths.nets", "import os\nn = os.environ['X']", "environment variables outside"),
        ("vgi_cli.methods.em.em", "import os\nn = os.getenv('X')", "environment variables outside"),
        ("vgi_cli.methods.em.em", "open('x')", "files are read and written in"),
        ("vgi_cli.methods.em.em", "path.read_text()", "files are read and written in"),
        ("vgi_cli.models.base", "hasattr(1, 'x')", "capabilities are types"),
        ("vgi_cli.models.base", "def f(a, b, c, d, e, f, g, h, i):\n    pass", "f has 9 parameters"),
        ("vgi_cli.models.base", "class A:\n    def f(self, a, b, c, d, *e, f, g, h, **i):\n        pass", "f has 9"),
        ("vgi_cli.runs.files", "import pickle", "can run code"),
        ("vgi_cli.runs.files", "from torch import load", "can run code"),
        ("vgi_cli.runs.files", "torch.load('x')", "can run code"),
        ("vgi_cli.models.base", '"""| `K` | chains |"""', "symbols are defined in notation.py only"),
        ("vgi_cli.helpers.misc", "", "has no place in the layers"),
    ],
)
def test_a_broken_rule_is_found(module: str, source: str, reason: str) -> None:
    found = violations(module, source)
    assert any(reason in text for text in found), found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("vgi_cli.cli.fit", "def run():\n    import torch"),
        ("vgi_cli.cli.fit", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
        ("vgi_cli.cli.console", "import sys\nprint('x', file=sys.stderr)\nraise SystemExit(2)"),
        ("vgi_cli.cli.fit", "from vgi_cli import fit"),
        (
            "vgi_cli.methods.vgi.vgi",
            "from vgi_cli.models.base import Model\nfrom vgi_cli.conditionals.base import Draw",
        ),
        ("vgi_cli.estimators.base", "def tags():\n    from sklearn.utils import Tags"),
        ("vgi_cli.machine.device", "import os\nn = os.environ.get('X')"),
        ("vgi_cli.machine.device", "import os\nn = hasattr(os, 'sched_getaffinity')"),
        ("vgi_cli.table.reader", "import pyarrow\nopen('x')"),
        ("vgi_cli.models.base", "class A:\n    def f(self, a, b, c, d, e, f, g, h):\n        pass"),
        ("vgi_cli.completers.boosted", "import lightgbm"),
        ("vgi_cli.methods.em.em", "from vgi_cli.registry.names import COMPLETERS"),
        ("vgi_cli.runs.files", "model.eval()"),
        ("vgi_cli", "import pandas"),
    ],
)
def test_what_is_allowed_passes(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_relative_imports_resolve_from_packages_and_modules() -> None:
    tree = ast.parse("from . import fa\nfrom .base import Model\nfrom ..data import Blocks")
    inside_package = [item.name for item in imports("vgi_cli.models", tree, is_package=True)]
    inside_module = [item.name for item in imports("vgi_cli.models.base", tree, is_package=False)]
    assert inside_module == ["vgi_cli.models.fa", "vgi_cli.models.base.Model", "vgi_cli.data.Blocks"]
    assert inside_package == inside_module
