"""What commands that write a page refuse before anything costly is loaded."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from vgi_cli.errors import UsageError
from vgi_cli.runs.files import require_writable

DRAWN_BY = ("matplotlib", "jinja2")
"""The packages of the extra `report`."""


def require_extra() -> None:
    """UsageError where what draws a page is not installed."""
    lacking = [name for name in DRAWN_BY if importlib.util.find_spec(name) is None]
    if lacking:
        raise UsageError(
            f"the page of a report needs {' and '.join(lacking)}, not installed here",
            "pip install 'vgi-cli[report]'; the numbers alone (--json) need neither",
        )


def refuse_page(path: Path, flag: str, force: bool) -> None:
    """UsageError for a place, named by a flag, where no page can go."""
    if path.is_dir():
        raise UsageError(f"{flag}: '{path}' is a folder", f"name a file: {path / 'report.html'}")
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{flag}: a report is an HTML file, got '{path}'", "name it FILE.html")
    if not path.parent.is_dir():
        raise UsageError(f"{flag}: no folder '{path.parent}'", "create it first")
    elsewhere = f"another {'-o' if flag == '--out' else flag} FILE.html writes elsewhere"
    if path.exists() and not force:
        raise UsageError(f"'{path}' exists", f"--force replaces it, {elsewhere}")
    require_writable(path, elsewhere)
