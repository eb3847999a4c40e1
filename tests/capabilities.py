"""The capabilities of a model and the types that stand for them, written down apart from the package."""

from vgi_cli.models.base import Bijective, Latent, Marginal, Model, Relaxable
from vgi_cli.models.gaussian.fa import FactorAnalysis
from vgi_cli.models.gaussian.family import GaussianFamily

CAPABILITY: dict[str, type[Model]] = {
    "bound": Model,
    "density": Model,
    "marginal": Marginal,
    "bijective": Bijective,
    "gaussian": GaussianFamily,
    "factors": FactorAnalysis,
    "latent": Latent,
    "relaxable": Relaxable,
}
