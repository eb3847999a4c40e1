"""The paper's experiments as `paper.py` runs them: tables, methods with their settings, and what was published.

Published figures are those of Simkus, Rhodes and Gutmann (2023), means over five masks (read off the vector figures of
the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

RECIPES = Path(__file__).parent.parent / "recipes"
COMPLETE = 0  # in place of a fraction: the complete table


class Fit(NamedTuple):
    """A call of `vgi fit`: model, method, a recipe or none, settings by key and epochs (none: by recipe or method)."""

    model: str
    method: str
    recipe: Path | None = None
    settings: Mapping[str, Any] = {}
    epochs: int | None = None


Way = Callable[[int], Fit]
"""How a method is fitted at k/6 missing; k = COMPLETE for the complete table."""


class Family(NamedTuple):
    """One of the paper's experiments.

    measure    `kl`: KL(truth || model), nats, less is better; `loglik`: mean log-likelihood of complete test rows
    ways       method -> how it is fitted; those named in `complete` are fitted to the complete table only
    published  method -> fraction in sixths -> mean
    """

    measure: str
    sixths: tuple[int, ...]
    ways: Mapping[str, Way]
    complete: frozenset[str]
    published: Mapping[str, Mapping[int, float]]


def by_fraction(*values: float) -> dict[int, float]:
    """Five values for 1/6 to 5/6, three for 1/6, 3/6, 5/6, or one for complete data."""
    keys: dict[int, tuple[int, ...]] = {1: (COMPLETE,), 3: (1, 3, 5), 5: (1, 2, 3, 4, 5)}
    return dict(zip(keys[len(values)], values, strict=True))


# -- toy factor analysis ---------------------------------------------------------------------------------------------

TOY = RECIPES / "toy-fa.yaml"
TOY_FIT = {
    "model.factors": 2,
    "optim.lr": 0.02,
    "optim.batch_size": 512,
    "optim.schedule": "constant",
    "optim.average": 0.5,
}
"""What the fits by gradients share with recipes/toy-fa.yaml."""


def toy_vgi(accept: str) -> Way:
    return lambda k: Fit("fa", "vgi", TOY, {"method.accept": accept}, 300 if k > 3 else 150)


def toy_imputed(imputer: str) -> Way:
    def way(k: int) -> Fit:
        rounds = {"method.iterations": 50 if k < 4 else 100} if imputer == "mice" else {}
        settings = {**TOY_FIT, "method.imputer": imputer, "method.imputations": 5, **rounds}
        return Fit("fa", "impute-then-fit", None, settings, 150)

    return way


TOY_FA = Family(
    measure="kl",
    sixths=(1, 2, 3, 4, 5),
    ways={
        "em": lambda k: Fit("fa", "em", None, {"model.factors": 2}),
        "vgi gibbs": toy_vgi("gibbs"),
        "vgi metropolis": toy_vgi("metropolis"),
        "mice": toy_imputed("mice"),
        "empirical": toy_imputed("empirical"),
        "complete": lambda k: Fit("fa", "complete", None, TOY_FIT, 150),
        "vgi, the paper's settings": lambda k: Fit(
            "fa",
            "vgi",
            RECIPES / "paper" / "toy-fa.yaml",
            {"optim.warmup_model": 50 if k == 5 else 20},
            550 if k == 5 else 380,
        ),
    },
    complete=frozenset({"complete"}),
    published={
        "em": by_fraction(0.00167, 0.00298, 0.00474, 0.00913, 0.03194),
        "vgi gibbs": by_fraction(0.00318, 0.00445, 0.00712, 0.01123, 0.03042),
        "mice": by_fraction(0.00253, 0.00398, 0.00611, 0.01003, 0.03557),
        "empirical": by_fraction(0.04717, 0.13875, 0.2450, 0.3463, 0.4160),
        "complete": by_fraction(0.001139),
    },
)

# -- factor analysis of the Frey faces -------------------------------------------------------------------------------

# The competitors' gradient fits have our optimisation (rates that fall, averaging), which serves them: see the docs.
FREY_FIT = {"model.factors": 43, "optim.lr": 0.01, "optim.batch_size": 512, "table.transform": "none"}


def frey_imputed(imputer: str, **more: Any) -> Way:
    settings = {**FREY_FIT, "method.imputer": imputer, "method.imputations": 5, **more}
    return lambda k: Fit("fa", "impute-then-fit", None, settings, 400)


REDUCED = {"method.iterations": 4, "method.imputations": 1}
"""Of MICE on 560 columns: a round takes minutes of one core."""
FREY_EPOCHS = {1: 1000, 2: 1000, 3: 2000, 4: 3000, 5: 5000}
FA_FREY = Family(
    measure="kl",
    sixths=(1, 2, 3, 4, 5),
    ways={
        "em": lambda k: Fit("fa", "em", None, {"model.factors": 43}, 800),
        "vgi": lambda k: Fit("fa", "vgi", RECIPES / "paper" / "fa-frey.yaml", {}, FREY_EPOCHS[k]),
        "vgi blocks": lambda k: Fit("fa", "vgi", RECIPES / "fa-frey.yaml"),
        "mcem": lambda k: Fit("fa", "mcem", None, {**FREY_FIT, "method.imputations": 5}, 800),
        "mice": frey_imputed("mice", **{"method.iterations": 10}),
        "mice, reduced": frey_imputed("mice", **REDUCED),
        "empirical": frey_imputed("empirical"),
        "complete": lambda k: Fit("fa", "complete", None, FREY_FIT, 400),
    },
    complete=frozenset({"complete"}),
    published={
        "em": by_fraction(7.794, 9.570, 13.135, 23.482, 141.416),
        "vgi": by_fraction(16.391, 24.506, 43.630, 116.347, 260.951),
        "mcem": by_fraction(17.78, 31.15, 170.5),
        "mice": by_fraction(19.276, 39.346, 77.320, 157.213, 278.822),
        "empirical": by_fraction(168.80, 254.48, 312.95, 364.51, 437.07),
        "complete": by_fraction(7.097),
    },
)

# -- autoencoders on Frey faces --------------------------------------------------------------------------------------

VAE_FREY = RECIPES / "paper" / "vae-frey.yaml"
VAE_MODEL = {
    "table.transform": "none",
    "model.latents": 10,
    "model.encoder": [200],
    "model.decoder": [200],
    "model.variance": "latent",
}
VAE_FIT = {
    **VAE_MODEL,
    "optim.lr": 0.001,
    "optim.batch_size": 128,
    "optim.schedule": "constant",
    "optim.clip": None,
    "optim.average": 0.0,
}
VAE_EPOCHS = {COMPLETE: 3000, 1: 3000, 2: 4000, 3: 5000, 4: 5000, 5: 5000}


def vae_way(method: str, **more: Any) -> Way:
    return lambda k: Fit("vae", method, None, {**VAE_FIT, **more}, VAE_EPOCHS[k])


def vae_mice(k: int) -> Fit:
    """The fit to imputations by MICE has 3,000 epochs at every fraction."""
    settings = {"method.imputer": "mice", "method.imputations": 5, "method.iterations": 20}
    return vae_way("impute-then-fit", **settings)(k)._replace(epochs=3000)


def vae_blocks(method: str, *delay: int) -> Way:
    """`delay`: epochs at 1/6 to 5/6 missing before the imputations move."""
    return lambda k: vae_way(method, **{"method.imputations": 5, "optim.warmup_model": delay[k - 1]})(k)


def vae_set_encoder(k: int) -> Fit:
    """PartialVAE+: the sizes of its encoder are the model's own."""
    settings = {key: value for key, value in VAE_FIT.items() if key != "model.encoder"}
    return Fit("vae", "partial-vae", None, settings, VAE_EPOCHS[k])


