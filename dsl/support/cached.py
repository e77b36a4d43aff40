"""`cached_property`: a value that an instance computes at its first use, and stores.

Before Python 3.12, the one of `functools` has one lock for all instances of a class. Two threads that compute two values which
need one another wait forever, and so does a process that was forked while another thread computed one. This one has no lock.
Threads may compute a value at the same time; all of them then use the first result, so its identity is stable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """A decorator of methods. Frozen instances may have such values too."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.name, self.compute(instance))


__all__ = ["cached_property"]
