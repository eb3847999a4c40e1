"""Are the results the same? Some sixty short cases on small tables, whose outputs are hashed.

    python benchmarks/same_results.py before.json --tree ../old
    python benchmarks/same_results.py after.json --against before.json
    python benchmarks/same_results.py some.json --against before.json --only 'flow-*' resume-fa
    python benchmarks/same_results.py gpu.json --device cuda --compile on --workers 8

For work that must change no result, such as moving code. A case is a few commands of `vgi`, each a process of its own
with the package of a tree (`--tree`, default: the one that this file is in), in an empty folder with the tables that
this file draws. Of a case are hashed: every file of imputations; of a run folder every tensor by name, the schema, the
recipe without its paths and the metrics without their seconds; of a report of `vgi evaluate` every part. A case that
says so compares two of its run folders too (a fit that was resumed with one that was not interrupted).

The file that is written says for each case the hash of each item. `--against` names the cases whose items differ, and
ends with 1 if any does. Hashes agree only between runs with the same processor and the same libraries. On a GPU the
cases show that every command works there (each line that begins with "warning:" is printed); with `--compile on`, that
steps are captured. Two runs on one GPU need not agree to the last bit: its sums are taken in no fixed order.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml
from safetensors import safe_open

LIBRARIES = ("torch", "numpy", "pyarrow", "pandas", "scipy", "scikit-learn", "lightgbm")
CLOCK_AND_PLACE = (
    "data",
    "mask",
    "val",
    "plugins",
    "seconds",
    "versions",
    "paths",
    "path",
    "time",
    "timings",
    "rows_per_second",
)
"""Keys of JSON and YAML that may differ between two runs of the same case."""


class Case(NamedTuple):
    """Commands that belong together, one a line; `same`: two run folders whose tensors must be equal."""

    commands: str
    same: tuple[str, str] | None = None


SHORT = "--epochs 2 --set optim.warmup_conditionals=1 --set optim.warmup_model=1"
ALONE = f"--method vgi {SHORT} --set method.layout=independent --set method.hidden=[8]"
VGI = f"--method vgi {SHORT} --set method.trunk=[8] --set method.hidden=[8]"
LATENT = "--method vbgi --epochs 2 --set optim.warmup_model=1"
VBGI = VGI.replace("vgi", "vbgi")
REFITS = "--set bootstrap=2"
FEW = "--model fa --set model.factors=2"
FA = f"{FEW} {REFITS}"
TWO = "--model mixture --set model.components=2"
MIXTURE = f"{TWO} {REFITS}"
SMALL_FLOW = "--set model.steps=2 --set model.hidden=8 --set model.bins=4 --set model.blocks=1"
FLOW = f"--model flow --set bootstrap=none {SMALL_FLOW}"
FLOW_AR = FLOW.replace("flow", "flow-ar")
VAE = "--model vae --set bootstrap=none --set model.latents=2 --set model.encoder=[8] --set model.decoder=[8]"
SPLINE = "--set method.conditional=spline --set method.spline_bins=4"
STEADY = "--set optim.schedule=constant --set optim.average=0"  # so that more epochs leave the first ones as they are

CASES: dict[str, Case] = {
    # Factor analysis and mixture by their own methods, and what samplers and reports make of them.
    "fa-em": Case(f"""
        fit plain.csv {FA} --method em --epochs 3 -o run
        impute --checkpoint run --m 3 -o draws
        impute --checkpoint run --m 2 --uncertainty none --seed 5 -o others
        evaluate --checkpoint run plain.csv --truth complete.csv --json"""),
    "fa-mcem": Case(f"""
        fit plain.csv {FA} --method mcem --epochs 2 -o run
        impute --checkpoint run --m 2 --sampler chains -o draws"""),
    "fa-mcem-epoch": Case(f"fit plain.csv {FA} --method mcem --epochs 2 --set method.refresh=epoch -o run"),
    "fa-complete": Case(f"""
        fit complete.csv {FA} --method complete --epochs 2 -o run
        impute plain.csv --checkpoint run --m 2 -o draws"""),
    "mixture-em": Case(f"""
        fit plain.csv {MIXTURE} --method em --epochs 3 -o run
        impute --checkpoint run --m 3 -o draws
        fit plain.csv {MIXTURE} --method em --epochs 2 --seed 1 -o truth
        evaluate --checkpoint run plain.csv --truth-model truth --json"""),
    "mixture-em-factor": Case(f"""
        fit plain.csv {MIXTURE} --method em --epochs 3 --set model.covariance=factor --set model.factors=1 -o run
        impute --checkpoint run --m 2 -o draws"""),
    "mixture-em-outliers": Case(f"""
        fit mixed.csv --id id {MIXTURE} --method em --epochs 3 --set model.outliers=false -o without
        fit mixed.csv --id id {MIXTURE} --method em --epochs 3 --set model.outliers=true -o with
        impute --checkpoint with --m 2 -o draws"""),
    "mixture-mcem": Case(f"fit plain.csv {MIXTURE} --method mcem --epochs 2 -o run"),
    "mixture-vgi": Case(f"""
        fit plain.csv {MIXTURE} {VGI} -o run
        impute --checkpoint run --m 2 --sampler metropolis -o draws"""),
    # Variational Gibbs inference: kernels, layouts, acceptance, scans, families, blocks.
    "fa-vgi": Case(f"""
        fit plain.csv {FA} {VGI} -o run
        impute --checkpoint run --m 2 -o exact
        impute --checkpoint run --m 2 --sampler metropolis -o metropolis
        impute --checkpoint run --m 2 --sampler gibbs -o gibbs
        impute --checkpoint run --m 2 --sampler chains -o chains"""),
    "fa-vgi-gibbs": Case(f"""
        fit plain.csv {FA} {ALONE} --set method.accept=gibbs --set method.kernel=extended -o run"""),
    "fa-vgi-extended": Case(f"""
        fit plain.csv {FA} {VGI} --set method.kernel=extended --set method.layout=modulated \
            --set method.gradient=accepted --set method.initial=em -o run
        impute --checkpoint run --m 2 --sampler metropolis -o draws"""),
    "fa-vgi-independent": Case(f"""
        fit plain.csv {FA} {ALONE} --set method.blocks_per_row=2 -o run"""),
    "fa-vgi-path": Case(f"fit plain.csv {FA} {VGI} --set method.scan=path -o run"),
    "fa-vgi-path-extended": Case(f"""
        fit plain.csv {FA} {VGI} --set method.scan=path --set method.kernel=extended \
            --set method.gradient=accepted -o run"""),
    "fa-vgi-block-scan": Case(f"""
        fit plain.csv {FA} {VGI} --set method.scan=block --set method.block_columns=2 -o run"""),
    "fa-vgi-block-scan-gibbs": Case(f"""
        fit plain.csv {FA} {VGI} --set method.scan=block --set method.block_columns=2 \
            --set method.accept=gibbs --set method.kernel=extended -o run"""),
    "fa-vgi-wide": Case(f"""
        fit wide.csv {FA} {VGI} -o run
        impute --checkpoint run --m 1 --sampler gibbs -o draws"""),
    "fa-vgi-spline": Case(f"""
        fit plain.csv {FA} {VGI} {SPLINE} -o run
        impute --checkpoint run --m 2 --sampler metropolis -o draws
        evaluate --checkpoint run plain.csv --conditionals --json"""),
    "fa-vgi-spline-modulated": Case(f"""
        fit plain.csv {FA} {VGI} {SPLINE} --set method.layout=modulated --set method.kernel=extended -o run"""),
    "fa-vgi-spline-independent": Case(f"""
        fit plain.csv {FA} {ALONE} {SPLINE} --set method.accept=gibbs --set method.spline_steps=2 -o run"""),
    "fa-vgi-blocks": Case(f"""
        fit plain.csv {FA} {VGI} --block a,b --block c,d -o run
        impute --checkpoint run --m 2 --sampler metropolis -o metropolis
        impute --checkpoint run --m 2 --sampler gibbs -o gibbs"""),
    "fa-vgi-blocks-gibbs": Case(f"""
        fit plain.csv {FA} {VGI} --block a,b,c --set method.accept=gibbs --set method.kernel=extended -o run"""),
    "fa-vgi-blocks-path": Case(f"fit plain.csv {FA} {VGI} --block auto --set method.scan=path -o run"),
    "fa-vbgi": Case(f"fit plain.csv {FA} {VBGI} --set method.gradient=accepted -o run"),
    # Flows.
    "flow-vgi": Case(f"""
        fit plain.csv {FLOW} {VGI} -o run
        impute --checkpoint run --m 2 -o draws
        evaluate --checkpoint run plain.csv --truth complete.csv --rows 20 --json"""),
    "flow-vgi-spline": Case(f"""
        fit plain.csv {FLOW} {VGI} {SPLINE} --set method.kernel=extended --set model.dropout=0.2 -o run"""),
    "flow-vbgi": Case(f"""
        fit plain.csv {FLOW} {VBGI} -o run
        impute --checkpoint run --m 2 -o draws"""),
    "flow-plmcmc": Case(f"""
        fit plain.csv {FLOW} --method plmcmc --epochs 4 --set method.steps=[[0.0,5],[0.45,7]] -o run
        impute --checkpoint run --m 2 --sampler plmcmc -o draws"""),
    "flow-complete": Case(f"""
        fit complete.csv {FLOW} --method complete --epochs 2 -o run
        impute plain.csv --checkpoint run --m 2 -o draws"""),
    "flow-ar-vgi": Case(f"""
        fit plain.csv {FLOW_AR} {VGI} -o run
        impute --checkpoint run --m 2 -o draws"""),
    "flow-ar-plmcmc": Case(f"""
        fit plain.csv {FLOW_AR} --method plmcmc --epochs 4 --set method.steps=[[0.0,5]] \
            --set method.outside=reject -o run"""),
    "flow-ar-complete": Case(f"fit complete.csv {FLOW_AR} --method complete --epochs 2 -o run"),
    # Autoencoders.
    "vae-vbgi": Case(f"""
        fit plain.csv {VAE} {LATENT} --set method.trunk=[8] -o run
        impute --checkpoint run --m 2 -o draws
        impute --checkpoint run --m 2 --sampler gibbs -o gibbs
        evaluate --checkpoint run plain.csv --samples 20 --refit-epochs 1 --rows 20 --json"""),
    "vae-vbgi-metropolis": Case(f"""
        fit plain.csv {VAE} {LATENT} --set method.trunk=[8] --set method.accept=metropolis \
            --set model.variance=latent -o run"""),
    "vae-vbgi-extended": Case(f"""
        fit plain.csv {VAE} {LATENT} --set method.trunk=[8] --set method.kernel=extended -o run
        impute --checkpoint run --m 1 -o draws
        impute --checkpoint run --m 1 --sampler gibbs -o gibbs"""),
    "vae-vbgi-m": Case(f"""
        fit plain.csv {VAE} {LATENT.replace("vbgi", "vbgi-m")} -o run
        impute --checkpoint run --m 2 -o draws"""),
    "vae-vgi": Case(f"""
        fit plain.csv {VAE} {VGI} -o run
        impute --checkpoint run --m 2 --sampler gibbs -o draws"""),
    "vae-mvae": Case(f"""
        fit plain.csv {VAE} --method mvae --epochs 2 -o run
        impute --checkpoint run --m 2 --sampler latent -o draws
        evaluate --checkpoint run plain.csv --samples 20 --json"""),
    "vae-miwae": Case(f"fit plain.csv {VAE} --method miwae --epochs 2 --set method.samples=4 -o run"),
    "vae-hivae": Case(f"""
        fit plain.csv {VAE} --method hivae --epochs 2 --set model.components=2 -o run
        impute --checkpoint run --m 2 -o draws"""),
    "vae-partial-vae": Case(f"""
        fit plain.csv {VAE} --method partial-vae --epochs 2 --set model.embedding=4 --set model.cell=[6] -o run
        impute --checkpoint run --m 2 -o draws"""),
    "vae-complete": Case(f"fit complete.csv {VAE} --method complete --epochs 2 -o run"),
    # Rows of numbers and levels.
    "mixed-mixture-vgi": Case(f"""
        fit mixed.csv --id id {MIXTURE} {VGI} -o run
        impute --checkpoint run --m 2 --sampler metropolis -o draws
        evaluate --checkpoint run mixed.csv --truth mixed-complete.csv --rows 20 --json"""),
    "mixed-mixture-shifted-vgi": Case(f"""
        fit mixed.csv --id id {TWO} --set bootstrap=none --set model.dependence=linear {VGI} -o run
        impute --checkpoint run --m 2 --sampler metropolis -o draws
        finetune more-mixed.csv --checkpoint run --epochs 1 -o tuned
        impute --checkpoint tuned --m 1 --sampler gibbs -o others"""),
    "mixed-flow-vgi": Case(f"""
        fit mixed.csv --id id {FLOW} {VGI} -o run
        impute --checkpoint run --m 2 -o draws
        evaluate --checkpoint run mixed.csv --truth mixed-complete.csv --rows 20 --json"""),
    "mixed-flow-vgi-path": Case(f"""
        fit mixed.csv --id id {FLOW} {VGI} --set method.scan=path --set method.accept=metropolis -o run
        impute --checkpoint run --m 2 --sampler metropolis -o draws"""),
    "mixed-flow-ar-vgi": Case(f"""
        fit mixed.csv --id id {FLOW_AR} {VGI} {SPLINE} -o run
        impute --checkpoint run --m 2 -o draws"""),
    "mixed-vae-vbgi": Case(f"""
        fit mixed.csv --id id {VAE} {LATENT} --set method.trunk=[8] -o run
        impute --checkpoint run --m 2 -o draws
        impute --checkpoint run --m 2 --sampler gibbs -o gibbs"""),
    "mixed-vae-hivae": Case(f"""
        fit mixed.csv --id id {VAE} --method hivae --epochs 2 --set model.components=2 -o run
        impute --checkpoint run --m 2 -o draws
        evaluate --checkpoint run mixed.csv --samples 20 --rows 20 --json"""),
    "mixed-vae-miwae": Case(f"""
        fit mixed.csv --id id {VAE} --method miwae --epochs 2 --set method.samples=4 --set table.spikes=split -o run
        impute --checkpoint run --m 2 -o draws"""),
    # Imputers of whole tables.
    "impute-then-fit": Case(f"""
        fit plain.csv {FEW} --imputer empirical --epochs 2 --set method.imputations=2 -o empirical
        fit plain.csv {FEW} --imputer mean --epochs 2 -o mean
        fit plain.csv {FLOW} --imputer mice --epochs 2 --set method.imputations=2 --set method.iterations=2 -o mice
        impute --checkpoint mice --m 2 --sampler chains -o draws"""),
    "impute-then-fit-trees": Case(f"""
        fit plain.csv {VAE} --imputer missforest --epochs 2 --set method.imputations=1 --set method.iterations=2 \
            --set method.trees=5 -o missforest
        fit plain.csv {TWO} --imputer miceforest --epochs 2 --set method.imputations=2 \
            --set method.iterations=2 --set method.trees=5 -o miceforest"""),
    # Tables: kinds of columns, files, limits, formats.
    "table-mixed": Case(f"""
        fit mixed.csv --id id {MIXTURE} --method em --epochs 2 -o run
        impute --checkpoint run --m 2 --format long -o long.csv
        impute --checkpoint run --m 1 --format single -o single.csv
        impute --checkpoint run --m 2 --format long --no-original -o long.parquet
        impute --checkpoint run --point mean -o mean.csv
        impute --checkpoint run --point median -o median.parquet
        evaluate --checkpoint run mixed.csv --truth mixed-complete.csv --json"""),
    "table-parquet": Case(f"""
        fit mixed.parquet --id id {FA} --carry-others --method em --epochs 2 -o run
        impute --checkpoint run --m 2 -o draws
        impute mixed.csv --checkpoint run --m 1 -o from-csv
        evaluate --checkpoint run mixed.parquet --per-row rows.csv --json"""),
    "table-limits": Case(f"""
        fit mixed.tsv --id id --exclude note --column age=numeric --bounds age=0:120 --bounds weight=observed \
            --unbounded rain --na-values missing {FLOW} {VGI} -o run
        impute --checkpoint run --m 2 -o draws"""),
    "table-files": Case(f"""
        fit plain.csv more.csv {FA} --method em --epochs 2 --set table.transform=normal -o run
        fit complete.csv --mask mask.csv {FA} --method em --epochs 2 -o masked
        impute --checkpoint masked --m 2 -o draws"""),
    "table-untransformed": Case(f"fit plain.csv {FA} {VGI} --set table.transform=none --seed 3 -o run"),
    # The rest of a run's life: held-out rows, choices, reports, resuming, new rows.
    "auto": Case("""
        fit mixed.csv --id id --epochs 3 --set bootstrap=2 -o run
        impute --checkpoint run --m 2 -o draws"""),
    "validation": Case(f"""
        fit plain.csv {FLOW} {VGI} --val 0.2 -o run
        fit plain.csv {FA} {VGI} --val more.csv --select objective -o by-objective"""),
    "evaluate": Case(f"""
        fit plain.csv {FA} --method em --epochs 3 -o truth
        fit plain.csv {FA} {VGI} -o run
        evaluate --checkpoint run complete.csv --mask mask.csv --truth-model truth --conditionals --objective --json
        evaluate --checkpoint truth more.csv --per-row rows.csv --json"""),
    "resume-fa": Case(
        f"""
        fit plain.csv {FA} {VGI.replace("--epochs 2", "--epochs 1")} {STEADY} -o run
        fit --resume --epochs 2 -o run
        fit plain.csv {FA} {VGI} {STEADY} -o whole""",
        ("run", "whole"),
    ),
    "stop-after": Case(f"""
        fit plain.csv {FLOW} {VGI} --set stop_after=4 -o run
        impute --checkpoint run --m 1 -o draws"""),
    "resume-vae": Case(
        f"""
        fit plain.csv {VAE} --method mvae --epochs 1 {STEADY} -o run
        fit --resume --epochs 3 -o run
        fit plain.csv {VAE} --method mvae --epochs 3 {STEADY} -o whole""",
        ("run", "whole"),
    ),
    "resume-em": Case(
        f"""
        fit plain.csv {MIXTURE} --method em --epochs 2 -o run
        fit --resume --epochs 4 -o run
        fit plain.csv {MIXTURE} --method em --epochs 4 -o whole""",
        ("run", "whole"),
    ),
    "finetune-fa": Case(f"""
        fit plain.csv {FA} {VGI} -o run
        finetune more.csv --checkpoint run --epochs 2 -o tuned
        impute --checkpoint tuned --m 2 --sampler gibbs -o draws"""),
    "finetune-flow": Case(f"""
        fit plain.csv {FLOW} {VGI} {SPLINE} -o run
        finetune more.csv --checkpoint run --epochs 1 -o tuned"""),
    "finetune-vae": Case(f"""
        fit plain.csv {VAE} {LATENT} --set method.trunk=[8] -o run
        finetune more.csv --checkpoint run --epochs 1 -o tuned
        impute --checkpoint tuned --m 1 -o draws"""),
}  # fmt: skip


def make_tables(folder: Path) -> None:
    """The tables of the cases, the same at every call.

    plain, complete, more: five numbers to two decimals, in pairs that are missing together; mask hides cells of
    complete. mixed: a text, whole numbers, rounded numbers, many zeros, codes. wide: 90 numbers, most of them missing.
    """
    rng = np.random.default_rng(20)

    def numbers(rows: int, names: Sequence[str], factors: int) -> pd.DataFrame:
        loadings = np.random.default_rng(len(names)).normal(size=(factors, len(names)))
        x = rng.normal(size=(rows, factors)) @ loadings + 0.5 * rng.normal(size=(rows, len(names)))
        return pd.DataFrame(x, columns=list(names)).round(2)

    def holes(rows: int, columns: int, share: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
        missing = rng.random((rows, columns)) < share
        missing[np.arange(rows), rng.integers(columns, size=rows)] = False
        return missing

    complete, more = numbers(80, "abcde", 2), numbers(30, "abcde", 2)
    missing = holes(80, 5, 0.3)
    missing[:20, :2] = missing[:20, :1]
    complete.to_csv(folder / "complete.csv", index=False)
    pd.DataFrame(1 - missing, columns=complete.columns).to_csv(folder / "mask.csv", index=False)
    complete.mask(missing).to_csv(folder / "plain.csv", index=False)
    more.mask(holes(30, 5, 0.3)).to_csv(folder / "more.csv", index=False)

    rows = 100
    z = rng.normal(size=rows)
    mixed = pd.DataFrame({
        "age": np.clip(np.rint(40 + 12 * z + 4 * rng.normal(size=rows)), 0, 110).astype("int64"),
        "weight": (70 + 8 * z + 5 * rng.normal(size=rows)).round(1),
        "rain": np.where(rng.random(rows) < 0.4, 0.0, np.exp(0.5 * z + 0.3 * rng.normal(size=rows)).round(3)),
        "site": np.array([1, 7, 13, 99])[rng.integers(4, size=rows)],
        "note": np.array(["low", "high, or so", "", "né"])[rng.integers(4, size=rows)],
        "dose": (3 + z + rng.normal(size=rows)) ** 2,
    })  # fmt: skip
    mixed.insert(0, "id", [f"p{i}" for i in range(rows)])
    mixed.to_csv(folder / "mixed-complete.csv", index=False)
    for name, column in zip(("age", "weight", "rain", "site", "dose"), holes(rows, 5, 0.25).T, strict=True):
        mixed[name] = (mixed[name].astype("Int64") if name in ("age", "site") else mixed[name]).mask(column)
    mixed.to_csv(folder / "mixed.csv", index=False)
    mixed[60:].to_csv(folder / "more-mixed.csv", index=False)
    mixed.to_csv(folder / "mixed.tsv", index=False, sep="\t", na_rep="missing")
    mixed.to_parquet(folder / "mixed.parquet", index=False)

    wide = numbers(40, [f"w{i}" for i in range(90)], 3)
    wide.mask(holes(40, 90, 0.8)).to_csv(folder / "wide.csv", index=False)


def hashed(data: bytes) -> str:
    """A short hash."""
    return hashlib.sha256(data).hexdigest()[:16]


def plain(value: Any) -> Any:
    """A value of JSON without what belongs to the clock or to a place."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if key not in CLOCK_AND_PLACE}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def as_hash(value: Any) -> str:
    """The hash of a value of JSON."""
    return hashed(json.dumps(plain(value), sort_keys=True).encode())


