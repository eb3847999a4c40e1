"""The Python twins: paths and tables in memory, with the answers of the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import vgi_cli
from vgi_cli.errors import InputError, RunError, UsageError


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.normal(size=80)
    frame = pd.DataFrame({"name": [f"r{i}" for i in range(80)], "a": z, "b": 2 * z + rng.normal(size=80)})
    frame["count"] = np.round(5 + z).astype("float64")
    frame.loc[3:9, "b"] = np.nan
    frame.loc[7:20, "count"] = np.nan
    return frame


@pytest.fixture
def fitted(frame: pd.DataFrame, tmp_path: Path) -> vgi_cli.Run:
    return vgi_cli.fit(frame, out=tmp_path / "fitted", **FIT)


FIT = {"model": "fa", "set": {"model.factors": 1, "bootstrap": 3}, "threads": 1}


def test_the_package_is_lazy() -> None:
    code = "import vgi_cli, sys; print(vgi_cli.__version__, dir(vgi_cli)); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'fits'"):
        vgi_cli.fits  # noqa: B018


def test_a_frame_is_fitted_imputed_and_evaluated(frame: pd.DataFrame, tmp_path: Path) -> None:
    said: list[str] = []
    run = vgi_cli.fit(frame, out=tmp_path / "run", id=["name"], say=said.append, **FIT)
    assert run.path == tmp_path / "run" and run.manifest["stopped_by"] == "converged"
    tables = run.impute(m=3, say=said.append)
    assert len(tables) == 3 and "the draws include the uncertainty of the fit: 3 bootstrap refits by em" in said
    for table in tables:
        assert not table[["a", "b", "count"]].isna().any().any()
        observed = frame.notna().to_numpy()
        assert (table.to_numpy()[observed] == frame.to_numpy()[observed]).all()
        assert (table["count"] == table["count"].round()).all()
    assert not tables[0].equals(tables[1])
    again = vgi_cli.impute(tmp_path / "run", frame, m=1)
    pd.testing.assert_frame_equal(again[0], tables[0])
    report = run.evaluate(frame)
    assert report["loglik"]["estimator"] == "exact" and report["rows"] == 80
    assert not (run.path / "evaluations").exists()
    assert run.model().log_prob.__self__ is not None


def test_rows_that_are_imputed_one_per_call_have_noise_of_their_own(frame: pd.DataFrame, tmp_path: Path) -> None:
    """What is measured is all but equal in the rows: with shared noise, so were the fills."""
    settings = {"model.factors": 1, "bootstrap": "none"}
    run = vgi_cli.fit(frame.drop(columns="name"), out=tmp_path / "run", model="fa", set=settings, threads=1)
    new = pd.DataFrame({"a": [0.1, 0.1 + 1e-9, 0.1, 0.1], "b": np.nan, "count": 5.0, "note": ["x", "x", "z", "x"]})

    def fills(rows: pd.DataFrame, **options: object) -> list[float]:
        return run.impute(rows, m=1, **options)[0]["b"].tolist()

    one = [fills(new[i : i + 1])[0] for i in range(4)]
    assert min(abs(one[i] - one[j]) for i in range(3) for j in range(i)) > 0.01
    assert one[3] == one[0] == fills(new[:1])[0]  # the same row, the same call: the same fill
    assert fills(new[:1], seed=1)[0] != one[0]
    whole = fills(new.iloc[::-1])[::-1]
    assert whole[1:] == one[1:] and abs(whole[0] - whole[3]) > 0.01  # the second of two that are equal
    shuffled = new[["note", "count", "a", "b"]].astype({"count": "Int64"}).set_index(pd.Index([7, 9, 2, 5]))
    assert fills(shuffled)[:3] == one[:3]
    (path,) = run.impute(new[1:2], m=1, out=tmp_path / "out.csv")
    assert pd.read_csv(path)["b"][0] == fills(new[1:2])[0]


def test_the_long_table_in_memory(frame: pd.DataFrame, tmp_path: Path) -> None:
    data = frame.set_index(frame.index**2).astype({"name": "category"})  # an index and a type of pandas' own
    run = vgi_cli.fit(data, out=tmp_path / "run", **FIT)
    tables, long = run.impute(m=2), run.impute(m=2, format="long")
    assert [*long.columns] == [*data.columns, ".imp", ".id"] and [*long.index] == 3 * [*data.index]
    assert isinstance(long["name"].dtype, pd.CategoricalDtype) and long.index.name is None
    assert long[".id"].tolist() == 3 * list(range(1, 81)) and long[".imp"].tolist() == [0] * 80 + [1] * 80 + [2] * 80
    assert long["b"][long[".imp"] == 0].isna().tolist() == data["b"].isna().tolist()
    for number, table in enumerate(tables, 1):
        part = long[long[".imp"] == number]
        assert (part[["a", "b", "count"]].to_numpy() == table[["a", "b", "count"]].to_numpy()).all()
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    bare = vgi_cli.impute(run, arrow, m=2, format="long", original=False)
    assert isinstance(bare, pa.Table) and bare.num_rows == 160 and bare.column("b").null_count == 0
    with pytest.raises(InputError, match=r"the table: has a column '\.id', which the long layout adds"):
        run.impute(data.assign(**{".id": 1}), format="long")
    with pytest.raises(UsageError, match="--format mids-csv is a file") as caught:
        run.impute(format="mids-csv")
    assert caught.value.hint == "name it with out=, or take format='long'"
    (path,) = run.impute(m=1, format="mids-csv", out=tmp_path / "mids.csv")
    assert pd.read_csv(path)[".imp"].tolist() == [0] * 80 + [1] * 80


def test_a_truth_in_memory_scores_the_imputations(frame: pd.DataFrame, tmp_path: Path) -> None:
    run = vgi_cli.fit(frame, out=tmp_path / "run", **FIT)
    truth = frame.assign(b=frame["b"].fillna(0.0), count=frame["count"].fillna(5.0))
    report = vgi_cli.evaluate(run, frame, truth=truth, out=tmp_path / "report")
    assert set(report["imputation"]["columns"]) == {"b", "count"}
    assert (tmp_path / "report" / "report.json").exists()


def test_a_run_is_a_truth_and_conditionals_are_compared(frame: pd.DataFrame, tmp_path: Path) -> None:
    columns = ["name", "a", "b"]
    run = vgi_cli.fit(frame[columns], out=tmp_path / "em", **FIT)
    small = {"model.factors": 1, "bootstrap": "none", "optim.warmup_conditionals": 1, "optim.warmup_model": 1}
    other = vgi_cli.fit(frame[columns], out=tmp_path / "vgi", model="fa", method="vgi", set=small, epochs=1, threads=1)
    report = other.evaluate(frame, truth_model=run, conditionals=True)
    assert report["truth"]["kl"] > 0 and report["truth"]["model"] == str(run.path)
    assert set(report["conditionals"]["columns"]) == {"b"} and report["conditionals"]["rows"] == 80
    with pytest.raises(UsageError, match="no conditionals to compare"):
        run.evaluate(frame, conditionals=True)


def test_an_arrow_table_gives_arrow_tables(frame: pd.DataFrame, tmp_path: Path) -> None:
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    run = vgi_cli.fit(arrow, out=tmp_path / "run", **FIT)
    (table,) = vgi_cli.impute(run.path, arrow, m=1)
    assert isinstance(table, pa.Table) and table.column("b").null_count == 0
    (again,) = run.impute(m=1)
    assert isinstance(again, pa.Table) and again.equals(table)
    assert isinstance(run.impute(m=1, format="long"), pa.Table)
    assert isinstance(run.impute(frame, m=1)[0], pd.DataFrame)
    arrow_file = tmp_path / "t.parquet"
    pq.write_table(arrow, arrow_file)
    assert isinstance(run.impute(arrow_file, m=1)[0], pd.DataFrame)
    of_files = vgi_cli.fit(arrow_file, out=tmp_path / "other", **FIT)
    assert isinstance(of_files.impute(m=1)[0], pd.DataFrame)
    assert isinstance(vgi_cli.load(of_files.path).impute(m=1)[0], pd.DataFrame)


def test_paths_give_what_the_commands_give(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "data.csv", index=False)
    run = vgi_cli.fit(tmp_path / "data.csv", out=tmp_path / "run", exclude=["name"], **FIT)
    (path,) = run.impute(out=tmp_path / "filled.csv", format="single", m=1)
    (filled,) = vgi_cli.load(tmp_path / "run").impute(m=1)
    pd.testing.assert_frame_equal(pd.read_csv(path), filled, check_dtype=False)
    (mean,) = run.impute(point="mean", m=4)
    assert not mean[["a", "b", "count"]].isna().any().any()


def test_refusals(frame: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"model fa disagrees with set\['model.name'\] 'flow'"):
        vgi_cli.fit(frame, model="fa", set={"model.name": "flow"})
    with pytest.raises(InputError, match="the table in memory is empty"):
        vgi_cli.fit(pd.DataFrame({"a": []}))
    with pytest.raises(InputError, match="the table in memory: column 'a' holds cells of several types"):
        vgi_cli.fit(pd.DataFrame({"a": [1, "x", object()]}))
    with pytest.raises(RunError, match="no run at"):
        vgi_cli.load(tmp_path / "none")
    vgi_cli.fit(frame, out=tmp_path / "run", **FIT)
    with pytest.raises(UsageError, match="the run was fitted on a table in memory, which it does not keep"):
        vgi_cli.impute(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_fine_tuning_a_frame(frame: pd.DataFrame, tmp_path: Path) -> None:
    small = {"optim.warmup_conditionals": 1, "optim.warmup_model": 1, "method.trunk": [8], "method.hidden": [8]}
    run = vgi_cli.fit(
        frame, model="fa", method="vgi", epochs=2, set={"model.factors": 1, "bootstrap": "none", **small},
        threads=1, out=tmp_path / "run",
    )  # fmt: skip
    tuned = run.finetune(frame.iloc[:30], epochs=1, out=tmp_path / "tuned")
    assert tuned.manifest["command"] == "finetune" and "finetuned_objective" in tuned.manifest
    assert len(tuned.impute(m=1, sampler="chains")[0]) == 30


def test_one_name_is_a_name_and_not_its_letters(tmp_path: Path, frame: pd.DataFrame) -> None:
    run = vgi_cli.fit(frame, out=tmp_path / "run", id="name", exclude="a", **FIT)
    schema = json.loads((run.path / "schema.json").read_text())
    roles = {column["name"]: column["role"] for column in schema["columns"]}
    assert (roles["name"], roles["a"]) == ("id", "exclude")
    with pytest.raises(UsageError, match="--id nme: the table has no such column"):
        vgi_cli.fit(frame, id="nme", **FIT)


def test_paths_may_come_from_anywhere(tmp_path: Path, frame: pd.DataFrame) -> None:
    for part in range(2):
        frame[40 * part : 40 * part + 40].to_csv(tmp_path / f"part{part}.csv", index=False)
    run = vgi_cli.fit((path for path in sorted(tmp_path.glob("*.csv"))), out=tmp_path / "run", exclude=["name"], **FIT)
    assert run.manifest["data"]["rows"] == 80
    with pytest.raises(UsageError, match="truth: expected paths"):
        run.evaluate(frame, truth=np.zeros(3))


def test_what_exports_arrow_is_a_table(frame: pd.DataFrame, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    given = polars.from_pandas(frame)
    run = vgi_cli.fit(given, out=tmp_path / "run", exclude=["name"], **FIT)
    filled = run.impute(given, m=2)
    assert all(one.equals(other) for one, other in zip(run.impute(m=2), filled, strict=True))
    assert isinstance(run.impute(m=2, format="long"), polars.DataFrame)
    assert all(isinstance(one, polars.DataFrame) and one.columns == given.columns for one in filled)
    arrow = vgi_cli.fit(given.to_arrow(), out=tmp_path / "other", exclude=["name"], **FIT).impute(given, m=1)
    assert arrow[0].equals(filled[0])
    assert isinstance(run.score(given), polars.DataFrame)
    with pytest.raises(UsageError, match="got LazyFrame") as refused:
        vgi_cli.fit(given.lazy(), **FIT)
    assert ".collect() makes a table of it" in str(refused.value.hint)


def test_numbers_in_another_order_of_bytes(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Those of FITS are big-endian; an index of such numbers is carried as any."""
    plain = frame.set_index(pd.Index(np.arange(80) + 7, name="number")).drop(columns="name")
    foreign = plain.astype({"a": ">f8", "b": ">f4"}).set_axis(plain.index.astype(">i8"))
    native = plain.astype({"a": "f8", "b": "f4"})
    before = foreign.copy()
    run = vgi_cli.fit(foreign, out=tmp_path / "run", **FIT)
    (filled,), (expected,) = run.impute(m=1), vgi_cli.fit(native, out=tmp_path / "other", **FIT).impute(m=1)
    pd.testing.assert_frame_equal(filled, expected)
    assert (foreign.dtypes == before.dtypes).all() and foreign.equals(before)


