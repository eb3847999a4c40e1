"""`python -m vgi_cli`."""

import sys

from vgi_cli.cli.app import main

sys.exit(main())
