"""A comparison of models that is stopped: what was scored is kept, and `--resume` goes on from there."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import vgi_cli
from tests.fitting import test_contest
from tests.fitting.test_contest import holes, normal
from vgi_cli.cli.app import main
from vgi_cli.errors import InputError, Interrupted, RunError, UsageError
from vgi_cli.fitting import plateau
from vgi_cli.fitting.contest import contest
from vgi_cli.fitting.contest.candidates import candidates
from vgi_cli.machine.work import TimeUp
from vgi_cli.runs.comparison import compared
from vgi_cli.settings.recipe import Recipe

SAME = ("contest.json", "model.safetensors", "recipe.yaml", "schema.json", "state.safetensors")
"""Files that hold neither paths nor times."""

QUICK = {**test_contest.QUICK, "table.transform": "linear"}
"""Half as many models as there are where the transform is compared as well."""

SMALL_FLOW = {**QUICK, "model.steps": 1, "model.hidden": 4, "model.blocks": 0}
SMALL_FLOW |= {"optim.warmup_conditionals": 1, "optim.warmup_model": 1, "optim.batch_size": 60}


def three(*given: Any) -> list[tuple[str, Recipe]]:
    """The first candidates, of one size each."""
    size = {"mixture": {"components": 1}, "fa": {"factors": 1}}
    return [(title, recipe.with_model(**size[recipe.model.name])) for title, recipe in candidates(*given)[:3]]


@pytest.fixture(autouse=True, scope="module")
def at_once() -> Iterator[None]:
    """Three models that EM fits are compared; held-out rows may end the fit of a flow after its first steps."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plateau, "LEAST", 0)
        patched.setattr(contest, "candidates", three)
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "t.csv"
    holes(normal(60, 4), 0.2, 5).to_csv(path, index=False)
    return path


@pytest.fixture
def own_table(table: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copy(table, tmp_path))


@pytest.fixture(scope="module")
def whole(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit that was not stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    fit(table, out)
    return out


@pytest.fixture(scope="module")
def after_two(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that was stopped once two models were scored."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    stopped(table, out, 2)
    return out


@pytest.fixture
def part(after_two: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(after_two, tmp_path / "part"))


def fit(table: Path | pd.DataFrame | None, out: Path, **options: Any) -> list[str]:
    """What a fit says, and its warnings."""
    said: list[str] = []
    settings = options if options.get("resume") else {"set": QUICK, "threads": 1, **options}
    vgi_cli.fit(table, out=out, say=said.append, **settings)
    return said


def stopping(patched: pytest.MonkeyPatch, after: int, error: BaseException | None = None) -> None:
    """Let a signal arrive once so many models were scored."""
    real, begun = contest.score, []

    def score(*inputs: Any) -> Any:
        begun.append(inputs)
        if len(begun) > after:
            raise error or Interrupted("stopped by SIGINT", 130)
        return real(*inputs)

    patched.setattr(contest, "score", score)


def stopped(table: Path, out: Path, after: int, **options: Any) -> Interrupted:
    with pytest.MonkeyPatch.context() as patched:
        stopping(patched, after)
        with pytest.raises(Interrupted) as caught:
            fit(table, out, **options)
    return caught.value


def count_scored(patched: pytest.MonkeyPatch) -> list[str]:
    """Titles of the models that are scored from now on."""
    real, titles = contest.score, []

    def score(candidate: contest.Candidate, *more: Any) -> Any:
        titles.append(candidate.title)
        return real(candidate, *more)

    patched.setattr(contest, "score", score)
    return titles


def same(one: Path, other: Path) -> None:
    for name in SAME:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="plain"),
        pytest.param({"holdout_cells": 0.1}, id="holdout"),
        pytest.param({"set": test_contest.QUICK}, id="transforms", marks=pytest.mark.slow),
        pytest.param({"compare": "flow", "set": SMALL_FLOW}, id="flows", marks=pytest.mark.slow),
    ],
)
def test_it_goes_on_where_it_was_stopped_bit_for_bit(
    table: Path, whole: Path, tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if options:
        whole = tmp_path / "whole"
        fit(table, whole, **options)
    models = len(json.loads((whole / "contest.json").read_text())["candidates"])
    part = tmp_path / "part"
    error = stopped(table, part, models - 1, **options)
    what = "the first fit" if "holdout_cells" in options else "while models were compared"
    assert what in error.message and error.exit_code == 130
    assert error.message.endswith(f", before the run was begun: what {models - 1} models scored is kept in {part}")
    assert error.hint == f"continue with: vgi fit --resume --out {part}"
    assert compared(part) == models - 1 and not (part / "manifest.json").exists()
    titles = count_scored(monkeypatch)
    said = fit(None, part, resume=True)
    assert len(titles) == 1
    if "holdout_cells" not in options:  # whose first fit says nothing
        assert f"{models - 1} of the models had been scored before the fit was stopped: not again" in said
    assert f"models were compared in {part} before: the comparison goes on" in said
    same(whole, part)
    assert not (part / ".comparison").exists()


def test_a_flow_that_was_scored_is_not_fitted_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: object) -> None:
        raise Interrupted("stopped by SIGTERM", 143)

    part = tmp_path / "part"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(contest.Standings, "decided", late)
        with pytest.raises(Interrupted, match=r"stopped by SIGTERM; what .* models scored is kept in"):
            fit(table, part, compare="flow", set=SMALL_FLOW)
    titles = count_scored(monkeypatch)
    fit(None, part, resume=True)
    assert titles == []
    compared = json.loads((part / "contest.json").read_text())["candidates"]
    assert "flow" in {one["model"] for one in compared}


