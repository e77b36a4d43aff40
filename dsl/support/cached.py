"""`cached_property`: a value that an instance computes at its first use, and stores.

Before Python 3.12, the one of `functools` has one lock for all instances of a class. Two threads that compute two values which
need one another wait forever, and so does a process that was forked while another thread computed one. This one has no lock.
Threads may compute a value at the same time; all of them then use the first result, so its identity is stable.

`cached_value` is for what there is most of: Python gives an instance no dictionary of its own unless somebody asks for it, and
this one does not. Of two threads the last one's value counts, so it is for values whose identity nobody looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
    from functools import cached_property as cached_value
else:
    _set = object.__setattr__

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

    class cached_value(cached_property):
        """The same without a dictionary."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self.compute(instance)
            _set(instance, self.name, value)
            return value


__all__ = ["cached_property", "cached_value"]
