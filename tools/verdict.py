"""Whether results are right: `runtime.verdict`, for the command line."""

from __future__ import annotations

from ..runtime.verdict import Expected, Verdict, check, row_dim

__all__ = ["Expected", "Verdict", "check", "row_dim"]
