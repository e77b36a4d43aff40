"""Mistakes in `tile ... online`: reductions that cannot share a pass."""

from __future__ import annotations

from .base import UserError


class OnlineMismatch(UserError):
    """A tile is `online`, and its reductions cannot share a pass.

    In one pass a reduction reads the running value of another one. When that value changes, the partial result is corrected.
    The correction is derived. It exists where the running value scales what is added, for all elements alike: `exp(s - m)`.
    """

    id = "schedule-online"
