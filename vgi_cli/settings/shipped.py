"""The recipes that come with the program: `--recipe toy-fa.yaml` finds them wherever it is installed."""

from __future__ import annotations

from pathlib import Path

from vgi_cli.errors import UsageError

PACKAGE = Path(__file__).parents[1]


def folder() -> Path:
    """Where they lie: `recipes/` of an installed package, or of the clone that the package is run from."""
    inside = PACKAGE / "recipes"
    return inside if inside.is_dir() else PACKAGE.parent / "recipes"


def names() -> list[str]:
    """Their names: paths below the folder."""
    return sorted(path.relative_to(folder()).as_posix() for path in folder().rglob("*.yaml"))


def find(path: Path) -> Path:
    """The file that `--recipe` means: the path itself where something is there, else the shipped recipe of that name
    (with or without `recipes/` before it and `.yaml` after it). UsageError that names them where there is none."""
    if path.exists():
        return path
    name = path.as_posix().removeprefix("recipes/").removesuffix(".yaml") + ".yaml"
    known = names()
    if name in known:
        return folder() / name
    raise UsageError(
        f"--recipe: no file '{path}'",
        f"give the path of a YAML recipe, or the name of one that comes with vgi: {', '.join(known)}",
    )
