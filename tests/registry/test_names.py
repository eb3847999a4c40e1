"""The table of names against the classes behind it, and the refusals of pairs that cannot work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.capabilities import CAPABILITY
from vgi_cli.errors import UsageError
from vgi_cli.methods.base import Method, MethodConfig
from vgi_cli.models.base import Model, ModelConfig
from vgi_cli.registry import names as registry


@pytest.mark.parametrize("name", registry.MODELS)
def test_models_are_what_their_entry_says(name: str) -> None:
    cls, entry = registry.MODELS.load(name), registry.MODELS[name]
    assert issubclass(cls, Model) and issubclass(cls.Config, ModelConfig)
    given = {word for word, kind in CAPABILITY.items() if issubclass(cls, kind)}
    given |= {"discrete"} if cls.discrete else set()
    assert entry.provides == (given if cls.exact else given - {"density"})
    registry.check_pair(name, entry.traits.method)


@pytest.mark.parametrize("name", registry.METHODS)
def test_methods_are_what_their_entry_says(name: str) -> None:
    method = registry.METHODS.load(name)
    assert isinstance(method, Method) and issubclass(method.Config, MethodConfig)


def test_every_capability_has_words_and_every_name_a_line() -> None:
    entries = [
        *registry.MODELS.values(),
        *registry.METHODS.values(),
        *registry.SAMPLERS.values(),
        *registry.COMPLETERS.values(),
    ]
    assert all(entry.about for entry in entries)
    used = set().union(*(e.provides for e in registry.MODELS.values()), *(e.needs for e in registry.SAMPLERS.values()))
    assert used <= set(registry.CAPABILITIES)


def test_reading_the_table_loads_no_torch() -> None:
    code = "import sys, vgi_cli.registry.names; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("model", "method", "chosen"),
    [
        ("fa", "em", "exact"),
        ("mixture", "vgi", "exact"),
        ("flow", "vgi", "metropolis"),
        ("flow", "plmcmc", "plmcmc"),
        ("flow", "complete", "plmcmc"),
        ("mixture", "mcem", "exact"),
        ("vae", "vgi", "latent"),
        ("vae", "complete", "latent"),
    ],
)
def test_the_first_sampler_that_works_is_taken(model: str, method: str, chosen: str) -> None:
    assert registry.choose_sampler("auto", model, method) == chosen


@pytest.mark.parametrize(
    ("model", "method", "taken"),
    [
        ("flow", "vgi", True),
        ("flow", None, True),
        ("flow", "plmcmc", False),
        ("fa", "em", False),
        ("auto", None, True),
        ("auto", "plmcmc", False),
    ],
)
def test_levels_are_taken_by_a_model_and_a_method(model: str, method: str | None, taken: bool) -> None:
    assert registry.takes_levels(model, method) is taken


def test_no_chain_in_the_base_space_of_a_flow_draws_levels() -> None:
    """A row with levels is no invertible map of a normal."""
    assert registry.choose_sampler("auto", "flow", "vgi", levels=True) == "metropolis"
    with pytest.raises(
        UsageError, match=r"'plmcmc' needs an invertible map, which .* with columns of levels"
    ) as caught:
        registry.choose_sampler("plmcmc", "flow", "vgi", levels=True)
    assert caught.value.hint == "this run can use --sampler metropolis or gibbs or chains"
    for name in ("auto", "plmcmc"):
        with pytest.raises(UsageError, match=r"model 'flow' .*'complete' with columns of levels") as caught:
            registry.choose_sampler(name, "flow", "complete", levels=True)
        assert caught.value.hint == "fit again by vgi"


def test_refusals_name_what_would_work() -> None:
    with pytest.raises(UsageError) as caught:
        registry.check_pair("flow", "em")
    use = "--method vgi or vbgi or plmcmc or complete or impute-then-fit"
    expected = f"with --model flow use {use}; --method em works with --model fa or mixture"
    assert caught.value.hint == expected
    with pytest.raises(UsageError, match="method 'plmcmc' needs an invertible map, which model 'fa'") as caught:
        registry.check_pair("fa", "plmcmc")
    assert caught.value.hint.endswith("--method plmcmc works with --model flow or flow-ar")
    with pytest.raises(UsageError, match="method 'mcem' needs exact marginals under any mask, which model 'flow'"):
        registry.check_pair("flow", "mcem")
    with pytest.raises(UsageError, match="sampler 'exact' needs exact marginals") as caught:
        registry.choose_sampler("exact", "flow", "vgi")
    assert caught.value.hint == "this run can use --sampler metropolis or gibbs or plmcmc or chains"
    with pytest.raises(UsageError, match="sampler 'metropolis' needs fitted conditionals") as caught:
        registry.choose_sampler("metropolis", "flow", "plmcmc")
    assert caught.value.hint == "this run can use --sampler plmcmc or chains"
    with pytest.raises(
        UsageError, match="sampler 'metropolis' needs a log density, which a run of model 'vae'"
    ) as caught:
        registry.choose_sampler("metropolis", "vae", "vgi")
    assert caught.value.hint == "this run can use --sampler latent or gibbs or chains"
    with pytest.raises(UsageError, match="sampler 'latent' needs latent variables with an encoder"):
        registry.choose_sampler("latent", "flow", "vgi")
