"""What a second thread brings: seconds of a training step of `vgi` with one thread and with two, in turn.

    python benchmarks/threads.py [--repeats 40] [--works a b c d]

Prints for each piece of work (see works.py; also with a quarter of its rows a step) the multiplications that
`vgi fit` counts for a step, the least seconds of a step with either number of threads (the least, since other
programs on the machine only ever add to it), and the CPU seconds, which show what waiting costs.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does

import torch
from works import Work, config, incomplete, works

from vgi_cli.fitting.job import work_of_step
from vgi_cli.methods.base import Events, StepEnd
from vgi_cli.methods.loop import Stage
from vgi_cli.methods.vgi import vgi
from vgi_cli.methods.vgi.state import VgiState


def state_of(work: Work, batch: int) -> VgiState:
    """A fit of the work in its main stage."""
    table = incomplete(work, min(work.N, 8 * batch))
    optim = config(work).optim.model_copy(update={"batch_size": batch})
    state = vgi.METHOD.init(work.build(), table, config(work).model_copy(update={"optim": optim}), torch.Generator())
    state.enter(Stage.MAIN)
    return state


def timed(events: Events, threads: int) -> tuple[float, float]:
    """Wall and CPU seconds of a step."""
    torch.set_num_threads(threads)
    wall, cpu = time.perf_counter(), time.process_time()
    while not isinstance(next(events), StepEnd):
        pass
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--works", nargs="+", default=["a", "b", "c", "d"])
    args = parser.parse_args()
    print("work                batch   count      s (1)    s (2)   speed-up   CPU s (1)  CPU s (2)")
    for name in args.works:
        work = works()[name]
        for batch in (work.batch, max(8, work.batch // 4)):
            state = state_of(work, batch)
            events = vgi.run(state)
            count = work_of_step(state.theta, batch * state.chains.K)
            for threads in (1, 2, 1, 2):
                timed(events, threads)
            seconds = {n: [timed(events, n) for _ in range(1)] for n in (1, 2)}
            for _ in range(args.repeats):
                for n in (1, 2):
                    seconds[n].append(timed(events, n))
            wall = {n: min(s[0] for s in seconds[n]) for n in (1, 2)}
            cpu = {n: min(s[1] for s in seconds[n]) for n in (1, 2)}
            print(
                f"{work.title:<20}{batch:>5}{count:9.1e}{wall[1]:10.4f}{wall[2]:9.4f}{wall[1] / wall[2]:9.2f}"
                f"{cpu[1]:13.4f}{cpu[2]:11.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
