"""The range of an index, from the axes it subscripts.

RANGE_FROM_AXES: an index subscripting an axis plainly (`X[i]`) runs over that axis; the axis of a declared output and an
extent written in a reduction count as well. All of them must agree. Reads with `else` may be left, so they decide only
where nothing else does.
"""

from __future__ import annotations

from .bound import Binder
from .declare_op import Names
from .errors import Diagnostics, Label
from .errors.op import AmbiguousRange, InconsistentRange


def infer_range(b: Binder, names: Names, diagnostics: Diagnostics, where: str) -> bool:
    """Sets `b.extent`; False, with a diagnostic, where there is no range or more than one. Extent unknown after a mistake."""
    uses = b.firm or b.loose
    known = [(e, what, span) for e, what, span in uses if e is not None]
    if not uses:
        kind = "reduced index" if b.reduced else "index"
        help = f"state it: `({b.name}: EXTENT)`" if b.reduced else "use it as a whole subscript of some tensor"
        diagnostics.add(
            AmbiguousRange(
                f"the range of {kind} `{b.name}` is not known: it is no plain subscript of `{where}`", b.span, help=help
            )
        )
        return False
    if len(known) < len(uses) and not known:
        return False  # a mistake in the tensor's definition has been reported
    first, what, span = known[0]
    b.extent = first
    for other, what2, span2 in known[1:]:
        if other == first or names.expand(other) == names.expand(first):
            continue
        labels = [Label(span, f"{first} here")] if span is not None and span != span2 else []
        diagnostics.add(
            InconsistentRange(
                f"index `{b.name}` runs over {first} ({what}) and over {other} ({what2})",
                span2,
                note=f"{other} here",
                labels=labels,
                help=f"write the same size in both declarations, or read with `else` where `{b.name}` may leave",
            )
        )
        return False
    return True
