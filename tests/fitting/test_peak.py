"""Memory of a fit beside the table: at most 1.3 times the chains, and what a small fit of the same batches takes. Where
half of the columns are of levels, the chains are smaller for it.

Measured as the peak of the resident memory of a process of its own, in which freed blocks go back to the system.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MEASURE = """
import json, sys, tempfile
from pathlib import Path
import torch
from vgi_cli.data import TensorTable
from vgi_cli.layout import Layout
from vgi_cli.methods import start
from vgi_cli.methods.vgi import vgi
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.models.gaussian.fa import FactorAnalysis, FaConfig
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.runs.folder import RunFolder, claim
from vgi_cli.fitting.driver import Drive
from vgi_cli.reporting import Silent
from vgi_cli.machine.work import Stop
from vgi_cli.fitting.chains import chain_context

D, BATCH, DISCRETE = 24, 1024, int(sys.argv[1])
torch.set_num_threads(1)
start.INITIAL_ROWS = BATCH  # a constant, of which the chains here are not many times as large


def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


LAYOUT = Layout.of(map(str, range(D)), levels=[3] * DISCRETE + [0] * (D - DISCRETE))


def density():
    if DISCRETE:
        return GaussianMixture.build(MixtureConfig(components=1), LAYOUT)
    return FactorAnalysis.build(FaConfig(factors=1), LAYOUT)


def table(N):
    g = torch.Generator().manual_seed(0)
    x, missing = torch.zeros(N, D), torch.zeros(N, D, dtype=torch.bool)
    for column in range(D):
        missing[:, column] = torch.rand(N, generator=g) < 0.5
        drawn = torch.randint(3, (N,), generator=g).float() if column < DISCRETE else torch.randn(N, generator=g)
        x[:, column] = drawn.masked_fill_(missing[:, column], 0.0)
    return TensorTable(x, missing, LAYOUT)


def peak(N, K):
    data, keys = table(N), torch.arange(N)
    optim = {"batch_size": BATCH, "warmup_conditionals": 0, "warmup_model": 0}
    config = VgiConfig(imputations=K, trunk=(8,), hidden=(4,), epochs=1, gibbs_steps=1, optim=optim)
    model = density()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(claim(Path(folder) / "run").path, {"format": 1, "metrics_bytes": 0})
        before = memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        state = vgi.METHOD.init(model, data, config, torch.Generator().manual_seed(0))
        context = chain_context(keys, data.missing, torch.zeros(8, D))
        Drive(vgi.run, state, run, data, Silent(), Stop(), constant=context).go()
        return memory("VmHWM") - before, state.chains.size


peak(2 * BATCH, 10)  # whatever is loaded or built once
small, _ = peak(2 * BATCH, 10)
large, chains = peak(24_000, 10)
print(json.dumps({"small": small, "large": large, "chains": chains}))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak can be measured on Linux only")
@pytest.mark.slow
@pytest.mark.parametrize(("discrete", "size"), [(0, 11_400_000), (12, 7_100_000)])  # half of 24,000 x 24 x 10 cells
def test_a_fit_takes_little_more_than_its_chains(discrete: int, size: int) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "262144"}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(discrete)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["chains"] == pytest.approx(size, rel=0.02)
    assert 0.7 < (figures["large"] - figures["small"]) / figures["chains"] <= 1.3, figures
