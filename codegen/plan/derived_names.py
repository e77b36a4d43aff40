"""Names that the compiler derives from those of an op: of accumulators, staged copies, results before their write-back.

A derived name is a string, so it is a key, sorted and shown as the names of an op are. Its text is the name it derives from and
the mark of its class. No name of an op contains a mark, and each class has its own, so equal texts are of one class. Only this
module looks into the text. Methods of strings and f-strings give plain strings, which have lost the class: names are made by
the classes, and asked by `isinstance` and by the functions here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar


class Derived(str):
    """A name that derives from another one.

    of                        the name that this one derives from, which may be derived as well
    number                    distinguishes several of one class that derive from one name
    in_registers, in_memory   what the name of a buffer gets for it; `{}` is the memory
    """

    mark: ClassVar[str]
    in_registers: ClassVar[str] = ""
    in_memory: ClassVar[str] = ""
    of: str
    number: int | None

    def __new__(cls, of: str, number: int | None = None):
        name = super().__new__(cls, f"{of}{cls.mark}{'' if number is None else number}")
        name.of, name.number = of, number
        return name

    def __getnewargs__(self) -> tuple:  # copies and pickles are made by the class as well
        return self.of, self.number


class UnstoredResult(Derived):
    """A result that is not in the memory of its tensor yet."""


class Accumulator(UnstoredResult):
    """Where the partial result of a reduction lives until it is complete."""

    mark = "@"


class CombiningAccumulator(Accumulator):
    """The accumulator of a launch that combines the parts of a split reduction."""

    mark = "@combining"


class KeptResult(UnstoredResult):
    """A pointwise result in the memory that a line keeps it in."""

    mark = "@kept"
    in_registers = "_"


class RoundedResult(UnstoredResult):
    """What is stored of an accumulator, as its units compute it from their registers (ROUND_FIRST)."""

    mark = "@rounded"


class ArgreduceIndex(Derived):
    """The index that argmax and argmin have found, beside the accumulator of the value."""

    mark = "@at"
    in_registers = "__at"
    in_memory = "at"


class PreviousValue(Derived):
    """The running value of a statistic before the elements of an iteration."""

    mark = "@before"
    in_registers = "_before"


class RunningValue(Derived):
    """The running value of a statistic as those that depend on it read it."""

    mark = "@now"
    in_registers = "_now"


class CorrectionFactor(Derived):
    """What the partial result of a reduction is multiplied by when the running value that it depends on changes."""

    mark = "@factor"
    in_registers = "_factor"


class TileTotal(Accumulator):
    """The terms together that one tile of a prefix reduction adds."""

    mark = "@total"
    in_registers = "_total"


class CarriedTotal(Derived):
    """The terms together that the tiles so far have added, which the next tile goes on from."""

    mark = "@carried"
    in_registers = "_carried"


class TermsOfState(Accumulator):
    """The terms of rows that the tiles before have, while they are summed up."""

    mark = "@state"
    in_registers = "_state"


class EarlierTerms(Derived):
    """The terms of rows that the tiles before have, together."""

    mark = "@earlier"
    in_registers = "_earlier"


class EarlierRow(Derived):
    """The last row of the tile before, to which what a prefix reduction goes on from belongs; -1 in the first tile."""

    mark = "~earlier"


class LastRow(Derived):
    """The last row of a tile of a prefix reduction, to which what the next tile goes on from belongs."""

    mark = "~last"


class StagedCopy(Derived):
    """The copy that a `move` makes."""

    mark = "~"
    in_registers = "_"
    in_memory = "_{}"


class StoredCopy(Derived):
    """The copy in the outermost memory of a tensor that is kept elsewhere (STORED_BESIDES)."""

    mark = "@back"


class Component(Derived):
    """An index that is fused into one of the same name."""

    mark = "~index"


class RimIndex(Derived):
    """An index of what each tile of its readers makes for itself, with what they read beyond the tile."""

    mark = "~rim"


class SharedValue(Derived):
    """The value of an inlined tensor at the point with this number, which several readers share."""

    mark = "@point"


def tensor_of(name: str) -> str:
    """The tensor of the op behind the name, however often derived."""
    return tensor_of(name.of) if isinstance(name, Derived) else name


def result_of(name: str) -> str:
    """The tensor, or the copy, whose result the name stands for before it is stored; other names are their own."""
    return result_of(name.of) if isinstance(name, UnstoredResult) else name


def shown_name(name: str) -> str:
    """The name in traces: a staged copy of a tensor has its own, `A~`, as has what a tile goes on from. What else is derived
    has that of the tensor."""
    if isinstance(name, CarriedTotal | EarlierRow | EarlierTerms):
        return f"{shown_name(name.of)}~"
    if not isinstance(name, Derived) or (isinstance(name, StagedCopy) and not isinstance(name.of, Derived)):
        return name
    return shown_name(name.of)


def buffer_name(name: str, memory: str | None = None) -> str:
    """What a buffer is called, before a number makes it unique. Units share the `memory`; without one it is in registers."""
    if not isinstance(name, Derived):
        return name.lower()
    suffix = name.in_registers if memory is None else name.in_memory.format(memory.lower())
    return buffer_name(name.of, memory) + suffix


def buffer_owners(buffers: Iterable[str], tensors: Iterable[str]) -> Iterator[str]:
    """What people call the contents of buffers of these names: one of the tensors, or its totals; without one, the buffer."""
    known = {buffer_name(t).replace(".", "_"): t for t in sorted(tensors, reverse=True)}
    for buffer in buffers:
        base = max((x for x in known if buffer.startswith(x)), key=len, default=None)
        if base is None:
            yield buffer
            continue
        totals = any(x.in_registers in buffer[len(base) :] for x in (TileTotal, CarriedTotal, TermsOfState, EarlierTerms))
        yield f"totals of {known[base]}" if totals else known[base]
