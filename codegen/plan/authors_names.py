"""Names in messages, as the author's lines have them.

AUTHORS_NAMES   a reduction without a name of its own has that of its statement: `o.sum1` is the first sum in the statement of
                `o`. Where it is stored as `o`, lines may call it `o` too. So do messages, unless a line says `o.sum1`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from ...dsl.errors import UserError
from ...dsl.support.fast_replace import replace
from .computations import Computation


def in_authors_names(error: UserError, computations: Iterable[Computation], written: Collection[str]) -> None:
    """Changes the texts of the error. `written`: the tensors that lines of the author name."""
    shorter = {w.result: whole for w in computations if (whole := w.result.partition(".")[0]) in w.targets}
    for name in shorter.keys() - {*written, *shorter.values()}:
        whole, word = shorter[name], re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\w)")
        error.message, error.note = word.sub(whole, error.message), word.sub(whole, error.note)
        error.help = word.sub(whole, error.help) if error.help else None
        error.labels = tuple(replace(x, note=word.sub(whole, x.note)) for x in error.labels)