def file_items(path: Path) -> Iterator[tuple[str, str]]:
    """What a file holds: (part, hash)."""
    if path.suffix == ".safetensors":
        with safe_open(path, framework="numpy") as file:
            for name in sorted(file.keys()):
                tensor = np.ascontiguousarray(file.get_tensor(name))
                yield name, hashed(f"{tensor.dtype} {tensor.shape} ".encode() + tensor.tobytes())
    elif path.name == "metrics.jsonl":
        yield "", as_hash([json.loads(line) for line in path.read_text().splitlines()])
    elif path.name == "schema.json":
        for column in json.loads(path.read_text())["columns"]:
            yield column["name"], as_hash(column)
    elif path.name == "recipe.yaml":
        for section, value in plain(yaml.safe_load(path.read_text())).items():
            yield section, as_hash(value)
    elif path.name != "manifest.json":
        yield "", hashed(path.read_bytes())


class Where(NamedTuple):
    """Of which tree the package is, on which device it computes, and whether steps are captured there."""

    tree: Path
    device: str
    compile: str

    def words(self, command: str) -> list[str]:
        """What a command is given beside its own words."""
        compile = ["--compile", self.compile] if command in ("fit", "impute") else []
        return ["--threads", "1", "--device", self.device, "--quiet", *compile]

    def environ(self) -> dict[str, str]:
        """The environment of a command."""
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if self.device == "cpu" else {}
        path = os.pathsep.join(filter(None, [str(self.tree), os.environ.get("PYTHONPATH")]))
        return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | hidden


