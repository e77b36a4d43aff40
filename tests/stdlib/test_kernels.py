"""Every op of the library runs natively, with nothing written in its schedule: right at odd sizes, at 1 and at 0.

Every third one is built with the flags that users have, the others with -O1; with `FUZZ=N` all as users do.
"""

from __future__ import annotations

import pytest
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.compile import compile

from ..support.cpp.little_optimised import build_with_little_optimisation
from ..support.library.cases import check_right, into, library
from ..support.library.ops import OPS
from ..support.rotation import LONG

pytestmark = pytest.mark.usefixtures("first_choices")


@pytest.mark.parametrize("name", OPS)
def test_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if [*OPS].index(name) % 3 and not LONG:
        build_with_little_optimisation(monkeypatch)
    check_right(bind_params(OPS[name]), into(compile(library(), op=name, target="cpu"), threads=2))