@pytest.mark.parametrize("data", [np.zeros((3, 2)), pd.Series([1.0]), {"a": [1]}, [1, 2], 5])
def test_what_is_no_table_is_refused(data: object) -> None:
    with pytest.raises(UsageError, match=f"expected paths, a pandas .* got {type(data).__name__}"):
        vgi_cli.fit(data, **FIT)


@pytest.mark.parametrize("model", ["fa", "mixture"])
def test_zeros_of_a_column_with_many_zeros_are_drawn_as_often_as_they_occur(model: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(size=(600, 2))
    spent = np.maximum(1.5 * z[:, 0] + rng.normal(size=600) - 0.5, 0.0)  # 62 % zeros, fewer where z is large
    truth = pd.DataFrame({"z": z[:, 0], "spent": spent, "other": z[:, 1]})
    hidden = rng.random(truth.shape) < 0.3
    size = {"bootstrap": "none", **({"model.components": 5} if model == "mixture" else {})}
    run = vgi_cli.fit(truth.mask(hidden), model=model, set=size, out=tmp_path / "run", threads=1)
    draws = [draw["spent"][hidden[:, 1]] for draw in run.impute(m=5)]
    own, high = truth["spent"][hidden[:, 1]], truth["z"][hidden[:, 1]] > 0.5
    assert np.mean([(draw == 0).mean() for draw in draws]) == pytest.approx((own == 0).mean(), abs=0.12)
    assert all((draw >= 0).all() for draw in draws)
    assert np.mean([(draw[high] == 0).mean() for draw in draws]) < 0.7 * np.mean([(d == 0).mean() for d in draws])


def test_arguments_of_another_type_are_refused(tmp_path: Path, frame: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match="Run: expected an open run folder, got 'run1'") as caught:
        vgi_cli.Run("run1")
    assert caught.value.hint == "vgi_cli.load(PATH) opens one"
    with pytest.raises(UsageError, match="set: expected a mapping, got list") as caught:
        vgi_cli.fit(frame, set=["model.factors=2"])
    assert caught.value.hint == "for example set={'model.factors': 3}"
    with pytest.raises(UsageError, match="columns: expected a mapping, got str"):
        vgi_cli.fit(frame, columns="a=integer")
    run = vgi_cli.fit(frame, out=tmp_path / "run", **FIT)
    with pytest.raises(UsageError, match="truth_model: expected a Run or a path, got dict") as caught:
        run.evaluate(frame, truth_model={"columns": ["a"]})
    assert caught.value.hint == "name a run, or a JSON file with the parameters of the law"
    with pytest.raises(UsageError, match="checkpoint: expected a Run or a path, got int") as caught:
        vgi_cli.load(5)
    assert caught.value.hint == "name a run folder"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"time_limit": "abc"}, "time_limit: expected a time such as 90, 40s, 30m or 2h, got 'abc'"),
        ({"seed": "x"}, "seed: expected a whole number, got 'x'"),
        ({"val": 2.0}, "val: expected a file or a fraction between 0 and 1, got 2.0"),
        ({"set": {"seed": "x"}}, "set: seed: expected a whole number, got 'x'"),
        ({"out": 3}, "out: expected a path, got int"),
        ({"id": 3}, "id: expected a text or a list of texts, got int"),
        ({"blocks": 3}, "blocks: expected lists of names, or auto, got int"),
        ({"blocks": [3]}, "blocks: expected lists of names, or auto, got list"),
    ],
)
def test_a_setting_is_named_once(frame: pd.DataFrame, said: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        vgi_cli.fit(frame, **said)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("limits", "got", "hint"),
    [
        ((-5, 5), "[-5, 5]", "write '-5:5'"),
        ([0.5, 2], "[0.5, 2]", "write '0.5:2'"),
        (7, "7", "limits are written as 'LOW:HIGH', such as '-5:5'"),
    ],
)
def test_limits_that_are_no_text(frame: pd.DataFrame, limits: Any, got: str, hint: str) -> None:
    for said in ({"bounds": {"a": limits}}, {"set": {"table.bounds": {"a": limits}}}):
        with pytest.raises(UsageError) as caught:
            vgi_cli.fit(frame, **said)
        assert caught.value.message.endswith(f".a: expected a text, got {got}") and caught.value.hint == hint