def run_case(case: Case, tables: Path, where: Where) -> tuple[dict[str, str], list[str]]:
    """The items of a case, by name, and what went wrong."""
    items: dict[str, str] = {}
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(tables, folder, dirs_exist_ok=True)
        inputs = set(folder.iterdir())
        for number, line in enumerate(case.commands.replace("\\\n", " ").strip().splitlines(), 1):
            words = shlex.split(line)
            command = [sys.executable, "-m", "vgi_cli", *words, *where.words(words[0])]
            done = subprocess.run(command, cwd=folder, env=where.environ(), capture_output=True)
            if where.device != "cpu":
                for said in done.stderr.decode(errors="replace").splitlines():
                    if said.startswith("warning:"):
                        print(f"{line.strip()}: {said}", flush=True)
            if done.returncode:
                last = done.stderr.decode(errors="replace").strip()[-500:]
                errors.append(f"{line.strip()}: exit code {done.returncode}: {last}")
                break
            if words[0] == "evaluate":
                for part, value in json.loads(done.stdout).items():
                    items[f"report {number}: {part}"] = as_hash(value)
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path not in inputs)
        for path in files:
            inside = path.relative_to(folder).as_posix()
            items |= {f"{inside}: {part}" if part else inside: value for part, value in file_items(path)}
    if case.same and not errors:
        one, other = (
            {k.partition("/")[2]: v for k, v in items.items() if k.startswith(f"{run}/") and ".safetensors" in k}
            for run in case.same
        )
        if differing := different(one, other):
            errors.append(f"{' and '.join(case.same)} differ: {', '.join(differing[:8])}")
    return items, errors


