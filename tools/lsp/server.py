"""The language server: the results of `analysis` in the protocol's form, over standard input and output."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from ... import __version__, stdlib
from ...dsl import syntax
from ...dsl.errors import AndironError, UserError
from ...dsl.errors.warning import Caution
from ...dsl.text.format import format_source
from ..repl.completion import completions
from ..repl.session import Session
from ..repl.state import ScheduleDraft, declarations
from .analysis import Analysis
from .hover import hover
from .position import Positions
from .rename import RenameRefused, renamable_at, rename_edits

PAUSE = 0.15  # seconds without a key
TOKENS = ["function", "class", "variable", "parameter", "type", "namespace", "enumMember", "property", "keyword"]
_COLOUR = {
    "op": "function", "schedule": "function", "strategy": "function", "function": "function", "instr": "function",
    "device": "class", "tensor": "variable", "index": "parameter", "size": "parameter", "param": "parameter",
    "type": "type", "level": "enumMember", "memory": "property",
}  # fmt: skip
_SYMBOLS = {
    "op": lsp.SymbolKind.Function,
    "device": lsp.SymbolKind.Class,
    "schedule": lsp.SymbolKind.Method,
    "strategy": lsp.SymbolKind.Interface,
}

server = LanguageServer("andiron", __version__)
_known: dict[str, tuple[str, Analysis]] = {}
_good: dict[str, Analysis] = {}  # the newest that could be parsed, for completion while a line is half typed


class _Ending:
    """asked_for  whether the editor asked for a shutdown; `unasked`: it told the server to exit without that, which the
    protocol's exit code tells."""

    asked_for = unasked = False


ending = _Ending()


def analysis_of(uri: str) -> Analysis:
    """Of the text as the editor has it now."""
    text = server.workspace.get_text_document(uri).source
    held = _known.get(uri)
    if held is not None and held[0] == text:
        return held[1]
    path = path_of(uri)
    found = Analysis(_plain(text), path.name if path else uri, path.parent if path else None)
    _known[uri] = (text, found)
    if found.file is not None:
        _good[uri] = found
    return found


def path_of(uri: str) -> Path | None:
    parsed = urlparse(uri)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else None


def _plain(text: str) -> str:
    """With `\\n` as the only line break; as long as the editor's, so that places agree."""
    return text.replace("\r\n", " \n").replace("\r", "\n")


def _at(uri: str, position: lsp.Position) -> tuple[Analysis, Positions, int]:
    found = analysis_of(uri)
    positions = Positions(found.text)
    return found, positions, positions.offset(position)


@server.feature(lsp.SHUTDOWN)
def on_shutdown(_: None) -> None:
    ending.asked_for = True


@server.feature(lsp.EXIT)
def on_exit(_: None) -> None:
    ending.unasked = not ending.asked_for


# ---------------------------------------------------------------- mistakes


def diagnostic(error: UserError, positions: Positions, uri: str, own: str) -> lsp.Diagnostic:
    """One mistake at its place; one of an imported file at the first line."""
    here = error.span is not None and error.span.source.name == own
    where = positions.range(error.span.start, error.span.end) if here and error.span else positions.range(0, 0)
    related = [
        lsp.DiagnosticRelatedInformation(lsp.Location(uri, positions.range(x.span.start, x.span.end)), x.note)
        for x in error.labels
        if x.span.source.name == own
    ]
    message = error.message + (f"\nhelp: {error.help}" if error.help else "")
    warning = isinstance(error, Caution)
    severity = lsp.DiagnosticSeverity.Warning if warning else lsp.DiagnosticSeverity.Error
    return lsp.Diagnostic(where, message, severity, error.id, source="andiron", related_information=related)


def publish(uri: str) -> None:
    found = analysis_of(uri)
    positions = Positions(found.text)
    items = [diagnostic(e, positions, uri, found.name) for e in (*found.mistakes, *found.warnings)]
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, items))


@server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
def did_open(params: lsp.DidOpenTextDocumentParams) -> None:
    publish(params.text_document.uri)


@server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
async def did_change(params: lsp.DidChangeTextDocumentParams) -> None:
    """Compiles once nobody has typed for a moment, so that a burst of keys costs one compilation."""
    await asyncio.sleep(PAUSE)
    document = params.text_document
    if server.workspace.get_text_document(document.uri).version == document.version:
        publish(document.uri)


