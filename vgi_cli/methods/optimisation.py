"""Gradient steps: Adam and its schedule, and what a checkpoint keeps of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from vgi_cli.chains.store.placement import Setting
from vgi_cli.maths.products import Products
from vgi_cli.methods.base import MethodConfig
from vgi_cli.ranges import BatchRows, Clip, Epochs, Imputations, Rate, ShareBelow1
from vgi_cli.ranks import ALONE, Ranks

STEPS, FEWEST_EPOCHS = 4000, 5  # of the main stage where no number of epochs is given


class GradientConfig(MethodConfig):
    """Optimisation of a model by Adam (paper, section 4.3).

    lr          of the model; None: the model family's own
    batch_size  rows of the table per step (each incomplete row brings its K chains); None: by N
    schedule    of the learning rate: `cosine`, half a cosine to 0 over the main stage; `constant`; `plateau`, constant
                until rows that are held out gain no more (fitting/plateau.py), then half a cosine to 0 with all rows.
                None: `plateau` where nobody says how long to train and the model may overfit, else `cosine`
    clip        largest norm of a gradient; None: no clipping
    average     share of the main stage (`plateau`: of what comes after it), at its end, over which the model's
                parameters are averaged
    products    what the factors of matrix products of a step are rounded to (maths/products.py), on a CPU
    """

    lr: Rate | None = None
    batch_size: BatchRows | None = None
    schedule: Literal["cosine", "constant", "plateau"] | None = None
    clip: Clip | None = 5.0
    average: ShareBelow1 = 0.25
    products: Products = "float32"


class AscentConfig(MethodConfig):
    """Settings of a method that climbs by gradients.

    epochs  passes over the rows (of the main stage); None: by N
    """

    epochs: Epochs | None = None
    optim: GradientConfig = GradientConfig()


class ImputingConfig(AscentConfig):
    """The same for a method that keeps imputations.

    imputations  K
    chains       where the imputations live: `auto` (where they fit), `device`, `host` or `disk`; changes no result
    """

    imputations: Imputations = 5
    chains: Setting = "auto"


def planned_epochs(config: AscentConfig, n: int) -> int:
    """Epochs of the main stage of a fit to n rows: as the settings say, else enough for STEPS steps."""
    batches = max(1, -(-n // batch_size_of(config.optim, n)))
    return config.epochs or max(FEWEST_EPOCHS, math.ceil(STEPS / batches))


def batch_size_of(optim: GradientConfig, n: int) -> int:
    """Rows per step of a fit to n rows: as the settings say, or by their number."""
    return optim.batch_size or default_batch_size(n)


def default_batch_size(n: int) -> int:
    """Rows per step: a power of two, about n / 16, between 32 and 512."""
    return 1 << min(9, max(5, int(math.log2(max(n, 1) / 16 + 1))))


def rate_factor(progress: float) -> float:
    """What a learning rate is multiplied by when this share of its fall is done: half a cosine from 1 to 0."""
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):  # on a GPU: a captured step reads it from there
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


class held_fixed:  # noqa: N801 (reads like a keyword)
    """Within this context no gradient reaches the parameters of `module`; it is evaluated without dropout."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.training = module.training
        self.required = [p.requires_grad for p in module.parameters()]

    def __enter__(self) -> None:
        self.module.requires_grad_(False).eval()

    def __exit__(self, *_: object) -> None:
        self.module.train(self.training)
        for parameter, required in zip(self.module.parameters(), self.required, strict=True):
            parameter.requires_grad_(required)


class StepFailed(Exception):
    """A step that was not taken, because a number in it is not finite or an imputation ran away; or steps that moved
    nothing. Its text says what, as `the objective is no longer finite`."""

    def __init__(self, what: str, dimension: int | None = None) -> None:
        """`dimension` of the rows in which it is, where that is known."""
        super().__init__(what)
        self.dimension = dimension


