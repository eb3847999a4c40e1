"""The candidates of a contest: models and transforms of the columns that are compared where nobody named a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from vgi_cli.fitting.contest.slopes import WELL, column_of_slopes
from vgi_cli.fitting.rows import Rows
from vgi_cli.models.gaussian.mixture import FULL_UP_TO
from vgi_cli.registry import names as registry
from vgi_cli.settings import components
from vgi_cli.settings.problems import Settings
from vgi_cli.settings.recipe import Recipe

TRANSFORMS = {"normal": "columns bent to normal", "linear": "columns standardised"}
UNSCALED = "columns in their own units"
"""What `table.transform=none` is called; it is no candidate where nobody says it."""
FEWEST_NUMBERS = 3
"""Columns of numbers from which factors are an alternative."""
FACTORS, MANY_NUMBERS = 3, 12
"""Factors of each component of a mixture where it has so many columns of numbers, else 1."""
SHIFTED = " shifted by the levels"
"""What the title of a model ends with whose levels shift its numbers."""
ONE_FACTOR_MODEL = "factor analysis"
ONE_SHIFTED = {"covariance": "full", "dependence": "linear"}


class Candidate(NamedTuple):
    """What may win: a recipe that names a model, its size and a transform, and the rows as that encodes them."""

    title: str
    recipe: Recipe
    rows: Rows


def candidates(recipe: Recipe, rows: Rows, transforms: Sequence[str]) -> list[tuple[str, Recipe]]:
    """What may win, each with words for it; the first is what a fit takes that compares nothing."""
    layout, full_only = rows.table.layout, recipe.uncertainty == "posterior"
    numbers = layout.D - len(layout.discrete)
    few, wide = numbers >= FEWEST_NUMBERS and len(rows.table.used) < WELL * numbers, numbers > FULL_UP_TO
    shapes: list[tuple[str, str, dict[str, Any]]] = []
    if numbers < FEWEST_NUMBERS or full_only:
        shapes.append(("mixture", "mixture", {}))
    else:
        full = [] if wide else [("mixture", "mixture", {"covariance": "full"})]
        factors = FACTORS if numbers >= MANY_NUMBERS else 1
        factored = {"covariance": "factor", "factors": factors}
        shapes += full
        if few or not full or recipe.score == "loglik":
            shapes.append(("mixture", "mixture of factor models", factored))
        if full and (few or recipe.score == "cells"):
            shapes.append(("mixture", "mixture shrunk to pairs", {"covariance": "full", "shrink_to": "pairs"}))
    if numbers >= FEWEST_NUMBERS and not full_only and (wide or not layout.discrete):
        one = ("mixture", ONE_FACTOR_MODEL, {"covariance": "factor", "components": 1})
        shapes.insert(0 if wide else len(shapes), one if layout.discrete else ("fa", ONE_FACTOR_MODEL, {}))
    if layout.discrete and numbers and _dependence_unsaid(recipe):
        shifted = [(model, f"{title}{SHIFTED}", {**more, "dependence": "linear"}) for model, title, more in shapes]
        if recipe.score == "loglik":
            shapes = [(model, title, {**more, "dependence": "none"}) for model, title, more in shapes] + shifted
        elif wide and not full_only:
            shapes = shifted
    if _may_shift(recipe, rows):  # the general location model: Olkin and Tate 1961
        shrunk = {"shrink_to": "pairs"} if few else {}
        shapes.append(("mixture", f"mixture{SHIFTED}", {**ONE_SHIFTED, **shrunk, "components": 1}))
    return [
        (
            f"{title}, {TRANSFORMS.get(transform, UNSCALED)}" if numbers else f"{title} of categories",
            recipe.with_model(model, **more).with_table(transform=transform),
        )
        for model, title, more in shapes
        for transform in transforms
    ]


def counted(named: Sequence[tuple[str, Recipe]]) -> int:
    """How many of the candidates come first: up to the one whose number of components is chosen for the others too."""
    chosen = [place for place, (_, recipe) in enumerate(named) if chooses_components(recipe)]
    return 1 + chosen[0] if chosen else min(1, len(named))


def chooses_components(recipe: Recipe) -> bool:
    """Whether a candidate is a mixture that nobody has told of how many components."""
    return recipe.model.name == "mixture" and recipe.model.settings.get("components") is None


def by_level(recipe: Recipe, coded: Mapping[str, Rows]) -> list[tuple[str, Recipe]]:
    """The candidates with slopes of each level, one for each transform, with words for it; none where the rows do not
    say under every one that slopes differ. How many components each level has is left open.

    coded  the rows as each transform encodes them
    """
    rows = list(coded.values())
    by = column_of_slopes(*rows) if _may_shift(recipe, rows[0]) else None
    if by is None:
        return []
    own = recipe.with_model("mixture", **ONE_SHIFTED, by=by)
    return [
        (f"mixture{SHIFTED}, {TRANSFORMS.get(transform, UNSCALED)}", own.with_table(transform=transform))
        for transform in coded
    ]


def _may_shift(recipe: Recipe, rows: Rows) -> bool:
    """Whether one Gaussian that the levels shift is a candidate."""
    layout = rows.table.layout
    unsaid = recipe.score == "cells" and recipe.uncertainty != "posterior" and _dependence_unsaid(recipe)
    return unsaid and bool(layout.discrete) and 0 < len(layout.continuous) <= FULL_UP_TO


def _dependence_unsaid(recipe: Recipe) -> bool:
    """Whether nobody said if the numbers of one cluster depend on the levels."""
    return recipe.value("model.dependence") is None


def compared(recipe: Recipe, name: str, said: Settings) -> tuple[str, Recipe]:
    """A model that is compared beside the others, by its own method, with words for it.

    said  what somebody said of its settings, and of the transform of the columns; else that is the model's own, and
          values that pile up have room, since no chain is to stand for what has no value
    """
    traits = registry.MODELS[name].traits
    own = components.for_compared(recipe, name, said)
    if "table.transform" not in said:
        own = own.with_table(transform=traits.transform, spikes="room")
    title = re.split("[,:]| for ", registry.MODELS[name].about)[0]
    return f"{title}, {TRANSFORMS.get(str(own.table.transform), UNSCALED)}", own


def held(recipe: Recipe) -> str | None:
    """The column of levels of which a candidate's components have one each, if any."""
    return cast("str | None", recipe.model.settings.get("by"))


def ties_levels(recipe: Recipe) -> bool:
    """Whether the numbers of a candidate's one cluster depend on the levels; true of several clusters, which differ in
    both."""
    settings = recipe.model.settings
    return settings.get("dependence") == "linear" or settings.get("components") != 1 or held(recipe) is not None


def by_em(recipe: Recipe) -> bool:
    """Whether EM fits a candidate."""
    return recipe.method.name == "em"


def form(recipe: Recipe) -> tuple[object, ...]:
    """What a model is but for its size."""
    settings = recipe.model.settings
    return recipe.model.name, *(settings.get(name) for name in ("covariance", "shrink_to", "dependence"))


def only_factors(settings: Mapping[str, Any]) -> bool:
    """Whether a mixture of these settings says of its columns no more than factors do, where rows are few."""
    return settings.get("covariance") == "factor" or settings.get("shrink_to") == "factors"
