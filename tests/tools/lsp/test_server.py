"""The language server, asked by a real client over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator

import andiron
import pytest

pytest.importorskip("pygls", reason="the language server needs pygls")
from andiron.codegen.ir.printer import show
from andiron.tools.lsp.analysis import Analysis
from andiron.tools.lsp.position import Positions
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import BaseLanguageClient

TEXT = """\
import std.ops.reduce

op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

strategy stage(T):
    move T -> l3

schedule fast for gemm on cpu:avx2:
    tile n: 4096
    tile k: 256
    apply stage(B)
    tile m: 72 -> core
    tile n: 16, m: 6
    keep C in register
    compute with fma_f32x8
"""
URI = "file:///nowhere/gemm.sched"


class Editor:
    """A client with one open text."""

    def __init__(self, client: BaseLanguageClient) -> None:
        self.client = client
        self.text = ""
        self.version = 0
        self.reports: list[lsp.PublishDiagnosticsParams] = []

    async def type(self, text: str) -> list[lsp.Diagnostic]:
        """Opens or replaces the text; what the server then reports."""
        self.text, self.version = text, self.version + 1
        self.reports.clear()
        if self.version == 1:
            item = lsp.TextDocumentItem(URI, "sched", 1, text)
            self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        else:
            change = lsp.TextDocumentContentChangeWholeDocument(text)
            document = lsp.VersionedTextDocumentIdentifier(self.version, URI)
            self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))
        return await self.reported()

    async def close(self) -> None:
        self.reports.clear()
        self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(self.document))
        assert await self.reported() == []

    async def reported(self) -> list[lsp.Diagnostic]:
        for _ in range(1200):
            if self.reports:
                return list(self.reports[-1].diagnostics)
            await asyncio.sleep(0.05)
        raise AssertionError("no report")

    @property
    def document(self) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(URI)

    def at(self, marked: str) -> lsp.Position:
        """Where `|` stands in a piece of the text."""
        before, after = marked.split("|")
        return Positions(self.text).position(self.text.index(before + after) + len(before))

    def shown(self, where: lsp.Range) -> str:
        positions = Positions(self.text)
        return self.text[positions.offset(where.start) : positions.offset(where.end)]

    def edited(self, edits) -> str:
        positions = Positions(self.text)
        text = self.text
        for e in sorted(edits, key=lambda e: -positions.offset(e.range.start)):
            text = text[: positions.offset(e.range.start)] + e.new_text + text[positions.offset(e.range.end) :]
        return text


class Server:
    """One for all tests here: to import what it needs takes longer than most of them. Each test opens the text anew."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = BaseLanguageClient("test", "1")
        self.editor = Editor(self.client)
        self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self.editor.reports.append(params))

    def run(self, work: Awaitable[None]) -> None:
        self.loop.run_until_complete(asyncio.wait_for(work, 240))

    async def start(self) -> None:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        await self.client.start_io(sys.executable, "-m", "andiron", "lsp", env=environment)
        await self.client.initialize_async(lsp.InitializeParams(lsp.ClientCapabilities(), root_uri="file:///nowhere"))
        self.client.initialized(lsp.InitializedParams())

    async def session(self, talk: Callable[[Editor], Awaitable[None]], text: str) -> None:
        self.editor = Editor(self.client)
        assert await self.editor.type(text) == []
        try:
            await talk(self.editor)
        finally:
            await self.editor.close()

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()


@pytest.fixture(scope="module")
def session() -> Iterator[Callable[..., None]]:
    server = Server()
    server.run(server.start())
    try:
        yield lambda talk, text=TEXT: server.run(server.session(talk, text))
    finally:
        server.run(server.stop())
        server.loop.close()


def test_diagnostics_as_one_types(session):
    async def talk(editor: Editor) -> None:
        found = await editor.type(TEXT.replace("-> core", "-> cor").replace("move T -> l3", "move T -> l9"))
        assert {d.code for d in found} == {"schedule-unknown-level", "schedule-unknown-memory"}
        (level,) = [d for d in found if d.code == "schedule-unknown-level"]
        assert editor.shown(level.range) == "cor"
        assert "did you mean `core`?" in level.message
        (syntax,) = await editor.type(TEXT.replace("sum(k)", "sum(k"))
        assert syntax.range.start.line == 3
        (far,) = await editor.type(
            TEXT.replace("K: ", "").replace("# ", "") + "\nop e[N](X: f32[N]) -> (Y: f32[N]):  # 😀😀\n    Y[i] = Z[i]\n"
        )
        assert editor.shown(far.range).startswith("Z")
        (newer,) = await editor.type("language 2\n\n" + TEXT.replace("sum(k)", "sum(k"))
        assert (newer.code, editor.shown(newer.range)) == ("newer-language", "language 2")
        assert await editor.type("language 1\n\n" + TEXT) == []
        assert await editor.type(TEXT) == []

    session(talk)


