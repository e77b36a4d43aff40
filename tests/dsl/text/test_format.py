"""Formatting changes white space only, keeps every comment, and is its own fixed point; trees print as what they parse from."""

import math
import random
from pathlib import Path

import pytest
from andiron.dsl import syntax as s
from andiron.dsl.source import Source
from andiron.dsl.text.format import format_node, format_source
from andiron.dsl.text.parser import parse_text
from andiron.dsl.text.print_node import quote
from hypothesis import given, settings
from hypothesis import strategies as st

HERE = Path(__file__).parent

MESSY = '''

#  a comment of the file
import   std . ops . gemm  # trailing

op   f [ M,N ]( A : f32 [ M , N ] ,   # about A
      # about n
    n:int=3 ,
  )->( Y:f32[M] )   # about Y

    # before where
  where P=( M+1 )/2 , M>=1 :   # body follows


      # own line, deep
      t[ m ]=sum( k )A[ m,k ]*-2   # first
 # shallow, inside the body


      Y[m]=t[m]+(max(k)(A[m,k]  +1)) if_not[ m-1 else -inf ]
# at the end of f
# and one more
schedule  s  for f as gemm( A=X )on cpu:avx2 where N<=4:
  keep  C  in  register :  # nested
          # first in the block
          move C->shared   pad  8
          # last in the block
  # back outside
  tile m:4 every 32,n:auto->thread arrange u:m=u/2%8, n = u % 2+2*( u/16 )
  move A as( m,k )->shared layout( k,m ) swizzle ( 2,3 ) pipeline depth
  apply stage( left , depth=3 )
  move B -> l3 layout panels ( n : 16 )
  param BM in 64,128=64
  # at the end of s
device d :
    # about levels
    level core:finite 2 ,siblings barrier # two
    memory shared of block:32 x 4 B,19.4 TB/s

    instr i on warp in fam:
      op(A:f32[4])->(B:f32[4]):B[i]=A[i]   # identity
      A in register at( lane,r ):i=lane  +  r
      emit cuda :   """
  one
    two

  three"""   # text
      cost 8 cycles per unit-quarter
# the end'''.replace(" if_not[ m-1 else -inf ]", " * t[ m-1 else -inf ]")

NEAT = '''\
#  a comment of the file
import std.ops.gemm  # trailing

op f[M, N](A: f32[M, N],  # about A
        # about n
        n: int = 3,
) -> (Y: f32[M])  # about Y
        # before where
        where P = (M + 1)/2, M >= 1:  # body follows
    # own line, deep
    t[m] = sum(k) A[m, k]*-2  # first
    # shallow, inside the body

    Y[m] = t[m] + (max(k) (A[m, k] + 1)) * t[m - 1 else -inf]

# at the end of f
# and one more
schedule s for f as gemm(A = X) on cpu:avx2 where N <= 4:
    keep C in register:  # nested
        # first in the block
        move C -> shared pad 8
        # last in the block
    # back outside
    tile m: 4 every 32, n: auto -> thread arrange u: m = u/2%8, n = u % 2 + 2*(u/16)
    move A as (m, k) -> shared layout (k, m) swizzle(2, 3) pipeline depth
    apply stage(left, depth = 3)
    move B -> l3 layout panels(n: 16)
    param BM in 64, 128 = 64
    # at the end of s

device d:
    # about levels
    level core: finite 2, siblings barrier  # two
    memory shared of block: 32 x 4 B, 19.4 TB/s

    instr i on warp in fam:
        op (A: f32[4]) -> (B: f32[4]): B[i] = A[i]  # identity
        A in register at (lane, r): i = lane + r
        emit cuda: """
            one
              two

            three
        """  # text
        cost 8 cycles per unit-quarter

# the end
'''


def test_messy_becomes_neat():
    assert format_source(MESSY) == NEAT
    assert format_source(NEAT) == NEAT


@pytest.mark.parametrize("path", [p.name for p in HERE.glob("*.sched")])
def test_sketches(path):
    text = (HERE / path).read_text()
    neat = format_source(text)
    assert format_source(neat) == neat
    file = parse_text(text)
    assert parse_text(neat) == file
    assert parse_text(format_node(file)) == file
    assert format_source(format_node(file)) == format_node(file)


