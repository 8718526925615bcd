# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""What the package and the C interface refuse, and in which words, where no other test does it."""

import ctypes
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from kernel_text import make

import tilery as ty
import tilery.language.device as dl  # noqa: F401
from tilery import _capi, ops

SCALE = """@ty.jit
def scale(x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x + at, 2 * tl.load(x + at))
"""


def record(bits: int, kind: int, dtype: int = 0) -> bytes:
    """A tilery_arg as bytes."""
    return struct.pack("<QBBBBIq", bits, kind, dtype, 0, 0, 0, -1)


def compile_with(*records: bytes) -> None:
    kernel = make(SCALE, "scale")
    _capi.handle_from("function_compile", kernel._native(), None, b"".join(records), len(records))


def test_of_the_c_interface(compiled):
    pointer = record(64, 0, 11)
    for call, kind, message in [
        (lambda: _capi.call("options_intern", b"{", ctypes.byref(ctypes.c_void_p())),
         ty.ConfigError, "the launch options is not JSON"),
        (lambda: _capi.call("options_intern", b'{"num_warp": 4}', ctypes.byref(ctypes.c_void_p())),
         ty.ConfigError, "unknown launch option 'num_warp'; did you mean 'num_warps'"),
        (lambda: compile_with(pointer), ty.LaunchError,
         "'scale' has 2 parameters, but 1 arguments are given"),
        (lambda: compile_with(pointer, record(10**9, 9)), ty.LaunchError,
         "1000000000 is not the id of a constant"),
        (lambda: compile_with(pointer, record(0, 99)), ty.LaunchError, "has an unknown kind"),
        (lambda: compile_with(pointer, record(8, 1, 3)), ty.LaunchError,
         "is a tl.constexpr parameter, but a run-time value is given"),
        (lambda: compile_with(pointer, pointer), ty.LaunchError,
         "is a tl.constexpr parameter, but memory is given"),
    ]:
        with pytest.raises(kind, match=message):
            call()


def test_of_an_unknown_stage(compiled):
    kernel = make(SCALE, "scale")
    kernel[(1,)](np.ones(8, np.float32), N=8)
    with pytest.raises(ty.ConfigError, match="a kernel has the stages core, .* and metadata, not 'x'"):
        kernel.ir["x"]


def test_of_operators(compiled):
    x = np.zeros((1,) * 9, np.float32)
    with pytest.raises(ty.LaunchError, match="'x' has 9 dimensions, at most 8 are supported"):
        ops.softmax(x, x.copy())
    y = np.zeros((2, 8), np.float32)
    with pytest.raises(ty.LaunchError, match=r"softmax takes 2 tensors \(x, y\), got 40"):
        ops.softmax(*[y] * 40)
    with pytest.raises(ty.ConfigError, match="softmax has no option 'rows'"):
        ops.softmax(y, y.copy(), rows=[1])
    for value, kind in [([1], "list"), (y, "ndarray"), (np.longdouble(1), "longdouble"), (b"1", "bytes")]:
        with pytest.raises(ty.ConfigError, match=f"ops.rms_norm: option 'eps' is a {kind}; options are numbers, "
                           "strings, True and False"):
            ops.rms_norm(y, y[0], y.copy(), eps=value)
    with pytest.raises(ty.ConfigError, match="option 'eps' is true, needs a number"):
        ops.rms_norm(y, y[0], y.copy(), eps=np.True_)
    with pytest.raises(ty.LaunchError, match="argument 'x' is a type; a kernel takes numbers, arrays"):
        ops.softmax(np.ndarray, y)
    with pytest.raises(ty.LaunchError, match="softmax: 'y' is read-only, but the operator writes it"):
        ops.softmax(y, memoryview(y).toreadonly())
    mixed = np.zeros((2, 8), np.dtype([("value", np.float32), ("more", np.int16)]))["value"]
    with pytest.raises(ty.LaunchError, match=r"argument 'x' has steps of \(48, 6\) bytes, which are "
                       "no multiples of its elements of 4; pass a contiguous copy"):
        ops.softmax(mixed, y)
    with pytest.raises(ty.LaunchError, match="'a' is fp32 and 'b' is fp64; they must have one type"):
        ops.matmul(np.zeros((2, 8), np.float32), np.zeros((8, 2)), np.zeros((2, 2), np.float32))
    shape = (ctypes.c_int64 * 2)(2, 8)
    for dtype, data, message in [(99, 64, "'x' has the unknown element type 99"),
                                 (11, None, "'x' has no data")]:
        records = (_capi.TensorRecord * 2)()
        for entry in records:
            entry.data, entry.shape, entry.rank, entry.dtype = data, shape, 2, dtype
        with pytest.raises(ty.LaunchError, match=message):
            _capi.call("op_call", b"softmax", None, records, 2, b"{}")


