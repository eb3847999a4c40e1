"""The model card of a run: what it says, that it is the same each time, and that a user may change it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.clocks import ticking
from tests.program import Vgi, vgi
from vgi_cli.columns.wording import readable
from vgi_cli.commands.card import Card
from vgi_cli.runs.folder import CARD, RunFolder

__all__ = ["vgi"]
SMALL = ["--model", "fa", "--threads", "1", "--set", "model.factors=1"]
TRAINED = [*SMALL, "--method", "vgi", "--set", "method.imputations=2", "--set", "bootstrap=none"]


@pytest.fixture
def data(vgi: Vgi) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1)) + 0.5 * rng.normal(size=(60, 3))
    cells = [[f"{v:.2f}" if rng.random() < 0.8 else "" for v in row] for row in x]
    rows = [",".join([f"p{i}", *row, "1", "a note"]) for i, row in enumerate(cells)]
    Path("t.csv").write_text("name,a|b,c,d,same,remark\n" + "\n".join(rows) + "\n")
    return Path("t.csv")


def section(text: str, title: str) -> str:
    return text.split(f"## {title}\n\n")[1].split("\n\n## ")[0]


def test_what_a_card_says(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "t.csv", "--id", "name", *SMALL, "--set", "bootstrap=3", "--out", "run")
    assert done.code == 0, done.err
    text = Path("run", CARD).read_text(encoding="utf-8")
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert text.startswith("# Run `run`\n\nThe fit converged, after ")
    for command in (
        "vgi impute --checkpoint run --m 20 -o",
        "vgi evaluate --checkpoint run new.csv",
        "run/recipe.yaml",
    ):
        assert command in section(text, "Use")
    about = section(text, "Data")
    assert "`t.csv`: 60 rows, of which " in about and manifest["data"]["sha256"] in about and "6 columns" in about
    assert [line.split(" | ")[0] for line in about.splitlines() if line.startswith("| ")][2:] == [
        "| name",
        "| a\\|b",
        "| c",
        "| d",
        "| same",
        "| remark",
    ]
    assert "| same | constant | 0.0% |" in about and "| name | carried | 0.0% | --id: names the rows |" in about
    model = section(text, "Model and method")
    assert "Why this model: it was asked for.\nWhy this method: exact for this model." in model
    assert "Log-likelihood of the fitted rows at the end: -" in section(text, "How good it is")
    limits = section(text, "Limits")
    assert "missing at random" in limits and "Not modelled: `name`, `same`, `remark`." in limits
    assert "of the model's parameters, by 3 fits to resampled rows by `em`" in limits
    settings = section(text, "Settings that were said or chosen")
    assert "| `model.factors` | `1` | said |" in settings and '| `method.name` | `"em"` | chosen |' in settings
    assert f"torch {manifest['versions']['torch']}" in section(text, "Versions")
    assert "fills in this line" in section(text, "Licence")


def test_the_same_fit_gives_the_same_card(vgi: Vgi, data: Path) -> None:
    words = ["fit", "t.csv", *TRAINED, "--val", "0.2", "--epochs", "2", "--out", "run"]
    cards = []
    for more in ([], ["--force"]):
        assert vgi(*words, *more).code == 0
        cards.append(Path("run", CARD).read_text(encoding="utf-8"))
    assert cards[0] == cards[1]
    scores = section(cards[0], "How good it is")
    assert "Held-out rows, log-likelihood: -" in scores and "nats a row), after epoch " in scores
    assert "Fills do not carry the uncertainty of the model's parameters" in section(cards[0], "Limits")


def test_a_card_that_was_changed_stays_and_is_no_damage(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "t.csv", *TRAINED, "--epochs", "2", "--out", "run").code == 0
    card = Path("run", CARD)
    assert "after 2 epochs" in card.read_text(encoding="utf-8")
    assert vgi("fit", "--resume", "--out", "run", "--epochs", "3").code == 0
    assert "after 3 epochs" in card.read_text(encoding="utf-8")
    card.write_text("mine\n")
    RunFolder.open(Path("run")).verify()
    assert vgi("impute", "--checkpoint", "run", "--m", "1", "-o", "out.csv").code == 0
    done = vgi("fit", "--resume", "--out", "run", "--epochs", "4")
    assert done.code == 0 and f"run/{CARD} was changed by hand and stays as it is" in done.err
    assert card.read_text() == "mine\n"
    card.unlink()
    assert vgi("impute", "--checkpoint", "run", "--m", "1", "-o", "other.csv").code == 0


def test_a_run_that_a_time_limit_ended_has_one(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticking(monkeypatch, 0.005)
    done = vgi("fit", "t.csv", *TRAINED, "--epochs", "1000000", "--time-limit", "2s", "--out", "run")
    assert done.code == 0, done.err
    text = Path("run", CARD).read_text(encoding="utf-8")
    assert "The fit was ended by its time limit" in text
    assert "A time limit ended early: training." in section(text, "Limits")


def test_a_fine_tuned_run_has_its_own(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "t.csv", *TRAINED, "--epochs", "2", "--out", "run").code == 0
    lines = data.read_text().splitlines()
    Path("new.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines[:21]) + "\n")  # without `remark`
    assert vgi("finetune", "--checkpoint", "run", "new.csv", "--epochs", "1", "--out", "tuned").code == 0
    text = Path("tuned", CARD).read_text(encoding="utf-8")
    assert text.startswith(
        "# Fine-tuned run `tuned`\n\nThe conditionals were adapted and the work came to its planned end"
    )
    assert "`new.csv`: 20 rows" in text and "remark" not in section(text, "Data")
    assert "its conditionals were adapted to this table" in section(text, "Model and method")
    assert "Objective of the fine-tuning: " in section(text, "How good it is")
    assert vgi("fit", "t.csv", *SMALL, "--set", "bootstrap=none", "--out", "exact").code == 0
    assert vgi("finetune", "--checkpoint", "exact", "new.csv", "--out", "unchanged").code == 0
    text = Path("unchanged", CARD).read_text(encoding="utf-8")
    assert "`new.csv`: 20 rows" in text and "Nothing was adapted: the model is that of an earlier run" in text
    assert "unchanged, for this table." in section(text, "Model and method") and "conditionals" not in text


def test_a_table_in_memory_and_one_in_which_nothing_varies(tmp_path: Path) -> None:
    import pandas as pd

    run = vgi_cli.fit(pd.DataFrame({"a": [1.0, 1.0, None]}), out=tmp_path / "run")
    text = (run.path / CARD).read_text(encoding="utf-8")
    assert "(from memory): 3 rows" in text and "no column of the table varies" in section(text, "Model and method")


def test_the_models_that_were_compared(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vgi("fit", "t.csv", *SMALL, "--set", "bootstrap=none", "--out", "run").code == 0
    league = {"score": "cells", "rows": 40, "candidates": []}
    for chosen, title in ((True, "fa | 1"), (False, "flow")):
        scores = {"cells": 0.51234, "coverage": 0.9, "loglik": -3.25 if chosen else None}
        league["candidates"].append({"title": title, "chosen": chosen, **scores})  # type: ignore[attr-defined]
    run = RunFolder.open(Path("run"))
    monkeypatch.setattr(run, "contest", lambda: league)
    from vgi_cli.table.reader import read_table

    text = Card(run, read_table([Path("t.csv")])).text()
    table = section(text, "Models that were compared")
    assert "Fitted to 40 rows and compared by how well hidden cells were filled, best first" in table
    assert "| fa \\| 1 **(taken)** | 0.5123 | -3.25 | 0.9 |" in table and "| flow | 0.5123 |  | 0.9 |" in table
    assert "In the comparison, log-likelihood" in section(text, "How good it is")


def test_of_many_columns_those_with_the_most_holes_are_shown(
    vgi: Vgi, monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    monkeypatch.setattr("vgi_cli.commands.card.MOST_COLUMNS", 2)
    assert vgi("fit", "t.csv", *SMALL, "--set", "bootstrap=none", "--out", "run").code == 0
    about = section(Path("run", CARD).read_text(encoding="utf-8"), "Data")
    assert "The 2 columns with the most holes; all are in `schema.json`" in about
    assert sum(line.startswith("| ") for line in about.splitlines()) == 4


def test_a_run_in_the_folder_at_hand_with_weights(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine").mkdir()
    monkeypatch.chdir("mine")
    assert vgi("fit", "../t.csv", *SMALL, "--set", "bootstrap=none", "--weight", "same", "--out", ".").code == 0
    text = Path(CARD).read_text(encoding="utf-8")
    assert text.startswith("# Run `mine`\n")
    assert "Rows count in the likelihood by the column `same`." in section(text, "Data")


def test_rows_that_share_their_ids_and_refits_that_had_not_settled_are_no_secret(
    vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the card nor in the report."""
    monkeypatch.setattr("vgi_cli.methods.em.bootstrap.MOST_STEPS", 2)
    monkeypatch.setattr("vgi_cli.methods.em.bootstrap.FEWEST_STEPS", 2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 1)) + rng.normal(size=(120, 2))
    x[rng.random(x.shape) < 0.3] = np.nan
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(patient=[f"p{i // 4}" for i in range(120)])
    frame.to_csv("visits.csv", index=False)
    settings = ("--set", "model.components=2", "--set", "bootstrap=3")
    assert vgi("fit", "visits.csv", "--id", "patient", "--model", "mixture", *settings, "--out", "run").code == 0
    limits = section(Path("run", CARD).read_text(encoding="utf-8"), "Limits")
    line = (
        "20 rows have 30 different values of column 'patient' (--id): what rows of one have in common is not modelled"
    )
    assert line in limits and "3 of them had not settled" in limits
    pytest.importorskip("matplotlib")
    notes = json.loads(vgi("report", "run", "--json").out)["runs"][0]["notes"]
    assert line in notes[0]
    assert notes[1] == (
        "3 of 3 bootstrap refits had not settled: standard errors from the imputations may be a little too small"
    )


