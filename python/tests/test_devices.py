# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Devices from Python: where a launch goes, arrays of other libraries, code for absent machines.

Without a GPU the driver is a fake library that records launches and runs no kernel; each test is a
process of its own, because the driver is opened once.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from backends import require_device, require_library
from kernel_text import make

import tilery as ty
from tilery import _capi

PRELUDE = '''
import ctypes, os, sys
import numpy as np
import tilery as ty
from kernel_text import make
from tilery import _capi, devices

fake = ctypes.CDLL(os.environ["TILERY_CUDA_LIBRARY"])
fake.fake_cuda_calls.restype = ctypes.c_char_p

class Launch(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_char_p), ("grid", ctypes.c_uint32 * 3),
                ("threads", ctypes.c_uint32), ("shared_bytes", ctypes.c_uint32),
                ("cluster", ctypes.c_uint32 * 3), ("stream", ctypes.c_void_p),
                ("parameters", ctypes.POINTER(ctypes.c_uint8)), ("parameter_bytes", ctypes.c_int32)]

fake.fake_cuda_launch_at.restype = Launch

def last():
    return fake.fake_cuda_launch_at(fake.fake_cuda_launch_count() - 1)

def pointer(at=0):
    """The parameter at that byte."""
    return int.from_bytes(bytes(last().parameters[at:at + 8]), "little")

kernel = make("""@ty.jit
def kernel(x, y, n):
    tl.store(x, tl.load(y) + n)
""")
x, y = (ty.zeros(64, ty.float32, device="cuda") for _ in range(2))

def message(action):
    try:
        action()
    except ty.Error as error:
        return f"{type(error).__name__}: {error}"
'''


def fake(code: str, **given) -> str:
    """What `code` prints in a process whose GPU is the fake one."""
    require_library()
    library = _capi.find().parent / "libfake_cuda.so"
    if not library.exists():
        pytest.skip("the fake driver is not built")
    environment = os.environ | {"TILERY_CUDA_LIBRARY": str(library), "TILERY_INTERPRET": "0",
                                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)} | given
    done = subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(code)], env=environment,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_code_can_be_made_for_an_older_gpu():
    assert fake('''
        kernel[(1,)](x, y, 5)
        print(devices.properties(devices.number("cuda"))["target"], ".target sm_86" in kernel.asm["ptx"])
''', TILERY_GPU_ARCH="sm_86") == "sm_86 True\n"


def test_a_kernel_runs_where_its_arguments_are():
    assert fake('''
        kernel[(3, 2)](x, y, 5, num_warps=8, stream=4096)
        launch = last()
        print(launch.kernel.decode(), list(launch.grid), launch.threads, launch.stream)
        print(pointer() == x.address, pointer(8) == y.address)
        host = np.zeros(4, np.float32)
        kernel[(1,)](host, host + 2, 5)
        print(host[0], fake.fake_cuda_launch_count())
    ''').splitlines() == ["kernel [3, 2, 1] 256 4096", "True True", "7.0 1"]


def test_checks_get_the_extents_of_arguments():
    """Behind the arguments (x, y: 8 bytes each, n: 4), where the context is without them."""
    assert fake('''
        kernel[(1,)](x, y, 5)
        print(last().parameter_bytes)
        kernel[(1,)](x, y, 5, check_bounds=True)
        print(last().parameter_bytes, pointer(20), pointer(28))

        class Tensor:  # as torch's: data_ptr, element_size, strides
            dtype, shape, device = ty.float32, (4, 8), type("Device", (), {"type": "cuda", "index": 0})()
            data_ptr = lambda self: x.address
            element_size = lambda self: 4
            stride = lambda self: (12, 1)
        kernel[(1,)](Tensor(), y, 5, check_bounds=True)
        print(pointer(20), pointer(28))  # in the order of the accesses: y first
    ''').splitlines() == ["28", "44 256 256", f"256 {4 * (3 * 12 + 8)}"]


def test_arguments_on_two_devices_are_refused():
    assert fake('''
        print(message(lambda: kernel[(1,)](x, np.zeros(4, np.float32), 5)))
    ''') == ("LaunchError: argument 'x' of 'kernel' is in memory of cuda:0, argument 'y' in memory "
             "of the host\nhint: copy one of them; a kernel runs where all of its arrays are\n")


