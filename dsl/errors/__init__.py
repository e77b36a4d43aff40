"""Diagnostics: the rooted hierarchy, one class per mistake, one file per room of the language."""

from .base import (
    AndironError,
    Diagnostics,
    InternalError,
    Label,
    UserError,
    UserErrors,
    did_you_mean,
    render,
)

__all__ = ["AndironError", "Diagnostics", "InternalError", "Label", "UserError", "UserErrors", "did_you_mean", "render"]
