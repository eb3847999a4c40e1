"""Steps that run faster than one operation at a time: as CUDA graphs on a GPU, with a compiled density on a CPU.

A step (of training, or of a chain that imputes) is a function of tensors that may change parameters, moments and
tallies in place; its randomness comes from outside. A CUDA graph records the kernels of one such step and replays them
on new inputs without Python. Nothing is run for the recording: the first steps of each shape are ordinary steps, and
recording executes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from vgi_cli.errors import Interrupted

Result = TypeVar("Result", Tensor, tuple[Tensor, ...])

PLAIN_STEPS = 3
"""Ordinary steps of a shape before it is recorded: libraries set themselves up, optimisers make their moments."""
FEWEST_STEPS = 200
"""`auto` records on a GPU when at least this many steps are planned: recording costs about as much as 20 steps."""


class _Recorded(NamedTuple):
    graph: Any
    inputs: list[Tensor]
    output: Any


class CapturedSteps(Generic[Result]):
    """A step as CUDA graphs, one for each combination of shapes of its inputs.

    body    the step: tensors, or named tuples of them, nested as may be, to a tensor or a tuple of them; what it
            returns lives until the next step
    failed  called with a line when a step cannot be recorded; all steps are then ordinary ones
    device  the GPU of these tensors
    """

    def __init__(self, body: Callable[..., Result], failed: Callable[[str], None], device: torch.device) -> None:
        self._body: Callable[..., Result] = body
        self._failed = failed
        self._device = device
        self._plain: dict[tuple[torch.Size, ...], int] = {}
        self._recorded: dict[tuple[torch.Size, ...], _Recorded] = {}
        self._stream = torch.cuda.Stream(device)
        self._pool: Any = None
        self._usable = True

    @property
    def recorded(self) -> int:
        """How many combinations of shapes are recorded."""
        return len(self._recorded)

    def __call__(self, *inputs: Any) -> Result:
        with torch.cuda.device(self._device):  # streams and graphs are those of the current GPU, be it another one
            return self._step(inputs)

    def _step(self, inputs: tuple[Any, ...]) -> Result:
        tensors = list(flattened(inputs))
        shapes = tuple(t.shape for t in tensors)
        count = self._plain.get(shapes, 0)
        if not self._usable:
            return self._body(*inputs)
        if count < PLAIN_STEPS:
            self._plain[shapes] = count + 1
            return self._beside(inputs)
        if shapes not in self._recorded:
            try:
                self._recorded[shapes] = self._record(inputs)
            except RuntimeError as error:
                self._usable = False
                self._recorded.clear()
                self._failed(f"steps are not captured as CUDA graphs: {str(error).splitlines()[0]}")
                return self._body(*inputs)
        recorded = self._recorded[shapes]
        for held, new in zip(recorded.inputs, tensors, strict=True):
            held.copy_(new)
        recorded.graph.replay()
        output: Result = recorded.output
        return output

    def _beside(self, inputs: tuple[Any, ...]) -> Result:
        """An ordinary step on a stream of its own, as recording wants it before."""
        here = torch.cuda.current_stream()
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            output = self._body(*inputs)
        here.wait_stream(self._stream)
        return output

    def _record(self, inputs: tuple[Any, ...]) -> _Recorded:
        held = cloned(inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            output = self._body(*held)
        self._pool = graph.pool()
        return _Recorded(graph, list(flattened(held)), output)


def flattened(value: Any) -> Iterator[Tensor]:
    """The tensors of nested tuples, in order."""
    if isinstance(value, Tensor):
        yield value
    else:
        for part in value:
            yield from flattened(part)


def cloned(value: Any) -> Any:
    """The same nested tuples with copies of their tensors."""
    if isinstance(value, Tensor):
        return value.clone()
    parts = [cloned(part) for part in value]
    return tuple(parts) if type(value) is tuple else type(value)(*parts)


def compiled_density(
    model: nn.Module, log_prob: Callable[[Tensor], Tensor], trial: Tensor, failed: Callable[[str], None]
) -> Callable[[Tensor], Tensor]:
    """x -> log p(x) through torch.compile, for any number of rows; where that fails, `failed` is told, and it is
    log_prob itself.

    Tried out on the rows `trial`, forwards and backwards, in this process: later steps find everything compiled.
    """
    import torch._inductor.config as inductor  # takes a second

    inductor.compile_threads = 1  # no helper processes, which would inherit our handling of signals
    compiled: Callable[[Tensor], Tensor] = torch.compile(log_prob, fullgraph=True, dynamic=True)
    try:
        compiled(trial).sum().backward()
        with torch.no_grad():
            compiled(trial)
    except RuntimeError as error:  # no C++ compiler, or an operation that cannot be compiled
        _raise_interrupted(error)
        failed(f"the density is not compiled: {str(error).strip().splitlines()[0]}")
        return log_prob
    finally:
        model.zero_grad(set_to_none=True)
    return compiled


def _raise_interrupted(error: BaseException) -> None:
    """Raise the signal that came while something was compiled, which the compiler takes for an error of its own."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Interrupted):
            raise cause
        cause = cause.__cause__ or cause.__context__
