# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The texts of the reference's errors, one kernel line each, and of host-side errors.

test_errors.py holds both back ends to the same facts; here the reference's wording is fixed.
"""

import re

import numpy as np
import pytest
from kernel_text import make

import tilery as ty
from tilery.language import dtypes

TEXTS = [
    ("tl.program_id(3)", "axis must be 0, 1 or 2, not 3"),
    ("tl.arange(0, n)", "tl.arange needs constants; its arguments must be tl.constexpr"),
    ("tl.arange(4, 4)", "tl.arange needs end > start, got 4 and 4"),
    ("tl.zeros((3, 4), tl.int32)", "shape [3, 4] has 3; extents must be powers of two"),
    ("tl.zeros((4,), 'int33')", "'int33' is not an element type of the kernel language"),
    ("tl.cat(v, v.to(tl.int64))", "tl.cat needs one type, got int32 and int64"),
    ("tl.broadcast_to(v, (4, 2))", "shape [8] does not broadcast to [4, 2]"),
    ("tl.reshape(v, (16,))", "cannot reshape [8] (8 elements) to [16] (16 elements)"),
    ("tl.permute(v, (1, 0))", "[1, 0] is not an order of 1 dimensions"),
    ("tl.split(v)", "tl.split needs a last dimension of 2, got shape [8]"),
    ("v + tl.arange(0, 4)", "shapes [8] and [4] do not broadcast"),
    ("tl.dot(m, m.to(tl.int32))", "tl.dot needs operands of one type, got fp32 and int32"),
    ("tl.dot(m, tl.zeros((8, 4), tl.float32))", "tl.dot: [4, 4] and [8, 4] differ in K (4 and 8)"),
    ("tl.dot(m, m, v)", "tl.dot: the accumulator has shape [8], the product [4, 4]"),
    ("tl.exp(v)", "tl.exp needs floats, not int32; convert with .to(tl.float32)"),
    ("tl.fdiv(v, v)", "tl.fdiv needs floats, not int32"),
    ("tl.umulhi(m, m)", "tl.umulhi needs 32- or 64-bit integers, not fp32"),
    ("tl.next_power_of_2(n)", "tl.next_power_of_2 needs a constant"),
    ("tl.xor_sum(m)", "tl.xor_sum needs integers, not fp32"),
    ("tl.sum(v, axis=1)", "tl.sum: axis 1 does not exist in shape [8]"),
    ("tl.sort(m, dim=0)", "tl.sort sorts the last dimension only"),
    ("v + tl.int32", "expected a value, got the type int32"),
    ("v + 'a'", "expected a number or a tile, got str 'a'"),
    ("v.to(tl.int64, bitcast=True)", "cannot reinterpret int32 as int64: their sizes differ"),
    ("x * 2", "* does not take pointers (*fp32 and int32)"),
    ("v + 2**40", "the literal 1099511627776 is out of range for int32"),
    ("v + 2**70", "the integer 1180591620717411303424 does not fit in 64 bits"),
    ("x + 1.5", "a pointer moves by integers, not by fp32"),
    ("m // m", "// needs integers, not fp32; use / and tl.floor"),
    ("m & m", "& needs integers, not fp32"),
    ("~m", "~ needs integers, not fp32"),
    ("1 if v > 2 else 0", "a tile of shape [8] cannot be used as a condition; combine conditions "
                          "with & and |, choose with tl.where"),
    ("range(m, 4)", "a tile of shape [4, 4] cannot be used as an integer"),
    ("[0][tl.sum(m)]", "a fp32 value cannot be used as an integer"),
    ("v[0]", "a tile is indexed only by ':' and None, not by 0; take elements with tl.gather or a "
             "reduction"),
    ("v // v.to(tl.uint32)", "cannot divide int32 and uint32, which differ in sign; convert one "
                             "with .to()"),
    ("m.to(tl.float8e5) + v", "no common type of fp8e5 and int32; convert one with .to()"),
    ("tl.float32.to(tl.int32)", "fp32 is a type; only values are converted with .to()"),
    ("tl.load(v)", "tl.load reads needs a pointer, got int32"),
    ("tl.load(x + v, mask=m > 0)", "tl.load reads: the mask has shape [4, 4], the pointer [8]"),
    ("tl.load(x, other=v)", "tl.load with `other` needs a mask"),
    ("tl.load(x, mask=True, other=v)", "tl.load: other has shape [8], the pointer []"),
    ("tl.store(x, v)", "tl.store: the value has shape [8], the pointer []"),
    ("tl.atomic_and(x, 1.0)", "tl.atomic_and needs integers, not fp32"),
    ("tl.atomic_add(x, 1.0, scope='world')", 'scope is "cta", "gpu" or "sys", not \'world\''),
    ("tl.where(n > 2, x, 0)", "tl.where needs two values of one type, not *fp32 and int"),
    ("tl.where(n > 2, x, n)", "tl.where needs two values of one type, not *fp32 and int32"),
    ("tl.make_tensor_descriptor(x, [8, 8], [8, 2], [4, 4])",
     "a tensor descriptor needs a last stride of 1, got 2"),
    ("tl.make_tensor_descriptor(x, [8, 8], [1], [4, 4])",
     "tl.make_tensor_descriptor needs a shape, strides and a block of one length"),
    ("tl.make_tensor_descriptor(x, [], [], [])",
     "tl.make_tensor_descriptor needs at least one dimension"),
    ("tl.make_tensor_descriptor(x, 8, [1], [4])", "the shape must be a tuple or list, not int"),
    ("tl.make_tensor_descriptor(x, [8.0], [1], [4])", "the shape must be an integer, not float"),
    ("tl.make_tensor_descriptor(x, [v], [1], [4])", "a tile of shape [8] cannot be used as an integer"),
    ("tl.make_tensor_descriptor(x, [tl.sum(m)], [1], [4])", "a fp32 value cannot be used as an integer"),
    ("tl.make_tensor_descriptor(x + v, [8], [1], [4])",
     "tl.make_tensor_descriptor takes one pointer, not a tile of them"),
    ("tl.make_tensor_descriptor(x, [8], [1], [4], 'inf')",
     'padding_option is "zero" or "nan", not "inf"'),
    ("tl.make_tensor_descriptor(x, [8], [1], [4]).load([0, 0])",
     "this descriptor needs 1 offsets, not 2"),
    ("tl.make_block_ptr(x, (8,), (1,), (0, 0), (4,), (0,))",
     "tl.make_block_ptr needs as many offsets as dimensions"),
    ("tl.advance(tl.make_block_ptr(x, (8,), (1,), (0,), (4,), (0,)), (1, 1))",
     "tl.advance needs 1 offsets, not 2"),
    ("tl.static_range(n)", "tl.static_range needs constants; pass its bounds as tl.constexpr"),
    ("tl.static_assert(False)", "static assertion failed"),
    ("tl.device_assert(n < 0, 'n is large')", "device assertion failed: n is large"),
    ("dl.symm_at(1, 0)", "dl.symm_at needs a pointer"),
    ("dl.symm_at(x, 0)", "dl.symm_at: argument 'x' is not in the symmetric heap; allocate it with "
                         "ty.empty or ty.zeros, or register it with ty.register"),
    ("dl.symm_at(dl.symm_at(y, 0), 0)", "dl.symm_at: 'y' is already a remote pointer (rank 0); "
                                        "translate the local one"),
    ("dl.symm_at(y + v, 0)", "dl.symm_at takes one pointer, not a tile of them; translate the "
                             "base pointer, then add the offsets"),
    ("dl.symm_at(s, 0)", "dl.symm_at does not take signals; dl.notify names the rank itself"),
    ("dl.symm_at(y, 5)", "dl.symm_at: rank 5 does not exist; there are ranks 0 to 0"),
    ("tl.load(s)", "tl.load reads cannot touch a signal; use dl.notify and dl.wait"),
    ("dl.notify(y, 0)", "dl.notify needs a signal, got *fp32; allocate it with ty.signals(n)"),
    ("dl.notify(s + v, 0)", "dl.notify takes one signal, not a tile of [8]"),
    ("dl.notify(s, 0, comm_scope='all')",
     "the scope of dl.notify is one of cta, gpu, sys, instance, device, system, intra_node, "
     "inter_node, not 'all'"),
    ("dl.notify(s, 0, signal=1.5)", "dl.notify needs an integer, got fp32[]"),
    ("dl.notify(s, 0, sig_op='ge')", "sig_op of dl.notify takes one of set, add, not 'ge'"),
    ("dl.notify(s, 0, sig_op=dl.Compare.GE)",
     "sig_op of dl.notify takes a SignalOp, not Compare.GE"),
    ("dl.wait(s, semantic='relaxed')", 'the semantic of dl.wait is "acquire", not \'relaxed\''),
    ("dl.wait(s, 3)", "dl.wait: signals 0 to 2 of argument 's', which has 2"),
    ("dl.put(y, x + v, 1, 0)", "dl.put needs two scalar pointers"),
    ("dl.put(y, s, 1, 0)", "dl.put: the pointers differ in type (*signal and *fp32)"),
    ("dl.put(s, s, 1, 0)", "dl.put does not copy signals; use dl.notify"),
    ("dl.put(y, x, -1, 0)", "dl.put: the element count -1 is negative"),
    ("dl.rank(1)", "dl.rank: axis 1 does not exist in mesh [1]"),
]


@pytest.mark.parametrize("line,text", TEXTS, ids=[line for line, _ in TEXTS])
def test_texts_of_the_reference(interpreted, line, text):
    kernel = make(f"@ty.jit\ndef kernel(x, y, s, n):\n    v = tl.arange(0, 8)\n"
                  f"    m = tl.zeros((4, 4), tl.float32)\n    {line}\n")

    def body():
        kernel[(1,)](np.zeros(8, np.float32), ty.zeros(8, "fp32"), ty.signals(2), 5)
    message, _, hint = text.partition("; ")
    with pytest.raises(ty.Error) as caught:
        ty.spawn(body, ranks=1)
    first = str(caught.value).splitlines()[0]
    assert re.search(r"\.py:5:\d+: error: (.*)", first).group(1) == message
    assert str(caught.value).splitlines()[-1] == f"hint: {hint}" or not hint


def test_a_reference_outside_of_the_literal_range():
    with pytest.raises(ty.CompileError, match="of type list is not a number or a tile"):
        dtypes.of_literal([1])


def test_kernels_that_cannot_be_made():
    with pytest.raises(ty.CompileError, match=r"a kernel takes no \*args; list its parameters"):
        make("@ty.jit\ndef kernel(*args):\n    pass\n")
    scope = {"ty": ty}
    exec("@ty.jit\ndef hidden(x):\n    pass\n", scope)
    with pytest.raises(ty.CompileError, match="the source of kernel 'hidden' is not available"):
        scope["hidden"].source


def test_recursion_between_kernels(compiled):
    kernel = make("@ty.jit\ndef kernel(x):\n    kernel(x)\n")
    with pytest.raises(ty.CompileError, match="kernel 'kernel' calls itself"):
        kernel[(1,)](np.zeros(1, np.float32))
    with pytest.raises(ty.LaunchError, match="'other' was not launched or warmed up yet"):
        make("@ty.jit\ndef other(x):\n    tl.store(x, 1.0)\n", "other").ir["core"]


def test_tensors(backend):
    def body():
        x = ty.zeros((2, 3), "fp32", name="x")
        view = x.reshape(3, 2)
        assert view.shape == (3, 2) and view.address == x.address
        with pytest.raises(ty.LaunchError, match=r"cannot reshape \[2, 3\] to \[4\]"):
            x.reshape(4)
        with pytest.raises(ty.LaunchError, match="'x' is a view; free the tensor"):
            view.free()
    ty.spawn(body, ranks=1)


def test_tensors_of_a_finalized_world(compiled):
    ty.init()
    x = ty.zeros(4, "fp32", name="x")
    ty.finalize()
    with pytest.raises(ty.LaunchError, match="'x' belongs to a world that was finalized"):
        x.numpy()


def test_worlds_of_the_interpreter(interpreted):
    with pytest.raises(ty.ConfigError, match=r"mesh \[3, 2\] has 6 places for 4 ranks"):
        ty.spawn(lambda: None, ranks=4, mesh=[3, 2])
    with pytest.raises(ty.ConfigError, match="the interpreter runs all ranks in one process"):
        ty.init(rank=0, size=2)
    with pytest.raises(ty.LaunchError, match="the interpreter records no timeline"):
        ty.spawn(ty.trace_summary, ranks=1)


def test_what_an_argument_cannot_be(backend):
    kernel = make("@ty.jit\ndef kernel(x):\n    pass\n")

    class Odd:
        """An array that DLPack cannot hand over."""

        def __dlpack__(self, **options):
            raise BufferError("not today")
    with pytest.raises(ty.LaunchError, match="'x' cannot be taken over by DLPack: not today"):
        kernel[(1,)](Odd())


def test_a_compiled_launch_in_an_interpreted_world(interpreted):
    """Inside an interpreted world everything is interpreted, whatever the innermost setting."""
    def body():
        with ty.interpret(False):
            return ty.interpreting()
    assert ty.spawn(body, ranks=1) == [True]


def test_autotune_goes_above_jit():
    with pytest.raises(ty.ConfigError, match="go above ty.jit"):
        ty.autotune([], key=[])(lambda x: None)
    with pytest.raises(ty.ConfigError, match="no option 'reps'; did you mean 'rep'"):
        ty.autotune([], key=[], reps=3)


@pytest.mark.parametrize("call", ["atomic_add(x, True)", "atomic_xchg(x, True)", "atomic_or(x, True)",
                                  "atomic_cas(x, True, False)"])
def test_no_atomics_on_bits(backend, call):
    kernel = make(f"@ty.jit\ndef kernel(x):\n    tl.{call}\n")
    name = call.partition("(")[0]
    with pytest.raises(ty.CompileError, match=rf"(?s):3:\d+: error: tl.{name} cannot update int1.*hint: "
                       "use int8 or a wider type"):
        kernel[(1,)](np.zeros(4, bool))
