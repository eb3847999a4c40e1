"""`--plugin` on the command line: a run of a plugin never imports it by itself, and says what it needs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.program import Vgi
from vgi_cli.samplers import plmcmc

PLUGIN = """
import os, vgi_cli
with open(os.environ.get("VGI_TEST_RAN", os.devnull), "a") as ran:
    ran.write("ran")
vgi_cli.register_model("mine", "vgi_cli.models.gaussian.fa:FactorAnalysis", about="fa again", method="em")
"""
MINE = ["--plugin", "code/mine.py", "--model", "mine"]
SMALL = ["--set", "model.factors=1", "--set", "bootstrap=2", "--threads", "1"]


@pytest.fixture
def data(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> Path:
    x = np.random.default_rng(0).normal(size=(40, 1)) + np.random.default_rng(1).normal(size=(40, 3))
    lines = [",".join(f"{v:.3f}" for v in row) for row in x]
    lines[3] = "0.1,,2"
    Path("data.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")
    Path("code").mkdir()
    Path("code/mine.py").write_text(PLUGIN)
    monkeypatch.setenv("VGI_TEST_RAN", str(Path("ran").absolute()))
    return Path("data.csv")


@pytest.fixture
def run(vgi: Vgi, data: Path) -> Path:
    done = vgi("fit", "data.csv", *MINE, *SMALL, "--out", "run")
    assert (done.code, done.out) == (0, "run\n"), done.err
    assert Path("ran").read_text() == "ran"
    return Path("run")


AGAIN = [
    ["impute", "--checkpoint", "run", "-o", "out.csv"],
    ["evaluate", "--checkpoint", "run", "data.csv"],
    ["finetune", "--checkpoint", "run", "data.csv"],
    ["fit", "--resume", "--out", "run", "--epochs", "9999"],
    ["fit", "--recipe", "run/recipe.yaml", "--out", "new"],
]


def test_the_run_records_file_and_hash_and_no_path(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    ((file, sha),) = manifest["plugins"].items()
    assert file == "mine.py" and len(sha) == 64
    assert f"plugins:\n  mine.py: {sha}\n" in (run / "recipe.yaml").read_text()
    assert not any("code/" in path.read_text() for path in run.iterdir() if path.suffix in (".json", ".yaml"))


@pytest.mark.parametrize("arguments", AGAIN, ids=lambda a: " ".join(a[:2]))
def test_nothing_is_imported_unless_it_is_said(vgi: Vgi, run: Path, arguments: list[str]) -> None:
    Path("mine.py").write_text(PLUGIN)  # where a careless program would find it
    (run / "mine.py").write_text(PLUGIN)
    before = sorted(map(str, Path().rglob("*")))
    done = vgi(*arguments)
    assert (done.code, done.out) == (2, "")
    who = "recipe.yaml" if "--recipe" in arguments else "run 'run'"
    assert done.error == f"{who} needs the plugin mine.py: it is code, which is imported only where you name it"
    assert done.hint.startswith("if you trust the file, say --plugin mine.py (SHA-256")
    assert Path("ran").read_text() == "ran"  # once, at the fit
    assert sorted(map(str, Path().rglob("*"))) == before


@pytest.mark.parametrize("arguments", AGAIN, ids=lambda a: " ".join(a[:2]))
def test_said_again_it_goes_on_and_a_changed_file_is_one_warning(vgi: Vgi, run: Path, arguments: list[str]) -> None:
    done = vgi(*arguments, "--plugin", "code/mine.py")
    assert done.code == 0 and "warning" not in done.err, done.err
    Path("code/mine.py").write_text(PLUGIN + "# changed\n")
    if "new" in arguments:
        arguments = [*arguments, "--force"]
    if arguments[0] in ("impute", "evaluate"):
        arguments = [*arguments, "--force"]
    if "--resume" in arguments:
        arguments = [*arguments[:-1], "99999"]
    done = vgi(*arguments, "--plugin", "code/mine.py")
    assert done.code == 0, done.err
    assert done.err.count("warning: plugin mine.py is not the file that") == 1


def test_a_resumed_fit_records_the_file_that_it_went_on_with(vgi: Vgi, run: Path) -> None:
    before = json.loads((run / "manifest.json").read_text())["plugins"]
    Path("code/mine.py").write_text(PLUGIN + "# changed\n")
    assert vgi("fit", "--resume", "--out", "run", "--epochs", "9999", "--plugin", "code/mine.py").code == 0
    after = json.loads((run / "manifest.json").read_text())["plugins"]
    assert before.keys() == after.keys() and before != after
    done = vgi("impute", "--checkpoint", "run", "-o", "out.csv", "--plugin", "code/mine.py")
    assert done.code == 0 and "warning: plugin" not in done.err


def test_a_finished_run_is_said_to_be_finished_without_it(vgi: Vgi, run: Path) -> None:
    done = vgi("fit", "--resume", "--out", "run")
    assert done.code == 0 and "nothing to do" in done.err


def test_a_recipe_with_another_model_needs_no_plugin(vgi: Vgi, run: Path) -> None:
    done = vgi("fit", "--recipe", "run/recipe.yaml", "--model", "fa", "--out", "new")
    assert done.code == 0, done.err
    assert json.loads(Path("new/manifest.json").read_text())["plugins"] == {}


def test_a_recipe_whose_model_the_package_has_learnt_since_still_names_the_plugin(vgi: Vgi, run: Path) -> None:
    text = (run / "recipe.yaml").read_text()
    Path("old.yaml").write_text(text.replace("name: mine", "name: fa"))
    done = vgi("fit", "--recipe", "old.yaml", "--out", "new")
    assert done.code == 2 and done.error.startswith("old.yaml needs the plugin mine.py")


def test_flags_may_replace_one_of_two_plugins(vgi: Vgi, run: Path) -> None:
    text = (run / "recipe.yaml").read_text().replace("plugins:\n", f"plugins:\n  lost.py: {'ab' * 32}\n")
    Path("two.yaml").write_text(text.replace("name: em", "name: lost"))
    plugin = ["--plugin", "code/mine.py"]
    done = vgi("fit", "--recipe", "two.yaml", *plugin, "--out", "new")
    assert done.code == 2 and done.error.startswith("two.yaml needs the plugin lost.py")
    done = vgi("fit", "--recipe", "two.yaml", *plugin, "--method", "em", "--out", "new")
    assert done.code == 0, done.err
    assert json.loads(Path("new/manifest.json").read_text())["plugins"].keys() == {"mine.py"}


def test_a_run_of_a_table_that_does_not_vary_needs_no_plugin_to_be_imputed(vgi: Vgi, data: Path) -> None:
    Path("same.csv").write_text("a,b\n1,2\n1,2\n,2\n")
    assert vgi("fit", "same.csv", *MINE, *SMALL, "--out", "run").code == 0
    assert vgi("impute", "--checkpoint", "run", "-o", "out.csv").code == 0


def test_a_plugin_that_is_not_needed_is_said(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "data.csv", "--plugin", "code/mine.py", "--model", "fa", *SMALL, "--out", "run")
    assert done.code == 0 and "plugin mine.py is not used: model fa by em" in done.err
    assert "plugins: {}" in Path("run/recipe.yaml").read_text()
    done = vgi("evaluate", "--checkpoint", "run", "data.csv", "--plugin", "code/mine.py")
    assert done.code == 0 and done.err.count("plugin mine.py is not used: model fa by em") == 1


def test_misspelt_names_and_pairs_know_the_plugin(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "data.csv", "--plugin", "code/mine.py", "--model", "mien")
    assert (done.code, done.error, done.hint) == (2, "unknown model 'mien'", "did you mean 'mine'?")
    done = vgi("fit", "data.csv", "--plugin", "code/mine.py", "--model", "flow", "--method", "em")
    assert done.code == 2 and "--model fa or mixture or mine" in done.hint
    done = vgi("fit", "data.csv", "--model", "mine")
    assert (done.code, done.error) == (2, "unknown model 'mine'")
    assert done.hint.endswith("(a name from a plugin needs --plugin FILE.py)")
    done = vgi("fit", "data.csv", "--method", "vgu")
    assert done.hint == "did you mean 'vgi'? (a name from a plugin needs --plugin FILE.py)"


@pytest.mark.parametrize("command", ["fit", "impute", "evaluate", "finetune"])
def test_a_plugin_that_fails_is_refused_and_debug_shows_where(vgi: Vgi, data: Path, command: str) -> None:
    Path("bad.py").write_text("import math\nmath.sqrt(-1)\n")
    arguments = [command, "data.csv"] if command == "fit" else [command, "--checkpoint", "run", "data.csv"]
    before = sorted(map(str, Path().rglob("*")))
    done = vgi(*arguments, "--plugin", "bad.py")
    assert (done.code, done.out) == (2, "")
    assert done.error.startswith("plugin bad.py, line 2: ValueError while it was imported: ")
    assert "Traceback" not in done.err
    assert "math.sqrt(-1)" in vgi(*arguments, "--plugin", "bad.py", "--debug").err
    assert sorted(map(str, Path().rglob("*"))) == before


@pytest.mark.parametrize("command", ["fit", "impute", "evaluate", "finetune"])
def test_the_help_has_the_flag_and_the_built_in_names_only(vgi: Vgi, run: Path, command: str) -> None:
    help_ = vgi(command, "--help").out
    assert "--plugin FILE.py" in help_ and "mine" not in help_


FILLED = """
import torch, vgi_cli
from vgi_cli.methods.base import EpochEnd, Method, MethodConfig, State
class Config(MethodConfig):
    epochs: int = 2
