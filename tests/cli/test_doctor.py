"""`vgi doctor`: versions, devices and why not, where settings come from; 1 where what was asked for cannot be used."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch

from tests.program import Vgi
from tests.schemas import checked
from vgi_cli.machine import doctor
from vgi_cli.maths import compiled

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@pytest.fixture(autouse=True)
def no_gpu_and_no_threads_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VGI_FAST", "NUMBA_DISABLE_JIT"):
        monkeypatch.delenv(name, raising=False)


def test_versions_devices_and_settings(vgi: Vgi) -> None:
    done = vgi("doctor", "--json")
    assert (done.code, done.err) == (0, "")
    found = checked("doctor", done.out)
    assert found["versions"]["numpy"] == numpy.__version__ and found["versions"]["torch"] == torch.__version__
    assert {device["name"]: device["usable"] for device in found["devices"]}["cpu"]
    assert found["chosen"] in ("cpu", "cuda") and found["problems"] == []
    assert [(s["key"], s["value"], s["from"]) for s in found["settings"]] == [
        ("device", "auto", "default"),
        ("threads", None, "default"),
        ("compiled loops", True, "default"),
    ]
    assert found["threads"]["cores"] >= 1 and 0 < found["memory"]["free_bytes"] <= found["memory"]["total_bytes"]
    text = vgi("doctor")
    assert text.code == 0 and f"  numpy         {numpy.__version__}\n" in text.out and "  cpu " in text.out


def test_where_each_setting_comes_from(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.yaml").write_text("device: cpu\nthreads: 3\nseed: 4\n")
    monkeypatch.setenv("VGI_DEVICE", "auto")
    monkeypatch.setenv("VGI_THREADS", "2")
    monkeypatch.setenv("VGI_FAST", "0")
    found = checked("doctor", vgi("doctor", "--recipe", "mine.yaml", "--threads", "1", "--json").out)
    assert found["settings"] == [
        {
            "key": "device",
            "value": "auto",
            "from": "VGI_DEVICE",
            "overridden": [{"from": "mine.yaml, line 1", "value": "cpu"}],
        },
        {
            "key": "threads",
            "value": 1,
            "from": "--threads",
            "overridden": [{"from": "VGI_THREADS", "value": 2}, {"from": "mine.yaml, line 2", "value": 3}],
        },
        {"key": "seed", "value": 4, "from": "mine.yaml, line 3", "overridden": []},
        {"key": "compiled loops", "value": False, "from": "VGI_FAST", "overridden": []},
    ]
    assert found["environment"]["VGI_FAST"] == "0" and not found["compiled_loops"]["usable"]
    text = vgi("doctor", "--recipe", "mine.yaml").out
    assert "  threads         2 (VGI_THREADS; not 3, said by mine.yaml, line 2)\n" in text


@NO_GPU
@pytest.mark.parametrize("by", ["--device", "VGI_DEVICE", "recipe"])
def test_a_device_that_cannot_be_used_is_1_with_the_reason(vgi: Vgi, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    Path("mine.yaml").write_text("device: cuda\n")
    flags = {"--device": ["--device", "cuda"], "VGI_DEVICE": [], "recipe": ["--recipe", "mine.yaml"]}[by]
    if by == "VGI_DEVICE":
        monkeypatch.setenv(by, "cuda")
    done = vgi("doctor", "--json", *flags)
    where = "mine.yaml, line 1" if by == "recipe" else by
    assert done.code == 1 and done.error.startswith(f"{where} cuda: expected a CUDA GPU, found none")
    found = checked("doctor", done.out)
    assert found["chosen"] is None and found["problems"] == [done.error]
    assert "nothing: see below" in vgi("doctor", *flags).out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--device", "gpu"], "--device: unknown device 'gpu'"),
        (["--threads", "0"], "--threads: expected a whole number from 1 to"),
        (["--recipe", "none.yaml"], "--recipe: no file 'none.yaml'"),
    ],
)
def test_settings_that_could_be_used_nowhere_are_2(vgi: Vgi, arguments: list[str], error: str) -> None:
    done = vgi("doctor", *arguments)
    assert (done.code, done.out) == (2, "") and done.error.startswith(error)


def test_threads_that_cannot_be_started(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgi_cli.machine.device.cores", lambda: 1)
    monkeypatch.setattr("vgi_cli.machine.device._startable", lambda count: 5)
    done = vgi("doctor", "--threads", "7")
    assert done.code == 1 and done.error == "--threads 7: this system lets the program start 5 threads"


def test_gpus_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["H", "K"]

    def ones(*shape: int, dtype: torch.dtype, device: str) -> torch.Tensor:
        if device == "cuda:1":
            raise RuntimeError("no kernel image is available\nmore")
        return torch.zeros(*shape, dtype=dtype) + 1

    cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 2,
        get_device_name=names.__getitem__,
        mem_get_info=lambda number: (5, 9),
    )
    library: Any = SimpleNamespace(
        cuda=cuda,
        ones=ones,
        float64=torch.float64,
        version=SimpleNamespace(cuda="13.0"),
        get_num_threads=lambda: 1,
        backends=torch.backends,
    )
    found = doctor._devices(library)
    assert [device.name for device in found] == ["cpu", "cuda:0", "cuda:1", "mps"]
    assert found[1] == doctor.Device("cuda:0", True, "H, CUDA 13.0", (5, 9))
    assert found[2] == doctor.Device("cuda:1", False, "it fails at a small product: no kernel image is available")
    assert not found[3].usable


def test_on_a_gpu_the_kernels_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_resolved", lambda device, problems: "cuda:0")
    monkeypatch.setattr(doctor, "triton_version", lambda: "3.6.0")
    for found, usable, line in (
        (compiled.OnGpu(object()), True, "splines  by fused kernels: triton 3.6.0"),
        (compiled.OnGpu(None, "triton cannot compile them: no compiler"), False, "splines  by torch: triton cannot"),
    ):
        monkeypatch.setattr(compiled, "on_gpu", lambda found=found: found)
        findings = doctor.examine({}, None, {})
        assert findings.values()["compiled_loops"]["usable"] is usable and line in findings.text()


def test_a_torch_that_does_not_load_is_said(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "torch" and more[0]["__name__"] == "vgi_cli.machine.doctor":
            raise OSError("libcudart.so: cannot open")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    done = vgi("doctor", "--json")
    assert done.code == 1 and done.error == "torch cannot be loaded: libcudart.so: cannot open"
    found = checked("doctor", done.out)
    assert not found["devices"][0]["usable"] and found["memory"] == {}


def test_a_variable_that_is_not_read_is_named(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGI_DEVCE", "cuda")
    note = "the environment variable VGI_DEVCE is not read: did you mean 'VGI_DEVICE'?"
    assert f"note: {note}\n" in vgi("doctor").out
    assert checked("doctor", vgi("doctor", "--json").out)["notes"] == [note]


def test_looking_for_a_doctor_loads_no_torch() -> None:
    code = "import sys, vgi_cli.commands.doctor, vgi_cli.commands.recipe; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
