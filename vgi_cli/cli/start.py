"""The first module of the program: what it imports is imported under its eyes."""

import contextlib
import gc
import io
import os
import sys
import time

GARBAGE = 50_000
"""Objects more than before at which Python looks for garbage: with its own 700 a command spends a second in looking
through what its imports have made, and hardly any of it is garbage."""


def start() -> int:
    """Run the program and return its exit code; SIGINT while its modules are imported ends it as at any other time."""
    started = time.monotonic() - time.process_time()  # what the interpreter took before this line
    gc.set_threshold(GARBAGE)
    open_streams()
    try:
        from vgi_cli.cli.app import main
    except KeyboardInterrupt:
        print("error: stopped by SIGINT", file=sys.stderr)
        return 130
    code = main(started=started)
    drop_unwritten()
    return code


def open_streams() -> None:
    """Give a process that began without stdin, stdout or stderr (`>&-`) one each, so that no file of its own takes
    their numbers: an empty stdin, a stdout that refuses what is written, a stderr that loses it.

    From here stdout waits for its reader, and what it takes in part (the reader goes, a signal comes) is gone on with:
    of an unbuffered one (`PYTHONUNBUFFERED`) nobody else does, and a part of a table would be missing without a word.
    """
    for number, (name, how) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):  # the lowest free number is this one
                os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
                setattr(sys, name, os.fdopen(number, how, encoding="utf-8", closefd=False))
    with contextlib.suppress(OSError, ValueError):
        os.set_blocking(sys.stdout.fileno(), True)
    if isinstance(raw := getattr(sys.stdout, "buffer", None), io.RawIOBase):
        text, errors = io.BufferedWriter(raw), sys.stdout.errors
        sys.stdout = io.TextIOWrapper(text, encoding=sys.stdout.encoding, errors=errors, line_buffering=True)


def drop_unwritten() -> None:
    """Forget what stdout and stderr could not take, which the interpreter would try once more, complain about, and
    make another exit code of."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
