"""The commands of a session, besides declarations and lines: one function for each, whose docstring is its help."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import fill, indent
from typing import TYPE_CHECKING

from ...codegen.lower.schedule_trace import bytes_text, show_trace
from ...codegen.targets import FAMILIES, target_of
from ...dsl.errors import AndironError, UserError, did_you_mean
from ...dsl.errors.op import BadSize, UnknownSize
from ...dsl.errors.repl import NothingToDo, NotUnderstood
from ...dsl.errors.target import NoDevice, WrongSchedule
from ...dsl.ops.specialise import whole_number
from ...dsl.source import Source
from ...dsl.support.amounts import seconds_text
from ...dsl.text.format import format_source
from ...dsl.text.parser import parse
from ...runtime.devices import Lineages
from ...runtime.storage.files import read_text, write_text
from ..commands.run import measure, table
from ..size_arguments import assignments
from ..word_help import DECLARATIONS, STATEMENTS, device_word_help, names_of, statements_about
from .next_lines import complete_schedules, next_lines
from .state import SessionState, draft_of
from .view import draft_report, show_draft, show_step

if TYPE_CHECKING:
    from ...runtime.kernel import Kernel
    from .session import Session

Command = Callable[["Session", list[str]], None]


def command(session: Session, text: str) -> None:
    """Runs one command. Raises the diagnostics of what it was asked."""
    word, _, rest = text.partition(" ")
    if word == "try":
        return try_(session, [rest.strip()] if rest.strip() else [])
    try:
        arguments = shlex.split(rest)
    except ValueError as error:
        raise NotUnderstood(f"`{text}`: {error}".lower().replace("no ", "there is no "), help="close the quotation") from None
    allowed = _ARGUMENTS.get(word)
    if allowed is not None and (extra := [a for a in arguments if a not in allowed] or arguments[1:]):
        may = f"`{word}` or " + ", ".join(f"`{word} {a}`" for a in allowed) if allowed else f"`{word}` alone"
        raise NotUnderstood(f"`{word}` does not take `{extra[0]}`", help=f"say {may}")
    COMMANDS[word](session, arguments)


def undo(session: Session, _: list[str]) -> None:
    """undo: takes the last step back."""
    if not session.past:
        raise NothingToDo("there is nothing to undo")
    session.future.append(session.now)
    session.now = session.past.pop()
    show(session, [])


def redo(session: Session, _: list[str]) -> None:
    """redo: takes the step again that `undo` took back."""
    if not session.future:
        raise NothingToDo("there is nothing to redo")
    session.past.append(session.now)
    session.now = session.future.pop()
    show(session, [])


def show(session: Session, arguments: list[str]) -> None:
    """show [all]: the schedule in the making and the spec in focus; `all`: the whole text of the session."""
    if arguments == ["all"]:
        session.say(session.now.text.rstrip("\n") or "nothing is declared")
    elif session.now.draft is None:
        session.say("no schedule yet: " + (", ".join(n for _, n in session.now.declared) or "nothing is declared"))
    else:
        session.say(session.now.draft.text)
        session.say("\n".join(show_draft(session).splitlines()[1:]))


def try_(session: Session, arguments: list[str]) -> None:
    """try [LINE | LINE ...]: what each of these lines would give, best first; alone: what might come next."""
    state = session.now
    if state.draft is None:
        state = state.with_schedule(session._first_draft())
    assert state.draft is not None
    lines = [x for x in map(str.strip, arguments[0].split("|")) if x] if arguments else next_lines(session)
    if arguments and not lines:
        raise NotUnderstood("`try` wants lines, with `|` between them", help="as in `try tile m: 4 | tile m: 8`")
    if state.draft.complete:
        raise NothingToDo("nothing can follow `compute`", help="`undo` takes a line back; then `try` again")
    rows: list[tuple[float, float, str, str]] = []
    refused: list[str] = []
    for n, line in enumerate(lines, 1):
        session.progress(f"trying {n} of {len(lines)}: {line}")
        try:
            report = draft_report(session.kernel(replace(state, draft=state.draft + line)))
        except AndironError as error:  # a fault of ours in one of them is no reason not to show the others
            first = getattr(error, "errors", (error,))[0]
            refused.append(f"{line}: {getattr(first, 'message', first)}")
            continue
        time = report.seconds[report.bound] if report.bound else 0.0
        moved = float(sum(report.read.values()) + sum(report.written.values()))
        rows.append((time, moved, line, report.bound or ""))
    session.progress("")

    width = max((len(line) for _, _, line, _ in rows), default=0)
    for time, moved, line, bound in sorted(rows):
        session.say(f"    {line:<{width}}  at least {seconds_text(time):>8}  by {bound:<10}  {bytes_text(moved)} moved")
    if arguments:
        for text in refused:
            session.say(f"    {text}")
        return
    found = complete_schedules(session, state)
    if not rows and not found:
        session.say("    nothing to propose: `help` lists the statements")
    for n, p in enumerate(found, 1):
        if n == 1:
            session.say("    all that is left at once:")
        session.say(f"    {n}: predicted {seconds_text(p.seconds or 0.0):>8}  by {p.bound:<10}  {p.about}")


def tune(session: Session, arguments: list[str]) -> None:
    """tune [N]: measures N candidates (10) for what is open, and goes on with the fastest; `complete keep` takes its lines."""
    if len(arguments) > 1 or not all(a.isdigit() and int(a) for a in arguments):
        raise NotUnderstood("`tune` wants a number of candidates", help="as in `tune 5`")
    try:
        found = session.kernel().tune(top=int(arguments[0]) if arguments else 10, say=session.progress)
    finally:
        session.progress("")
    session.say(str(found))


def complete(session: Session, arguments: list[str]) -> None:
    """complete [keep]: the schedule with everything the compiler fills in; `keep` makes it the one in the making."""
    text = session.kernel().schedule
    if arguments == ["keep"]:
        draft = draft_of(text)
        if session.now.draft is not None:  # its own name and device, so that the step is seen as one
            draft = replace(draft, name=session.now.draft.name, header=session.now.draft.header)
        session.step(session.now.with_schedule(draft))
        show(session, [])
    else:
        session.say(text.rstrip("\n"))


def code(session: Session, arguments: list[str]) -> None:
    """code [TARGET]: the emitted text, for the target in use or another: `code cuda`, `code hip:gfx942`, `code cpp`."""
    if len(arguments) > 1:
        raise NotUnderstood("`code` wants one target, or none", help="as in `code cuda:sm_80`")
    if not arguments:
        session.say_code(session.kernel().source.rstrip("\n"))
        return
    family = next((f for f in FAMILIES.values() if arguments[0] in (f.name, f.dialect)), None)
    name = family.name if family is not None else arguments[0]
    try:
        kernel = _for_target(session, name)
    except NoDevice:  # its text can be had all the same
        assert family is not None
        name = f"{name}:{family.usual}"
        session.say(f"no GPU is at hand; this is for {name}")
        kernel = _for_target(session, name)
    session.say_code(kernel.source.rstrip("\n"))


def _for_target(session: Session, name: str) -> Kernel:
    """The schedule in the making for a target; where it is for another device, what the compiler would choose there."""
    try:
        return session.kernel(replace(session.now, target=name))
    except WrongSchedule:
        draft = session.now.draft
        if draft is None or draft.device is None:
            raise
        kernel = session.own(name, draft.op)
        session.say(f"`{draft.name}` is for {draft.device}; for {name} this is the compiler's own schedule")
        return kernel


def diff(session: Session, arguments: list[str]) -> None:
    """diff [code]: how the last step changed the completed schedule; `code`: how it changed the emitted text."""
    if not session.past or session.past[-1].draft is None:
        raise NothingToDo("no step to compare with")
    old, new = session.kernel(session.past[-1]), session.kernel()
    was, now = (old.source, new.source) if arguments == ["code"] else (old.schedule, new.schedule)
    lines = list(difflib.unified_diff(was.splitlines(), now.splitlines(), "before", "now", lineterm="", n=2))
    session.say("\n".join(lines) if lines else "no difference")


def run(session: Session, _: list[str]) -> None:
    """run: on random arrays, checked against the reference and timed."""
    session.say(table(measure(session.kernel())))


def explain(session: Session, _: list[str]) -> None:
    """explain: every line with the spec it leaves, footprints, bytes moved, predicted time."""
    kernel = session.kernel()
    session.say(show_trace(kernel.trace))
    session.say(str(draft_report(kernel)))


def size(session: Session, arguments: list[str]) -> None:
    """size NAME=N ...: fixes sizes, and values of parameters; `size` alone opens all again."""
    given = assignments(arguments, "size")
    known = session.names_of_sizes()
    for name, value in given.items():
        if name not in known:
            raise UnknownSize(
                f"nothing here has a size `{name}`", help=did_you_mean(name, sorted(known)) or "declare an op first"
            )
        whole_number(name, value)
        if value < 0 and known[name]:
            raise BadSize(f"a size is 0 or more, and not {value}", help=f"`{name} = {-value}`, say")
    values = {**session.now.values, **given} if given else {}
    after = replace(session.now, values=values)
    shown = "sizes: " + (", ".join(f"{n}={v}" for n, v in values.items()) or "open")
    if after.draft is not None:
        shown += "\n" + show_step(session, session.now, after)
    session.step(after)
    session.say(shown)


def target(session: Session, arguments: list[str]) -> None:
    """target [NAME]: what schedules are compiled for, as in `target cpu:avx2`, `target cuda:sm_80`."""
    if not arguments:
        session.say(session.target())
        return

    target_of(arguments[0], Lineages(session.module()))
    after = replace(session.now, target=arguments[0])
    shown = f"target: {arguments[0]}"
    if after.draft is not None:
        shown += "\n" + show_step(session, session.now, after)
    session.step(after)
    session.say(shown)


def use(session: Session, arguments: list[str]) -> None:
    """use NAME: goes on with another schedule of the session."""
    known = [n for kind, n in session.now.declared if kind == "schedule"]
    if len(arguments) != 1:
        others = ", ".join(f"`{n}`" for n in known)
        raise NotUnderstood("`use` wants the name of a schedule", help=f"there are {others}" if known else "there is no other")
    name = arguments[0]
    if name not in known:
        raise NothingToDo(f"no other schedule is called `{name}`", help=did_you_mean(name, known))
    session.step(session.now.with_schedule(draft_of(session.now.declared["schedule", name] + "\n")))
    show(session, [])


def save(session: Session, arguments: list[str]) -> None:
    """save FILE: writes everything declared, formatted."""
    if len(arguments) != 1:
        raise NotUnderstood("`save` wants the name of a file", help="as in `save gemm.sched`")
    write_text(arguments[0], format_source(session.now.text))
    session.say(f"wrote {arguments[0]}")


def load(session: Session, arguments: list[str]) -> None:
    """load FILE: reads declarations from a file; its last schedule is the one in the making."""
    if len(arguments) != 1:
        raise NotUnderstood("`load` wants the name of a file", help="as in `load gemm.sched`")
    text, alone = read_text(arguments[0]), not session.now.text
    parse(Source(arguments[0], text))  # its mistakes by its own name and lines
    base, session.base = session.base, Path(arguments[0]).resolve().parent
    try:
        session.declare(text, name=arguments[0] if alone else None)
    except BaseException:
        session.base = base
        raise


def help_(session: Session, arguments: list[str]) -> None:
    """help [TOPIC]: what can be said; about a command, a statement, a word of the device in use, or the id of an error."""
    if not arguments:
        said = dict.fromkeys(c.__doc__.splitlines()[0] for c in COMMANDS.values() if c.__doc__)
        words = ", ".join(dict.fromkeys([*DECLARATIONS, *(n for s in STATEMENTS for n in names_of(s))]))
        topics = fill(f"Topics: every command; {words}; levels, memories and instructions of the device; errors.", 118)
        session.say(_OVERVIEW + "\n".join(f"    {line}" for line in said) + f"\n\n{topics}")
        return
    topic = " ".join(arguments)
    texts = [c.__doc__ for name, c in COMMANDS.items() if name == topic and c.__doc__]
    texts += [DECLARATIONS[topic]] if topic in DECLARATIONS else []
    texts += [f"{s.form}\n\n{s.text.strip()}\n\n{indent(s.lines, '    ')}" for s in statements_about(topic)]
    texts += [f"error[{topic}]: {e.__doc__}" for e in _errors() if e.id == topic]
    device = session.device()
    if device is not None and (found := device_word_help(device, topic, session.module().devices)):
        texts.append(re.sub(r"^```\w*\n|\n```$", "", found))
    if not texts:
        known = {*COMMANDS, *DECLARATIONS, *(n for s in STATEMENTS for n in names_of(s)), *(e.id for e in _errors())}
        near = did_you_mean(topic, known) or ""
        raise NothingToDo(f"no help on `{topic}`", help=near if near.startswith("did you mean") else "`help` lists the topics")
    session.say("\n\n".join(texts))


def _errors() -> list[type[UserError]]:
    found, queue = [], [UserError]
    while queue:
        kind = queue.pop()
        found.append(kind)
        queue += kind.__subclasses__()
    return found


def reset(session: Session, _: list[str]) -> None:
    """reset: forgets everything (`undo` brings it back)."""
    session.step(SessionState(target=session.now.target))
    session.say("nothing is declared")


def quit_(session: Session, _: list[str]) -> None:
    """quit: leaves (so does Ctrl-D)."""
    session.over = True


COMMANDS: dict[str, Command] = {
    "show": show, "try": try_, "undo": undo, "redo": redo, "complete": complete, "code": code, "diff": diff, "run": run,
    "tune": tune, "explain": explain, "size": size, "target": target, "use": use, "save": save, "load": load, "reset": reset,
    "help": help_, "quit": quit_, "exit": quit_,
}  # fmt: skip

# What follows a command that takes only some words, or none.
_ARGUMENTS = {
    "show": ("all",), "complete": ("keep",), "diff": ("code",),
    "undo": (), "redo": (), "run": (), "explain": (), "reset": (), "quit": (), "exit": (),
}  # fmt: skip

_OVERVIEW = """Type declarations (op, device, schedule, strategy, import), and lines of a schedule, one at a time:
after each, the spec that is left is shown. Commands:

"""
