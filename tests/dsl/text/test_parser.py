"""The parser builds the nodes of `dsl/syntax.py` from every form that the design shows."""

import subprocess
import sys
from pathlib import Path

import pytest
from andiron.dsl import syntax as s
from andiron.dsl.errors import UserError
from andiron.dsl.text.parser import parse_text

from ...support.count_calls import calls

HERE = Path(__file__).parent

LINEAR = """
op linear[M, N, K](X: f16[M, K], W: f16[N, K], b: f32[N]) -> (Y: f16[M, N]):
    H[m, n] = sum(k) f32(X[m, k]) * f32(W[n, k])
    Y[m, n] = gelu(H[m, n] + b[n])
"""
CONV = """
op conv2d[N, C, H, W, O, R, S](I: f32[N, C, H, W], F: f32[O, C, R, S], stride: int = 1, pad: int = 0)
        -> (Y: f32[N, O, P, Q])
        where P = (H + 2*pad - R) / stride + 1, Q = (W + 2*pad - S) / stride + 1:
    Y[n, o, p, q] = sum(c, r, s) I[n, c, p*stride + r - pad, q*stride + s - pad else 0] * F[o, c, r, s]
"""
DEVICE = '''
device cpu:avx2 extends cpu:base:
    level core: finite 2, siblings barrier
    memory l3 of socket: 32 MiB, in dram
    memory shared of block: 163 KiB, banks 32 x 4 B, 19.4 TB/s, reserve 1 KiB
    units 108, clock 1.41 GHz, f32 180 GFLOP/s per unit
    instr mma on warp in mma_family:
        op (A: f16[16, 16], B: f16[16, 8], C: f32[16, 8]):
            C[m, n] += sum(k) f32(A[m, k]) * f32(B[k, n])
        A in register at (lane, r): m = lane/4 + 8*(r/2 % 2), k = 2*(lane % 4)
        B in register at ():
        emit cuda: "one \\"line\\""
        emit hip: """
            asm volatile("x\\n");
              indented
            """
        cost 8 cycles per unit-quarter, latency 33
        await counter 16
    instr copy16 on thread in cp_async:
        op (S: f16[8]) -> (D: f16[8]): D[i] = S[i]
        S in global at (r): i = r
'''


def only(text: str):
    return parse_text(text).declarations[0]


def line(text: str):
    return only(f"schedule s for f:\n    {text}\n").lines[0]


def value(text: str):
    return only(f"op f[M](A: f32[M]) -> (Y: f32[M]):\n    Y[m] = {text}\n").body[0].value


def n(x):
    return s.Num(x) if isinstance(x, int | float) else s.Name(x)


def b(left, op, right):
    left, right = (n(x) if not isinstance(x, s.Node) else x for x in (left, right))
    return s.Binary(op, left, right)


def limit(left, op, right):
    return s.DomainCondition(n(left), op, n(right))


def test_op():
    op = only(LINEAR)
    assert (op.name, op.dims, len(op.inputs), len(op.body)) == ("linear", ("M", "N", "K"), 3, 2)
    assert op.inputs[0] == s.TensorDecl("X", "f16", (n("M"), n("K")))
    x, w = s.Access("X", (n("m"), n("k"))), s.Access("W", (n("n"), n("k")))
    assert op.body[0] == s.Assign("H", ("m", "n"), s.Reduce("sum", ("k",), b(s.Call("f32", (x,)), "*", s.Call("f32", (w,)))))


def test_header_over_several_lines():
    op = only(CONV)
    assert op.inputs[2:] == (s.IntParam("stride", n(1)), s.IntParam("pad", n(0)))
    assert [w.left.id for w in op.where] == ["P", "Q"]
    assert op.body[0].value.body.left.otherwise == n(0)


