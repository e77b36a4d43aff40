"""`commands.md`: the help of every command."""

from __future__ import annotations

import argparse
import os

from andiron.tools import cli

from .page import MADE


def commands_page() -> str:
    os.environ["COLUMNS"] = "100"
    top = cli.parser()
    (commands,) = (a for a in top._actions if isinstance(a.choices, dict))
    out = [MADE + "# The command line", ""]
    intro = (
        "`andiron COMMAND --help` prints what stands here. Exit status: 0 on success (warnings are no failure), 1 if a file or"
    )
    out += [intro, "an argument is invalid, 2 for a usage error. `--json` prints the same for programs to read.", ""]
    for command in cli.COMMANDS:
        said = commands.choices[command.NAME].format_help()
        out += [f"## andiron {command.NAME}", "", "```text", said.rstrip("\n"), "```", ""]
        for actions in (
            a.choices for a in commands.choices[command.NAME]._actions if isinstance(a, argparse._SubParsersAction)
        ):
            for action in actions.values():
                out += ["```text", action.format_help().rstrip("\n"), "```", ""]
    return "\n".join(out).rstrip("\n") + "\n"
