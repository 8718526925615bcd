// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the front end refuses, and in which words: a row for each message.
#include "compiler/Frontend/Generator.h"
#include "compiler/Support/Diagnostic.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

namespace tilery::frontend {
namespace {

ParameterSpec spec(ElementType::Kind kind, DType type) {
  ParameterSpec made;
  made.element = {kind, type};
  return made;
}

const char *const head = "import tilery as ty\n"
                         "import tilery.language as tl\n"
                         "import tilery.language.device as dl\n"
                         "from typing import NamedTuple\n\n";

/// The error of `text`, whose kernel takes a pointer to fp32, an int32 and a signal.
std::string errorOf(const std::string &text) {
  try {
    auto module = Module::fromText("kernel.py", head + text);
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    generateKernel(context, {module->function("kernel"), module},
                   {spec(ElementType::Kind::Pointer, DType::FP32),
                    spec(ElementType::Kind::Scalar, DType::Int32),
                    spec(ElementType::Kind::Signal, DType::UInt64)});
  } catch (const CompileError &error) {
    return error.render();
  }
  return "no error";
}

std::string inBody(const std::string &lines) {
  std::string text = "@ty.jit\ndef kernel(x, n, ready):\n    ";
  for (char c : lines)
    text += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return text + "\n";
}

struct Refusal {
  const char *source, *message;
};

class InABody : public testing::TestWithParam<Refusal> {};
TEST_P(InABody, IsRefused) {
  std::string error = errorOf(inBody(GetParam().source));
  EXPECT_NE(error.find(GetParam().message), std::string::npos) << error;
}

const Refusal calls[] = {
    {"f = lambda a: a\ny = f(a=1)", "a lambda takes no keywords"},
    {"f = lambda a: a\ny = f(1, 2)", "this lambda takes 1 arguments, not 2"},
    {"y = tl.float32(1, 2)", "a type converts one value"},
    {"y = n()", "cannot be called"},
    {"y = tl.program_id(0, 1, 2)", "takes at most 1 arguments, not 3"},
    {"y = tl.program_id(0, axis=1)", "is given twice"},
    {"y = tl.program_id()", "'program_id' needs the argument 'axis'"},
    {"y = tl.program_id(axes=0)", "'program_id' has no argument 'axes'"},
    {"y = tl.program_id(3)", "a grid has the axes 0, 1 and 2, not 3"},
    {"y = max()", "max needs a value"},
    {"y = tl.multiple_of(tl.arange(0, 8), (1, 2))", "needs one value for each dimension"},
    {"y = tl.maximum(n, 1, propagate_nan=3)",
     "propagate_nan takes tl.PropagateNan.NONE or ALL, not"},
    {"y = tl.abs(x)", "tl.abs needs numbers, not"},
    {"tl.atomic_add(x, 1.0, sem=\"strong\")",
     "sem is \"relaxed\", \"acquire\", \"release\" or \"acq_rel\", not \"strong\""},
    {"dl.wait(ready, cmp=dl.SignalOp.SET)", "takes a dl.Compare, not dl.SignalOp.SET"},
    {"tl.assume(tl.arange(0, 8) > 0)", "tl.assume takes one condition, not int1"},
};
const Refusal expressions[] = {
    {"y = n is x", "'is' compares constants only, not"},
    {"if x:\n    pass", "is neither true nor false"},
    {"y = x.to(tl.float32)", "can only become int64 or another pointer"},
    {"y = tl.arange(0, 8)[1:2]", "only the full slice ':' can index a tile"},
    {"y = (1, 2)[0, 1]", "a tuple takes one index, not 2"},
    {"y = None[0]", "cannot be indexed"},
    {"y = [*n][0]", "not"},
};
const Refusal statements[] = {
    {"for i in n:\n    pass",
     "a loop runs over range, tl.range, tl.static_range or a tuple, not over"},
    {"for i in tl.static_range(0, 5000):\n    pass",
     "tl.static_range unrolls more than 4096 turns"},
    {"for i range(3):\n    pass", "expected 'in' after the loop variable"},
    {"if n:\npass", "expected an indented block after"},
    {"y = 1 2", "unexpected '2' after a statement"},
    {"(a, b) += 1", "only a name can stand before an augmented assignment"},
    {"y = 1 if n", "expected 'else' in a conditional expression"},
    {"y = )", "expected an expression, not ')'"},
    {"y =", "expected an expression"},
    {"tl.static_print(f\"{n\")", "'{' without '}' in an f-string"},
    {"y = n ? 1", "the character '?' has no meaning here"},
    {"y = *n", "'*' can stand only before an argument or element"},
    {"    y = 1\n  z = 2", "this line's indentation matches no enclosing block"},
};
const char *const block = "b = tl.make_block_ptr(x, (8,), (1,), (0,), (8,), (0,))\n";
const Refusal memory[] = {
    {"tl.store(x, tl.zeros((8,), tl.float32))", "the pointers must have the value's shape"},
    {"b = tl.make_block_ptr(x, (8, 8), (8,), (0, 0), (8, 8), (1, 0))",
     "needs a shape, strides and a block of one length"},
    {"b = tl.make_block_ptr(x, (8, 8), (8, 1), (0,), (8, 8), (1, 0))",
     "tl.make_block_ptr needs as many offsets as dimensions"},
    {"b = tl.make_tensor_descriptor(x, [], [], [])",
     "tl.make_tensor_descriptor needs at least one dimension"},
    {"y = tl.advance(x, (1,))", "tl.advance needs a block pointer, not"},
    {"d = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [8, 8])\ny = d.load([0])",
     "this descriptor needs 2 offsets, not 1"},
};
const Refusal tiles[] = {
    {"tl.reduce(tl.arange(0, 8), 0, lambda a, b: a.to(tl.float32))",
     "the combine function must give int32, not"},
    {"tl.sum(n, 0)", "a scalar has no axis to reduce"},
    {"tl.cumsum(n)", "a scalar has no axis to scan"},
    {"tl.reduce((tl.arange(0, 8), tl.arange(0, 16)), 0, lambda a, b, c, d: (a, b))",
     "tiles that are combined together must have one shape"},
    {"y = tl.arange(0, 2097152)", "tl.arange is limited to 1048576 elements within int32"},
    {"y = tl.full((8,), tl.arange(0, 8), tl.int32)", "tl.full needs a scalar, not"},
    {"y = tl.gather(tl.zeros((8, 8), tl.float32), tl.arange(0, 8), 0)",
     "the index of tl.gather must have the source's number of dimensions"},
    {"y = tl.gather(tl.zeros((8, 8), tl.float32), tl.zeros((8, 16), tl.int32), 0)",
     "the source and index of tl.gather differ in dimension 1"},
    {"y = tl.histogram(tl.zeros((8,), tl.float32), 4)",
     "tl.histogram needs a one-dimensional tile of integers, not"},
};
const Refusal products[] = {
    {"a = tl.zeros((16, 16), tl.float32)\ny = tl.dot(a, a, input_precision=\"fast\")",
     "input_precision is \"tf32\", \"tf32x3\" or \"ieee\", not \"fast\""},
    {"y = tl.dot(tl.zeros((16, 16), tl.float32), tl.zeros((32, 16), tl.float32))",
     "the inner extents 16 and 32 differ"},
    {"y = tl.dot(tl.zeros((2, 16, 16), tl.float32), tl.zeros((4, 16, 16), tl.float32))",
     "the batch extents differ"},
    {"a = tl.zeros((16, 16), tl.int32)\ny = tl.dot(a, a)",
     "tl.dot multiplies floats and 8-bit integers, not"},
    {"a = tl.zeros((16, 16), tl.uint8)\ny = tl.dot(a, a)", "tl.dot multiplies int8, not uint8"},
    {"a = tl.zeros((16, 16), tl.float32)\ny = tl.dot(a, a, acc=tl.zeros((8, 16), tl.float32))",
     "where the product is"},
};
INSTANTIATE_TEST_SUITE_P(Calls, InABody, testing::ValuesIn(calls));
INSTANTIATE_TEST_SUITE_P(Expressions, InABody, testing::ValuesIn(expressions));
INSTANTIATE_TEST_SUITE_P(Statements, InABody, testing::ValuesIn(statements));
INSTANTIATE_TEST_SUITE_P(Memory, InABody, testing::ValuesIn(memory));
INSTANTIATE_TEST_SUITE_P(Tiles, InABody, testing::ValuesIn(tiles));
INSTANTIATE_TEST_SUITE_P(Products, InABody, testing::ValuesIn(products));

TEST(Refusals, OfBlockPointers) {
  const Refusal rows[] = {
      {"y = tl.load(b, boundary_check=(0,), padding_option=\"one\")",
       "padding_option is \"zero\" or \"nan\", not \"one\""},
      {"y = tl.load(b, mask=n > 0)", "tl.load of a block pointer takes no mask"},
      {"tl.store(b, tl.zeros((8,), tl.float32), mask=n > 0)",
       "tl.store to a block pointer takes no mask"},
  };
  for (const Refusal &row : rows) {
    std::string error = errorOf(inBody(std::string(block) + row.source));
    EXPECT_NE(error.find(row.message), std::string::npos) << error;
  }
}

TEST(Refusals, OfWholeFiles) {
  const std::string pass = inBody("pass");
  const std::string pair = "class Pair(NamedTuple):\n    a: int\n    b: int\n\n";
  const std::pair<std::string, const char *> rows[] = {
      {"@ty.jit\ndef kernel(x, n):\n    pass\n", "has 2 parameters, but 3 arguments are given"},
      {"@ty.jit\ndef kernel(x, x, ready):\n    pass\n", "parameter 'x' is named twice"},
      {"A = B\nB = A\n" + inBody("y = A"), "the value of 'A' depends on itself"},
      {pair + inBody("y = Pair(1, 2, 3)"), "'Pair' has 2 fields, but 3 values are given"},
      {pair + inBody("y = Pair(1, c=2)"), "'Pair' has no field 'c'"},
      {pair + inBody("y = Pair(1, a=2)"), "field 'a' of 'Pair' is given twice"},
      {pair + inBody("y = Pair(1)"), "'Pair' needs the field 'b'"},
      {"LIMIT: int\n" + inBody("y = LIMIT"), "'LIMIT' has no value that a kernel can use"},
  };
  for (const auto &[text, message] : rows)
    EXPECT_NE(errorOf(text).find(message), std::string::npos) << message << "\n" << errorOf(text);
}

} // namespace
} // namespace tilery::frontend
