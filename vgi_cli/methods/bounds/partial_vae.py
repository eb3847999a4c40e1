"""PartialVAE+: MVAE with an encoder of the set of observed cells (Ma et al. 2019; paper, section 6.3), which needs no
value in the holes. The objective is MVAE's; the encoder is a setting of the model.
"""

from __future__ import annotations

from vgi_cli.methods.base import Method
from vgi_cli.methods.bounds import mvae
from vgi_cli.methods.gradient import run
from vgi_cli.methods.optimisation import AscentConfig

METHOD = Method(
    Config=AscentConfig,
    init=mvae.init,
    run=run,
    tune=mvae.tune,
    fixed={"encoding": "set"},
)
