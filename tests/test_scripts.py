"""Scripts of benchmarks/ that repeat parts of the paper, on small tables: what they make is what they say, and what is
there is not made again."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import vgi_cli
from tests.oracles import GaussianModel, gaussian_marginal_log_prob
from tests.scripts import module, script


@pytest.mark.slow
def test_consistency_prints_medians_and_their_slopes(tmp_path: Path) -> None:
    ask = [tmp_path, "--rows", 200, 800, "--masks", 1, "--methods", "em"]
    done = script("consistency", *ask)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["method", "N", "=", "200", "N", "=", "800", "slope"]
    found = {N: json.loads((tmp_path / f"em-{N}-1.json").read_text()) for N in (200, 800)}
    for line, measure in zip(lines[1:], ("kl", "rmse F", "rmse psi"), strict=True):
        first, second, slope = map(float, line.split()[-3:])
        assert first == pytest.approx(found[200][measure], abs=1e-5)
        assert slope == pytest.approx(np.log(found[800][measure] / found[200][measure]) / np.log(4), abs=0.006)
        assert second < first
    (tmp_path / "em-200-1.json").write_text(json.dumps(dict.fromkeys(found[200], 7.0)))
    assert script("consistency", *ask).out.splitlines()[1].split()[2] == "7.00000"


@pytest.mark.slow
def test_a_factorised_posterior_is_set_beside_em(tmp_path: Path) -> None:
    assert script("make_toy", tmp_path, "--rows", 600, "--test-rows", 200, "--masks", 1, "--sixths", 5).code == 0
    ask = [tmp_path, "--masks", 1, "--sixths", 5]
    done = script("factorised", *ask)
    assert done.code == 0, done.err
    rows = [line.strip("| ").split(" | ") for line in done.out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["`em`", "`em-factorised`"]
    for name, cell in rows:
        kept = tmp_path / "results" / f"train-5-1-{name.strip('`')}.json"
        found = json.loads(kept.read_text())
        truth = json.loads((tmp_path / "truth.json").read_text())["test_loglik"]
        assert cell == f"{found['kl']:.5f}; {100 * abs(found['loses'] / truth):.4f} %"
    kept.write_text(json.dumps(found | {"kl": 7.0}))  # read, not made anew
    assert "| `em-factorised` | 7.00000;" in script("factorised", *ask).out


def test_turned_and_mirrored_loadings_have_a_mean_after_alignment() -> None:
    """Copies of one F by orthogonal matrices are brought together, whichever comes first; a plain mean is none."""
    averaging, make_toy = module("averaging"), module("make_toy")
    rng = np.random.default_rng(0)
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])
    turns = [np.eye(2), -np.eye(2), quarter, quarter @ np.diag([1.0, -1.0]), stats.ortho_group.rvs(2, random_state=1)]
    plain = np.stack([make_toy.F @ turn for turn in turns])
    turned = averaging.aligned(plain)
    assert averaging.spread(turned) < 1e-10 < 1 < averaging.spread(plain)
    mean = turned.mean(0)
    np.testing.assert_allclose(mean @ mean.T, make_toy.F @ make_toy.F.T, atol=1e-9)
    assert not np.allclose(plain.mean(0) @ plain.mean(0).T, make_toy.F @ make_toy.F.T, atol=1.0)
    fits = [averaging.Factors(F, make_toy.MEAN, make_toy.PSI) for F in plain]
    assert abs(averaging.averaged(fits, turned).kl()) < 1e-9 < 0.1 < averaging.averaged(fits, plain).kl()
    noisy = np.stack([(make_toy.F + rng.normal(size=(6, 2))) @ turn for turn in turns])
    best = averaging.aligned(noisy)
    for k, F in enumerate(best):  # at the top no turn of one brings it nearer to the mean of the others
        product = F.T @ np.delete(best, k, 0).mean(0)
        np.testing.assert_allclose(product, product.T, atol=1e-6)
        assert np.linalg.eigvalsh(product).min() > 0
        np.testing.assert_allclose(F @ F.T, noisy[k] @ noisy[k].T, atol=1e-9)


def test_fits_to_imputations_are_averaged(tmp_path: Path) -> None:
    assert script("make_toy", tmp_path, "--rows", 400, "--test-rows", 10, "--masks", 1, "--sixths", 3).code == 0
    ask = [tmp_path, "--masks", 1, "--sixths", 3, "--imputations", 2]
    done = script("averaging", *ask)
    assert done.code == 0, done.err
    rows = {(cells := line.strip("| ").split(" | "))[0]: cells[1] for line in done.out.splitlines()[2:]}
    assert list(rows) == ["naive", "procrustes", "stacked", "spread", "spread, turned"]
    kept = tmp_path / "averaging" / "3-1-2.json"
    found = json.loads(kept.read_text())
    assert rows == {way: f"{value:.4g}" for way, value in found.items()}
    assert (
        found["procrustes"] == pytest.approx(found["stacked"], rel=0.5) and found["spread, turned"] <= found["spread"]
    )
    kept.write_text(json.dumps(found | {"naive": 7.0}))  # read, not made anew
    assert "| naive | 7 |" in script("averaging", *ask).out


def test_few_rows_are_scored_with_a_hold_and_without() -> None:
    done = script("few_rows", "--seeds", 1, "--columns", 5, "--ratios", 1)
    rows = [line.strip("| ").split(" | ") for line in done.out.splitlines()[2:]]
    assert [row[:3] for row in rows] == [["5", "5", "0.7"], ["5", "5", "0.03"]]
    for _, _, _, without, held in rows:
        assert float(without.split(",")[0]) < -100 < -20 < float(held.split(",")[0])


@pytest.fixture(scope="module")
def frey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FA-Frey of faces of 44 pixels."""
    place = tmp_path_factory.mktemp("frey")
    rng = np.random.default_rng(0)
    grey = np.clip(128 + 40 * rng.normal(size=(400, 4)) @ rng.normal(size=(4, 44)) + rng.normal(size=(400, 44)), 0, 255)
    pd.DataFrame(grey.astype(np.uint8), columns=[f"p{i}" for i in range(44)]).to_parquet(place / "faces.parquet")
    done = script(
        "make_frey", place / "faces.parquet", place / "out", "--sixths", 3, 5, "--masks", 1, "--iterations", 5
    )
    assert done.code == 0 and done.out.startswith("2 tables with holes, train, test and truth.json"), done.err
    return place / "out"