WHOLE = "expected a whole number from 1 to"


@pytest.mark.parametrize("number", [2.0, 1.5, "3", True, [1]])
def test_numbers_that_are_not_whole_are_refused(fitted: vgi_cli.Run, number: Any) -> None:
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: fitted.impute(m=number), f"--m: {WHOLE} 10000, got {number!r}"),
        (lambda: vgi_cli.impute_batches(fitted, m=number), f"--m: {WHOLE} 10000, got {number!r}"),
        (lambda: fitted.sample(n=number), f"-n: {WHOLE} 100,000,000, got {number!r}"),
        (lambda: fitted.report(rows=number), f"--rows: expected a whole number from 1, or all, got {number!r}"),
    ]
    for call, message in calls:
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.message == message


@pytest.mark.parametrize(
    ("rate", "got"), [("0.2", "'0.2'"), (True, "1"), (1.0, "1"), (float("nan"), "nan"), ([1], "[1]")]
)
def test_rates_that_are_no_share_are_refused(frame: pd.DataFrame, rate: Any, got: str) -> None:
    with pytest.raises(UsageError) as caught:
        vgi_cli.hide(frame, rate=rate)
    assert caught.value.message == f"--rate: expected a share above 0 and below 1, got {got}"


def test_numbers_of_numpy_are_numbers(frame: pd.DataFrame, fitted: vgi_cli.Run, tmp_path: Path) -> None:
    settings = {"model.factors": np.arange(3)[1], "bootstrap": np.int64(3)}
    run = vgi_cli.fit(frame, out=tmp_path / "run", **{**FIT, "set": settings}, seed=np.int64(0), epochs=np.int32(500))
    one, two = run.impute(m=np.int64(1), seed=np.int64(3))[0], fitted.impute(m=1, seed=3)[0]
    pd.testing.assert_frame_equal(one, two)
    assert len(run.sample(n=np.int64(2), seed=np.int8(1))) == 2
    assert run.evaluate(frame, rows=np.int64(5))["rows"] == 80
    hidden = vgi_cli.hide(frame, seed=np.int64(3), rate=np.float64(0.25))
    assert hidden.table.equals(vgi_cli.hide(frame, seed=3, rate=0.25).table)


