"""`python -m vgi_cli`."""

import sys

from vgi_cli.cli.start import start

sys.exit(start())
