"""The result of `andiron db train` for people: the figures of each model beside the closed form's."""

from __future__ import annotations

from ...dsl.support.amounts import counted
from ...runtime.tuning.learn.model_store import LearnedModel
from ...runtime.tuning.learn.train_database import Training

_MOST = 8  # features that are named


def training_report(found: Training) -> str:
    """A paragraph for each kind of machine, and what was left out."""
    rest = [f"left out: {counted(n, 'row')}: {reason}" for reason, n in found.left_out.items()]
    rest += [f"no model: {reason}" for reason in found.too_few]
    return "\n\n".join([*(_model(m) for m in found.models), *(["\n".join(rest)] if rest else [])])


def _model(m: LearnedModel) -> str:
    lines = [
        f"{m.target} on {m.fingerprint}",
        f"{counted(m.rows, 'schedule')} of {counted(m.tasks, 'task')}, {counted(m.ops, 'op')}",
        "",
        f"{'on ops not seen':<16}{'closed form':>20}{'learned':>20}   mean (median)",
    ]
    for name in m.closed.mean:
        closed, learned = (_pair(name, x.mean[name], x.median[name]) for x in (m.closed, m.learned))
        lines.append(f"{name:<16}{closed:>20}{learned:>20}")
    named = [f"{name} {share:.0%}" for name, share in list(m.importances.items())[:_MOST]]
    used = f"not used: {m.refusal}" if m.refusal else "used: `andiron tune` with this database orders candidates by it"
    return "\n".join([*lines, "", f"most depends on: {', '.join(named)}", used])


def _pair(name: str, mean: float, median: float) -> str:
    if name == "tau":
        return f"{mean:.2f} ({median:.2f})"
    return f"{100 * mean:.1f} % ({100 * median:.1f} %)"