def test_comments_in_one_column_stay_in_one():
    text = """schedule s for f:
    tile m: 4            # one
    keep C in register   # two

    tile k:1             # apart from those above by a blank line
    compute  # alone
"""
    assert (
        format_source(text)
        == """schedule s for f:
    tile m: 4           # one
    keep C in register  # two

    tile k: 1  # apart from those above by a blank line
    compute  # alone
"""
    )


def test_comments_survive_any_place():
    header = "op f [ M ] ( A : f32 [ M ] , n : int = 3 ) -> ( Y : f32 [ M ] )"
    tokens = header.split()
    for i in range(2, len(tokens)):
        if i > 3 and "[" not in tokens[:i][-3:]:
            inside = tokens[:i].count("(") + tokens[:i].count("[") - tokens[:i].count(")") - tokens[:i].count("]")
            if inside:
                text = " ".join(tokens[:i]) + f" # here {i}\n" + " ".join(tokens[i:]) + ":\n    Y[m] = A[m]  # there\n"
                out = format_source(text)
                assert f"  # here {i}\n" in out
                assert out.endswith("# there\n")


def test_margin_of_embedded_text_goes_away():
    assert format_source("\n    schedule s for f:\n        auto\n    ") == "schedule s for f:\n    auto\n"


@pytest.mark.parametrize("text", ["", "\n\n", "# one\n# two\n", "  # indented\n"])
def test_nothing_but_comments(text):
    out = format_source(text)
    assert out == "".join(line.strip() + "\n" for line in text.split("\n") if line.strip())


@given(
    st.text(
        st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c", exclude_categories=["Cc", "Cf", "Cs"]) | st.just("\n")
    )
)
def test_quoted_texts_read_back(text):
    instr = f"device d:\n    instr i on t:\n        op (A: f32[]): A[] = 1\n        emit c: {quote(text)}\n"
    assert parse_text(instr).declarations[0].items[0].emits[0].text == text


# ---------------------------------------------------------------- random trees

names = st.sampled_from(["a", "m", "k2", "X", "T1", "e", "s", "x", "in", "pad", "tile"])
plain = st.sampled_from(["a", "m", "k2", "X", "T1", "e", "s", "x", "B"])  # where a keyword could also stand
numbers = st.integers(0, 2**63 - 1) | st.floats(0, allow_nan=False) | st.just(math.nan) | st.booleans()
nums = st.builds(s.Num, numbers)


def tuples(of, least=0, most=3):
    return st.lists(of, min_size=least, max_size=most).map(tuple)


def optional(of):
    return st.none() | of


def arithmetic(inner):
    return (
        st.builds(s.Binary, st.sampled_from("+-*/%"), inner, inner)
        | st.builds(s.Unary, st.just("-"), inner)
        | st.builds(s.Call, st.sampled_from(["ceil", "max", "min", "f16"]), tuples(inner))
    )


@st.composite
def reductions(draw, inner):
    indices = draw(tuples(plain, 1))
    extents = draw(tuples(optional(sizes), len(indices), len(indices)))
    kind = draw(st.sampled_from(["sum", "max", "any"]))
    return s.Reduce(kind, indices, draw(inner), extents if any(extents) else (), draw(domains))


def values_over(inner):
    return (
        arithmetic(inner)
        | st.builds(s.Binary, st.sampled_from(["<", "<=", ">", ">=", "==", "!=", "and", "or"]), inner, inner)
        | st.builds(s.Unary, st.just("not"), inner)
        | st.builds(s.Access, names, tuples(inner), optional(inner))
        | reductions(inner)
    )


sizes = st.recursive(nums | st.builds(s.Name, plain), arithmetic, max_leaves=5)
domains = tuples(st.builds(s.DomainCondition, sizes, st.sampled_from(["<", "<=", "=="]), sizes))
values = st.recursive(nums | st.builds(s.Name, names), values_over, max_leaves=10)
sizes_or_auto = sizes | st.builds(s.Auto)
maps = tuples(st.tuples(plain, sizes), 1)