def test_hints_say_what_makes_a_cell_of_a_table_in_memory_missing(frame: pd.DataFrame, fitted: vgi_cli.Run) -> None:
    """Flags say how files are read."""
    there = "replace such cells by None or NaN"
    with pytest.raises(InputError, match="column 'b' holds an infinity: 'inf' in row 3") as caught:
        vgi_cli.fit(frame.assign(b=frame["b"].where(frame.index != 2, np.inf)), **FIT)
    assert str(caught.value.hint).startswith(f"{there} if that means missing, or `--column b=carry`")
    with pytest.raises(InputError, match="column 'b' is numeric in the fit but holds 'x'") as caught:
        fitted.impute(frame.assign(b=["x"] + 79 * ["1.5"]))
    assert str(caught.value.hint).startswith(f"{there} if that means missing; a fit with")
    dates = pd.DataFrame({"name": frame["name"], "when": pd.date_range("2020-01-01", periods=80).astype(str)})
    dates = dates.assign(a=frame["a"], when=dates["when"].where(frame.index > 4))
    run = vgi_cli.fit(dates, out=fitted.path.parent / "dates", **{**FIT, "model": "mixture", "set": {"bootstrap": 0}})
    with pytest.raises(InputError, match="column 'when' holds dates") as caught:
        run.impute(dates.assign(when="soon"))
    assert str(caught.value.hint).startswith(f"{there} if that means missing, or write it as in the fit")
    codes = [-999.0] * 5
    odd = frame.assign(a=[*codes, 1e9, *frame["a"][6:]], b=[*codes, *frame["b"][5:]])
    odd["level"] = np.where(frame.index % 4 == 0, "unknown", np.where(frame.index % 3 == 0, "x", "y"))
    odd["mostly"] = [*"?" * 3, *map(str, range(77))]
    found = str(vgi_cli.check(odd, trial=False))
    assert found.count(f"{there} if") == 4 and "na-values" not in found


