"""The first module of the program: what it imports is imported under its eyes."""

import sys
import time


def start() -> int:
    """Run the program and return its exit code; SIGINT while its modules are imported ends it as at any other time."""
    started = time.monotonic() - time.process_time()  # what the interpreter took before this line
    try:
        from vgi_cli.cli.app import main
    except KeyboardInterrupt:
        print("error: stopped by SIGINT", file=sys.stderr)
        return 130
    return main(started=started)
