"""The commands open no socket, whatever they do; code in a run folder is never run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import socket, sys

def refuse(*args, **more):
    raise SystemExit("a socket was opened")

def look(event, args):
    if event.startswith(("socket.", "urllib.")) and event != "socket.gethostname":  # which opens none
        refuse()

class Refused(socket.socket):
    def __init__(self, *args, **more):
        refuse()

socket.socket, socket.create_connection = Refused, refuse
sys.addaudithook(look)
from vgi_cli.cli.app import main
tiny = ["--model", "flow", "--method", "vgi", "--epochs", "1", "--threads", "1", "--set", "model.steps=1"]
tiny += ["--set", "optim.warmup_model=1", "--set", "optim.warmup_conditionals=1", "--set", "bootstrap=none"]
for command in (
    ["fit", "t.csv", *tiny, "--out", "run"],
    ["finetune", "--checkpoint", "run", "t.csv", "--epochs", "1", "--out", "tuned"],
    ["impute", "--checkpoint", "run", "--m", "1", "-o", "o.csv"],
    ["evaluate", "--checkpoint", "run", "t.csv", "--json"],
):
    code = main(command)
    if code:
        raise SystemExit(f"{command[0]} ended with {code}")
print("no socket")
"""


def child(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    rows = "".join(f"{i % 7 + i / 10},{'' if i % 5 == 0 else i * i % 11 / 2}\n" for i in range(24))
    (folder / "t.csv").write_text("a,b\n" + rows)
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_four_commands_open_no_socket(tmp_path: Path) -> None:
    done = child(SCRIPT, tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "no socket", done.stderr


@pytest.mark.parametrize(
    "use", ["import socket; socket.socket()", "import socket; socket.getaddrinfo('localhost', 80)"]
)
def test_a_socket_would_be_seen(tmp_path: Path, use: str) -> None:
    script = SCRIPT.partition("from vgi_cli")[0] + use
    assert child(script, tmp_path).stderr.strip() == "a socket was opened"