class Only(State):
    def __init__(self, model, table, config):
        self.model, self.table, self.epoch, self.epochs = model, table, 0, config.epochs
    def parts(self):
        model = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        return {"model": model, "state": {"epoch": torch.tensor(self.epoch)}}
    def restore(self, parts):
        self.model.load_state_dict(parts["model"])
def init(model, table, config, generator):
    model.initialise(table.x, generator)
    return Only(model, table, config)
def run(state, stop):
    while state.epoch < state.epochs:
        state.epoch += 1
        yield EpochEnd(state.epoch, {"loglik": state.model.log_prob(state.table.x).mean().item()})
vgi_cli.register_method("filled", Method(Config, init, run), about="the model as it starts")
"""


def test_a_method_that_needs_a_density_only_fits_a_flow(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is held out, and the sampler of flows that needs no fitted conditionals fills the holes."""
    monkeypatch.setattr(plmcmc, "FEWEST_STEPS", 10)
    monkeypatch.setattr(plmcmc, "STEPS_PER_COLUMN", 1)
    Path("data.csv").write_text(Path("data.csv").read_text() + "1,2,3\n" * 20)  # enough rows to hold some out
    Path("filled.py").write_text(FILLED)
    flags = ["--plugin", "filled.py", "--threads", "1"]
    done = vgi("fit", "data.csv", *flags, "--model", "flow", "--method", "filled", "--set", "model.steps=1")
    assert (done.code, done.out) == (0, "run1\n"), done.err
    assert "the fit has done its 2 epochs" in done.err
    done = vgi("impute", "--checkpoint", "run1", "--m", "1", *flags, "-v")
    assert done.code == 0 and "sampler plmcmc: chains 1" in done.err
    done = vgi("evaluate", "--checkpoint", "run1", "data.csv", *flags, "--json")
    assert done.code == 0, done.err


@pytest.mark.slow
def test_an_interrupted_fit_says_how_it_goes_on(data: Path) -> None:
    Path("slow.py").write_text(PLUGIN)
    command = [sys.executable, "-m", "vgi_cli", "fit", "data.csv", "--plugin", "slow.py", "--model", "mine"]
    more = ["--method", "vgi", "--epochs", "100000", "--out", "run", *SMALL]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen([*command, *more], stderr=subprocess.PIPE, text=True, env=environment) as process:
        deadline = time.monotonic() + 120
        while not Path("run/metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        err = process.stderr.read()
    assert process.returncode == 130
    assert "continue with: vgi fit --resume --out run --plugin slow.py\n" in err