def different(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The names of the items that are not the same, or not there, in both."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def machine() -> dict[str, str]:
    """What hashes depend on besides the package."""
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}", **versions}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="JSON to write")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="root of the package's source")
    parser.add_argument("--against", type=Path, metavar="OTHER", help="an earlier file to compare with")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help=f"of {', '.join(CASES)}; * and ?")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, …")
    parser.add_argument("--compile", default="auto", choices=("auto", "on", "off"), help="of fits and imputations")
    given = parser.parse_args(argv)
    names = [name for name in CASES if any(fnmatch.fnmatch(name, pattern) for pattern in given.only)]
    if not names:
        parser.error("--only: no case has such a name")
    where = Where(given.tree.resolve(), given.device, given.compile)
    if not (where.tree / "vgi_cli").is_dir():
        parser.error(f"--tree: there is no vgi_cli in {where.tree}")
    before = json.loads(given.against.read_text()) if given.against else None

    start, failed, cases, equal = time.monotonic(), 0, {}, 0
    with tempfile.TemporaryDirectory() as tables, ThreadPoolExecutor(given.workers) as pool:
        make_tables(Path(tables))
        results = pool.map(lambda name: run_case(CASES[name], Path(tables), where), names)
        for name, (items, errors) in zip(names, results, strict=True):
            cases[name] = items
            for error in errors:
                print(f"{name}: {error}", flush=True)
            failed += bool(errors)
            if before is not None and not errors:
                differing = different(items, before["cases"].get(name, {}))
                equal += not differing
                some = ", ".join(differing[:12]) + (f" and {len(differing) - 12} more" if len(differing) > 12 else "")
                words = f"differs in {len(differing)} of {len(items)} items: {some}" if differing else "equal"
                print(f"{name}: {words}", flush=True)
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_text(json.dumps({"machine": machine(), "cases": cases}, indent=1, sort_keys=True) + "\n")
    summary = f"{len(names)} cases" + (f", {equal} equal" if before is not None else "")
    print(f"{summary}, {failed} failed, {time.monotonic() - start:.0f} s")
    if before is not None and before["machine"] != machine():
        print("the two files were made with different machines or libraries")
    return int(failed > 0 or (before is not None and equal < len(names)))


if __name__ == "__main__":
    sys.exit(main())
