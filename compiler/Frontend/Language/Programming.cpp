// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Program ids, ranges, hints, assertions, prints, and Python's own functions.
#include "compiler/Frontend/Generator.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace mlir;

namespace tilery::frontend {

static constexpr const char *language = "tilery.language";

static Value makeRange(Generator &gen, Arguments &args, bool isStatic,
                       std::vector<std::pair<std::string, int64_t>> hints) {
  RangeValue range;
  bool single = args[1].isNone();
  range.bounds = {single ? Value(Int{0}) : args[0], single ? args[0] : args[1],
                  args[2].isNone() ? Value(Int{1}) : args[2]};
  range.isStatic = isStatic;
  range.hints = std::move(hints);
  return std::make_shared<RangeValue>(std::move(range));
}

static Value hintedRange(Generator &gen, Arguments &args) {
  static const char *names[] = {"num_stages", "loop_unroll_factor",
                                "disallow_acc_multi_buffer", "flatten", "warp_specialize",
                                "disable_licm"};
  std::vector<std::pair<std::string, int64_t>> hints;
  for (size_t i = 0; i < std::size(names); ++i)
    if (!args[3 + i].isNone())
      hints.emplace_back(names[i], gen.constantInt(args[3 + i], names[i]));
  return makeRange(gen, args, false, std::move(hints));
}

template <typename Op> static Value programOp(Generator &gen, Arguments &args) {
  int64_t axis = gen.constantInt(args[0], "the axis of a grid");
  if (axis < 0 || axis > 2)
    gen.fail("a grid has the axes 0, 1 and 2, not " + std::to_string(axis));
  Type type = gen.builder.getI32Type();
  return Tile{Op::create(gen.builder, gen.loc(), type, uint32_t(axis)), {}};
}

// multiple_of, max_contiguous, max_constancy: one promise per dimension.
static Value hint(Generator &gen, Arguments &args, const std::string &kind) {
  Tile tile = gen.toTile(args[0]);
  std::vector<Value> listed = args[1].tuple() ? args[1].tuple()->elements : std::vector<Value>{args[1]};
  SmallVector<int32_t> values;
  for (const Value &value : listed)
    values.push_back(int32_t(gen.constantInt(value, "the values of " + kind)));
  if (values.size() != std::max<size_t>(tile.shape().size(), 1))
    gen.fail(kind + " needs one value for each dimension");
  auto of = [&](const char *name) {
    return kind == name ? ArrayRef<int32_t>(values) : ArrayRef<int32_t>();
  };
  return Tile{core::HintOp::create(gen.builder, gen.loc(), tile.value.getType(), tile.value,
                                   of("max_contiguous"), of("multiple_of"), of("max_constancy")),
              tile.element};
}

static std::string joined(const Value &values, const std::string &separator) {
  std::string text;
  for (const Value &value : values.tuple()->elements) {
    auto *string = value.get<std::string>();
    text += (text.empty() ? "" : separator) + (string ? *string : value.describe());
  }
  return text;
}

static Value staticAssert(Generator &gen, Arguments &args) {
  if (args[0].tile())
    gen.fail("tl.static_assert needs a constant, not " + args[0].describe(),
             "use tl.device_assert for values of the kernel");
  if (*gen.unary(UnaryOp::Not, args[0]).get<bool>()) {
    std::string message = gen.constantString(args[1], "the message");
    gen.fail("static assertion failed" + (message.empty() ? "" : ": " + message));
  }
  return None{};
}

static Value deviceAssert(Generator &gen, Arguments &args) {
  Tile condition = gen.truth(args[0]);
  if (!args[2].isNone()) { // holds where the mask is 0
    Tile ignored = gen.truth(gen.unary(UnaryOp::Not, args[2]));
    gen.broadcastTogether(condition, ignored);
    condition = gen.arithmetic(BinaryOp::Or, condition, ignored);
  }
  std::string message = gen.constantString(args[1], "the message");
  if (gen.checks.assertions)
    core::AssertOp::create(gen.builder, gen.loc(), condition.value, message);
  return None{};
}

static Value assume(Generator &gen, Arguments &args) {
  if (!args[0].tile())
    return None{};
  Tile condition = gen.truth(args[0]);
  if (!condition.isScalar())
    gen.fail("tl.assume takes one condition, not " + condition.typeName());
  if (gen.checks.debug)
    core::AssertOp::create(gen.builder, gen.loc(), condition.value,
                           "a condition given to tl.assume is false");
  core::AssumeOp::create(gen.builder, gen.loc(), condition.value);
  return None{};
}

static Value devicePrint(Generator &gen, Arguments &args) {
  std::string prefix = gen.constantString(args[0], "the prefix of device_print");
  SmallVector<mlir::Value> values;
  SmallVector<bool> isSigned;
  for (const Value &value : args[1].tuple()->elements) {
    Tile tile = gen.toTile(value);
    if (!tile.element.isScalar())
      tile = gen.cast(tile, DType::UInt64);
    values.push_back(tile.value);
    isSigned.push_back(isSignedInt(tile.element.dtype));
  }
  core::PrintOp::create(gen.builder, gen.loc(), prefix, gen.constantBool(args[2], "hex"), isSigned,
                        values);
  return None{};
}

void addProgrammingBuiltins(BuiltinTable &table) {
  table.add(language, "program_id", "axis", programOp<core::ProgramIdOp>);
  table.add(language, "num_programs", "axis", programOp<core::NumProgramsOp>);
  table.add(language, "range",
            "arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None, "
            "disallow_acc_multi_buffer=None, flatten=None, warp_specialize=None, disable_licm=None",
            hintedRange);
  table.add(language, "static_range", "arg1, arg2=None, step=None",
            [](Generator &gen, Arguments &args) { return makeRange(gen, args, true, {}); });
  table.add(language, "constexpr", "value", [](Generator &gen, Arguments &args) {
    if (args[0].tile())
      gen.fail("a tl.constexpr must be a constant, not " + args[0].describe());
    return args[0];
  });
  for (const char *kind : {"multiple_of", "max_contiguous", "max_constancy"})
    table.add(language, kind, "input, values",
              [kind](Generator &gen, Arguments &args) { return hint(gen, args, kind); });
  table.add(language, "assume", "cond", assume);
  table.add(language, "debug_barrier", "", [](Generator &gen, Arguments &) {
    core::DebugBarrierOp::create(gen.builder, gen.loc());
    return Value(None{});
  });
  table.add(language, "static_assert", "cond, msg=''", staticAssert);
  table.add(language, "static_print", "*values, sep=' ', end='', file=None, flush=False",
            [](Generator &gen, Arguments &args) {
              llvm::outs() << joined(args[0], gen.constantString(args[1], "sep")) << "\n";
              llvm::outs().flush();
              return Value(None{});
            });
  table.add(language, "device_assert", "cond, msg='', mask=None", deviceAssert);
  table.add(language, "device_print", "prefix, *args, hex=False", devicePrint);
}

static Value extremum(Generator &gen, Arguments &args, bool wantMax) {
  std::vector<Value> values = args[0].tuple()->elements;
  if (values.size() == 1 && values[0].tuple())
    values = values[0].tuple()->elements;
  if (values.empty())
    gen.fail(std::string(wantMax ? "max" : "min") + " needs a value");
  Value best = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    if (!best.tile() && !values[i].tile()) {
      Value less = gen.compare(CompareOp::LT, best, values[i]);
      best = *less.get<bool>() == wantMax ? values[i] : best;
      continue;
    }
    Tile a, b;
    gen.promoteTogether(best, values[i], false, wantMax ? "max" : "min", a, b);
    best = wantMax ? gen.maximum(a, b, false) : gen.minimum(a, b, false);
  }
  return best;
}

