"""Targets of Algorithm 1 on models with latents: `vgi` with a corrected chain, VBGI-VAE and VBGI-VAE-M (paper, section
6.3). Rows of the chains are augmented by the latents; the ELBO never enters an acceptance ratio.
"""

from __future__ import annotations

from typing import cast, final

import torch
from torch import Tensor

from vgi_cli.chains.moves import OfRows, SweepNoise, Swept, WithLatents, normal, sweep, sweep_noise
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.conditionals.latent_blocks import LatentBlocks
from vgi_cli.conditionals.latent_columns import LatentColumns
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.maths.cells import MixedCells
from vgi_cli.maths.laws import CellsLaw
from vgi_cli.methods.vgi.build import check_scan, conditionals_given_latents
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import DrawNoise, draw_noise, vgi_objective
from vgi_cli.methods.vgi.targets import Columns, Inference, Target
from vgi_cli.models.base import Latent, Model


@final
class CarriedLatents(Columns):
    """`vgi` on a model with latents with a Metropolis chain: univariate conditionals, the ELBO as objective; the chain
    carries z."""

    def latents(self, model: Model) -> int:
        return cast(Latent, model).latents

    def sweep_noise(self, of: Inference, n: int, like: Tensor, g: torch.Generator) -> SweepNoise:
        """Each proposal has a z of its own."""
        plain = super().sweep_noise(of, n, like, g)
        return plain._replace(latents=normal((n, plain.normal.shape[1], of.layout.L), like, g))

    def update(self, of: Inference, x: Tensor, missing: Tensor, noise: SweepNoise, box: Tensor | None = None) -> Swept:
        model = cast(Latent, of.p)
        rows, z = of.layout.split(x)
        swept = sweep(noise, of.q, rows, of.layout.data(missing), WithLatents(model, z), of.moves, of.K, box)
        assert swept.z is not None
        return swept._replace(x=torch.cat([swept.x, swept.z], 1))

    def objective(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        """On the data columns, with the ELBO."""
        return super().objective(of, of.layout.data(x), of.layout.data(missing), weight, noise)

    def likelihood(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        return super().likelihood(of, of.layout.data(x), of.layout.data(missing), weight)


@final
class BlockLatents(Target):
    """VBGI-VAE: the latents and the missing cells are redrawn in turn, and each has its term of the objective; a
    complete row has the term of z alone, its ELBO.

    marginal  VBGI-VAE-M: the missing cells are integrated out of the decoder, p(x_obs | z) p(z) / q(z | x) is what
              climbs, and imputations are drawn from the decoder
    """

    together = True

    def __init__(self, *, marginal: bool) -> None:
        self.marginal = marginal

    def latents(self, model: Model) -> int:
        return cast(Latent, model).latents

    def conditionals(self, model: Model, config: VgiConfig, layout: Layout) -> Conditionals:
        """The partition is that of the method: all missing cells, all latents."""
        trunk, extended = None if self.marginal else config.trunk, config.kernel == "extended"
        return LatentBlocks(layout, self.latents(model), trunk, extended=extended)

    def bind(self, q: Conditionals, model: Model) -> None:
        cast(LatentBlocks, q).bind(cast(Latent, model))

    def sweep_noise(self, of: Inference, n: int, like: Tensor, g: torch.Generator) -> SweepNoise:
        """z first, then the missing cells; a path needs an order that is as likely backwards."""
        if not of.moves.metropolis:
            nothing, layout = like.new_empty(0), of.layout
            return SweepNoise(nothing, normal((n, layout.d), like, g), nothing, normal((n, layout.L), like, g))
        noise = sweep_noise(of.q, n, of.moves, like, g)
        return noise if of.moves.path else noise._replace(order=torch.ones_like(noise.order))

    def draw_noise(self, of: Inference, n: int, R: int, like: Tensor, g: torch.Generator) -> DrawNoise:
        """For the latents of all rows and the cells of incomplete ones."""
        cells = 0 if self.marginal else of.layout.d
        return DrawNoise(like.new_empty(0), normal((n, cells), like, g), normal((R, of.layout.L), like, g))

    def update(self, of: Inference, x: Tensor, missing: Tensor, noise: SweepNoise, box: Tensor | None = None) -> Swept:
        """A cell whose draw leaves the box keeps its value (without a correction), or both blocks do."""
        model = cast(Latent, of.p)
        if not of.moves.metropolis:
            return self._redraw(of, x, missing, noise, box)
        if box is not None:
            wide = box.new_full((1, model.latents), torch.inf)
            box = torch.cat([box, torch.cat([-wide, wide])], 1)
        density = OfRows(lambda x, missing: model.joint_log_prob(x))
        return sweep(noise, of.q, x, missing, density, of.moves, of.K, box)

    @torch.no_grad()
    def _redraw(self, of: Inference, x: Tensor, missing: Tensor, noise: SweepNoise, box: Tensor | None) -> Swept:
        """z ~ q(z | x), then x_mis ~ q(x_mis | z, x_obs): cells that are independent, each kept for itself."""
        model, q = cast(Latent, of.p), cast(LatentBlocks, of.q)
        rows, holes = of.layout.data(x), of.layout.data(missing)
        z = model.encode(rows).draw(noise.latents)
        cells = q.cells(rows, z, holes).draw(noise.normal)
        kept = holes
        if box is not None:
            kept = holes & (cells >= box[0]) & (cells <= box[1])
        moved = kept.any(1)
        tried = x.new_full((2,), len(x))
        accepted = torch.stack([moved.sum().to(x.dtype), tried[1]])
        return Swept(torch.cat([torch.where(kept, cells, rows), z], 1), None, tried, accepted, moved[:, None])

    def objective(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        """J of a row is the mean of its two blocks' terms, or its ELBO where no cell is missing. The encoder and, in
        the ELBO, the decoder see the imputations as they stand; nothing that is drawn is relaxed."""
        model, q = cast(Latent, of.p), cast(LatentBlocks, of.q)
        rows, z = of.layout.split(x)
        holes = of.layout.data(missing)
        if self.marginal:
            return (weight * model.elbo(rows, noise.latents, holes, model.encode(rows))).sum()
        elbo = weight * model.elbo(rows, noise.latents)
        n = len(noise.normal)
        if n == 0:
            return elbo.sum()
        law, wanted = q.cells(rows[:n], z[:n], holes[:n]), holes[:n].to(x.dtype)
        completed = rows[:n].lerp(law.draw(noise.normal), wanted)
        entropy = (law.entropies() * wanted).sum(1)
        cells = weight[:n] * (_expected(model, law, completed, z[:n], holes[:n]) + entropy)
        return 0.5 * (elbo[:n].sum() + cells.sum()) + elbo[n:].sum()

    def likelihood(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        """UsageError: `check_blocks` refuses it before."""
        raise UsageError("method.gradient=accepted needs the log density of a row", "leave it out")


@final
class SingleCells(Target):
    """VBGI with univariate x_j (paper, section 3.4): a row's missing columns, each on its own, and the latents, all
    together, are its blocks, and each is as likely to be redrawn."""

    together = True

    def latents(self, model: Model) -> int:
        return cast(Latent, model).latents

    def conditionals(self, model: Model, config: VgiConfig, layout: Layout) -> Conditionals:
        L = self.latents(model)
        return LatentColumns(conditionals_given_latents(config, layout, L), L)

    def bind(self, q: Conditionals, model: Model) -> None:
        cast(LatentColumns, q).bind(cast(Latent, model))

    def sweep_noise(self, of: Inference, n: int, like: Tensor, g: torch.Generator) -> SweepNoise:
        return sweep_noise(of.q, n, of.moves, like, g)

    def draw_noise(self, of: Inference, n: int, R: int, like: Tensor, g: torch.Generator) -> DrawNoise:
        """For M columns of incomplete rows and the latents of all."""
        cells = draw_noise(cast(LatentColumns, of.q).columns, n, of.estimate, like, g)
        return cells._replace(latents=normal((R, of.layout.L), like, g))

    def update(self, of: Inference, x: Tensor, missing: Tensor, noise: SweepNoise, box: Tensor | None = None) -> Swept:
        """G blocks of each row, in random order without replacement; accepted by p(x, z) where anything is refused."""
        model = cast(Latent, of.p)
        if box is not None:
            wide = box.new_full((1, model.latents), torch.inf)
            box = torch.cat([box, torch.cat([-wide, wide])], 1)
        density = OfRows(lambda x, missing: model.joint_log_prob(x))
        return sweep(noise, of.q, x, missing, density, of.moves, of.K, box)

    def objective(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        """J of a row with h holes: 1 / (h + 1) of the term of z, its ELBO, and h / (h + 1) of the mean over its holes
        of E [log p(x_j, rest | z) p(z) - log q(x_j | rest, z)], z as it stands in the chain. The expectation over the
        block is exact as to which of the two it is, and an estimate from M columns as to the column."""
        model, q = cast(Latent, of.p), cast(LatentColumns, of.q)
        holes = of.layout.data(missing)
        count = holes.sum(1).to(x.dtype)
        latents = (weight / (count + 1) * model.elbo(of.layout.data(x), noise.latents)).sum()
        n = len(noise.normal)
        if n == 0:
            return latents
        share = weight[:n] * count[:n] / (count[:n] + 1)
        given = torch.nn.functional.pad(holes[:n], (0, of.layout.L))  # of the latents nothing is redrawn here
        joint = OfRows(lambda x, missing: model.joint_log_prob(x)).log_p
        return latents + vgi_objective(joint, q.columns, x[:n], given, share, of.K, noise, of.estimate)

    def likelihood(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        """UsageError: `check_single` refuses it before."""
        raise UsageError("method.gradient=accepted needs the log density of a row", "leave it out")


def _expected(model: Latent, q: CellsLaw, x: Tensor, z: Tensor, missing: Tensor) -> Tensor:
    """E_q [ log p(x | z) p(z) ] of rows x [n, d], whose `missing` cells are drawn from q, given z [n, L]: [n]. The
    expectation over levels is exact, in value and gradient, because given z the cells are independent under p as under
    q; that over numbers is by their draw, which is differentiable."""
    if not isinstance(q, MixedCells):
        return model.joint_log_prob(torch.cat([x, z], 1))
    p = cast(MixedCells, model.decode(z))
    discrete = q.places.discrete
    summed = missing & torch.zeros_like(missing).index_fill(1, discrete, True)
    levels = (p.expected_log_levels(q) * summed[:, discrete]).sum(1)
    return p.log_prob(x, summed) + levels + model.prior.log_prob(z)


def check_single(config: VgiConfig) -> None:
    """UsageError for settings that mean nothing where the blocks are z and each missing cell."""
    check_scan(config)
    if config.gradient != "objective":
        message = "method.gradient=accepted means nothing for 'vbgi' on a model with latents"
        raise UsageError(f"{message}: the log density of a row has no closed form", "leave it out")
    _check_warm_up(config, "vbgi")


def check_together(config: VgiConfig) -> None:
    """UsageError for single cells where there are no latents beside them, or no conditionals of cells."""
    if config.cells != "together":
        raise UsageError(
            f"method.cells={config.cells} is said of the missing cells beside latents that are a block of their own",
            "leave it out, or take --model vae --method vbgi",
        )


def check_blocks(config: VgiConfig, method: str, marginal: bool) -> None:
    """UsageError for settings of `vgi` that mean nothing where the blocks are z and the missing cells; `marginal`: the
    latter are integrated out of the decoder."""
    check_scan(config)
    needed = {
        "gibbs_steps": (config.gibbs_steps, 2, "a sweep redraws the latents and the missing cells once"),
        "blocks_per_row": (config.blocks_per_row, 2, "the objective has a term for each of these two"),
        "layout": (config.layout, "auto", "the conditionals are the encoder and one network of the missing cells"),
        "conditional": (config.conditional, "gaussian", "the conditionals are independent normals and levels"),
        "gradient": (config.gradient, "objective", "the log density of a row has no closed form"),
    }
    if marginal:
        needed["kernel"] = (config.kernel, "standard", "the encoder and the decoder see no previous value")
    for key, (value, only, why) in needed.items():
        if value != only:
            message = f"method.{key}={value} means nothing for '{method}' on a model with latents: {why}"
            raise UsageError(message, f"leave it out, or say --set method.{key}={only}")
    networks = ["hidden", "spline_steps", "spline_bins"] + (["trunk"] if marginal else [])
    for key in networks:
        value = getattr(config, key)
        if value != VgiConfig.model_fields[key].default:
            network = "the encoder" if marginal else "the encoder and a network of layers method.trunk"
            shown = list(value) if isinstance(value, tuple) else value
            message = f"method.{key}={shown} means nothing for '{method}' on a model with latents"
            raise UsageError(f"{message}: the conditionals are {network}", "leave it out")
    _check_warm_up(config, method)


def _check_warm_up(config: VgiConfig, method: str) -> None:
    if config.optim.warmup_conditionals:
        raise UsageError(
            f"'{method}' on a model with latents has no warm-up of the conditionals: all networks learn in that of the "
            f"model, got optim.warmup_conditionals={config.optim.warmup_conditionals}",
            "say --set optim.warmup_conditionals=0",
        )
