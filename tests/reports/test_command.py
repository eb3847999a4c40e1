"""`vgi report`: its page, its JSON, its Python twin, what it refuses."""

from __future__ import annotations

import dataclasses
import errno
import importlib.util
import json
import os
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import vgi_cli
from tests.program import Vgi
from tests.schemas import checked
from tests.selection import some
from vgi_cli.commands.report.gather import _chains, examine
from vgi_cli.commands.report.request import ReportRequest
from vgi_cli.errors import Unwritten, UsageError
from vgi_cli.machine.work import TimeLimit
from vgi_cli.reporting import Silent
from vgi_cli.reports.values import as_json
from vgi_cli.reports.verdicts import judge
from vgi_cli.runs import files
from vgi_cli.runs.folder import RunFolder

DRAWN = all(importlib.util.find_spec(name) is not None for name in ("matplotlib", "jinja2"))
draws = pytest.mark.skipif(not DRAWN, reason="the extra `report` is not installed")


class Page(HTMLParser):
    """What a test asks of a page: its ids, links, tags, and the texts that stand for pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.pictures: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        self.links += [given[name] for name in ("href", "src", "xlink:href") if name in given]
        if given.get("role") == "img":
            self.pictures.append(given.get("aria-label", ""))


def test_five_rows_are_too_few_to_judge_by(vgi: Vgi, tmp_path: Path) -> None:
    (tmp_path / "five.csv").write_text("a,b,c\n1.5,u,10\n2.5,v,20\n,u,30\n4,,40\n5,v,\n")
    quick = ("--model", "mixture", "--set", "bootstrap=2", "--set", "trees=none")
    assert vgi("fit", "five.csv", "--out", "five", *quick, "-q").code == 0
    done = vgi("report", "five", "--json", "-q")
    (run,) = checked("report", done.out)["runs"]
    said = {verdict["about"]: verdict for verdict in run["verdicts"] if "too few to judge" in verdict["text"]}
    assert said["calibration"]["level"] == "unknown" and run["calibration"]["skill"] is None


def test_a_seed_may_be_negative(vgi: Vgi, runs: Path) -> None:
    done = vgi("report", runs / "mix", "--seed", "-5", "--json", "-q")
    assert done.code == 0, done.err
    (run,) = checked("report", done.out)["runs"]
    assert run["calibration"]["cells"] > 20


def test_json_by_its_schema(vgi: Vgi, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgi_cli.fitting.refits.COUNT", 5)  # refits are made for draws beyond
    done = vgi("report", runs / "mix", "--json", "-q")
    assert done.code == 0, done.err
    (run,) = checked("report", done.out)["runs"]
    assert run["facts"]["rows"] == 60 and run["facts"]["columns"] == 4
    assert run["missingness"]["missing"] == 12 and run["missingness"]["complete_rows"] == 48
    assert [column["name"] for column in run["columns"]] == ["a", "b", "c", "<kind>"] == run["missingness"]["modelled"]
    assert run["missingness"]["carried"] == [{"name": "key", "kind": "id", "missing": 0}]
    assert run["imputing"] == {
        "draws": 5, "rows": 60, "of_rows": 60, "sampler": "exact", "parameter_uncertainty": "2 bootstrap refits by em",
    }  # fmt: skip
    assert run["chains"]["kind"] == "exact"
    a = run["columns"][0]
    assert a["observed"] == 57 and a["missing"] == 3 and 0 < a["pooled"]["fmi"] < 1
    assert [pair["names"] for pair in run["pairs"]] == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert run["pairs"][0]["observed_correlation"] > 0.8 and run["pairs"][0]["observed"] == 54
    assert a["hidden"]["skill"] > 0.3 and run["calibration"]["cells"] > 20
    assert run["likelihood"]["estimator"] == "exact" and run["likelihood"]["lowest"][0]["ids"]["key"].startswith("k")
    assert {verdict["about"] for verdict in run["verdicts"]} >= {"training", "missingness", "columns", "calibration"}
    assert run["verdict"] != "bad"
    assert not list(runs.rglob("report*"))


@pytest.mark.slow
def test_chains_are_traced(vgi: Vgi, chained: Path) -> None:
    done = vgi("report", chained, "--json", "--rows", "40")
    (run,) = checked("report", done.out)["runs"]
    assert run["imputing"]["rows"] == 40 and run["imputing"]["sampler"] == "metropolis"
    assert run["chains"]["kind"] == "traced" and run["chains"]["chains"] == 4
    mixed = {column["name"]: column["mixing"] for column in run["columns"] if column["mixing"] is not None}
    assert set(mixed) == {"a", "b", "c"}
    assert all(own["ess"] > 1 and own["rhat_mean"] >= 0.9 and own["acceptance"] > 0 for own in mixed.values())
    assert run["verdict"] == "bad"  # of two epochs
    assert any(one["about"] == "training" and one["level"] == "bad" for one in run["verdicts"])


@pytest.mark.slow
@pytest.mark.full_fits
def test_chains_that_cannot_be_shown_are_told_in_words(vgi: Vgi, runs: Path) -> None:
    small = ["--set", "model.latents=1", "--set", "model.encoder=[4]", "--set", "model.decoder=[4]"]
    fit = ["--model", "vae", "--method", "mvae", *small, "--epochs", "2", "--set", "bootstrap=none", "--threads", "1"]
    assert vgi("fit", runs / "data.csv", "--exclude", "key", *fit, "--out", "vae", "-q").code == 0
    (run,) = checked("report", vgi("report", "vae", "--json", "-q").out)["runs"]
    assert run["imputing"]["sampler"] == "latent" and run["chains"]["kind"] == "told"
    assert run["chains"]["text"].startswith(
        "No traces and no R-hat are shown: sampler 'latent' does not record its chains on their way. It ran "
    )
    assert " chains, of 100 sweeps each, and compared them at half-time and at their end." in run["chains"]["text"]
    assert "of the moves by the encoder" in run["chains"]["text"] and "by a random walk" in run["chains"]["text"]


@pytest.mark.slow
def test_chains_of_plmcmc_are_told_in_words(vgi: Vgi, runs: Path) -> None:
    """Of a real run: its acceptance is one number, not one of each column, and its strain is judged."""
    quick = ["--set", "method.steps=[[0, 20]]", "--set", "model.steps=1", "--set", "bootstrap=none", "--epochs", "4"]
    rows = [runs / "data.csv", "--id", "key", "--exclude", "<kind>"]
    fit = vgi("fit", *rows, "--model", "flow", "--method", "plmcmc", *quick, "--threads", "1", "--out", "plmcmc", "-q")
    assert fit.code == 0, fit.err
    done = vgi("report", "plmcmc", "--json", "-q", *(["-o", "page.html"] if DRAWN else []))
    assert done.code == 0, done.err
    (run,) = checked("report", done.out)["runs"]
    assert run["chains"]["kind"] == "told" and "'plmcmc' does not record its chains" in run["chains"]["text"]
    assert run["training"]["strain"] > 2  # of twenty steps
    assert any("did not follow their rows" in v["text"] for v in run["verdicts"] if v["about"] == "training")


def test_draws_that_trees_revise_are_not_called_exact() -> None:
    told = _chains("trees", {}, None)
    assert (
        told.kind == "exact"
        and "independent of each other" in told.text
        and "that trees, and what pairs of" in told.text
    )
    assert told.text != _chains("exact", {}, None).text == "Exact draws: nothing to mix."


def test_what_samplers_count_of_their_chains_is_told() -> None:
    told = _chains("plmcmc", {"chains": 15, "steps": 500.0, "acceptance": 0.4, "stuck": 2, "memory": 0.1}, None)
    assert told.kind == "told" and told.acceptance == 0.4 and told.memory == 0.1
    assert "It ran 15 chains, of 500 steps each," in told.text
    assert told.text.endswith("2 of them found no state within the bounds of the fills and stayed where they began.")
    latent = {"chains": 60, "sweeps": 100, "acceptance_encoder": 0.76, "acceptance_walk": 0.99}
    assert _chains("latent", latent, None).text.endswith(
        "It ran 60 chains, of 100 sweeps each, and compared them at half-time and at their end. Accepted: 76% of the "
        "moves by the encoder, 99% of the moves by a random walk."
    )
    assert _chains("plmcmc", {}, None).text.startswith("No chains were run by sampler 'plmcmc'")


@pytest.fixture
def small_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without pictures, where a test is about the file alone."""
    monkeypatch.setattr("vgi_cli.reports.page.page", lambda found: f"<html>{len(found)}</html>")