// float("-inf"), float("nan"), float("1e-5")
static Value parseFloat(Generator &gen, const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end)
    gen.fail("'" + text + "' is not a float");
  return value;
}

void addPythonBuiltins(BuiltinTable &table) {
  table.add("builtins", "range", "arg1, arg2=None, step=None",
            [](Generator &gen, Arguments &args) { return makeRange(gen, args, false, {}); });
  table.add("builtins", "len", "x", [](Generator &gen, Arguments &args) {
    if (const Tile *tile = args[0].tile(); tile && !tile->isScalar())
      return Value(Int{tile->shape()[0]});
    return Value(Int{__int128(gen.sequence(args[0], "the argument of len").size())});
  });
  table.add("builtins", "max", "*values",
            [](Generator &gen, Arguments &args) { return extremum(gen, args, true); });
  table.add("builtins", "min", "*values",
            [](Generator &gen, Arguments &args) { return extremum(gen, args, false); });
  table.add("builtins", "print", "*values", [](Generator &gen, Arguments &args) {
    std::vector<Value> values = args[0].tuple()->elements;
    Arguments print = {std::string(), None{}, false};
    if (!values.empty() && values[0].get<std::string>()) {
      print[0] = values[0];
      values.erase(values.begin());
    }
    print[1] = makeTuple(values);
    return devicePrint(gen, print);
  });
  auto convert = [](DType type) {
    return [type](Generator &gen, Arguments &args) -> Value {
      if (args[0].tile())
        return gen.cast(*args[0].tile(), type);
      if (type == DType::Int1)
        return !*gen.unary(UnaryOp::Not, args[0]).get<bool>();
      if (auto *text = args[0].get<std::string>(); text && type == DType::FP32)
        return parseFloat(gen, *text);
      if (auto *real = args[0].get<double>())
        return type == DType::Int32 ? Value(Int{__int128(*real)}) : Value(*real);
      __int128 integer = gen.constantInt(args[0], "the argument of a conversion");
      return type == DType::FP32 ? Value(double(integer)) : Value(Int{integer});
    };
  };
  table.add("builtins", "int", "x", convert(DType::Int32));
  table.add("builtins", "float", "x", convert(DType::FP32));
  table.add("builtins", "bool", "x", convert(DType::Int1));
  table.add("builtins", "tuple", "x", [](Generator &gen, Arguments &args) {
    return makeTuple(gen.sequence(args[0], "the argument of tuple"));
  });
}

} // namespace tilery::frontend
