# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: knobs, import time, doctor, decorators, autotuning on one rank."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from backends import require_library
from kernel_text import make
from test_cases_host import python
from test_errors import fails

import tilery as ty
from tilery import knobs
from tilery.errors import KINDS, nearest

ROOT = Path(__file__).resolve().parents[2]


def test_knobs_are_those_of_the_runtime():
    table = ROOT / "runtime/base/knobs.def"
    if not table.exists():
        pytest.skip("an installed package has no runtime sources")
    rows = re.findall(r'TILERY_KNOB\(\w+, (\w+), (\w+), .*, "(.*)"\)', table.read_text())
    kinds = {"Text": str, "Real": float, "Integer": int, "Flag": bool}
    table = {name: (kinds[kind], sentence) for name, kind, sentence in rows}
    assert table == {name: (k.type, k.sentence) for name, k in knobs.KNOBS.items()}


@pytest.mark.parametrize("name,text,value", [
    ("TILERY_TIMEOUT_S", "2.5", 2.5), ("TILERY_HEAP_BYTES", "4k", 4096),
    ("TILERY_INTERPRET", "on", True), ("TILERY_INTERPRET", "0", False),
    ("TILERY_HEAP_BYTES", "2G", 2 << 30), ("TILERY_LOG", "info", "info")])
def test_values_of_knobs(monkeypatch, name, text, value):
    monkeypatch.setenv(name, text)
    assert knobs.get(name) == value


def test_wrong_values_and_names_of_knobs(monkeypatch):
    monkeypatch.setenv("TILERY_TIMEOUT_S", "soon")
    with fails(ty.ConfigError, "TILERY_TIMEOUT_S is 'soon'; it takes a number"):
        knobs.get("TILERY_TIMEOUT_S")
    monkeypatch.setenv("TILERY_INTERPRET", "maybe")
    with fails(ty.ConfigError, "it takes 1 or 0"):
        knobs.get("TILERY_INTERPRET")
    monkeypatch.setenv("TILERY_TIMEOUT", "1")
    text = "TILERY_TIMEOUT is ignored; did you mean 'TILERY_TIMEOUT_S'"
    with pytest.warns(UserWarning, match=text):
        knobs.warn_unknown()


@pytest.mark.parametrize("name,text,wanted", [
    ("TILERY_LOG", "loud", "debug, info, warning, error or off"),
    ("TILERY_TIMEOUT_S", "nan", "a number of seconds"), ("TILERY_TIMEOUT_S", "-1", "a number of"),
    ("TILERY_SEED", "-7", "0 or more, or -1"), ("TILERY_HEAP_BYTES", "0", "1 or more"),
    ("TILERY_HEAP_BYTES", "-1", "1 or more"), ("TILERY_HEAP_BYTES", "1_0", "a whole number"),
    ("TILERY_HEAP_BYTES", "9999999999G", "a whole number"), ("TILERY_SPIN_US", "-5", "0 or more")])
def test_values_out_of_range(monkeypatch, name, text, wanted):
    monkeypatch.setenv(name, text)
    with fails(ty.ConfigError, f"{name} is '{text}'", wanted):
        knobs.get(name)


def test_a_wrong_knob_is_reported_by_the_library():
    require_library()
    code = '''
from tilery import _capi
assert _capi.library().tilery_doctor() is None
print(_capi.message())
'''
    for name in ("TILERY_LOG", "TILERY_TIMEOUT_S"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={**os.environ, name: "loud"})
        assert f"{name} is 'loud', which is not" in done.stdout, done.stderr


def test_only_knobs_reads_the_environment():
    for file in (ROOT / "python/tilery").rglob("*.py"):
        if file.name != "knobs.py":
            code = re.sub(r'""".*?"""|#.*', "", file.read_text(), flags=re.S)
            assert "os.environ" not in code and "getenv" not in code, file


def test_import_loads_nothing_heavy():
    code = "import sys, tilery; print([m for m in ('numpy', 'ml_dtypes', 'greenlet', 'torch') " \
           "if m in sys.modules])"
    assert python(code, interpret=False).stdout.strip() == "[]"
    code = code.replace("tilery;", "tilery, tilery.language;")
    assert python(code, interpret=False).stdout.strip() == "['numpy']"


MISSING = """
import sys
sys.modules['greenlet'] = sys.modules['ml_dtypes'] = None  # as if not installed
import numpy as np, tilery as ty, tilery.language as tl, tilery.language.device as dl
"""


def test_compiled_kernels_need_numpy_alone(compiled):
    code = MISSING + """
from tilery.selftest import swap
def body():
    theirs = ty.zeros(8, 'fp32')
    swap[(1,)](np.full(8, ty.rank(), np.float32), theirs, ty.signals(1), 8)
    return float(theirs.numpy()[0])
print(ty.spawn(body, ranks=2))
"""
    done = python(code, interpret=False)
    assert done.stdout.strip() == "[1.0, 0.0]", done.stderr


