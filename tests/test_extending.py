"""docs/extending/ is run as it stands: its examples as plugins outside the package, and under the contract suites."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import kstest, multivariate_t, t

import vgi_cli
from tests.program import Vgi, vgi
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.registry import names as registry
from vgi_cli.registry.plugins import plugged
from vgi_cli.samplers import plmcmc

__all__ = ["vgi"]

ROOT = Path(__file__).parents[1]
PAGES = ("models", "methods", "conditionals", "columns")
PAGE = "\n".join((ROOT / "docs" / "extending" / f"{name}.md").read_text(encoding="utf-8") for name in PAGES)
NAMES = ("student", "observed", "walk", "paper", "tails", "colour")
EXAMPLES = dict(zip(NAMES, re.findall(r"```python\n(.*?)```", PAGE, re.S), strict=True))
PLUGINS = ["--plugin", "student.py", "--plugin", "observed.py"]
TINY = ["--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1", "--set", "method.trunk=[4]"]

SHAPE = np.array([[1.0, 4.0, -0.06], [4.0, 25.0, 0.0], [-0.06, 0.0, 0.04]])
LAW = multivariate_t([0.0, 40.0, -3.0], SHAPE, df=4)


@pytest.fixture
def folder(vgi: Vgi) -> Path:
    """A folder outside the package with the page's plugins, and draws of a Student-t, some of them with holes."""
    for name, text in EXAMPLES.items():
        Path(f"{name}.py").write_text(text)
    rng = np.random.default_rng(0)
    for name, share in (("data.csv", 0.25), ("test.csv", 0.0)):
        x = LAW.rvs(400, random_state=rng)
        cells = np.where(rng.random(x.shape) < share, "", np.char.mod("%.6f", x))
        Path(name).write_text("\n".join(["a,b,c", *map(",".join, cells)]) + "\n")
    return Path.cwd()


def numbers(path: str) -> np.ndarray:
    rows = list(csv.reader(Path(path).read_text().splitlines()))[1:]
    return np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])


def test_the_example_is_short_and_the_package_does_not_know_it() -> None:
    assert sum(bool(line.strip()) for line in EXAMPLES["student"].splitlines()) <= 61
    assert sum(bool(line.strip()) for line in EXAMPLES["observed"].splitlines()) < 20
    assert "student" not in registry.MODELS and "observed" not in registry.METHODS


def test_the_numerics_of_the_example(folder: Path) -> None:
    """Density and marginals against scipy; draws of two cells given the third against their closed form."""
    with plugged("student.py"), torch.no_grad():
        family = registry.MODELS.load("student")
        model = family.build(family.Config(dof=5), Layout.plain(3)).double()
        g = torch.Generator().manual_seed(0)
        x = 2.0 * torch.randn(30, 3, generator=g, dtype=torch.float64)
        model.initialise(x, g)
        model.root.copy_(torch.tensor([[0.2, 0.0, 0.0], [1.5, 0.1, 0.0], [-1.0, 0.8, 0.3]]))
        centre, sigma = model.centre.numpy(), (model.factor() @ model.factor().T).numpy()
        missing = torch.rand(30, 3, generator=g) < 0.5
        found = model.marginal_log_prob(x, missing)
        for row, hidden, value in zip(x.numpy(), missing.numpy(), found.tolist(), strict=True):
            seen = ~hidden
            law = multivariate_t(centre[seen], sigma[np.ix_(seen, seen)], df=5) if seen.any() else None
            assert value == pytest.approx(0.0 if law is None else law.logpdf(row[seen]), abs=1e-10)
        expected = multivariate_t(centre, sigma, df=5).logpdf(x.numpy())
        np.testing.assert_allclose(model.log_prob(x), expected, atol=1e-10)

        R = 4000
        holes = torch.tensor([False, True, True]).repeat(R, 1)
        noise = KeyedNoise(1, numbered("c", 3), torch.arange(R), torch.arange(2))
        for value in (0.5, 6.0):  # near the centre, and far out
            rows = torch.tensor([value, 0.0, 0.0], dtype=torch.float64).repeat(R, 1)
            draws = model.conditional(rows, holes).sample(noise).numpy()[..., 1:].reshape(-1, 2)
            mean = centre[1:] + sigma[1:, 0] / sigma[0, 0] * (value - centre[0])
            np.testing.assert_allclose(model.conditional(rows, holes).mean()[0, 1:], mean, atol=1e-10)
            spread = sigma[1:, 1:] - np.outer(sigma[1:, 0], sigma[0, 1:]) / sigma[0, 0]
            spread *= (5 + (value - centre[0]) ** 2 / sigma[0, 0]) / 6
            for direction in ([1.0, 0.0], [0.0, 1.0], [1.0, -2.0]):
                a = np.array(direction)
                assert kstest(draws @ a, t(6, mean @ a, (a @ spread @ a) ** 0.5).cdf).pvalue > 1e-3