def test_statement_spans_cover_their_text():
    op = only(LINEAR)
    assert op.span.text == "op linear"
    assert op.body[1].span.text == "Y[m, n] = gelu(H[m, n] + b[n])"
    assert value("3 * (A[m] + 1) * 2").span.text == "3 * (A[m] + 1) * 2"
    assert value("3 * (A[m] + 1)").right.span.text == "(A[m] + 1)"
    assert line("move A -> shared pad 8:\n        auto").span.text == "move A -> shared pad 8"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", b("a", "+", b("b", "*", "c"))),
        ("a - b - c", b(b("a", "-", "b"), "-", "c")),
        ("a / b % c", b(b("a", "/", "b"), "%", "c")),
        ("-a * b", b(s.Unary("-", n("a")), "*", "b")),
        ("a * -b", b("a", "*", s.Unary("-", n("b")))),
        ("not a < b and c or d", b(b(s.Unary("not", b("a", "<", "b")), "and", "c"), "or", "d")),
        ("sum(k) a * b + c", b(s.Reduce("sum", ("k",), b("a", "*", "b")), "+", "c")),
        ("2 * sum(k) a * b", b(2, "*", s.Reduce("sum", ("k",), b("a", "*", "b")))),
        ("(sum(k) a) * b", b(s.Reduce("sum", ("k",), n("a")), "*", "b")),
        ("sum(k) a * sum(l) b * c", s.Reduce("sum", ("k",), b("a", "*", s.Reduce("sum", ("l",), b("b", "*", "c"))))),
        ("sum(k) (a + b)", s.Reduce("sum", ("k",), b("a", "+", "b"))),
        ("max(i, j) a", s.Reduce("max", ("i", "j"), n("a"))),
        ("max(i, j) - a", b(s.Call("max", (n("i"), n("j"))), "-", "a")),
        ("max(r: 2, s) a", s.Reduce("max", ("r", "s"), n("a"), (n(2), None))),
        ("sum(k where k <= i, k > 2) a", s.Reduce("sum", ("k",), n("a"), (), (limit("k", "<=", "i"), limit("k", ">", 2)))),
        ("any(k) a > 0", b(s.Reduce("any", ("k",), n("a")), ">", 0)),
        ("where(a >= 0, a, -inf)", s.Call("where", (b("a", ">=", 0), n("a"), s.Unary("-", n(float("inf")))))),
        ("A[else 0]", s.Access("A", (), n(0))),
        ("A[]", s.Access("A", ())),
        ("1.5e-3 + true", b(1.5e-3, "+", s.Num(True))),
        ("9223372036854775807", n(2**63 - 1)),
    ],
)
def test_expressions(text, tree):
    assert value(text) == tree


def tile(index, size, level=None, *modifiers):
    return s.Tile((s.TileAxis(index, n(size)),), level, modifiers)


def move(tensor, memory, *modifiers):
    return s.Move(tensor, memory, None, modifiers)