def test_of_arguments(backend):
    kernel = make(SCALE, "scale")
    with pytest.raises(ty.LaunchError, match="argument 'x' is a object; a kernel takes numbers, arrays"):
        kernel[(1,)](object(), N=8)
    with pytest.raises(ty.LaunchError, match=r"kernel 'scale' is launched with scale\[grid\]\(...\); a "
                       "plain call works only inside another kernel"):
        kernel(np.ones(8, np.float32), 8)


def test_of_autotune_below_jit():
    with pytest.raises(ty.ConfigError, match="ty.autotune and ty.heuristics go above ty.jit"):
        ty.autotune([ty.Config({})], key=[])(lambda x: None)


def test_of_a_team_of_another_world(backend):
    made = []
    ty.spawn(lambda: made.append(ty.team([0], "old")), ranks=1)
    with pytest.raises(ty.LaunchError, match="team 'old' was made by rank 0 of another world or thread, "
                       "this is rank 0; every rank uses its own"):
        ty.spawn(lambda: ty.barrier(team=made[0]), ranks=1)


def test_of_the_interpreter_in_a_compiled_world(compiled):
    kernel = make(SCALE, "scale")

    def body():
        with ty.interpret():
            kernel[(1,)](np.ones(8, np.float32), N=8)
    with pytest.raises(ty.LaunchError, match="the interpreter cannot run in a compiled world of 2 ranks"):
        ty.spawn(body, ranks=2)


def test_of_names_that_are_no_strings(backend):
    calls = [lambda name: ty.zeros(4, ty.int32, name), lambda name: ty.signals(4, name),
             lambda name: ty.team([0], name), lambda name: ty.split(0, name=name),
             lambda name: ty.register(np.zeros(4), name)]
    for call in calls:
        with pytest.raises(ty.ConfigError, match="a name is a string, not 7"):
            ty.spawn(lambda: call(7), ranks=1)


def test_of_sizes_beyond_64_bits(backend):
    with pytest.raises(ty.LaunchError, match=r"would have \d+ bytes; at most \d+ can be addressed"):
        ty.spawn(lambda: ty.zeros((2**40, 2**40), ty.float32), ranks=1)


def test_of_a_negative_count_of_signals(compiled):
    kernel = make("""@ty.jit
def kernel(ready, n):
    dl.wait(ready, n)
""")
    with pytest.raises(ty.LaunchError, match="a wait for -1 signals: the count must not be negative"):
        ty.spawn(lambda: kernel[(1,)](ty.signals(1), -1), ranks=1)


def fails(code: str, **environment) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                            env=os.environ | environment)
    assert result.returncode != 0
    return result.stderr


def test_of_environments(compiled, tmp_path):
    wrong = tmp_path / "libtilery.so"
    wrong.write_text("no library")
    text = fails("import tilery as ty; ty.init()", TILERY_LIBRARY=str(wrong))
    assert "cannot be opened:" in text and "ConfigError" in text
    launch = ("import tilery as ty; ty.init(); "
              "from tilery import ops; import numpy as np; x = np.ones((2, 8), np.float32); "
              "ops.softmax(x, x.copy())")
    assert "unknown CPU target 'z80' (choose native, avx512 or avx2)" in fails(launch, TILERY_CPU="z80")
    job = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
    assert "the job token has 5000 characters, at most" in fails(
        "import tilery as ty; ty.init()", TILERY_JOB_TOKEN="x" * 5000, **job)
    text = subprocess.run([sys.executable, "-c", "import tilery as ty; print(ty.doctor())"], text=True,
                          capture_output=True, timeout=60,
                          env=os.environ | {"TILERY_TIMEOUT_S": "soon"}).stdout
    assert "TILERY_TIMEOUT_S" in text and "wrong: " in text and "InternalError" not in text


def test_of_a_world_that_failed(compiled):
    kernel = make("""@ty.jit
def kernel(n):
    tl.device_assert(dl.rank() < n, "never")
""")
    texts = []

    def body():
        for attempt in (lambda: kernel[(1,)](0), ty.barrier):
            try:
                attempt()
            except ty.Error as error:
                texts.append(str(error))
    with pytest.raises(ty.Error):
        ty.spawn(lambda: [body(), ty.barrier()], ranks=2)
    assert any("this world failed earlier: " in text for text in texts), texts
