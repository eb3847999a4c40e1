"""The loop over epochs and mini-batches of every method that takes gradient steps, and the state that it moves.

    for _ in epochs(state, stage, count):
        for batch in batches(state):
            ...                         # one step
            yield state.step_end()
        yield state.epoch_end()

Where it is broken off, its counters are in the state: a restored state goes on exactly there. Randomness is no stream
that has to be saved: every epoch and step seeds its own generator from the fit's seed, the stage and the counters.
"""

from __future__ import annotations

import copy
import math
import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from vgi_cli.chains.store.packed import Batch, Chains, Whole
from vgi_cli.data import TensorTable
from vgi_cli.errors import FitError
from vgi_cli.maths.noise import mix64
from vgi_cli.maths.products import rounded
from vgi_cli.methods.base import EpochEnd, Parts, Standing, State, StepEnd
from vgi_cli.methods.optimisation import (
    AscentConfig,
    StepFailed,
    adam,
    batch_size_of,
    default_batch_size,
    optimiser_tensors,
    planned_epochs,
    prefixed,
    rate_factor,
    restore_optimiser,
    set_rate,
)
from vgi_cli.methods.reweighted import AVERAGE, Reweighted, work_of
from vgi_cli.models.base import LARGEST, Model
from vgi_cli.ranks import ALONE, Ranks, cuts
from vgi_cli.scratch import pieces

Config = TypeVar("Config", bound=AscentConfig)


class Stage(IntEnum):
    """The stages of Algorithm 1; `FINETUNE` is Algorithm 6. Methods without warm-ups have the main stage only."""

    WARM_CONDITIONALS = 0
    WARM_MODEL = 1
    MAIN = 2
    FINETUNE = 3


MOST_HEALED = 5
"""Steps that may fail in a fit: each halves the learning rates, and the next one after these ends it."""
STEPS_BETWEEN = 20
"""The state that a failed step goes back to is copied after at least so many steps, at the start of an epoch."""
RUNAWAY = 1e12
"""An imputation (encoded) beyond this has run away."""


