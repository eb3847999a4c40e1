"""Tensors on disk: what safetensors itself would write, in pieces, with its hash."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from tests.tensors import same_tensors
from vgi_cli.runs import tensors as module
from vgi_cli.runs.files import file_sha256
from vgi_cli.runs.tensors import read_tensors, write_tensors

TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64]
TYPES += [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("chunk", [16, 1 << 24])
def test_files_are_those_of_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    g = torch.Generator().manual_seed(0)
    tensors = {f"{i % 3}/{dtype}": torch.randint(0, 2, (7, i), generator=g).to(dtype) for i, dtype in enumerate(TYPES)}
    tensors |= {"scalar": torch.tensor(3), "empty": torch.zeros(0, 4), 'spalte ä "x"': torch.arange(3.0)}
    tensors["turned"] = torch.arange(12.0).view(3, 4).T
    path = tmp_path / "x.safetensors"
    digest = write_tensors(path, tensors)
    assert path.read_bytes() == save({name: value.contiguous() for name, value in tensors.items()})
    assert digest == file_sha256(path)
    assert same_tensors(read_tensors(path), tensors)


def test_a_part_of_a_tensor_is_written_without_the_rest(tmp_path: Path) -> None:
    values = torch.arange(10.0).view(5, 2)
    write_tensors(tmp_path / "x", {"values": values[:-1]})
    assert torch.equal(read_tensors(tmp_path / "x")["values"], values[:-1])


def test_no_tensors_at_all(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", {})
    assert (tmp_path / "x").read_bytes() == save({}) and read_tensors(tmp_path / "x") == {}
