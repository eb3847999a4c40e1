"""Importing plugins: what is refused, what is registered for how long, and that nothing is left behind."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import vgi_cli
from vgi_cli.errors import RunError, UsageError
from vgi_cli.registry import names as registry
from vgi_cli.registry import plugins
from vgi_cli.registry.entries import Plugin, active_with
from vgi_cli.registry.plugins import plugged
from vgi_cli.reporting import Lines
from vgi_cli.settings.gather import gather
from vgi_cli.settings.recipe import Recipe, as_settings, to_recipe

FA = "vgi_cli.models.gaussian.fa"
MINE = f'import vgi_cli\nvgi_cli.register_model("mine", "{FA}:FactorAnalysis", about="fa", method="em")\n'
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write(text, name="p.py"): a file outside the package."""

    def write(text: str, name: str = "p.py") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.fixture(autouse=True)
def nothing_is_left() -> object:
    before = [dict(point) for point in plugins.POINTS]
    yield
    assert before == [dict(point) for point in plugins.POINTS]
    assert plugins.flags() == ""


def refusal(*files: Path | str) -> tuple[str, str]:
    """Message and hint of plugins that are refused."""
    with pytest.raises(UsageError) as caught, plugged(files):
        pass
    assert caught.value.exit_code == 2 and caught.value.hint
    return caught.value.message, caught.value.hint


def test_names_are_registered_while_the_context_lasts(write: Write) -> None:
    with plugged([write(MINE)]):
        assert registry.MODELS.load("mine").__name__ == "FactorAnalysis"
        assert registry.MODELS["mine"].provides == registry.MODELS["fa"].provides
        with pytest.raises(UsageError) as caught:
            registry.MODELS.entry("mien")
        assert caught.value.hint == "did you mean 'mine'?"
        with pytest.raises(UsageError) as caught:
            registry.check_pair("flow", "em")
        assert caught.value.hint is not None and caught.value.hint.endswith("--model fa or mixture or mine")
    assert "mine" not in registry.MODELS


def test_names_go_when_the_command_fails(write: Write) -> None:
    with pytest.raises(ZeroDivisionError), plugged([write(MINE)]):
        raise ZeroDivisionError


def test_a_plugin_may_be_said_twice_and_nested(write: Write) -> None:
    path = write(MINE)
    with plugged([path, str(path)]):
        with plugged(path):
            assert "mine" in registry.MODELS
        assert "mine" in registry.MODELS
        assert plugins.flags() == f" --plugin {path}"


def test_a_file_is_run_once_in_a_process_unless_it_changes(write: Write) -> None:
    counting = MINE + "import sys\nsys.vgi_runs = getattr(sys, 'vgi_runs', 0) + 1\n"
    path = write(counting)
    for _ in range(2):
        with plugged([path]):
            pass
    assert sys.vgi_runs == 1  # type: ignore[attr-defined]
    write(counting.replace('"mine"', '"other"'))
    with plugged([path]):
        assert "other" in registry.MODELS and "mine" not in registry.MODELS
    assert sys.vgi_runs == 2  # type: ignore[attr-defined]
    del sys.vgi_runs  # type: ignore[attr-defined]


def test_nothing_is_written_beside_the_file(write: Write) -> None:
    path = write(MINE)
    with plugged([path]):
        assert list(path.parent.iterdir()) == [path]


def test_files_that_are_no_plugins(write: Write, tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    assert refusal(tmp_path / "none.py") == (f"plugin '{tmp_path}/none.py': no such file", "check the path")
    assert refusal("student") == ("plugin 'student': expected a Python file", "give the path of a .py file")
    assert refusal(tmp_path / "folder.py")[0] == f"plugin '{tmp_path}/folder.py': Is a directory"
    message, hint = refusal(write("x = 1\n"))
    assert message == "plugin p.py registers nothing"
    words = ("model", "method", "family", "sampler", "kind")
    assert hint == f"call vgi_cli.{' or '.join(f'register_{word}' for word in words)} in it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\n\n1 / 0\n", "plugin p.py, line 3: ZeroDivisionError while it was imported: division by zero"),
        ("def f():\n    import no_such\n\nf()\n", "plugin p.py, line 2: ModuleNotFoundError while it was imported: No"),
        ("a = 1\nb = = 2\n", "plugin p.py, line 2: SyntaxError while it was imported: invalid syntax"),
        (MINE + "import sys\nsys.exit(3)\n", "plugin p.py, line 4: SystemExit while it was imported: 3"),
        ("import json\njson.loads('{')\n", "plugin p.py, line 2: JSONDecodeError while it was imported: Expecting"),
        ("a = '\0'\n", "plugin p.py: "),
    ],
)
def test_a_plugin_that_fails_is_named_with_its_line(write: Write, text: str, message: str) -> None:
    modules = set(sys.modules)
    found, hint = refusal(write(text))
    assert not [name for name in set(sys.modules) - modules if name.startswith("vgi_plugin")]
    assert found.startswith(message)
    assert hint == "--debug shows where it came from"


