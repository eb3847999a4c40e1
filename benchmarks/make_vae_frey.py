"""Make VAE-Frey: tables of 560 columns simulated from a variational autoencoder of the Frey faces, cells missing at
random.

    python benchmarks/make_vae_frey.py FACES results/vae-frey

FACES as for `make_frey.py`. As in the paper (Simkus, Rhodes and Gutmann 2023, section 6.3) an autoencoder with 10
latent variables, layers of 200 sigmoid units and a variance for each column as a function of z is fitted to the logits
of the images as they are (705 epochs, Adam at 1e-3, batches of 100), and rows are simulated from it. As with the
authors, the columns of the simulated tables are centred: the encoders of several methods put 0 into missing cells.

Written into the folder: `truth` (the run of that fit), `train` (2,400 rows), `val` (600) and `test` (3,000), complete,
and for each fraction k/6 and each mask m `train-k-m` with holes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from make_frey import read_faces
from tables import SIXTHS, write, write_masked

import vgi_cli
from vgi_cli.fitting.fitted import load_run
from vgi_cli.reporting import Silent

ROWS = {"train": 2400, "val": 600, "test": 3000}
MODEL = {
    "table.transform": "none",
    "model.latents": 10,
    "model.encoder": [200],
    "model.decoder": [200],
    "model.variance": "latent",
}
OPTIM = {"optim.lr": 0.001, "optim.batch_size": 100, "optim.schedule": "constant", "optim.average": 0.0}


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="VAE-Frey: simulated tables of 560 columns.")
    parser.add_argument("faces", type=Path, help="Parquet table of the images")
    parser.add_argument("out", type=Path, help="folder to write into")
    parser.add_argument("--sixths", type=int, nargs="+", default=SIXTHS, choices=SIXTHS)
    parser.add_argument("--masks", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=705, help="of the fit to the images")
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    columns, x = read_faces(given.faces)
    logits = given.out / "faces.parquet"
    write(columns, x, None, logits)
    settings = {**MODEL, **OPTIM, "bootstrap": "none"}
    vgi_cli.fit(
        logits, model="vae", method="complete", set=settings, epochs=given.epochs, seed=given.seed, threads=1,
        out=given.out / "truth", force=True,
    )  # fmt: skip
    truth = load_run(given.out / "truth", Silent())
    simulated = {}
    for i, (part, rows) in enumerate(ROWS.items()):
        with torch.no_grad():
            encoded = truth.model.sample(rows, torch.Generator().manual_seed(1000 * given.seed + i))
        simulated[part] = encoded.double().numpy()  # values: nothing is transformed, and decoding would round them
    centre = simulated["train"].mean(0)
    for part, values in simulated.items():
        write(columns, values - centre, None, given.out / f"{part}.parquet")
    train = simulated["train"] - centre
    made = write_masked(given.out, columns, train, given.sixths, given.masks, given.seed, "parquet")
    print(f"{len(made)} tables with holes, train, val, test and the run of the truth in {given.out}")


if __name__ == "__main__":
    main()