def test_warnings_are_shown_as_warnings(session):
    many = TEXT.replace("tile n: 16, m: 6", "tile n: 16, m: 12").replace("compute with fma_f32x8", "compute")

    async def talk(editor: Editor) -> None:
        for text in (many, "# a line more\n" + many):  # the second time nothing is compiled again
            (found,) = await editor.type(text)
            assert (found.code, found.severity) == ("too-many-registers", lsp.DiagnosticSeverity.Warning)
            assert editor.shown(found.range) == "keep C in register"
        assert await editor.type(TEXT) == []

    session(talk)


def test_names(session):
    async def talk(editor: Editor) -> None:
        place = lambda marked: {"text_document": editor.document, "position": editor.at(marked)}  # noqa: E731
        client = editor.client
        found = await client.text_document_definition_async(lsp.DefinitionParams(**place("for ge|mm on")))
        assert editor.shown(found.range) == "gemm"
        assert found.range.start.line == 2
        found = await client.text_document_definition_async(lsp.DefinitionParams(**place("apply st|age")))
        assert found.range.start.line == 5
        context = lsp.ReferenceContext(include_declaration=True)
        found = await client.text_document_references_async(lsp.ReferenceParams(context=context, **place("tile |k: 256")))
        assert [(x.range.start.line, editor.shown(x.range)) for x in found] == [(3, "k")] * 3 + [(10, "k")]
        edit = await client.text_document_rename_async(lsp.RenameParams(new_name="Left", **place("sum(k) |A[m")))
        renamed = editor.edited(edit.changes[URI])
        assert renamed == TEXT.replace("A: f32", "Left: f32").replace("A[m", "Left[m")
        andiron.loads(renamed)
        assert await client.text_document_prepare_rename_async(lsp.PrepareRenameParams(**place("-> co|re"))) is None
        where = await client.text_document_prepare_rename_async(lsp.PrepareRenameParams(**place("keep |C in")))
        assert (editor.shown(where.range), where.placeholder) == ("C", "C")
        with pytest.raises(JsonRpcException, match="`B` is already a tensor of `gemm`"):
            await client.text_document_rename_async(lsp.RenameParams(new_name="B", **place("sum(k) |A[m")))
        symbols = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(editor.document))
        assert [(s.name, s.detail) for s in symbols] == [("gemm", None), ("stage", None), ("fast", "for gemm")]
        assert editor.shown(symbols[0].range).endswith("B[k, n]")

    session(talk)


def test_definitions_in_the_library(session):
    async def talk(editor: Editor) -> None:
        await editor.type(TEXT + "\nschedule rows for row_sum:\n    auto\n")
        where = lsp.DefinitionParams(editor.document, editor.at("for row_|sum"))
        found = await editor.client.text_document_definition_async(where)
        assert found.uri.endswith("stdlib/ops/reduce.sched")

    session(talk)


def test_hover(session):
    async def talk(editor: Editor) -> None:
        async def said(marked: str) -> str:
            found = await editor.client.text_document_hover_async(lsp.HoverParams(editor.document, editor.at(marked)))
            return found.contents.value if found else ""

        assert "C[72, 4096] += A[72, 256] * B[256, 4096]  @core" in await said("tile m|: 72")
        assert "Cuts the spec" in await said("ti|le m: 72")
        assert "l3" in await said("ti|le m: 72")
        assert "output `C: f32[M, N]`" in await said("keep |C in")
        assert "instr fma_f32x8" in await said("with fma|_f32x8")
        assert "level core: finite" in await said("-> co|re")  # of a device that this one extends
        assert "socket > core > lane" in await said("on cpu|:avx2")
        assert "C[m, n] = sum(k)" in await said("for ge|mm on")
        assert await said("    |C[m, n]") != ""

    session(talk)


def test_completion(session):
    async def talk(editor: Editor) -> None:
        async def words(line: str) -> list[str]:
            text = TEXT.rsplit("    compute", 1)[0] + line
            await editor.type(text + "\n")
            where = Positions(text + "\n").position(len(text))
            found = await editor.client.text_document_completion_async(lsp.CompletionParams(editor.document, where))
            return [item.label for item in found.items]

        assert await words("    ti") == ["tile"]
        assert await words("    tile k: 1 -> ") == ["lane"]
        assert await words("    compute with fma_f3") == ["fma_f32x8"]
        assert await words("    move A -> l") == ["l1", "l2", "l3"]
        assert await words("sche") == ["schedule"]
        assert await words("lang") == ["language"]
        assert await words("language ") == ["1"]
        assert "k" in await words("    tile ")

    session(talk)


