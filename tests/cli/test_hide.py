"""`vgi hide`: a trial that `fit` and `evaluate --truth` take as it is."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.program import Vgi
from tests.schemas import checked
from vgi_cli.table import outputs


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = []
    for i in range(200):
        sex, age = rng.choice(["f", "m"]), rng.poisson(40)
        weight = f"{60 + 15 * (sex == 'm') + rng.normal():.1f}" if rng.random() > 0.1 else "NA"
        rows.append(f'p{i},"{sex}",{age},{weight},"note, {i}"')
    (tmp_path / "t.csv").write_text("id,sex,age,weight,note\n" + "\n".join(rows) + "\n")
    return tmp_path / "t.csv"


def test_a_trial_runs_at_once(vgi: Vgi, table: Path) -> None:
    done = vgi("hide", table, "--mechanism", "mar", "--rate", "0.2", "--id", "id", "-o", "trial")
    assert done.code == 0 and done.out.split() == ["trial/table.csv", "trial/mask.csv", "trial/truth.csv"]
    assert Path("trial/truth.csv").read_bytes() == table.read_bytes()
    holes, mask = pd.read_csv("trial/table.csv"), pd.read_csv("trial/mask.csv")
    truth, columns = pd.read_csv(table), ["sex", "age", "weight"]
    assert (holes.notna() == (mask == 1)).all(axis=None) and list(mask) == list(truth)
    assert not (holes.notna() & truth.isna()).any(axis=None)
    assert (holes == truth).where(holes.notna(), True).all(axis=None)
    assert (holes[["id", "note"]] == truth[["id", "note"]]).all(axis=None)
    record = checked("trial", Path("trial/trial.json").read_text())
    for name in columns:
        hidden = int((holes[name].isna() & truth[name].notna()).sum())
        assert record["columns"][name] == {"observed": int(truth[name].notna().sum()), "hidden": hidden}
        assert abs(hidden / truth[name].notna().sum() - 0.2) < 0.1
        assert f"column '{name}': {hidden / truth[name].notna().sum():.1%} hidden" in done.err
    fit = ["--id", "id", "--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=0"]
    assert vgi("fit", "trial/table.csv", "--mask", "trial/mask.csv", *fit, "--out", "run").code == 0
    report = vgi("evaluate", "--checkpoint", "run", "trial/table.csv", "--truth", "trial/truth.csv", "--json")
    scored = json.loads(report.out)["imputation"]["columns"]
    assert {name: scored[name]["cells"] for name in columns} == {n: record["columns"][n]["hidden"] for n in columns}
    masked = vgi("evaluate", "--checkpoint", "run", table, "--mask", "trial/mask.csv", "--json")
    assert json.loads(masked.out)["imputation"] == json.loads(report.out)["imputation"]


@pytest.mark.parametrize("full", ["table.csv", "trial.json"])
def test_a_full_disk_leaves_no_empty_folder(vgi: Vgi, table: Path, full: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, pieces: Iterable[bytes]) -> None:
        if full in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_bytes(b"".join(pieces))

    monkeypatch.setattr(outputs, "write_pieces", refused)
    Path("kept").mkdir()
    for place in ("new/trial", "kept"):
        done = vgi("hide", table, "-o", place)
        assert done.code == 1 and done.error.endswith(f"{place}/{full}: No space left on device")
    assert sorted(path.name for path in Path().iterdir()) == ["kept", "t.csv"]
    assert not list(Path("kept").iterdir())


def test_it_is_keyed_by_seed_and_id(vgi: Vgi, table: Path) -> None:
    ask = ["--id", "id", "--columns", "age", "--columns", "sex"]
    assert vgi("hide", table, *ask, "-o", "one").code == 0
    head, *rows = table.read_text().splitlines()
    Path("turned.csv").write_text("\n".join([head, *rows[::-1]]) + "\n")
    assert vgi("hide", "turned.csv", *ask, "-o", "turned").code == 0
    one, turned = (pd.read_csv(f"{name}/table.csv") for name in ("one", "turned"))
    pd.testing.assert_frame_equal(one, turned[::-1].reset_index(drop=True))
    assert one["weight"].isna().sum() == pd.read_csv(table)["weight"].isna().sum()
    assert vgi("hide", table, *ask, "--seed", "1", "-o", "other").code == 0
    assert Path("other/table.csv").read_bytes() != Path("one/table.csv").read_bytes()
    assert vgi("hide", table, *ask, "--force", "-o", "other").code == 0
    assert Path("other/table.csv").read_bytes() == Path("one/table.csv").read_bytes()


def test_parquet_and_other_delimiters_keep_their_type(vgi: Vgi, table: Path) -> None:
    frame = pd.read_csv(table).astype({"age": "int16"})
    frame.to_parquet("t.parquet")
    assert vgi("hide", "t.parquet", "--mechanism", "mnar", "-o", "trial").code == 0
    holes, mask = pd.read_parquet("trial/table.parquet", dtype_backend="numpy_nullable"), Path("trial/mask.parquet")
    assert str(holes["age"].dtype) == "Int16"
    assert (holes.notna() == (pd.read_parquet(mask) == 1)).all(axis=None)
    lost = frame["age"][holes["age"].isna()].mean() - frame["age"][holes["age"].notna()].mean()
    assert lost > 2  # the greater a cell, the more often it is gone
    assert vgi("fit", "trial/table.parquet", "--mask", mask, "--dry-run").code == 0
    Path("t.txt").write_text(table.read_text().replace(",", "\t"))
    assert vgi("hide", "t.txt", "--delimiter", "tab", "-o", "tabs").code == 0
    assert Path("tabs/mask.tsv").read_text().startswith("id\tsex\tage\tweight\tnote\n")
    text = table.read_text().replace(",", ";").replace('"note; ', '"note, ')
    Path("t.txt").write_text(text)
    assert vgi("hide", "t.txt", "--delimiter", ";", "-o", "semicolons").code == 0
    assert Path("semicolons/mask.csv").read_text().startswith("id;sex;age;weight;note\n")
    given = ["--delimiter", ";", "--mask", "semicolons/mask.csv"]
    assert vgi("fit", "semicolons/table.csv", *given, "--dry-run").code == 0


@pytest.mark.parametrize(
    ("flags", "error", "hint"),
    [
        (["-o", "x", "--rate", "1"], "--rate: expected a share above 0 and below 1, got 1", "for example 0.3"),
        (["-o", "x", "--rate", "a"], "--rate: expected a number, got 'a'", "for example --rate 0.3"),
        (
            ["-o", "x", "--mechanism", "mnra"],
            "--mechanism: expected mcar, mar or mnar, got 'mnra'",
            "did you mean 'mnar'?",
        ),
        ([], "hide writes several files: it needs -o FOLDER", "for example -o trial"),
        (["-o", "t.csv"], "--out: 't.csv' is a file", "name a folder"),
        (["-o", "."], "--out: '.' holds files", "--force writes among them, another -o elsewhere"),
        (["-o", "x", "--columns", "aeg"], "--columns aeg: t.csv has no such column", "did you mean 'age'?"),
        (
            ["-o", "x", "--columns", "note"],
            "--columns note: the column is not modelled, so that nothing could fill its holes",
            "the others are sex, age, weight",
        ),
        (
            ["-o", "x", "--mechanism", "mar", "--rate", "0.9"],
            "--rate 0.9: by --mechanism mar at most 0.57 of these cells can be hidden, as what decides must stay "
            "observed",
            "ask for less, or leave a column out of --columns",
        ),
        (
            ["-o", "x", "--mechanism", "mar", "--exclude", "age", "--exclude", "weight"],
            "--mechanism mar needs a column that stays observed, and the table has one column",
            "use --mechanism mcar or mnar",
        ),
    ],
)
def test_refusals_create_nothing(vgi: Vgi, table: Path, flags: list[str], error: str, hint: str) -> None:
    before = sorted(Path().rglob("*"))
    done = vgi("hide", "t.csv", "--id", "id", *flags)
    assert (done.code, done.error, done.hint) == (2, error, hint)
    assert sorted(Path().rglob("*")) == before and done.out == ""


def test_what_is_read_is_not_overwritten(vgi: Vgi, table: Path) -> None:
    Path("trial").mkdir()
    table.rename("trial/table.csv")
    done = vgi("hide", "trial/table.csv", "--force", "-o", "trial")
    assert (done.code, done.error) == (2, "trial/table.csv is the table that is read")
    Path("same.csv").write_text("a,b\n1,x\n1,\n")
    done = vgi("hide", "same.csv", "-o", "x")
    assert (done.code, done.error) == (2, "same.csv: no column varies, so that nothing could fill a hole")
    assert vgi("hide", "nothing.csv", "-o", "x").error == "nothing.csv: no such file"