class LoopState(State):
    """The model in training, the chains, the order of the rows, the optimisers and the counters.

    theta       the model in training; `model` is the published one (averaged once averaging began)
    networks    what is trained beside the model, by file stem
    optimisers  by their names in a checkpoint, and `rates`, their learning rates before any schedule
    total       of the objective, over the steps of this epoch
    counts      other sums over the steps of this epoch, by their names in a checkpoint
    keeps       whether the imputations are a part of the run
    ranks       who else fits these rows, and `share`, which of them are this process's own: `chains` are those of its
                rows, all other numbers of rows are the table's
    holes       [N, D] of the whole table, latents included
    row_weight  [N] what each row of the table counts in the objective, mean 1; None: all the same
    respread    number -> (dimensions [n], values [N, n]): the observed cells of rounded columns, spread over their
                steps by noise of that number; 0 is the noise that the table came with. Every epoch of a fit takes its
                own, so that no model learns one draw of it. None: no column is rounded, or the one draw stays
    turn        with schedule `plateau` the epoch after which the learning rate falls; None before it is known
    """

    TOTAL: ClassVar[str] = "total"
    """The name of `total` in a checkpoint."""

    def __init__(
        self, theta: Model, chains: Chains, config: AscentConfig, seed: int, stage: Stage, *, keeps: bool
    ) -> None:
        self.theta = theta
        self.model = copy.deepcopy(theta).eval()
        self.chains = chains
        self.seed = seed
        self.keeps = keeps
        self.ranks, self.share = ALONE, slice(0, len(chains.x))
        self.holes = chains.missing
        self.row_weight: Tensor | None = None
        self.respread: Callable[[int], tuple[Tensor, Tensor]] | None = None
        self._own_x = False  # whether the chains have a copy of the table's cells, which may be written
        empty = chains.missing.all(1)[chains.incomplete]
        self.empty = chains.incomplete[empty]  # fully missing rows do not enter
        self._all = (chains.incomplete[~empty] if len(self.empty) else chains.incomplete, chains.complete)
        n = sum(map(len, self._all))
        self.schedule = config.optim.schedule or "cosine"
        self.products = config.optim.products if chains.x.device.type == "cpu" else "float32"
        self.turn: int | None = None
        self.lr = config.optim.lr or theta.learning_rate
        self.batch_size = batch_size_of(config.optim, n)
        self.epochs = self._most = planned_epochs(config, n)
        self._enter(*self._all)
        self.optim_theta = adam(theta, self.lr, amsgrad=False)
        self.optimisers = {"optim_theta": self.optim_theta}
        self.rates = {"optim_theta": self.lr}
        self.networks: dict[str, nn.Module] = {}
        self.stage = stage
        self.stage_epoch = 0  # whole epochs done in this stage
        self.position = 0  # batches done in this epoch
        self.averaged = 0  # steps in the average; minus these where the next step begins a new one
        self.total = chains.x.new_zeros(())
        self.counts: dict[str, Tensor] = {}
        self.still: str | None = None  # a column of which nothing moved in this epoch
        self.healed = 0  # steps that failed
        self._healed_before = 0  # those of whole epochs
        self._good: dict[str, Tensor] = {}  # what a failed step goes back to
        self._order: list[Tensor] = []  # of this epoch: incomplete rows, complete rows; derived, never saved

    def _enter(self, incomplete: Tensor, complete: Tensor) -> None:
        """These rows enter the steps."""
        self.incomplete, self.complete, self._order = incomplete, complete, []
        self.rows_per_epoch = len(incomplete) + len(complete)
        fullest = max(len(incomplete), len(complete))  # of more batches some would have no row
        self.batches = max(1, min(-(-self.rows_per_epoch // self.batch_size), fullest))

    def divide(self, ranks: Ranks) -> None:
        """Keep the chains of a share of the rows, where several processes fit these rows; before the first step. A row
        costs as much as it is flattened to, so that each has as much to do."""
        if ranks.alone:
            return
        chains = self.chains
        costs = torch.ones(len(chains.x))
        costs[chains.incomplete.to("cpu", torch.int64)] = float(chains.K)
        edges = cuts(costs, ranks.world)
        self.ranks, self.share = ranks, slice(edges[ranks.rank], edges[ranks.rank + 1])
        self.holes = chains.missing.cpu()
        self.chains, self._own_x = chains.part(self.share.start, self.share.stop), chains.scratch is None
        modules = (self.theta, *self.networks.values())
        ranks.agree(*(value for module in modules for value in module.state_dict().values()))
        self.publish()

    def hold_out(self, rows: Tensor) -> None:
        """Keep rows (numbers of the table's) out of every step until `fall`; before the first step."""
        apart = torch.zeros(len(self.holes), dtype=torch.bool)
        apart[rows] = True
        parts = (part[~apart.to(part.device)[part]] for part in (self.incomplete, self.complete))
        self._enter(*parts)

    def fall(self, parameters: Mapping[str, Tensor], epochs: int) -> None:
        """Go back to the parameters that `snapshot` gave; from here the learning rate falls to 0 in so many epochs of
        all rows. Between two epochs of the main stage."""
        self.theta.load_state_dict(prefixed(parameters, "theta/"))
        for stem, network in self.networks.items():
            network.load_state_dict(prefixed(parameters, f"{stem}/"))
        self.turn, self.epochs, self.averaged = self.stage_epoch, self.stage_epoch + epochs, 0
        self._good = {}
        self._enter(*self._all)

    def snapshot(self) -> dict[str, Tensor]:
        """Copies of the published model's parameters, and of those of what is trained beside it."""
        modules = {"theta": self.model, **self.networks}
        return {
            f"{stem}/{name}": value.detach().clone()
            for stem, part in modules.items()
            for name, value in part.state_dict().items()
        }

    def chosen(self) -> dict[str, Any]:
        return {"optim.lr": self.lr, "optim.batch_size": self.batch_size, "optim.schedule": self.schedule}

    def batch_size_for(self, n: int) -> int:
        """Rows in a step of a fine-tuning to n held-out rows: as in the fit, and not more than so few rows would take
        by themselves."""
        return min(self.batch_size, default_batch_size(n))

    @property
    def effort(self) -> float:
        """Of the main stage so far, in rows that pass through the model (`work_of`)."""
        return work_of(self.epoch, self.batches, len(self.complete) + self.chains.K * len(self.incomplete))

    def chains_for(self, of: Reweighted) -> Chains:
        """The chains of a refit: of its rows, the first of each, whoever has them."""
        self.spread(0)
        rows = of.rows.to(self.chains.x.device)
        if self.ranks.alone:
            return self.chains.one_chain(0, rows)
        own = self._own(rows)
        filled = self.chains.x.new_zeros(len(rows), self.chains.x.shape[1])
        filled[own] = self.chains.completed(0, rows[own] - self.share.start)
        (filled,) = self.ranks.total(filled)
        missing = self.holes[of.rows.to(self.holes.device)].to(filled.device)
        chains = Chains(TensorTable(filled.masked_fill(missing, 0.0), missing, self.chains.layout), 1)
        chains.set_chain(0, filled)
        return chains

    def model_for(self, of: Reweighted) -> Model:
        """The model of a refit, before its first step."""
        model = copy.deepcopy(self.model).train().requires_grad_(True)
        model.load_state_dict(of.model)
        return model

    @property
    def epoch(self) -> int:  # type: ignore[override]
        """Whole epochs of the main stage done."""
        return self.stage_epoch if self.stage >= Stage.MAIN else 0

    def enter(self, stage: Stage) -> None:
        """Begin a stage. What the optimisers remember of a warm-up belongs to its own loss."""
        self.stage, self.stage_epoch = stage, 0
        self._good = {k: v for k, v in self._good.items() if k.partition("/")[0] not in self.optimisers}
        for optimiser in self.optimisers.values():
            optimiser.state.clear()

    def generator(self, purpose: int) -> torch.Generator:
        """The random stream of this stage and epoch for a purpose."""
        key = torch.tensor([self.seed], dtype=torch.int64)
        for part in (int(self.stage), self.stage_epoch, purpose):
            key = mix64(key ^ (part + 1))
        generator = torch.Generator(self.chains.x.device)
        generator.manual_seed(int(key) & ((1 << 63) - 1))
        return generator

    def step_generator(self) -> torch.Generator:
        """The random stream of this step."""
        return self.generator(1 + self.position)

    def batch(self) -> Batch:
        """The batch at this position. Every batch has the same share of complete and of incomplete rows."""
        if self.position == 0 or not self._order:
            g = self.generator(0)
            self._order = []
            for part in (self.incomplete, self.complete):
                order = torch.randperm(len(part), generator=g, dtype=part.dtype, device=part.device)
                self._order.append(part[order].to(self.chains.rows_on))
        rows = self._rows(self.position)
        ahead = self._rows(self.position + 1) if self.position + 1 < self.batches else None
        if self.ranks.alone:
            incomplete, complete = rows
            batch = self.chains.batch(incomplete, complete)
        else:
            rows, batch = self._part_of_batch(rows)
            ahead = None if ahead is None else [part[self._own(part)] - self.share.start for part in ahead]
        if self.row_weight is not None:
            batch = batch._replace(weight=batch.weight * self._weights(self.row_weight, *rows))
        if ahead is not None:
            self.chains.prefetch(*ahead)
        return batch

    def _own(self, rows: Tensor) -> Tensor:
        """Which of some rows are this process's own."""
        return ((rows >= self.share.start) & (rows < self.share.stop)).nonzero()[:, 0]

    def _part_of_batch(self, rows: Sequence[Tensor]) -> tuple[list[Tensor], Batch]:
        """Of the incomplete and the complete rows of a batch those that are this process's own, and their batch."""
        K, (n, others) = self.chains.K, map(len, rows)
        places = [self._own(part) for part in rows]
        own = [part[place] for part, place in zip(rows, places, strict=True)]
        incomplete, complete = (part - self.share.start for part in own)
        batch = self.chains.batch(incomplete, complete, n + others)
        flattened = (places[0][:, None] * K + torch.arange(K, device=places[0].device)).view(-1)
        there = torch.cat([flattened, n * K + places[1]])
        return own, batch._replace(whole=Whole(n * K, n * K + others, there, len(flattened)))

    def spread(self, number: int) -> None:
        """Spread the observed cells of rounded columns by the noise of a number."""
        if self.respread is None:
            return
        chains = self.chains
        if not self._own_x:
            own = chains.x.clone() if chains.scratch is None else chains.scratch.converted(chains.x, chains.x.dtype)
            chains.x, self._own_x = own, True
        dims, values = self.respread(number)
        dims = dims.to(chains.x.device)
        every = [slice(0, len(values))] if chains.scratch is None else pieces(len(values), 16 * values.shape[1])
        for rows in every:
            cells = values[rows].to(chains.x)
            chains.x[rows, dims] = cells.masked_fill_(chains.missing[rows][:, dims], 0.0)

    def _rows(self, position: int) -> list[Tensor]:
        """Incomplete and complete rows of the batch at a position of this epoch."""
        n = self.batches
        return [part[position * len(part) // n : (position + 1) * len(part) // n] for part in self._order]

    def _weights(self, of_rows: Tensor, incomplete: Tensor, complete: Tensor) -> Tensor:
        """[R] the weights of the flattened rows of a batch, from those of the table's rows [N]."""
        several = of_rows[incomplete.to(of_rows.device)].repeat_interleave(self.chains.K)
        return torch.cat([several, of_rows[complete.to(of_rows.device)]])

    def set_rates(self, factor: float | None = None) -> None:
        """Set every learning rate to this share of its own, or to what the schedule says at this step."""
        if factor is None:
            falls = self.schedule == "cosine" or self.turn is not None
            factor = rate_factor(self.descent()) if falls else 1.0
        for name, optimiser in self.optimisers.items():
            set_rate(optimiser, self.rates[name] * factor * self.damping)

    @property
    def damping(self) -> float:
        """What failed steps have left of the learning rates."""
        return 0.5**self.healed

    @contextmanager
    def healing(self, batch: Batch) -> Iterator[None]:
        """Around a step: one that fails is not taken. The model, the networks and the optimisers go back to where an
        earlier epoch began, the batch's imputations stay as they were, and the learning rates are halved for good.
        FitError, with the column, where that happened more than MOST_HEALED times."""
        every = -(-STEPS_BETWEEN // self.batches)
        due = not self._good or (self.position == 0 and self.stage_epoch % every == 0)
        here = self._copied() if due else {}
        try:
            with rounded(self.products):
                yield
        except torch.linalg.LinAlgError:
            if not self.ranks.alone:  # the others do not hear of it
                raise
            self._heal(StepFailed("a covariance is no longer finite"), batch.x, here)
        except StepFailed as error:  # of a sum over all ranks: each has it
            self._heal(error, batch.x, here)
        else:
            self._good = here or self._good  # good is what a step could be taken from

    def watch(self, x: Tensor) -> None:
        """StepFailed where an imputation in rows [R, D] is not finite, or has run away; of one process alone, since
        others do not hear of it."""
        if self.ranks.alone and x.device.type == "cpu" and len(x) and not bool(x.abs().amax() <= RUNAWAY):
            raise StepFailed("an imputation is no longer finite", int((~(x.abs() <= RUNAWAY)).sum(0).argmax()))

    def stood_still(self, dimension: int) -> None:
        """At the end of an epoch in which every move of a dimension was refused: go back as after a step that failed,
        and count it as one."""
        self.still = self.chains.layout.label(dimension)
        self._heal(StepFailed(f"no imputation of '{self.still}' was moved", dimension), self.chains.x, {})

    def _check_parameters(self) -> None:
        """At the end of an epoch whose last step led to parameters that no fit has, which the next step would have met:
        go back as after a step that failed."""
        values = [value for part in self._modules().values() for value in part.state_dict().values()]
        values = [value for value in values if value.is_floating_point() and value.numel()]
        if values and not float(nn.utils.get_total_norm(values, math.inf)) <= LARGEST:  # NaN neither
            self._heal(StepFailed("a parameter is no longer finite"), self.chains.x, {})

    def _heal(self, error: StepFailed, x: Tensor, here: Mapping[str, Tensor]) -> None:
        """After a step on rows x [R, D] that failed. `here`: what it began from, for a first step, before which none
        was taken."""
        self.healed += 1
        if self.healed > MOST_HEALED:
            layout, x = self.chains.layout, x if len(x) else self.chains.x
            dimension, most = error.dimension, ""
            if dimension is None or dimension >= layout.D:
                most = ", the most extreme there"
                dimension = int(layout.data(x).abs().nan_to_num(torch.inf).amax(0).argmax())
            epoch = f"epoch {self.stage_epoch + 1}{' of a warm-up' if self.stage < Stage.MAIN else ''}"
            raise FitError(
                f"{error} in {epoch}, for the {self.healed}th time, though "
                "each time training went back and halved its steps; the last good checkpoint is kept. Look at column "
                f"'{layout.label(dimension)}'{most}",
                f"--column {shlex.quote(f'{layout.label(dimension)}=carry')} leaves it out; or take a smaller --set "
                "optim.lr",
            )
        if good := self._good or here:
            self._go_back(good)
        for name, optimiser in self.optimisers.items():
            set_rate(optimiser, self.rates[name] * self.damping)

    def _modules(self) -> dict[str, nn.Module]:
        """What a step changes beside the chains and the optimisers."""
        return {"model": self.model, "theta": self.theta, **self.networks}

    def _copied(self) -> dict[str, Tensor]:
        """Copies of what a step changes beside the chains."""
        values = {f"{stem}/{k}": v for stem, part in self._modules().items() for k, v in part.state_dict().items()}
        for name, optimiser in self.optimisers.items():
            values |= optimiser_tensors(name, optimiser)
        values["averaged"] = torch.tensor(self.averaged)
        return {name: value.detach().clone() for name, value in values.items()}

    def _go_back(self, good: Mapping[str, Tensor]) -> None:
        """Take up what `_copied` gave."""
        for stem, part in self._modules().items():
            part.load_state_dict(prefixed(good, f"{stem}/"))
        for name, optimiser in self.optimisers.items():
            restore_optimiser(name, optimiser, good)
        self.averaged = int(good["averaged"])

    def descent(self) -> float:
        """Share of the epochs in which the learning rate falls that is done, 0 to 1; all of them are the main stage but
        with schedule `plateau`."""
        return self._share(self.turn or 0)

    def step_end(self) -> StepEnd:
        """Count a step that is done."""
        self.position += 1
        return StepEnd()

    def epoch_end(self) -> EpochEnd:
        """Close an epoch: publish, say what it was like, and set the counters to the next."""
        failed = self.healed - self._healed_before
        self._check_parameters()
        self.publish()
        if 0 < failed < self.batches:
            self.total *= self.batches / (self.batches - failed)  # the mean is that of the steps that were taken
        metrics = self.close_epoch()
        if failed >= self.batches:
            metrics.pop("objective", None)  # no step of this epoch was taken
        if self.still:
            metrics["still"], self.still = self.still, None
        if healed := self.healed - self._healed_before:
            metrics |= {"healed": healed, "rate_factor": self.damping}
            self._healed_before = self.healed
        for value in (self.total, *self.counts.values()):
            value.zero_()
        self.stage_epoch, self.position = self.stage_epoch + 1, 0
        return EpochEnd(self.stage_epoch, metrics)

    @abstractmethod
    def close_epoch(self) -> dict[str, Any]:
        """What a method does at the end of an epoch, and the metrics of that epoch."""

    def publish(self) -> None:
        """Copy the parameters in training into the published model (while nothing is averaged yet): at the end of an
        epoch, and when the state is saved."""
        if self.averaged == 0:
            self.model.load_state_dict(self.theta.state_dict())

    def begin_average(self) -> None:
        """Let the next step begin a new average; until then the one so far stays published."""
        self.averaged = -abs(self.averaged)

    def average(self, share: float) -> None:
        """After a step: add the parameters in training to the average that is published, in the last `share` of the
        main stage. Before a plateau the average is of all steps since it was scored."""
        if self.schedule == "plateau" and self.turn is None:
            share = 1.0
        if self.descent() < 1.0 - share:
            self.averaged = 0  # more epochs were asked for after an average had begun: it starts anew at their end
            return
        self.averaged = max(self.averaged, 0) + 1
        with torch.no_grad():
            for mean, value in zip(self.model.parameters(), self.theta.parameters(), strict=True):
                mean.lerp_(value, 1.0 / self.averaged)
            for kept, buffer in zip(self.model.buffers(), self.theta.buffers(), strict=True):
                kept.copy_(buffer)

    def progress(self) -> float:
        """Share of the main stage that is done, 0 to 1."""
        return self._share(0)

    def _share(self, begun: int) -> float:
        """Share of the epochs after `begun` that is done."""
        return (self.stage_epoch - begun + self.position / self.batches) / max(self.epochs - begun, 1)

    def standing(self) -> Standing:
        """Batch by batch."""
        share = self.progress() if self.stage >= Stage.MAIN else 0.0
        return Standing(share, self.epoch, self.epochs, "epochs")

    @torch.no_grad()
    def draw_empty_rows(self) -> None:
        """Set the chains of fully missing rows, which do not enter the fit, to draws from the published model."""
        if len(self.empty):
            x = self.chains.x
            rows = self.model.sample(len(self.empty) * self.chains.K, self.generator(-1)).to(x.dtype)
            latents = rows.new_zeros(len(rows), self.chains.layout.L)  # never read
            drawn, empty = torch.cat([rows, latents], 1), self.empty
            if not self.ranks.alone:
                own = self._own(empty)
                drawn = drawn.view(len(empty), self.chains.K, -1)[own].flatten(0, 1)
                empty = empty[own] - self.share.start
            self.chains.store(empty, drawn)

    def parts(self) -> Parts:
        self.publish()
        counters = [self.seed, int(self.stage), self.stage_epoch, self.position, self.averaged]
        state = {"counters": torch.tensor(counters, dtype=torch.int64), self.TOTAL: self.total, **self.counted()}
        if self.schedule == "plateau":
            state["turn"] = torch.tensor([-1 if self.turn is None else self.turn, self.epochs, self._most])
        state |= {f"theta/{k}": v for k, v in self.theta.state_dict().items()} | self.more()
        if self.healed:
            state["healed"] = torch.tensor([self.healed, self._healed_before])
        if self.position or self.epoch < self.epochs:  # more steps come, which may fail
            state |= {f"good/{k}": v for k, v in self._good.items()}
        for name, optimiser in self.optimisers.items():
            state |= optimiser_tensors(name, optimiser)
        parts = {"model": self.model.state_dict(), "state": state}
        parts |= {stem: network.state_dict() for stem, network in self.networks.items()}
        copies = {
            stem: {k: v.detach().clone().contiguous() for k, v in tensors.items()} for stem, tensors in parts.items()
        }
        return {**copies, "imputations": self.chains.tensors()} if self.keeps else copies

    def restore(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        state = parts["state"]
        self.seed, stage, self.stage_epoch, self.position, self.averaged = state["counters"].tolist()
        self.stage, self._order = Stage(stage), []
        if self.schedule == "plateau":
            turn, epochs, most = state["turn"].tolist()
            if turn >= 0:
                self.turn, self.epochs = turn, epochs if self._most <= most else self._most
                self._enter(*self._all)
        self.model.load_state_dict(parts["model"])
        self.theta.load_state_dict(prefixed(state, "theta/"))
        for stem, network in self.networks.items():
            network.load_state_dict(parts[stem])
        for name, value in {self.TOTAL: self.total, **self.counts}.items():
            value.copy_(state[name])
        if self.ranks.rank:  # what all have counted so far is in rank 0
            for value in self.counts.values():
                value.zero_()
        if self.keeps:
            self.chains.restore(parts["imputations"])
        for name, optimiser in self.optimisers.items():
            restore_optimiser(name, optimiser, state)
        self.healed, self._healed_before = state["healed"].tolist() if "healed" in state else (0, 0)
        self._good = prefixed(state, "good/")
        if self.healed:
            for name, optimiser in self.optimisers.items():
                set_rate(optimiser, self.rates[name] * self.damping)
        self.restore_more(state)

    def counted(self) -> dict[str, Tensor]:
        """`counts` of all ranks."""
        return dict(zip(self.counts, self.ranks.total(*self.counts.values()), strict=True)) if self.counts else {}

    def more(self) -> dict[str, Tensor]:
        """What else a method has to remember, by its names in a checkpoint."""
        return {}

    def restore_more(self, state: Mapping[str, Tensor]) -> None:
        """Take up what `more` gave."""


def refit_config(config: Config, of: Reweighted, lr: float) -> Config:
    """The settings of a refit, of a fit with these settings and this learning rate."""
    changes = {"lr": lr, "batch_size": of.size.batch_size, "schedule": "constant", "average": AVERAGE}
    optim = config.optim.model_copy(update=changes)
    return config.model_copy(update={"epochs": of.size.epochs, "optim": optim})


def epochs(state: LoopState, stage: Stage, count: int | None = None) -> Iterator[int]:
    """The epochs of a stage that are left of `count`, or of those of the state, which may change on the way; numbered
    from 1; none where the stage is over already."""
    if state.stage < stage:
        state.enter(stage)
    while state.stage == stage and state.stage_epoch < (state.epochs if count is None else count):
        state.spread(1 + state.stage_epoch + (int(stage) << 32))
        yield state.stage_epoch + 1


def batches(state: LoopState) -> Iterator[Batch]:
    """The mini-batches that are left of this epoch."""
    while state.position < state.batches:
        yield state.batch()