def test_formatting(session):
    async def talk(editor: Editor) -> None:
        await editor.type(TEXT.replace("tile m: 72 -> core", "tile   m:72->core"))
        options = lsp.FormattingOptions(tab_size=4, insert_spaces=True)
        edits = await editor.client.text_document_formatting_async(lsp.DocumentFormattingParams(editor.document, options))
        assert editor.edited(edits) == TEXT
        await editor.type("language  1\n\n" + TEXT)
        edits = await editor.client.text_document_formatting_async(lsp.DocumentFormattingParams(editor.document, options))
        assert editor.edited(edits) == "language 1\n\n" + TEXT
        await editor.type(TEXT.replace("sum(k)", "sum(k"))
        assert not await editor.client.text_document_formatting_async(lsp.DocumentFormattingParams(editor.document, options))

    session(talk)


def test_what_was_filled_in(session):
    async def talk(editor: Editor) -> None:
        whole = Positions(editor.text).range(0, len(editor.text))
        hints = await editor.client.text_document_inlay_hint_async(lsp.InlayHintParams(editor.document, whole))
        assert hints
        assert any("tile k: 1" in h.label for h in hints)
        context = lsp.CodeActionContext(diagnostics=[])
        here = lsp.Range(editor.at("tile n: 40|96"), editor.at("tile n: 40|96"))
        (action,) = await editor.client.text_document_code_action_async(lsp.CodeActionParams(editor.document, here, context))
        text = editor.edited(action.edit.changes[URI])
        assert text.startswith(TEXT.split("schedule fast")[0])
        assert "tile k: 1" in text
        before = andiron.compile(andiron.loads(TEXT), "gemm", "fast", "cpu:avx2")
        assert show(andiron.compile(andiron.loads(text), "gemm", "fast", "cpu:avx2").program) == show(before.program)
        assert await editor.type(text) == []
        assert not await editor.client.text_document_inlay_hint_async(lsp.InlayHintParams(editor.document, whole))

    session(talk)


def test_colours_by_meaning(session):
    async def talk(editor: Editor) -> None:
        found = await editor.client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(editor.document))
        from andiron.tools.lsp.server import TOKENS

        line = column = 0
        seen = []
        for i in range(0, len(found.data), 5):
            down, right, length, kind, declares = found.data[i : i + 5]
            line, column = line + down, right if down else column + right
            seen.append((editor.text.splitlines()[line][column : column + length], TOKENS[kind], declares))
        assert ("gemm", "function", 1) in seen
        assert ("gemm", "function", 0) in seen
        assert ("A", "variable", 1) in seen
        assert ("m", "parameter", 0) in seen
        assert ("core", "enumMember", 0) in seen
        assert ("l3", "property", 0) in seen

    session(talk)


def test_positions_count_utf16():
    text = "a😀b\r\nc\n"
    positions = Positions(text)
    assert positions.position(text.index("b")) == lsp.Position(0, 3)
    assert positions.offset(lsp.Position(0, 3)) == text.index("b")
    assert positions.offset(lsp.Position(1, 0)) == text.index("c")
    assert positions.offset(lsp.Position(9, 9)) == len(text)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] != "\r\n":
            assert positions.offset(positions.position(offset)) == offset


GPU = """\
op hgemm[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])

schedule ampere for hgemm on sm_80:
    tile m: 128, n: 128 -> block
    keep C in register
    tile k: 32 pipeline 3
    move A -> shared swizzle
    move B -> shared swizzle
    auto

schedule cdna for hgemm on gfx90a:
    auto
"""


def test_what_was_filled_in_for_gpus(session):
    async def talk(editor: Editor) -> None:
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(99, 0))
        hints = await editor.client.text_document_inlay_hint_async(lsp.InlayHintParams(editor.document, whole))
        shown = {hint.position.line: str(hint.label) for hint in hints or ()}
        assert "compute with mma_m16n8k16_f16" in shown[9]
        assert "-> wave" in shown[12]
        assert "mfma" in shown[12]
        await editor.type(GPU.replace("    move B -> shared swizzle", "    move B -> shared swizzle with "))
        for marked, wanted, others in (("B -> shared swizzle with |", "cp_async", "mma"), ("A -> |shared", "shared", "l1")):
            asked = lsp.CompletionParams(editor.document, editor.at(marked))
            found = await editor.client.text_document_completion_async(asked)
            labels = [item.label for item in found.items]  # pyright: ignore
            assert wanted in labels
            assert others not in labels

    session(talk, GPU)


def test_schedules_that_did_not_change_are_not_compiled_again():
    def kernels(text: str):
        analysis = Analysis(text, "gemm.sched")
        assert analysis.mistakes == []
        return [analysis.kernel(s) for s in analysis.schedules]

    ampere, cdna = kernels(GPU)
    moved = kernels("# above\n" + GPU.replace("pipeline 3", "pipeline 2"))
    assert moved[0] is not ampere
    assert moved[1] is cdna
    assert kernels(GPU.replace("* f32(B[k, n])", "* f32(B[k, n]) * 2.0"))[1] is not cdna
