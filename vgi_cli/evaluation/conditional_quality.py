"""How well each conditional q(x_j | rest) matches another law's p(x_j | rest), on completed rows: that of the fitted
model, or that of the truth (paper, section 4.7).

Both are univariate: closed form where both are normal, a sum over the levels of a discrete column, quadrature
elsewhere. q is read off as the map T from a standard
normal u to a fresh value; p as its density along x_j, normalised on a grid where the model does not know its
conditionals. Nothing is estimated from draws but the conditionals of a model with latents. Everything is in encoded
units: standard deviations of the column where the encoding is linear.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Conditionals
from vgi_cli.conditionals.families.levels import MixedLaw
from vgi_cli.errors import UsageError
from vgi_cli.evaluation.latent_columns import FEW, latent_column_laws, latent_level_laws
from vgi_cli.evaluation.likelihood.importance import EncoderProposal
from vgi_cli.evaluation.likelihood.loglik import Progress, silent
from vgi_cli.evaluation.likelihood.refit import refit_encoder
from vgi_cli.maths.divergences import Transport, compare_univariate, normal_kl, normal_wasserstein2
from vgi_cli.maths.gaussian import LOG_2PI
from vgi_cli.models.base import Latent, Model
from vgi_cli.models.gaussian.family import ColumnLaw, Components, GaussianFamily, column_law

HIGH_KL = 0.5
"""Nats: a column whose median KL(q || p) is above this makes a warning. Between normals of equal spread it is a mean
that is one standard deviation off; of equal mean, a standard deviation 1.8 times too large or 0.4 of what it should be.
A Metropolis chain still targets the model then, but moves slowly; a pseudo-Gibbs chain targets something else."""
STRAIGHT = 1e-9
"""Relative departure from a line below which T is the map of a normal q."""
BATCH = 8192
"""Density evaluations in one call."""
TUNED = 4000
"""Rows with one hidden cell, at most, to which an encoder is fine-tuned."""
SPREAD = 8.0
"""Standard deviations to either side of the components of a mixture that the grid of its density covers."""


class Quality(NamedTuple):
    """kl [R, C] nats, KL(q || p); wasserstein [R, C], 2-Wasserstein distance, encoded units, NaN of a column of levels,
    which have none; float64. C columns were compared.

    closed_form: whether every number comes from the formulas for two normals.
    ess [R, C]: effective draws of the latents behind the model's own conditionals, where those take draws.
    """

    kl: Tensor
    wasserstein: Tensor
    closed_form: bool
    ess: Tensor | None = None


def require_comparable(model: Model, q: Conditionals, D: int) -> None:
    """UsageError where conditionals cannot be compared with the model's own."""
    if not model.exact and not isinstance(model, Latent):
        raise UsageError(
            "--conditionals needs an exact log density or latents, this model has a lower bound only",
            "leave out --conditionals for this model",
        )
    if q.S != D or q.fresh_width != 1:
        raise UsageError(
            "--conditionals compares conditionals of single columns, these redraw blocks of several",
            "leave it out, or compare those of a fit by --method vgi without blocks",
        )


class Numbers(NamedTuple):
    """A column of numbers of R rows: KL(q || p) and the 2-Wasserstein distance, each [R]; whether both are from the
    formulas for two normals; effective draws [R] of the latents behind p, where p takes draws."""

    kl: Tensor
    wasserstein: Tensor
    closed_form: bool
    ess: Tensor | None = None


class Reference(ABC):
    """Conditionals p(x_j | rest) that others are compared with, of rows x [R, D] (encoded, float64)."""

    @abstractmethod
    def numbers(self, x: Tensor, column: int, q: Transport) -> Numbers:
        """How far q is from p in a column of numbers."""

    @abstractmethod
    def levels(self, x: Tensor, column: int, log_q: Tensor) -> tuple[Tensor, Tensor | None]:
        """(log p [R, most levels], effective draws [R] or None) of the levels of a column; log_q is -inf, and so may p
        be, beyond its own levels."""