def test_a_table_in_memory_is_given_again(tmp_path: Path, table: Path) -> None:
    frame, part = pd.read_csv(table), tmp_path / "part"
    fit(frame, tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patched:
        stopping(patched, 2)
        with pytest.raises(Interrupted, match="what 2 models scored is kept"):
            fit(frame, part)
    assert "2 of the models had been scored before the fit was stopped: not again" in fit(frame, part, resume=True)
    same(tmp_path / "whole", part)


def test_a_time_limit_that_ends_the_fit_keeps_what_was_scored(table: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    with pytest.MonkeyPatch.context() as patched:
        stopping(patched, 1, TimeUp("stopped before training began: the time limit of 5 s was over; nothing was kept"))
        with pytest.raises(TimeUp, match=r"was over; what 1 model scored is kept in .*part$"):
            fit(table, part, time_limit="1h")
    said = fit(None, part, resume=True)  # without a limit: that of the first command is over
    assert "1 of the models had been scored before the fit was stopped: not again" in said
    assert json.loads((part / "manifest.json").read_text())["time_limit"] == {}


def test_scores_of_other_settings_are_not_taken(part: Path) -> None:
    assert not any("had been scored before" in line for line in fit(None, part, resume=True, seed=3))


def test_scores_of_other_rows_are_not_taken(own_table: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    stopped(own_table, part, 1)
    holes(normal(60, 9), 0.2, 5).to_csv(own_table, index=False)
    assert not any("had been scored before" in line for line in fit(None, part, resume=True))


def test_a_damaged_score_is_made_again(whole: Path, part: Path) -> None:
    damaged = sorted((part / ".comparison").glob("*.safetensors"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x07")
    said = fit(None, part, resume=True)
    assert f"warning: {damaged} is damaged: what it holds is scored again" in said
    assert "1 of the models had been scored before the fit was stopped: not again" in said
    same(whole, part)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"format": 9}', r"command.json has format 9, and this version reads 1"),
        (b"{", r"cannot read .*command.json \(.*\)"),
    ],
)
def test_what_it_was_begun_with_must_be_readable(
    content: bytes, message: str, part: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (part / ".comparison" / "command.json").write_bytes(content)
    before = {path: path.read_bytes() for path in part.rglob("*") if path.is_file()}
    assert main(["fit", "--resume", "--out", str(part)]) == 2
    error = capfd.readouterr().err
    assert pd.Series([error]).str.contains(message).all() and "with --force" in error
    assert {path: path.read_bytes() for path in part.rglob("*") if path.is_file()} == before


def test_other_commands_say_what_lies_there(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    part = tmp_path / "part"
    stopped(table, part, 1)
    with pytest.raises(UsageError, match=r"--out: '.*part' exists") as caught:
        fit(table, part)
    assert caught.value.hint == "--force replaces it, --resume continues it"
    assert main(["impute", "--checkpoint", str(part)]) == 2
    error = capfd.readouterr().err
    assert f"'{part}' holds no model yet: the fit was stopped while models were compared" in error
    assert f"continue it with: vgi fit --resume --out {part}" in error
    assert not any("had been scored before" in line for line in fit(table, part, force=True))
    assert not (part / ".comparison").exists()


def test_a_run_that_is_to_be_replaced_stays_until_models_were_compared(
    table: Path, whole: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    error = stopped(table, run, 1, force=True, seed=1)
    assert error.message.endswith("nothing was kept")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_full_disk_leaves_what_was_scored(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    part, real, written = tmp_path / "part", os.replace, []

    def full(source: Path, target: Path) -> None:
        written.append(target)
        if ".comparison" in str(target) and len(written) > 3:  # the command, and two scores
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        real(source, target)

    settings = [word for key, value in QUICK.items() for word in ("--set", f"{key}={value}")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "replace", full)
        assert main(["fit", str(table), "--out", str(part), *settings]) == 1
    error = capfd.readouterr().err
    assert f"cannot write in '{part}': No space left on device; what models scored so far is kept" in error
    assert f"make room, then: vgi fit --resume --out {part}" in error
    assert main(["fit", "--resume", "--out", str(part)]) == 0
    assert "2 of the models had been scored before" in capfd.readouterr().err


def test_what_helps_is_said_before_how_it_goes_on(own_table: Path, tmp_path: Path) -> None:
    stopped(own_table, tmp_path / "part", 1)
    own_table.rename(tmp_path / "elsewhere.csv")
    with pytest.raises(InputError) as caught:
        fit(None, tmp_path / "part", resume=True)
    assert "what 1 model scored is kept in" in caught.value.message
    assert not caught.value.hint.startswith("continue with")


@pytest.mark.parametrize("text", ['{"format": 1}', '{"format": 1, "settings": 3, "max_memory": null}', "{"])
def test_a_command_that_cannot_be_read_is_refused(text: str, part: Path) -> None:
    (part / ".comparison" / "command.json").write_text(text)
    with pytest.raises(RunError, match="cannot read"):
        fit(None, part, resume=True)


def test_a_refused_fit_leaves_nothing(table: Path, part: Path, tmp_path: Path) -> None:
    """And one that goes on leaves what was there."""

    def refused(after: int, table: Path | None, out: Path, **options: Any) -> None:
        with pytest.MonkeyPatch.context() as patched:
            stopping(patched, after, UsageError("no"))
            with pytest.raises(UsageError, match="no"):
                fit(table, out, **options)

    refused(1, table, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    refused(0, None, part, resume=True)
    assert compared(part) == 2
    assert sorted(path.name for path in part.iterdir()) == [".comparison"]
