"""Packed chains: what is stored comes back, observed cells never change, weights add up."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tensors import same_tensors
from vgi_cli import scratch
from vgi_cli.chains.store import lines
from vgi_cli.chains.store.packed import Chains, index_type, make_chains
from vgi_cli.chains.store.placement import MemoryBudget
from vgi_cli.data import make_table
from vgi_cli.errors import FitError
from vgi_cli.layout import Layout


def table(seed, N=30, D=5, share=0.4):
    g = torch.Generator().manual_seed(seed)
    missing = torch.rand(N, D, generator=g) < share
    return torch.where(missing, 0.0, torch.randn(N, D, generator=g, dtype=torch.float64)), missing


def in_memory(lines, K, dtype):
    """Stands in for a mapped file."""
    return torch.zeros(lines, K, dtype=dtype)


PLACES = ["device", "host", "disk"]
everywhere = pytest.mark.parametrize("place", PLACES)


@given(st.integers(0, 50), st.integers(1, 4), st.floats(0, 1), st.sampled_from(PLACES))
def test_stored_values_come_back_and_observed_cells_stay(seed, K, share, place):
    x, missing = table(seed, share=share)
    chains = Chains(make_table(x, missing), K, place, in_memory)
    assert int(missing.sum()) == chains.C
    rows = chains.incomplete[torch.randperm(len(chains.incomplete))[:7]]
    new = torch.randn(len(rows) * K, x.shape[1], dtype=torch.float64)
    chains.store(rows, new)
    back, holes = chains.load(rows)
    assert torch.equal(back[holes], new[holes])
    assert torch.equal(back[~holes], x[rows].repeat_interleave(K, 0)[~holes])
    others = torch.ones(len(x), dtype=torch.bool)
    others[rows] = False
    left = chains.incomplete[others[chains.incomplete]]
    assert bool((chains.load(left)[0][chains.load(left)[1]] == 0).all())


@everywhere
def test_batch_has_incomplete_rows_k_times_and_complete_rows_once(place):
    x, missing = table(1)
    missing[:4] = False
    chains = Chains(make_table(x, missing), 3, place, in_memory)
    batch = chains.batch(chains.incomplete, chains.complete)
    assert batch.x.shape[0] == 3 * len(chains.incomplete) + len(chains.complete)
    torch.testing.assert_close(batch.weight.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(batch.weight[0] * 3, batch.weight[-1])
    assert not bool(batch.missing[-len(chains.complete) :].any())


@everywhere
def test_completed_tables_hold_one_chain_each(place, monkeypatch):
    monkeypatch.setattr("vgi_cli.chains.store.packed.PIECE", 7)
    x, missing = table(2)
    chains = Chains(make_table(x, missing), 2, place, in_memory)
    chains.tensors()["values"][:] = torch.arange(chains.C * 2, dtype=torch.float64).view(-1, 2)
    for k in range(2):
        filled = chains.completed(k)
        assert torch.equal(filled[missing], chains.tensors()["values"][:, k])
        assert torch.equal(filled[~missing], x[~missing])
        assert torch.equal(chains.completed(k, torch.tensor([5, 3])), filled[[5, 3]])


def test_announced_rows_of_a_table_in_files_are_read_ahead_one_batch_at_a_time(tmp_path, monkeypatch):
    read, go_on = [], threading.Event()

    def reading(index, values):
        assert go_on.wait(10)
        read.append((index.tolist(), [value.data_ptr() for value in values]))

    monkeypatch.setattr(scratch, "_read", reading)
    x, missing = table(3)
    missing[:4] = False
    inside = make_table(x, missing)
    chains = Chains(inside._replace(scratch=scratch.Scratch(tmp_path)), 2)
    chains.prefetch(chains.incomplete[:3], chains.complete[1:3])
    chains.prefetch(chains.incomplete[3:6], chains.complete[:1])  # the disk is busy
    assert read == []
    go_on.set()
    chains.scratch._reading.result()
    chains.prefetch(chains.incomplete[6:8], chains.complete[:0])
    chains.scratch._reading.result()
    expected = [[*chains.incomplete[:3].tolist(), *chains.complete[1:3].tolist()], chains.incomplete[6:8].tolist()]
    assert read == [(rows, [inside.x.data_ptr(), inside.missing.data_ptr()]) for rows in expected]


@everywhere
def test_rows_that_were_announced_are_those_that_come(place):
    x, missing = table(4)
    chains = Chains(make_table(x, missing), 2, place, in_memory)
    first, second = chains.incomplete[:9], chains.incomplete[9:20]
    new = torch.randn(len(second) * 2, 5, dtype=torch.float64)
    chains.store(second, new)
    chains.prefetch(second, chains.complete[:0])
    chains.store(first, torch.ones(len(first) * 2, 5, dtype=torch.float64))
    loaded, holes = chains.load(second)
    assert torch.equal(loaded[holes], new[holes])
    chains.prefetch(second, chains.complete[:0])
    loaded, holes = chains.load(first)  # others than were announced
    assert bool((loaded[holes] == 1).all())


@everywhere
def test_what_was_fetched_ahead_is_forgotten_when_it_changes(place):
    x, missing = table(5)
    chains = Chains(make_table(x, missing), 2, place, in_memory)
    rows = chains.incomplete[:6]
    chains.prefetch(rows, chains.complete[:0])
    chains.store(rows[3:], torch.ones(6, 5, dtype=torch.float64))
    loaded, holes = chains.load(rows)
    assert loaded[holes].sum() == missing[rows[3:]].sum() * 2
    chains.prefetch(rows, chains.complete[:0])
    chains.tensors()["values"][:] = 7
    loaded, holes = chains.load(rows)
    assert bool((loaded[holes] == 7).all())


def test_the_next_batch_is_gathered_before_it_is_asked_for(monkeypatch):
    x, missing = table(6)
    chains = Chains(make_table(x, missing), 2, "disk", in_memory)
    gathered = []
    gather = lines.StagedLines._gather
    monkeypatch.setattr(
        lines.StagedLines, "_gather", lambda self, rows: (gathered.append(len(rows)), gather(self, rows))[1]
    )
    chains.prefetch(chains.incomplete[:3], chains.complete[:0])
    chains.load(chains.incomplete[:3])
    assert gathered == [3]
    chains.load(chains.incomplete[:4])
    assert gathered == [3, 4]


def test_what_goes_wrong_while_storing_is_raised(monkeypatch):
    x, missing = table(7)
    chains = Chains(make_table(x, missing), 2, "disk", in_memory)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lines.StagedLines, "_scatter", full)
    chains.store(chains.incomplete[:2], torch.ones(4, 5, dtype=torch.float64))
    with pytest.raises(OSError, match="No space left"):
        chains.tensors()


@everywhere
def test_a_table_without_holes_or_rows_has_no_chains(place):
    x = torch.ones(3, 2)
    chains = Chains(make_table(x, torch.zeros(3, 2, dtype=torch.bool)), 4, place, in_memory)
    assert chains.C == chains.size == 0 and len(chains.incomplete) == 0
    batch = chains.batch(chains.incomplete, chains.complete)
    assert torch.equal(batch.x, x)
    chains.store(batch.rows, batch.x[:0])
    assert len(Chains(make_table(x[:0], x[:0] > 0), 4, place, in_memory).completed(0)) == 0


@pytest.mark.parametrize(
    ("setting", "ram", "place"), [("auto", 10**9, "device"), ("auto", 100, "disk"), ("disk", 10**9, "disk")]
)
def test_chains_live_where_the_setting_or_the_room_puts_them(setting, ram, place):
    x, missing = table(8)
    chains = make_chains(make_table(x, missing), 2, setting, MemoryBudget(None, ram, in_memory))
    assert chains.place == place and chains.size == 16 * chains.C


def test_a_caller_that_names_no_room_has_chains_on_the_device_only():
    x, missing = table(9)
    assert make_chains(make_table(x, missing), 2, "auto").place == "device"
    with pytest.raises(ValueError, match="chains on disk need a MemoryBudget that can map a file"):
        make_chains(make_table(x, missing), 2, "disk")


def test_row_numbers_are_as_small_as_they_can_be():
    assert index_type(2**31 - 1) is torch.int32 and index_type(2**31) is torch.int64


def test_a_system_that_refuses_to_pin_is_named(monkeypatch):
    from vgi_cli.chains.store import link

    class Runtime:
        def cudaHostRegister(self, address, size, flags):
            return 2

    monkeypatch.setattr(link.torch.cuda, "cudart", Runtime)
    with pytest.raises(FitError, match="cannot pin chains of 24 bytes in the host's memory: CUDA error 2") as caught:
        link.pin(torch.zeros(6))
    assert caught.value.hint == "take --set method.chains=disk, or a smaller --set method.imputations"


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("levels", [(), (0, 3, 0, 300, 2)])
def test_on_a_gpu_every_place_gives_the_same_and_the_device_never_waits(levels):
    x, missing = (part.cuda() for part in table(10, N=2000))
    layout = Layout.of("abcde", levels=levels)
    discrete = torch.tensor(layout.level_counts, device="cuda") > 0
    x = torch.where(discrete, x.abs().floor().clamp(max=1), x)
    kept = []
    for place in PLACES:
        chains = Chains(make_table(x, missing, layout), 3, place, in_memory)
        generator = torch.Generator("cuda").manual_seed(0)
        rows = chains.incomplete.to(chains.rows_on)
        batches = [rows[i : i + 200] for i in range(0, 1200, 200)]
        torch.cuda.synchronize()
        try:
            if place == "device":
                torch.cuda.set_sync_debug_mode("error")
            for _ in range(3):
                for batch, after in zip(batches, [*batches[1:], None], strict=True):
                    filled = chains.batch(batch, chains.complete[:0].to(chains.rows_on)).x
                    if after is not None:
                        chains.prefetch(after, chains.complete[:0])
                    noise = torch.randn(filled.shape, generator=generator, device="cuda", dtype=filled.dtype)
                    moved = 0.5 * filled + noise
                    chains.store(batch, torch.where(discrete, (moved > 0).to(moved), moved))
        finally:
            torch.cuda.set_sync_debug_mode("default")
        kept.append({name: packed.cpu() for name, packed in chains.tensors().items()})
        assert place != "host" or all(part.lines.values.is_pinned() for part in chains.parts)
    assert len(kept[0]) == (3 if levels else 1) and all(bool(packed.any()) for packed in kept[0].values())
    assert same_tensors(kept[0], kept[1]) and same_tensors(kept[0], kept[2])