def test_an_average_of_models_is_said_in_words() -> None:
    models = [{"model": {"name": "mixture"}, "weight": 3.0}, {"model": {"name": "mixture"}, "weight": 1.0}]
    said = readable({"average": models, "trees": "auto"})
    assert said == {"average": "2 models (recipe.yaml), by weights 75%, 25%", "trees": "auto"}
    assert readable({"average": "none"}) == {"average": "none"}
    assert readable({"average": models[:1]}) == {"average": "1 model (recipe.yaml)"}


@pytest.mark.parametrize("weights", [[1.0], [0.75, 0.25]])
def test_fills_of_one_model_carry_no_doubt_about_it(vgi: Vgi, data: Path, weights: list[float]) -> None:
    """An average whose weight is all on one model is none, whatever the recipe calls it."""
    models = [
        f"{{model: {{name: mixture, components: {K + 1}}}, transform: linear, weight: {weight}}}"
        for K, weight in enumerate(weights)
    ]
    average = f"average=[{', '.join(models)}]"
    done = vgi("fit", "t.csv", *SMALL, "--set", "bootstrap=4", "--set", average, "--out", "run")
    assert done.code == 0, done.err
    text = Path("run", CARD).read_text(encoding="utf-8")
    limits, settings = section(text, "Limits"), Path("run/recipe.yaml").read_text()
    assert settings.count("weight: ") == len(weights) + 1  # that of the table too
    if len(weights) == 1:
        assert "They do not carry the doubt about the model itself." in limits and "several" not in limits
    else:
        assert "They carry some doubt about the model, for these are fits of 2 models." in limits


def test_why_a_model_was_taken_is_true(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fitted one need not have the least error on hidden cells."""
    from vgi_cli.table.reader import read_table

    assert vgi("fit", "t.csv", *SMALL, "--set", "bootstrap=none", "--out", "run").code == 0
    run = RunFolder.open(Path("run"))
    monkeypatch.setattr(Card, "record", run.record.model_copy(update={"requested": {}}))
    for chosen, why in ((0, "it did best in the comparison below."), (1, "of those that did about as well as the")):
        candidates = [{"title": "fa", "chosen": i == chosen, "cells": 0.5 + i} for i in range(2)]
        monkeypatch.setattr(run, "contest", lambda of=candidates: {"score": "cells", "rows": 40, "candidates": of})
        model = section(Card(run, read_table([Path("t.csv")])).text(), "Model and method")
        assert f"Why this model: {why}" in model
