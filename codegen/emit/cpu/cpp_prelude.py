"""The helper functions of a C++ text: only those it calls, each only for the types it calls it with.

Templates have one macro for each helper, written once for scalars and vectors of any width: SAME_BITS. The names in a macro's
text tell which other helpers it needs (`_uses`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from ....dsl.errors import InternalError
from ...ir.program import Program
from ..c.c_expr import ELEMENTS, Helper
from ..c.c_tree import words
from ..c.device_functions import DeviceFunction, device_functions
from ..c.templates import environment
from .steps_of_vectors import step_by_step

_SPELLING = "spelling.j2"  # of a dialect other than C++; what it says goes before what it shares
_MODULES = ("vectors.j2", "arithmetic.j2", "convert.j2", "math.j2")
_FUNCTIONS = frozenset(("fma", "bits", "flt", "f32_to_tf32", "floordiv", "floormod", "imin", "imax"))
_LOADS = [f"{how}{lanes}" for how in ("load", "load_even", "gather") for lanes in ("", "_part", "_between", "_where")]
_ON_VECTORS = frozenset((*_LOADS, "splat", "first_lanes", "lanes_between"))
# bits: of an element type in the names of vector types [fact: the language]
_BITS = {"f64": 64, "f32": 32, "i64": 64, "u64": 64, "i32": 32, "i16": 16, "i8": 8, "u8": 8, "u16": 16, "tf32": 32}
_FLOATS = ("f32", "f64")
_DEVICE = "m_device_"  # begins the names of functions that are the device's own
_STORED = {"f16": "u16", "bf16": "u16", "f8e4m3": "u8", "f8e5m2": "u8", "tf32": "f32", "bool": "u8", "i4": "i8"}


@dataclass(frozen=True)
class MacroTypes:
    """The variables of a macro: `e` the element, `w` lanes, `t` the C type of values, `i` and `u` the integers of that size.

    `own`: the functions of one such value of which the device has a text.
    """

    e: str
    w: int
    dialect: str = "cpp"
    own: frozenset[str] = frozenset()

    @property
    def library(self) -> str:
        """How functions begin that call the library of the language."""
        return "static" if self.dialect == "cpp" else "m_inline"

    def libm(self, name: str) -> str:
        """The function of the language's library, under its name here."""
        macro = _macro("m_libm", self.dialect)
        assert macro is not None
        return str(macro(self, name))

    def of(self, element: str) -> str:
        return f"{element}x{self.w}" if self.w > 1 else ELEMENTS[element]

    @property
    def vector(self) -> bool:
        return self.w > 1

    @property
    def bits(self) -> int:
        return _BITS.get(self.e, 32)

    @property
    def t(self) -> str:
        return self.of(_STORED.get(self.e, self.e))

    @property
    def register(self) -> str:
        """The C type of one value in a register: as in memory, but for truth values."""
        return "bool" if self.e == "bool" else self.scalar

    @property
    def scalar(self) -> str:
        return ELEMENTS[_STORED.get(self.e, self.e)]

    @property
    def i(self) -> str:
        return self.of(f"i{self.bits}")

    @property
    def u(self) -> str:
        return self.of(f"u{self.bits}")

    @property
    def mask(self) -> str:
        """The type of a comparison's result."""
        return self.i if self.vector else "bool"

    def k(self, text: str, element: str = "") -> str:
        """A constant in all lanes."""
        element = element or self.e
        return f"splat_{element}x{self.w}({text})" if self.vector else text

    def convert(self, text: str, element: str) -> str:
        return f"__builtin_convertvector({text}, {element}x{self.w})" if self.vector else f"({ELEMENTS[element]})({text})"

    @staticmethod
    def top(name: str) -> str:
        """The largest integer of a type."""
        bits, signed = int(name[1:]), name[0] == "i"
        return "INT64_MAX" if bits == 64 else str((1 << (bits - signed)) - 1)

    @staticmethod
    def bottom(name: str) -> str:
        """The smallest."""
        bits, signed = int(name[1:]), name[0] == "i"
        return f"INT{bits}_MIN" if bits >= 32 else str(-(1 << (bits - 1)) if signed else 0)

    @property
    def head(self) -> str:
        return "m_inline"


@cache
def _module(name: str, dialect: str) -> object:
    return environment(dialect).get_template(name).module


def _macro(name: str, dialect: str) -> Callable[..., str] | None:
    """From the first template that has it: the later ones take long to read, and few kernels need them."""
    modules = _MODULES if dialect == "cpp" else (_SPELLING, *_MODULES)
    return next((m for file in modules if (m := getattr(_module(file, dialect), name, None)) is not None), None)


