"""Which of K things is which of K others: the assignment of least total cost."""

from __future__ import annotations

import math

from torch import Tensor


def assignment(cost: Tensor) -> list[int]:
    """The column of each row of finite costs [K, K], a permutation of least total cost (Kuhn 1955), in O(K^3).

    Rows enter one after another, each by the shortest augmenting path in reduced costs (Jonker and Volgenant 1987).
    """
    costs: list[list[float]] = cost.tolist()
    K = len(costs)
    row_price, column_price = [0.0] * K, [0.0] * K
    row_of: list[int | None] = [None] * K  # of each column
    for new in range(K):
        nearest, before = [math.inf] * K, [-1] * K  # reduced length of the path to each column, and the column before
        reached: list[int] = []  # columns, in the order of their lengths
        row, column, length = new, -1, 0.0
        while True:
            for j in range(K):
                along = length + costs[row][j] - row_price[row] - column_price[j]
                if j not in reached and along < nearest[j]:
                    nearest[j], before[j] = along, column
            column = min((j for j in range(K) if j not in reached), key=nearest.__getitem__)
            length = nearest[column]
            taken = row_of[column]
            if taken is None:
                break
            reached.append(column)
            row = taken
        row_price[new] += length
        for j in reached:
            holder = row_of[j]
            assert holder is not None
            row_price[holder] += length - nearest[j]
            column_price[j] -= length - nearest[j]
        while column >= 0:  # every row on the path moves to the column after it
            last = before[column]
            row_of[column] = new if last < 0 else row_of[last]
            column = last
    column_of = [0] * K
    for j, holder in enumerate(row_of):
        assert holder is not None
        column_of[holder] = j
    return column_of
