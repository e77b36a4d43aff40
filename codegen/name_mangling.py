"""Names of the emitted text: the users' names, made legal and unique.

NO_COLLISION: a user's name never equals a keyword, a type, a function of the prelude or a name of the compiler; such names get
a trailing underscore. Prelude names are therefore all listed here, or contain a double underscore, which users' names cannot.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

_RESERVED = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires restrict return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while
    xor xor_eq int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t NULL f64 f32 tf32 bf16 f16
    f8e4m3 f8e5m2 i64 i32 i16 i8 u8 i4 main args dims threads cores core member space load store splat gather bits number
    floordiv floormod imin imax fma memcpy memset malloc free calloc realloc abort exit printf errno INFINITY NAN EOF
    linux unix WNOHANG WUNTRACED WSTOPPED WEXITED WCONTINUED WNOWAIT MINSIGSTKSZ NSIG NGREG NFDBITS CSIGNAL
    sa_handler sa_sigaction sched_priority Args Team team call flt odd blockIdx threadIdx blockDim gridDim warpSize half
    """.split()  # noqa: SIM905
)
_OURS = re.compile(
    r"""(?:(?:[fiub]|bf|tf)(?:8|16|32|64) (?:x\d+)? (?:_u)?   # types
        | m_\w+ | t\d+ | \w*_from_\w+ | pthread\w*
        | (?:load|splat|gather|scatter|store|first|atomic|launch|team|space)_\w+
        | [A-Z]+[A-Z0-9]*_[A-Z0-9_]+ | SIG(?!MA)\w+ | si_\w+ | sigev_\w+   # macros of C headers
        | \w*__\w* | _.* | .*_t)$""",
    re.VERBOSE,
)


@lru_cache(maxsize=1 << 12)
def mangle(name: str) -> str:
    """`name` as an identifier that collides with nothing of ours."""
    text = re.sub(r"\W", "_", name)
    text = re.sub(r"__+", "_", text)
    if not text.isascii():
        text = "".join(c if c.isascii() else f"u{ord(c):x}" for c in text)
    if text[:1].isdigit() or not text:
        text = "n" + text
    return text + "_" if text in _RESERVED or _OURS.match(text) else text


def stem(name: str) -> str:
    """The name without its number: names of one stem are wished for the same thing."""
    return name.rstrip("_0123456789")


class NameSupply:
    """Hands out identifiers that differ from all handed out before."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def fresh(self, wish: str, besides: Collection[str] = ()) -> str:
        """`besides`: others that it must differ from."""
        base = mangle(wish)
        stem = f"{base}_" if base[-1:].isdigit() else base
        name, n = base, 2
        while name in self._taken or name in besides:
            name = f"{stem}{n}"
            n += 1
        self._taken.add(name)
        return name

    def release(self, names: list[str]) -> None:
        """Their scope has ended: they may be handed out again."""
        self._taken.difference_update(names)
