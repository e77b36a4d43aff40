"""Writes the pages of the docs that are made from the code: `python docs/generate.py`.

    schedule.md      from `codegen/schedule/statement_reference.py`, and the traces of its examples
    errors/*.md      from the error classes, and the cases of `tests/dsl/errors`
    api.md           from the signatures and docstrings of the names of `andiron`
    commands.md      from the parser of the command line
    architecture.md  the folders, from the docstrings of their packages, and the grammar of the tile program, from
                     `codegen/ir/tile_ir.py`, each between its marks
    passes.md        the table, from the list of passes in `codegen/pipeline.py`
    constants.md     from the numbers of the modules of `codegen` and `runtime/machine_code`, and the comments beside them
    pictures/*.svg   from the recipes of cookbook.md

Each is made by a file of `docs/generator`. `tests/docs/test_docs.py` holds that they are up to date.
"""

from __future__ import annotations

from collections.abc import Callable

from generator import api, architecture, commands, constants, errors, pictures, statements
from generator.page import DOCS


def pages() -> dict[str, Callable[[], str]]:
    """What makes every generated page and picture, by its name in this folder."""
    return {
        **pictures.pages(),
        "schedule.md": statements.schedule_page,
        **errors.pages(),
        "api.md": api.api_page,
        "commands.md": commands.commands_page,
        "architecture.md": architecture.architecture_page,
        "passes.md": architecture.passes_page,
        "constants.md": constants.constants_page,
    }


def main() -> None:
    for name, make in pages().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
