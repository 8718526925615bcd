// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The front end: what kernels become, and the text of each located error.
#include "compiler/Frontend/Generator.h"

#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

using namespace tilery;
using namespace tilery::frontend;

namespace {

ParameterSpec pointer(DType type) {
  ParameterSpec spec;
  spec.element = {ElementType::Kind::Pointer, type};
  return spec;
}
ParameterSpec scalar(DType type) {
  ParameterSpec spec;
  spec.element = {ElementType::Kind::Scalar, type};
  return spec;
}
ParameterSpec symmetric(DType type) {
  ParameterSpec spec;
  spec.element = {ElementType::Kind::Symmetric, type};
  return spec;
}
ParameterSpec signal() {
  ParameterSpec spec;
  spec.element = {ElementType::Kind::Signal, DType::UInt64};
  return spec;
}

const char *const head = "import tilery as ty\n"
                         "import tilery.language as tl\n"
                         "import tilery.language.device as dl\n\n";

/// IR text of `kernel` in a module with the usual imports, or the error.
std::string generate(const std::string &body, const std::vector<ParameterSpec> &specs,
                     const std::string &name = "kernel") {
  try {
    auto module = Module::fromText("kernel.py", head + body);
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    GeneratedKernel kernel = generateKernel(context, {module->function(name), module}, specs);
    if (mlir::verify(*kernel.module).failed())
      return "invalid IR";
    std::string text;
    llvm::raw_string_ostream(text) << *kernel.module;
    for (const std::string &warning : kernel.warnings)
      text += warning;
    return text;
  } catch (const CompileError &error) {
    return error.render();
  }
}

/// A kernel(x, n) with the given body lines.
std::string body(const std::string &lines) {
  std::string text = "@ty.jit\ndef kernel(x, n):\n";
  size_t begin = 0;
  while (begin < lines.size()) {
    size_t end = std::min(lines.find('\n', begin), lines.size());
    text += "    " + lines.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text;
}

std::string run(const std::string &lines) {
  return generate(body(lines), {pointer(DType::FP32), scalar(DType::Int32)});
}

#define EXPECT_HAS(text, part)                                                                     \
  EXPECT_NE((text).find(part), std::string::npos) << "no \"" << (part) << "\" in\n" << (text)

TEST(Frontend, StoresATile) {
  std::string text = run("i = tl.program_id(0) * 64 + tl.arange(0, 64)\n"
                         "tl.store(x + i, i.to(tl.float32), mask=i < n)");
  EXPECT_HAS(text, "core.program_id 0 : i32");
  EXPECT_HAS(text, "core.store");
  EXPECT_HAS(text, "arith.sitofp");
}

TEST(Frontend, ConstantsFold) {
  std::string text = run("tl.static_assert(7 // 2 == 3 and -7 // 2 == -4 and -7 % 3 == 2)\n"
                         "tl.static_assert(2 ** 10 == 1024 and (1 << 4) == 16 and 7 / 2 == 3.5)\n"
                         "tl.static_assert((1, 2)[1] == 2 and not (3 < 2) and 1 < 2 <= 2)\n"
                         "tl.store(x, 6 * 7)");
  EXPECT_HAS(text, "4.200000e+01 : f32");
}

TEST(Frontend, LoopsCarryWhatTheyAssign) {
  std::string text = run("total = 0.0\n"
                         "for i in range(0, n):\n"
                         "    total += tl.load(x + i)\n"
                         "tl.store(x, total)");
  EXPECT_HAS(text, "iter_args");
}

TEST(Frontend, LoopsDownwardsCountTheirTurns) {
  std::string text = run("for i in range(n, 0, -2):\n    tl.store(x + i, 1.0)");
  EXPECT_HAS(text, "arith.divsi");
}

TEST(Frontend, EarlyReturnTakesTheRestIntoTheOtherBranch) {
  std::string text = run("if n > 4:\n    return\ntl.store(x, 1.0)");
  EXPECT_HAS(text, "scf.if");
  EXPECT_HAS(text, "} else {");
}

TEST(Frontend, CallsAreInlinedWithBothPlaces) {
  std::string module = "@ty.jit\ndef twice(v, by: tl.constexpr = 2):\n    return v * by\n\n" +
                       body("tl.store(x, twice(n, by=3).to(tl.float32))");
  std::string text = generate(module, {pointer(DType::FP32), scalar(DType::Int32)});
  EXPECT_HAS(text, "arith.muli");
  EXPECT_EQ(text.find("func.call"), std::string::npos);
}

TEST(Frontend, ModuleConstantsAndChosenFunctions) {
  std::string module = "WIDTH: tl.constexpr = 8 * 4\n"
                       "@ty.jit\ndef one(v):\n    return v + 1\n"
                       "@ty.jit\ndef two(v):\n    return v + 2\n" +
                       body("f = one if WIDTH > 8 else two\ntl.store(x + tl.arange(0, WIDTH), f(1.0))");
  EXPECT_HAS(generate(module, {pointer(DType::FP32), scalar(DType::Int32)}), "tensor<32x");
}

TEST(Frontend, NamedTuplesOfAFile) {
  std::string module = "from typing import NamedTuple\n"
                       "class Pair(NamedTuple):\n    x: tl.tensor\n    y: int = 2 + 1\n\n" +
                       body("p = Pair(n)\ntl.static_assert(p.y == 3)\n"
                            "tl.store(x, (p.x + Pair(y=1, x=2).y).to(tl.float32))");
  EXPECT_HAS(generate(module, {pointer(DType::FP32), scalar(DType::Int32)}), "arith.addi");
  std::string wrong = module;
  wrong.replace(wrong.find("p.y"), 3, "p.z");
  EXPECT_HAS(generate(wrong, {pointer(DType::FP32), scalar(DType::Int32)}),
             "Pair(int32, int 3) has no attribute 'z'");
}

TEST(Frontend, DeviceLevel) {
  std::string text = generate("@ty.jit\ndef kernel(x, ready):\n"
                              "    peer = (dl.rank() + 1) % dl.num_ranks()\n"
                              "    tl.store(dl.symm_at(x, peer) + tl.arange(0, 4), 1.0)\n"
                              "    dl.notify(ready, peer, signal=1, sig_op=\"add\")\n"
                              "    dl.wait(ready, waitValue=1, cmp=dl.Compare.GE)\n",
                              {symmetric(DType::FP32), signal()});
  EXPECT_HAS(text, "device.symm_at");
  EXPECT_HAS(text, "device.notify");
  EXPECT_HAS(text, "!core.ptr<f32, remote>");
}

// ---- errors -------------------------------------------------------------------------------------

TEST(FrontendErrors, CaretUnderTheName) {
  EXPECT_EQ(run("y = tl.load(x + offset)"),
            "kernel.py:7:21: error: the name 'offset' is not defined\n"
            "    y = tl.load(x + offset)\n"
            "                    ~~~~~~");
}

TEST(FrontendErrors, NearestNames) {
  EXPECT_HAS(run("tl.stor(x, 1.0)"), "'tilery.language' has no attribute 'stor'");
  EXPECT_HAS(run("tl.stor(x, 1.0)"), "hint: did you mean 'store'?");
  EXPECT_HAS(run("tl.load(x, msk=n > 0)"), "hint: did you mean 'mask'?");
}

TEST(FrontendErrors, AVariableKeepsOneType) {
  std::string text = run("y = tl.zeros((4,), tl.float32)\n"
                         "for i in range(0, n):\n"
                         "    y = tl.zeros((8,), tl.float32)\n");
  EXPECT_HAS(text, "kernel.py:9:9: error: 'y' is fp32[4] before the loop and fp32[8] after one turn");
  EXPECT_HAS(text, "kernel.py:7:5: note: its value before the loop");
  text = run("if n > 0:\n    y = n\nelse:\n    y = tl.load(x)\ntl.store(x, y)");
  EXPECT_HAS(text, "'y' is int32 when the condition holds and fp32 otherwise");
}

TEST(FrontendErrors, NamesThatMayHaveNoValue) {
  std::string text = run("if n > 0:\n    y = 1.0\ntl.store(x, y)");
  EXPECT_HAS(text, "kernel.py:9:17: error: 'y' may have no value here");
  EXPECT_HAS(text, "note: it is assigned only on this path");
}

TEST(Frontend, OnlyOneSideOfAnExpressionTouchesMemory) {
  std::string text = run("y = tl.load(x + n) if n > 0 else 0.0\ntl.store(x, y)");
  EXPECT_LT(text.find("scf.if"), text.find("core.load")) << text;
  text = run("if n > 0 and tl.load(x + n) > 0:\n    tl.store(x, 1.0)");
  EXPECT_LT(text.find("scf.if"), text.find("core.load")) << text;
}

TEST(FrontendErrors, ALoopVariableEndsWithItsLoop) {
  EXPECT_HAS(run("i = 5\nfor i in range(0, n):\n    pass\ntl.store(x + i, 1.0)"),
             "'i' may have no value here");
}

TEST(FrontendErrors, SayWhatToWriteInstead) {
  EXPECT_HAS(run("while n > 0:\n    break"), "'break' is not part of the kernel language\n");
  EXPECT_HAS(run("y = [i for i in range(4)]"), "comprehensions are not part of the kernel language");
  EXPECT_HAS(run("for 5 in range(n):\n    pass"), "only names and tuples of names can be assigned to");
  EXPECT_HAS(run("y = n[:, None]"), "too many indices: the tile has 0 dimensions");
  EXPECT_HAS(run("x[0] = 1"), "only names and tuples of names can be assigned to");
  EXPECT_HAS(run("y = tl.arange(0, 48)"), "needs a power of two of elements, but from 0 to 48 there are 48");
  EXPECT_HAS(run("if tl.arange(0, 4) > 2:\n    pass"), "the condition of an if must be a scalar");
  EXPECT_HAS(run("return n"), "a kernel returns nothing");
  EXPECT_HAS(run("y = tl.load(n)"), "tl.load needs a pointer, not int32");
  EXPECT_HAS(run("y = tl.arange(0, 4) + tl.arange(0, 8)"), "tiles of shapes [4] and [8] do not go together");
  EXPECT_HAS(run("for i in range(0, n):\n    if i > 2:\n        return"),
             "return cannot leave a loop that runs on the device");
  EXPECT_HAS(run("y = 1 // 0"), "division by zero in a constant");
  EXPECT_HAS(run("y = x * 2"), "operator '*' does not go with pointer<fp32> and int 2");
  EXPECT_HAS(run("y = tl.load(x) & 1"), "operator '&' needs integers, not fp32");
  EXPECT_HAS(run("y = (1 +"), "this bracket is never closed");
  EXPECT_HAS(run("y = 'abc"), "this string is never closed");
}

// Cases 4, 5 and 10 from the field, and the scope of case 1.
TEST(FrontendErrors, SignalsAndRemotePointersAreTypesOfTheirOwn) {
  auto device = [](const std::string &line) {
    return generate("@ty.jit\ndef kernel(x, s, y):\n    " + line + "\n",
                    {symmetric(DType::FP32), signal(), pointer(DType::Int64)});
  };
  EXPECT_HAS(device("dl.wait(y, waitValue=1)"), "dl.wait needs a signal, not pointer<int64>");
  EXPECT_HAS(device("dl.wait(s, cmp=dl.SignalOp.SET)"), "cmp of dl.wait takes a dl.Compare, not dl.SignalOp.SET");
  EXPECT_HAS(device("dl.notify(s, 0, sig_op=dl.Compare.EQ)"), "sig_op of dl.notify takes a dl.SignalOp");
  EXPECT_HAS(device("dl.symm_at(dl.symm_at(x, 0), 1)"), "it is already an address on another rank");
  EXPECT_HAS(device("dl.symm_at(y, 0)"), "memory that is not in the symmetric heap");
  EXPECT_HAS(device("tl.load(s)"), "tl.load cannot access a signal");
  EXPECT_HAS(device("tl.atomic_add(dl.symm_at(x, 0), 1.0, scope=\"gpu\")"),
             "warning: scope \"gpu\" on symmetric memory");
}

TEST(FrontendErrors, ConstantsDoNotDependOnTheKernel) {
  EXPECT_HAS(generate("BAD = tl.program_id(0) + 1\n" + body("tl.store(x, BAD)"),
                      {pointer(DType::FP32), scalar(DType::Int32)}),
             "this value exists only while a kernel runs");
  EXPECT_HAS(generate("@ty.jit\ndef twice(v):\n    return v * 2\n\nFOUR = twice(2)\n" +
                          body("tl.store(x, FOUR)"),
                      {pointer(DType::FP32), scalar(DType::Int32)}),
             "4.000000e+00 : f32");
}

TEST(FrontendErrors, HostileInputIsAnError) {
  EXPECT_HAS(run("y = " + std::string(5000, '(') + "1" + std::string(5000, ')')), "nested more than 200");
  EXPECT_HAS(run("y = 99999999999999999999999999999999999999999999"), "does not fit 64 bits");
  EXPECT_HAS(run("y = 2 ** 70"), "does not fit 64 bits");
  EXPECT_HAS(generate("@ty.jit\ndef kernel(x):\n    kernel(x)\n", {pointer(DType::FP32)}),
             "calls are nested more than 64 deep");
}

} // namespace
