"""Trees as tensors: the leaves that scikit-learn's own trees find, and the way to a file and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeRegressor

from vgi_cli.maths.trees import Tree, packed, unpacked


def grown(seed: int, leaves: int, width: int = 2) -> tuple[Tree, DecisionTreeRegressor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((200, 4)).astype(np.float32).round(1)  # ties
    theirs = DecisionTreeRegressor(max_leaf_nodes=leaves, random_state=0).fit(features, rng.standard_normal(200))
    nodes = theirs.tree_
    inner = nodes.children_left >= 0
    ours = Tree(
        torch.from_numpy(np.where(inner, nodes.feature, -1)),
        torch.from_numpy(nodes.threshold.copy()),
        torch.from_numpy(np.stack([nodes.children_left, nodes.children_right], 1)),
        torch.arange(width * int((~inner).sum()), dtype=torch.float32).reshape(-1, width),
    )
    return ours, theirs, torch.from_numpy(features)


@pytest.mark.parametrize("leaves", [2, 7, 60])
def test_the_leaves_are_those_of_scikit_learn(leaves: int) -> None:
    ours, theirs, features = grown(leaves, leaves)
    nodes = torch.from_numpy(theirs.apply(features.numpy()))
    of_node = (ours.feature < 0).cumsum(0) - 1
    assert torch.equal(ours.leaves(features), of_node[nodes])
    assert len(ours.leaves(features).unique()) == leaves


def test_a_tree_of_one_leaf() -> None:
    stump = Tree(torch.tensor([-1]), torch.zeros(1), torch.tensor([[-1, -1]]), torch.ones(1, 3))
    assert stump.leaves(torch.zeros(5, 2)).tolist() == [0] * 5


def test_packed_trees_come_back() -> None:
    trees = [None, grown(1, 5, 2)[0], grown(2, 9, 3)[0], None]
    back = unpacked(packed(trees))
    assert [tree is None for tree in back] == [True, False, False, True]
    for mine, other in zip(trees, back, strict=True):
        if mine is not None and other is not None:
            for left, right in zip(mine[:3], other[:3], strict=True):
                assert torch.equal(left.to(right.dtype), right)
            assert torch.equal(mine.table, other.table[:, : mine.table.shape[1]])
    assert unpacked(packed([None, None])) == [None, None]


def test_a_packed_tree_without_splits_has_none() -> None:
    """Beside one of a wider column."""
    alone = grown(1, 5, 2)[0]._replace(pairs=torch.ones(6, 2)).without_splits()
    wide, back = unpacked(packed([grown(2, 9, 3)[0], alone]))
    assert wide is not None and wide.splits and back is not None and not back.splits