def test_fa_frey_is_simulated_from_its_truth(frey: Path) -> None:
    truth = json.loads((frey / "truth.json").read_text())
    mean, F, psi = (np.array(truth[key]) for key in ("mean", "F", "psi"))
    assert F.shape == (44, 43)
    rows = {name: pd.read_parquet(frey / f"{name}.parquet") for name in ("train", "test")}
    assert {name: len(table) for name, table in rows.items()} == {"train": 2400, "test": 3000}
    covariance = F @ F.T + np.diag(psi)
    both = pd.concat(list(rows.values()))[truth["columns"]].to_numpy()
    error = (both.mean(0) - mean) / np.sqrt(np.diag(covariance) / len(both))
    assert abs(error).max() < 4.5
    white = np.linalg.solve(np.linalg.cholesky(covariance), (both - mean).T)
    assert abs(np.cov(white) - np.eye(44)).max() < 0.12
    for k in (3, 5):
        holes = pd.read_parquet(frey / f"train-{k}-1.parquet")
        assert int(holes.isna().to_numpy().sum()) == round(2400 * 44 * k / 6)
        pd.testing.assert_frame_equal(holes.fillna(rows["train"]), rows["train"])


@pytest.mark.slow
def test_fa_frey_compares_with_em_and_keeps_what_it_found(frey: Path) -> None:
    ask = [frey, "--variants", "gibbs, 28 together, 3 times", "--epochs", 1, "--json", frey / "found.json"]
    done = script("fa_frey", *ask)
    assert done.code == 0, done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("| gibbs")]
    (found,) = json.loads((frey / "found.json").read_text())
    assert f"| {found['kl']:.1f} |" in line and found["kl"] > 0
    run = frey / "runs" / f"3-1-{found['name']}"
    assert found["kl"] == module("fa_frey").divergence(run, module("make_frey").Truth.load(frey / "truth.json"))
    kept = frey / "results" / f"3-1-{found['name']}.json"
    kept.write_text(json.dumps({**found, "kl": 123.4}))
    assert "| 123.4 |" in script("fa_frey", *ask).out
    other = script("fa_frey", frey, "--roads", "exact draws, rate 0.01", "--sixths", 5, "--epochs", 1)
    (road,) = [line for line in other.out.splitlines() if line.startswith("| exact draws, rate 0.01 | 5 | 1 | 1 |")]
    found = json.loads((frey / "results" / "5-1-exact_draws-rate_0.01_1.json").read_text())
    assert f"| {found['kl']:.1f} |" in road and found["acceptance"] is None