def modifier(name, values=st.just(()), words=st.just(()), maps=st.just(())):  # noqa: B008
    return st.builds(s.Modifier, st.just(name), values, words, maps)


one = st.tuples(sizes_or_auto)
modifiers = st.lists(
    st.one_of(
        *(modifier(name, one) for name in ("unroll", "vector", "raster", "pad")),
        *(modifier(name) for name in ("unroll", "swizzle", "peel", "persistent", "online")),
        modifier("pipeline", one, st.sampled_from([(), ("through",)])),
        modifier("order", words=tuples(plain, 1)),
        modifier("multicast", words=tuples(plain, 1)),
        modifier("by", words=st.tuples(plain)),
        modifier("within", words=st.tuples(plain)),
        modifier("with", words=st.tuples(plain)),
        modifier("with", values=st.just((s.Auto(),))),
        modifier("arrange", words=st.tuples(plain), maps=maps),
        modifier("swizzle", tuples(sizes, 1)),
        modifier("layout", tuples(sizes, 1)),
        modifier("layout", words=st.just(("panels",)), maps=maps),
    ),
    max_size=3,
    unique_by=lambda m: m.name,
).map(tuple)
no_with = modifiers.map(lambda ms: tuple(m for m in ms if m.name != "with"))
axes = tuples(st.builds(s.TileAxis, plain, sizes, optional(sizes)) | st.builds(s.TileAxis, plain, st.builds(s.Auto)), 1)
leaf_lines = st.one_of(
    st.builds(s.Tile, axes, optional(plain), modifiers),
    st.builds(s.Move, plain, optional(plain), optional(tuples(plain, 1)), modifiers),
    st.builds(s.Keep, tuples(plain, 1), optional(plain), modifiers),
    st.builds(s.Inline, tuples(plain, 1)),
    st.builds(s.Fuse, tuples(plain, 1), plain),
    st.builds(s.Compute, optional(plain | st.builds(s.Auto)), no_with),
    st.builds(s.Apply, plain, tuples(sizes), tuples(st.tuples(plain, sizes))),
    st.builds(s.Param, plain, tuples(sizes, 1), optional(sizes)),
    st.builds(s.AutoLine),
)
lines = st.recursive(
    leaf_lines,
    lambda inner: (
        st.builds(s.Move, plain, optional(plain), st.none(), modifiers, tuples(inner, 1))
        | st.builds(s.Keep, tuples(plain, 1), optional(plain), modifiers, tuples(inner, 1))
    ),
    max_leaves=4,
)
tensors = st.builds(s.TensorDecl, names, st.sampled_from(["f32", "f16"]), tuples(sizes), optional(st.just("csr")))
assigns = st.builds(s.Assign, names, tuples(names), values, st.booleans(), domains)
wheres = st.builds(s.SizeCondition, st.builds(s.Name, plain), st.just("="), sizes) | st.builds(
    s.SizeCondition, sizes, st.sampled_from(["<", "<=", "=="]), sizes
)
ops = st.builds(
    s.OpDecl,
    names,
    tuples(names),
    tuples(tensors | st.builds(s.IntParam, names, optional(sizes))),
    tuples(tensors),
    tuples(wheres),
    tuples(assigns, 1),
)
devices_names = st.sampled_from(["sm_80", "cpu:avx2"])
schedule_ends = optional(devices_names), tuples(wheres), tuples(lines, 1)
schedules = st.builds(
    s.ScheduleDecl, names, names, st.just("gemm"), tuples(st.tuples(names, names)), *schedule_ends
) | st.builds(s.ScheduleDecl, names, names, st.none(), st.just(()), *schedule_ends)
strategies = st.builds(s.StrategyDecl, names, tuples(st.tuples(plain, optional(sizes))), tuples(lines, 1))
words = st.sampled_from(["at", "most", "threads", "unit-quarter", "f32"])
quantities = st.builds(
    s.Quantity, st.integers(0, 10**6) | st.floats(0.1, 1e20), st.sampled_from(["", "B", "KiB", "GHz", "GFLOP/s", "ns"])
) | st.builds(s.Quantity, st.integers(1, 99), st.just("B"), st.integers(1, 99))
facts = st.builds(s.Fact, tuples(words | quantities, 1))
word_facts = st.builds(lambda w, f: s.Fact((w, *f.parts)), words, facts)
kind_values = st.builds(s.KindValue, plain, st.integers(0, 99) | st.floats(0.1, 1e9) | plain) | st.builds(
    s.KindValue, plain, st.sampled_from(["", "a, b", '"x"', "a\\b"]), st.just(True)
)
counts = optional(st.integers(0, 64))
kinds = st.builds(s.Kind, plain, counts) | st.builds(s.Kind, st.none(), st.integers(1, 64))
valued_kinds = st.builds(s.Kind, plain, counts, tuples(kind_values, 1)) | st.builds(
    s.Kind, st.none(), st.integers(1, 64), tuples(kind_values, 1)
)
instrs = st.builds(
    s.InstrDecl,
    plain | st.sampled_from(["mma_${X}_${T}", "${N + 1}x"]),
    plain,
    optional(plain),
    tuples(tensors),
    tuples(tensors),
    tuples(assigns, 1),
    tuples(st.builds(s.OperandPlace, plain, plain, tuples(plain), st.just(()) | maps)),
    tuples(st.builds(s.Emit, plain, st.sampled_from(["", "a", 'f("x");\n  g();', "a\\b", '"', " a ", "a\n"]))),
    tuples(word_facts),
    optional(facts),
    tuples(kinds) | tuples(valued_kinds),
)
devices = st.builds(
    s.DeviceDecl,
    devices_names,
    optional(devices_names),
    tuples(
        st.one_of(
            st.builds(s.LevelDecl, plain, tuples(facts, 1)),
            st.builds(s.MemoryDecl, plain, plain, tuples(facts, 1)),
            st.builds(s.LimitDecl, tuples(word_facts, 1)),
            instrs,
        ),
        1,
    ),
)
imports = st.builds(s.Import, st.just("std.ops.gemm"), st.just(True)) | st.builds(
    s.Import, st.just("a/b.sched"), st.just(False)
)
languages = st.none() | st.builds(s.Language, st.just(1))
declarations = st.one_of(ops, schedules, strategies, devices, imports)


