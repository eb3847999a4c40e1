"""Set before torch is loaded: every process of the tests computes on one thread, since the tests themselves are spread
over the cores."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
