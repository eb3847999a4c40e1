"""Settings: YAML, `--set`, precedence, refusals (all at once, with the nearest name), and the way back to a recipe."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from vgi_cli.errors import UsageError
from vgi_cli.fitting.plan import make_plan
from vgi_cli.methods.base import MethodConfig
from vgi_cli.models.base import ModelConfig
from vgi_cli.registry import names as registry
from vgi_cli.settings import yaml_strict
from vgi_cli.settings.components import check_method, check_model
from vgi_cli.settings.gather import gather, load_recipe, parse_duration
from vgi_cli.settings.problems import raise_problems, range_of
from vgi_cli.settings.recipe import Recipe, as_settings, to_recipe


class Optim(MethodConfig):
    lr: float = Field(0.1, gt=0)


class FakeMethodConfig(MethodConfig):
    imputations: int = 5
    accept: str = "gibbs"
    epochs: int | None = None
    optim: Optim = Optim()


class FakeModelConfig(ModelConfig):
    factors: int | None = Field(None, ge=1)
    trunk: tuple[int, ...] = (64,)


def refusal(*args: object, **kwargs: object) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        gather(*args, **kwargs)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    return caught.value.message, caught.value.hint or ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        (".5", 0.5),
        ("3", 3),
        ("010", 10),
        ("-2.", -2.0),
        ("true", True),
        ("no", "no"),
        ("on", "on"),
        ("~", None),
        ("", None),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("40s", "40s"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        (".inf", float("inf")),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    assert yaml_strict.parse(f"a: {text}").values == {"a": value}
    assert type(yaml_strict.scalar(text)) is type(value)


def test_quoted_scalars_are_texts() -> None:
    assert yaml_strict.parse("a: '1'\nb: \"true\"").values == {"a": "1", "b": "true"}


def test_duplicate_keys_are_reported_with_both_lines() -> None:
    document = yaml_strict.parse("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    assert document.problems == [
        "line 2: duplicate key 'b.c' (first on line 2)",
        "line 3: duplicate key 'a' (first on line 1)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "line 1: expected a mapping (`key: value`)"),
        ("a: [1\nb: 2", "line 2: not valid YAML"),
        ("? [a]\n: 1", "line 1: a key must be a word"),
        ("a: 1\n---\nb: 2", "not valid YAML"),
    ],
)
def test_files_that_are_no_mapping(text: str, problem: str) -> None:
    (found,) = yaml_strict.parse(text).problems
    assert problem in found


BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise("abcdefghijklmnopqrstuvwxyz"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, "line 1: '&a': anchors are not read, write the value out"),
        ("model: &a\n  x: *a\n", "line 1: '&a': anchors are not read, write the value out"),
        ("a: 1\nb: [*c]\n", "line 2: '*c': aliases are not read, write the value out"),
        ("a: " + "[" * 100_000 + "]" * 100_000, "line 1: lists and mappings nested more than 20 levels deep"),
        ("a: " + "{a: " * 100_000 + "}" * 100_000, "line 1: lists and mappings nested more than 20 levels deep"),
    ],
    ids=["bomb", "recursive", "alias", "lists", "mappings"],
)
def test_texts_that_stand_for_more_than_they_say(text: str, problem: str) -> None:
    assert yaml_strict.parse(text) == ({}, {}, [problem])


def test_a_recipe_that_does_not_end(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("# " + "x" * 4_000_001)
    assert refusal({}, recipe=tmp_path / "r.yaml")[0] == f"--recipe: '{tmp_path / 'r.yaml'}' is larger than 4 MB"
    assert refusal({}, recipe=Path("/dev/zero"))[0].endswith("is larger than 4 MB")


Leaf = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)


@pytest.mark.parametrize("value", [1e-6, 1e22, -1e-300, 0.1, 1.0, 3e300, "1e-6", "1.", "-.5e3", "07", "1_0", "12:30"])
def test_numbers_and_texts_that_look_like_numbers(value: object) -> None:
    text = yaml_strict.dump({"a": value})
    assert "!!" not in text
    assert yaml_strict.parse(text).values == {"a": value}


Key = st.text("abc_1-", min_size=1, max_size=3)


@hypothesis_settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@example({"1": "\x85"})
@example({"1": "a\n b\u2028"})
@given(st.dictionaries(Key, Leaf | st.lists(Leaf, max_size=3) | st.dictionaries(Key, Leaf, max_size=3), max_size=4))
def test_what_is_written_is_read_back(values: dict[str, object]) -> None:
    document = yaml_strict.parse(yaml_strict.dump(values))
    assert document.problems == []
    assert document.values == values


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("40s", 40), ("30m", 1800), ("2h", 7200), ("1.5h", 5400), (".5", 0.5)]
)
def test_times(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-3", "4x", "1d", "1h30m", "nan", "40 s s"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"--time-limit: expected a time such as 90, 40s, 30m or 2h, got"):
        parse_duration(text)


def test_precedence_flag_set_environment_recipe_default(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("seed: 1\ndevice: cuda\nthreads: 2\nmodel: {name: fa, factors: 2}\n")
    environment = {"VGI_DEVICE": "mps", "VGI_THREADS": "3"}
    settings = gather({}, [], environment, recipe)
    assert (settings["seed"].value, settings["device"].value, settings["threads"].value) == (1, "mps", 3)
    settings = gather({"device": ("cpu", "--device")}, ["threads=4", "model.factors=5"], environment, recipe)
    assert (settings["device"].value, settings["threads"].value) == ("cpu", 4)
    assert settings["model.factors"] == (5, "--set")
    assert settings["model.name"] == ("fa", "r.yaml, line 4")
    assert to_recipe({}).seed == 0 and to_recipe({}).device == "auto"


def test_empty_environment_variables_say_nothing() -> None:
    assert gather({}, [], {"VGI_DEVICE": "", "VGI_THREADS": ""}) == {}


def test_flag_and_set_that_disagree() -> None:
    assert refusal({"seed": (4, "--seed")}, ["seed=5"]) == ("--seed 4 disagrees with --set seed=5", "say it once")
    message, _ = refusal({}, ["optim.lr=0.1", "optim.lr=0.2"])
    assert message == "--set optim.lr=0.1 disagrees with --set optim.lr=0.2"
    message, _ = refusal({"model.name": ("fa", "--model")}, ["model=flow"])
    assert message == "--model fa disagrees with --set model=flow"


def test_flag_and_set_that_agree() -> None:
    assert gather({"seed": (4, "--seed")}, ["seed=4"])["seed"] == (4, "--seed")


@pytest.mark.parametrize(
    ("item", "message", "hint"),
    [
        ("seed", "--set: expected KEY=VALUE, got 'seed'", "for example --set model.factors=3"),
        ("sede=1", "--set: unknown key 'sede'", "did you mean 'seed'?"),
        ("table.exlude=[a]", "--set: unknown key 'table.exlude'", "did you mean 'table.exclude'?"),
        ("seed=1.5", "--set: seed: expected a whole number, got 1.5", ""),
        ("seed=one", "--set: seed: expected a whole number, got 'one'", ""),
        ("threads=0", "--set: threads: expected a whole number from 1 to 256, got 0", ""),
        ("select=loglike", "--set: select: expected 'loglik' or 'objective', got 'loglike'", "did you mean 'loglik'?"),
        ("table.id=a", "--set: table.id: expected a list, got 'a'", ""),
        (
            "time_limit=soon",
            "--set: time_limit: expected a time such as 90, 40s, 30m or 2h, got 'soon'",
            "for example 30m",
        ),
        ("val=1.5", "--set: val: expected a file or a fraction between 0 and 1, got 1.5", "for example 0.1"),
        ("model.name=3", "--set: model.name: expected a name, got 3", ""),
        ("model.a.b=3", "--set: unknown key 'model.a.b'", "expected one of: average, bootstrap"),
        ("modle=fa", "--set: unknown key 'modle'", "did you mean 'model'?"),
    ],
)
def test_set_is_typed_and_strict(item: str, message: str, hint: str) -> None:
    found, suggestion = refusal({}, [item])
    assert found == message
    assert suggestion.startswith(hint)


SEEDS = "a whole number from -9223372036854775808 to 9223372036854775807"


@pytest.mark.parametrize(
    ("item", "range_"),
    [
        ("seed=1" + "0" * 54, f"seed: expected {SEEDS}"),
        ("seed=" + "9" * 5000, f"seed: expected {SEEDS}"),
        ("seed=-" + "9" * 5000, f"seed: expected {SEEDS}"),
        ("threads=1" + "0" * 24, "threads: expected a whole number from 1 to 256"),
        ("threads=1000000", "threads: expected a whole number from 1 to 256"),
        ("threads=2000", "threads: expected a whole number from 1 to 256"),
        ("epochs=1000000000000", "epochs: expected a whole number from 1 to 10000000"),
        ("patience=0", "patience: expected a whole number from 1 to 1000000"),
        ("stop_after=1" + "0" * 20, "stop_after: expected a whole number from 0 to 1000000000000000"),
        ("bootstrap=1000000", "bootstrap: expected 'auto', 'none' or a whole number from 0 to 1000"),
        ("bootstrap=-1", "bootstrap: expected 'auto', 'none' or a whole number from 0 to 1000"),
        ("time_limit=1" + "0" * 30, "time_limit: expected a time above 0, at most 8760h"),
        ("time_limit=1e400", "time_limit: expected a time such as 90, 40s, 30m or 2h"),
    ],
)
def test_numbers_out_of_range(item: str, range_: str) -> None:
    message, hint = refusal({}, [item])
    assert message.startswith(f"--set: {range_}, got ") and len(message) < 250
    assert hint.startswith(("give ", "for example "))


def test_a_number_out_of_range_in_the_environment_and_in_a_recipe(tmp_path: Path) -> None:
    message, _ = refusal({}, [], {"VGI_THREADS": "9" * 400})
    assert message.startswith("VGI_THREADS: expected a whole number from 1 to 256, got '9999")
    message, _ = refusal({}, [], {"VGI_FAST": "off"})
    assert message == "VGI_FAST: expected 0 or 1, got 'off'"
    assert gather({}, [], {"VGI_FAST": "0"}) == gather({}, [], {"VGI_FAST": "1"}) == {}
    (tmp_path / "r.yaml").write_text("threads: 1000000\n")
    message, _ = refusal({}, recipe=tmp_path / "r.yaml")
    assert message == "r.yaml, line 1: threads: expected a whole number from 1 to 256, got 1000000"


def numbers(kind: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """The keys of a Config whose values are numbers, or lists of them."""
    for name, field in kind.model_fields.items():
        if inspect.isclass(field.annotation) and issubclass(field.annotation, BaseModel):
            yield from ((name, *inner) for inner in numbers(field.annotation))
        elif re.search(r"\b(int|float)\b", str(field.annotation)):
            yield (name,)


CONFIGS = [Recipe, *(registry.MODELS.load(n).Config for n in registry.MODELS)]
CONFIGS += [registry.METHODS.load(n).Config for n in registry.METHODS]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_number_has_a_range(config: type[BaseModel]) -> None:
    """But for `val` and `time_limit`, which have texts of their own."""
    for key in numbers(config):
        if key in (("val",), ("time_limit",)):
            continue
        whole = range_of(config, key) or range_of(config, [*key, 0]) or range_of(config, [*key, 0, 1])
        assert whole is not None and re.search(r" to |at most|below", whole), key


@pytest.mark.parametrize(
    ("model", "key", "value", "message"),
    [
        ("flow", "optim.lr", math.inf, "optim.lr: expected a number above 0, at most 100, got inf"),
        ("flow", "optim.average", 1, "optim.average: expected a number from 0, below 1, got 1"),
        ("flow", "method.imputations", 10**9, "method.imputations: expected a whole number from 1 to 10000"),
        ("flow", "method.trunk", [8, 10**9], "method.trunk.1: expected a whole number from 1 to 10000"),
        ("flow", "model.hidden", 10**9, "model.hidden: expected a whole number from 1 to 4096"),
        ("mixture", "model.components", 10**6, "model.components: expected a whole number from 1 to 1000"),
        ("fa", "model.factors", 10**6, "model.factors: expected a whole number from 0 to 10000"),
        ("vae", "model.latents", 10**9, "model.latents: expected a whole number from 1 to 10000"),
    ],
)
def test_sizes_that_no_memory_holds(model: str, key: str, value: object, message: str) -> None:
    settings = gather({"data": (["none.csv"], "DATA"), "model.name": (model, "model"), key: (value, "set")})
    with pytest.raises(UsageError) as caught:
        make_plan(settings)
    assert caught.value.message.startswith(f"set: {message}")


@pytest.mark.parametrize("value", [10**5000, {1, 2}, [[10**5000]], object()], ids=["digits", "set", "inside", "object"])
def test_values_that_no_recipe_holds(value: object) -> None:
    message, _ = refusal({"seed": (value, "seed")})
    assert message == f"seed: expected plain numbers, texts, lists or mappings, got {type(value).__name__}"


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    assert refusal({"data": (["caf\udce9.csv"], "DATA")})[0] == "DATA: expected text in UTF-8, got ['caf\\udce9.csv']"
    assert refusal({}, ["optim.lr=\udcff"])[0] == "--set: optim.lr: expected text in UTF-8, got '\\udcff'"
    (tmp_path / "r.yaml").write_text('optim: {lr: "\\ud800"}\n')
    message, _ = refusal({}, recipe=tmp_path / "r.yaml")
    assert message == "r.yaml, line 1: expected text in UTF-8, got '\\ud800'"


def test_set_takes_lists() -> None:
    assert gather({}, ["table.id=[a, 1b]"])["table.id"].value == ["a", "1b"]
    with pytest.raises(UsageError, match="--set: cannot read"):
        gather({}, ["table.id=[a"])


def test_all_errors_at_once_with_their_lines(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("modle: fa\nseed: 1\nseed: 2\nepochs: 1e-3\ntable: {columns: {a: integr}}\nmodel: [1]\n")
    message, _ = refusal({}, ["sede=1"], {"VGI_THREADS": "many"}, recipe)
    lines = message.splitlines()
    assert lines[0] == "7 settings cannot be used"
    assert "  r.yaml, line 1: unknown key 'modle' (did you mean 'model'?)" in lines
    assert "  r.yaml: line 3: duplicate key 'seed' (first on line 2) (correct that line)" in lines
    assert "  r.yaml, line 4: epochs: expected a whole number, got 0.001" in lines
    assert any("table.columns.a: expected " in line and "'numeric' or 'carry', got 'integr'" in line for line in lines)
    assert "  r.yaml, line 6: model: expected a mapping of settings, got [1]" in lines
    assert "  --set: unknown key 'sede' (did you mean 'seed'?)" in lines
    assert "  VGI_THREADS: expected a whole number, got 'many'" in lines


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('seed: "7"', "seed: expected a whole number without quotes, got '7'"),
        ("seed: 'seven'", "seed: expected a whole number, got 'seven'"),
        ("seed: '1.5'", "seed: expected a whole number, got '1.5'"),
        ("holdout_cells: '1e-1'", "holdout_cells: expected a number without quotes, got '1e-1'"),
        (f"seed: {'1' * 400}", "seed: expected a whole number from -9223372036854775808 to"),
    ],
)
def test_numbers_in_quotes(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "r.yaml").write_text(line)
    assert refusal({}, recipe=tmp_path / "r.yaml")[0].startswith(f"r.yaml, line 1: {expected}")


def test_recipes_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal({}, recipe=tmp_path / "none.yaml")[0].startswith("--recipe: no file")
    assert refusal({}, recipe=tmp_path)[0].startswith("--recipe: cannot read")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    error, hint = refusal({}, recipe=tmp_path / "b.yaml")
    assert error.startswith("--recipe: cannot read") and error.endswith(": line 1 is not UTF-8 (byte 0xff)")
    assert hint == "save the recipe as UTF-8"


def test_a_setting_of_two_kinds_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("val: [1]\n")
    error, _ = refusal({}, recipe=tmp_path / "b.yaml")
    assert error.endswith("b.yaml, line 1: val: expected a number or a text, got [1]")


def test_a_recipe_survives_its_text(tmp_path: Path) -> None:
    settings = gather(
        {"data": (["a.csv"], "DATA"), "table.columns": ({"no": "carry"}, "--column"), "val": (0.1, "--val")},
        ["model.name=fa", "model.factors=3", "optim.lr=1e-3", "bootstrap=7", "table.id=['1e3', 'true']"],
    )
    recipe = to_recipe(settings)
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe.text())
    assert load_recipe(path) == recipe
    assert recipe.optim == {"lr": 1e-3} and recipe.bootstrap == 7 and recipe.table.id == ("1e3", "true")


@pytest.mark.parametrize(
    ("item", "message", "hint"),
    [
        (
            "method.imputation=3",
            "--set: unknown key 'method.imputation' for method 'm'",
            "did you mean 'method.imputations'?",
        ),
        ("method.imputations=3.0", "--set: method.imputations: expected a whole number, got 3.0", None),
        ("optim.lr=0", "--set: optim.lr: expected a number of more than 0, got 0", None),
        ("optim.rl=1", "--set: unknown key 'optim.rl' for method 'm'", "did you mean 'optim.lr'?"),
        ("method.epochs=3", "--set: unknown key 'method.epochs'", "did you mean 'epochs'?"),
        ("model.factors=0", "--set: model.factors: expected a number of at least 1, got 0", None),
        ("model.factor=1", "--set: unknown key 'model.factor' for model 'a'", "did you mean 'model.factors'?"),
        ("model.trunk=[1, b]", "--set: model.trunk.1: expected a whole number, got 'b'", None),
    ],
)
def test_settings_of_families(item: str, message: str, hint: str | None) -> None:
    settings = gather({}, ["model=a", "method=m", item])
    recipe = to_recipe(settings)
    problems = check_model(FakeModelConfig, recipe, settings) + check_method(FakeMethodConfig, "m", recipe, settings)
    with pytest.raises(UsageError) as caught:
        raise_problems(problems)
    assert caught.value.message == message
    if hint is not None:
        assert caught.value.hint == hint


def test_families_without_settings() -> None:
    settings = gather({}, ["model=a", "method=m", "optim.lr=1", "epochs=2", "model.x=1"])
    recipe = to_recipe(settings)
    problems = check_method(MethodConfig, "m", recipe, settings) + check_model(ModelConfig, recipe, settings)
    assert [problem.message for problem in problems] == [
        "unknown key 'optim.lr' for method 'm'",
        "unknown key 'epochs' for method 'm'",
        "unknown key 'model.x' for model 'a'",
    ]
    assert {problem.hint for problem in problems} == {"method 'm' has no settings", "model 'a' has no settings"}


def test_epochs_and_optim_reach_the_method() -> None:
    recipe = to_recipe(gather({"epochs": (7, "--epochs")}, ["method=m", "optim.lr=1e-2", "method.imputations=3"]))
    assert recipe.method_values == {"imputations": 3, "optim": {"lr": 1e-2}, "epochs": 7}
    assert isinstance(recipe, Recipe)


def test_null_switches_a_setting_of_a_family_off(tmp_path: Path) -> None:
    class Clip(MethodConfig):
        clip: float | None = 5.0

    class Clipped(MethodConfig):
        optim: Clip = Clip()

    path = tmp_path / "recipe.yaml"
    path.write_text(to_recipe(gather({}, ["method=m", "optim.clip=null", "seed=2"])).text())
    recipe = load_recipe(path)
    assert Clipped.model_validate(recipe.method_values).optim.clip is None
    assert as_settings(recipe)["optim.clip"].value is None and "epochs" not in as_settings(recipe)
    assert to_recipe(as_settings(recipe)) == recipe
