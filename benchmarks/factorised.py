"""What a posterior that takes missing cells for independent does to a fit: figure 2 of the paper, on the toy tables.

    python benchmarks/factorised.py WORK_FOLDER [--masks 5] [--sixths 1 2 3 4 5] [--vgi]

Makes the tables of `make_toy.py` in the folder, fits each by `--method em` and by `--method em-factorised` (`--vgi`: by
`recipes/toy-fa.yaml` too), and prints for each method and fraction missing the means over masks of KL(truth || model)
and the percent bias of the log-likelihood of complete test rows, 100 |(mean over masks of l(model)) - l(truth)| /
|l(truth)|. Results are kept in the folder, shared with `toy.py`: what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

import make_toy
from toy import RECIPE, fit


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--masks", type=int, default=5)
    parser.add_argument("--sixths", type=int, nargs="+", default=make_toy.SIXTHS)
    parser.add_argument("--vgi", action="store_true")
    given = parser.parse_args(argv)
    folder: Path = given.folder
    if not (folder / "truth.json").exists():
        make_toy.main([str(folder), "--masks", str(given.masks)])
    truth = abs(json.loads((folder / "truth.json").read_text())["test_loglik"])
    print(f"| KL(truth, model); bias of the test log-likelihood | {' | '.join(f'{k}/6' for k in given.sixths)} |")
    print("|---|" + "--:|" * len(given.sixths))
    for method in ("em", "em-factorised", *(["vgi"] if given.vgi else [])):
        cells = []
        for k in given.sixths:
            tables = [folder / f"train-{k}-{m}.parquet" for m in range(1, given.masks + 1)]
            found = [fit(folder, table, method, method, {}, RECIPE if method == "vgi" else None) for table in tables]
            bias = 100 * abs(statistics.fmean(one["loses"] for one in found)) / truth
            cells.append(f"{statistics.fmean(one['kl'] for one in found):.5f}; {bias:.4f} %")
        print(f"| `{method}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