def mod(name, *values, words=(), maps=()):
    return s.Modifier(name, tuple(n(v) for v in values), words, maps)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("tile m: 128, n: auto -> block", s.Tile((s.TileAxis("m", n(128)), s.TileAxis("n", s.Auto())), "block")),
        ("tile m", s.Tile((s.TileAxis("m", s.Auto()),))),
        ("tile m: 4 every 32", s.Tile((s.TileAxis("m", n(4), n(32)),))),
        ("tile k: 1 unroll", tile("k", 1, None, mod("unroll"))),
        ("tile k: 1 unroll 4", tile("k", 1, None, mod("unroll", 4))),
        ("tile k: 8 pipeline 2 through", tile("k", 8, None, mod("pipeline", 2, words=("through",)))),
        ("tile k: 8 -> block by atomic", tile("k", 8, "block", mod("by", words=("atomic",)))),
        (
            "tile m: 4 -> thread arrange u: m = u/2, n = u % 2 peel",
            s.Tile(
                (s.TileAxis("m", n(4)),),
                "thread",
                (mod("arrange", words=("u",), maps=(("m", b("u", "/", 2)), ("n", b("u", "%", 2)))), mod("peel")),
            ),
        ),
        ("tile m: 4 -> block order n, m", tile("m", 4, "block", mod("order", words=("n", "m")))),
        ("move A -> shared", s.Move("A", "shared")),
        ("move A -> auto", s.Move("A", None)),
        ("move A", s.Move("A", None)),
        ("move I as (m, k) -> shared", s.Move("I", "shared", ("m", "k"))),
        ("move I as (p.2, k) -> shared", s.Move("I", "shared", ("p.2", "k"))),
        ("move I -> shared as (m, k) pad 1", s.Move("I", "shared", ("m", "k"), (mod("pad", 1),))),
        ("move A -> shared layout (k, m) pad 4", move("A", "shared", mod("layout", "k", "m"), mod("pad", 4))),
        ("move B -> l3 layout panels(n: 16)", move("B", "l3", mod("layout", words=("panels",), maps=(("n", n(16)),)))),
        ("move A -> shared swizzle with cp_async", move("A", "shared", mod("swizzle"), mod("with", words=("cp_async",)))),
        ("move A -> shared swizzle(2, 3)", move("A", "shared", mod("swizzle", 2, 3))),
        ("move A -> shared:\n        tile m: 1", s.Move("A", "shared", block=(s.Tile((s.TileAxis("m", n(1)),)),))),
        ("keep m, l, o in register", s.Keep(("m", "l", "o"), "register")),
        ("keep top in register by shuffle", s.Keep(("top",), "register", (mod("by", words=("shuffle",)),))),
        ("keep C", s.Keep(("C",), None)),
        ("inline e, f", s.Inline(("e", "f"))),
        ("fuse n, p, q as m", s.Fuse(("n", "p", "q"), "m")),
        ("compute", s.Compute()),
        ("compute with mma order n, m", s.Compute("mma", (mod("order", words=("n", "m")),))),
        ("compute with auto", s.Compute(s.Auto())),
        ("apply stage(left, depth = 3)", s.Apply("stage", (n("left"),), (("depth", n(3)),))),
        ("param BM in 64, 128 = 128", s.Param("BM", (n(64), n(128)), n(128))),
        ("auto", s.AutoLine()),
        ("move B -> shared multicast m", move("B", "shared", mod("multicast", words=("m",)))),
        ("move B -> shared by producer", move("B", "shared", mod("by", words=("producer",)))),
        ("tile m: 8 -> block persistent", tile("m", 8, "block", mod("persistent"))),
        ("tile t: 64 online", tile("t", 64, None, mod("online"))),
    ],
)  # fmt: skip
def test_lines(text, node):
    assert line(text) == node


def test_schedule_headers():
    one = only("schedule s for gemm on sm_80: auto\n")
    assert one == s.ScheduleDecl("s", "gemm", None, (), "sm_80", (), (s.AutoLine(),))
    full = only("schedule s for linear as gemm(A = X, B = W) on cpu:avx2 where N <= 4096, K % 8 == 0:\n    auto\n")
    assert (full.op, full.role, full.bindings, full.device) == ("linear", "gemm", (("A", "X"), ("B", "W")), "cpu:avx2")
    assert full.where == (s.SizeCondition(n("N"), "<=", n(4096)), s.SizeCondition(b("K", "%", 8), "==", n(0)))
    strategy = only("strategy stage(T, depth = 3):\n    move T -> shared pipeline depth\n")
    assert strategy.params == (("T", None), ("depth", n(3)))


