"""One case for each mistake in an op: `op/<id>.sched` must be refused with exactly the text of `op/<id>.txt`.

`ANDIRON_UPDATE=1` rewrites the expected texts; read the difference.
"""

import inspect
import os
from pathlib import Path

import pytest
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.errors import op as mistakes
from andiron.dsl.ops.resolve_op import resolve_op
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse

CASES = sorted((Path(__file__).parent / "op").glob("*.sched"))
# Made at a call, not in the text of an op; tested in tests/dsl/ops and tests/dsl/semantics.
AT_A_CALL = {
    "missing-parameter",
    "unknown-size",
    "bad-size",
    "condition-failed",
    "size-overflow",
    "wrong-argument",
    "empty-argmax",
}
# The parser refuses these in a text; a tree built by hand meets them.
FROM_A_TREE = {"unknown-reduction"}


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.stem)
def test_message(case):
    with pytest.raises(UserError) as caught:
        resolve_op(parse(Source(case.name, case.read_text())).declarations[0])
    error = caught.value
    expected = case.with_suffix(".txt")
    if os.environ.get("ANDIRON_UPDATE"):
        expected.write_text(f"{error}\n")
    assert f"{error}\n" == expected.read_text()
    assert case.stem in [e.id for e in (error.errors if isinstance(error, UserErrors) else [error])]


def test_every_mistake_has_a_case():
    ids = {c.id for _, c in inspect.getmembers(mistakes, inspect.isclass) if c is not UserError}
    assert ids - AT_A_CALL - FROM_A_TREE == {c.stem for c in CASES}
