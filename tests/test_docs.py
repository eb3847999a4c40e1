"""What README, docs and the help promise is run or compared with the code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
import yaml
from pydantic import BaseModel

import vgi_cli
from vgi_cli.cli.app import main
from vgi_cli.cli.commands import COMMANDS as PROGRAM
from vgi_cli.cli.help import GROUPS
from vgi_cli.fitting.refits import COUNT
from vgi_cli.methods.em.bootstrap import MOST_ROWS
from vgi_cli.registry import names as registry
from vgi_cli.settings.problems import range_of
from vgi_cli.settings.recipe import Recipe, TableSettings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETTINGS = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("settings*.md")))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DEVELOPERS = ("design.md",)
LONGEST = 150
"""Lines of a page for users. What experiments showed stands in docs/research/, at any length."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads of torch spin where the tests share few cores; the command line, a process of its own, prevents that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VGI_THREADS", "1")
        yield


# -- docs/settings.md against the settings ---------------------------------------------------------------------------


def documented(title: str) -> dict[str, str]:
    """Key -> default, as the table under `## title` states them ('' where it states none)."""
    section = SETTINGS.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]
    header = next(line for line in section.splitlines() if line.startswith("| key"))
    default = [cell.strip() for cell in header.split("|")[1:-1]].index("default")
    return {row[0].strip("`"): row[default].strip("`") for row in rows}


def defaults(config: type[BaseModel], section: str, *leave_out: str) -> dict[str, Any]:
    """`section.field` -> default, as plain JSON values."""
    values = {name: field.get_default(call_default_factory=True) for name, field in config.model_fields.items()}
    return {f"{section}.{name}": json.loads(json.dumps(v)) for name, v in values.items() if name not in leave_out}


def compare(stated: dict[str, str], actual: dict[str, Any]) -> None:
    assert sorted(stated) == sorted(actual)
    for key, value in actual.items():
        text = stated[key]
        shown = float(text) if isinstance(value, float) else yaml.safe_load(text)
        assert shown == value, f"{key}: docs says {text}, the default is {value}"


@pytest.mark.parametrize("name", registry.MODELS)
def test_settings_page_has_every_key_of_a_model(name: str) -> None:
    compare(documented(f"Model `{name}`"), defaults(registry.MODELS.load(name).Config, "model"))


@pytest.mark.parametrize("name", registry.METHODS)
def test_settings_page_has_every_key_of_a_method(name: str) -> None:
    config = registry.METHODS.load(name).Config
    actual = defaults(config, "method", "optim", "epochs")
    if "optim" in config.model_fields:
        actual |= defaults(type(config.model_fields["optim"].get_default()), "optim")
    like = registry.METHODS[name].traits.like
    if like is not None and registry.METHODS.load(like).Config is config:  # said once
        assert f"`{name}` has the same keys" in SETTINGS.split(f"\n## Method `{like}`\n")[1].split("\n## ")[0]
        name = like
    compare(documented(f"Method `{name}`"), actual)


@pytest.mark.parametrize("name", registry.MODELS)
def test_settings_page_names_what_a_model_has_as_defaults_of_a_method(name: str) -> None:
    """Whoever reads a default of the table learns there that the model has another one."""
    intro = SETTINGS.split("\n## Method `vgi`\n")[1].split("| key")[0]
    for values in registry.MODELS.load(name).method_defaults.values():
        flat = {f"method.{key}": value for key, value in values.items() if key != "optim"}
        flat |= {f"optim.{key}": value for key, value in values.get("optim", {}).items()}
        for key, value in flat.items():
            said = json.dumps(value) if not isinstance(value, str) else value
            assert f"`{name}`" in intro
            assert f"`{key}={said}`" in intro or f"`{key}` is `{said}`" in intro, (key, said)


def test_settings_page_has_every_fixed_key() -> None:
    free = ("model", "method", "optim", "table")
    actual = {name: None for name in Recipe.model_fields if name not in free}
    actual |= {f"table.{name}": None for name in TableSettings.model_fields} | {"model.name": None, "method.name": None}
    stated = documented("The fit")
    assert sorted(stated) == sorted(actual)
    for name, text in stated.items():
        section, _, key = name.rpartition(".")
        config = TableSettings if section == "table" else Recipe
        if section in ("", "table") and name != "data":
            default = config.model_fields[key].get_default(call_default_factory=True)
            assert yaml.safe_load(text) == json.loads(json.dumps(default)), name


