"""Levels in one byte or two: every level comes back, the bytes are as many as they should be, and what was kept as
floats before is taken up."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from vgi_cli.chains.store.formats import NAMES, Format, chain_count, formats_of
from vgi_cli.chains.store.packed import Chains, make_chains
from vgi_cli.chains.store.placement import MemoryBudget, Place
from vgi_cli.data import TensorTable, make_table
from vgi_cli.layout import Layout
from vgi_cli.machine.memory import mapped_lines
from vgi_cli.maths.noise import row_keys
from vgi_cli.methods.start import empirical, gaussian_draws, initial_imputations
from vgi_cli.runs.tensors import read_tensors, write_tensors
from vgi_cli.samplers.starts import HeldChains

LEVELS = (0, 3, 0, 65536, 256, 257, 70_000)
LAYOUT = Layout.of(map(str, range(7)), levels=LEVELS)
BYTES = (4, 1, 4, 2, 1, 2, 4)
"""Of one imputation of each dimension, in a fit in float32."""


def table(seed: int, N: int = 40, layout: Layout = LAYOUT, dtype: torch.dtype = torch.float32) -> TensorTable:
    g = torch.Generator().manual_seed(seed)
    x = drawn(N, layout, g).to(dtype)
    missing = torch.rand(N, layout.D, generator=g) < 0.4
    missing[:3] = False
    return make_table(x, missing, layout)


def drawn(n: int, layout: Layout, g: torch.Generator) -> Tensor:
    """[n, D] normal numbers, and levels of which both ends are likely."""
    x = torch.randn(n, layout.D, generator=g)
    for i, levels in enumerate(layout.level_counts):
        if levels:
            any_of = torch.randint(levels, (n,), generator=g)
            ends = (levels - 1) * torch.randint(2, (n,), generator=g)
            x[:, i] = torch.where(torch.rand(n, generator=g) < 0.5, any_of, ends).float()
    return x


def in_memory(lines: int, K: int, dtype: torch.dtype) -> Tensor:
    """Stands in for a mapped file."""
    return torch.zeros(lines, K, dtype=dtype)


def filled(seed: int, K: int = 3, place: Place = "device", layout: Layout = LAYOUT) -> Chains:
    """Chains that hold something."""
    chains = Chains(table(seed, layout=layout), K, place, in_memory)
    rows = chains.incomplete
    chains.store(rows, drawn(len(rows) * K, layout, torch.Generator().manual_seed(seed + 1)))
    return chains


def floats(chains: Chains) -> Tensor:
    """[C, K] all imputations as numbers, row by row: how versions before kept them."""
    whole = torch.stack([chains.completed(k) for k in range(chains.K)], -1)
    return whole[chains.missing]


@pytest.mark.parametrize(("levels", "name"), [(2, 1), (256, 1), (257, 2), (65536, 2), (65537, 0), (0, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_level_takes_one_byte_or_two(levels: int, name: int, dtype: torch.dtype) -> None:
    (form,) = formats_of(Layout.of("a", levels=[levels]), dtype)
    assert form.name == NAMES[name] and form.dtype.itemsize == (dtype.itemsize, 1, 2)[name]
    x = torch.arange(levels or 10, dtype=dtype)
    back = form.unpack(form.pack(x), dtype)
    assert back.dtype is dtype and torch.equal(back, x)


def test_numbers_alone_are_kept_as_they_are() -> None:
    x = torch.randn(3, 2)
    (form,) = formats_of(Layout.plain(2), torch.float32)
    assert form == Format("values", (0, 1), torch.float32)
    assert form.pack(x) is x and form.unpack(x, torch.float32) is x


@given(st.integers(0, 50), st.integers(1, 4), st.sampled_from(["device", "host", "disk"]))
def test_stored_rows_come_back(seed: int, K: int, place: Place) -> None:
    chains = Chains(table(seed), K, place, in_memory)
    g = torch.Generator().manual_seed(seed)
    rows = chains.incomplete[torch.randperm(len(chains.incomplete), generator=g)[:9]]
    new = drawn(len(rows) * K, LAYOUT, g)
    chains.prefetch(rows, chains.complete[:0])
    chains.store(rows, new)
    x, holes = chains.load(rows)
    assert x.dtype is torch.float32
    assert torch.equal(x, torch.where(holes, new, chains.x[rows].repeat_interleave(K, 0)))
    others = chains.incomplete[~torch.isin(chains.incomplete, rows)]
    x, holes = chains.load(others)
    assert not bool(x[holes].any())


@pytest.mark.parametrize("place", ["device", "host", "disk"])
def test_bytes(place: Place, tmp_path: Path) -> None:
    """What is counted beforehand, what the tensors take, and what a run folder does."""
    K = 5
    chains = filled(1, K, place)
    holes = chains.missing.sum(0).tolist()
    size = K * sum(n * b for n, b in zip(holes, BYTES, strict=True))
    assert sum(holes) == chains.C and chains.size == size
    assert sum(kept.numel() * kept.element_size() for kept in chains.tensors().values()) == size
    assert chain_count(chains.tensors()) == K
    path = tmp_path / "imputations"
    write_tensors(path, chains.tensors())
    header = int.from_bytes(path.read_bytes()[:8], "little") + 8
    assert path.stat().st_size == header + size
    kinds = {name: kept.dtype for name, kept in read_tensors(path).items()}
    assert kinds == {"values": torch.float32, "levels_u8": torch.uint8, "levels_u16": torch.uint16}


def test_chains_are_placed_by_the_bytes_they_take() -> None:
    """60 % of the RAM is theirs: what one byte a level fits, four would not."""
    rows = table(2, layout=Layout.of("ab", levels=(3, 4)))
    C = int(rows.missing.sum())
    for ram, place in ((2 * 10 * C, "device"), (10 * C, "disk")):
        assert make_chains(rows, 10, "auto", MemoryBudget(None, ram, in_memory)).place == place


@pytest.mark.parametrize("layout", [LAYOUT, Layout.of("ab", levels=(3, 400)), Layout.of("ab", levels=(3, 4))])
def test_a_file_gives_back_the_chains(tmp_path: Path, layout: Layout) -> None:
    """Also where they live in mapped files."""
    chains = filled(3, layout=layout)
    write_tensors(tmp_path / "kept", chains.tensors())

    def mapped(lines: int, K: int, dtype: torch.dtype) -> Tensor:
        return mapped_lines(tmp_path, lines, K, dtype)

    back = Chains(TensorTable(chains.x, chains.missing, layout), 3, "disk", mapped)
    back.restore(read_tensors(tmp_path / "kept"))
    assert all(torch.equal(back.completed(k), chains.completed(k)) for k in range(3))
    assert back.tensors().keys() == chains.tensors().keys()


@pytest.mark.parametrize("place", ["device", "disk"])
@pytest.mark.parametrize("layout", [LAYOUT, Layout.of("ab", levels=(3, 4)), Layout.plain(3)])
def test_levels_that_were_kept_as_floats_are_taken_up(
    place: Place, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgi_cli.chains.store.packed.PIECE", 7)
    chains = filled(4, layout=layout)
    back = Chains(TensorTable(chains.x, chains.missing, layout), 3, place, in_memory)
    back.restore({"values": floats(chains)})
    assert all(torch.equal(back.completed(k), chains.completed(k)) for k in range(3))


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("L", [0, 2])
def test_what_a_run_holds_is_found_by_row(before: bool, L: int) -> None:
    """`before`: in a run of a version that kept levels as floats."""
    layout = LAYOUT.with_latents(L)
    chains = filled(5, layout=layout)
    kept = {"values": floats(chains)} if before else chains.tensors()
    keys = row_keys([str(i) for i in range(len(chains.x))])
    held = HeldChains(keys, chains.missing, kept, LAYOUT)
    rows, picked = torch.tensor([8, 4, 30, 0]), torch.tensor([2, 0])
    expected = torch.stack([chains.completed(int(k))[rows, : LAYOUT.d] for k in picked])
    missing = chains.missing[rows, : LAYOUT.d]
    assert held.K == 3 and torch.equal(held.values(held.find(keys[rows]), picked), torch.where(missing, expected, 0.0))
    with pytest.raises(ValueError, match="one line a missing cell"):
        HeldChains(keys, chains.missing | True, kept, LAYOUT)


def test_one_chain_is_set_alone() -> None:
    chains = filled(6)
    before = [chains.completed(k) for k in range(3)]
    whole = drawn(40, LAYOUT, torch.Generator().manual_seed(9))
    chains.set_chain(1, whole.double())
    assert torch.equal(chains.completed(1), torch.where(chains.missing, whole, chains.x))
    assert torch.equal(chains.completed(0), before[0]) and torch.equal(chains.completed(2), before[2])


WIDE = Layout(
    ("rain", "sex", "size", "kind"),
    (3, 1, 1, 2),
    ((0,), (1,), (2,), (3,)),
    levels=(2, 0, 0, 3, 0, 300, 2),
)
"""Columns of several dimensions, of one kind and of both."""


def wide_rows() -> TensorTable:
    g = torch.Generator().manual_seed(3)
    of_columns = torch.rand(60, 4, generator=g) < 0.4
    return make_table(drawn(60, WIDE, g).double(), WIDE.of_dimensions(of_columns), WIDE)


def test_f0_by_bootstrap_draws_what_unpacked_chains_would_hold() -> None:
    rows = wide_rows()
    packed = Chains(rows, 3)
    unpacked = Chains(rows._replace(layout=Layout(WIDE.columns, WIDE.widths, WIDE.blocks)), 3)
    assert len(packed.parts) == 3 and len(unpacked.parts) == 1
    for chains in (packed, unpacked):
        empirical(chains, torch.Generator().manual_seed(0))
    assert torch.equal(floats(packed), floats(unpacked)) and bool(floats(packed).any())


@pytest.mark.parametrize("L", [0, 2])
def test_f0_by_em_is_what_was_drawn(L: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgi_cli.methods.start.ROWS", 16)
    rows = wide_rows()
    zeros = torch.zeros(rows.N, L, dtype=torch.float64)
    absent = rows.missing.any(1, keepdim=True).expand(-1, L)
    augmented = TensorTable(torch.cat([rows.x, zeros], 1), torch.cat([rows.missing, absent], 1), WIDE.with_latents(L))
    chains = Chains(augmented, 3)
    initial_imputations(chains, augmented, "em", torch.Generator().manual_seed(0))
    drawn_cells = gaussian_draws(rows, 3, torch.Generator().manual_seed(0))
    whole = torch.stack([chains.completed(k) for k in range(3)], -1)
    assert torch.equal(whole[:, : WIDE.d][rows.missing], drawn_cells) and bool(drawn_cells.any())
    assert not bool(whole[:, WIDE.d :].any())
