"""Diagnostics: a class for each error, and a file for each part of the language."""

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
