"""Everything that the contract of the commands refuses: text, hint, exit code 2, and nothing created."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.program import Vgi, fit_once
from vgi_cli.fitting.refits import PREFIX
from vgi_cli.runs.folder import RunFolder

FA = ["--model", "fa", "--set", "model.factors=1", "--set", "bootstrap=2", "--threads", "1"]
TINY_VGI = [
    *("--model", "fa", "--method", "vgi", "--epochs", "1", "--threads", "1", "--set", "model.factors=1"),
    *("--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1", "--set", "bootstrap=none"),
    *("--set", "method.trunk=[4]", "--set", "method.hidden=[4]"),
]

FA_VGI = ["data.csv", "--model", "fa", "--method", "vgi"]


def text(rows: int = 30, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=rows)
    b = a + rng.normal(size=rows)
    lines = [f"{x:.3f},{y:.3f},{round(5 + x)},w{i}" for i, (x, y) in enumerate(zip(a, b, strict=True))]
    lines[1] = f"{a[1]:.3f},,4,w1"
    lines[2] = f",{b[2]:.3f},4,w2"
    return "a,b,count,name\n" + "\n".join(lines) + "\n"


@pytest.fixture
def data(vgi: Vgi) -> Path:
    Path("data.csv").write_text(text())
    return Path("data.csv")


def listing() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*"))


def unread() -> str:
    """A table that is refused as soon as somebody reads it."""
    Path("unread.csv").write_bytes(b"\0\0\0")
    return "unread.csv"


def refused(vgi: Vgi, *arguments: str, code: int = 2) -> tuple[str, str]:
    """The texts of error and hint of a command that is refused and leaves everything as it was."""
    before = listing()
    done = vgi(*arguments)
    assert (done.code, done.out) == (code, ""), done.err
    assert listing() == before
    assert "Traceback" not in done.err
    errors = done.err.split("error: ", 1)[1]
    error, _, hint = errors.partition("\nhint: ")
    return error.strip(), hint.strip()


FILES: dict[str, bytes] = {
    "empty.csv": b"",
    "header.csv": b"a,b\n",
    "fake.parquet": b"a,b\n1,2\n",
    "damaged.parquet": b"PAR1" + b"\0" * 40 + b"PAR1",
    "nul.csv": b"a,b\n1,\x002\n",
    "latin1.csv": "a,b\n1,caf\xe9\n".encode("latin-1"),
    "ragged.csv": b"a,b\n1,2\n3\n",
    "twice.csv": b"a,a\n1,2\n3,4\n",
    "unnamed.csv": b"a,,b\n1,2,3\n",
    "infinite.csv": b"a,b\n1,2\n3,inf\n",
    "words.csv": b"a,b\nx,y\nz,w\n",
    "semicolons.csv": b"a;b\n1;2\n3;4\n",
    "tabs.csv": b"a\tb\n1\t2\n3\t4\n",
    "mixed.csv": b"a,b\n" + b"".join(b"%d,1\n" % i for i in range(20)) + b"oops,2\n",
    "damaged.csv.gz": gzip.compress(b"a,b\n1,2\n")[:-6],
}


@pytest.mark.parametrize(
    ("name", "error", "hint"),
    [
        ("missing.csv", "missing.csv: no such file", "check the path"),
        ("dta.csv", "dta.csv: no such file", "did you mean 'data.csv'?"),
        ("empty.csv", "empty.csv: the file is empty", "header"),
        ("header.csv", "header.csv: the file has a header but no rows", "row"),
        ("fake.parquet", "fake.parquet: not a Parquet file, or damaged", ""),
        ("damaged.parquet", "damaged.parquet: not a Parquet file, or damaged", ""),
        ("nul.csv", "nul.csv: ", ""),
        ("latin1.csv", "latin1.csv: line 2 is not UTF-8 (byte 0xe9)", "save the file as UTF-8"),
        ("ragged.csv", "ragged.csv: ", ""),
        ("twice.csv", "twice.csv: ", ""),
        ("unnamed.csv", "unnamed.csv: ", ""),
        ("infinite.csv", "infinite.csv: column 'b' holds an infinity: 'inf' in row 2 (line 3)", ""),
        ("words.csv", "words.csv: no column that can be modelled", "found 'a' (text), 'b' (text)"),
        ("semicolons.csv", "semicolons.csv: ", "--delimiter"),
        ("tabs.csv", "tabs.csv: ", "--delimiter"),
        ("mixed.csv", "mixed.csv: column 'a' holds numbers, but also 'oops' in row 21 (line 22)", "--na-values a=oops"),
        ("damaged.csv.gz", "damaged.csv.gz: damaged gzip file", ""),
    ],
)
def test_tables_that_cannot_be_used(vgi: Vgi, data: Path, name: str, error: str, hint: str) -> None:
    if name in FILES:
        Path(name).write_bytes(FILES[name])
    for arguments in (["fit", name], ["fit", name, "--out", "new"]):
        found, suggestion = refused(vgi, *arguments, *FA)
        assert error in found
        assert hint in suggestion


def test_held_out_tables_that_cannot_be_used(vgi: Vgi, data: Path) -> None:
    assert "none.csv: no such file" in refused(vgi, "fit", "data.csv", "--val", "none.csv", *FA)[0]
    Path("other.csv").write_text("a,b\n1,2\n")
    assert "other.csv: lacks the fitted column 'count'" in refused(vgi, "fit", "data.csv", "--val", "other.csv", *FA)[0]


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ("a,b,count,name\n1,1,1,1\n", "the mask has 1 rows, data.csv has 30"),
        ("a,b,x,name\n" + "1,1,1,1\n" * 30, "the mask lacks the column 'count'"),
        ("a,b,count,name\n" + "1,2,1,1\n" * 30, "column 'b', row 1 (line 2) holds '2': expected 0 or 1"),
    ],
)
def test_masks_that_do_not_fit(vgi: Vgi, data: Path, mask: str, error: str) -> None:
    Path("mask.csv").write_text(mask)
    assert error in refused(vgi, "fit", "data.csv", "--mask", "mask.csv", *FA)[0]


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        ([], "fit needs DATA", "for example: vgi fit data.csv"),
        (["data.csv", "--model", "flwo"], "unknown model 'flwo'", "did you mean 'flow'?"),
        (["data.csv", "--method", "vgu"], "unknown method 'vgu'", "did you mean 'vgi'?"),
        (
            ["data.csv", "--model", "flow", "--method", "em"],
            "method 'em' needs EM steps in closed form (a mixture of Gaussians), which model 'flow' does not have",
            "with --model flow use --method vgi or vbgi or plmcmc or complete or impute-then-fit; --method em works",
        ),
        (
            ["data.csv", "--model", "mixture", "--method", "em-factorised"],
            "method 'em-factorised' needs one Gaussian with factors, which model 'mixture' does not have",
            "--method em-factorised works with --model fa",
        ),
        (
            ["data.csv", "--model", "fa", "--method", "em-factorised", "--set", "bootstrap=3"],
            "method 'em-factorised' has no bootstrap refits, which reweight rows of a likelihood",
            "leave it out, or take --method em",
        ),
        (
            ["data.csv", "--model", "vae", "--method", "vgi", "--set", "method.cells=single"],
            "method.cells=single is said of the missing cells beside latents that are a block of their own",
            "leave it out, or take --model vae --method vbgi",
        ),
        (
            ["data.csv", "--model", "vae", "--method", "em"],
            "method 'em' needs EM steps in closed form (a mixture of Gaussians), which model 'vae' does not have",
            "with --model vae use --method vgi or vbgi or vbgi-m or complete",
        ),
        (
            ["data.csv", "--model", "flow", "--method", "vbgi-m"],
            "method 'vbgi-m' needs latent variables with an encoder, which model 'flow' does not have",
            "--method vbgi-m works with --model vae",
        ),
        (
            ["data.csv", "--model", "vae", "--method", "vbgi-m", "--set", "method.kernel=extended"],
            "method.kernel=extended means nothing for 'vbgi-m' on a model with latents",
            "--set method.kernel=standard",
        ),
        (
            ["data.csv", "--model", "vae", "--method", "vbgi", "--set", "method.hidden=[9]"],
            "method.hidden=[9] means nothing for 'vbgi' on a model with latents: the conditionals are the encoder",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "vae", "--method", "vbgi-m", "--set", "method.trunk=[9]"],
            "method.trunk=[9] means nothing for 'vbgi-m' on a model with latents: the conditionals are the encoder",
            "leave it out",
        ),
        (
            [*FA_VGI, "--set", "method.spline_bins=9"],
            "--set: method.spline_bins=9 has no effect: the conditionals are Gaussian",
            "leave it out",
        ),
        (
            [*FA_VGI, "--set", "method.layout=independent", "--set", "method.trunk=[9]"],
            "--set: method.trunk=[9] has no effect: with method.layout=independent every column has its own network",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "vae", "--method", "vgi", "--set", "method.scan=path"],
            "--set: method.scan=path has no effect: with method.accept=gibbs every step is kept",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "mixture", "--set", "model.covariance=full", "--set", "model.factors=3"],
            "--set: model.factors=3 has no effect: covariances are full",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "mixture", "--set", "model.shrink_to=pairs", "--set", "model.factors=3"],
            "--set: model.factors=3 has no effect: covariances are full",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "mixture", "--set", "model.shrinkage=5"],
            "--set: model.shrinkage=5.0 has no effect: model.shrink_to does not say to what",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "mixture", "--set", "model.shrink_to=pairs", "--set", "model.covariance=factor"],
            "--set: model.shrink_to=pairs has no effect: it is full covariances that are shrunk",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "mixture", "--method", "vgi", "--set", "model.shrink_to=pairs"],
            "--set: model.shrink_to: covariances are shrunk by em, method 'vgi' does not",
            "leave it out, or take --method em",
        ),
        (
            ["data.csv", "--model", "mixture", "--set", "model.shrink_to=pairs", "--set", "method.pooling=3"],
            "--set: method.pooling=3 has no effect: with model.shrink_to, model.shrinkage is that",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "mixture", "--set", "model.shrink_to=pairs", "--set", "uncertainty=posterior"],
            "--set: posterior: model.shrink_to has no effect on posterior draws",
            "leave one out",
        ),
        (
            ["data.csv", "--model", "vae", "--set", "model.components=3"],
            "--set: model.components=3 has no effect: it belongs to model.prior=mixture",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "vae", "--method", "mvae", "--set", "model.embedding=3"],
            "--set: model.embedding=3 has no effect: it belongs to model.encoding=set",
            "leave it out",
        ),
        (
            ["data.csv", "--model", "vae", "--method", "vbgi", "--block", "a,b"],
            "--block: method 'vbgi' has no conditionals of single columns of a 'vae', so none to put into a block",
            "with --model vae say --method vgi",
        ),
        (
            [*FA_VGI, "--set", "method.scan=block", "--block", "none,of,them"],  # before the columns are looked at
            "method.scan=block moves single columns, and here columns are redrawn in blocks by a joint law",
            "leave out method.scan, or the blocks",
        ),
        (
            ["data.csv", "--model", "fa", "--set", "model.factrs=2"],
            "--set: unknown key 'model.factrs' for model 'fa'",
            "did you mean 'model.factors'?",
        ),
        (
            ["data.csv", "--model", "fa", "--set", "method.accept=gibs", "--method", "vgi"],
            "--set: method.accept: expected 'gibbs' or 'metropolis', got 'gibs'",
            "did you mean 'gibbs'?",
        ),
        (
            ["data.csv", "--model", "fa", "--set", "model.factors=two"],
            "--set: model.factors: expected a whole number, got 'two'",
            "",
        ),
        (["data.csv", "--seed", "1", "--set", "seed=2"], "--seed 1 disagrees with --set seed=2", "say it once"),
        (["data.csv", "--time-limit", "soon"], "--time-limit: expected a time such as 90, 40s, 30m or 2h", "30m"),
        (
            ["data.csv", "--epochs", "0"],
            "--epochs: expected a whole number from 1 to 10000000, got 0",
            "give a whole number",
        ),
        (
            ["data.csv", "--threads", "0"],
            "--threads: expected a whole number from 1 to 256, got 0",
            "give a whole number",
        ),
        (["data.csv", "--device", "gpu"], "--device: unknown device 'gpu'", "did you mean 'cpu'?"),
        (["data.csv", "--val", "1.5"], "--val: expected a file or a fraction between 0 and 1, got 1.5", ""),
        (["data.csv", "--val", "0.001", *FA], "--val 0.001: of 30 rows 0 would be held out", "another fraction"),
        (["data.csv", "--select", "best"], "--select: expected 'loglik' or 'objective', got 'best'", ""),
        (["data.csv", "--id", "nmae"], "--id nmae: data.csv has no such column", "did you mean 'name'?"),
        (["data.csv", "--exclude", "x"], "--exclude x: data.csv has no such column", "expected one of"),
        (["data.csv", "--column", "a"], "--column: expected NAME=KIND", "for example --column age=integer"),
        (["data.csv", "--column", "a=Categorical"], "--column: expected NAME=KIND", "did you mean 'categorical'?"),
        (["data.csv", "--column", "a=nominal:x,y"], "--column: expected NAME=KIND", "did you mean 'categorical'?"),
        (["data.csv", "--column", "a=b=float"], "--column: expected NAME=KIND", "did you mean 'numeric'?"),
        (
            ["data.csv", "--column", "a=integer:3"],
            "--column a=integer:3: after the colon comes 1234.5 as the column writes it",
            "--column a=integer",
        ),
        (
            ["data.csv", "--column", "a=integer", "--column", "a=carry"],
            "--column a=integer disagrees with --column a=carry",
            "drop one of them",
        ),
        (["data.csv", "--column", "name=numeric"], "--column name=numeric, but the column holds 'w0'", ""),
        (["data.csv", "--unbounded", "name"], "--unbounded name: the column is not modelled", ""),
        (["data.csv", "--bounds", "a"], "--bounds: expected COL=LOW:HIGH, COL=observed or COL=none, got 'a'", "age=0:"),
        (["data.csv", "--bounds", "a=x:3"], "--bounds a=x:3: 'x' is not a number", "for example 0:100"),
        (["data.csv", "--bounds", "a=2:1"], "--bounds a=2:1: 2 is not below 1", "give the lower limit first"),
        (["data.csv", "--bounds", "aa=0:"], "--bounds aa: data.csv has no such column", "did you mean 'a'?"),
        (["data.csv", "--bounds", "name=0:"], "--bounds name: the column is not modelled", "expected one of"),
        (
            ["data.csv", "--bounds", "a=0:1", "--bounds", "a=none"],
            "--bounds a=0:1 disagrees with --bounds a=none",
            "dr",
        ),
        (["data.csv", "--bounds", "a=0:1", "--unbounded", "a"], "--unbounded a disagrees with --bounds a=0:1", "drop"),
        (["data.csv", "--bounds", "count=0:5"], "data.csv: --bounds count=0:5, but column 'count' holds '6'", "wider"),
        (["data.csv", "--set", "table.bounds=3"], "--set: table.bounds: expected a mapping, got 3", ""),
        (["data.csv", "--recipe", "none.yaml"], "--recipe: no file 'none.yaml'", "give the path of a YAML recipe"),
        (["data.csv", "--resume"], "--resume needs the run to continue", "say --out RUN"),
        (["data.csv", "--resume", "--force", "--out", "x"], "--resume and --force exclude each other", "--resume"),
        (["data.csv", "--delimiter", "abc"], "--delimiter 'abc': expected one ASCII character", ""),
        (
            ["data.csv", "--compile", "maybe"],
            "--compile: expected 'auto', 'off' or 'on', got 'maybe'",
            "give 'auto', 'off' or 'on'",
        ),
        (["data.csv", "-q", "-v"], "-q (say less) and -v (say more) exclude each other", "leave one out"),
        (["-", "data.csv"], "- (standard input) cannot be joined with other files", "pass - alone"),
    ],
)
def test_flags_of_fit(vgi: Vgi, data: Path, arguments: list[str], error: str, hint: str) -> None:
    found, suggestion = refused(vgi, "fit", *arguments)
    assert error in found
    assert hint in suggestion


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("said", [["--device", "cuda"], ["--device", "cuda:1"], ["--set", "device=cuda"]])
def test_cuda_without_a_gpu(vgi: Vgi, data: Path, said: list[str]) -> None:
    error, hint = refused(vgi, "fit", "data.csv", *FA, *said)
    assert "expected a CUDA GPU, found none" in error
    assert hint == "use --device cpu or --device auto"


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_from_the_environment_is_named_so(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGI_DEVICE", "cuda")
    assert refused(vgi, "fit", "data.csv", *FA)[0].startswith("VGI_DEVICE cuda: expected a CUDA GPU")
    assert vgi("fit", "data.csv", *FA, "--device", "cpu").code == 0


def test_a_recipe_with_mistakes_names_them_all(vgi: Vgi, data: Path) -> None:
    Path("r.yaml").write_text("modle: fa\nseed: x\nseed: 1\n")
    error, _ = refused(vgi, "fit", "data.csv", "--recipe", "r.yaml")
    assert error.splitlines()[0] == "3 settings cannot be used"
    assert "r.yaml, line 1: unknown key 'modle' (did you mean 'model'?)" in error
    assert "r.yaml: line 3: duplicate key 'seed' (first on line 2)" in error


@pytest.fixture
def run(vgi: Vgi, data: Path) -> Path:
    return fit_once(vgi, "data.csv", *FA)


def test_existing_outputs_are_kept(vgi: Vgi, run: Path) -> None:
    before = {path: path.read_bytes() for path in run.iterdir()}
    error, hint = refused(vgi, "fit", "data.csv", *FA, "--out", "run")
    assert (error, hint) == ("--out: 'run' exists", "--force replaces it, --resume continues it")
    assert refused(vgi, "fit", "data.csv", *FA, "--out", "data.csv")[0] == "--out: 'data.csv' exists and is a file"
    assert {path: path.read_bytes() for path in run.iterdir()} == before
    assert vgi("impute", "--checkpoint", "run", "--m", "2").code == 0
    error, hint = refused(vgi, "impute", "--checkpoint", "run", "--m", "2")
    assert "run/imputed/data.1.csv exists" in error and "--force" in hint
    assert vgi("impute", "--checkpoint", "run", "--m", "2", "--force").code == 0
    assert vgi("evaluate", "--checkpoint", "run", "data.csv", "-o", "report").code == 0
    error, hint = refused(vgi, "evaluate", "--checkpoint", "run", "data.csv", "--json", "-o", "report")
    assert error == "'report/report.json' exists" and hint == "--force replaces it, another -o DIR writes elsewhere"
    assert vgi("evaluate", "--checkpoint", "run", "data.csv", "-o", "report", "--force").code == 0
    assert vgi("fit", "data.csv", *FA, "--out", "run", "--force").code == 0
    assert not (run / "imputed").exists()


@pytest.mark.parametrize(
    ("words", "path", "hint"),
    [
        (["report", "run"], "run/report.html", "-o FILE.html writes elsewhere, --json writes no page"),
        (["report", "run", "-o", "ro/r.html"], "ro/r.html", "another -o FILE.html writes elsewhere"),
        (["check", "data.csv", "--report", "ro/c.html"], "ro/c.html", "another --report FILE.html writes elsewhere"),
        (["evaluate", "--checkpoint", "run", "data.csv"], "run/evaluations/report.json", "another -o DIR"),
        (["evaluate", "--checkpoint", "run", "data.csv", "-o", "ro/e"], "ro/e/report.json", "another -o DIR"),
        (
            ["evaluate", "--checkpoint", "run", "data.csv", "--json", "--per-row", "ro/p.csv"],
            "ro/p.csv",
            "another --per-row",
        ),
        (["score", "run", "data.csv", "-o", "ro/a/s.csv"], "ro/a/s.csv", "name a file in another folder with -o"),
        (["sample", "run", "-o", "ro/s.csv"], "ro/s.csv", "name a file in another folder with -o"),
        (["impute", "--checkpoint", "run"], "run/imputed/data.csv", "name a file in another folder with -o"),
        (["impute", "--checkpoint", "run", "-o", "ro/i.csv"], "ro/i.csv", "name a file in another folder with -o"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    vgi: Vgi, run: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], path: str, hint: str
) -> None:
    Path("ro").mkdir()
    sealed = {Path.cwd() / "run", Path.cwd() / "ro"}
    allowed = os.access
    monkeypatch.setattr(
        "os.access", lambda place, mode: not (mode & os.W_OK and Path(place) in sealed) and allowed(place, mode)
    )
    monkeypatch.setattr("vgi_cli.table.source.open_table", None)  # no table is read
    error, said = refused(vgi, *words)
    folder = Path.cwd() / path.split("/")[0]
    assert error == f"cannot write '{path}': Permission denied ('{folder}')" and said.startswith(hint)


def test_an_evaluation_that_is_only_printed_needs_no_folder(
    vgi: Vgi, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda place, mode: not mode & os.W_OK)
    assert vgi("evaluate", "--checkpoint", "run", "data.csv", "--json").code == 0
    assert vgi("impute", "--checkpoint", "run", "--format", "single", "-o", "-").code == 0


SCHEMA = pa.schema([("a", pa.float64()), ("b", pa.float64()), ("count", pa.int64())])


def test_an_output_is_never_what_it_is_made_of(vgi: Vgi, run: Path) -> None:
    before = Path("data.csv").read_bytes()
    ask = ["impute", "--checkpoint", "run", "--force", "--format", "single", "-o"]
    for out in ("data.csv", "./run/../data.csv"):
        assert refused(vgi, *ask, out) == (f"{Path(out)} is the table that is imputed", "name another file")
        assert refused(vgi, *ask, out, "data.csv")[0] == f"{Path(out)} is the table that is imputed"
    plain = [word for word in ask if word != "--force"]
    assert refused(vgi, *plain, "data.csv")[0] == "data.csv is the table that is imputed"
    Path("mask.csv").write_text("a,b,count,name\n" + "1,1,1,1\n" * 30)
    assert refused(vgi, *ask, "mask.csv", "data.csv", "--mask", "mask.csv")[0] == "mask.csv is the mask of the table"
    Path("parts").mkdir()
    pq.write_table(pa.table({"a": [1.0], "b": [None], "count": [3]}, schema=SCHEMA), "parts/one.parquet")
    error, _ = refused(vgi, *ask, "parts/two.parquet", "parts")
    assert error == "parts/two.parquet would lie in the folder that is the table that is imputed"
    error, _ = refused(vgi, "evaluate", "--checkpoint", "run", "data.csv", "--per-row", "data.csv", "--force")
    assert error == "data.csv is read here"
    assert Path("data.csv").read_bytes() == before
    error, hint = refused(vgi, *ask, "out.xlsx")
    assert (error, hint) == ("out.xlsx: vgi writes CSV and Parquet, not .xlsx", "name it .csv, .tsv or .parquet")


def test_more_factors_than_columns(vgi: Vgi, data: Path) -> None:
    for flags in (["--model", "fa"], ["--model", "mixture"]):
        error, hint = refused(vgi, "fit", "data.csv", *flags, "--set", "model.factors=9")
        assert error == "model.factors=9: the table has 3 columns to model"
        assert hint == "at most 3, or leave it out"


def test_a_report_is_asked_for_what_it_has_before_the_work(
    vgi: Vgi, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgi_cli.commands.evaluate.command.make", None)  # the work: it is not reached
    error, _ = refused(vgi, "evaluate", "--checkpoint", "run", "data.csv", "--fail-if", "loglk > 1")
    assert error == "--fail-if 'loglk > 1': the report has no number 'loglk'"


def commands(checkpoint: str) -> list[list[str]]:
    names = ["impute", "evaluate", "finetune"]
    return [[name, "--checkpoint", checkpoint, "data.csv"] for name in names]


def test_runs_that_cannot_be_used(vgi: Vgi, run: Path) -> None:
    for arguments in commands("none"):
        assert refused(vgi, *arguments) == ("no run at 'none'", "give the folder that `vgi fit` printed")
    Path("folder").mkdir()
    for arguments in commands("folder"):
        assert refused(vgi, *arguments)[0] == "'folder' is not a run: it has no manifest.json"
    model = run / "model.safetensors"
    good = model.read_bytes()
    model.write_bytes(good[:-1] + bytes([good[-1] ^ 255]))
    for arguments in [*commands("run"), ["fit", "--resume", "--out", "run"]]:
        assert "run 'run' is damaged: model.safetensors does not match" in refused(vgi, *arguments)[0]
    model.write_bytes(good)
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "format": 2, "version": "9.0"}))
    for arguments in commands("run"):
        assert "run 'run' has format 2, this program reads up to 1" in refused(vgi, *arguments)[0]


def test_a_fitted_table_that_changed(vgi: Vgi, run: Path) -> None:
    Path("data.csv").write_text(text(seed=1))
    error, hint = refused(vgi, "impute", "--checkpoint", "run")
    assert error.startswith("data.csv has changed since run was fitted") and "give DATA" in hint
    assert "has changed since" in refused(vgi, "fit", "--resume", "--out", "run", "--epochs", "9999")[0]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["fit", "--resume", "--out", "run", "--epochs", "9999"], "fit anew with another --out"),
        (["impute", "--checkpoint", "run"], "give DATA, a table to fill"),
        (["sample", "run", "--missing"], "leave out --missing"),
    ],
)
def test_what_to_do_where_the_fitted_table_is_not_what_it_was(vgi: Vgi, run: Path, words: list[str], hint: str) -> None:
    Path("data.csv").write_text(text(seed=1))
    error, said = refused(vgi, *words)
    assert error.startswith("data.csv has changed since run was fitted") and said == f"restore the file, or {hint}"
    Path("data.csv").rename("dta.csv")
    gone = f"{Path('data.csv').resolve()}: no such file, and run was fitted on it"
    assert refused(vgi, *words) == (gone, f"put it back there, or {hint}")


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("a,b\n1,2\n", "lacks the fitted column 'count'"),
        ("a,b,count\n1,x,2\n", "column 'b' is numeric in the fit but holds 'x' in row 1 (line 2)"),
        ("a,b,count\n1,inf,2\n", "column 'b' holds an infinity"),
    ],
)
def test_new_tables_that_do_not_fit_the_run(vgi: Vgi, run: Path, table: str, error: str) -> None:
    Path("new.csv").write_text(table)
    for name in ("impute", "evaluate"):
        assert error in refused(vgi, name, "--checkpoint", "run", "new.csv")[0]


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--m", "0"], "--m: expected a whole number from 1 to 10000, got 0", "for example --m 5"),
        (["--format", "wide"], "--format: expected files, long, mids-csv or single, got 'wide'", ""),
        (
            ["--format", "fles"],
            "--format: expected files, long, mids-csv or single, got 'fles'",
            "did you mean 'files'?",
        ),
        (["--point", "moode"], "--point: expected mean, median or mode, got 'moode'", "did you mean 'mode'?"),
        (["--point", "mode"], "--point mode: run 'run' has no column of levels", "--point mean or median"),
        (["--point", "mean", "--format", "long"], "--point gives one table, --format long several", "leave out"),
        (["--format", "single", "--m", "3"], "--format single is one draw, --m 3 asks for more", "--point mean"),
        (["--format", "files", "-o", "-"], "--format files cannot go to stdout", "name a file with -o"),
        (["--no-original", "--format", "mids-csv"], "--no-original belongs to --format long", "leave it out"),
        (["--format", "mids-csv", "-o", "x.tsv"], "x.tsv: --format mids-csv writes CSV, not .tsv", "name it .csv"),
        (
            ["--format", "mids-csv", "-o", "x.parquet"],
            "x.parquet: --format mids-csv writes CSV, not .parquet",
            "name it",
        ),
        (["--no-original"], "--no-original belongs to --format long", "leave it out"),
        (["--uncertainty", "bayes"], "--uncertainty: expected auto, bootstrap, posterior or none, got 'bayes'", ""),
        (
            ["--sampler", "mice"],
            "unknown sampler 'mice'",
            "expected one of: auto, chains, exact, gibbs, latent, metropolis",
        ),
        (
            ["--sampler", "metropolis"],
            "sampler 'metropolis' needs fitted conditionals (a fit by vgi), which a run of model 'fa' by method",
            "this run can use --sampler exact",
        ),
        (["--sampler", "chains"], "sampler 'chains' needs stored imputations (a fit by vgi, mcem", "--sampler exact"),
        (["--mask", "data.csv"], "--mask, --na-values, --delimiter and --decimal belong to DATA", "give DATA"),
        (["-o", "folder"], "folder", "name"),
    ],
)
def test_flags_of_impute(vgi: Vgi, run: Path, arguments: list[str], error: str, hint: str) -> None:
    Path("folder.1.csv").mkdir()
    found, suggestion = refused(vgi, "impute", "--checkpoint", "run", *arguments)
    assert error in found
    assert hint in suggestion


def test_a_negative_number_of_refits(vgi: Vgi, data: Path) -> None:
    error, _ = refused(vgi, "fit", "data.csv", *FA, "--set", "bootstrap=-3")
    assert "bootstrap" in error and "-3" in error


def test_bootstrap_without_refits(vgi: Vgi, data: Path) -> None:
    vgi("fit", "data.csv", *FA[:4], "--set", "bootstrap=none", "--out", "run", "--threads", "1")
    assert not any(name.startswith(PREFIX) for name in RunFolder.open(Path("run")).tensors("model"))
    error, hint = refused(vgi, "impute", "--checkpoint", "run", "--uncertainty", "bootstrap")
    assert error == "--uncertainty bootstrap: run 'run' holds no bootstrap refits"
    assert hint == "fit again with --set bootstrap=20"
    flags = [*FA[:4], "--imputer", "mean", "--threads", "1", "--out", "other", "--epochs", "2"]
    assert vgi("fit", "data.csv", *flags).code == 0
    _, hint = refused(vgi, "impute", "--checkpoint", "other", "--uncertainty", "bootstrap")
    assert hint == "leave it out: of fa only fits by em, vgi, vbgi, mcem, complete have refits"


def test_parquet_to_stdout(vgi: Vgi, run: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, None], "b": [1.0, 2.0], "count": [1, 2]}), "new.parquet")
    error, _ = refused(vgi, "impute", "--checkpoint", "run", "new.parquet", "--format", "single", "-o", "-")
    assert error == "Parquet cannot go to standard output"


def test_long_into_a_table_that_has_its_columns(vgi: Vgi, data: Path) -> None:
    Path("imp.csv").write_text("a,.imp\n1,2\n,3\n4,5\n")
    assert vgi("fit", "imp.csv", *FA, "--out", "run").code == 0
    error, _ = refused(vgi, "impute", "--checkpoint", "run", "--format", "long")
    assert "has a column '.imp', which the long layout adds" in error
    error, _ = refused(vgi, "impute", "--checkpoint", "run", "--format", "mids-csv")
    assert "has a column '.imp', which the long layout adds" in error


def test_a_run_from_stdin_does_not_keep_its_table(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text().encode())))
    assert vgi("fit", "-", *FA, "--out", "run").code == 0
    error, hint = refused(vgi, "impute", "--checkpoint", "run")
    assert (error, hint) == ("the run was fitted on standard input, which it does not keep", "give DATA")


def test_fine_tuning_needs_conditionals(vgi: Vgi, run: Path) -> None:
    error, hint = refused(vgi, "evaluate", "--objective", "--checkpoint", "run", "data.csv")
    assert error == "run 'run' was fitted by 'em', which leaves no conditionals to fine-tune"
    assert hint.endswith("fine-tuning needs a fit by vgi or vbgi")


@pytest.mark.parametrize("key", ["method.tolerence", "optim.foo"])
def test_a_setting_that_the_method_of_the_model_does_not_have(vgi: Vgi, key: str) -> None:
    error, hint = refused(vgi, "fit", unread(), "--model", "fa", "--set", f"{key}=1")
    assert error == f"--set: unknown key '{key}' for method 'em'"
    assert hint.startswith(
        "did you mean 'method.tolerance'" if key == "method.tolerence" else "expected one of: epochs"
    )


def test_a_pair_that_is_too_short(vgi: Vgi) -> None:
    error, _ = refused(vgi, "fit", unread(), "--model", "flow", "--method", "plmcmc", "--set", "method.steps=[[0.5]]")
    assert error == "--set: method.steps.0.1: field required, got [0.5]"


@pytest.mark.parametrize("key", ["model.encoder", "model.cell", "model.decoder", "method.trunk", "method.hidden"])
def test_layers_have_units(vgi: Vgi, key: str) -> None:
    error, hint = refused(vgi, "fit", unread(), "--model", "vae", "--set", f"{key}=[0]")
    expected = "a whole number from 1 to 10000"
    assert (error, hint) == (f"--set: {key}.0: expected {expected}, got 0", f"give {expected}")


def test_selection_by_the_objective_needs_held_out_rows(vgi: Vgi) -> None:
    for model in (["--model", "vae"], []):
        error, hint = refused(vgi, "fit", unread(), *model, "--select", "objective")
        assert error == "--select: selecting by the objective needs held-out rows"
        assert hint == "hold some out, for example --val 0.2, or leave it out"


def test_selection_by_the_objective_needs_a_method_that_has_one(vgi: Vgi, data: Path) -> None:
    """Also where the method is chosen by the rule: `auto` takes a Gaussian."""
    for model in (["--model", "fa"], []):
        error, hint = refused(vgi, "fit", "data.csv", *model, "--val", "0.5", "--select", "objective")
        assert error == "--select: method 'em' has no loss of its own on held-out rows"
        assert hint == "leave it out, or take --method vgi or vbgi"


@pytest.mark.parametrize(
    ("setting", "error", "hint"),
    [
        ("model.factors=2", "model.factors needs a named model", "say --model fa or mixture"),
        ("method.tolerance=2", "method.tolerance needs a named method", "say --method em or em-factorised"),
        ("method.gibbs_steps=2", "method.gibbs_steps needs a named method", "say --method vgi or vbgi or vbgi-m"),
        ("method.samples=2", "method.samples needs a named method", "say --method miwae"),
        ("optim.lt=2", "unknown key 'optim.lt'", "did you mean 'optim.lr'?"),
    ],
)
def test_settings_without_a_model_or_method_name_those_that_have_them(
    vgi: Vgi, setting: str, error: str, hint: str
) -> None:
    assert refused(vgi, "fit", unread(), "--set", setting) == (f"--set: {error}", hint)


@pytest.mark.parametrize("model", ["fa", "flow"])
def test_maximum_likelihood_needs_a_complete_table(
    vgi: Vgi, data: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("data.csv").write_text(text(rows=60))
    monkeypatch.setattr("vgi_cli.fitting.fit_rows.model_size", None)  # it is not reached
    error, hint = refused(vgi, "fit", "data.csv", "--model", model, "--method", "complete")
    assert "method 'complete' fits complete tables, and" in error and "are missing" in error
    assert hint == "leave out --method, or take --method vgi or impute-then-fit"
    assert not list(Path().glob("run*"))


def test_fine_tuning_needs_a_model(vgi: Vgi, data: Path) -> None:
    Path("same.csv").write_text("a,b\n1,2\n1,2\n,2\n")
    assert vgi("fit", "same.csv", "--out", "run").code == 0
    for arguments in (["finetune"], ["evaluate", "--objective"]):
        error, hint = refused(vgi, *arguments, "--checkpoint", "run", "same.csv")
        assert error == "run 'run' models no column: none of its table's columns varied"
        assert "nothing can be fine-tuned" in hint


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--fail-if", "loglik"], "--fail-if 'loglik' is not a condition", "write it as"),
        (["--fail-if", "loglik < x"], "--fail-if 'loglik < x': 'x' is not a finite number", ""),
        (["--fail-if", "loglk > 1"], "--fail-if 'loglk > 1': the report has no number 'loglk'", "did you mean"),
        (["--fail-if", "objective < 1"], "the report has no number 'objective'", "--objective adds it"),
        (["--fail-if", "imputation.rmse < 1"], "no number 'imputation.rmse'", "--truth or --mask adds it"),
        (["--fail-if", "loglik.meen < 1"], "no number 'loglik.meen'", "did you mean 'loglik.mean'?"),
        (["--per-row", "rows.xlsx"], "rows.xlsx: vgi writes CSV and Parquet, not .xlsx", "name it .csv, .tsv or .par"),
        (["--truth", "short.csv"], "--truth: short.csv has 2 rows, data.csv has 30", "row by row"),
        (["--truth", "data.csv"], "no cell that is missing in data.csv is known in the truth", "the complete table"),
        (["--per-row", "none/rows.csv"], "--per-row: no folder 'none'", "create it first"),
        (["--per-row", "data.csv"], "data.csv is read here", "name another file"),
        (["--per-row", "short.csv"], "'short.csv' exists", "another --per-row writes elsewhere"),
        (["-o", "data.csv"], "--out: 'data.csv' is a file", "name a folder"),
        (["--truth", "none.csv"], "none.csv: no such file", "check the path"),
    ],
)
def test_flags_of_evaluate(vgi: Vgi, run: Path, arguments: list[str], error: str, hint: str) -> None:
    Path("short.csv").write_text("a,b,count\n1,2,3\n3,4,5\n")
    found, suggestion = refused(vgi, "evaluate", "--checkpoint", "run", "data.csv", *arguments)
    assert error in found
    assert hint in suggestion


def test_hidden_cells_of_a_pipe_cannot_be_scored(vgi: Vgi, run: Path) -> None:
    error, hint = refused(vgi, "evaluate", "--checkpoint", "run", "-", "--mask", "data.csv")
    assert error == "--mask scores the hidden cells against DATA, which is read twice: it cannot be standard input"
    assert hint == "write the table to a file, or name the complete one with --truth"


def test_chains_are_for_the_table_that_the_run_holds(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "data.csv", *TINY_VGI, "--out", "run").code == 0
    Path("new.csv").write_text("a,b,count\n1,,3\n3,4,\n")
    error, _ = refused(vgi, "impute", "--checkpoint", "run", "new.csv", "--sampler", "chains")
    assert "sampler 'chains' works only for the table that the run holds" in error
    assert (
        "sampler 'chains' has 5 draws of each cell"
        in refused(vgi, "impute", "--checkpoint", "run", "--sampler", "chains", "--m", "6")[0]
    )
    assert vgi("fit", "data.csv", *TINY_VGI, "--val", "0.5", "--out", "half").code == 0
    error, hint = refused(vgi, "impute", "--checkpoint", "half", "--sampler", "chains")
    assert error == "sampler 'chains' needs chains of every row, and run 'half' held out 15 rows (--val)"
    assert hint == "use --sampler exact"
    assert vgi("fit", "data.csv", *TINY_VGI, "--val", "new.csv", "--out", "whole").code == 0  # all of DATA was fitted
    assert vgi("impute", "--checkpoint", "whole", "--sampler", "chains", "--m", "2").code == 0


def test_held_out_rows_that_changed_are_not_scored_on(vgi: Vgi, data: Path) -> None:
    Path("held.csv").write_text("a,b,count\n1,,3\n3,4,\n")
    fit = ("fit", "data.csv", *TINY_VGI, "--val", "held.csv", "--out", "run")
    assert vgi(*fit, "--set", "stop_after=3").code == 0
    Path("held.csv").write_text("a,b,count\n1,,4\n3,4,\n")
    error, hint = refused(vgi, "fit", "--resume", "--out", "run", "--epochs", "50")
    assert error == "the table of --val has changed since run was fitted: the scores so far are of other rows"
    assert hint == "restore the file, or start another run"
    Path("held.csv").write_text("a,b,count\n1,,3\n3,4,\n")
    assert vgi("fit", "--resume", "--out", "run", "--epochs", "5").code == 0


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--imputer", "mise"], "--imputer: unknown imputer 'mise'", "did you mean 'mice'?"),
        (["--imputer", "mice", "--method", "em"], "--imputer: unknown key 'method.imputer' for method 'em'", "impute-"),
        (["--imputer", "mean", "--set", "method.imputations=3"], "imputer 'mean' gives one imputation, got 3", "leave"),
        (["--imputer", "mice", "--set", "method.trees=3"], "imputer 'mice' has no setting 'trees'", "--imputer missf"),
        (["--imputer", "mean", "--set", "bootstrap=3"], "'impute-then-fit' has no bootstrap refits", "--method em"),
        (
            ["--imputer", "mean", "--set", "method.imputer=mice"],
            "--imputer mean disagrees with --set method.im",
            "once",
        ),
    ],
)
def test_imputers_are_refused_before_the_table_is_read(vgi: Vgi, arguments: list[str], error: str, hint: str) -> None:
    found, suggestion = refused(vgi, "fit", unread(), "--model", "fa", *arguments)
    assert error in found and hint in suggestion
    assert not list(Path().glob("run*"))


def test_a_missing_package_is_refused_before_the_table_is_read(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "lightgbm" else find(name))
    error, hint = refused(vgi, "fit", unread(), "--imputer", "miceforest")
    assert error == "--imputer: imputer 'miceforest' needs LightGBM, which is not installed"
    assert hint == "pip install '.[baselines]' in a clone of vgi"


def test_imputations_that_a_run_does_not_hold(vgi: Vgi, data: Path) -> None:
    fit = ["fit", "data.csv", "--model", "fa", "--imputer", "mean", "--epochs", "1", "--set", "model.factors=1"]
    assert vgi(*fit, "--out", "run").code == 0
    error, hint = refused(vgi, "impute", "--checkpoint", "run", "--sampler", "chains", "--m", "2")
    assert error == "sampler 'chains' has 1 draw of each cell, draw 2 was asked for"
    assert hint == "use --m 1 or another sampler"
    fit[fit.index("mean")] = "empirical"
    assert vgi(*fit, "--set", "method.imputations=2", "--out", "two").code == 0
    error, hint = refused(vgi, "impute", "--checkpoint", "two", "--sampler", "chains", "--m", "3")
    assert error == "sampler 'chains' has 2 draws of each cell, draw 3 was asked for"
    assert hint == "use --m 2 or less, another sampler, or a fit with --set method.imputations=3"


def test_without_m_as_many_draws_as_there_are_chains(vgi: Vgi, data: Path) -> None:
    fit = ["fit", "data.csv", "--model", "fa", "--imputer", "mean", "--epochs", "1", "--set", "model.factors=1"]
    assert vgi(*fit, "--out", "run").code == 0
    done = vgi("impute", "--checkpoint", "run", "--sampler", "chains", "-o", "filled.csv")
    assert done.code == 0 and done.out.split() == ["filled.1.csv"], done.err
    assert "1 draw, as many as the run keeps imputations of a row" in done.err


def test_a_fit_where_another_was_killed_while_it_replaced_a_run_says_where_that_is(vgi: Vgi, run: Path) -> None:
    run.rename(".run.replaced.1")  # what is left of `--force` that was killed
    done = vgi("fit", "data.csv", *FA, "--out", "run")
    assert done.code == 0
    assert "warning: the run that --force was to replace there is still in '.run.replaced.1' (to have it" in done.err
    assert Path(".run.replaced.1/manifest.json").exists() and (run / "model.safetensors").exists()
    done = vgi("fit", "--resume", "--out", "run")
    assert done.code == 0 and Path(".run.replaced.1/manifest.json").exists()
    said = "warning: the run that --force replaced by this one is still in '.run.replaced.1' (to remove it: rm -rf "
    assert said in done.err and ".run.replaced.1)" in done.err


def test_a_run_that_fills_its_own_table_alone_says_so(vgi: Vgi, tmp_path: Path) -> None:
    """A flow with levels by impute-then-fit has stored imputations, and nothing that draws others."""
    rng = np.random.default_rng(0)
    cells = [f"{rng.choice(list('uv'))},{rng.normal():.2f},{rng.normal():.2f}" for _ in range(40)]
    cells[3], cells[5] = "u,,1.5", ",0.2,0.3"
    Path("mixed.csv").write_text("g,x,y\n" + "\n".join(cells) + "\n")
    Path("new.csv").write_text("g,x,y\nu,,0.5\n")
    Path("whole.csv").write_text("g,x,y\nu,1.0,0.5\n")
    fit = ["--model", "flow", "--imputer", "empirical", "--epochs", "1", "--set", "model.blocks=1"]
    done = vgi("fit", "mixed.csv", *fit, "--column", "g=categorical", "--out", "run")
    line = "fills the holes of this table alone: for new rows fit by --method vgi"
    assert done.code == 0 and f"model flow by impute-then-fit with columns of levels {line}" in done.err
    for more in ([], ["--dry-run"]):  # what would be refused is refused before anything is said of it
        error, hint = refused(vgi, "impute", "--checkpoint", "run", "new.csv", *more)
        assert error.endswith("only for the table that the run holds: 1 rows are new or have other holes")
        assert hint == "this run has no other sampler: a fit by --method vgi fills new rows"
    error, hint = refused(vgi, "impute", "--checkpoint", "run", "--m", "9", "--dry-run")
    assert hint == "use --m 5 or less or a fit with --set method.imputations=9"
    error, hint = refused(vgi, "evaluate", "--checkpoint", "run", "new.csv", "--truth", "whole.csv")
    assert hint == "leave out --truth and --mask; this run has no other sampler: a fit by --method vgi fills new rows"
    Path("known.csv").write_text(Path("mixed.csv").read_text().replace("u,,1.5", "u,0.1,1.5"))
    error, hint = refused(vgi, "evaluate", "--checkpoint", "run", "mixed.csv", "--truth", "known.csv")
    assert error.startswith("imputations are scored by 19 draws, and sampler 'chains' has 5 draws of each cell")
    assert hint == "leave out --truth and --mask, or fit again with --set method.imputations=19"
    error, hint = refused(vgi, "finetune", "--checkpoint", "run", "new.csv")
    assert "which leaves no conditionals to fine-tune" in error and hint.startswith("fine-tuning needs a fit by vgi")


def test_a_folder_that_is_no_run_is_not_offered_to_be_replaced(vgi: Vgi, data: Path) -> None:
    Path("other").mkdir()
    Path("other/thesis.txt").write_text("x")
    error, hint = refused(vgi, "fit", "data.csv", *FA, "--out", "other")
    assert (error, hint) == ("--out: 'other' exists and is not a run", "choose a new name")


def test_blocks_are_looked_at_before_a_fit(vgi: Vgi, data: Path) -> None:
    error, hint = refused(vgi, "fit", "data.csv", "--model", "fa", "--method", "vgi", "--block", "a,x", "--dry-run")
    assert error == "--block x: the column is not modelled" and "a" in hint


@pytest.mark.parametrize(("model", "able"), [("flow", "vgi"), ("fa", "em or vgi"), ("auto", "em or vgi")])
def test_the_hint_on_refits_names_methods_that_the_model_has(vgi: Vgi, model: str, able: str) -> None:
    more = ["--imputer", "mean", "--set", "bootstrap=3"]
    error, hint = refused(vgi, "fit", unread(), *(["--model", model] if model != "auto" else []), *more)
    assert "has no bootstrap refits" in error and hint == f"leave it out, or take --method {able}"