@server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
def did_save(params: lsp.DidSaveTextDocumentParams) -> None:
    _known.pop(params.text_document.uri, None)  # what it imports may have changed too
    publish(params.text_document.uri)


@server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
def did_close(params: lsp.DidCloseTextDocumentParams) -> None:
    uri = params.text_document.uri
    _known.pop(uri, None)
    _good.pop(uri, None)
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))


# ---------------------------------------------------------------- names


@server.feature(lsp.TEXT_DOCUMENT_HOVER)
def on_hover(params: lsp.HoverParams) -> lsp.Hover | None:
    found, _, at = _at(params.text_document.uri, params.position)
    text = hover(found, at)
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None


@server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
def on_definition(params: lsp.DefinitionParams) -> lsp.Location | None:
    uri = params.text_document.uri
    found, positions, at = _at(uri, params.position)
    name = found.name_at(at)
    if name is None:
        return None
    own = next((o for o in found.all_of(name) if o.declares), None)
    if own is not None:
        return lsp.Location(uri, positions.range(own.start, own.end))
    declared = found.module.declared.get((name.symbol.kind, name.symbol.name)) if found.module else None
    return _elsewhere(declared, path_of(uri)) if declared is not None else None


def _elsewhere(declared: syntax.Decl, here: Path | None) -> lsp.Location | None:
    """In a file of the author's, or of the library."""
    source = declared.span.source
    if source.name.startswith("std/"):
        path = Path(stdlib.__path__[0]) / source.name.removeprefix("std/")
    else:
        path = Path(source.name) if here is None else here.parent / source.name
    if not path.exists():
        return None
    positions = Positions(source.text)
    return lsp.Location(path.resolve().as_uri(), positions.range(declared.span.start, declared.span.end))


@server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
def on_references(params: lsp.ReferenceParams) -> list[lsp.Location]:
    uri = params.text_document.uri
    found, positions, at = _at(uri, params.position)
    name = found.name_at(at)
    return [lsp.Location(uri, positions.range(o.start, o.end)) for o in found.all_of(name)] if name else []


@server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
def on_prepare_rename(params: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder | None:
    found, positions, at = _at(params.text_document.uri, params.position)
    try:
        name = renamable_at(found, at)
    except RenameRefused:
        return None
    return lsp.PrepareRenamePlaceholder(positions.range(name.start, name.end), name.symbol.name)


@server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
def on_rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
    uri = params.text_document.uri
    found, positions, at = _at(uri, params.position)
    with _reasons():
        places = rename_edits(found, at, params.new_name)
        edits = [lsp.TextEdit(positions.range(o.start, o.end), params.new_name) for o in places]
        return lsp.WorkspaceEdit({uri: edits})


@contextmanager
def _reasons() -> Iterator[None]:
    """What is refused is an error of the protocol, whose message editors show."""
    try:
        yield
    except RenameRefused as refused:
        raise JsonRpcException(str(refused), lsp.LSPErrorCodes.RequestFailed) from None


@server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def on_symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    found = analysis_of(params.text_document.uri)
    positions = Positions(found.text)
    declarations = found.file.declarations if found.file else ()
    starts = [d.span.start for d in declarations] + [len(found.text)]
    out = []
    for d, start, end in zip(declarations, starts, starts[1:], strict=False):
        kind = type(d).__name__.removesuffix("Decl").lower()
        name = next((o for o in found.names if o.declares and start <= o.start < end and o.symbol.kind == kind), None)
        if name is None or kind not in _SYMBOLS:
            continue
        stop = start + len(found.text[start:end].rstrip())
        detail = f"for {d.op}" if isinstance(d, syntax.ScheduleDecl) else None
        out.append(
            lsp.DocumentSymbol(
                name.symbol.name, _SYMBOLS[kind], positions.range(start, stop), positions.range(name.start, name.end), detail
            )
        )
    return out


@server.feature(
    lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, lsp.SemanticTokensLegend(token_types=TOKENS, token_modifiers=["declaration"])
)
def on_tokens(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
    found = analysis_of(params.text_document.uri)
    positions = Positions(found.text)
    data: list[int] = []
    line = column = 0
    for o in sorted(found.names, key=lambda o: o.start):
        colour = _COLOUR.get(o.symbol.kind)
        if colour is None:
            continue
        where = positions.range(o.start, o.end)
        start = where.start
        data += [
            start.line - line,
            start.character - column if start.line == line else start.character,
            where.end.character - start.character,
            TOKENS.index(colour),
            int(o.declares),
        ]
        line, column = start.line, start.character
    return lsp.SemanticTokens(data)


# ---------------------------------------------------------------- writing


@server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[" ", ">", "."]))
def on_completion(params: lsp.CompletionParams) -> lsp.CompletionList:
    found, _, at = _at(params.text_document.uri, params.position)
    session, typed = _session(params.text_document.uri, found, at)
    try:
        words = completions(session, typed)
    except AndironError:
        words = []
    return lsp.CompletionList(False, [lsp.CompletionItem(w, kind=lsp.CompletionItemKind.Keyword) for w in words])


