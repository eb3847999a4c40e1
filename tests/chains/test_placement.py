"""The rule that places the chains, on sizes alone."""

import sys

import pytest
import torch

from vgi_cli.chains.store.placement import SHARE, MemoryBudget, ample, choose_place, no_file, place_of

GB = 10**9


@pytest.mark.parametrize(
    ("size", "device", "ram", "place"),
    [
        (1 * GB, 80 * GB, 100 * GB, "device"),
        (50 * GB, 80 * GB, 100 * GB, "host"),
        (90 * GB, 80 * GB, 100 * GB, "disk"),
        (1 * GB, 1 * GB, 1 * GB, "disk"),
        (1 * GB, None, 100 * GB, "device"),
        (90 * GB, None, 100 * GB, "disk"),
        (0, 0, 0, "device"),
    ],
)
def test_the_first_place_that_they_fit(size, device, ram, place):
    assert choose_place(size, device, ram) == place


def test_the_share_of_the_memory_is_a_bound():
    free = 1000
    assert choose_place(int(SHARE * free), None, free) == "device"
    assert choose_place(int(SHARE * free) + 1, None, free) == "disk"


@pytest.mark.parametrize("device", [None, 80 * GB])
@pytest.mark.parametrize("setting", ["device", "host", "disk"])
def test_a_setting_overrides_what_is_free(setting, device):
    expected = "device" if setting == "host" and device is None else setting
    for ram in (0, 100 * GB):
        assert place_of(setting, GB, MemoryBudget(device, ram, no_file)) == expected


def test_auto_asks_the_rule():
    assert [place_of("auto", GB, MemoryBudget(None, ram, no_file)) for ram in (GB, 2 * GB)] == ["disk", "device"]


def test_an_ample_room_takes_everything():
    assert ample(torch.device("cpu"))[:2] == (None, sys.maxsize)
    assert place_of("auto", 10**15, ample(torch.device("cuda"))) == "device"