@settings(max_examples=300, deadline=None)
@given(values)
def test_expressions_read_back(tree):
    text = f"op f() -> ():\n    y[] = {format_node(tree)}\n"
    assert repr(parse_text(text).declarations[0].body[0].value) == repr(tree), format_node(tree)


@settings(max_examples=40, deadline=None)
@given(languages, tuples(declarations))
def test_declarations_read_back(language, trees):
    text = format_node(s.File(trees, Source("<string>", ""), language))
    assert repr(parse_text(text).declarations) == repr(trees), text
    assert parse_text(text).language == language
    neat = format_source(text)
    assert format_source(neat) == neat
    assert repr(parse_text(neat).declarations) == repr(trees)
    assert parse_text(neat).language == language


@pytest.mark.parametrize("seed", range(10))
def test_white_space_does_not_matter(seed):
    """Spaces and comments thrown into the sketches go away, or stay, and nothing else changes."""
    chance = random.Random(seed)
    text = (HERE / "sketches.sched").read_text()
    out = []
    for i, line in enumerate(text.split("\n")):
        code = line.split("#")[0].rstrip()
        margin = line[: len(line) - len(line.lstrip())]
        code = code.strip().replace(" ", " " * chance.choice([1, 1, 3]))
        comment = f"{' ' * chance.randrange(3)}# c{i}" if chance.random() < 0.3 else ""
        out += ["", f"{' ' * chance.randrange(9)}# own {i}"] if chance.random() < 0.2 else []
        out.append(margin * 2 + code + comment)
    messy = "\n".join(out)
    neat = format_source(messy)
    assert format_source(neat) == neat
    assert parse_text(neat) == parse_text(text)
    assert neat.count("# c") == messy.count("# c")
    assert neat.count("# own") == messy.count("# own")