@pytest.mark.slow
def test_plmcmc_scores_every_method_at_its_best_checkpoint(tmp_path: Path) -> None:
    small = ["--rows", 120, "--columns", 3, "--budget", 0.4, "--epochs", 4, "--steps", 2, 4, "--flow-steps", 1]
    ask = [tmp_path, *small, "--hidden", 4, "--bins", 4, "--methods", "vgi", "plmcmc", "complete"]
    done = script("plmcmc", *ask)
    assert done.code == 0, done.err
    methods = json.loads((tmp_path / "results.json").read_text())["methods"]
    assert set(methods) == {"vgi", "plmcmc", "complete"}
    for name, found in methods.items():
        scores = [point["validation"] for point in found["curve"]]
        assert found["best"]["validation"] == max(scores)
        assert f"| {name} | {found['best']['validation']:.3f} | {found['best']['test']:.3f} |" in done.out
    again = script("plmcmc", *ask)  # nothing is left to do
    assert json.loads((tmp_path / "results.json").read_text())["methods"] == methods and again.code == 0


def test_flow_ar_is_timed_beside_the_coupling_flow_and_both_learn() -> None:
    small = ["--columns", 3, "--steps", 1, "--hidden", 4, "--bins", 4, "--batch", 32, "--repeats", 1]
    lines = script("flow_ar", *small).out.splitlines()
    table = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines[2:]]
    assert [row[0] for row in table] == ["training step", "log p", "draws"]
    for row in table:
        one, other, ratio = map(float, row[1:])  # to 0.05 ms
        assert (other - 0.05) / (one + 0.05) - 0.01 <= ratio <= (other + 0.05) / max(one - 0.05, 1e-9) + 0.01
    learned = script("flow_ar", *small, "--learn", 60).out.splitlines()[-1]
    gaussian, *flows = [float(cell) for cell in re.findall(r"-?[0-9]+\.[0-9]+", learned)]
    assert len(flows) == 2 and all(np.isfinite(value) and value > gaussian - 3 for value in flows)


@pytest.mark.slow
def test_inference_pools_by_rubins_rules_and_prints_coverage_and_bias(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inference = module("inference")
    monkeypatch.setattr(inference, "DRAWS", 4)
    monkeypatch.setattr("vgi_cli.fitting.refits.COUNT", 4)
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame(rng.normal(size=(50, 3)), columns=list("xyz")) for _ in range(4)]
    values, half, error = inference.pooled(tables)
    assert (half > 1.96 * error).all()
    means, m, n = np.array([t.y.mean() for t in tables]), 4, 50
    total = np.mean([t.y.var() / n for t in tables]) + (1 + 1 / m) * means.var(ddof=1)
    assert values[0] == pytest.approx(means.mean()) and 1.96 * np.sqrt(total) < half[0] < 3.2 * np.sqrt(total)
    alone, narrow, _ = inference.pooled([tables[0]] * 2)  # no spread between tables: the interval of one table
    assert alone[2] == pytest.approx(inference.estimates(tables[0])[0][2])
    assert narrow[0] == pytest.approx(2.0 * np.sqrt(tables[0].y.var() / n), rel=0.03)
    done = script("inference", tmp_path, "--repetitions", 1, "--models", "fa", "--parts", "range", "scales")
    assert done.code == 0, done.err
    assert re.fullmatch(
        r"fa, in range: mean y: [01]\.00, [+-]0\.\d{3}; log var y: .*; slope y ~ x: .*\n"
        r"fa, unbounded: .*\nfa, correlation with b: true 0\.603, filled 0\.\d{3}\n.*points.*\n",
        done.out,
    )
    sizes = ("--parts", "sizes", "--sizes", 60, "--repetitions", 2, "--models", "fa")
    done = script("inference", tmp_path, *sizes)
    assert done.code == 0, done.err
    assert re.fullmatch(
        r"fa, 60 rows, 2 tables: mean y: sqrt\(T\) 0\.\d{4}, spread .*, coverage .* \(theory 0\.1988\); .*\n", done.out
    )


