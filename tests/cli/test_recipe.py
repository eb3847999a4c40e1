"""`vgi recipe`: the recipes that come with the program, and what is wrong with a user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.program import Vgi
from tests.schemas import checked
from vgi_cli.commands.recipe import about
from vgi_cli.settings.gather import recipe_folder, recipe_names
from vgi_cli.settings.whole import recipe_schema
from vgi_cli.settings.yaml_strict import parse

BAD = """model: {name: fa, factors: few, colour: red}
method: vgi
optim:
  lr: -1
  bogus: 3
epochs: many
nonsense: 2
table:
  blocks: [[a]]
"""


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    made = recipe_schema()
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


def test_ls_lists_every_recipe_with_what_it_is(vgi: Vgi) -> None:
    done = vgi("recipe", "ls")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == recipe_names()
    assert all(len(line.split()) > 4 for line in done.out.splitlines())
    found = checked("recipe-ls", vgi("recipe", "ls", "--json").out)
    assert [recipe["name"] for recipe in found["recipes"]] == recipe_names()
    assert all(Path(recipe["path"]).is_file() for recipe in found["recipes"])


def test_what_a_recipe_is_stands_in_its_comment() -> None:
    assert about("# vgi fit x.csv\n#\n# Two columns, as\n# in the paper. Cost: none.\nmodel: fa\n") == (
        "Two columns, as in the paper"
    )
    assert about("# mine\nmodel: fa\n") == "mine" and about("model: fa\n") == ""


@pytest.mark.parametrize("name", ["toy-fa", "toy-fa.yaml", "recipes/toy-fa.yaml"])
def test_show_prints_it_byte_by_byte(vgi: Vgi, name: str) -> None:
    done = vgi("recipe", "show", name)
    assert (done.code, done.out) == (0, (recipe_folder() / "toy-fa.yaml").read_text(encoding="utf-8"))


def test_cp_copies_and_replaces_nothing_by_itself(vgi: Vgi) -> None:
    text = (recipe_folder() / "paper/gas.yaml").read_text(encoding="utf-8")
    Path("folder").mkdir()
    for target, path in (("mine.yaml", Path("mine.yaml")), ("folder", Path("folder/gas.yaml"))):
        done = vgi("recipe", "cp", "paper/gas", target)
        assert (done.code, done.out) == (0, f"{path}\n") and path.read_text(encoding="utf-8") == text
    Path("mine.yaml").write_text("mine")
    done = vgi("recipe", "cp", "paper/gas", "mine.yaml")
    assert done.code == 2 and done.error == "'mine.yaml' exists" and Path("mine.yaml").read_text() == "mine"
    assert vgi("recipe", "cp", "paper/gas", "mine.yaml", "--force").code == 0
    assert Path("mine.yaml").read_text(encoding="utf-8") == text
    assert sorted(path.name for path in Path().iterdir()) == ["folder", "mine.yaml"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["show", "toy"], "NAME: no file 'toy'"),
        (["cp", "toy", "x.yaml"], "NAME: no file 'toy'"),
        (["cp", "toy-fa", "none/x.yaml"], "FILE: no folder 'none'"),
        (["validate", "none.yaml"], "FILE: no file 'none.yaml'"),
        (["validate", "latin.yaml"], "FILE: cannot read 'latin.yaml'"),
    ],
)
def test_what_is_refused(vgi: Vgi, arguments: list[str], error: str) -> None:
    Path("latin.yaml").write_bytes(b"model: \xe9\n")
    done = vgi("recipe", *arguments)
    assert (done.code, done.out) == (2, "") and done.error.startswith(error)
    assert [path.name for path in Path().iterdir()] == ["latin.yaml"]


def test_a_recipe_without_a_problem(vgi: Vgi) -> None:
    done = vgi("recipe", "validate", "toy-fa")
    assert (done.code, done.out, done.err) == (0, "toy-fa: no problem\n", "")
    assert checked("recipe-validate", vgi("recipe", "validate", "toy-fa", "--json").out)["valid"]


def test_every_problem_is_named_with_its_line(vgi: Vgi) -> None:
    Path("bad.yaml").write_text(BAD)
    done = vgi("recipe", "validate", "bad.yaml")
    assert (done.code, done.out) == (2, "") and done.error == "7 settings cannot be used"
    lines = sorted(line.strip() for line in done.err.splitlines() if line.startswith("  "))
    assert [line.partition(" (")[0] for line in lines] == [
        "bad.yaml, line 1: model.factors: expected a whole number, got 'few'",
        "bad.yaml, line 1: unknown key 'model.colour' for model 'fa'",
        "bad.yaml, line 4: optim.lr: expected a number above 0, at most 100, got -1",
        "bad.yaml, line 5: unknown key 'optim.bogus' for method 'vgi'",
        "bad.yaml, line 6: epochs: expected a whole number, got 'many'",
        "bad.yaml, line 7: unknown key 'nonsense'",
        "bad.yaml, line 9: a block needs two columns or more, got a",
    ]
    again = vgi("recipe", "validate", "bad.yaml", "--json")
    found = checked("recipe-validate", again.out)
    assert again.code == 2 and not found["valid"] and len(found["problems"]) == 7


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("model: flwo\n", "bad.yaml, line 1: unknown model 'flwo'"),
        ("model: flow\nmethod: em\n", "bad.yaml, line 1: "),
        ("model: [\n", "bad.yaml: "),
        ("plugins: [mine.py]\n", "bad.yaml, line 1: plugins: a recipe runs no code"),
    ],
)
def test_one_problem_is_one_line(vgi: Vgi, text: str, error: str) -> None:
    Path("bad.yaml").write_text(text)
    done = vgi("recipe", "validate", "bad.yaml")
    assert done.code == 2 and done.error.startswith(error), done.err


def test_the_schema_takes_every_recipe_that_comes_with_vgi(vgi: Vgi, schema: jsonschema.Draft202012Validator) -> None:
    assert json.loads(vgi("recipe", "schema").out) == schema.schema
    for name in recipe_names():
        values = parse((recipe_folder() / name).read_text(encoding="utf-8")).values
        schema.validate(values)


@pytest.mark.parametrize(
    "values",
    [
        {"sed": 3},
        {"seed": "three"},
        {"model": "flwo"},
        {"model": {"name": "fa", "factors": "few"}},
        {"model": {"name": "fa", "bins": 3}},
        {"method": {"name": "vgi", "gibs_steps": 3}},
        {"method": "vgi", "optim": {"lr": -1}},
        {"method": "vgi", "optim": {"bogus": 1}},
        {"table": {"unseen": "maybe"}},
    ],
)
def test_the_schema_refuses_what_a_fit_refuses(values: dict[str, Any], schema: jsonschema.Draft202012Validator) -> None:
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(values)
    schema.validate({"model": {"name": "fa", "factors": 2}, "method": "vgi", "optim": {"lr": 0.1}})


def test_without_a_word_after_it_the_help_is_shown(vgi: Vgi) -> None:
    done = vgi("recipe")
    assert done.code == 0 and done.out == vgi("recipe", "--help").out and "  validate " in done.out