@pytest.mark.parametrize("line,text", [
    ("ty.spawn(ty.rank, ranks=1)", "the interpreter needs the package 'greenlet'"),
    ("tl.bfloat16.numpy", "NumPy arrays of bf16 need the package ml_dtypes")])
def test_missing_packages_are_named(line, text):
    done = python(MISSING + f"try: {line}\nexcept ty.ConfigError as error: print(error)",
                  interpret=True)
    assert text in done.stdout, done.stderr


def test_the_environment_chooses_the_interpreter():
    code = "import tilery as ty; print(ty.interpreting())"
    assert python(code, interpret=True).stdout.strip() == "True"
    assert python(code, interpret=False).stdout.strip() == "False"


def test_error_kinds():
    names = ["CompileError", "ConfigError", "TargetError", "LaunchError", "PeerError",
             "WaitTimeout", "InternalError"]
    assert [kind.__name__ for kind in KINDS[1:]] == names
    assert all(issubclass(getattr(ty, name), ty.Error) for name in names)
    assert nearest("zzz", ["alpha", "beta"]) == "known names: alpha, beta"


def test_doctor():
    report = ty.doctor()
    assert report["self_test"]["interpret"] == "passed"
    assert report["library"]["found"] or report["library"]["why"]
    assert report["self_test"]["cpu"] in ("passed", "skipped: no library")
    assert "TILERY_JOB_TOKEN" not in str(report)


def test_a_missing_library_is_explained(tmp_path):
    code = "import tilery as ty\ntry: ty.init()\nexcept ty.ConfigError as e: print(e)"
    done = python(code, interpret=False, TILERY_LIBRARY=str(tmp_path / "no.so"))
    assert re.search("libtilery.so was not found .*no.so.*ty.interpret", done.stdout), done.stderr


def test_public_names():
    for name in dir(ty):
        getattr(ty, name) if name != "ops" else None
    with pytest.raises(AttributeError, match="no attribute 'zeroes'"):
        ty.zeroes
    assert ty.cdiv(10, 4) == 3 and ty.next_power_of_2(17) == 32


FILL = '''@ty.jit
def kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, BLOCK, mask=at < n)
'''


def test_autotune_on_one_rank(backend):
    runs = []
    configs = [ty.Config({"BLOCK": b}, pre_hook=lambda named: runs.append(named["BLOCK"]))
               for b in (8, 16)]
    kernel = ty.autotune(configs, key=["n"], warmup=1, rep=1)(make(FILL))
    x = np.zeros(32, np.int32)
    for _ in range(2):
        kernel[lambda meta: (ty.cdiv(meta["n"], meta["BLOCK"]),)](x, 32)
        assert (x == kernel.best_config.kwargs["BLOCK"]).all()
    assert runs.count(8) >= 2 and runs.count(16) >= 2 and len(runs) <= 6


def test_autotune_puts_arrays_back(backend):
    kernel = ty.autotune([ty.Config({"BLOCK": b}) for b in (4, 8)], key=["n"],
                         restore_value=["x"])(make('''@ty.jit
def kernel(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
'''))
    x = np.zeros(4, np.int32)
    kernel[(1,)](x, 4)
    np.testing.assert_array_equal(x, 1)


def test_autotune_when_nothing_works(backend):
    kernel = ty.autotune([ty.Config({"BLOCK": 8}), ty.Config({"BLOCK": 16})], key=["n"])(
        make(FILL.replace("    at =", '    tl.static_assert(BLOCK < 0, "never")\n    at =')))
    with fails(ty.LaunchError, "no configuration of kernel 'kernel' works", "never"):
        kernel[(1,)](np.zeros(4, np.int32), 4)
    with fails(ty.ConfigError, "no parameter 'm'", "did you mean|known names"):
        ty.autotune([], key=["m"])(make(FILL))


def test_heuristics(backend):
    kernel = ty.heuristics({"BLOCK": lambda named: ty.next_power_of_2(named["n"])})(make(FILL))
    x = np.zeros(6, np.int32)
    kernel[(1,)](x, 6)
    assert (x == 8).all()


def test_warmup_gives_texts(compiled):
    kernel = make(FILL)
    text = kernel.warmup(np.zeros(4, np.int32), 4, BLOCK=4)
    assert "kernel" in text["core"] and "llvm" in text["llvm"]
    assert kernel.ir["core"] == text["core"] and kernel.asm["asm"]
    with fails(ty.ConfigError, "stage|ptx"):
        text["ptx"]


def test_version_of_the_module_is_that_of_the_project():
    text = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{ty.__version__}"' in text