class Ticks:
    """A clock that goes on by one second each time it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("seconds", some([1, 16, 120], [1, 4, 8, 16, 40, 120, 100_000]))
def test_what_a_time_limit_leaves_out_is_named(runs: Path, seconds: int) -> None:
    """Whenever the time is over, what is there is whole, and all that is not there is named."""
    limit = TimeLimit(seconds, 0.0, Ticks())
    request = ReportRequest(settings={}, run=[runs / "mix"], json=True)
    found = examine(RunFolder.open(runs / "mix"), None, request, limit, Silent())
    (run,) = checked("report", json.dumps(as_json([found])))["runs"]
    assert run["time_limit"]["seconds"] == seconds
    out = set(run["time_limit"]["ended_early"])
    assert out <= {"filling the holes", "filling hidden cells to compare", "scoring the rows"}
    assert (run["imputing"] is None) <= ("filling the holes" in out)
    assert (run["calibration"] is None) == ("filling hidden cells to compare" in out)
    assert (run["likelihood"] is None) == ("scoring the rows" in out)
    assert [column["observed"] + column["missing"] for column in run["columns"]] == [60] * 4
    if out:
        assert run["notes"][-1].startswith(f"the time limit of {seconds} s ended early, or left no time for: ")
        assert all(stage in run["notes"][-1] for stage in out)
    about = {verdict["about"] for verdict in run["verdicts"]}
    assert (("fills" in about), ("rows" in about)) == (run["imputing"] is not None, run["likelihood"] is not None)
    if seconds == 1:
        assert len(out) == 3 and {"training", "missingness", "columns"} <= about
    if seconds == 100_000:
        free = examine(RunFolder.open(runs / "mix"), None, request, TimeLimit(), Silent())
        (other,) = as_json([free])["runs"]
        assert not out and other.pop("time_limit") is None and run.pop("time_limit") is not None
        for each in (*other["columns"], *run["columns"]):
            each.pop("pooled")  # sums of the same numbers, which may be rounded in another order
        assert other == run


def test_columns_whose_kind_there_was_no_time_to_judge_are_named(vgi: Vgi) -> None:
    draw = np.random.default_rng(0)
    code = draw.integers(1, 9, 200)
    effect = draw.permutation(9)[code] + 0.1 * draw.normal(size=200)
    Path("t.csv").write_text("code,effect\n" + "".join(f"{a},{b:.3f}\n" for a, b in zip(code, effect, strict=True)))
    fit = ("--column", "code=integer", "--model", "fa", "--set", "bootstrap=none")
    assert vgi("fit", "t.csv", *fit, "--out", "coded", "-q").code == 0
    request = ReportRequest(settings={}, run=["coded"], json=True)
    left_out = []
    for seconds in (1, 100_000):
        limit = TimeLimit(seconds, 0.0, Ticks())
        (run,) = as_json([examine(RunFolder.open(Path("coded")), None, request, limit, Silent())])["runs"]
        left_out.append("looking for wrong kinds of columns" in run["time_limit"]["ended_early"])
        assert ("as labels its values explain 'effect'" in str(run["columns"][0].get("suspicion"))) != left_out[-1]
    assert left_out == [True, False]


@draws
def test_a_comparison_has_its_verdict_and_what_is_left_out_no_section(runs: Path) -> None:
    from vgi_cli.reports.sections import sections

    request = ReportRequest(settings={}, run=[runs / "mix"], json=True)
    found = examine(RunFolder.open(runs / "mix"), None, request, TimeLimit(1, 0.0, Ticks()), Silent())
    taken = {"title": "taken", "cells": 1.2, "loglik": -1.0, "coverage": 0.9, "chosen": True}
    numbers = dataclasses.replace(found.numbers, contest={"score": "cells", "rows": 9, "candidates": [taken]})
    judged = dataclasses.replace(found, numbers=numbers, verdicts=judge(numbers))
    made = {one.key: one.parts[0] for one in sections([judged])}
    assert "calibration" not in made and "missingness" in made
    assert [verdict.level for verdict in made["contest"].verdicts] == ["look"]
    (old,) = made["contest"].grids  # of a version that told coverage of intervals
    assert old.head[3] == "in 90 % intervals" and "far from 90%" in old.caption
    numbers = dataclasses.replace(found.numbers, contest={**numbers.contest, "calibrated": 9 / 11})
    ((new,),) = (
        one.parts[0].grids for one in sections([dataclasses.replace(found, numbers=numbers)]) if one.key == "contest"
    )
    assert new.head[3] == "in the range of ten draws" and "far from 82%" in new.caption


@draws
def test_time_limit_on_the_command_line(vgi: Vgi, runs: Path) -> None:
    done = vgi("report", runs / "mix", "--time-limit", "0.001", "-o", "page.html", "--json")
    assert done.code == 0, done.err
    (run,) = checked("report", done.out)["runs"]
    assert len(run["time_limit"]["ended_early"]) == 3 and run["imputing"] is None and run["training"] is not None
    assert "the time limit of 0.001 s ended early, or left no time for: filling the holes" in done.err
    text = Path("page.html").read_text(encoding="utf-8")
    assert "The time limit of 0.001 s ended early, or left no time for: filling the holes, filling hidden" in text
    assert "What is missing" in text
    refused = vgi("report", runs / "mix", "--time-limit", "soon", "--json")
    assert refused.code == 2 and "--time-limit" in refused.error


@pytest.mark.slow
def test_chains_that_a_time_limit_leaves_out_are_named(chained: Path) -> None:
    request = ReportRequest(settings={}, run=[chained], json=True)
    texts = []
    for seconds in (1, 700, 3_000, 1e6):
        found = examine(RunFolder.open(chained), None, request, TimeLimit(seconds, 0.0, Ticks()), Silent())
        (run,) = checked("report", json.dumps(as_json([found])))["runs"]
        out = "running chains to look at" in run["time_limit"]["ended_early"]
        assert run["chains"]["text"].startswith("The time limit left no time to run chains anew.") == out
        assert (run["chains"]["kind"] == "told") == out
        texts.append(out)
    assert texts[0] and not texts[-1]


def test_twin_gives_the_same(vgi: Vgi, runs: Path) -> None:
    printed = json.loads(vgi("report", runs / "mix", "--json").out)
    found = vgi_cli.load(runs / "mix").report()
    assert found == printed
    assert vgi_cli.report([str(runs / "mix")]) == printed


def test_a_table_in_memory_is_kept_by_its_run(vgi: Vgi, runs: Path) -> None:
    import pandas as pd

    frame = pd.read_csv(runs / "data.csv")
    run = vgi_cli.fit(frame, model="fa", exclude=["key", "<kind>"], set={"model.factors": 1, "bootstrap": 2}, out="own")
    assert run.report()["runs"][0]["facts"]["rows"] == 60
    with pytest.raises(UsageError, match="own was fitted on a table in memory, which it does not keep") as caught:
        vgi_cli.report("own")
    assert caught.value.hint == "a report reads the fitted table again: fit a file"


@draws
@pytest.mark.usefixtures("laid_out")
def test_page_holds_everything(vgi: Vgi, runs: Path, tmp_path: Path) -> None:
    done = vgi("report", runs / "mix", "-o", "page.html")
    assert done.out == "page.html\n"
    text = Path("page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.ids) == len(set(page.ids)) and "tipping" not in page.ids  # nobody asked for it
    assert all(link.startswith(("#", "data:")) for link in page.links)
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inside) <= set(page.ids)
    assert "script" not in page.tags and "http://" not in text.replace("http://www.w3.org", "")
    assert len(page.pictures) >= 8 and all(len(alt) > 10 for alt in page.pictures)
    assert "&lt;kind&gt;" in text and "<kind>" not in text and "<b>" not in text.replace("<b style", "")
    assert "#0072b2" not in text.split("</style>")[1].lower()  # pictures take the colours of the page


@draws
def test_carried_columns_are_in_the_picture_of_what_is_missing(vgi: Vgi, tmp_path: Path) -> None:
    rows = [f"{i}.5,{i % 7},{'' if i % 4 else 'text ' + str(i)},{'' if i == 3 else 'n'}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,remark,same", *rows]) + "\n")
    fit = ["--model", "fa", "--set", "model.factors=1", "--set", "bootstrap=2", "--column", "remark=carry"]
    assert vgi("fit", "t.csv", *fit, "--out", "r", "-q").code == 0
    done = vgi("report", "r", "--json", "-o", "page.html", "-q")
    (run,) = checked("report", done.out)["runs"]
    carried = {one["name"]: (one["kind"], one["missing"]) for one in run["missingness"]["carried"]}
    assert carried["remark"] == ("carried", 30) and carried["same"][1] == 1
    assert run["missingness"]["missing"] == 0 and run["missingness"]["modelled"] == ["a", "b"]
    text = Path("page.html").read_text(encoding="utf-8")
    assert "remark (carried)" in text and "b (carried)" not in text
    (picture,) = [alt for alt in Page(text).pictures if alt.startswith("missing: 0 of 80 cells")]
    assert picture.endswith("; and 31 cells of 2 columns that are carried")


@draws
@pytest.mark.usefixtures("small_page")
def test_pages_are_numbered_and_replaced_only_by_force(vgi: Vgi, runs: Path) -> None:
    shutil.copytree(runs / "mix", "mix")
    assert vgi("report", "mix", "-q").out == "mix/report.html\n"
    assert vgi("report", "mix", "-q").out == "mix/report-2.html\n"
    Path("mix/report.html").write_text("old")
    assert vgi("report", "mix", "-q", "--force").out == "mix/report.html\n"
    assert Path("mix/report.html").read_text() != "old"
    assert vgi("impute", "--checkpoint", "mix", "--m", "1", "-q").code == 0  # the run is as good as before


@draws
@pytest.mark.usefixtures("small_page")
@pytest.mark.parametrize(
    ("asked", "first", "linked"),  # or a file system without hard links
    some(
        [((), "mix/report", True), (("-o", "own.html"), "own", False)],
        [(*of, linked) for of in (((), "mix/report"), (("-o", "own.html"), "own")) for linked in (True, False)],
    ),
)
def test_two_reports_at_once_write_two_pages(
    vgi: Vgi, runs: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], first: str, linked: bool
) -> None:
    shutil.copytree(runs / "mix", "mix")
    real, others = files.write_synced, ["the other's", "the third's"]

    def late(path: Path, data: bytes) -> None:
        """Another report is written between the look for a name and the page."""
        real(path, data)
        if path.suffix == ".tmp" and others:
            path.with_name(path.name[1:].rpartition(".html")[0] + ".html").write_text(others.pop(0))

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(files, "write_synced", late)
    if not linked:
        monkeypatch.setattr(os, "link", refused)
    done = vgi("report", "mix", *asked, "-q")
    assert (done.code, done.out) == (0, f"{first}-3.html\n")
    assert Path(f"{first}.html").read_text() == "the other's"
    assert Path(f"{first}-2.html").read_text() == "the third's"
    assert "</html>" in Path(f"{first}-3.html").read_text(encoding="utf-8")
    said = "warning: another command has made 'own.html' meanwhile: this page is 'own-3.html'\n"
    assert done.err == (said if asked else "")
    assert not [*Path().glob(".*.tmp"), *Path("mix").glob(".*.tmp")]


def on_a_full_disk(path: Path, data: bytes) -> None:
    if path.name.startswith((".page.html", ".report-2.html")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    path.write_bytes(data)


@draws
@pytest.mark.usefixtures("small_page")
def test_a_disk_that_is_full_loses_the_page_and_not_the_numbers(
    vgi: Vgi, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = json.loads(vgi("report", runs / "mix", "--json", "-q").out)
    monkeypatch.setattr(files, "write_synced", on_a_full_disk)
    before = sorted(Path().rglob("*"))
    for asked in (["--json"], []):
        done = vgi("report", runs / "mix", "-o", "page.html", "-q", *asked)
        assert (done.code, done.error) == (1, "cannot write 'page.html': No space left on device")
        assert done.hint == "make room, or write elsewhere with -o; the numbers of the report are whole"
        found = checked("report", done.out)
        assert found["runs"][0]["columns"] == whole["runs"][0]["columns"]
        assert sorted(Path().rglob("*")) == before
    shutil.copytree(runs / "mix", "mix")
    Path("mix/report.html").touch()
    done = vgi("report", "mix", "-q")
    assert (done.code, done.error) == (1, "cannot write 'mix/report-2.html': No space left on device")
    with pytest.raises(Unwritten, match=r"cannot write 'page\.html'") as caught:
        vgi_cli.report(runs / "mix", out="page.html")
    assert caught.value.report == found


@draws
def test_runs_side_by_side(vgi: Vgi, runs: Path) -> None:
    shutil.copytree(runs / "mix", "other")
    done = vgi("report", runs / "mix", "other", "-o", "both.html", "--json", "-q")
    assert [Path(run["facts"]["run"]).name for run in checked("report", done.out)["runs"]] == ["mix", "other"]
    text = Path("both.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "runs several" in text and "a table of one name and size" in text and len(page.ids) == len(set(page.ids))
    assert vgi("report", runs / "mix", "other", "-o", "both.html", "--json").code == 2  # it is there now


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["nowhere"], "no run at 'nowhere'", "give the folder that `vgi fit` printed"),
        (
            ["mix", "--rows", "0", "--json"],
            "--rows: expected a whole number from 1, or all, got 0",
            "for example --rows",
        ),
        (["mix"] * 5, "a report is on 1 to 4 runs, got 5", "name the runs to compare"),
        (["mix", "-o", "page.txt"], "--out: a report is an HTML file, got 'page.txt'", "name it FILE.html"),
        (["mix", "-o", "none/page.html"], "--out: no folder 'none'", "create it first"),
        (["mix", "-o", "mix"], "--out: 'mix' is a folder", "name a file: mix/report.html"),
        (["mix", "-o", "old.html"], "'old.html' exists", "--force replaces it"),
    ],
)
def test_refused(vgi: Vgi, runs: Path, arguments: list[str], message: str, hint: str) -> None:
    if not DRAWN and "-o" in arguments:
        pytest.skip("the extra `report` is not installed")
    shutil.copytree(runs / "mix", "mix")
    Path("old.html").write_text("old")
    before = sorted(Path().rglob("*"))
    done = vgi("report", *arguments)
    assert done.code == 2 and done.out == ""
    assert done.error == message and done.hint.startswith(hint)
    assert sorted(Path().rglob("*")) == before


def test_a_table_that_has_changed_is_refused(vgi: Vgi, runs: Path) -> None:
    Path("t.csv").write_text((runs / "data.csv").read_text())
    fit = ["--id", "key", "--exclude", "<kind>", "--model", "fa", "--set", "model.factors=1", "--set", "bootstrap=2"]
    assert vgi("fit", "t.csv", *fit, "--out", "r", "-q").code == 0
    Path("t.csv").write_text((runs / "data.csv").read_text().replace("k1,", "k01,"))
    done = vgi("report", "r", "--json")
    assert done.code == 2 and done.error.startswith("t.csv has changed since r was fitted")
    assert done.hint == "restore the file, or fit it anew"
    there = Path("t.csv").resolve()
    there.unlink()
    done = vgi("report", "r", "--json")
    assert done.code == 2 and done.error == f"{there}: no such file, and r was fitted on it"
    assert done.hint == "a report reads the fitted table again: put it back there, or fit where it is now"


def test_without_the_extra_only_the_numbers(vgi: Vgi, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else real(name))
    done = vgi("report", runs / "mix")
    assert done.code == 2
    assert done.error == "the page of a report needs matplotlib, not installed here"
    assert done.hint == "pip install 'vgi-cli[report]'; the numbers alone (--json) need neither"
    assert vgi("report", runs / "mix", "--json", "-q").code == 0
