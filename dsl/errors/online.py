"""Mistakes in `tile ... online` and `tile ... carry`: reductions that cannot share a pass, or go on from tile to tile."""

from __future__ import annotations

from .base import UserError


class OnlineMismatch(UserError):
    """A tile is `online`, and its reductions cannot share a pass.

    In one pass a reduction reads the running value of another one. When that value changes, the partial result is corrected.
    The correction is derived. It exists where the running value scales what is added, for all elements alike: `exp(s - m)`.
    """

    id = "schedule-online"


class CarryMismatch(UserError):
    """A tile of `i` has the word `carry`, and a reduction cannot go on from one tile to the next.

    It can where each row has the terms of the row before, and more: `sum(j where j <= i) X[j]`. So its domain must grow with
    `i`. Its terms may depend on `i` where those of one row are a multiple of those of another: `exp(g[i] - g[j]) * X[j]`.
    """

    id = "schedule-carry"
