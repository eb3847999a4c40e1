"""Runs commands of vgi in forks of one process that has loaded everything, with faults at their file calls: a kill
takes a tenth of a second instead of the seconds that a new process takes. Started by `program.py`, with files.c loaded
before the C library; reads one JSON object a line and answers with one.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, get_args

import torch

from vgi_cli import data
from vgi_cli.cli.app import main
from vgi_cli.commands import memory
from vgi_cli.fitting import driver
from vgi_cli.maths.compiled import Loop, kernel
from vgi_cli.methods import reweighted
from vgi_cli.registry import names
from vgi_cli.table import columns, source

LOADED = [
    *("vgi_cli.api", "vgi_cli.commands.evaluate.command", "vgi_cli.commands.hide"),
    *("pandas", "pyarrow.parquet", "safetensors.torch", "torch._dynamo"),
]
"""Loaded once for all commands, beside what they need: most of all what torch's optimisers load, for a second."""
FAULTS = ctypes.CDLL(None)
REFIT = {"EPOCHS": 1, "STEPS": 2, "COMMON": 2}
"""Short refits, as in all tests."""
IN_FILES = ((memory, "CELL", 10**9), (memory, "PIECE", 10**6), (columns, "CELLS", 300), (source, "BLOCK_CELLS", 200))
LITTLE = ((source, "LEAST_ROWS", 16), (data, "FEW_BYTES", 100))
"""What makes a small table too large for the memory, and cuts it into many small pieces."""


def child(order: dict[str, Any]) -> None:
    """Run one command and end."""
    code = 70
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(order["folder"])
        for module, name, value in (*IN_FILES, *LITTLE) if order["in_files"] else ():
            setattr(module, name, value)
        if order["room"] is not None:
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (mapped + order["room"],) * 2)
        FAULTS.fault_arm(order["folder"].encode(), ctypes.c_long(order["at"]), order["action"], order["error"])
        code = main(order["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        calls = ctypes.c_long.in_dll(FAULTS, "fault_count").value
        FAULTS.fault_arm(b"", ctypes.c_long(-1), 0, 0)
        Path(order["calls"]).write_text(str(calls))
        os._exit(code)


def serve() -> None:
    """One command after the other, until nobody asks."""
    torch.set_num_threads(1)
    for name in LOADED:
        importlib.import_module(name)
    for loop in get_args(Loop):
        kernel(loop)
    driver.CHECKPOINT_SECONDS = 0.0
    for name, value in REFIT.items():
        setattr(reweighted, name, value)
    for table in (names.MODELS, names.METHODS):
        for name in ("fa", "mixture", "flow", "em", "vgi"):
            if name in table:
                table.load(name)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(order)
        timer = threading.Timer(order["seconds"], os.kill, (pid, signal.SIGKILL))
        timer.start()
        _, status = os.waitpid(pid, 0)
        timer.cancel()
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    serve()