def test_calibration_prints_coverage_bias_and_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibration = module("calibration")
    monkeypatch.setattr(calibration, "DRAWS", 3)
    monkeypatch.setattr("vgi_cli.fitting.refits.COUNT", 3)
    assert calibration.theory(4000, "mcar", 0) == pytest.approx((0.7333 / 2000 + 0.2667 / 4000) ** 0.5, rel=0.03)
    assert calibration.theory(4000, "mar", 0) > calibration.theory(4000, "mcar", 0)
    values, regression = np.array([[0.1, 0.0, 0.4], [-0.3, 0.0, 0.5]]), np.array([[0.1, 0.0, 0.4], [0.2, 0.0, 0.4]])
    found = calibration.Cell(values, np.full((2, 3), 0.2), np.full((2, 3), 0.1), regression, 1)
    first = "mean: coverage 0.500, bias/se -1.00, se 0.1000, spread 0.2828, by regression 0.0707, theory 0.2000"
    assert calibration.lines(found, 0.2)[0] == first
    done = script("calibration", tmp_path, "--sizes", 60, "--repetitions", 2, "--models", "fa", "--mechanisms", "mar")
    assert done.code == 0, done.err
    number = r"-?\d+\.\d+"
    said = rf"coverage {number}, bias/se [+-]{number}, se {number}, spread {number}.*"
    each = rf"fa, mar, 60 rows, 2 tables, \w[\w ]*: {said}\n"
    assert re.fullmatch(rf"({each}){{3}}fa, mar, 60 rows: {number} CPU s a table\n", done.out), done.out


@pytest.mark.slow
def test_bounds_hides_a_tail_and_prints_what_becomes_of_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = partial(module("bounds").fitted, set={"model.factors": 1, "bootstrap": 2})
    monkeypatch.setattr(module("bounds"), "fitted", quick)
    table = module("bounds").tail(2000, 1.5, 0.5, False, 0)
    assert (
        table.x[table.y.isna()].max() < -0.5 <= table.x[table.y.notna()].min() and 0.28 < table.y.isna().mean() < 0.34
    )
    done = script("bounds", tmp_path, "--rows", 20, "--repetitions", 1, "--models", "fa")
    assert done.code == 0, done.err
    *biases, _, _ = lines = done.out.splitlines()
    number = r"[+-][0-9.]+%? \([01]\.00\)"
    starts = [f"tail, 20 rows, fa, {fills}: mean " for fills in ("observed range", "natural limits")]
    starts += [f"price, 20 rows, fa, {fills}: mean " for fills in ("observed range", "natural limits", "no bounds")]
    for start, line in zip(starts, biases, strict=True):
        assert re.match(rf"{start}{number}, variance {number}, slope {number}; standard errors", line), line
    lines = lines[5:]
    assert all(re.fullmatch(r"codes (with x|alone), fa, read as whole number: .*", line) for line in lines)
    never = [float(line.split("never occur ")[1].split("%")[0]) for line in lines]
    assert len(never) == 2 and max(never) < 5  # of few values each has its room


def test_tails_compares_each_row_under_both_transforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tails = module("tails")
    rows = tails.load(None, "simulated", 0).iloc[::40, :3].reset_index(drop=True)
    scores = tails.held_out(rows, "fa", 0, 0.2, ["model.factors=1"])
    assert {name: len(values) for name, values in scores.items()} == {"linear": 25, "normal": 25}
    monkeypatch.setattr(tails, "held_out", lambda *_: {"linear": np.array([-3.0, -1.0]), "normal": np.array([-9.0, 0])})
    done = script("tails", "--tables", "simulated", "--seeds", 0)
    assert done.code == 0, done.err
    assert done.out.splitlines()[2:] == [
        "| simulated | mixture | 0 | linear | -2.00 | -3.0 | -3.0 | 1.0 |",
        "| simulated | mixture | 0 | normal | -4.50 | -9.0 | -9.0 | 6.0 |",
    ]


def test_vae_methods_fits_rows_with_holes_and_scores_complete_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgi_cli.fit", partial(vgi_cli.fit, epochs=3))
    monkeypatch.setattr("vgi_cli.evaluate", partial(vgi_cli.evaluate, samples=20, refit_epochs=1))
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"]).assign(text="x")
    rows.loc[0, "a"] = np.nan
    path = tmp_path / "table.parquet"
    rows.to_parquet(path)
    held, scored = module("vae_methods").halves(path)
    assert (held.shape, scored.shape) == ((31, 2), (8, 2))
    assert 0.2 < held.isna().to_numpy().mean() < 0.6 and not scored.isna().to_numpy().any()
    done = script("vae_methods", tmp_path / "out", path, "--methods", "mvae")
    assert done.code == 0, done.err
    assert re.fullmatch(r"table mvae epochs [0-9]+ -?[0-9]+\.[0-9]{3} [0-9]+s\n", done.out)
    assert (tmp_path / "out" / "table-mvae" / "manifest.json").is_file()


