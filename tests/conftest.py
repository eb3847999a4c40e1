"""Set before torch is loaded: every process of the tests computes on one thread, since the tests themselves are spread
over the cores. No example of a property test has a time limit: machines are shared."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
