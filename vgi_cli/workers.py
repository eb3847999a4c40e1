"""Who carries out pieces of work of which none needs another. Here this process alone, one after the other; several
processes are in machine/workers.py.

A piece is a pure function of an item: what it gives does not depend on who carries it out, nor on the pieces before it.
So the number of processes changes how long a fit takes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

Tell: TypeAlias = Callable[[float], None]
"""Is told which share of some work is done; what it raises ends that work."""


def tell_nobody(share: float) -> None:
    """The `Tell` of work that nobody follows."""


class Workers:
    """This process alone.

    count  how many pieces may be carried out at once
    """

    count: int = 1

    def each(
        self,
        task: Callable[[Item, Tell], Made],
        items: Sequence[Item],
        tell: Tell = tell_nobody,
        *,
        room: int = 0,
        loops: bool = True,
    ) -> Iterator[tuple[int, Made]]:
        """The place of each item, and what a task makes of it, as soon as it is there, in whatever order.

        task   (item, tell) -> what is made of it; an exception ends the work, and comes out here
        tell   is told the share of all items that is done
        room   bytes that a process needs for this, beside those that are there
        loops  whether this needs the compiled loops of mixtures
        """
        for place, item in enumerate(items):
            yield place, task(item, lambda share, place=place: tell((place + share) / len(items)))  # type: ignore[misc]

    def in_order(
        self,
        task: Callable[[Item, Tell], Made],
        items: Sequence[Item],
        tell: Tell = tell_nobody,
        *,
        room: int = 0,
        loops: bool = True,
    ) -> Iterator[Made]:
        """What a task makes of each item, in their order. As `each`."""
        early: dict[int, Made] = {}
        following = 0
        for place, made in self.each(task, items, tell, room=room, loops=loops):
            early[place] = made
            while following in early:
                yield early.pop(following)
                following += 1


ONE_PROCESS = Workers()

_all_cores: ContextVar[bool] = ContextVar("_all_cores", default=False)


@contextmanager
def on_all_cores() -> Iterator[None]:
    """Within this context commands use as many processes as there are cores for them, where nobody says how many."""
    token = _all_cores.set(True)
    try:
        yield
    finally:
        _all_cores.reset(token)


def all_cores() -> bool:
    """Whether this is within such a context."""
    return _all_cores.get()


COPIES = 10
"""Of the rows that a piece of work sees, in double precision, as many as it makes."""


def room_of(rows: int, dimensions: int) -> int:
    """Bytes that a process needs for work that sees a table of so many rows and dimensions."""
    return COPIES * 8 * rows * dimensions