@pytest.mark.slow
def test_heldout_compares_held_out_rows_with_fresh_ones(tmp_path: Path) -> None:
    heldout = module("heldout")
    frame, density = heldout.draw(3000, np.random.default_rng(0))
    for row in np.flatnonzero(frame.notna().sum(axis=1) == 1)[:20]:
        (name,) = frame.columns[frame.loc[row].notna()]
        scale, value = heldout.SCALES[frame.columns.get_loc(name)], frame.loc[row, name]
        law = stats.lognorm(scale) if scale else stats.norm()
        assert density[row] == pytest.approx(law.logpdf(value))
    done = script("heldout", tmp_path / "out", "--repetitions", 1, "--rows", 40, "--models", "fa")
    assert done.code == 0, done.err
    assert re.fullmatch(r"fa, normal, 40 rows: [+-]\d+\.\d{3} \(se nan\) nats a row\n", done.out)
    done = script("heldout", tmp_path / "out", "--sizes", "--repetitions", 1, "--rows", 60)
    lines = (
        r"folds: [+-]\d\.\d{3} \(se 0\.000\) nats a row, .* between sizes\nsame size in (0|100)%; on fresh rows .*\n"
    )
    assert done.code == 0 and re.fullmatch(lines, done.out), (done.out, done.err)


@pytest.mark.slow
def test_what_is_done_with_a_model_is_timed() -> None:
    """`speed.py --use`: all holes are filled, and a rate is of that which took the time."""
    speed, works = module("speed"), module("works")
    work, cpu = works.works()["a"], torch.device("cpu")
    assert speed.filling(work, 12, "off", cpu)[1] == int(works.incomplete(work, 12).missing.sum())
    assert {name: count for name, (_, count) in speed.estimates(work, "off", cpu).items()} == {
        "single draws": 16_384,
        "annealing": 8 * 16_384,
    }
    rates = speed.in_use(work, Namespace(filled=12, compile="off", repeats=1), cpu)
    assert set(rates) == {"filled cells", "evaluations in single draws", "evaluations in annealing"}
    assert min(rates.values()) > 0


def test_a_row_with_one_hole_is_integrated_on_a_grid() -> None:
    """`likelihood.py --run`: the reference of one hole is the closed form, averaged over dequantisation draws."""
    likelihood = module("likelihood")
    covariance = torch.tensor([[1.0, 0.6], [0.6, 2.0]], dtype=torch.float64)
    model = GaussianModel(torch.tensor([0.2, -0.1], dtype=torch.float64), covariance)
    missing = torch.tensor([[True, False], [False, True]])
    x = torch.tensor([[0.0, 0.7], [-0.4, 0.0]], dtype=torch.float64)
    draws = [likelihood.Encoded(x, torch.zeros(2)), likelihood.Encoded(x + 0.1, torch.full((2,), -1.0))]
    exact = torch.stack([gaussian_marginal_log_prob(model, each, missing) + v for each, v in draws])
    found = likelihood.integrated(model, draws, missing, n=1001)
    torch.testing.assert_close(found, exact.logsumexp(0) - np.log(2.0), rtol=0, atol=1e-6)


def test_estimates_go_on_where_they_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Draws from the columns alone: shares are kept, relations are not."""
    estimates = module("estimates")
    monkeypatch.setattr(estimates, "TRUTH_ROWS", 20_000)
    ask = [str(tmp_path), "--rows", "800", "--methods", "marginal", "--each", "--seed", "3", "--repetitions"]
    estimates.main([*ask, "1"])
    (kept,) = tmp_path.glob("*/marginal.jsonl")
    first = kept.read_text()
    capsys.readouterr()
    estimates.main([*ask, "2"])
    assert kept.read_text().startswith(first) and len(kept.read_text().splitlines()) == 2
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split(" | ") for line in lines if ": " in line.split(" | ")[0]]
    bias = {name[2:]: float(marginal.split(",")[0]) for name, _, _, marginal in rows}
    assert abs(bias["mean: bmi over 30"]) < 2 and bias["correlation: pressure, bmi"] < -3
    assert lines[-2].startswith("| complete |") and lines[-1].startswith("| marginal |")
