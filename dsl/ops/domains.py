"""Domains: the part of its ranges on which a tensor has elements, and the terms of a reduction that count.

    s[i, t] where t <= i = q[i] * k[t]        s has elements where t <= i
    m[i] = max(t) s[i, t]             -->     m[i] = max(t where t <= i) s[i, t]         INHERITED
    Y[i, t] = s[i, t else 0]          -->     s[i, t] where t <= i, and 0 elsewhere      ELSE

INHERITED   a statement is defined where all that it reads has elements. Conditions on a reduced index restrict the terms of the
            reduction. Others restrict the elements of the result, which its readers inherit.
ELSE        an access with `else` has that value outside of the domain.
SKIPPED     in place of a term that does not count stands the neutral value of the reduction, whatever the term would be.
INSIDE      accesses are inside their tensors for all elements of the ranges, also outside of a domain.
TOTAL       an input or an output has all its elements, so domains are of intermediates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import UserError
from ..errors.op import BadDomain, MayLeaveTensor, UnboundIndex, UnknownName
from ..index.expr import Expr, Var
from ..index.prove import always, feasible
from ..source import Span
from ..syntax import DomainCondition, Name
from ..values import Masked, Value, neutral_value
from .declare_op import Domain, OpNames, comparison_conditions, require_positive_divisors
from .extract_reductions import SplitStatement
from .index_syntax import index_term, names_in, node_text
from .untyped_body import Bound, BoundIndex, Read, child_nodes

Conditions = tuple[Expr, ...]  # each is at least 0


def conditions_of(where: tuple[DomainCondition, ...], meanings: dict[str, Expr], names: OpNames) -> Conditions:
    """What a domain says. `meanings`: of sizes and of indices.

    Raises BadDomain, UnboundIndex, UnknownName, NotAffine and other errors of `index_term`.
    """
    out: list[Expr] = []
    for w in where:

        def unknown(n: Name, w: DomainCondition = w) -> UserError:
            if n.id in names.tensors:
                return UnknownName(
                    f"`{n.id}` is a tensor; the condition of a domain compares indices and sizes",
                    n.span,
                    help="a condition on values stands on the right: `where(x > 0, x, 0)`",
                )
            return UnboundIndex(f"no index or size `{n.id}` is bound in `{node_text(w)}`", n.span)

        left, right = (index_term(x, meanings, names.is_constant, unknown) for x in (w.left, w.right))
        for x in (w.left, w.right):
            require_positive_divisors(x, names)
        found = comparison_conditions(w.op, left, right)
        if found is None:
            raise BadDomain(
                f"`{node_text(w)}` leaves no single range of an index",
                w.span,
                help="the conditions of a domain are < <= > >= ==; commas stand between several",
            )
        if not (names_in(w.left) | names_in(w.right)) & meanings.keys() - names.sizes.keys():
            raise BadDomain(
                f"`{node_text(w)}` has no index",
                w.span,
                help="a condition on sizes stands in the `where` of the op, behind its tensors",
            )
        out += found
    return tuple(dict.fromkeys(out))


def no_terms(kind: str, span: Span | None) -> BadDomain:
    """Of argmax and argmin, which have no result without terms."""
    return BadDomain(
        f"`{kind}` has no domain: without terms it has no result",
        span,
        help=f"give other elements a value that is not chosen: `{kind}(t) where(t <= i, X[t], -inf)`",
    )


def check_some_elements(
    conds: Conditions, where: tuple[DomainCondition, ...], indices: Iterable[BoundIndex], names: OpNames
) -> None:
    """Raises BadDomain where no sizes leave the domain an element. Open parameters count with their defaults."""
    defaults = {var: default for var, default in names.params.values() if default is not None}
    ranges = [b.extent - 1 - b.var for b in indices if b.extent is not None]
    try:
        known = [names.expand(c).subs(defaults) for c in (*conds, *ranges, *(c for c, _ in names.conditions))]
    except ZeroDivisionError:
        return
    if where and not feasible(known):
        raise BadDomain(
            f"no element satisfies `{', '.join(map(node_text, where))}`",
            where[0].span,
            help="leave the statement out, or correct the conditions",
        )


def conditions_of_statement(p: SplitStatement, own: Conditions, names: OpNames, output: bool) -> tuple[Conditions, Conditions]:
    """INHERITED: the conditions of the terms of a statement's reduction, and those of its target's elements.

    own   the domain that the statement states

    Raises MayLeaveTensor where an output reads what may have no element (TOTAL).
    """
    reduced = {b.name for b in p.reduced}
    terms, elements = list(p.conds), list(own)
    ranges = [b.extent - 1 - b.var for b in (*p.free, *p.reduced) if b.extent is not None]
    known = [names.expand(e) for e in (*ranges, *p.conds, *own, *(c for c, _ in names.conditions))]
    for read in _reads(p.body):
        for c in inside_conditions(names.domains, read.tensor, read.subscripts):
            if not {v.name for v in c.variables()}.isdisjoint(reduced):
                terms.append(c)
            elif not always(names.expand(c), known):
                elements.append(c)
                if output:
                    text = f"{read.tensor}[{', '.join(map(str, read.subscripts))}]"
                    raise MayLeaveTensor(
                        f"`{text}` may be read outside of the domain of `{read.tensor}`, and `{p.target}` has all its elements",
                        read.span,
                        help="give a value, `else 0` after the last subscript",
                    )
    return tuple(dict.fromkeys(terms)), tuple(dict.fromkeys(elements))


def inside_conditions(domains: Mapping[str, Domain], tensor: str, subscripts: tuple[Expr, ...]) -> Conditions:
    """What holds where the tensor has the element; nothing where it has all."""
    if tensor not in domains:
        return ()
    indices, conds = domains[tensor]
    mapping: dict[Var, int | Expr] = {Var(i, 0, None): e for i, e in zip(indices, subscripts, strict=True)}
    return tuple(c.subs(mapping) for c in conds)


def _reads(b: Bound) -> list[Read]:
    """What is read without `else`."""
    mine = [b] if isinstance(b, Read) and b.otherwise is None else []
    return mine + [r for x in child_nodes(b) for r in _reads(x)]


def restricted(value: Value, kind: str, conds: Conditions) -> Value:
    """SKIPPED: the body of a reduction with the conditions of its terms."""
    return Masked(conds, value, neutral_value(kind, value.dtype), value.dtype, anywhere=True) if conds else value