def test_an_interrupt_is_no_failure_of_the_plugin(write: Write) -> None:
    with pytest.raises(KeyboardInterrupt), plugged([write("raise KeyboardInterrupt\n")]):
        pass


HEAD = """
import torch, vgi_cli
from vgi_cli.methods.base import Method, MethodConfig
from vgi_cli.models.base import Marginal, Model, ModelConfig
from vgi_cli.models.gaussian.fa import FactorAnalysis as FA
from vgi_cli.methods.em.em import METHOD as EM
model, method = vgi_cli.register_model, vgi_cli.register_method
class Config(MethodConfig):
    epochs: int = 3
class Half(Marginal):
    Config = ModelConfig
class Bare(FA):
    Config = MethodConfig
"""


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("model('fa', FA, about='')", "register_model('fa'): the name exists", "choose another name"),
        ("model('auto', FA, about='')", "register_model('auto'): the name exists", "choose another name"),
        ("method('vgi', EM, about='')", "register_method('vgi'): the name exists", "choose another name"),
        (
            "[model('m', FA, about='', method='em') for _ in 'ab']",
            "register_model('m'): the name exists",
            "choose another name",
        ),
        (
            "model('My model', FA, about='')",
            "register_model('My model'): a name is lower-case letters, digits, - and _, got 'My model'",
            "choose another name",
        ),
        ("model('m', 3, about='')", "register_model('m'): expected a class derived from Model, got 3", "derive it"),
        ("model('m', dict, about='')", "register_model('m'): expected a class derived from Model, got <cl", "derive"),
        (
            "model('m', 'vgi_cli.models.gaussian.fa:Nothing', about='')",
            f"register_model('m'): cannot import '{FA}:Nothing' (module '{FA}' has no",
            "write it as module:attribute",
        ),
        ("model('m', 'no_such_module:A', about='')", "register_model('m'): cannot import 'no_such_module:A'", "write"),
        (
            "model('m', Half, about='')",
            "register_model('m'): Half does not define conditional, initialise, log_prob, marginal_log",
            "define them",
        ),
        (
            "model('m', Bare, about='')",
            "register_model('m'): expected Config to be a class derived from ModelConfig, got <class",
            "write class Config(ModelConfig)",
        ),
        (
            "model('m', FA, about='', transform='log')",
            "register_model('m'): transform: expected 'linear' or 'normal', got 'log'",
            "linear is usual",
        ),
        ("method('m', 3, about='')", "register_method('m'): expected a Method, got 3", "make one with"),
        (
            "method('m', EM._replace(Config=MethodConfig), about='')",
            "register_method('m'): MethodConfig has no field 'epochs', which --epochs and a resumed fit set",
            "add one, for example epochs: int = 100",
        ),
        (
            "method('m', EM._replace(Config=ModelConfig), about='')",
            "register_method('m'): expected Config to be a class derived from MethodConfig, got <class",
            "write class Config(MethodConfig)",
        ),
        (
            "method('m', EM, about='', needs=['marginals'])",
            "register_method('m'): needs 'marginals', which is no capability",
            "expected some of: bound, density, marginal, bijective, gaussian",
        ),
        (
            "method('m', EM, about='', makes=['draws'])",
            "register_method('m'): makes: got ['draws']",
            "expected some of: conditionals, imputations",
        ),
        (
            "method('m', EM._replace(Config=Config), about='', makes=['conditionals'])",
            "register_method('m'): what makes conditionals has the settings of vgi, got Config",
            "derive its Config from vgi_cli.methods.vgi.config.VgiConfig, or leave conditionals out of makes",
        ),
        (
            "method('m', EM._replace(Config=Config), about='', makes=['imputations'])",
            "register_method('m'): init: too many positional arguments",
            "write init(model, table, config, generator, resources)",
        ),
        (
            "method('m', EM._replace(run=lambda state: None), about='')",
            "register_method('m'): run: too many positional arguments",
            "write run(state, stop)",
        ),
        (
            "method('m', EM._replace(init=lambda model: None), about='')",
            "register_method('m'): init: too many positional arguments",
            "write init(model, table, config, generator)",
        ),
        (
            "method('m', EM, about='', precision='float16')",
            "register_method('m'): precision: expected 'float32' or 'float64', got 'float16'",
            "float32 is usual",
        ),
    ],
)
def test_registrations_that_cannot_work(write: Write, call: str, message: str, hint: str) -> None:
    found, suggestion = refusal(write(HEAD + call + "\n"))
    line = HEAD.count("\n") + 1
    assert found.startswith(f"plugin p.py, line {line}: {message}")
    assert suggestion.startswith(hint)