def test_arrays_of_other_libraries():
    assert fake('''
        class Interface:
            def __init__(self, facts):
                self.__cuda_array_interface__ = facts

        class Dlpack:
            def __dlpack_device__(self):
                return x.__dlpack_device__()
            def __dlpack__(self, **options):
                return x.__dlpack__()

        facts = dict(x.__cuda_array_interface__, data=(x.address + 16, False), shape=(60,))
        for value in (Interface(facts), Dlpack()):
            kernel[(1,)](value, y, 1)
            print(pointer() - x.address)
        print(message(lambda: kernel[(1,)](Interface(dict(facts, typestr="<c8")), y, 1)))
        print(message(lambda: kernel[(1,)](Interface(dict(facts, typestr=">i4")), y, 1)))
        print(message(lambda: kernel[(1,)](Interface(dict(facts, strides=(4, 4))), y, 1)))
        print(message(lambda: kernel[(1,)](Interface(dict(facts, data=(4096, False))), y, 1)))
        print(message(lambda: kernel[(1,)](Interface(dict(facts, data=(x.address, True))), y, 1)))
        for bad in ({}, 5, dict(facts, data=None), dict(facts, shape=3), dict(facts, strides=5), dict(facts, shape=("x",))):
            print(message(lambda: kernel[(1,)](Interface(bad), y, 1)).split(" that is ")[0])
    ''').splitlines() == [
        "16", "0",
        "LaunchError: argument 'x' has element type <c8, which kernels do not know",
        "LaunchError: argument 'x' has the other byte order (>i4)",
        "LaunchError: argument 'x' says by __cuda_array_interface__ that it has shape [60] and strides "
        "[4, 4], which have different lengths",
        "LaunchError: argument 'x' says that 0x1000 is a device's memory, but no device that tilery "
        "can use has it; see tilery doctor",
        "LaunchError: argument 'x' of 'kernel' is read-only, but the kernel writes it",
        "hint: pass a writable copy",
        *["LaunchError: argument 'x' has a __cuda_array_interface__"] * 6]


def test_arrays_of_our_own():
    assert fake('''
        a = ty.zeros((2, 3), "int32", device="cuda:1").copy_from([[1, 2, 3], [4, 5, 6]])
        print(a.numpy().tolist(), a.device, a.strides, len(a), a)
        capsule = a.__dlpack__()
        del capsule
        print(message(lambda: ty.zeros(4, "int32", device="cuda:7")))
        print(message(lambda: ty.zeros(4, None, device="cuda")))
        fake.fake_cuda_reset()
        del a
        print(fake.fake_cuda_calls().decode().split().count("cuMemFree_v2"))
    ''').splitlines() == [
        "[[1, 2, 3], [4, 5, 6]] 2 (3, 1) 2 DeviceArray('tensor', int32[2, 3])",
        "ConfigError: there is no device 'cuda:7': the driver 'cuda' has 2 devices",
        "LaunchError: 'tensor' needs an element type, such as ty.float32, not None", "1"]


def test_ranks_on_one_device():
    assert fake('''
        def body():
            mine = ty.zeros(4, "float32")
            mine[1] = 3.0
            kernel[(1,)](mine, mine, ty.rank())
            ty.barrier()
            return mine.numpy().tolist(), mine.__cuda_array_interface__["data"][0] == mine.address

        print(ty.spawn(body, ranks=2, device="cuda", heap_bytes=1 << 20))
        print(message(lambda: ty.spawn(body, ranks=2, device="cuda", seed=1)))
    ''').splitlines() == [
        "[([0.0, 3.0, 0.0, 0.0], True), ([0.0, 3.0, 0.0, 0.0], True)]",
        "ConfigError: a world on a device has no seed and no delay: the device chooses its schedule"]


def test_doctor_lists_devices():
    report = json.loads(fake('print(_capi.text_from("doctor"))'))
    nvidia = next(target for target in report["targets"] if target["name"] == "nvidia")
    assert nvidia["found"] and [d["name"] for d in nvidia["devices"]] == ["Fake GPU 0", "Fake GPU 1"]
    assert nvidia["devices"][0]["target"] == "sm_90a"
    assert nvidia["devices"][0]["processors"] == 132


