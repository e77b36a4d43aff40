"""How much work a call is, the same on a busy machine as on an idle one."""

import sys
from collections.abc import Callable


def calls(function: Callable[[], object]) -> int:
    """Calls of functions, Python's and C's, while `function` runs."""
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count
