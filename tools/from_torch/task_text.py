"""A file of tuning tasks as text, for `andiron tune --tasks`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .collect import GraphTasks


def task_text(found: GraphTasks, name: str, defaults: Mapping[str, Any]) -> str:
    """The text of the file.

    name      of the model, as it was given
    defaults  what tasks do not say themselves: `target`, `top` and so on, without those that are None
    """
    lines = [
        f"# {name}: {summary(found)}",
        "# A weight is a number of calls. The operators that a task computes stand behind it.",
        "",
    ]
    lines += ["[defaults]", *(f"{key} = {_value(v)}" for key, v in defaults.items() if v is not None)]
    for task in found.tasks:
        sizes = ", ".join(f"{n} = {v}" for n, v in task.sizes.items())
        lines += [
            "",
            "[[task]]",
            f'op = "{task.op}"  # {", ".join(task.targets)}',
            f"sizes = {{ {sizes} }}",
            f"weight = {task.calls}",
        ]
    if found.rest:
        lines += ["", "# Not served:", *(f"# {line}" for line in unserved_lines(found))]
    return "\n".join(lines) + "\n"


def summary(found: GraphTasks) -> str:
    nodes = found.served + found.partly + found.unserved
    partly = f", {found.partly} in part" if found.partly else ""
    return f"{found.served} of {nodes} nodes served{partly}; {len(found.tasks)} tasks; {found.free} nodes move nothing"


def unserved_lines(found: GraphTasks) -> list[str]:
    lines = []
    for u in found.rest:
        part = f" (part of {u.part_of})" if u.part_of else ""
        lines.append(f"{u.calls} x {u.text}{part}: {u.reason}".replace("\n", " "))
    return lines


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