def test_a_column_of_a_type_that_cannot_be_stored_is_named(tmp_path: Path, frame: pd.DataFrame) -> None:
    frame["cut"] = pd.cut(np.arange(len(frame)), 3)
    with pytest.raises(InputError, match="column 'cut': Unsupported cast") as refused:
        vgi_cli.fit(frame, out=tmp_path / "run")
    assert "`.astype(str)`" in str(refused.value.hint)


def test_torch_keeps_its_threads(frame: pd.DataFrame, tmp_path: Path) -> None:
    """They are set for the time of a call alone, whatever becomes of it."""
    said: dict[str, Any] = {"model": "mixture", "set": {"model.components": 1, "bootstrap": "none"}, "threads": 1}
    before = torch.get_num_threads()
    calls: list[Callable[[vgi_cli.Run], Any]] = [
        lambda run: run.impute(m=1, threads=1),
        lambda run: run.score(frame),
        lambda run: run.sample(n=2),
        lambda run: run.evaluate(frame),
        lambda run: run.report(rows=20),
        lambda run: vgi_cli.check(frame),
        lambda run: vgi_cli.hide(frame),
    ]
    try:
        torch.set_num_threads(3)
        run = vgi_cli.fit(frame, out=tmp_path / "run", **said)
        for call in calls:
            call(run)
            assert torch.get_num_threads() == 3
        with pytest.raises(InputError):
            run.score(frame.drop(columns="a"))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