FREY_VAE = Family(
    measure="loglik",
    sixths=(1, 2, 3, 4, 5),
    ways={
        "vgi": lambda k: Fit("vae", "vgi", VAE_FREY, {}, 7000 if k > 3 else VAE_EPOCHS[k]),
        "vgi blocks": lambda k: Fit("vae", "vgi", RECIPES / "vae-frey.yaml"),
        "vbgi": vae_blocks("vbgi", 20, 20, 20, 90, 120),
        "vbgi, f0 from em": vae_way(
            "vbgi", **{"method.imputations": 5, "method.initial": "em", "optim.warmup_model": 20}
        ),
        "vbgi-m": vae_blocks("vbgi-m", 20, 20, 20, 70, 120),
        "mvae": vae_way("mvae"),
        "miwae": vae_way("miwae", **{"method.samples": 50}),
        "hivae": vae_way("hivae"),
        "partial-vae": vae_set_encoder,
        "mice": vae_mice,
        "mice, reduced": vae_way("impute-then-fit", **{"method.imputer": "mice", **REDUCED}),
        "complete": vae_way("complete"),
    },
    complete=frozenset({"complete"}),
    published={
        "vgi": by_fraction(1151, 1127, 1074, 961, 774),
        "vbgi": by_fraction(1154, 1127, 1076, 979, 793),
        "complete": by_fraction(1168),
    },
)

# -- flows on UCI sets -----------------------------------------------------------------------------------------------

CHAINS = {1: 5, 3: 10, 5: 20}
EMPIRICAL_EPOCHS = {"power": 50, "gas": 100, "hepmass": 150, "miniboone": 200}


