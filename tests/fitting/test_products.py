"""Products of a step whose factors are rounded to bfloat16: which, what of a fit changes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

import vgi_cli
from vgi_cli.errors import UsageError
from vgi_cli.fitting import job
from vgi_cli.fitting.job import _check_products
from vgi_cli.maths import products
from vgi_cli.runs.folder import RunFolder

needs_bfloat16 = pytest.mark.skipif(not products.available(), reason="this processor has no bfloat16 products")
ROUNDED = {"optim.products": "bfloat16"}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.normal(size=80)
    frame = pd.DataFrame({"a": z, "b": z + 0.5 * rng.normal(size=80), "c": rng.normal(size=80)})
    return frame.mask(rng.random(frame.shape) < 0.15)


def fit(path: Path, **more: object) -> None:
    settings = {"method.imputations": 2, "model.steps": 1, "model.hidden": 64, "model.blocks": 1, "bootstrap": "none"}
    vgi_cli.fit(frame(), model="flow", epochs=3, set={**settings, **more}, out=path, threads=1)


@needs_bfloat16
def test_factors_are_rounded_in_the_context_alone() -> None:
    g = torch.Generator().manual_seed(0)
    x, w = torch.randn(200, 64, generator=g), torch.randn(48, 64, generator=g)
    exact = x.double() @ w.double().mT
    expected = x.bfloat16().double() @ w.bfloat16().double().mT
    with products.rounded("bfloat16"):
        inside, double = torch.nn.functional.linear(x, w), torch.nn.functional.linear(x.double(), w.double())
    torch.testing.assert_close(inside.double(), expected, rtol=1e-4, atol=1e-4)
    assert float((expected - exact).abs().max()) > 1e-2
    torch.testing.assert_close(double, exact, rtol=1e-12, atol=1e-12)
    outside = torch.nn.functional.linear(x, w)
    torch.testing.assert_close(outside.double(), exact, rtol=1e-5, atol=1e-4)
    with products.rounded("float32"):
        assert torch.equal(torch.nn.functional.linear(x, w), outside)


@needs_bfloat16
def test_a_fit_with_rounded_factors(tmp_path: Path) -> None:
    before = torch.get_float32_matmul_precision()
    for name, more in (("plain", {}), ("a", ROUNDED), ("b", ROUNDED)):
        fit(tmp_path / name, **more)
    assert torch.get_float32_matmul_precision() == before
    assert yaml.safe_load((tmp_path / "a" / "recipe.yaml").read_text())["optim"]["products"] == "bfloat16"
    numbers = [RunFolder.open(tmp_path / name).tensors("model") for name in ("plain", "a", "b")]
    weights = [name for name, value in numbers[0].items() if value.is_floating_point() and value.numel() > 100]
    assert weights and all(torch.equal(numbers[1][name], numbers[2][name]) for name in weights)
    for name in weights:
        assert not torch.equal(numbers[0][name], numbers[1][name])
        assert float((numbers[0][name] - numbers[1][name]).abs().max()) < 0.1


def test_where_there_are_no_such_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "available", lambda: False)
    with pytest.raises(UsageError, match="this processor does not multiply bfloat16 numbers"):
        fit(tmp_path / "run", **ROUNDED)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UsageError, match=r"optim\.products=bfloat16 is for the CPU, and this fit is on cuda"):
        _check_products(torch.device("cuda"))


def test_a_method_with_a_state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "available", lambda: True)
    monkeypatch.setattr(job, "LoopState", type(None))
    with pytest.raises(UsageError, match=r"optim\.products: method vgi cannot round the factors of products"):
        fit(tmp_path / "run", **ROUNDED)
    assert not (tmp_path / "run").exists()
