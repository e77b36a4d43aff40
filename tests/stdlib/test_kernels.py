"""Every op of the library runs natively, with nothing written in its schedule: right at odd sizes, at 1 and at 0.

Some are built with the flags that users have; with `FUZZ=N` all are.
"""

from __future__ import annotations

import pytest
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.compile import compile

from ..support.library.cases import check_right, into, library
from ..support.library.ops import OPS

pytestmark = pytest.mark.usefixtures("first_choices")


@pytest.mark.parametrize("name", OPS)
def test_right(name: str) -> None:
    check_right(bind_params(OPS[name]), into(compile(library(), op=name, target="cpu"), threads=2))
