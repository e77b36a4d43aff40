"""A notebook, executed: the cell magic, rich output, mistakes without tracebacks."""

from __future__ import annotations

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat")
nbclient = pytest.importorskip("nbclient", reason="executing notebooks needs nbclient")
pytest.importorskip("ipykernel", reason="executing notebooks needs ipykernel")

SCALE = "%%sched\nlanguage 1\n\nop scale[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = 2.0 * X[i]\n"
GEMM = """%%sched products --target cpu:avx2 --size M=64,N=64,K=64
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

schedule s for gemm on cpu:avx2:
    tile m: 16 -> core
    tile n: 16, m: 6
    keep C in register
    tile k: 1
    compute with fma
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    sources = [
        "%load_ext andiron\nimport numpy as np",
        SCALE,
        "scale(np.arange(3, dtype=np.float32))",
        GEMM,
        "gemm",
        "gemm.report",
        "products.ops['gemm']",
        "%%sched\nop bad[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = Z[i]\n",
        "%%sched a b c\nop ok[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n",
        "products.schedules['s']",
        "%%sched --tagret cpu\nop ok[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n",
        "import andiron\nassert andiron.compile(products, 'gemm', target='cpu:avx2').schedule",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    folder = tmp_path_factory.mktemp("notebook")
    client = nbclient.NotebookClient(
        book, timeout=300, resources={"metadata": {"path": str(folder)}}, kernel_name="python3", allow_errors=True
    )
    try:
        client.execute()
    except Exception as error:
        if type(error).__name__ == "NoSuchKernel":
            pytest.skip("no Jupyter kernel is installed")
        raise
    return book.cells


def shown(cell, kind: str) -> str:
    return "".join(o["data"][kind] for o in cell.outputs if kind in o.get("data", {}))


def output_of(cell, stream: str) -> str:
    return "".join(o["text"] for o in cell.outputs if o.output_type == "stream" and o["name"] == stream)


def mistake(cell) -> str:
    """What is shown of the cell's only error."""
    (error,) = (o for o in cell.outputs if o.output_type == "error")
    return "\n".join(error["traceback"])


def test_a_cell_declares_kernels(cells):
    assert "array([0., 2., 4.]" in shown(cells[2], "text/plain")


def test_a_module_is_shown_in_colour(cells):
    assert "<span" in shown(cells[1], "text/html")
    assert "scale" in shown(cells[1], "text/html")
    assert "language" in shown(cells[1], "text/html")
    assert "sum" in shown(cells[6], "text/html")


def test_a_kernel_is_shown_with_its_pictures(cells):
    html = shown(cells[4], "text/html")
    assert html.count("<svg") == 2
    assert "Tiles of gemm" in html
    assert "Roofline of gemm" in html
    assert "bound by" in html


def test_a_report_is_a_table(cells):
    html = shown(cells[5], "text/html")
    assert "<td>flops</td><td style='text-align:left'>524,288</td>" in html
    assert "<td>at least</td>" in html


def test_mistakes_are_diagnostics(cells):
    """Shown once, in the place of the traceback."""
    for cell, expected in ((cells[7], "error[unknown-tensor]"), (cells[8], f"error[{'bad-magic'}]")):
        assert mistake(cell).count(expected) == 1
        assert output_of(cell, "stderr") == ""
        assert "Traceback" not in mistake(cell)
        assert "notebook.py" not in mistake(cell)
    assert "<cell>:2" in mistake(cells[7])


def test_the_other_cells_are_right(cells):
    for n in (0, 1, 2, 3, 4, 5, 6, 9, 11):
        assert [o for o in cells[n].outputs if o.output_type == "error"] == [], n


def test_a_wrong_cell_ends_a_run_of_all_cells(tmp_path):
    """Else what comes below would go on with what the cell declared before."""
    wrong = "%%sched\nop bad[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = Z[i]\n"
    sources = ["%load_ext andiron", wrong, "print('went on')"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    client = nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}, kernel_name="python3")
    try:
        with pytest.raises(nbclient.exceptions.CellExecutionError) as caught:
            client.execute()
    except Exception as error:
        if type(error).__name__ == "NoSuchKernel":
            pytest.skip("no Jupyter kernel is installed")
        raise
    assert "error[unknown-tensor]" in str(caught.value)
    assert book.cells[2].outputs == []


def test_a_schedule_is_shown_as_it_is_written(cells):
    assert "tile" in shown(cells[9], "text/html")
    assert shown(cells[9], "text/plain").startswith("schedule s for gemm on cpu:avx2:\n    tile m: 16 -> core")
    assert shown(cells[6], "text/plain").startswith("op gemm[M, N, K]")


def test_a_misspelt_option_is_named(cells):
    assert "unrecognized arguments: --tagret" in mistake(cells[10])
    assert "usage" not in mistake(cells[10])