@cache
def _function(need: Helper, dialect: str, own: tuple[DeviceFunction, ...]) -> str:
    name = need.name
    function, together, count = name.partition("_of_")
    if together:
        return step_by_step(_function(need._replace(name=function), dialect, own), int(count))
    if name.partition("_from_")[0][0] in "iu" and name.endswith(("_from_f32", "_from_f64")):
        name = name.rpartition("_")[0] + "_float"
    names = frozenset(f.name for f in own) if need.type == "f32" and need.lanes == 1 else frozenset()
    types = MacroTypes(need.type, need.lanes, dialect, names)
    if name.startswith(_DEVICE) and (device := _macro("m_device", dialect)) is not None:
        return str(device(types, next(f for f in own if f.name == name.removeprefix(_DEVICE)))).strip("\n")
    exact = next((f for f in own if f.ulps is None and f.name == name and need.type == (f.converts or "f32")), None)
    if exact is not None and need.lanes == 1 and (device := _macro("m_device_exact", dialect)) is not None:
        return str(device(types, exact)).strip("\n")
    macro = _macro(name, dialect)
    if macro is None and need.name.startswith("m_"):
        return types.libm(need.name[2:]).strip("\n")
    if macro is None:
        raise InternalError(f"the {dialect} prelude has no {need.name}")
    return str(macro(types)).strip("\n")


def has_helper(name: str, dialect: str) -> bool:
    return _macro(name, dialect) is not None


def _uses(need: Helper, text: str) -> list[Helper]:
    """Other helpers named in a helper's text: vector types, and functions of the same type."""
    if need.name in ("unroll", "outlined"):
        return []
    found = words(text)
    out = [helper for word, _ in found if (helper := _on_vectors(word)) is not None]
    for name in [word for word, after in found if after == "(" and _is_helper(word)]:
        if name == f"m_{need.name}_{need.type}":  # what it defines itself
            continue
        if name == need.name:
            if need.lanes > 1 and "[l]" in text:
                out.append(need._replace(lanes=1))  # lane by lane
        else:
            out.append(Helper(name, _works_on(name, need), need.lanes))
    return [n for n in out if n != need]


def _on_vectors(word: str) -> Helper | None:
    """The helper that `load_part_f32x8` or a vector type such as `f32x8_u` names; None for other words."""
    front, _, lanes = word.removesuffix("_u").rpartition("x")
    function, _, element = front.rpartition("_")
    if not lanes.isdigit() or element[:1] not in ("f", "i", "u") or not element[1:].isdigit():
        return None
    return Helper(function or "vector", element, int(lanes)) if not function or function in _ON_VECTORS else None


def _is_helper(word: str) -> bool:
    return word in _FUNCTIONS or word.startswith("m_") or "_from_" in word.strip("_")


def _works_on(name: str, caller: Helper) -> str:
    """The element type a helper is made for, when `caller` calls it."""
    if name in ("floordiv", "floormod", "imin", "imax"):
        return ""
    if "_from_" in name:
        target, _, source = name.partition("_from_")
        return source if target[0] in "iu" or target in ("f32", "f32_odd") else target
    if caller.name.startswith(_DEVICE):  # an emulated one is exact before it errs
        return "f64"
    narrow = caller.type not in ("f32", "f64", "i32", "i64") or caller.name.startswith("f32_odd_")
    return "f32" if narrow else caller.type


def prelude(needs: Iterable[Helper], program: Program | None, instrs: str, dialect: str = "cpp") -> str:
    """The text of all helpers in `needs` and of those that they and the instructions need, callees first.

    program  whose device may have functions of its own; None: the generic ones
    """
    done: dict[Helper, str] = {}
    under_way: set[Helper] = set()
    own = device_functions(program.device, dialect) if program is not None else ()

    def visit(need: Helper) -> None:
        if need in done or need in under_way:
            return
        under_way.add(need)
        text = _function(need, dialect, own)
        for other in _uses(need, text):
            visit(other)
        done[need] = text

    wanted = list(needs)
    for need in wanted:
        visit(need)
    said = set(words(instrs))
    if ("fma", "(") in said:
        types = {h for word, _ in said if (h := _on_vectors(word)) is not None and h.name == "vector" and h.type in _FLOATS}
        for element, lanes in sorted({(h.type, h.lanes) for h in types}):
            visit(Helper("fma", element, lanes))
            if (ELEMENTS[element], " ") in said:
                visit(Helper("fma_scalar", element, lanes))
        if not types:
            for element in _FLOATS:
                if any(word == ELEMENTS[element] for word, _ in said):
                    visit(Helper("fma", element))
    return "\n".join(f"{text}\n" for need, text in done.items() if text) if done else ""