@pytest.mark.slow
def test_the_example_as_a_known_truth_and_its_conditionals(vgi: Vgi, folder: Path) -> None:
    """A family that the evaluation has not heard of: Monte Carlo and quadrature over its density."""
    small = {"optim.warmup_conditionals": 1, "optim.warmup_model": 1, "method.trunk": [4]}
    student = vgi_cli.fit("data.csv", model="student", epochs=30, set=small, threads=1, plugins=["student.py"], out="t")
    gaussian = vgi_cli.fit("data.csv", model="fa", set={"bootstrap": "none"}, threads=1, out="g")
    truth = gaussian.evaluate("test.csv", truth_model=student)["truth"]
    assert truth["kl_estimator"] == "monte carlo" and 0 < truth["kl_se"] < 0.2 * truth["kl"] and "rmse" not in truth
    ask = ["evaluate", "--checkpoint", "t", "test.csv", "--json", "--truth-model"]
    done = vgi(*ask, "t", "--conditionals", "--plugin", "student.py")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["truth"]["kl"] == 0.0 and "the model is no mixture of Gaussians (the run)" in report["notes"][0]
    assert report["conditionals"]["estimator"] == "quadrature" and report["conditionals"]["rows"] == 300
    ask = ["evaluate", "--checkpoint", "g", "test.csv", "--truth-model", "t"]
    done = vgi(*ask)
    assert done.code == 2 and "student.py" in done.error
    done = vgi(*ask, "--plugin", "student.py")
    assert done.code == 0 and "is not used" not in done.err


