"""`vgi impute --leave-blank`: holes that stay where a question was not asked."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vgi_cli
from tests.program import Vgi
from vgi_cli.columns.schema import Schema
from vgi_cli.commands.unasked import UnaskedCells
from vgi_cli.errors import UsageError
from vgi_cli.reporting import Lines

N = 240
RULES = {"cigarettes": "smoke=no", "brand": "smoke=no", "income": ["age<18", "age>70"]}
FLAGS = [
    "--leave-blank",
    "cigarettes,brand:smoke=no",
    "--leave-blank",
    "income:age<18",
    "--leave-blank",
    "income:age>70",
]


def survey() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    smoke, age = rng.choice(["no", "yes"], N, p=[0.6, 0.4]), rng.integers(10, 80, N)
    frame = pd.DataFrame(
        {
            "smoke": smoke,
            "age": age.astype(float),
            "cigarettes": np.where(smoke == "no", np.nan, 1 + rng.poisson(9, N)),
            "brand": np.where(smoke == "no", None, rng.choice(["u", "v"], N)),
            "income": np.where((age < 18) | (age > 70), np.nan, rng.normal(2000, 300, N).round(2)),
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("blank")
    survey().to_csv(where / "t.csv", index=False, na_rep="NA")
    settings = {"model.components": 1, "bootstrap": "none", "trees": "none"}
    vgi_cli.fit(where / "t.csv", model="mixture", set=settings, out=where / "run")
    return where


def blank(filled: pd.DataFrame) -> pd.DataFrame:
    """Where holes should be, by what the filled table says."""
    unasked = filled.smoke == "no"
    away = (filled.age < 18) | (filled.age > 70)
    return pd.DataFrame({"smoke": False, "age": False, "cigarettes": unasked, "brand": unasked, "income": away})


def as_it_should(filled: pd.DataFrame, plain: pd.DataFrame) -> None:
    """`plain`: the same draw without the rules."""
    holes = survey().isna()
    pd.testing.assert_frame_equal(filled.isna(), blank(plain) & holes)
    pd.testing.assert_frame_equal(filled, plain.mask(filled.isna()), check_dtype=False)


def test_holes_stay_in_every_layout(folder: Path, vgi: Vgi) -> None:
    at = ["impute", "--checkpoint", folder / "run", "--m", 2, "--force"]
    vgi(*at, "-o", folder / "plain.csv")
    plain = [pd.read_csv(folder / f"plain.{k}.csv") for k in (1, 2)]
    assert not any(table.isna().any().any() for table in plain)
    said = vgi(*at, "-o", folder / "own.csv", *FLAGS)
    own = [pd.read_csv(folder / f"own.{k}.csv") for k in (1, 2)]
    for filled, whole in zip(own, plain, strict=True):
        as_it_should(filled, whole)
    holes = survey().isna()
    stay = [int((blank(whole) & holes).sum().sum()) for whole in plain]
    total = int(holes.sum().sum())
    left = f"{total - max(stay)} to {total - min(stay)}" if len(set(stay)) > 1 else f"{total - stay[0]}"
    assert f"filled {left} of {total} holes in each of 2 tables" in said.err
    ages = [int(((whole.age < 18) & holes.income).sum()) for whole in plain]
    assert f"--leave-blank income:age<18: {min(ages)}" in said.err
    header = (folder / "own.1.csv").read_text().splitlines()
    source = (folder / "t.csv").read_text().splitlines()
    for row in range(N):  # a hole that stays is written as it was, an observed cell too
        for a, b, hole in zip(
            source[row + 1].split(","), header[row + 1].split(","), own[0].iloc[row].isna(), strict=True
        ):
            assert a == b or (a == "NA" and not hole)
    vgi(*at, "-o", folder / "long.csv", "--format", "long", *FLAGS)
    long = pd.read_csv(folder / "long.csv", keep_default_na=True)
    for k in (1, 2):
        part = long[long[".imp"] == k].drop(columns=[".imp", ".id"]).reset_index(drop=True)
        as_it_should(part, plain[k - 1])
    vgi(*at, "-o", folder / "mids.csv", "--format", "mids-csv", *FLAGS)
    mids = pd.read_csv(folder / "mids.csv")
    as_it_should(mids[mids[".imp"] == 2][survey().columns].reset_index(drop=True), plain[1])


def test_fills_of_rows_that_are_not_asked_are_counted(folder: Path, vgi: Vgi) -> None:
    frame = survey()
    schema = json.loads((folder / "run" / "schema.json").read_text())
    assert [(one["name"], one["others"]) for one in schema["skips"]] == [("smoke", ["cigarettes", "brand"])]
    away = (frame.age < 18) | (frame.age > 70)  # of who has no age it is not known
    asked = {one["side"]: one["limit"] for one in schema["thresholds"]}
    assert away.sum() == ((frame.age < asked["below"]) | (frame.age > asked["above"])).sum()
    unasked = [*[frame[name].isna() & (frame.smoke == "no") for name in ("cigarettes", "brand")], away]
    smoke, ages = "cigarettes,brand:smoke=no", [f"income:age>{asked['above']}", f"income:age<{asked['below']}"]
    at = ["impute", "--checkpoint", folder / "run", "--m", 2, "--force", "-o", folder / "n.csv"]
    words = "fills in each table lie in rows that may not have been asked"

    def said(*flags: str) -> list[str]:
        lines = vgi(*at, *(word for flag in flags for word in ("--leave-blank", flag))).err.splitlines()
        return [line for line in lines if "may not have been asked" in line]

    (line,) = said()
    flags = f"--leave-blank {smoke} --leave-blank '{ages[0]}' --leave-blank '{ages[1]}'"
    assert line.startswith(f"warning: {sum(map(sum, unasked))} {words}") and f"`vgi impute {flags}` leaves them" in line
    (line,) = said(smoke)
    assert line.startswith(f"warning: {away.sum()} {words}") and smoke not in line and f"'{ages[1]}'`" in line
    assert not said(smoke, *ages)
    (line,) = said(smoke, "income:age<18", ages[1])
    assert line.startswith(f"warning: {(frame.age > 70).sum()} {words}")
    frame[~away & (frame.smoke != "no")].to_csv(folder / "asked.csv", index=False, na_rep="NA")
    at[1:1] = [folder / "asked.csv"]
    assert not said()


def smokers() -> pd.DataFrame:
    """Whether somebody ever smoked, then still does, then how much; each is asked of those that said yes alone."""
    rng = np.random.default_rng(1)
    ever, now = rng.random(N) < 0.5, rng.random(N) < 0.4
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, N).astype(float),
            "ever": np.where(ever, "yes", "no"),
            "now": np.where(ever, np.where(now, "yes", "no"), None),
            "cigs": np.where(ever & now, 1 + rng.poisson(9, N), np.nan),
        }
    )
    return frame.mask(rng.random(frame.shape) < [0.05, 0.03, 0.05, 0.1])


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("nested")
    smokers().to_csv(where / "t.csv", index=False)
    settings = {"model.components": 1, "bootstrap": "none", "trees": "none"}
    vgi_cli.fit(where / "t.csv", model="mixture", set=settings, out=where / "run")
    return where


NESTED = ["--leave-blank", "cigs:now=no", "--leave-blank", "now:ever=no"]


def test_a_question_behind_one_that_stays_blank_stays_blank(nested: Path, vgi: Vgi) -> None:
    at = ["impute", "--checkpoint", nested / "run", "--m", 2, "--force", "-o", nested / "o.csv"]
    said = vgi(*at, *NESTED).err
    tables = [pd.read_csv(nested / f"o.{k}.csv") for k in (1, 2)]
    for one in tables:
        never = one.ever == "no"
        assert never.sum() > 50 and one.now[never & smokers().now.isna()].isna().all()
        assert one.cigs[never & smokers().cigs.isna()].isna().all()
        assert one[one.now == "yes"].notna().all(axis=None) and one.now[~never].notna().all()

    def counted(stay: list[int]) -> str:
        return f"{min(stay)} to {max(stay)}" if min(stay) < max(stay) else f"{stay[0]}"

    for name, rule in (("cigs", "cigs:now=no"), ("now", "now:ever=no")):
        assert f"--leave-blank {rule}: {counted([int(one[name].isna().sum()) for one in tables])} holes stay" in said
    total = int(smokers().isna().sum().sum())
    assert f"filled {counted([total - int(one.isna().sum().sum()) for one in tables])} of {total} holes" in said


def test_synthetic_questions_behind_one_that_stays_blank_stay_blank(nested: Path, vgi: Vgi) -> None:
    drawn = pd.read_csv(io.StringIO(vgi("sample", nested / "run", "-n", "200", *NESTED).out))
    never = drawn.ever == "no"
    pd.testing.assert_series_equal(drawn.now.isna(), never, check_names=False)
    pd.testing.assert_series_equal(drawn.cigs.isna(), never | (drawn.now == "no"), check_names=False)
    assert never.sum() > 50 and (drawn.now == "no").sum() > 20


def test_fills_behind_a_question_that_was_not_asked_are_counted(nested: Path, vgi: Vgi) -> None:
    frame = smokers()
    at = ["impute", "--checkpoint", nested / "run", "--m", 4, "--force", "-o", nested / "n.csv"]

    def said(*flags: str) -> list[str]:
        return [line for line in vgi(*at, *flags).err.splitlines() if "may not have been asked" in line]

    never, quit = frame.ever == "no", frame.now == "no"
    assert frame.now[never].isna().all() and frame.cigs[never | quit].isna().all() and not (never & quit).any()
    count = 2 * int(never.sum()) + int(quit.sum())
    (line,) = said()
    assert line.startswith(
        f"warning: {count} fills in each table lie in rows that may not have been asked: by an observed cell of the "
        "row, no such row of the fit has an answer there, or to the question before it; if the question does not apply"
    )
    assert line.endswith("(`vgi impute --leave-blank now:ever=no --leave-blank cigs:now=no` leaves them blank)")
    assert not said(*NESTED)
    (line,) = said("--leave-blank", "now:ever=no")
    assert (
        line.startswith(f"warning: {count - int(never.sum())} fills")
        and "`vgi impute --leave-blank cigs:now=no`" in line
    )
    (line,) = said("--leave-blank", "now:ever=no", "--leave-blank", "cigs:ever=no")
    assert line.startswith(f"warning: {quit.sum()} fills") and "there; if" in line


def test_synthetic_rows_have_no_answers_where_they_are_not_asked(nested: Path, folder: Path, vgi: Vgi) -> None:
    def said(run: Path, *flags: str) -> list[str]:
        lines = vgi("sample", run, "-n", 200, "-o", run.parent / "s.csv", "--force", *flags).err.splitlines()
        return [line for line in lines if "left blank" in line]

    (line,) = said(nested / "run")
    drawn = pd.read_csv(nested / "s.csv")
    never, quit = drawn.ever == "no", drawn.now == "no"
    assert never.any() and quit.any()
    cells = int(never.sum() + (never | quit).sum())
    assert line == (
        f"{cells} cells of columns 'now', 'cigs' are left blank: by another cell of the row, no such row of the fit "
        "has one there"
    )
    assert (drawn.now.isna() == never).all() and (drawn.cigs.isna() == (never | quit)).all()
    assert not said(nested / "run", *NESTED)
    (line,) = said(nested / "run", "--missing")
    drawn = pd.read_csv(nested / "s.csv")
    assert int(line.split()[0]) < cells and drawn.now[drawn.ever == "no"].isna().all()
    (line,) = said(folder / "run")
    drawn = pd.read_csv(folder / "s.csv")
    schema = json.loads((folder / "run" / "schema.json").read_text())
    asked = {one["side"]: one["limit"] for one in schema["thresholds"]}
    away = (drawn.age < asked["below"]) | (drawn.age > asked["above"])
    assert line.startswith(f"{2 * (drawn.smoke == 'no').sum() + away.sum()} cells of columns ")


def bookings() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    status = np.array(["No-Show"] * 11 + ["Canceled"] * 80 + ["Check-Out"] * 149)
    out = status == "Check-Out"
    stars, extras = rng.normal(4, 1, N), rng.gamma(2, 30, N).round(1)
    frame = pd.DataFrame({"lead": rng.gamma(1.2, 40, N).round(), "status": status, "stars": stars, "extras": extras})
    frame.loc[~out, ["stars", "extras"]] = np.nan
    return frame.mask(rng.random(frame.shape) < [0.05, 0, 0.1, 0.2])


def test_a_fit_and_its_fills_name_the_same_flags(tmp_path: Path, vgi: Vgi) -> None:
    bookings().to_csv(tmp_path / "t.csv", index=False)
    at = ["--model", "mixture", "--set", "bootstrap=none", "--set", "trees=none", "--set", "model.components=1"]
    fitted = vgi("fit", tmp_path / "t.csv", *at, "--out", tmp_path / "run").err
    flags = "--leave-blank 'stars,extras:status!=Check-Out'"
    assert f"(`vgi impute {flags}` leaves them blank)" in fitted
    schema = json.loads((tmp_path / "run" / "schema.json").read_text())
    assert [one["level"] for one in schema["skips"]] == [0]  # of so few that did not come it is not sure
    at = ["impute", "--checkpoint", tmp_path / "run", "--m", 1, "-o", tmp_path / "o.csv", "--force"]
    said = vgi(*at).err
    assert f"warning: {2 * 91} fills lie in rows" in said and f"(`vgi impute {flags}` leaves them blank)" in said
    assert "may not have been asked" not in vgi(*at, "--leave-blank", "stars,extras:status!=Check-Out").err
    del schema["unanswered"]  # as earlier versions wrote it
    read = Schema.from_json(json.dumps(schema))
    unasked, missing = UnaskedCells(read), np.ones((3, len(read.modelled)), bool)
    codes = np.tile(np.arange(3.0)[:, None], len(read.modelled))
    unasked.count(codes, missing, missing)
    lines: list[str] = []
    unasked.say(Lines(lines.append), 1)
    assert len(lines) == 1 and "--leave-blank stars,extras:status=Canceled`" in lines[0]


def test_parquet_keeps_its_types(folder: Path, vgi: Vgi) -> None:
    frame = survey()
    columns = {name: pa.array(frame[name], from_pandas=True) for name in frame}
    columns["cigarettes"] = columns["cigarettes"].cast(pa.int16())
    columns["brand"] = columns["brand"].dictionary_encode()
    pq.write_table(pa.table(columns), folder / "t.parquet")
    at = ["impute", folder / "t.parquet", "--checkpoint", folder / "run", "--format", "single", "--force"]
    assert vgi(*at, "-o", folder / "o.parquet", *FLAGS).code == 0
    table = pq.read_table(folder / "o.parquet")
    assert [str(table.schema.field(name).type) for name in ("cigarettes", "income")] == ["int16", "double"]
    assert pa.types.is_dictionary(table.schema.field("brand").type)
    (plain,) = vgi_cli.impute(folder / "run", folder / "t.parquet", m=1)
    as_it_should(table.to_pandas().astype({"brand": object}), plain.astype({"brand": object}))


def test_a_cell_that_a_mask_hides_stays_hidden(folder: Path, vgi: Vgi) -> None:
    frame = survey()
    hidden = pd.DataFrame(False, frame.index, frame.columns)
    rows = frame.index[(frame.age < 18) & frame.smoke.notna()][:4]
    frame.loc[rows, "income"] = 777.77
    hidden.loc[rows, "income"] = True
    (~hidden).astype(int).to_csv(folder / "mask.csv", index=False)
    for suffix in ("csv", "parquet"):
        source, path = folder / f"h.{suffix}", folder / f"ho.{suffix}"
        (frame.to_csv(source, index=False) if suffix == "csv" else frame.to_parquet(source))
        at = ["--mask", folder / "mask.csv", "--checkpoint", folder / "run", "--format", "single", "-o", path]
        assert vgi("impute", source, *at, *FLAGS).code == 0
        filled = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
        assert filled.income[rows].isna().all() and filled.age.notna().all()


def test_frames_and_points(folder: Path) -> None:
    run = vgi_cli.load(folder / "run")
    for filled, plain in zip(run.impute(m=3, leave_blank=RULES), run.impute(m=3), strict=True):
        as_it_should(filled, plain)
    (point,), (whole,) = (run.impute(point="median", m=3, **own) for own in ({"leave_blank": RULES}, {}))
    as_it_should(point, whole)
    (arrow,) = run.impute(pa.Table.from_pandas(survey()), m=1, leave_blank=RULES)
    whole = run.impute(survey(), m=1)[0]
    assert arrow.column("income").null_count == blank(whole).income[survey().income.isna()].sum()


def test_synthetic_rows_have_blanks_too(folder: Path, vgi: Vgi) -> None:
    drawn = pd.read_csv(io.StringIO(vgi("sample", folder / "run", "-n", "200", *FLAGS).out))
    whole = pd.read_csv(io.StringIO(vgi("sample", folder / "run", "-n", "200").out))
    pd.testing.assert_frame_equal(drawn.isna(), blank(whole))
    pd.testing.assert_frame_equal(drawn, whole.mask(drawn.isna()), check_dtype=False)
    frame = vgi_cli.sample(folder / "run", n=200, leave_blank=RULES)
    pd.testing.assert_frame_equal(frame.isna(), blank(whole))
    said = vgi("sample", folder / "run", "--leave-blank", "age:income")
    assert said.code == 2 and said.error.startswith("--leave-blank: expected COL:OTHER=LEVEL")


def test_the_dry_run_says_so(folder: Path, vgi: Vgi) -> None:
    said = vgi("impute", "--checkpoint", folder / "run", "--dry-run", *FLAGS).out
    assert "left blank" in said and "cigarettes,brand:smoke=no\n" in said and "income:age<18\n" in said


def test_the_dry_run_counts_what_stays(nested: Path, folder: Path, vgi: Vgi) -> None:
    frame = smokers()
    total = int(frame.isna().sum().sum())

    def told(run: Path, *flags: str) -> dict[str, str]:
        lines = vgi("impute", "--checkpoint", run, "--dry-run", *flags).out.splitlines()
        return {line[:22].strip(): line[22:].strip() for line in lines}

    plan = told(nested / "run", *NESTED)
    never, unknown = frame.ever == "no", frame.ever.isna() & frame.now.isna()
    cigs = frame.cigs.isna()
    least = int((never & frame.now.isna()).sum() + (cigs & (never | (frame.now == "no"))).sum())
    most = least + int(unknown.sum() + (cigs & ~never & frame.now.isna()).sum())
    assert plan["would be filled"].startswith(f"{total - most} to {total - least} of {total} holes, in ")
    assert plan["would stay"] == f"{least} to {most} by --leave-blank, by what the columns that decide are filled with"
    vgi("impute", "--checkpoint", nested / "run", "--m", 3, "--force", "-o", nested / "d.csv", *NESTED)
    stay = [int(pd.read_csv(nested / f"d.{k}.csv").isna().sum().sum()) for k in (1, 2, 3)]
    assert least <= min(stay) and max(stay) <= most
    assert told(nested / "run")["would stay"] == "none"
    known = frame[frame.ever.notna() & frame.age.notna()]
    known.to_csv(nested / "known.csv", index=False)
    plan = told(nested / "run", nested / "known.csv", "--leave-blank", "now:ever=no")
    holes = int((known.ever == "no").sum())
    assert plan["would stay"] == f"{holes} by --leave-blank"
    assert plan["would be filled"].startswith(f"{known.isna().sum().sum() - holes} of {known.isna().sum().sum()} holes")


def test_numbers_are_said_as_the_table_writes_them(tmp_path: Path, vgi: Vgi) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"corg": rng.gamma(2, 0.5, 80).round(2), "humus": rng.gamma(2, 1, 80).round(2)})
    frame.loc[::4, "humus"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    at = ["--delimiter", ";", "--decimal", ",", "--set", "bootstrap=none", "--set", "model.components=1"]
    assert vgi("fit", tmp_path / "t.csv", *at, "--model", "mixture", "--out", tmp_path / "run").code == 0
    low = int((frame.corg < 0.8)[::4].sum())
    at = ["impute", "--checkpoint", tmp_path / "run", "--m", 1, "-o", tmp_path / "o.csv", "--force"]
    for said in ("humus:corg<0,80", "humus:corg<0.8"):
        done = vgi(*at, "--leave-blank", said)
        assert done.code == 0 and f"--leave-blank {said}: {low} holes stay" in done.err
        drawn = vgi("sample", tmp_path / "run", "-n", 20, "--leave-blank", said)
        filled = pd.read_csv(io.StringIO(drawn.out), sep=";", decimal=",")
        pd.testing.assert_series_equal(filled.humus.isna(), filled.corg < 0.8, check_names=False)


def test_wrong_rules_are_refused_before_any_work(folder: Path, vgi: Vgi) -> None:
    out = folder / "none.csv"
    for command in (["-o", out], ["--dry-run"]):
        said = vgi("impute", "--checkpoint", folder / "run", *command, "--leave-blank", "income:ages<18")
        assert said.code == 2 and said.error == "--leave-blank income:ages<18: column 'ages' is none of the run"
    assert not list(folder.glob("none*"))
    with pytest.raises(UsageError, match="leave_blank: expected a mapping, got str"):
        vgi_cli.load(folder / "run").impute(leave_blank="income:age<18")


def test_a_row_keeps_to_what_holds_where_the_cell_stays_blank(tmp_path: Path, vgi: Vgi) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"base": 50 * rng.integers(1, 20, 150), "extra": rng.choice([0, 10, 50], 150)})
    frame["total"] = frame.base + frame.extra
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    settings = {"model.components": 1, "bootstrap": "none"}
    run = vgi_cli.fit(frame, out=tmp_path / "run", model="mixture", set=settings)
    new = pd.DataFrame({"base": [100, 1234, 1234], "extra": [30, 50, 10], "total": np.nan})  # all totals are tens
    kept = "keep to what holds in every row of the fit"

    def said(**own: object) -> list[str]:
        lines: list[str] = []
        run.impute(new, m=2, say=lines.append, **own)  # type: ignore[arg-type]
        return [line.split(":")[0] for line in lines if kept in line]

    for point, of in ((None, "rows of the 2 filled tables together"), ("median", "filled rows")):
        both = {"point": point}
        assert said(**both) == [f"{2 if point else 4} {of} do not {kept}"]
        one = "filled row does" if point else f"{of} do"
        assert said(**both, leave_blank={"total": "extra>20"}) == [f"{1 if point else 2} {one} not {kept}"]
        assert not said(**both, leave_blank={"total": "base>1000"})
    new.to_csv(tmp_path / "new.csv", index=False)
    at = ["impute", tmp_path / "new.csv", "--checkpoint", tmp_path / "run", "--m", 2, "-o", tmp_path / "o.csv"]
    assert f"4 rows of the 2 filled tables together do not {kept}" in vgi(*at).err
    assert kept not in vgi(*at, "--force", "--leave-blank", "total:base>1000").err