def test_device():
    d = only(DEVICE)
    assert (d.name, d.extends) == ("cpu:avx2", "cpu:base")
    core, l3, shared, limits, mma, copy = d.items
    assert core == s.LevelDecl("core", (s.Fact(("finite", s.Quantity(2))), s.Fact(("siblings", "barrier"))))
    assert l3.facts == (s.Fact((s.Quantity(32, "MiB"),)), s.Fact(("in", "dram")))
    assert shared.facts[1] == s.Fact(("banks", s.Quantity(4, "B", 32)))
    assert limits.facts[2] == s.Fact(("f32", s.Quantity(180, "GFLOP/s"), "per", "unit"))
    assert (mma.level, mma.family, copy.family) == ("warp", "mma_family", "cp_async")
    assert mma.body[0].accumulate
    assert [p.coords for p in mma.places] == [("lane", "r"), ()]
    assert [e.text for e in mma.emits] == ['one "line"', 'asm volatile("x\\n");\n  indented']
    assert mma.facts[0] == s.Fact(("cost", s.Quantity(8), "cycles", "per", "unit-quarter"))
    assert mma.awaits == s.Fact(("counter", s.Quantity(16)))
    assert copy.results == (s.TensorDecl("D", "f16", (n(8),)),)


def test_imports():
    assert parse_text('import std.ops.gemm\nimport "a/b.sched"\n').declarations == (
        s.Import("std.ops.gemm", True),
        s.Import("a/b.sched", False),
    )


def test_the_version_of_the_language():
    file = parse_text("# first\n\nlanguage 1  # since ever\nimport std.ops.gemm\n")
    assert file.language == s.Language(1)
    assert file.language.span.text == "language 1"
    assert file.declarations == (s.Import("std.ops.gemm", True),)
    assert parse_text(LINEAR).language is None


def test_keywords_are_names_where_nothing_else_can_stand():
    op = only("op in[M](order: f32[M], pad: f32[M], tile: f32[]) -> (keep: f32[M]):\n    keep[e] = order[e] * pad[e] + tile\n")
    assert op.body[0].target == "keep"
    reduction = only("op f[M](pad: f32[M], x: f32[M]) -> (Y: f32[]):\n    Y[] = max(order) pad[order] * x[order]\n")
    assert reduction.body[0].value.indices == ("order",)
    language = only("op language(language: f32[]) -> (Y: f32[]):\n    Y[] = language\n")
    assert language.body[0].value == n("language")
    assert line("move in -> shared") == s.Move("in", "shared")
    assert line("keep in in register") == s.Keep(("in",), "register")


@pytest.mark.parametrize("text", ["", "\n", "# only a comment", "   \n  # c\n\n", "\ufeff# bom\n"])
def test_nothing(text):
    assert parse_text(text).declarations == ()


def test_line_breaks_and_margins_do_not_matter():
    plain = parse_text(LINEAR + CONV)
    assert parse_text((LINEAR + CONV).replace("\n", "\r\n")) == plain
    assert parse_text("\ufeff" + LINEAR + CONV) == plain
    assert parse_text("\n".join("    " + x for x in (LINEAR + CONV).split("\n")) + "\n") == plain
    assert parse_text((LINEAR + CONV).rstrip("\n")) == plain
    assert parse_text(LINEAR.replace(", W:", ",\n  # why\n W:") + CONV) == plain


@pytest.mark.parametrize("name", ["sketches.sched", "sketches_next.sched"])
def test_sketches_parse(name):
    assert len(parse_text((HERE / name).read_text()).declarations) >= 3


def test_twice_as_many_lines_are_twice_the_work():
    text = (HERE / "sketches.sched").read_text() + LINEAR + CONV + DEVICE
    text *= 1000 // text.count("\n") + 1
    parse_text("")
    once, twice = calls(lambda: parse_text(text)), calls(lambda: parse_text(2 * text))
    assert once < 600 * text.count("\n")
    assert twice < 2.1 * once


def test_importing_the_parser_does_not_load_lark():
    code = "import sys, andiron.dsl.text.parser; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_threads_do_not_mix_their_texts():
    from concurrent.futures import ThreadPoolExecutor

    def name(i):
        return only(f"op f{i}[M](A: f32[M]) -> (Y: f32[M]):\n    Y[m] = A[m]\n")

    with ThreadPoolExecutor(4) as pool:
        for i, op in enumerate(pool.map(name, range(200))):
            assert op.name == f"f{i}"
            assert op.span.text == f"op f{i}"


def test_errors_are_user_errors():
    with pytest.raises(UserError):
        parse_text("schedule")