def ascend(objective: Tensor, clip: float | None, *optimisers: torch.optim.Optimizer, ranks: Ranks = ALONE) -> Tensor:
    """One gradient step up the objective with each optimiser; the gradient of each is clipped on its own. The
    objective, without its gradient. StepFailed, with no step taken, where it or a gradient is not finite (on a CPU: a
    GPU is not waited for).

    ranks  who has the other terms of the objective: values and gradients are those of the sum
    """
    for optimiser in optimisers:
        optimiser.zero_grad(set_to_none=True)
    if ranks.alone:
        (-objective).backward()
    else:
        objective = _together(objective, [p for o in optimisers for p in parameters_of(o)], ranks)
    watched = objective.device.type == "cpu"
    if watched and not bool(objective.isfinite()):
        raise StepFailed("the objective is no longer finite")
    for optimiser in optimisers:
        if clip is not None:
            norm = nn.utils.clip_grad_norm_(parameters_of(optimiser), clip)
        elif watched:
            norm = nn.utils.get_total_norm([p.grad for p in parameters_of(optimiser) if p.grad is not None])
        if watched and not bool(norm.isfinite()):
            raise StepFailed("a gradient is no longer finite")
    for optimiser in optimisers:
        optimiser.step()
    return objective.detach()


def _together(objective: Tensor, parameters: Sequence[nn.Parameter], ranks: Ranks) -> Tensor:
    """The sum of an objective over all ranks, each of which may have no rows for it; its gradient, by one message,
    where some rank has any, else none."""
    if objective.requires_grad:
        (-objective).backward()
    given = objective.new_tensor([p.grad is not None for p in parameters])
    none = (torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)
    whole, given, *gradients = ranks.total(objective, given, *none)
    for parameter, has, gradient in zip(parameters, given.tolist(), gradients, strict=True):
        parameter.grad = gradient if has else None
    return whole


def adam(module: nn.Module, lr: float, *, amsgrad: bool) -> torch.optim.Adam:
    """Adam for a module, in one kernel where there is one, ready to be captured on a GPU."""
    device = next(module.parameters()).device
    gpu = device.type == "cuda"
    rate: float | Tensor = torch.tensor(lr, device=device) if gpu else lr
    fused = device.type in {"cpu", "cuda"}
    return torch.optim.Adam(module.parameters(), lr=rate, amsgrad=amsgrad, fused=fused, capturable=gpu)


def parameters_of(optimiser: torch.optim.Optimizer) -> Iterable[nn.Parameter]:
    """All parameters of an optimiser, in order."""
    return (p for group in optimiser.param_groups for p in group["params"])


def prefixed(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those of some tensors whose names begin so, without that."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def optimiser_tensors(prefix: str, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments, AMSGrad maxima and step counts: `prefix/<parameter>/<name>`."""
    out = {}
    for i, parameter in enumerate(parameters_of(optimiser)):
        for name, value in optimiser.state.get(parameter, {}).items():
            out[f"{prefix}/{i}/{name}"] = value
    return out


def restore_optimiser(prefix: str, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Take up what `optimiser_tensors` gave. ValueError where moments lack, or are of other shapes."""
    optimiser.state.clear()
    names = {"step", "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if optimiser.defaults["amsgrad"] else [])}
    for i, parameter in enumerate(parameters_of(optimiser)):
        moments = prefixed(tensors, f"{prefix}/{i}/")
        if moments:
            shapes = {value.shape for name, value in moments.items() if name != "step"}
            if set(moments) != names or shapes != {parameter.shape} or moments["step"].numel() != 1:
                raise ValueError(f"moments of the optimiser '{prefix}', parameter {i}, are not those of its steps")
            beside = optimiser.defaults["fused"]  # where the step count lies; else it stays on the CPU
            optimiser.state[parameter] = {
                k: v.detach().clone().to(parameter.device if k != "step" or beside else "cpu")
                for k, v in moments.items()
            }
