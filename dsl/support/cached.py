"""`cached_property`: what is computed of an instance when it is first asked for, and is the instance's from then on.

That of `functools` has, before Python 3.12, one lock for all instances of a class: two threads that ask for two such values
that need one another wait forever, and so does a process that was forked while another thread computed one. Here is no lock.
Threads that ask at the same time may each compute the value; the one that is there first is everybody's, so identities hold.
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