def test_capabilities_are_read_off_the_types(write: Write) -> None:
    calls = """
class Lower(FA):
    exact = False
model('lower', Lower, about='', method='em')
method('any', EM, about='')
method('exact', EM, about='', needs=['density'])
method('observed', EM, about='', needs='marginal', makes=[])
"""
    with plugged([write(HEAD + calls)]):
        assert registry.MODELS["lower"].provides == registry.MODELS["fa"].provides - {"density"}
        assert registry.METHODS["any"].needs == registry.METHODS["vgi"].needs
        registry.check_pair("lower", "any")
        registry.check_pair("flow", "exact")
        for model, method in (("lower", "exact"), ("flow", "observed")):
            with pytest.raises(UsageError, match=f"method '{method}' needs "):
                registry.check_pair(model, method)


def test_the_method_that_a_model_takes_must_work_for_it(write: Write) -> None:
    flow = "import vgi_cli\nvgi_cli.register_model('m', 'vgi_cli.models.flows.coupling:Flow', about='', method='em')\n"
    message, hint = refusal(write(flow))
    assert message.startswith("plugin p.py: model 'm': method 'em' needs EM steps in closed form")
    assert "--model m use --method vgi" in hint
    message, hint = refusal(write(flow.replace("'em'", "'emm'")))
    assert message == "plugin p.py: model 'm': unknown method 'emm'" and hint == "did you mean 'em'?"


def test_two_plugins_that_do_not_go_together(write: Write, tmp_path: Path) -> None:
    one, two = write(MINE, "one.py"), write(MINE + "# another file\n", "two.py")
    message, _ = refusal(one, two)
    assert message == "plugin two.py, line 2: register_model('mine'): the name exists"
    with plugged([two]):
        pass
    assert refusal(one, two) == ("plugin two.py: 'mine' is registered already", "choose another name")
    (tmp_path / "sub").mkdir()
    other = write(MINE.replace('"mine"', '"other"'), "sub/one.py")
    message, hint = refusal(one, other)
    assert message == "two plugins are called one.py" and hint.startswith("rename one")


def test_registering_outside_a_plugin_is_refused() -> None:
    for name in ("register_model", "register_method", "register_family", "register_sampler", "register_kind"):
        with pytest.raises(UsageError, match=f"{name} is for plugins, and no plugin is being loaded") as caught:
            getattr(vgi_cli, name)("m", None, about="")
        assert caught.value.hint is not None and "--plugin FILE.py" in caught.value.hint


def test_what_a_fit_used_is_asked_for_again(write: Write) -> None:
    path, said = write(MINE), list[str]()
    with plugged([path]):
        recorded = plugins.in_use([("model", "mine"), ("method", "em")])
        assert recorded.keys() == {"p.py"} and plugins.in_use([("model", "fa"), ("method", "em")]) == {}
        assert (
            plugins.require(recorded, [("model", "mine"), ("method", "em")], "run 'r'", Lines(said.append)) == recorded
        )
        plugins.say_unused([("model", "mine"), ("method", "em")], Lines(said.append))
        assert said == []
        plugins.say_unused([("model", "fa"), ("method", "em")], Lines(said.append))
        assert said == ["plugin p.py is not used: model fa by em"]
    with pytest.raises(RunError) as caught:
        plugins.require(recorded, [("model", "mine"), ("method", "em")], "run 'r'", Lines(said.append))
    assert caught.value.exit_code == 2
    assert caught.value.message == "run 'r' needs the plugin p.py: it is code, which is imported only where you name it"
    assert re.fullmatch(
        r"if you trust the file, say --plugin p.py \(SHA-256 .* [0-9a-f]{12}…\)", caught.value.hint or ""
    )


