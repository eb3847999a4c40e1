"""What is killed and starved: each command that writes, on a tiny table; what it must have made at its end, and what
may be there on the way."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from pyarrow import csv

from tests.faults.program import NONE, Done, Fault, Program
from vgi_cli.errors import RunError
from vgi_cli.fitting.driver import CLOCKED
from vgi_cli.runs.folder import METRICS, RunFolder, vacant
from vgi_cli.runs.lock import LOCK

SMALL = [
    *("--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1", "--set", "method.trunk=[4]"),
    *("--set", "method.hidden=[4]", "--set", "optim.batch_size=32", "--threads", "1"),
]
EM = ["--model", "mixture", "--set", "model.components=2", "--set", "method.tolerance=1e-12", "--threads", "1"]
FA_VGI = ["--model", "fa", "--method", "vgi", "--set", "model.factors=1", "--epochs", "3", *SMALL]
FLOW = ["--model", "flow", "--epochs", "2", "--set", "model.hidden=4", "--set", "model.steps=1", "--val", "0.2", *SMALL]


class Scenario(NamedTuple):
    """A command that writes.

    command  its words
    again    the words with which it is said again after a kill
    made     the files that it makes at the end, compared with those of an undisturbed run; of a run folder all
    run      the run folder that it makes, if any
    instead  the folder that it replaces, if any: after a kill it is the old one or the new one, or the old one lies
             beside it
    in_files whether its table does not fit into the memory that it may take, and its rows are kept in files
    """

    command: Sequence[str]
    again: Sequence[str]
    made: Sequence[str] = ()
    run: str | None = None
    instead: str | None = None
    in_files: bool = False


def _fit(settings: Sequence[str], in_files: bool = False) -> Scenario:
    words = ["fit", "data.csv", *settings, "--set", "bootstrap=2", "--out", "run"]
    words += ["--max-memory", "2G", "--keep-encoded"] if in_files else []
    return Scenario(words, [*words, "--resume"], run="run", in_files=in_files)


def _writes(*words: str, made: Sequence[str]) -> Scenario:
    return Scenario(words, [*words, "--force"], made)


SCENARIOS = {
    "fit em": _fit(EM),
    "fit vgi": _fit(FA_VGI),
    "fit flow": _fit(FLOW),
    "fit em from files": _fit([*EM, "--epochs", "6"], in_files=True),
    "fit vgi from files": _fit(FA_VGI, in_files=True),
    "finetune": Scenario(
        tune := ["finetune", "--checkpoint", "base", "new.csv", "--epochs", "2", "--out", "run"],
        [*tune, "--force"],
        run="run",
    ),
    "impute files": _writes(
        *("impute", "--checkpoint", "base", "-o", "out.csv", "--m", "3"), made=[f"out.{i}.csv" for i in (1, 2, 3)]
    ),
    "impute long": _writes(
        "impute", "--checkpoint", "base", "new.csv", "-o", "x/out.parquet", "--format", "long", made=["x/out.parquet"]
    ),
    "impute gz": _writes(
        "impute", "--checkpoint", "base", "-o", "out.csv.gz", "--format", "single", made=["out.csv.gz"]
    ),
    "impute shard": _writes(
        *("impute", "--checkpoint", "base", "new.csv", "-o", "out.csv", "--m", "2", "--shard", "2/3"),
        made=["out.1.shard-2-of-3.csv", "out.2.shard-2-of-3.csv"],
    ),
    "impute folder": Scenario(
        words := ["impute", "--checkpoint", "base", "parts", "-o", "filled/", "--format", "single", "--force"],
        words,
        made=["filled/p=1/a.parquet", "filled/p=2/a.parquet"],
        instead="filled",
    ),
    "evaluate": _writes(
        *("evaluate", "--checkpoint", "base", "new.csv", "-o", "report", "--per-row", "rows.csv", "--seed", "1"),
        made=["report/report.json", "report/report.md", "rows.csv"],
    ),
    "score": _writes("score", "base", "new.csv", "-o", "scores.csv", made=["scores.csv"]),
    "sample": _writes("sample", "base", "-n", "50", "-o", "rows.parquet", made=["rows.parquet"]),
    "hide": _writes(
        *("hide", "new.csv", "--mechanism", "mcar", "--rate", "0.2", "-o", "trial"),
        made=["trial/table.csv", "trial/mask.csv", "trial/truth.csv", "trial/trial.json"],
    ),
}


def write_table(path: Path, seed: int, rows: int = 80) -> None:
    """A table of four columns with holes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 1)) * [1.0, -2.0, 0.5, 1.0] + rng.normal(size=(rows, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    lines = [",".join("" if np.isnan(v) else f"{v:.4f}" for v in row) for row in x]
    path.write_text("a,b,c,d\n" + "\n".join(lines) + "\n")


def prepare(program: Program, folder: Path) -> None:
    """What every scenario begins with: two tables, the second as a folder too, a folder that one of them replaces, and
    a run that was fitted by vgi."""
    folder.mkdir(parents=True)
    write_table(folder / "data.csv", 1)
    write_table(folder / "new.csv", 2, 40)
    for number, place in enumerate(("parts/p=1", "parts/p=2", "filled/p=1"), 3):
        (folder / place).mkdir(parents=True)
        write_table(folder / "part.csv", number, 40)
        pq.write_table(csv.read_csv(folder / "part.csv"), folder / place / "a.parquet")
    done = program(folder, "fit", "data.csv", *FA_VGI, "--set", "bootstrap=2", "--out", "base")
    assert done.code == 0, done.err


class Trial:
    """A scenario that was carried out once undisturbed, and is repeated with faults."""

    def __init__(self, program: Program, name: str, ready: Path, work: Path) -> None:
        """`ready`: a folder by `prepare`; `work`: a folder that is made anew for every trial."""
        self.program, self.name, self.scenario, self.ready = program, name, SCENARIOS[name], ready
        self.work = work
        self.begin()
        done = self.run()
        assert done.code == 0, f"{name}: {done.err}"
        self.calls = done.calls
        self.whole = work.with_name(f"{work.name}-whole")
        shutil.rmtree(self.whole, ignore_errors=True)
        work.rename(self.whole)

    def begin(self) -> None:
        """A fresh folder."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.ready, self.work)

    def run(self, fault: Fault = NONE, again: bool = False) -> Done:
        """Say the command."""
        words = self.scenario.again if again else self.scenario.command
        return self.program(self.work, *words, fault=fault, in_files=self.scenario.in_files)

    def between(self) -> list[str]:
        """What is wrong after a command was cut off: a file that is there and not whole, a run that cannot be opened,
        an input that changed."""
        made = [] if self.scenario.instead else self.scenario.made
        wrong = [f"{name} is not whole" for name in made if not self._absent_or_same(name)]
        for path in sorted(self.ready.rglob("*")):
            below = path.relative_to(self.ready)
            if path.is_file() and below.parts[0] != self.scenario.instead and not _same(path, self.work / below):
                wrong.append(f"{below} has changed")
        if (instead := self.scenario.instead) is not None:
            there = [self.work / instead, *self.work.glob(f".{instead}.*.old")]
            found = next((_contents(place) for place in there if place.exists()), None)
            if found not in (_contents(self.ready / instead), _contents(self.whole / instead)):
                wrong.append(f"{instead} is neither the old one nor the new one")
        run = self.work / (self.scenario.run or "none")
        if run.is_dir() and not vacant(run):
            try:
                RunFolder.open(run)
            except RunError as error:
                wrong.append(f"the run cannot be opened: {error.message}")
        return wrong

    def at_the_end(self) -> list[str]:
        """What is wrong after a command that ended well: anything that differs from an undisturbed one."""
        wrong = [f"{name} differs" for name in self.scenario.made if not _same(self.whole / name, self.work / name)]
        if (instead := self.scenario.instead) is not None:
            same = _contents(self.whole / instead) == _contents(self.work / instead)
            wrong += [] if same else [f"{instead} differs"]
            wrong += [f"{left.name} is left" for left in self.work.glob(f".{instead}.*.old")]
        if self.scenario.run is not None:
            wrong += differences(self.whole / self.scenario.run, self.work / self.scenario.run)
        return wrong

    def _absent_or_same(self, name: str) -> bool:
        return not (self.work / name).exists() or _same(self.whole / name, self.work / name)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _same(a: Path, b: Path) -> bool:
    return a.exists() and b.exists() and _bytes(a) == _bytes(b)


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return re.sub(rb'"seconds": [0-9.]+', b"", data) if path.suffix == ".json" else data


def differences(a: Path, b: Path) -> list[str]:
    """Files in which two runs of the same fit differ; times aside."""
    wrong = []
    names = {path.name for run in (a, b) for path in run.iterdir() if path.is_file()}
    for name in sorted(names - {"manifest.json", METRICS} - {n for n in names if n.startswith(LOCK)}):
        if not _same(a / name, b / name):
            wrong.append(f"{name} differs")
    if _metrics(a) != _metrics(b):
        wrong.append(f"{METRICS} differs")
    return wrong


def _metrics(run: Path) -> list[dict[str, object]]:
    lines = (run / METRICS).read_text().splitlines() if (run / METRICS).exists() else []
    return [{k: v for k, v in json.loads(line).items() if k not in CLOCKED} for line in lines]
