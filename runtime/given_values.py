"""Values of sizes and parameters, as they were given to `compile`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..dsl.errors import did_you_mean
from ..dsl.errors.op import UnknownSize
from ..dsl.errors.run import ArgumentCount
from ..dsl.op import Op
from ..dsl.support.expected import expect


def refuse_unknown(op: Op, values: Iterable[str], tunables: Iterable[str]) -> None:
    """Raises UnknownSize for the name of a value that is neither a size nor a parameter, of the op or of its schedules."""
    sizes, params = [v.name for v in op.dims], [name for name, _ in op.params]
    unknown = next((name for name in values if name not in (*sizes, *params)), None)
    if unknown is not None:
        way_out = did_you_mean(unknown, (*sizes, *params, *tunables))
        raise UnknownSize(f"`{unknown}` is no size and no parameter of op `{op.name}`", help=way_out)


def merge_values(named: Mapping[str, int], sizes: Mapping[str, int] | None, params: Mapping[str, int] | None) -> dict[str, int]:
    """Sizes and parameters by name, from the keywords and the mappings that gave them. Raises ArgumentKind, ArgumentCount."""
    given = dict(named)
    for which, more in (("sizes", sizes), ("params", params)):
        kinds, help = (Mapping, type(None)), f'a size or parameter of that name is `{which}={{"{which}": ...}}`'
        expect(which, more, kinds, "a mapping of names to integers", help)
        for name, value in (more or {}).items():
            expect(f"a name in {which}", name, str, "the name of a size or parameter")
            if name in given:
                raise ArgumentCount(f"`{name}` is given twice", help="by keyword, in `sizes` or in `params`: leave one out")
            given[name] = value
    return given
