"""Trees that correct a mixture's laws of single cells (samplers/trees.py): learnt for each bootstrap refit, and where
they lie in a run (`trees/<refit>/<name>`).

Trees are learnt from the resampled rows of the refit, so that they are as uncertain as they should be, with holes
filled by a draw under the refit: ROUNDS times over the columns a tree is learnt and the column's holes are drawn
anew by it. Of a number it looks at the first two Legendre polynomials of the distribution function, which are
uncorrelated with mean 0 where the law is right (Neyman's smooth test, 1937); of levels, at their indicators less their
probabilities. Leaves keep at least LEAF rows, and are pulled to no correction by PRIOR pseudo-rows. Which columns keep
their trees is decided by the rows that a resample left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from vgi_cli.completers.base import GivenUp, ask
from vgi_cli.data import TensorTable
from vgi_cli.encoding.recode import NO_RECODERS, Recoder
from vgi_cli.errors import UsageError
from vgi_cli.fitting.averaging import recipes
from vgi_cli.fitting.pairs import pairs_of
from vgi_cli.fitting.pairs import rows_for as rows_for_pairs
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.refits import TREES as PREFIX
from vgi_cli.fitting.refits import em_settings, refit_count
from vgi_cli.machine.work import Work
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.trees import NO_PAIRS, Tree, packed, unpacked
from vgi_cli.methods.em.bootstrap import filled, row_weights, size_of
from vgi_cli.methods.em.em import redraws_of
from vgi_cli.models.base import Model
from vgi_cli.models.gaussian.family import GaussianFamily, in_double
from vgi_cli.models.gaussian.rounded import redrawn_rows
from vgi_cli.reporting import TREES
from vgi_cli.samplers.trees import BINS, RARE, ROUNDS, Cell
from vgi_cli.settings.recipe import Recipe
from vgi_cli.workers import Tell, room_of

LEAF = 7
"""Fewest rows of a leaf."""
LEAVES = 256
"""Most leaves of a tree."""
PRIOR = 1.0
"""Pseudo-rows of no correction in each leaf."""
FEWEST_ROWS, MOST_ROWS = 100, 10_000
"""Of fewer rows no tree is learnt; of more, so many of them."""
WIDE, SHIFTED = 10, 10
"""A table is wide where it has fewer rows than that for each column of numbers; and so many rows for each level by
which numbers are shifted determine by how much."""
WORK = 1e8
"""Comparisons that the trees of a refit may take: some two seconds. Counted, never timed."""


def rows_for(table: TensorTable) -> int:
    """Of how many rows of a table the trees of a refit are learnt; 0: none are. A pure function of sizes, of the levels
    and of which cells are missing."""
    layout = table.layout
    N = len(table.used)
    features = Indicators(layout.level_counts).F + 1
    rows = min(N, MOST_ROWS)
    each = ROUNDS * layout.D * features * max(math.log2(max(rows, 2)), 1.0)
    rows = min(rows, int(WORK / each))
    return rows if rows >= min(FEWEST_ROWS * 5, N) and N >= FEWEST_ROWS else 0


def wanted(recipe: Recipe, table: TensorTable) -> bool:
    """Whether a fit learns trees: a mixture with refits, unless `trees` of the recipe is none; of numbers alone where
    its refits are by EM anyway."""
    provides = recipe.model.entry.provides
    able = bool(table.layout.discrete) or recipe.method.algorithm.refit is None or recipe.trees == "held-out"
    return recipe.trees != "none" and {"gaussian", "discrete"} <= provides and able and rows_for(table) > 0


def settled(recipe: Recipe, table: TensorTable) -> Recipe:
    """The recipe with `trees` decided: held-out rows choose the columns that keep them, or none. UsageError where trees
    were asked for that this fit cannot learn."""
    if refit_count(recipe) > 0 and wanted(recipe, table):
        return recipe.replace(trees="held-out")
    if recipe.trees == "held-out":
        raise UsageError(
            "trees=held-out: this fit can learn no trees, which need a mixture with bootstrap refits, at least "
            f"{FEWEST_ROWS} rows and a table that is not too wide",
            "leave it out",
        )
    return recipe.replace(trees="none")


def settled_dependence(recipe: Recipe, table: TensorTable) -> Recipe:
    """The recipe with the dependence of numbers on levels decided, where nobody did: by EM the levels shift the numbers
    of tables of both, in tables with fewer rows than trees take those of every second refit
    (docs/research/defaults.md), unless they are wide: there the numbers say so much of each other's draws that without
    shifts hardly anything is left of the difference between groups. By other methods they do not."""
    if "dependence" not in type(recipe.model_settings).model_fields or recipe.value("model.dependence") is not None:
        return recipe
    layout, taken = table.layout, "none"
    if layout.discrete and layout.continuous and recipe.method.name == "em":
        rows, shifts = len(table.used), sum(max(levels - 1, 0) for levels in layout.level_counts)
        wide = rows < WIDE * len(layout.continuous) and rows >= SHIFTED * (1 + shifts)
        if rows >= FEWEST_ROWS or wide:
            taken = "linear"
        elif refit_count(recipe) > 1:
            taken = "turn"
    return recipe.with_model(dependence=taken)


def learnt(
    recipe: Recipe,
    refits: Sequence[Model],
    table: TensorTable,
    numbers: Sequence[int],
    work: Work,
    recoders: Mapping[str, Recoder] = NO_RECODERS,
) -> list[list[Tree | None]]:
    """Of each refit (with its number in the bootstrap) its trees, one a dimension: those of the columns whose held-out
    cells they predict better (of numbers by more than a standard error), None of the others. Empty where that is no
    column, or where a time limit is over first, and a line says so. `recoders`: to the transforms of the models that
    the refits are of."""
    counts = table.layout.level_counts
    made: list[_Grown | None] = [None] * len(refits)
    for places, grown, back in _grown_by_transform(recipe, refits, table, numbers, work, recoders):
        for i, one in zip(places, grown, strict=True):
            made[i] = (
                one if back is None else one._replace(scores=[_recoded(s, back, j) for j, s in enumerate(one.scores)])
            )
    every = [one for one in made if one is not None]
    if len(every) < len(refits) or not every:
        return []
    gains = [gain_of([one.scores[j] for one in every], counts[j] > 0) for j in range(table.D)]
    better = [gain.mean > (0 if levels else gain.error) for gain, levels in zip(gains, counts, strict=False)]
    columns = list(dict.fromkeys(table.layout.label(j) for j in range(table.D) if better[j]))
    if columns:
        work.reporter.detail(
            f"trees predict held-out cells of {len(columns)} of {len(table.layout.columns)} columns better: "
            + ", ".join(columns)
        )
    kept = chosen(every, better)
    return kept if any(tree is not None for trees in kept for tree in trees) else []


def _recoded(scores: Scores, back: Recoder, j: int) -> Scores:
    """The scores of dimension j in the coordinates of the fit (what is said of levels stays)."""
    value, law, corrected = (back.dimension(part, j) for part in (scores.value, scores.law, scores.corrected))
    return Scores(scores.rows, value, law, corrected)


def _grown_by_transform(
    recipe: Recipe,
    refits: Sequence[Model],
    table: TensorTable,
    numbers: Sequence[int],
    work: Work,
    recoders: Mapping[str, Recoder],
) -> Iterator[tuple[list[int], list[_Grown], Recoder | None]]:
    """Of each transform that refits are of: their places among `numbers`, their trees, learnt from the rows as it
    encodes them, and the map back from these (None: they are those of the fit). Ends where a time limit is over first,
    and a line says so."""
    of = recipes(recipe, numbers)
    transforms = [str(one.table.transform) for one in of]
    table = table.rows(table.used).to(dtype=torch.float64)
    some = torch.randperm(table.N, generator=stream(recipe.seed, "trees"))[: rows_for(table)].sort().values
    own = table.relative_weight
    weights = None if own is None else own[some]
    done = 0
    room = room_of(table.N, table.D)

    def models(i: int) -> GaussianFamily:
        return in_double(cast(GaussianFamily, refits[i]))

    with work.reporter.stage(TREES, "refits", work.limit.end) as stage:

        def half(made: Iterator[Any]) -> Iterator[Any]:
            """Tell of each, by which half of a refit is done."""
            nonlocal done
            for one in made:
                done += 1
                stage(done / (2 * len(numbers)), done // 2, len(numbers))
                yield one

        for name in dict.fromkeys(transforms):
            rows = recoders[name].table(table) if name in recoders else table
            part = rows.rows(some)
            places = [i for i, other in enumerate(transforms) if other == name]

            @torch.inference_mode()
            def prepared(i: int, _: Tell, rows: TensorTable = rows, part: TensorTable = part) -> _Ready:
                ask(work.limit.over)
                model, generator = models(i), stream(recipe.seed, f"trees/{numbers[i]}")
                counts = _counts(model, rows, some, recipe.seed, numbers[i])
                moved = redraws_of(em_settings(recipe), model, rows) > 0
                own = _placed(model, part, generator) if moved else part
                pairs = _pairs(model, rows, own, counts, weights, moved, stream(recipe.seed, f"pairs/{numbers[i]}"))
                return _Ready(own.x if moved else None, counts, generator.get_state(), pairs)

            @torch.inference_mode()
            def grown(item: tuple[int, _Ready, list[Tensor]], _: Tell, part: TensorTable = part) -> _Grown:
                ask(work.limit.over)
                i, one, pairs = item
                generator = torch.Generator()
                generator.set_state(one.state)
                own = part if one.x is None else part._replace(x=one.x)
                return _trees(models(i), own, one.counts, weights, pairs, generator)

            try:
                ready = list(half(work.workers.in_order(prepared, places, room=room)))
                pooled = less_apart([one.pairs for one in ready], [of[i] for i in places], rows_for_pairs(rows), rows.N)
                items = list(zip(places, ready, pooled, strict=True))
                made = list(half(work.workers.in_order(grown, items, room=room)))
            except GivenUp:
                work.limit.cut.append(TREES)
                work.reporter.warn("the time limit left no time for trees: draws come from the mixture alone")
                return
            yield places, made, recoders[name].inverse if name in recoders else None


class _Ready(NamedTuple):
    """What trees of a refit are learnt from.

    x       [n, D] the rows, where rounded cells lie at places of their own; None: as they are
    counts  [n] how often each was drawn
    state   of its random stream
    pairs   what pairs of columns say
    """

    x: Tensor | None
    counts: Tensor
    state: Tensor
    pairs: list[Tensor]


def less_apart(pairs: Sequence[list[Tensor]], of: Sequence[Recipe], rows: int, N: int) -> list[list[Tensor]]:
    """What pairs of columns say by each refit (`pairs_of`), so far from the mean of those of the same model (`of`) as
    it would be by all N rows of the table, where each has seen others of them, so many, and these resampled.

    Of the mean of k refits each is v apart, v = (2 - rows / N) / rows in the variance of a single row: without the rows
    that it did not see, and once more for the resample. What is kept of that is 1 / N, and v / k for the mean's own
    error. Where a refit sees all rows that is all.
    """
    if not rows:
        return list(pairs)
    out = [list(one) for one in pairs]
    for first, recipe in enumerate(of):
        mine = [i for i, other in enumerate(of) if other == recipe]
        if mine[0] != first:
            continue
        kept = math.sqrt(min(1.0, rows / (2 * N - rows) + 1 / len(mine)))
        if kept == 1:
            continue
        for j in range(len(pairs[0])):
            tables = [pairs[i][j] for i in mine]
            if len({one.shape for one in tables}) == 1:
                mean = torch.stack(tables).mean(0)
                for i, own in zip(mine, tables, strict=True):
                    out[i][j] = mean + kept * (own - mean)
    return out


def _placed(model: GaussianFamily, part: TensorTable, generator: torch.Generator) -> TensorTable:
    """Rows whose rounded cells lie where the model draws them within their rounding."""
    if part.rounding is None:
        return part
    seed = int(torch.randint(2**62, (), generator=generator))
    return part._replace(x=redrawn_rows(model, part.x, part.missing, part.rounding, seed))


def _pairs(
    model: GaussianFamily,
    table: TensorTable,
    part: TensorTable,
    counts: Tensor,
    weights: Tensor | None,
    moved: bool,
    generator: torch.Generator,
) -> list[Tensor]:
    """What pairs of columns say (fitting/pairs.py), by the `part` of a table of which trees are learnt, or by rows of
    their own, others for each refit, where that is not the whole table or takes more work than they have: the pooled
    tables then tell of more rows than one refit has seen; `moved`: rounded cells are placed by the model."""
    rows = rows_for_pairs(table)
    if rows and not rows == part.N == table.N:
        some = torch.randperm(table.N, generator=generator)[:rows].sort().values
        own = table.relative_weight
        part, weights = table.rows(some), None if own is None else own[some]
        part = _placed(model, part, generator) if moved else part
        counts = row_weights(rows, "multinomial", generator)
    return pairs_of(model, part, counts, weights, generator) if rows else [NO_PAIRS] * table.D


def learnt_again(
    recipe: Recipe,
    refits: Sequence[Model],
    table: TensorTable,
    numbers: Sequence[int],
    columns: Sequence[bool],
    work: Work,
    recoders: Mapping[str, Recoder] = NO_RECODERS,
) -> list[list[Tree | None]]:
    """As `learnt`, of columns that are known to have trees."""
    out: list[list[Tree | None]] = [[None] * table.D for _ in refits]
    for places, grown, _ in _grown_by_transform(recipe, refits, table, numbers, work, recoders):
        for i, trees in zip(places, chosen(grown, columns), strict=True):
            out[i] = trees
    return [] if TREES in work.limit.cut else out


class Scores(NamedTuple):
    """What a refit makes of held-out cells of a column.

    rows       [n] the rows of the cells
    value      [n] the cells
    law        [n] by the refit's law: of a number, a draw; of a level, its probability
    corrected  [n] the same by that law as corrected; a draw from the same noise
    """

    rows: Tensor
    value: Tensor
    law: Tensor
    corrected: Tensor


class Gain(NamedTuple):
    """By how much corrected laws are better (numbers: CRPS, encoded; levels: nats a cell), and its standard error."""

    mean: float
    error: float


class _Grown(NamedTuple):
    """The trees of a refit, one a dimension, and their scores."""

    trees: list[Tree | None]
    scores: list[Scores]


def chosen(grown: Sequence[_Grown], columns: Sequence[bool]) -> list[list[Tree | None]]:
    """The trees of some columns; of the others what is said of pairs of columns, or None."""

    def kept(tree: Tree | None, use: bool) -> Tree | None:
        return tree if use or tree is None else tree.without_splits()

    return [[kept(tree, use) for tree, use in zip(one.trees, columns, strict=True)] for one in grown]


def gain_of(scores: Sequence[Scores], level: bool) -> Gain:
    """How much better a column's held-out cells are predicted by what all refits together say of them, for that is
    what imputations are drawn from: of numbers by the fair CRPS of the draws (Ferro 2014), of levels by the logarithm
    of the mean probability. A cell counts where two refits at least held it out."""
    rows = torch.cat([one.rows for one in scores])
    cells, place = torch.unique(rows, return_inverse=True)
    refit = torch.cat([torch.full_like(one.rows, i) for i, one in enumerate(scores)])
    shape = len(cells), len(scores)
    there = torch.zeros(shape, dtype=torch.bool)
    there[place, refit] = True
    several = there.sum(1) >= 2
    if int(several.sum()) < 2:
        return Gain(0.0, 0.0)

    def table(parts: Sequence[Tensor]) -> Tensor:
        out = torch.zeros(shape, dtype=torch.float64)
        out[place, refit] = torch.cat(list(parts)).to(out.dtype)
        return out[several]

    there = there[several]
    law, corrected = table([one.law for one in scores]), table([one.corrected for one in scores])
    if level:
        gain = corrected.sum(1).log() - law.sum(1).log()
    else:
        value = table([one.value for one in scores])
        gain = _crps(law, value, there) - _crps(corrected, value, there)
    return Gain(float(gain.mean()), float(gain.std()) / math.sqrt(len(gain)))


def _crps(draws: Tensor, value: Tensor, there: Tensor) -> Tensor:
    """[n] the fair CRPS of draws [n, m] of cells with values [n, m], of those that are there [n, m]."""
    count = there.sum(1)
    error = ((draws - value).abs() * there).sum(1) / count
    pairs = there[:, :, None] & there[:, None, :]
    apart = ((draws[:, :, None] - draws[:, None, :]).abs() * pairs).sum((1, 2))
    return error - apart / (2 * count * (count - 1))


def _counts(model: GaussianFamily, table: TensorTable, some: Tensor, seed: int, number: int) -> Tensor:
    """How often some rows were drawn for a refit's resample, so that what it left out is new to its trees too; where a
    refit has seen every row, or few of them, a resample of their own."""
    size = size_of(model, table.missing)
    if size.kind == "multinomial" and size.rows >= table.N:
        return row_weights(table.N, size.kind, stream(seed, f"bootstrap/{number}"))[some]
    return row_weights(len(some), "multinomial", stream(seed, f"trees/{number}/rows"))


def _trees(
    model: GaussianFamily,
    table: TensorTable,
    counts: Tensor,
    own: Tensor | None,
    pairs: Sequence[Tensor],
    generator: torch.Generator,
) -> _Grown:
    """The trees of one refit, by rows that all have an observed cell, were drawn so often (counts [n]: 0 are held out)
    and have weights of their own [n], where these differ; `pairs`: of each dimension what its law is corrected by
    first (fitting/pairs.py)."""
    model, missing, used = model.for_fills(), table.missing, counts > 0
    weights = (counts if own is None else counts * own).numpy()
    fill_seed = int(torch.randint(2**62, (), generator=generator))
    x = filled(model, table.x, missing, fill_seed)
    laws, indicators = model.cell_laws(), Indicators(table.layout.level_counts)
    trees: list[Tree | None] = [None] * table.D
    scores: list[Scores] = []
    with torch.no_grad():
        for turn in range(ROUNDS):
            for j in range(table.D):
                holes = missing[:, j]
                if turn < ROUNDS - 1 and not bool(holes.any()):
                    continue  # asked for in the end only: it may be missing in other tables
                u = torch.rand(len(x), dtype=torch.float64, generator=generator)
                state = int(torch.randint(2**31 - 1, (), generator=generator))
                cell = Cell(laws, indicators, x, j)
                trees[j] = _tree(cell, x[:, j], ~holes & used, weights, state, pairs[j])
                if turn == ROUNDS - 1:
                    held = (~holes & ~used).nonzero()[:, 0]
                    scores.append(_scores(cell.at(held), trees[j], held, x[held, j], u[held]))
                drawn = holes.nonzero()[:, 0]
                x[drawn, j] = cell.at(drawn).revised(trees[j], u[drawn])
    return _Grown(trees, scores)


def _scores(cell: Cell, tree: Tree | None, rows: Tensor, value: Tensor, u: Tensor) -> Scores:
    """Of the cells of some rows (their numbers, and what they hold), by the law and by the tree."""
    if cell.probs is None:
        alone = None if tree is None else tree.without_splits()
        return Scores(rows, value, cell.revised(alone, u), cell.revised(tree, u))
    law, corrected = (cell.probabilities(one) for one in (None if tree is None else tree.without_splits(), tree))
    place = value.long()[:, None]
    return Scores(rows, value, law.gather(1, place)[:, 0], corrected.gather(1, place)[:, 0])


def _tree(
    cell: Cell, value: Tensor, observed: Tensor, weights: np.ndarray[Any, Any], state: int, pairs: Tensor
) -> Tree | None:
    """A tree of the rows that observe a column, of the law that `pairs` have corrected; None where they are too few for
    two leaves, or the law of a number does not hold."""
    from sklearn.tree import DecisionTreeRegressor  # here: half a second that no other fit spends

    seen, rows = observed.numpy(), observed.nonzero()[:, 0]
    if len(rows) < 2 * LEAF:
        return None
    if cell.law is not None and not cell.at(rows).holds(value[rows]):
        return None
    w, features = weights[seen], cell.features.numpy()[seen]
    least = max(LEAF, int(seen.sum()) // LEAVES)
    grown = DecisionTreeRegressor(min_samples_leaf=least, max_leaf_nodes=LEAVES, random_state=state)
    if cell.law is not None:
        v = cell.law.cdf(value)[observed].numpy()
        targets = np.stack([2 * v - 1, math.sqrt(5 / 3) * (1.5 * (2 * v - 1) ** 2 - 0.5)], 1)
        if len(pairs):
            v = cell.moved(pairs).cdf(value)[observed].numpy()
        counts = np.eye(BINS)[np.minimum((v * BINS).astype(int), BINS - 1)]
    else:
        probs = cell.paired(pairs)[observed].numpy()
        counts = np.eye(probs.shape[1])[value[observed].long().numpy()]
        # Where the law is wrong as it stands: once pairs have corrected it, no single column shows that three act on
        # each other, and a tree would not ask for it.
        targets = counts - cast(Tensor, cell.probs)[observed].numpy()
    nodes = grown.fit(features, targets, sample_weight=w).tree_
    node_of = nodes.apply(features)
    inner = nodes.children_left >= 0
    leaf_of = (np.cumsum(~inner) - 1)[node_of]
    leaves = int((~inner).sum())
    held = _summed(counts * w[:, None], leaf_of, leaves)
    if cell.law is not None:
        total = held.sum(1, keepdims=True)
        kept = (held + PRIOR / BINS) / (total + PRIOR)
    else:
        kept = _factors(held, _summed(probs * w[:, None], leaf_of, leaves))
    return Tree(
        feature=torch.from_numpy(np.where(inner, nodes.feature, -1).astype(np.int64)),
        threshold=torch.from_numpy(np.where(inner, nodes.threshold, 0.0).astype(np.float64)),
        children=torch.from_numpy(np.stack([nodes.children_left, nodes.children_right], 1).astype(np.int64)),
        table=torch.from_numpy(kept.astype(np.float32)),
        pairs=pairs,
    )


def _factors(held: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[leaves, levels] the factors of the probabilities of levels: how many rows have one to how many the law expects
    [leaves, levels], both with PRIOR rows more that are as it expects.

    Of a level that the law rules out in all rows of a leaf both are 0, the prior rows too. Then the factor is that of
    every other level that no row has, which does not depend on what was expected of it: PRIOR / (rows + PRIOR), and 1
    where all rows of the leaf weigh 0. Where some row has the level all the same, it counts as one of probability RARE.
    """
    rows = expected.sum(1, keepdims=True)
    least = np.finfo(np.float64).tiny
    never = expected < least
    expected = np.where(never & (held > 0), RARE * rows, expected)
    prior = PRIOR * expected / np.where(rows > 0, rows, 1.0)
    never = expected < least
    out = (held + prior) / np.where(never, 1.0, expected + prior)
    return np.minimum(np.where(never, PRIOR / (rows + PRIOR), out), np.finfo(np.float32).max)


def _summed(values: np.ndarray[Any, Any], leaf_of: np.ndarray[Any, Any], leaves: int) -> np.ndarray[Any, Any]:
    """[leaves, W] sums of values [n, W] over the rows of each leaf."""
    out = np.zeros((leaves, values.shape[1]))
    np.add.at(out, leaf_of, values)
    return out


def named(trees: Sequence[Sequence[Tree | None]]) -> dict[str, Tensor]:
    """Trees under their names in the run."""
    return {
        f"{PREFIX}{number}/{name}": value for number, some in enumerate(trees) for name, value in packed(some).items()
    }


def trees_in(tensors: Mapping[str, Tensor]) -> tuple[list[Tree | None], ...]:
    """The trees of each refit among the tensors of model.safetensors."""
    found: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith(PREFIX):
            number, _, name = key.removeprefix(PREFIX).partition("/")
            found.setdefault(int(number), {})[name] = value
    return tuple(unpacked(found[number]) for number in sorted(found))