def ranges(config: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Key -> range, in words, of all settings that are numbers (or lists of them: then that of the last number)."""
    for name, field in config.model_fields.items():
        if isinstance(inner := field.annotation, type) and issubclass(inner, BaseModel):
            yield from ranges(inner, f"{name}.")
        for place in ([name], [name, 0], [name, 0, 1]):
            if (words := range_of(config, place)) is not None:
                top = prefix == "method." and name == "epochs"
                yield (name if top else f"{prefix}{name}"), words


def test_settings_page_has_every_range() -> None:
    actual = dict(ranges(Recipe))
    for name in registry.MODELS:
        actual |= dict(ranges(registry.MODELS.load(name).Config, "model."))
    for name in registry.METHODS:
        actual |= dict(ranges(registry.METHODS.load(name).Config, "method."))
    rows = re.findall(r"^\| (a (?:whole )?number [^|]*) \| ([^|]*) \|$", SETTINGS.split("\n## Ranges\n")[1], re.M)
    stated = {key: words for words, keys in rows for key in re.findall("`([^`]+)`", keys)}
    assert stated == actual


def test_pages_state_the_bootstrap_rule() -> None:
    page = (ROOT / "docs" / "imputation.md").read_text(encoding="utf-8")
    assert f"{COUNT} refits" in page and f"beyond {MOST_ROWS:,} rows" in page


# -- links and commands ----------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """What a link to a heading of the page may end in: the heading in lower case, its spaces as hyphens."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    titles = (re.sub(r"[^\w\- ]", "", title.lower()) for title in re.findall(r"^#+ (.*)", text, re.M))
    return {title.replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES[2:] if page.parent.name != "research" and page.name not in DEVELOPERS], ids=str
)
def test_a_page_for_users_is_short(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= LONGEST


def commands(text: str) -> Iterator[str]:
    """Lines of code blocks and code spans that start with `vgi `."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        if language in ("", "sh"):
            yield from (line.split("  #")[0] for line in block.splitlines() if line.startswith("vgi "))
    yield from re.findall(r"`(vgi (?:fit|impute|evaluate|finetune) [^`]+)`", text)
    yield from re.findall(r"^ {4}(vgi (?:fit|impute|evaluate|finetune) .*)$", text, re.M)


def vgi(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process and folder."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = main(arguments)
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    return code, out, err


@cache
def help_of(*command: str) -> str:
    """The text of `vgi COMMAND --help`."""
    code, out, err = vgi(*command, "--help")
    assert code == 0 and err == ""
    return out


def flags_of(command: str) -> set[str]:
    """Every flag that `vgi COMMAND --help` lists."""
    return set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", help_of(command)))


def test_readme_says_which_method_works_for_which_model() -> None:
    table = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in README.splitlines() if line[:3] == "| `"]
    rows = {row[0]: row[2:] for row in table if row[0] in registry.METHODS}
    head = next(line for line in README.splitlines() if line.startswith("| method |"))
    models = [cell.strip(" `") for cell in head.split("|")[3:-1]]
    assert models == list(registry.MODELS) and rows.keys() == registry.METHODS.keys()
    for method, cells in rows.items():
        for model, cell in zip(models, cells, strict=True):
            entry = registry.MODELS[model]
            works = registry.METHODS[method].needs <= entry.provides
            assert cell == ("default" if method == entry.traits.method else "yes" if works else "–"), (model, method)
    assert [row[0] for row in table if row[0] in registry.MODELS] == models


def test_every_flag_that_the_pages_use_exists() -> None:
    known = {name: flags_of(name) for name in PROGRAM if " " not in name}
    used = [line for page in PAGES for line in commands(page.read_text(encoding="utf-8"))]
    assert len(used) > 10
    for line in used:
        words = shlex.split(line)
        for flag in (word.split("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)):
            assert flag in known[words[1]], f"{flag} in: {line}"


def test_the_two_lines_are_there_once_and_use_the_constraints() -> None:
    lines = [line for line in README.splitlines() if line.startswith("python3 -m venv .venv") and "ADDRESS" not in line]
    assert len(lines) == 2
    assert all("pip install" in line and "-c constraints.txt" in line for line in lines)
    assert "pytest" in lines[1] and "pytest" not in lines[0]
    assert re.search(r"^torch==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)


FULL_COMPARISON = pytest.mark.full_fits(
    "fitting.contest.scoring.FOLDS",
    "fitting.contest.scoring.HIDDEN_PARTS",
    "fitting.contest.judges.EPOCHS",
    "methods.em.sizing.EPOCHS",
    "methods.em.sizing.FOLDS",
    "methods.start.ITERATIONS",
)


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=[pytest.mark.slow, FULL_COMPARISON])])
def test_main_line_of_readme(
    sample_folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, full: bool
) -> None:
    """Fit, impute and evaluate the sample table, in this process; then look at what came out. There are as many refits
    as tables: what README says of the fit is that of the model that a comparison of full length chooses."""
    if not full:
        request.getfixturevalue("two_models")
    monkeypatch.setattr("vgi_cli.fitting.refits.COUNT", 5)
    line = next(line for line in README.splitlines() if line.startswith("python3 -m venv .venv"))
    assert line.count("RUN=$(") == 1 and line.count('"$RUN"') == 2
    fit, *others = line[line.index("RUN=$(") :].removeprefix("RUN=$(").split(" && ")
    code, run, err = vgi(*shlex.split(fit.removesuffix(")"))[1:], *([] if full else ["--set", "trees=none"]))
    assert code == 0, err
    for command in others:
        program, *words = shlex.split(command.replace('"$RUN"', run.strip()))
        code, out, err = vgi(*words)
        assert program == ".venv/bin/vgi" and code == 0, err
    source = Path("sample_data/penguins.csv").read_text(encoding="utf-8").splitlines()
    fills = sorted(Path("run1/imputed").glob("penguins.*.csv"))
    assert [path.name for path in fills] == [f"penguins.{i}.csv" for i in range(1, 6)]
    for path in fills:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(source) and lines[0] == source[0]
        measured = [line.split(",")[6:10] for line in lines[1:] if '"' not in line]
        assert all(cell != "NA" for row in measured for cell in row)
        assert sum(a != b for a, b in zip(lines, source, strict=True)) == 20  # rows with a hole in a modelled column
    if full:
        near(out, "all", 2, within=0.3)


def near(out: str, row: str, column: int, within: float) -> None:
    """A cell of a table in README is what the program says now, up to `within`."""
    stated, actual = (
        [float(line.split("|")[column + 1]) for line in text.splitlines() if line.startswith(f"| {row} |")]
        for text in (README, out)
    )
    assert len(stated) == len(actual) == 1
    assert abs(stated[0] - actual[0]) < within, f"README says {stated[0]}, the program {actual[0]}"


def readme_block(language: str, word: str) -> str:
    """The only block of README in that language that holds the word."""
    blocks = [block for block in re.findall(rf"```{language}\n(.*?)```", README, re.S) if word in block]
    assert len(blocks) == 1
    return str(blocks[0])


@pytest.fixture
def sample_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder that holds sample_data."""
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_hidden_cells_of_readme(sample_folder: Path) -> None:
    fit, evaluate = (shlex.split(line)[1:] for line in readme_block("sh", "penguins.mask.csv").strip().splitlines())
    code, _, err = vgi(*fit)
    assert code == 0, err
    code, out, err = vgi(*evaluate)
    assert code == 0, err
    near(out, "overall", 2, within=0.03)
    near(out, "overall", 3, within=0.03)
    near(out, "overall", 6, within=0.06)


@pytest.mark.full_fits("methods.em.sizing.EPOCHS", "methods.em.sizing.FOLDS", "methods.start.ITERATIONS")
def test_python_of_readme(sample_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block as it stands, its fit without refits: the command line above is run whole."""
    fit, quick = vgi_cli.fit, {"bootstrap": "none", "trees": "none"}
    monkeypatch.setattr(vgi_cli, "fit", lambda *data, **more: fit(*data, **more, model="mixture", set=quick))
    names: dict[str, Any] = {}
    exec(readme_block("python", "vgi_cli.fit"), names)
    assert [table.shape for table in names["tables"]] == [(344, 14)] * 20
    assert not names["tables"][19].iloc[:, 6:10].isna().to_numpy().any()
    assert -23 < names["report"]["loglik"]["mean"] < -21


def test_python_of_the_page_on_python(sample_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blocks one after the other, as they stand, without trees."""
    imputer = vgi_cli.Imputer
    monkeypatch.setattr(vgi_cli, "Imputer", lambda set, **more: imputer(set={**set, "trees": "none"}, **more))
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M):
        exec(block, names)
    assert names["quality"].min() > 0.8 and len(names["strange"]) == 4
    assert len(names["tables"]) == 20 and names["pooled"].table["estimate"].iloc[0] == pytest.approx(
        np.mean(names["means"])
    )
    assert 0 < np.std(names["means"]) < 0.1


# -- the help --------------------------------------------------------------------------------------------------------

COMMANDS = ((), *((name,) for name in GROUPS), *(tuple(name.split()) for name in PROGRAM))


def examples(command: tuple[str, ...]) -> list[str]:
    """The examples that a `--help` shows."""
    lines = [line.strip() for line in help_of(*command).splitlines()]
    words = "|".join(PROGRAM)
    return [line for line in lines if re.match(rf"vgi ({words})( |$)", line)]


def test_help_names_everything_and_shows_examples() -> None:
    top = help_of()
    for name in [
        *registry.MODELS,
        *registry.METHODS,
        *registry.SAMPLERS,
        *registry.COMPLETERS,
        *(name.split()[0] for name in PROGRAM),
    ]:
        assert re.search(rf"^ +{name} ", top, re.M), name
    for command in COMMANDS:
        assert 2 <= len(examples(command)) <= 3, command


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name, and a small run of `vgi` as run1."""
    folder = tmp_path_factory.mktemp("examples")
    draw = random.Random(0)
    rows = []
    for i in range(60):
        z = draw.gauss(0, 1)
        rows.append([f"p{i}", *(f"{z * k + draw.gauss(0, 0.5):.3f}" for k in (1, -1, 2))])
    complete = [",".join(row) for row in rows]
    holes = [",".join("" if j and draw.random() < 0.2 else cell for j, cell in enumerate(row)) for row in rows]
    header = "patient,a,b,c"
    for name, lines in (("complete", complete), ("holes", holes), ("data", holes), ("new", holes[:7]), ("test", holes)):
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    plugin = "vgi_cli.register_model('mine', 'vgi_cli.models.gaussian.fa:FactorAnalysis', about='fa', method='em')"
    (folder / "mine.py").write_text(f"import vgi_cli\n{plugin}\n", encoding="utf-8")
    law = {"columns": ["a", "b", "c"], "mean": [0, 0, 0], "F": [[1], [-1], [2]], "psi": [0.25] * 3}
    (folder / "law.json").write_text(json.dumps(law), encoding="utf-8")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(folder / "data.csv"), folder / "data.parquet")
    rows = [f"{i},{term},{i / 10},1,{'1,0' if term == 'a' else '0,1'}" for i in range(1, 4) for term in "ab"]
    (folder / "estimates.csv").write_text(
        "\n".join(["imputation,term,estimate,std_error,cov:a,cov:b", *rows]) + "\n", encoding="utf-8"
    )
    fitted = ["fit", str(folder / "data.csv"), "--model", "fa", "--method", "vgi", "--set", "model.factors=1"]
    code, _, err = vgi(*fitted, "--epochs", "2", "--out", str(folder / "run1"))
    assert code == 0, err
    return folder


SEVERAL = "vgi report run1 run2 -o both.html"
"""Reports of several runs: tests/reports/test_command.py."""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[pytest.mark.slow] * (line == SEVERAL))
        for command in COMMANDS
        for line in examples(command)
    ],
)
def test_examples_of_the_help_run(line: str, workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line.split(" > ")[0])[1:]
    if words[0] == "report":
        pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    shutil.copytree(workplace, tmp_path / "here")
    if words[0] == "report" and "run2" in words:
        shutil.copytree(workplace / "run1", tmp_path / "here" / "run2", dirs_exist_ok=True)
    if words[0] == "fit":
        shutil.rmtree(tmp_path / "here" / "run1")
        monkeypatch.setattr("vgi_cli.fitting.refits.COUNT", 2)  # refits
        words += [] if "--model" in words else ["--model", "fa"]  # the line of README compares models
    if {"flow", "flow-ar"} & set(words):
        words += ["--epochs", "1", "--set", "model.steps=1", "--set", "optim.warmup_conditionals=1"]
    monkeypatch.chdir(tmp_path / "here")
    code, out, err = vgi(*words)
    assert code == 0, err
    assert "Traceback" not in err
    if words[0] == "fit":
        assert Path(out.strip()).is_dir()
    if "-o" in words and words[words.index("-o") + 1] != "-":
        stem = Path(words[words.index("-o") + 1]).stem
        assert any(name.startswith(stem) for name in os.listdir())
    if " > " in line and words[0] == "impute":
        assert out.startswith("patient,a,b,c") and ",," not in out