def test_code_for_a_machine_that_is_not_there(compiled):
    kernel = make("@ty.jit\ndef kernel(x):\n    tl.store(x, 1.0)\n")
    x = np.zeros(4, np.float32)
    text = kernel.warmup(x, target="sm_90a")["ptx"]
    assert ".target sm_90a" in text and ".entry kernel" in text
    assert kernel.ir["core"] and kernel.ir["simt"]
    metadata = json.loads(kernel.asm["metadata"])
    assert metadata["threads"] == 128 and metadata["cluster"] == [1, 1, 1]
    with pytest.raises(ty.ConfigError, match="a kernel has the stages core, simt, llvm, ptx and "
                                             "metadata, not 'asm'"):
        kernel.asm["asm"]
    with pytest.raises(ty.LaunchError, match="was compiled for '.*' with the option 'target', which "
                                             "only compiles"):
        kernel[(1,)](x, target="sm_90a")
    with pytest.raises(ty.ConfigError, match="there is no target 'sm_9'; the targets are cpu, "):
        kernel.warmup(x, target="sm_9")


def test_without_a_gpu_the_reason_is_said(compiled):
    done = subprocess.run(
        [sys.executable, "-c", "import tilery as ty; ty.zeros(4, 'int32', device='cuda')"],
        env=os.environ | {"TILERY_CUDA_LIBRARY": "none",
                          "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True, text=True, timeout=60)
    assert "driver 'cuda' cannot be used here: switched off by TILERY_CUDA_LIBRARY=none" in done.stderr


@pytest.mark.parametrize("check", [False, True])
def test_an_assertion_on_the_device_names_line_and_instance(check):
    require_device()
    code = f'''
import tilery as ty
from kernel_text import make
kernel = make("""@ty.jit
def kernel(x):
    tl.device_assert(tl.program_id(0) != 3, "three is not allowed")
    tl.store(x, 1)
""")
x = ty.zeros(4, "int32", device="cuda")
kernel[(2,)](x)
ty.synchronize()
try:
    kernel[(5,)](x, debug=True)
    {"raise SystemExit('no error')" if check else "ty.synchronize()"}
except ty.LaunchError as error:
    print(error)
'''
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"TILERY_CHECK": str(int(check)), "TILERY_INTERPRET": "0",
                                            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
    assert "three is not allowed" in done.stdout, done.stdout + done.stderr
    assert "kernel 'kernel', program instance (3, 0, 0)" in done.stdout


def test_tensors_take_the_quick_way_to_the_current_stream():
    """The launch path's own reading of torch's tensors, with a class that behaves like one."""
    assert fake('''
        class Tensor:
            dtype = "torch.float32"
            def __init__(self, address, device=0):
                self.address, self.device = address, device
            def data_ptr(self):
                return self.address
            def get_device(self):
                return self.device
            def is_neg(self):
                return self.address == 0

        launcher = _capi.launcher()
        launcher.register_tensors((Tensor,), {"torch.float32": 11}, lambda index: 4096 + index,
                                  devices.number("cuda"))
        a, b = Tensor(x.address), Tensor(y.address)
        kernel[(1,)](a, b, 5)
        print(last().stream, pointer() == x.address, pointer(8) == y.address)
        kernel[(1,)](a, b, 5, stream=64)
        print(last().stream)
        kernel[(1,)](x, y, 5)
        print(last().stream)
        other = ty.zeros(4, "float32", device="cuda:1")
        print(message(lambda: kernel[(1,)](a, other, 5)).splitlines()[0])
        print(message(lambda: kernel[(1,)](Tensor(0), b, 5)).split(";")[0])
        a.dtype = "torch.complex64"
        print(message(lambda: kernel[(1,)](a, b, 5)))
    ''').splitlines() == [
        "4096 True True", "64", "4096",
        "LaunchError: argument 'x' of 'kernel' is in memory of cuda:0, argument 'y' in memory of "
        "cuda:1",
        "LaunchError: argument 'x' is a Tensor",
        "LaunchError: argument 'x' is a Tensor; a kernel takes numbers, arrays (NumPy, DLPack, "
        "torch), tilery tensors, and constants for tl.constexpr parameters"]
