# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Code for GPUs that are not there: every operator, function and type becomes PTX; where ptxas is
installed the PTX is assembled and its remarks are read, where cuobjdump is, the machine code too."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tilery import ops

ROOT = Path(__file__).resolve().parents[2]
GPUS = ["sm_80", "sm_89", "sm_90a"]
# Remarks after which ptxas itself serialises wgmma, or ignores the registers that warps give away.
BAD_REMARKS = re.compile(r"C75(0[7-9]|1[0-9])")


def tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")


@functools.cache
def tilery() -> str:
    program = shutil.which("tilery") or str(ROOT / "build/dev/bin/tilery")
    if not Path(program).exists():
        pytest.skip("the tilery tool is not built")
    return program


def ptx_of(file, function: str, signature: str, gpu: str, **options) -> str:
    words = [word for name, value in options.items() for word in ("-O", f"{name}={value}")]
    run = subprocess.run([tilery(), "compile", str(file), "-f", function, "-s", signature, "-t", gpu,
                          "-e", "ptx", *words], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert f".target {gpu}" in run.stdout and f".entry {function}(" in run.stdout
    return run.stdout


def assemble(ptx: str, gpu: str, folder: Path) -> tuple[str, Path]:
    """What ptxas says, and the machine code; skips where there is no ptxas."""
    ptxas = tool("ptxas")
    if ptxas is None:
        pytest.skip("PTX was made, but ptxas is neither on PATH nor in /usr/local/cuda/bin")
    source, code = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(ptx)
    run = subprocess.run([ptxas, "-v", "-arch", gpu, str(source), "-o", str(code)],
                         capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert not BAD_REMARKS.search(run.stderr), run.stderr
    return run.stderr, code


def machine_code(code: Path) -> str:
    cuobjdump = tool("cuobjdump")
    if cuobjdump is None or tool("nvdisasm") is None:
        pytest.skip("PTX was assembled, but cuobjdump and nvdisasm are not installed")
    run = subprocess.run([cuobjdump, "-sass", str(code)], capture_output=True, text=True, timeout=120,
                         env={**os.environ, "PATH": f"{Path(tool('nvdisasm')).parent}:"
                                                    f"{os.environ.get('PATH', '')}"})
    assert run.returncode == 0, run.stderr
    return run.stdout


def spilled_bytes(remarks: str) -> int:
    return sum(map(int, re.findall(r"(\d+) bytes spill", remarks)))


# --- operators ------------------------------------------------------------------------------------

_STRIDES = "i32:16, i32:1, i32:16, i32:1, i32:16, i32:1"
_RING = "signal, signal, *i64:16"


def gemm(kind: str, rows: int, columns: int, depth: int, acc: str = "fp32", *, tile=None, parts=False,
         bias=False, residual=False, scaled=False, activation="none", transposed=False) -> str:
    """tile: (rows, columns) where they are less than the powers of two; transposed: columns of b are
    contiguous, not its rows."""
    step_b = "i32:1, i32:16" if transposed else "i32:16, i32:1"
    extra = [f"*{kind}:16" if bias else "None", f"*{kind}:16" if residual else "None",
             *["*fp32:16" if scaled else "None"] * 2, *["*fp32:16" if parts else "None"],
             "*i32:16" if parts else "None"]
    kept = tile or (rows, columns)
    return (f"*{kind}:16, *{kind}:16, *{kind}:16, {', '.join(extra)}, i32:16, i32:16, i32:16, i32, "
            f"i32:16, i32:16, i32:1, i32:16, {step_b}, i32:16, i32:16, i32:1, i32:16, i32:16, i32:1, "
            f"i32, i32, i32, i32, i32, {rows}, {columns}, {depth}, {kept[0]}, {kept[1]}, 8, {acc}, False, "
            f'{parts}, {bias}, {residual}, {scaled}, "{activation}"')


def attention(kind: str, causal: bool, mask: str, rows: int, keys: int, head: int,
              even: bool = False) -> str:
    masked = {"none": "None", "add": f"*{kind}:16", "keep": "*i8:16"}[mask]
    return (f"*{kind}:16, *{kind}:16, *{kind}:16, {masked}, *{kind}:16, i32, i32, i32, i32, i32:16, "
            + "fp32, " + "i32:16, " * 12 + "i32, " * 4
            + f'{causal}, "{mask}", {rows}, {keys}, {head}, {even}')


def decode(kind: str, splits: int, rows: int, keys: int, head: int, pieces: int = 8, group: int = 8) -> str:
    partials = "*fp32:16, *i32:16" if splits > 1 else "None, None"
    return (f"*{kind}:16, *{kind}:16, *{kind}:16, *i32, *{kind}:16, {partials}, i32, i32, i32, i32, "
            "i32:16, fp32, " + "i32:16, " * 12
            + f"{group}, 1, False, {rows}, {keys}, {head}, {splits}, {pieces}, {min(head, 128)}")


def rope(interleaved: bool) -> str:
    return ("*bf16:16, *bf16:16, *bf16:16, *bf16:16, *fp32:16, *fp32:16, *i64, i32, i32, i32, i32, i32:16, "
            + "i32:16, " * 14 + f"i32, i32, {interleaved}, 8, 8, 64")


def rows(tile: str, options: dict) -> list[tuple]:
    array, sizes = "*bf16:16, ", "i32, i32:16, i32:16, i32:16, "
    return [("softmax", "softmax", array * 2 + sizes + tile, options, True),
            ("rms_norm", "rms_norm", array * 3 + sizes + "fp32, " + tile, options, True),
            ("layer_norm", "layer_norm", array * 4 + sizes + "fp32, " + tile, options, True)]


def gemm_ar_direct(ranks: int, partials: str, stride: int = 16) -> str:
    """stride: what rows of `out` are a multiple of."""
    outs = ", ".join(["*bf16:16"] * ranks + ["None"] * (8 - ranks))
    return (f"{outs}, *bf16:16, *bf16:16, symm *{partials}:16, signal, {_RING}, i32, i32:16, i32:16, i32, i32, i32:16, i32:16, "
            f"i32:1, i32:16, i32:1, i32:{stride}, i32:1, {partials}, 64, 64, 32, 64, 64, 8, fp32, {ranks}, {ranks > 2}")


# operator, function, signature, options, hot (no spills)
OPERATORS = [
    ("matmul", "matmul", gemm("bf16", 128, 128, 32), {"num_warps": 8}, True),
    ("matmul", "matmul", gemm("fp16", 64, 64, 64), {}, True),
    ("matmul", "matmul", gemm("int8", 64, 64, 64, "int32"), {}, False),
    ("matmul", "matmul", gemm("fp32", 64, 64, 32), {}, True),
    ("matmul", "matmul", gemm("fp64", 32, 32, 16, "fp64"), {}, False),
    ("attention", "attention", attention("bf16", False, "none", 64, 64, 64), {"num_warps": 8}, True),
    ("attention", "attention", attention("bf16", True, "none", 64, 64, 64), {"num_warps": 8}, True),
    ("attention", "attention", attention("fp16", False, "add", 64, 64, 64), {}, False),
    ("attention", "attention", attention("fp32", False, "keep", 32, 32, 32), {}, False),
    ("decode", "decode", decode("bf16", 1, 16, 64, 64), {}, True),
    ("decode", "decode", decode("bf16", 16, 16, 64, 64), {}, False),
    ("decode", "decode", decode("fp32", 1, 16, 32, 32), {}, False),
    ("decode", "decode", decode("fp32", 128, 16, 32, 32, pieces=4), {}, False),
    ("swiglu", "swiglu", "*bf16:16, *bf16:16, *bf16:16, i32:16, i32, i32:16, i32:16, i32:16, 4096, True",
     {}, True),
    ("rope", "rope", rope(False), {}, True),
    ("rope", "rope", rope(True), {}, True),
    *rows("1, 1024, False, False, 1", {}),
    *rows("1, 1024, True, False, 1", {}),
    *rows("16, 128, True, True, 1", {}),
    *rows("1, 16384, True, True, 1", {"num_warps": 16}),
    *rows("1, 32768, True, True, 2", {"num_warps": 16}),
    ("softmax", "softmax", "*fp32, *fp32, i32, i32, i32, i32, 1, 1024, False, False, 1", {}, True),
    ("layer_norm", "layer_norm", "*fp32:16, None, None, *fp32:16, i32, i32, i32, i32, fp32, 1, 1024, True, False, 1",
     {}, True),
    ("all_gather", "all_gather_push", f"*bf16:16, *bf16:16, symm *bf16:16, {_RING}, i32, i32, i32, 1024", {}, False),
    ("all_gather", "all_gather_pull", f"*bf16:16, *bf16:16, symm *bf16:16, {_RING}, i32, i32, i32, 1024", {}, False),
    ("all_gather", "all_gather_flagged",
     "*bf16:16, *bf16:16, symm *i64:16, symm *i64:16, i32, i32, i32, 2, 512", {}, False),
    ("all_reduce", "all_reduce_flagged",
     "*bf16:16, *bf16:16, symm *i64:16, symm *i64:16, i32, i32, 2, fp32, 512", {}, False),
    ("reduce_scatter", "reduce_scatter_flagged",
     "*fp16:16, *fp16:16, symm *i64:16, symm *i64:16, i32, i32, i32, 2, fp32, 512", {}, False),
    ("all_to_all", "all_to_all_flagged",
     "*fp32:16, *fp32:16, symm *i64:16, symm *i64:16, i32, i32, 4, 512", {}, False),
    ("all_reduce", "all_reduce_one_shot",
     f"*bf16:16, *bf16:16, symm *bf16:16, {_RING}, i32, i32, fp32, 1024", {}, False),
    ("all_reduce", "all_reduce_two_shot",
     "*bf16:16, *bf16:16, symm *bf16:16, symm *bf16:16, signal, signal, signal, *i64:16, i32, i32, "
     "fp32, 1024", {}, False),
    ("all_to_all", "all_to_all_push", f"*fp32:16, *fp32:16, symm *fp32:16, {_RING}, i32, i32, 1024", {}, False),
    ("all_to_all", "all_to_all_pull", f"*fp32:16, *fp32:16, symm *fp32:16, {_RING}, i32, i32, 1024", {}, False),
    ("broadcast", "broadcast_push", f"*i8:16, *i8:16, symm *i8:16, {_RING}, i32, i32, i32, 1024", {},
     False),
    ("broadcast", "broadcast_pull", f"*i8:16, *i8:16, symm *i8:16, {_RING}, i32, i32, i32, 1024", {},
     False),
    ("reduce_scatter", "reduce_scatter_push",
     f"*fp16:16, *fp16:16, symm *fp16:16, {_RING}, i32, i32, i32, fp32, 1024", {}, False),
    ("reduce_scatter", "reduce_scatter_pull",
     f"*fp16:16, *fp16:16, symm *fp16:16, {_RING}, i32, i32, i32, fp32, 1024", {}, False),
    ("ag_gemm", "ag_gemm",
     f"*bf16:16, *bf16:16, *bf16:16, None, symm *bf16:16, symm *bf16:16, {_RING}, i32, i32, i32:16, i32:16, "
     "i32, i32, i32:16, i32:16, i32:1, i32:16, i32:1, False, 2, 8, 64, 64, 32, 64, 64, 8, fp32", {}, False),
    ("ag_gemm", "ag_gemm",
     f"*bf16:16, *bf16:16, *bf16:16, None, symm *bf16:16, symm *bf16:16, {_RING}, i32, i32, i32:16, i32:16, "
     "i32, i32, i32:16, i32:16, i32:1, i32:16, i32:1, True, 2, 0, 64, 64, 32, 64, 64, 8, fp32", {}, False),
    ("gemm_rs", "gemm_rs",
     f"*bf16:16, *bf16:16, *bf16:16, symm *bf16:16, {_RING}, i32, i32:16, i32:16, i32, i32, i32:16, "
     f"{_STRIDES}, 2, True, False, bf16, 64, 64, 32, 64, 64, 8, fp32", {}, False),
    ("gemm_rs", "gemm_rs",
     f"*bf16:16, *bf16:16, *bf16:16, symm *fp32:16, {_RING}, i32, i32:16, i32:16, i32, i32, i32:16, "
     f"{_STRIDES}, 4, False, True, fp32, 64, 64, 32, 64, 64, 8, fp32", {}, False),
    ("gemm_ar", "gemm_ar_one_shot",
     f"*bf16:16, *bf16:16, *bf16:16, symm *bf16:16, {_RING}, i32, i32:16, i32:16, i32:16, {_STRIDES}, bf16, "
     "64, 64, 32, 64, 64, 8, fp32", {}, False),
    ("gemm_ar", "gemm_ar_two_shot",
     "*bf16:16, *bf16:16, *bf16:16, symm *bf16:16, symm *bf16:16, signal, signal, signal, *i64:16, i32, "
     f"i32:16, i32:16, i32, i32:16, i32:16, {_STRIDES}, bf16, 64, 64, 32, 64, 64, 8, fp32", {}, False),
    *[("gemm_ar", "gemm_ar_direct", gemm_ar_direct(ranks, partials), {}, False)
      for ranks, partials in ((2, "bf16"), (8, "fp32"))],
]


def test_every_operator_is_listed():
    assert {op for op, *_ in OPERATORS} == {op["name"] for op in ops.list()}


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("op,function,signature,options,hot", OPERATORS,
                         ids=[f"{f}-{s.split(',')[0]}-{i}" for i, (_, f, s, *_) in enumerate(OPERATORS)])
def test_operators_assemble(op, function, signature, options, hot, gpu, tmp_path):
    ptx = ptx_of(ROOT / "ops" / op / f"{op}.py", function, signature, gpu, **options)
    if hot and signature.count(":16") > 3:
        wide = r"ld\.global\S*\.v4\.b32|cp\.async\.bulk|cp\.async\.cg\S* \S+ \S+ 16"
        assert re.search(wide, ptx), "no access of 16 bytes"
    if hot:
        assert not re.search(r"membar|fence\.(acq_rel|sc)", ptx)
    remarks, _ = assemble(ptx, gpu, tmp_path)
    if hot:
        assert spilled_bytes(remarks) == 0, remarks


# Tiles as users choose them for large products, on Hopper.
HOPPER_TILES = [(128, 128, 64, 4, 3), (128, 128, 64, 8, 4), (128, 256, 64, 8, 4), (64, 256, 64, 4, 3),
                (256, 128, 64, 8, 3), (64, 64, 128, 4, 2)]


@pytest.mark.parametrize("rows,columns,depth,warps,stages", HOPPER_TILES)
@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_products_on_hopper(kind, rows, columns, depth, warps, stages, tmp_path):
    ptx = ptx_of(ROOT / "ops/matmul/matmul.py", "matmul", gemm(kind, rows, columns, depth), "sm_90a",
                 num_warps=warps, num_stages=stages)
    assert f".reqntid {32 * (warps + 4)}" in ptx
    for instruction in ("wgmma.mma_async", "cp.async.bulk.tensor", "mbarrier.try_wait"):
        assert instruction in ptx
    remarks, code = assemble(ptx, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks
    text = machine_code(code)
    assert f"HGMMA.64x{min(columns, 256)}x16.F32" in text or "HGMMA.64x" in text
    assert "MEMBAR.ALL.GPU" not in text and "MEMBAR.SC" not in text


# Fewer rows and columns than powers of two: neither copied nor multiplied.
# Columns that are contiguous lie in panels of 64.
@pytest.mark.parametrize("columns,copied,transposed", [(224, 224, True), (160, 160, True), (192, 192, False),
                                                       (160, 256, False)])
def test_columns_that_are_not_used_on_hopper(columns, copied, transposed, tmp_path):
    signature = gemm("bf16", 128, 256, 64, tile=(128, columns), transposed=transposed)
    ptx = ptx_of(ROOT / "ops/matmul/matmul.py", "matmul", signature, "sm_90a", num_warps=8,
                 num_stages=4)
    assert f"m64n{copied}k16" in ptx and f", {(128 + copied) * 128};" in ptx
    remarks, _ = assemble(ptx, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


@pytest.mark.parametrize("parts", [False, True])
def test_rows_that_are_not_used_on_hopper(parts, tmp_path):
    ptx = ptx_of(ROOT / "ops/matmul/matmul.py", "matmul",
                 gemm("bf16", 64, 128, 64, tile=(16, 128), parts=parts), "sm_90a", num_warps=4,
                 num_stages=8)
    assert "m64n128k16" in ptx and f", {(16 + 128) * 128};" in ptx
    remarks, _ = assemble(ptx, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


@pytest.mark.parametrize("after", [{"activation": "silu"}, {"activation": "gelu_tanh"}, {"bias": True},
                                   {"residual": True}, {"scaled": True}], ids=str)
def test_what_follows_a_product_on_hopper(after, tmp_path):
    ptx = ptx_of(ROOT / "ops/matmul/matmul.py", "matmul", gemm("bf16", 128, 256, 64, **after),
                 "sm_90a", num_warps=8, num_stages=4)
    assert "wgmma.mma_async" in ptx
    remarks, _ = assemble(ptx, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


@pytest.mark.parametrize("head,rows,keys,warps", [(64, 128, 128, 8), (128, 128, 128, 8),
                                                  (128, 64, 128, 4), (256, 128, 64, 8)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_on_hopper(head, rows, keys, warps, causal, tmp_path):
    ptx = ptx_of(ROOT / "ops/attention/attention.py", "attention",
                 attention("bf16", causal, "none", rows, keys, head), "sm_90a", num_warps=warps,
                 num_stages=2)
    assert "wgmma.mma_async" in ptx and "cp.async.bulk.tensor" in ptx
    remarks, code = assemble(ptx, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks
    text = machine_code(code)
    assert "HGMMA" in text and "MEMBAR.ALL.GPU" not in text


# Tiles of ops/decode/decode.cpp: the cache comes by bulk copies, several steps ahead.
@pytest.mark.parametrize("group,rows_,head,warps,stages", [(8, 64, 64, 4, 4), (8, 64, 128, 4, 2),
                                                           (128, 128, 128, 8, 6), (8, 64, 256, 8, 3)])
@pytest.mark.parametrize("splits,pieces", [(1, 1), (4, 8), (16, 8), (128, 1)])
def test_decode_on_hopper(group, rows_, head, warps, stages, splits, pieces, tmp_path):
    ptx = ptx_of(ROOT / "ops/decode/decode.py", "decode",
                 decode("bf16", splits, rows_, 64, head, pieces, group), "sm_90a", num_warps=warps,
                 num_stages=stages)
    assert "wgmma.mma_async" in ptx and "cp.async.bulk.tensor" in ptx
    remarks, code = assemble(ptx, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks
    text = machine_code(code)
    steps = text[text.index("HGMMA"):text.rindex("HGMMA")]
    assert "MEMBAR.ALL.GPU" not in (steps if splits > 1 else text)


@pytest.mark.parametrize("op,function,signature,options,_",
                         rows("1, 32768, True, True, 2", {"num_warps": 16}), ids=lambda value: str(value)[:10])
def test_long_rows_stay_in_registers(op, function, signature, options, _, tmp_path):
    ptx = ptx_of(ROOT / "ops" / op / f"{op}.py", function, signature, "sm_90a", **options)
    remarks, _ = assemble(ptx, "sm_90a", tmp_path)
    assert spilled_bytes(remarks) == 0, remarks


# --- functions and types ----------------------------------------------------------------------------

FLOATS = ["fp8e4nv", "fp8e5", "fp16", "bf16", "fp32", "fp64"]
INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
FUNCTIONS = ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "sqrt_rn", "rsqrt", "floor", "ceil", "erf",
             "tanh", "abs", "sigmoid"]
TYPES = {"fp8e4nv": "float8e4nv", "fp8e5": "float8e5", "fp16": "float16", "bf16": "bfloat16",
         "fp32": "float32", "fp64": "float64",
         **{name: name.replace("i", "int").replace("u", "uint") for name in INTEGERS}}


def elementwise(folder: Path, expressions: list[str]) -> Path:
    """A kernel that stores each expression of a and b, one after the other, from `out` on."""
    lines = "\n".join(f"    tl.store(out + {i} * BLOCK + at, ({text}).to(tl.float32))"
                      for i, text in enumerate(expressions))
    file = folder / "kernel.py"
    file.write_text(f"""import tilery as ty
import tilery.language as tl


@ty.jit
def kernel(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
{lines}
""")
    return file


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("kind", FLOATS)
def test_functions_of_floats(kind, gpu, tmp_path):
    binary = ["a + b", "a - b", "a * b", "a / b", "a % b", "tl.maximum(a, b)", "tl.minimum(a, b)",
              "tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)", "a < b", "a == b",
              "tl.fma(a, b, a)", "tl.where(a < b, a, b)", "-a", "tl.clamp(a, b, b)"]
    reductions = [f"tl.{name}(a, axis=0).to(tl.float32) + at" for name in ("sum", "max", "min", "argmax")]
    file = elementwise(tmp_path, [f"tl.{name}(a)" for name in FUNCTIONS] + binary + reductions +
                       ["tl.cumsum(a, axis=0)"])
    ptx = ptx_of(file, "kernel", f"*{kind}:16, *{kind}:16, *fp32:16, 256", gpu)
    assemble(ptx, gpu, tmp_path)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("kind", INTEGERS)
def test_functions_of_integers(kind, gpu, tmp_path):
    texts = ["a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "tl.maximum(a, b)", "a < b", "a == b",
             "a & b", "a | b", "a ^ b", "a << b", "a >> b", "~a", "tl.abs(a)", "tl.fma(a, b, a)",
             "tl.sum(a, axis=0) + at", "tl.cumsum(a, axis=0)", "tl.sort(a)"]
    if kind[1:] in ("32", "64"):
        texts.append("tl.umulhi(a, b)")
    file = elementwise(tmp_path, texts)
    ptx = ptx_of(file, "kernel", f"*{kind}:16, *{kind}:16, *fp32:16, 256", gpu)
    assemble(ptx, gpu, tmp_path)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("kind", FLOATS + INTEGERS)
def test_casts(kind, gpu, tmp_path):
    file = elementwise(tmp_path, [f"a.to(tl.{name})" for name in TYPES.values()])
    ptx = ptx_of(file, "kernel", f"*{kind}:16, *{kind}:16, *fp32:16, 256", gpu)
    assemble(ptx, gpu, tmp_path)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("kind,precision", [*((kind, "ieee") for kind in FLOATS + ["i8"]),
                                            ("fp32", "tf32")])
def test_products(kind, gpu, precision, tmp_path):
    """Shapes of matrix units and below, and of every type."""
    out = "int32" if kind == "i8" else "float64" if kind == "fp64" else "float32"
    file = tmp_path / "kernel.py"
    products = "".join(f"""
    m, n, k = tl.arange(0, {m}), tl.arange(0, {n}), tl.arange(0, {k})
    a = tl.load(x + m[:, None] * {k} + k[None, :])
    b = tl.load(y + k[:, None] * {n} + n[None, :])
    c = tl.dot(a, b, input_precision="{precision}", out_dtype=tl.{out})
    tl.store(out + {i * 4096} + m[:, None] * {n} + n[None, :], c.to(tl.float32))
""" for i, (m, n, k) in enumerate([(64, 64, 64), (16, 8, 16), (4, 2, 8), (128, 16, 32)]))
    file.write_text(f"""import tilery as ty
import tilery.language as tl


@ty.jit
def kernel(x, y, out):
{products}""")
    ptx = ptx_of(file, "kernel", f"*{kind}:16, *{kind}:16, *fp32:16", gpu)
    assemble(ptx, gpu, tmp_path)


CHECKED = """import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    square = at[:, None] * BLOCK + at[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    p = x + square
    for k in range(n):
        total = tl.dot(tl.load(p), tl.load(y + square, mask=square < n, other=0), total)
        p += BLOCK
    tl.store(out + square, total)
    tl.atomic_add(out + at, tl.gather(tl.load(out + at), at, axis=0), mask=at < n)
    tl.atomic_cas(out, 1.0, 2.0)


@ty.jit
def signals(data, ready, i):
    tl.store(dl.symm_at(data, 1) + i, 1)
    dl.put(data + i, data, 4, 1)
    dl.notify(ready + i, 1)
    dl.wait(ready, i)
"""


@pytest.mark.parametrize("gpu", GPUS)
def test_checked_accesses(gpu, tmp_path):
    """Each pointer's extent comes as one more parameter; copies by descriptors are not checked, so
    none are made."""
    file = tmp_path / "kernel.py"
    file.write_text(CHECKED)
    signature = "*bf16:16, *bf16:16, *fp32:16, i32, 64"
    plain = ptx_of(file, "kernel", signature, gpu)
    checked = ptx_of(file, "kernel", signature, gpu, check_bounds="true")
    parameters = {text: text.split("{")[0].count(".param .u64") for text in (plain, checked)}
    assert parameters[checked] == parameters[plain] + 3
    assert "cp.async.bulk" not in checked and "wgmma" not in checked
    assemble(checked, gpu, tmp_path)


@pytest.mark.parametrize("gpu", GPUS)
def test_signals_are_checked_in_every_kernel(gpu, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(CHECKED)
    signature = "symm *i32:16, signal, i32"
    plain = ptx_of(file, "signals", signature, gpu)
    # data (of the put), ready, the context; i is 32 bits.
    assert plain.split("{")[0].count(".param .u64") == 2 + 2 + 1
    assemble(plain, gpu, tmp_path)
    assemble(ptx_of(file, "signals", signature, gpu, check_bounds="true"), gpu, tmp_path)


@pytest.mark.parametrize("gpu", [*GPUS, "cpu"])
def test_long_chains_of_index_arithmetic(gpu, tmp_path):
    """Each value is looked at once, not once for each of the ways that lead to it."""
    file = tmp_path / "kernel.py"
    file.write_text("""import tilery as ty
import tilery.language as tl


@ty.jit
def kernel(x, out, n, N: tl.constexpr):
    at = tl.arange(0, 2)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.sort(tl.load(x + at, mask=at < n, other=3))
    tl.atomic_xor(out + (v & 31), at + 1, mask=at < n)
    for i in tl.static_range(40):
        at = (at * at + at) & 255
    tl.store(out + at, v)
""")
    subprocess.run([tilery(), "compile", str(file), "-f", "kernel", "-s", "*i32:16, *i32:16, i32, 64",
                    "-t", gpu, "-e", "llvm"], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_rings_leave_room_for_what_follows(stages, tmp_path):
    """Fewer slots, or no roles, where a transposition needs the shared memory."""
    file = tmp_path / "kernel.py"
    file.write_text("""import tilery as ty
import tilery.language as tl


@ty.jit
def kernel(a, b, c, K, N: tl.constexpr, BK: tl.constexpr):
    n = tl.arange(0, N)
    at = n[:, None] * N + n[None, :]
    acc = tl.zeros((N, N), tl.float32)
    for k in range(0, K, BK):
        i = k + tl.arange(0, BK)
        acc = tl.dot(tl.load(a + n[:, None] * K + i[None, :], mask=i[None, :] < K, other=0.0),
                     tl.load(b + i[:, None] * N + n[None, :], mask=i[:, None] < K, other=0.0), acc)
    for k in range(2):
        acc = tl.reshape(tl.trans(tl.cumsum(acc, axis=0)), (N, N)) + tl.load(c + at)
    tl.store(c + at, acc)
""")
    ptx = ptx_of(file, "kernel", "*bf16:16, *bf16:16, *fp32:16, i32:16, 128, 128", "sm_90a",
                 num_stages=stages, num_warps=8)
    assemble(ptx, "sm_90a", tmp_path)