def test_another_plugin_does_not_stand_in(write: Write) -> None:
    with plugged([write(MINE.replace('"mine"', '"other"'), "q.py")]):
        for model in ("mine", "fa"):  # also where the package has learnt the name since
            with pytest.raises(RunError, match=r"run 'r' needs the plugin p\.py"):
                plugins.require({"p.py": "0" * 64}, [("model", model), ("method", "em")], "run 'r'", Lines(print))


def test_a_changed_file_is_warned_of_and_a_renamed_one_is_the_same(write: Write) -> None:
    said: list[str] = []
    with plugged([write(MINE)]):
        recorded = plugins.in_use([("model", "mine"), ("method", "em")])
    with plugged([write(MINE, "renamed.py")]):
        assert plugins.require(
            recorded, [("model", "mine"), ("method", "em")], "run 'r'", Lines(said.append)
        ).keys() == {"renamed.py"}
    assert said == []
    with plugged([write(MINE + "# changed\n", "q.py")]):
        used = plugins.require(recorded, [("model", "mine"), ("method", "em")], "run 'r'", Lines(said.append))
    now, then = used["q.py"][:12], recorded["p.py"][:12]
    assert said == [f"warning: plugin q.py is not the file that run 'r' was made with (SHA-256 {now}…, then {then}…)"]


def test_a_recipe_keeps_its_record_of_plugins() -> None:
    recipe = Recipe(plugins={"my.model.py": "ab" * 32})
    assert to_recipe(as_settings(recipe)) == recipe


@pytest.mark.parametrize("value", ["[evil.py]", "evil.py"])
def test_a_recipe_cannot_ask_for_a_plugin(write: Write, value: str) -> None:
    path = write(f"seed: 1\nplugins: {value}\n", "r.yaml")
    with pytest.raises(UsageError) as caught:
        gather({}, recipe=path)
    assert caught.value.message.startswith("r.yaml, line 2: plugins: a recipe runs no code, so it loads no plugin; got")
    assert caught.value.hint == "say --plugin FILE.py, or plugins=['FILE.py'] in Python"
    with pytest.raises(UsageError, match=r"--set: plugins: a recipe runs no code"):
        gather({}, [f"plugins={value}"])


def test_a_run_without_exact_marginals_or_conditionals_has_no_sampler() -> None:
    model = replace(registry.MODELS["flow"], provides=frozenset({"bound", "density"}))
    method = replace(registry.METHODS["vgi"], provides=frozenset())
    plugin = Plugin(Path("p.py"), "", {"model": {"dense": model}, "method": {"bare": method}})
    with active_with([plugin]), pytest.raises(UsageError) as caught:
        registry.choose_sampler("auto", "dense", "bare")
    assert caught.value.message == "no sampler works for model 'dense' fitted by 'bare'"
    assert caught.value.hint == "fit again by vgi"


def test_names_are_those_of_the_context_alone() -> None:
    """A thread of the same process that runs another command sees the names of the package."""
    plugin = Plugin(Path("p.py"), "", {"model": {"mine": registry.MODELS["fa"]}})
    with active_with([plugin]), ThreadPoolExecutor(1) as pool:
        assert "mine" in registry.MODELS and "mine" not in pool.submit(lambda: list(registry.MODELS)).result()


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("s('exact', B, about='')", "register_sampler('exact'): the name exists", "choose another name"),
        ("s('auto', B, about='')", "register_sampler('auto'): the name exists", "choose another name"),
        ("s('m', 3, about='')", "register_sampler('m'): expected a function, got 3", "write build(fitted)"),
        ("s('m', lambda: 3, about='')", "register_sampler('m'): too many positional", "write build(fitted)"),
        ("s('m', B, about='', needs='q')", "register_sampler('m'): needs 'q', which is no capability", "expected some"),
        ("s('m', B, about='', precision='f')", "register_sampler('m'): precision: expected", "leave it out"),
    ],
)
def test_samplers_that_cannot_work(write: Write, call: str, message: str, hint: str) -> None:
    head = "from vgi_cli import register_sampler as s\nfrom vgi_cli.samplers.exact import build as B\n"
    found, suggestion = refusal(write(f"{head}{call}\n"))
    assert found.startswith(f"plugin p.py, line 3: {message}") and suggestion.startswith(hint)