class Rounds(NamedTuple):
    """A schedule of PLMCMC: so many epochs, the first round, every how many epochs one, and from which epoch on a round
    has how many Metropolis steps."""

    epochs: int
    first: int
    every: int
    steps: tuple[tuple[int, int], ...]

    @property
    def settings(self) -> dict[str, Any]:
        """As settings of the method, shares of the epochs."""
        return {
            "method.first": self.first / self.epochs,
            "method.every": self.every / self.epochs,
            "method.steps": [[epoch / self.epochs, count] for epoch, count in self.steps],
        }


PLMCMC: dict[str, dict[int, Rounds]] = {
    "power": {
        1: Rounds(110, 3, 7, ((0, 200), (25, 500), (60, 1000))),
        3: Rounds(110, 5, 7, ((0, 250), (25, 500), (60, 1000))),
        5: Rounds(155, 5, 7, ((0, 250), (25, 500), (70, 1000))),
    },
    "gas": {
        1: Rounds(240, 7, 14, ((0, 500), (110, 1000))),
        3: Rounds(240, 10, 14, ((0, 500), (110, 1000))),
        5: Rounds(400, 10, 14, ((0, 500), (190, 1000))),
    },
    "hepmass": {  # the authors' round of epoch 15 has no steps: here imputations are noise until the next one
        1: Rounds(325, 34, 19, ((0, 500), (150, 1000))),
        3: Rounds(325, 34, 19, ((0, 500), (150, 1000))),
        5: Rounds(460, 34, 19, ((0, 500), (230, 1000))),
    },
    "miniboone": {
        1: Rounds(866, 40, 50, ((0, 500), (350, 2000), (600, 3000))),
        3: Rounds(866, 40, 50, ((0, 500), (350, 2000), (600, 3000))),
        5: Rounds(1732, 40, 50, ((0, 500), (700, 2000), (1200, 3000))),
    },
}
"""Set -> k -> the authors' schedule."""


def uci(name: str, epochs: int, vgi: tuple[float, ...], theirs: tuple[float, ...], complete: float) -> Family:
    """A flow experiment; epochs as for complete data (twice as many for `vgi` at 5/6, as the authors have it);
    `vgi` and `theirs`: published figures of `vgi` and `plmcmc`."""
    recipe = RECIPES / "paper" / f"{name}.yaml"

    def flow(method: str, length: int, **more: Any) -> Fit:
        """The recipe's model and optimisation with another method, for `length` epochs."""
        from vgi_cli.settings.gather import load_recipe

        base = load_recipe(recipe)
        kept = {f"model.{key}": value for key, value in base.model.settings.items()}
        for key in ("lr", "batch_size", "schedule", "clip", "average"):
            kept[f"optim.{key}"] = base.optim[key]
        settings = {"table.transform": "none", **kept, **more}
        return Fit("flow", method, None, settings, length)

    def ours(k: int) -> Fit:
        return Fit("flow", "vgi", recipe, {"method.imputations": CHAINS[k]}, epochs * (2 if k == 5 else 1))

    def plmcmc(k: int) -> Fit:
        outside = {"method.outside": "reject"} if name == "gas" else {}
        rounds = PLMCMC[name][k]
        return flow("plmcmc", rounds.epochs, **{"method.imputations": 5, **outside, **rounds.settings})

    def empirical(k: int) -> Fit:
        settings = {"method.imputer": "empirical", "method.imputations": 5}
        return flow("impute-then-fit", EMPIRICAL_EPOCHS[name], **settings)

    return Family(
        measure="loglik",
        sixths=(1, 3, 5),
        ways={
            "vgi": ours,
            "plmcmc": plmcmc,
            "empirical": empirical,
            "complete": lambda k: flow("complete", epochs),
        },
        complete=frozenset({"complete"}),
        published={"vgi": by_fraction(*vgi), "plmcmc": by_fraction(*theirs), "complete": by_fraction(complete)},
    )


FAMILIES: dict[str, Callable[[], Family]] = {
    "toy-fa": lambda: TOY_FA,
    "fa-frey": lambda: FA_FREY,
    "vae-frey": lambda: FREY_VAE,
    "power": lambda: uci("power", 127, (0.6157, 0.4910, 0.1493), (0.5900, 0.4037, -0.1772), 0.6300),
    "gas": lambda: uci("gas", 240, (12.586, 10.196, 4.044), (12.393, 9.856, 2.782), 13.053),
    "hepmass": lambda: uci("hepmass", 325, (-16.491, -19.220, -22.280), (-17.810, -20.779, -23.595), -14.752),
    "miniboone": lambda: uci("miniboone", 866, (-9.297, -10.422, -18.684), (-9.959, -13.858, -26.501), -9.540),
}