@final
class OfGaussians(Reference):
    """Of a mixture of Gaussians over columns of numbers: closed form where both sides are normal, else quadrature."""

    def __init__(self, components: Components) -> None:
        self._components = components

    def numbers(self, x: Tensor, column: int, q: Transport) -> Numbers:
        law = column_law(self._components, x, torch.full((len(x),), column))
        line = _line(q)
        if len(self._components.mean) == 1 and line is not None:
            kl = normal_kl(*line, law.mean[:, 0], law.sd[:, 0])
            return Numbers(kl, normal_wasserstein2(*line, law.mean[:, 0], law.sd[:, 0]), True)
        return Numbers(*compare_univariate(q, mixture_log_prob(law), over(law)), False)

    def levels(self, x: Tensor, column: int, log_q: Tensor) -> tuple[Tensor, Tensor | None]:
        raise ValueError(f"dimension {column} of a mixture of Gaussians holds numbers")


@final
class OfDensity(Reference):
    """Of a joint density, by quadrature along x_j and by sums over levels.

    log_prob   log density [n], up to a constant, of rows [n, D]
    low, high  [D] where it has its mass
    """

    def __init__(self, log_prob: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> None:
        self._log_prob, self._low, self._high = log_prob, low, high

    def numbers(self, x: Tensor, column: int, q: Transport) -> Numbers:
        points = _around(x[:, column], self._low[column], self._high[column])
        return Numbers(*compare_univariate(q, self._along(x, column), points), False)

    def levels(self, x: Tensor, column: int, log_q: Tensor) -> tuple[Tensor, Tensor | None]:
        possible = log_q > -torch.inf
        level = torch.arange(possible.shape[1], dtype=x.dtype).expand(len(x), -1)
        log_p = self._along(x, column)(torch.where(possible, level, 0.0)).masked_fill(~possible, -torch.inf)
        return log_p.log_softmax(1), None

    def _along(self, x: Tensor, column: int) -> Callable[[Tensor], Tensor]:
        """log p(x_j, rest) [R, P] at values [R, P] of x_j."""

        def log_prob(values: Tensor) -> Tensor:
            P = values.shape[1]
            rows, cells = torch.arange(len(x)).repeat_interleave(P), values.flatten()
            out = []
            for some, own in zip(rows.split(BATCH), cells.split(BATCH), strict=True):
                filled = x[some]
                filled[:, column] = own
                out.append(self._log_prob(filled).to(values))
            return torch.cat(out).view(-1, P)

        return log_prob


@final
class OfLatents(Reference):
    """Of a model with latents, by importance sampling of these from a proposal; low, high as of OfDensity."""

    def __init__(self, model: Latent, proposal: EncoderProposal, low: Tensor, high: Tensor) -> None:
        self._model, self._proposal, self._low, self._high = model, proposal, low, high

    def numbers(self, x: Tensor, column: int, q: Transport) -> Numbers:
        points, parts = _around(x[:, column], self._low[column], self._high[column]), []
        for some, (law, draws) in latent_column_laws(self._model, self._proposal, x, column):
            part = Transport(q.value[some], q.slope[some])
            parts.append((*compare_univariate(part, mixture_log_prob(law), points[some]), draws))
        kl, wasserstein, ess = (torch.cat(values) for values in zip(*parts, strict=True))
        return Numbers(kl, wasserstein, False, ess)

    def levels(self, x: Tensor, column: int, log_q: Tensor) -> tuple[Tensor, Tensor | None]:
        pieces = [part for _, part in latent_level_laws(self._model, self._proposal, x, column, log_q.shape[1])]
        log_p, draws = (torch.cat(values) for values in zip(*pieces, strict=True))
        return log_p, draws


@torch.no_grad()
def conditional_quality(
    model: Model,
    q: Conditionals,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    progress: Progress = silent,
    columns: Sequence[int] | None = None,
) -> Quality:
    """The conditionals of completed rows x [R, D] (encoded, float64), against the model's own.

    columns: which to compare; none: all. low, high [D]: where the model has its mass, for a model that is known through
    its density only. q is in float64 on the CPU, and so is a model of the Gaussian family; both in evaluation mode.
    Raises UsageError as `require_comparable`.
    """
    require_comparable(model, q, x.shape[1])
    if isinstance(model, Latent):
        start = 0.5  # of the progress
        proposal = _tuned(model, x, lambda done: progress(start * done))
        own: Reference = OfLatents(model, proposal, low, high)
        return compare_conditionals(own, q, x, lambda done: progress(start + (1 - start) * done), columns)
    if isinstance(model, GaussianFamily) and not q.mixed:
        return compare_conditionals(OfGaussians(model.components()), q, x, progress, columns)
    like = next(itertools.chain(model.parameters(), model.buffers()))  # its own precision and device
    own = OfDensity(lambda rows: model.log_prob(rows.to(like)), low, high)
    return compare_conditionals(own, q, x, progress, columns)


@torch.no_grad()
def compare_conditionals(
    reference: Reference,
    q: Conditionals,
    x: Tensor,
    progress: Progress = silent,
    columns: Sequence[int] | None = None,
) -> Quality:
    """The conditionals q of single columns of completed rows x [R, D] (encoded, float64), against those of a reference.

    columns: which to compare; none: all. q is in float64 on the CPU, in evaluation mode.
    """
    R, D = x.shape
    kl, wasserstein, ess, closed = [], [], [], True
    columns = range(D) if columns is None else columns
    for done, column in enumerate(columns, 1):
        if bool(q.discrete[column]):
            log_q = _log_levels(q, x, column)
            log_p, draws = reference.levels(x, column, log_q)
            kl.append(torch.where(log_q > -torch.inf, log_q.exp() * (log_q - log_p), 0.0).sum(1).clamp(min=0.0))
            wasserstein.append(torch.full_like(kl[-1], torch.nan))
            closed = False
        else:
            found = reference.numbers(x, column, _transport(q, x, torch.full((R,), column)))
            kl.append(found.kl)
            wasserstein.append(found.wasserstein)
            closed, draws = closed and found.closed_form, found.ess
        if draws is not None:
            ess.append(draws)
        progress(done / len(columns))
    return Quality(torch.stack(kl, 1), torch.stack(wasserstein, 1), closed, torch.stack(ess, 1) if ess else None)


def _log_levels(q: Conditionals, x: Tensor, column: int) -> Tensor:
    """[R, most levels] log q of the levels of a column, -inf beyond its own."""
    law = q.law(x, torch.arange(x.shape[1]) == torch.full((len(x), 1), column), torch.full((len(x),), column))
    assert isinstance(law, MixedLaw)
    return law.levels.log_probs


def _tuned(model: Latent, x: Tensor, progress: Progress) -> EncoderProposal:
    """The encoder, fine-tuned to the rows x [R, D], each once without each of its cells, or of cells far apart: over
    many columns p(z | rest) is so narrow that one as it was fitted, to other rows and to imputations, leaves a handful
    of effective draws."""
    R, D = x.shape
    cells = torch.linspace(0, D - 1, min(D, max(1, TUNED // R))).round().long()
    rows = x.to(next(model.parameters())).repeat(len(cells), 1)
    hidden = torch.nn.functional.one_hot(cells, D).to(rows.device, torch.bool).repeat_interleave(R, 0)
    with torch.enable_grad():
        return refit_encoder(model, rows, hidden, progress=progress).proposal


def _transport(q: Conditionals, x: Tensor, j: Tensor) -> Transport:
    """q(x_j | rest) of each row as x_j = T(u), u standard normal, with its slope (T is increasing)."""
    u = Transport.levels()
    own = torch.arange(x.shape[1]) == j[:, None]
    law = q.law(x, own, j[:, None])  # of a row, for all levels
    noise = u.expand(len(x), -1)[..., None].clone().requires_grad_()
    with torch.enable_grad():
        value = law.draw(noise)
        (slope,) = torch.autograd.grad(value.sum(), noise)
    return Transport(value.detach(), slope[..., 0])


def _line(transport: Transport) -> tuple[Tensor, Tensor] | None:
    """Mean and standard deviation [R] of q where it is normal in every row: T is a straight line."""
    value, slope = transport
    sd = slope[:, :1]
    mean = value.mean(1, keepdim=True)  # the levels are symmetric about 0
    error = (value - mean - sd * Transport.levels()).abs().amax(1)
    if bool((error <= STRAIGHT * (sd[:, 0] + mean[:, 0].abs())).all()):
        return mean[:, 0], sd[:, 0]
    return None


def mixture_log_prob(law: ColumnLaw) -> Callable[[Tensor], Tensor]:
    """log p(x_j | rest) [R, P] at values [R, P]."""

    def log_prob(values: Tensor) -> Tensor:
        z = (values[:, :, None] - law.mean[:, None]) / law.sd[:, None]
        terms = law.log_weights[:, None] - 0.5 * (z.square() + LOG_2PI) - law.sd[:, None].log()
        return terms.logsumexp(-1)

    return log_prob


def over(law: ColumnLaw) -> Tensor:
    """[R, P] points over every component."""
    t = torch.linspace(-SPREAD, SPREAD, 33, dtype=law.mean.dtype)
    return (law.mean[:, :, None] + law.sd[:, :, None] * t).flatten(1)


def _around(own: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """[R, P] points where p(x_j | rest) may have its mass: over the range of the column, and ever closer to the row's
    own value [R], which is about a draw of it: so a peak that is narrow on the scale of the range is met."""
    even = torch.linspace(0, 1, 101, dtype=own.dtype)
    grid = (low + (high - low) * even).expand(len(own), -1)
    near = (high - low) * 2.0 ** -torch.arange(2, 18, dtype=own.dtype)
    return torch.cat([grid, own[:, None] - near, own[:, None] + near], 1)


def conditional_part(quality: Quality, names: Sequence[str]) -> dict[str, Any]:
    """The `conditionals` object of the report: medians and 90 % quantiles over rows, by column and over all; a warning
    that names the columns whose median KL is above HIGH_KL."""
    out = distances(quality, names)
    medians = {name: column["kl"]["median"] for name, column in out["columns"].items()}
    bad = [f"{name} {median:.2g}" for name, median in medians.items() if not median <= HIGH_KL]
    if quality.ess is not None:
        out["ess"] = {"median": _quantile(quality.ess.flatten(), 0.5), "q10": _quantile(quality.ess.flatten(), 0.1)}
        if not out["ess"]["median"] >= FEW:
            out["warning"] = (
                f"p(x_j | rest) of the model rests on {out['ess']['median']:.3g} effective draws of its latents "
                f"(median): the distances from it are not to be trusted"
            )
            return out
    if bad:
        shown = ", ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
        slow = ", Metropolis chains move slowly" if quality.ess is None else ""  # those of latents do not use them
        out["warning"] = (
            f"the conditionals are far from the model's own (median KL above {HIGH_KL:g} nats: {shown}): "
            f"draws by --sampler gibbs are not to be trusted{slow}"
        )
    return out


def distances(quality: Quality, names: Sequence[str]) -> dict[str, Any]:
    """Rows, estimator, KL and Wasserstein distance: medians and 90 % quantiles over rows, over all and by column."""
    columns: dict[str, Mapping[str, Mapping[str, float]]] = {}
    numbers = ~quality.wasserstein.isnan().all(0)
    for c, name in enumerate(names):
        columns[name] = {"kl": _quantiles(quality.kl[:, c])}
        if bool(numbers[c]):
            columns[name] = {**columns[name], "wasserstein": _quantiles(quality.wasserstein[:, c])}
    return {
        "rows": len(quality.kl),
        "estimator": _estimator(quality),
        "kl": _quantiles(quality.kl.flatten()),
        **({"wasserstein": _quantiles(quality.wasserstein[:, numbers].flatten())} if bool(numbers.any()) else {}),
        "columns": columns,
    }


def _estimator(quality: Quality) -> str:
    if quality.ess is not None:
        return "quadrature and importance sampling"
    return "closed form" if quality.closed_form else "quadrature"


def _quantiles(values: Tensor) -> dict[str, float]:
    return {"median": _quantile(values, 0.5), "q90": _quantile(values, 0.9)}


def _quantile(values: Tensor, share: float) -> float:
    """With linear interpolation; infinite or no number only where the values themselves are."""
    ordered = values.sort().values  # numbers that are none come last
    place = share * (len(ordered) - 1)
    first = int(place)
    low, high = float(ordered[first]), float(ordered[min(first + 1, len(ordered) - 1)])
    return low if place == first else low + (place - first) * (high - low)