def test_the_example_fits_imputes_and_evaluates(vgi: Vgi, folder: Path) -> None:
    flags = [*PLUGINS, "--model", "student", "--method", "observed", "--epochs", "20", "--threads", "1"]
    done = vgi("fit", "data.csv", *flags, "--out", "run")
    assert (done.code, done.out) == (0, "run\n"), done.err
    recorded = json.loads(Path("run/manifest.json").read_text())["plugins"]
    assert recorded.keys() == {"student.py", "observed.py"}
    done = vgi("impute", "--checkpoint", "run", *PLUGINS, "--m", "8", "-o", "out.csv", "-v")
    assert done.code == 0, done.err
    assert "sampler exact" in done.err
    before = numbers("data.csv")
    filled = np.stack([numbers(f"out.{i}.csv") for i in range(1, 9)])
    hole = np.isnan(before)
    assert not np.isnan(filled).any() and (filled[:, ~hole] == before[~hole]).all()
    for j in range(3):  # as wide as what was seen
        seen, drawn = before[~hole[:, j], j], filled[:, hole[:, j], j].ravel()
        assert np.subtract(*np.quantile(drawn, [0.75, 0.25])) == pytest.approx(
            np.subtract(*np.quantile(seen, [0.75, 0.25])), rel=0.25
        )
    done = vgi("evaluate", "--checkpoint", "run", "test.csv", *PLUGINS, "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)["loglik"]
    best = LAW.logpdf(numbers("test.csv")).mean()
    assert report["estimator"] == "exact"
    assert report["mean"] == pytest.approx(best, abs=0.06)  # a fit of 10 numbers to 400 rows costs about 10 / 800
    gaussian = ["--model", "fa", "--set", "model.factors=1", "--set", "bootstrap=none", "--threads", "1"]
    assert vgi("fit", "data.csv", *gaussian, "--out", "gaussian").code == 0
    done = vgi("evaluate", "--checkpoint", "gaussian", "test.csv", "--json")
    assert json.loads(done.out)["loglik"]["mean"] < report["mean"] - 0.1  # outlying rows pull a Gaussian along


@pytest.mark.slow
def test_the_model_works_with_vgi_and_the_method_with_other_models(vgi: Vgi, folder: Path) -> None:
    flags = [*PLUGINS, "--threads", "1", "--epochs", "2"]
    student = ["--plugin", "student.py", "--model", "student", "--set", "model.dof=6"]
    done = vgi("fit", "data.csv", *student, *TINY, "--threads", "1", "--epochs", "1", "--out", "by-vgi")
    assert done.code == 0 and "by variational Gibbs inference (what its plugin takes)" in done.err, done.err
    done = vgi("impute", "--checkpoint", "by-vgi", "--plugin", "student.py", "--m", "1", "-o", "filled.csv")
    assert done.code == 0, done.err
    done = vgi("finetune", "--checkpoint", "by-vgi", "data.csv", "--plugin", "student.py", "--epochs", "1")
    assert (done.code, done.out) == (0, "run1\n"), done.err
    assert json.loads(Path("run1/manifest.json").read_text())["plugins"].keys() == {"student.py"}
    done = vgi("fit", "data.csv", *flags, "--model", "fa", "--method", "observed", "--set", "bootstrap=none")
    assert done.code == 0 and "plugin student.py is not used: model fa by observed" in done.err
    done = vgi("fit", "data.csv", *flags, "--model", "flow", "--method", "observed")
    assert done.code == 2
    assert done.error == "method 'observed' needs exact marginals under any mask, which model 'flow' does not have"
    assert done.hint.endswith("--method observed works with --model fa or mixture or student")
    done = vgi("fit", "data.csv", *flags, "--model", "student", "--set", "model.dof=2")
    assert done.code == 2 and done.error.startswith("--set: model.dof")


def test_the_variant_of_vgi_makes_conditionals_and_imputations(vgi: Vgi, folder: Path) -> None:
    flags = ["--plugin", "paper.py", "--model", "fa", "--set", "model.factors=1", "--method", "paper", "--epochs", "1"]
    done = vgi("fit", "data.csv", *flags, *TINY, "--threads", "1", "--set", "bootstrap=none", "--out", "run")
    assert done.code == 0, done.err
    assert "accept: gibbs" in Path("run/recipe.yaml").read_text()
    again = ["impute", "--checkpoint", "run", "--plugin", "paper.py", "--m", "1"]
    for sampler in ("gibbs", "metropolis", "chains"):
        done = vgi(*again, "--sampler", sampler, "-o", f"{sampler}.csv")
        assert done.code == 0, done.err


def test_the_sampler_draws_from_a_run_that_has_no_conditionals(
    vgi: Vgi, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plmcmc, "FEWEST_STEPS", 10)
    monkeypatch.setattr(plmcmc, "STEPS_PER_COLUMN", 1)
    flow = ["--model", "flow", "--method", "complete", "--set", "model.steps=1", "--set", "model.hidden=6"]
    flow += ["--set", "bootstrap=none"]
    assert vgi("fit", "test.csv", *flow, "--epochs", "2", "--threads", "1", "--out", "run").code == 0
    ask = ["impute", "--checkpoint", "run", "data.csv", "--m", "2", "-v"]
    done = vgi(*ask, "--plugin", "walk.py", "--sampler", "walk", "-o", "out.csv")
    assert done.code == 0 and "sampler walk: acceptance 0." in done.err and "is not used" not in done.err, done.err
    before, filled = numbers("data.csv"), np.stack([numbers(f"out.{i}.csv") for i in (1, 2)])
    hole = np.isnan(before)
    assert not np.isnan(filled).any() and (filled[:, ~hole] == before[~hole]).all()
    assert (filled[0][hole] != filled[1][hole]).mean() > 0.9
    done = vgi(*ask, "--plugin", "walk.py", "-o", "auto.csv")
    assert "sampler plmcmc" in done.err and "plugin walk.py is not used" in done.err
    done = vgi(*ask, "--sampler", "walk", "-o", "other.csv")
    assert done.code == 2 and done.error == "unknown sampler 'walk'"
    assert done.hint.endswith("(a name from a plugin needs --plugin FILE.py)")
    vae = ["--model", "vae", "--method", "mvae", "--epochs", "1", "--set", "bootstrap=none"]
    assert vgi("fit", "data.csv", *vae, "--out", "vae").code == 0
    done = vgi("impute", "--checkpoint", "vae", "--plugin", "walk.py", "--sampler", "walk", "-o", "other.csv")
    assert done.code == 2 and done.error.startswith("sampler 'walk' needs a log density, which a run of model 'vae'")


def test_the_family_is_fitted_and_asked_for_again(vgi: Vgi, folder: Path) -> None:
    flags = ["--model", "fa", "--set", "model.factors=1", "--method", "vgi", "--epochs", "1", *TINY, "--threads", "1"]
    flags += ["--plugin", "tails.py", "--set", "bootstrap=none", "--set", "method.conditional=sinh-arcsinh"]
    done = vgi("fit", "data.csv", *flags, "--out", "run")
    assert done.code == 0 and "is not used" not in done.err, done.err
    assert json.loads(Path("run/manifest.json").read_text())["plugins"].keys() == {"tails.py"}
    ask = ["impute", "--checkpoint", "run", "--m", "1", "--sampler", "gibbs", "-o", "full.csv"]
    done = vgi(*ask)
    assert done.code == 2 and done.error.startswith("run 'run' needs the plugin tails.py")
    done = vgi(*ask, "--plugin", "tails.py")
    assert done.code == 0 and not np.isnan(numbers("full.1.csv")).any(), done.err
    done = vgi("fit", "data.csv", *flags, "--block", "a,b", "--out", "blocks")
    assert done.code == 2 and "SinhArcsinhFamily has no joint law of several columns" in done.error


def test_the_kind_is_fitted_filled_and_asked_for_again(vgi: Vgi, folder: Path) -> None:
    rng = np.random.default_rng(1)
    colours = [f"#{c:06x}" if rng.random() < 0.8 else "" for c in rng.integers(0, 0xFFFFFF, 60)]
    Path("paints.csv").write_text("paint,price\n" + "".join(f"{c},{i % 7}.25\n" for i, c in enumerate(colours)))
    flags = ["--model", "fa", "--set", "model.factors=1", "--set", "bootstrap=none", "--threads", "1", "--out", "run"]
    done = vgi("fit", "paints.csv", *flags, "--plugin", "colour.py", "--column", "paint=colour")
    assert done.code == 0 and "is not used" not in done.err, done.err
    assert json.loads(Path("run/manifest.json").read_text())["plugins"].keys() == {"colour.py"}
    ask = ["impute", "--checkpoint", "run", "--m", "1", "-o", "full.csv"]
    done = vgi(*ask)
    assert done.code == 2 and done.error.startswith("run 'run' needs the plugin colour.py")
    done = vgi(*ask, "--plugin", "colour.py")
    assert done.code == 0 and "is not used" not in done.err, done.err
    rows = list(csv.reader(Path("full.1.csv").read_text().splitlines()))[1:]
    assert all(re.fullmatch("#[0-9a-f]{6}", row[0]) for row in rows)
    assert all(row[0] == seen for row, seen in zip(rows, colours, strict=True) if seen)


def test_in_python(vgi: Vgi, folder: Path) -> None:
    both = ["student.py", "observed.py"]
    run = vgi_cli.fit("data.csv", model="student", method="observed", epochs=1, plugins=both, threads=1, out="run")
    assert len(run.impute(m=2)) == len(vgi_cli.impute(run, m=2)) == 2
    assert math.isfinite(run.evaluate("test.csv")["loglik"]["mean"])
    assert type(run.model()).__name__ == "Student"
    again = vgi_cli.load("run", plugins=both)
    assert len(again.impute("data.csv", m=1)) == 1
    for said, lost in ((["student.py"], "observed.py"), ([], "student.py and observed.py")):
        with pytest.raises(vgi_cli.errors.RunError, match=f"run 'run' needs the plugin {lost}"):
            vgi_cli.load("run", plugins=said).impute(m=1)
    assert "student" not in registry.MODELS


@pytest.mark.slow
def test_the_examples_keep_the_contracts(folder: Path) -> None:
    """The page's own command line, in a process of its own."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    line = next(line for line in page.replace("\\\n", " ").splitlines() if "--vgi-plugin" in line)
    arguments = re.sub(r" (\w+\.py)", rf" {folder}/\1", line).replace(".venv/bin/python", sys.executable)
    done = subprocess.run(
        ["bash", "-c", f"{arguments} -p no:cacheprovider"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) >= 40 and "failed" not in done.stdout
