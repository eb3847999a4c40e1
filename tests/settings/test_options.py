"""The table of options: nothing in it leads nowhere, and the command line and the Python API have what it says."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vgi_cli
from vgi_cli.cli.app import build_app
from vgi_cli.cli.commands import COMMANDS
from vgi_cli.commands import requests
from vgi_cli.settings import options
from vgi_cli.settings.recipe import FREE, known_keys

TABLES = {
    "fit": (options.FitOptions, requests.FitRequest),
    "finetune": (options.FinetuneOptions, requests.FinetuneRequest),
    "impute": (options.ImputeOptions, requests.ImputeRequest),
    "evaluate": (options.EvaluateOptions, requests.EvaluateRequest),
}
USED_OTHERWISE = {"recipe", "set", "say", "progress"}


@pytest.mark.parametrize("name", TABLES)
def test_every_option_goes_somewhere(name: str) -> None:
    table, request = TABLES[name]
    held = {field.name for field in dataclasses.fields(request)}
    for option, field in options.fields_of(table).items():
        key = field.option.key
        if key is None:
            assert option in held | USED_OTHERWISE, option
        else:
            assert key in known_keys() or key.split(".")[0] in FREE, key


@pytest.mark.parametrize("name", TABLES)
def test_a_request_has_the_defaults_of_the_table(name: str) -> None:
    table, request = TABLES[name]
    fields = options.fields_of(table)
    for held in dataclasses.fields(request):
        if held.name in fields and held.name != "plugins":
            assert held.default == fields[held.name].default, held.name


@pytest.mark.parametrize("name", TABLES)
def test_the_command_line_has_every_flag_of_the_table(name: str) -> None:
    command: Any = build_app(False).commands[name]  # type: ignore[attr-defined]
    found = {flag for parameter in command.params for flag in parameter.opts if flag.startswith("-")}
    fields = options.fields_of(*COMMANDS[name].tables, options.ConsoleOptions)
    said = {flag for field in fields.values() for flag in field.flags}
    assert found - {"--checkpoint", "-h", "--help"} == said
    assert len(said) == sum(len(field.flags) for field in fields.values())


@pytest.mark.parametrize("name", TABLES)
def test_help_of_the_python_functions_shows_every_keyword(name: str) -> None:
    table, _ = TABLES[name]
    functions = [getattr(vgi_cli, name), *([] if name == "fit" else [getattr(vgi_cli.Run, name)])]
    for function in functions:
        parameters = inspect.signature(function).parameters
        shown = {key: p.default for key, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
        assert shown == {key: field.default for key, field in options.fields_of(table).items()}
        unknown = f"{name}() got an unexpected keyword argument 'fail_if': `--fail-if` is of the command line alone"
        with pytest.raises(TypeError, match=f"^{re.escape(unknown)}$"):
            function(*["run"] * (len(parameters) - len(shown)), fail_if=["loglik < 0"])


@pytest.mark.parametrize(
    ("name", "keyword", "instead"),
    [
        ("fit", "column", "`--column` is columns=… in Python"),
        ("fit", "block", "`--block` is blocks=… in Python"),
        ("fit", "plugin", "`--plugin` is plugins=… in Python"),
        ("fit", "dry_run", "`--dry-run` is of the command line alone"),
        ("check", "no_trial", "`--no-trial` is trial=False in Python"),
        ("impute", "no_original", "`--no-original` is original=False in Python"),
        ("impute", "quiet", "`--quiet` is of the command line alone"),
        ("fit", "epoch", "did you mean 'epochs'?"),
    ],
)
def test_a_keyword_that_a_function_does_not_have_says_what_it_would_be(name: str, keyword: str, instead: str) -> None:
    message = f"{name}() got an unexpected keyword argument '{keyword}': {instead}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        getattr(vgi_cli, name)("run", **{keyword: True})


def test_the_page_names_the_flags_that_python_calls_otherwise() -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    functions = ("fit", "finetune", "impute", "evaluate", "check", "hide", "score", "sample", "report")
    other = {
        f"`{field.flags[-1]}`"
        for name in functions
        for field in options.fields_of(*COMMANDS[name].tables).values()
        if field.flags and field.flags[-1] != f"--{field.name.replace('_', '-')}"
    }
    assert "`--columns`" in other and all(flag in page for flag in other)
    alone = {name for table in options.ON_CONSOLE for name in table.__annotations__} - set(
        options.ConsoleOptions.__annotations__
    )
    assert all(f"`--{name.replace('_', '-')}`" in page for name in alone)


def test_values_that_are_typed_and_values_of_python_are_the_same() -> None:
    fields = options.fields_of(options.FitOptions)
    typed = {
        "columns": ["age=integer"],
        "bounds": ["age=0:"],
        "blocks": ["a,b", '"c,d",e'],
        "val": "0.2",
        "id": ["name"],
        "plugins": ["p.py"],
    }
    given = {
        "columns": {"age": "integer"},
        "bounds": {"age": "0:"},
        "blocks": [("a", "b"), ("c,d", "e")],
        "val": 0.2,
        "id": "name",
        "plugins": "p.py",
    }
    first, second = options.read_typed(fields, typed), options.read_given("fit", fields, given)
    assert {key: list(v) if key == "plugins" else v for key, v in first.values.items() if v} == {
        key: list(v) if key == "plugins" else v for key, v in second.values.items() if v
    }
    assert first.flags()["table.columns"] == ({"age": "integer"}, "--column")
    assert second.flags()["table.columns"] == ({"age": "integer"}, "columns")


def test_values_of_numpy_are_those_of_python() -> None:
    fields = options.fields_of(options.FitOptions)
    given = {
        "seed": np.int64(3),
        "epochs": np.int32(4),
        "val": np.float64(0.25),
        "resume": np.bool_(True),
        "model": np.str_("mixture"),
        "id": np.array(["a", "b"]),
        "set": {"model.components": np.arange(1, 4)[1], np.str_("method.trunk"): [np.int8(8), (np.int64(9),)]},
    }
    said = options.read_given("fit", fields, given).values
    expected = {"seed": 3, "epochs": 4, "val": 0.25, "resume": True, "model": "mixture", "id": ["a", "b"]}
    expected["set"] = {"model.components": 2, "method.trunk": [8, (9,)]}
    assert {name: said[name] for name in given} == expected
    plain = [said["set"]["model.components"], *(said[name] for name in ("seed", "epochs", "val", "resume", "model"))]
    assert [type(value) for value in plain] == [int, int, int, float, bool, str]


def test_a_list_within_itself_is_left_as_it_is() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert options.plain(endless) is endless