def _session(uri: str, found: Analysis, at: int) -> tuple[Session, str]:
    """A session that was told what stands above the cursor, and what is being typed."""
    before = found.text[:at]
    start = before.rfind("\n") + 1
    line = before[start:]
    session = Session(lambda _: None, base=found.base or ".")
    whole = (found.file is not None and found) or _good.get(uri)
    if whole and whole.file is not None:
        for kind, name, own, _ in declarations(whole.text):
            if kind != "schedule":
                session.now = session.now.with_declared(kind, name, own)
    head = next((h for h in reversed(before[:start].splitlines()) if h and not h[0].isspace() and not h.startswith("#")), "")
    if not line[:1].isspace() or not head.startswith("schedule"):
        return session, line if not line[:1].isspace() else f"{head}\n{line}"
    header = head.split("#")[0].rstrip().removesuffix(":")
    words = header.split()
    if len(words) >= 4:
        block = before[before.rfind(head) + len(head) : start].strip("\n")
        lines = [x.strip() for x in block.splitlines() if x.strip() and not x.strip().startswith("#")]
        device = words[words.index("on") + 1] if "on" in words[:-1] else None
        flat = tuple(x for x in lines if not x.endswith(":"))
        session.now = session.now.with_schedule(ScheduleDraft(words[1], words[3], device, header, flat))
        while session.now.draft and session.now.draft.lines:  # the longest part that makes sense
            try:
                session.kernel()
                break
            except UserError:
                draft = session.now.draft
                session.now = session.now.with_schedule(ScheduleDraft(draft.name, draft.op, device, header, draft.lines[:-1]))
    typed = line.lstrip()
    return session, typed if " " in typed else f"schedule s for x:\n{line}"


@server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
def on_formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
    found = analysis_of(params.text_document.uri)
    try:
        text = format_source(found.text, found.name)
    except UserError:
        return []
    return [] if text == found.text else [lsp.TextEdit(Positions(found.text).range(0, len(found.text)), text)]


# ---------------------------------------------------------------- what was filled in


@server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
def on_inlay_hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    found = analysis_of(params.text_document.uri)
    positions = Positions(found.text)
    hints = []
    for schedule in found.schedules:
        for filled in found.filled(schedule):
            where = positions.position(filled.at)
            if params.range.start.line <= where.line <= params.range.end.line:
                shown = "; ".join(filled.lines)
                tip = lsp.MarkupContent(lsp.MarkupKind.Markdown, "Filled in:\n```sched\n" + "\n".join(filled.lines) + "\n```")
                hints.append(lsp.InlayHint(where, f"+ {shown}", padding_left=True, tooltip=tip))
    return hints


@server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION)
def on_code_action(params: lsp.CodeActionParams) -> Sequence[lsp.CodeAction]:
    uri = params.text_document.uri
    found, positions, at = _at(uri, params.range.start)
    for schedule in found.schedules:
        start, end = found.extent(schedule)
        explicit = found.explicit(schedule)
        if start <= at <= end and explicit is not None and found.filled(schedule):
            edit = lsp.WorkspaceEdit({uri: [lsp.TextEdit(positions.range(start, end), explicit)]})
            title = f"Write down what the compiler filled in of `{schedule.name}`"
            return [lsp.CodeAction(title, lsp.CodeActionKind.RefactorRewrite, edit=edit)]
    return []


__all__ = ["ending", "server"]
