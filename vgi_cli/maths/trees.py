"""Binary decision trees as tensors: which leaf a row falls into, and what is kept there.

Trees are learnt elsewhere (fitting/trees.py); here they are read. Breiman, Friedman, Olshen and Stone (1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

NO_PAIRS = torch.zeros(0, 0)


class Tree(NamedTuple):
    """A tree of T nodes, the first of which is the root, with H leaves.

    feature    [T] int64: the number of a row that a node asks for; -1: the node is a leaf
    threshold  [T] float64: rows whose number is at most this go left
    children   [T, 2] int64: the nodes to the left and to the right
    table      [H, W] float32: what each leaf keeps, leaves in the order of their nodes
    pairs      [F, W] float32: of a column of W levels the logarithms of factors by the levels of the other columns of
               levels, and by the numbers (F: levels of all columns, its own are 0; then all numbers); of a number
               [F, 1] by how much its law is moved for each of these levels; empty where there are none
    """

    feature: Tensor
    threshold: Tensor
    children: Tensor
    table: Tensor
    pairs: Tensor = NO_PAIRS

    @property
    def splits(self) -> bool:
        """Whether it says more than what pairs of columns do."""
        return len(self.feature) > 1 or bool((self.table != 1).any())

    def without_splits(self) -> Tree | None:
        """What it says of pairs of columns alone; None: nothing."""
        if not len(self.pairs):
            return None
        one = torch.ones(1, self.table.shape[1])
        return Tree(torch.tensor([-1]), torch.zeros(1, dtype=torch.float64), torch.tensor([[-1, -1]]), one, self.pairs)

    def leaves(self, features: Tensor) -> Tensor:
        """[R] int64: the leaf of each row of features [R, F] (float32, as the tree was learnt)."""
        asked, threshold, children = (part.numpy() for part in (self.feature, self.threshold, self.children))
        values = features.numpy()
        rows, node = np.arange(len(values)), np.zeros(len(values), dtype=np.int64)
        while True:
            feature = asked[node]
            inner = feature >= 0
            if not inner.any():
                return torch.from_numpy((np.cumsum(asked < 0) - 1)[node])
            right = values[rows, feature] > threshold[node]
            node = np.where(inner, children[node, right.astype(np.int64)], node)


def packed(trees: Sequence[Tree | None]) -> dict[str, Tensor]:
    """Trees one after the other in few tensors, by name; None: there is no tree in that place."""
    present = [tree for tree in trees if tree is not None]
    width = max((tree.table.shape[1] for tree in present), default=0)
    pad = torch.nn.functional.pad
    return {
        "nodes": torch.tensor([0 if tree is None else len(tree.feature) for tree in trees]),
        "feature": _joined([tree.feature for tree in present], torch.int64),
        "threshold": _joined([tree.threshold for tree in present], torch.float64),
        "children": _joined([tree.children for tree in present], torch.int64, 2),
        "table": _joined([pad(t.table, (0, width - t.table.shape[1]), value=1) for t in present], torch.float32, width),
        "paired": torch.tensor([len(tree.pairs) for tree in present], dtype=torch.int64),
        "pairs": _joined([pad(t.pairs, (0, width - t.pairs.shape[1])) for t in present], torch.float32, width),
    }


def _joined(parts: Sequence[Tensor], dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.cat(list(parts)) if parts else torch.zeros(0, *shape, dtype=dtype)


def unpacked(tensors: dict[str, Tensor]) -> list[Tree | None]:
    """The trees of `packed`."""
    trees: list[Tree | None] = []
    node = leaf = pair = 0
    paired = iter(tensors["paired"].tolist() if "paired" in tensors else [0] * len(tensors["nodes"]))
    for count in tensors["nodes"].tolist():
        if count == 0:
            trees.append(None)
            continue
        nodes = slice(node, node + count)
        feature = tensors["feature"][nodes]
        leaves = slice(leaf, leaf + int((feature < 0).sum()))
        pairs = slice(pair, pair + next(paired))
        trees.append(
            Tree(
                feature,
                tensors["threshold"][nodes],
                tensors["children"][nodes],
                tensors["table"][leaves],
                tensors["pairs"][pairs] if "pairs" in tensors else NO_PAIRS,
            )
        )
        node, leaf, pair = nodes.stop, leaves.stop, pairs.stop
    return trees
