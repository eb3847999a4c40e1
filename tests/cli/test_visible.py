"""No control character of a column, a cell or a file name reaches a terminal."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import Vgi, vgi
from vgi_cli.cli import app
from vgi_cli.cli.console import Console
from vgi_cli.cli.visible import UNSEEN, Shown, visible

__all__ = ["vgi"]

ESCAPE = "\x1b[31m\x1b]0;title\x07"
NAME = f"a{ESCAPE}[red]b[/red]\u202e\x9b2J"
SHOWN = r"a\u001b[31m\u001b]0;title\u0007[red]b[/red]\u202e\u009b2J"
ROWS = "".join(f"{i % 7},{'' if i % 5 == 0 else i * i % 11 / 2},w{i}\x1b[2J\n" for i in range(24))
FIT = ("--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none", "--threads", "1")


def table() -> str:
    Path("t.csv").write_text(f"{NAME},y,text\n{ROWS}")
    return "t.csv"


class Terminal(io.StringIO):
    """stdout that says it is a terminal."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


def test_visible() -> None:
    assert visible(NAME) == SHOWN and not UNSEEN.search(SHOWN)
    assert visible("Größe\t名前 💥\n") == "Größe\t名前 💥\n"
    assert visible("a\rb\x0bc\x85d\u2028e\x7f\udcff") == r"a\u000db\u000bc\u0085d\u2028e\u007f\udcff"
    assert visible("a\r\nb\r\r\n") == "a\r\nb\\u000d\r\n"
    assert json.loads(visible(json.dumps(NAME, ensure_ascii=False))) == NAME


@pytest.mark.parametrize(
    "command",
    [
        ["fit", "t.csv", "--id", "nope"],
        ["fit", "t.csv", "--dry-run", "-v"],
        ["fit", "t.csv", *FIT, "--out", "run", "-v"],
        ["check", "t.csv", "--no-trial"],
        ["hide", "t.csv", "-o", "trial"],
    ],
)
def test_what_is_said_shows_codes(vgi: Vgi, command: list[str]) -> None:
    table()
    done = vgi(*command)
    said = done.err + (done.out if command[0] == "check" or "--dry-run" in command else "")
    assert SHOWN in said and not UNSEEN.search(said)


def test_errors_logs_and_the_panel_show_codes(vgi: Vgi) -> None:
    table()
    done = vgi("fit", "t.csv", "--column", f"{NAME}=categorical:\x1b[5m", "--log-file", "x.log")
    assert done.code == 2 and r"\u001b[5m" in done.error and not UNSEEN.search(done.err)
    assert r"\u001b[5m" in Path("x.log").read_text() and not UNSEEN.search(Path("x.log").read_text())
    done = vgi("fit", f"\x1b[2Jt.csv{ESCAPE}")
    assert r"\u001b[2Jt.csv" in done.error and not UNSEEN.search(done.err)
    stream = Terminal()
    console = Console(stream=stream, colour="always")
    console.error(f"no column '{NAME}'", f"'{NAME}'")
    assert stream.getvalue() == f"\x1b[1;31merror:\x1b[0m no column '{SHOWN}'\n\x1b[36mhint:\x1b[0m '{SHOWN}'\n"


def test_tables_are_exact_off_a_terminal_and_visible_on_one(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    table()
    assert vgi("fit", "t.csv", *FIT, "--out", "run").code == 0
    command = ["impute", "--checkpoint", "run", "--m", "1", "--format", "single", "-o", "-"]
    exact = vgi(*command).out
    assert f"{NAME},y,text\n" in exact and "w3\x1b[2J\n" in exact
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    assert app.main(command) == 0
    assert stream.getvalue() == visible(exact) and r"w3\u001b[2J" in stream.getvalue()
    assert sys.stdout is stream  # given back


def test_bytes_of_a_terminal_may_be_cut_within_a_letter() -> None:
    stream = Terminal()
    shown = Shown(stream)
    for byte in "ü\x1b€".encode() + b"\xff!":
        shown.buffer.write(bytes([byte]))
    shown.flush()
    assert stream.getvalue() == r"ü\u001b€\xff!" and shown.isatty() and shown.encoding == "utf-8"


def test_only_these_places_write_to_the_terminal() -> None:
    """`print` stands where the text was made visible, or where stdout is guarded."""
    found = {
        f"{path.name}: {line.strip()}"
        for path in Path(app.__file__).parent.glob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"\bprint\(.*(stderr|stream)|(stdout|stderr|stream)\.write\(|secho|\becho\(", line)
    }
    assert found == {
        "console.py: print(shown, file=self.stream, flush=True)",
        "panel.py: self._stream.write(text)",
        'start.py: print("error: stopped by SIGINT", file=sys.stderr)',
    }


def test_an_argument_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vgi_cli", "fit", b"\xff.csv"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(app.__file__).parents[2])},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == b""
    assert done.stderr == b"error: '\\udcff.csv' is not UTF-8\nhint: rename the file\n"


def test_a_locale_that_does_not_read_utf8_is_told_from_a_name_that_is_none(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vgi_cli", "fit", "ü.csv".encode()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(app.__file__).parents[2]), "PYTHONUTF8": "0", "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == b""
    said = [
        r"error: '\xfc.csv' is UTF-8, and the locale of this process is not",
        "hint: set LC_ALL=C.UTF-8 or PYTHONUTF8=1",
    ]
    assert done.stderr.decode().splitlines() == said


@pytest.mark.slow
def test_a_stdout_that_cannot_spell_a_name_gets_its_code(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Größe,名\n1,2\n2,\n3,5\n4,1\n")
    done = subprocess.run(
        [sys.executable, "-m", "vgi_cli", "check", "t.csv", "--no-trial"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(app.__file__).parents[2]), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0 and "Größe".encode("latin-1") in done.stdout and rb"\u540d" in done.stdout


def test_long_names_are_cut_and_told_apart(vgi: Vgi) -> None:
    asked = "How much do you agree, in all, with what follows? " * 10
    names = [f"{asked}{where}{asked}" for where in ("bus", "train")] + [f"{asked}car"]
    header = ",".join(f'"{name}"' for name in names)
    Path("t.csv").write_text(f"{header}\n" + "".join(f"{i % 7},{i * i % 11},{i}.5\n" for i in range(40)))
    said = vgi("check", "t.csv", "--no-trial")
    assert said.code == 0, said.err
    table = said.out.split("## Columns")[1].split("##")[0].strip().splitlines()
    shown = [line.split("  ")[0] for line in table[1:]]
    assert len(set(shown)) == 3 and max(map(len, shown)) <= 60 and shown[2].endswith("car")
    for line in vgi("fit", "t.csv", "--dry-run").err.splitlines():
        assert all(len(part) < 600 for part in line.split("`")[::2])
    Path("t.csv").write_text(f"{header}\n" + "".join(f"{i % 7},{'kg' if i == 9 else i},{i}.5\n" for i in range(40)))
    said = vgi("fit", "t.csv", "--dry-run")
    assert said.code == 2 and len(said.error) < 200
