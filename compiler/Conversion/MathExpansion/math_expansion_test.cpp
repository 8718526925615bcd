// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Expanded functions run on this machine and are compared with the C library in extended precision, and
// fp8 with LLVM's own numbers.
#include "compiler/Conversion/MathExpansion/MathExpansion.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace tilery {
namespace {

using namespace mlir;

/// Compiled code of one function of a module.
class Compiled {
public:
  template <typename Emit> explicit Compiled(Emit emit) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
                        LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect>();
    OpBuilder b(&context);
    Location loc = b.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    b.setInsertionPointToEnd(module->getBody());
    emit(b, loc);
    lower(*module);
  }

  template <typename Function> Function *as() {
    auto symbol = llvm::cantFail(jit->lookup("f"));
    return symbol.template toPtr<Function *>();
  }

private:
  void lower(ModuleOp module) {
    PassManager passes(&context);
    passes.addPass(createSCFToControlFlowPass());
    passes.addPass(createConvertMathToLLVMPass());
    passes.addPass(createArithToLLVMConversionPass());
    passes.addPass(createConvertControlFlowToLLVMPass());
    passes.addPass(createConvertFuncToLLVMPass());
    passes.addPass(createReconcileUnrealizedCastsPass());
    ASSERT_TRUE(passes.run(module).succeeded());
    registerBuiltinDialectTranslation(context);
    registerLLVMDialectTranslation(context);
    auto llvmContext = std::make_unique<llvm::LLVMContext>();
    auto ir = translateModuleToLLVMIR(module, *llvmContext);
    ASSERT_TRUE(ir);
    jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
    ir->setDataLayout(jit->getDataLayout());
    llvm::cantFail(jit->addIRModule({std::move(ir), std::move(llvmContext)}));
  }

  MLIRContext context;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

/// func @f(arguments of the builder's `from`) -> `to`, whose body `emit` makes.
template <typename Emit>
void emitFunction(OpBuilder &b, Location loc, ArrayRef<Type> from, Type to, Emit emit) {
  auto function = func::FuncOp::create(b, loc, "f", b.getFunctionType(from, to));
  b.setInsertionPointToStart(function.addEntryBlock());
  Value result = emit(function.getArguments());
  func::ReturnOp::create(b, loc, result);
}

template <typename Op, typename T> Compiled functionOf(bool scalar = true) {
  return Compiled([&](OpBuilder &b, Location loc) {
    Type type = std::is_same_v<T, double> ? Type(b.getF64Type()) : b.getF32Type();
    SmallVector<Type> from(Op::template hasTrait<OpTrait::NOperands<2>::Impl>() ? 2 : 1, type);
    emitFunction(b, loc, from, type, [&](ValueRange arguments) {
      auto op = Op::create(b, loc, type, arguments);
      Value value = scalar ? expandScalarMath(b, op, arguments) : expandFloatMath(b, op, arguments);
      EXPECT_TRUE(value);
      op->erase();
      return value;
    });
  });
}

template <typename T> T random(std::mt19937_64 &bits) {
  if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(uint64_t(bits()));
  else
    return std::bit_cast<float>(uint32_t(bits()));
}

/// Every kind of number, more of them around 1, and the special ones.
template <typename T> std::vector<T> samples() {
  std::mt19937_64 bits(7);
  std::vector<T> list = {0, T(-0.0), 1, -1, T(INFINITY), -T(INFINITY), T(NAN),
                         std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::min(),
                         std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest()};
  for (int i = 0; i < 20000; ++i) {
    list.push_back(random<T>(bits));
    list.push_back(std::uniform_real_distribution<T>(-12, 12)(bits));
    list.push_back(std::uniform_real_distribution<T>(-800, 800)(bits));
    list.push_back(std::exp2(std::uniform_real_distribution<T>(-4, 4)(bits)));
  }
  for (int k = -400; k < 400; ++k) // close to the zeros of sin and cos
    list.push_back(T(k * 1.57079632679489661923));
  return list;
}

template <typename T> double unitsApart(T actual, long double expected) {
  if (std::isnan(expected) || std::isnan(actual))
    return std::isnan(expected) && std::isnan(actual) ? 0 : INFINITY;
  if (std::isinf(T(expected)) || std::isinf(actual))
    return T(expected) == actual ? 0 : INFINITY;
  T next = std::nextafter(std::abs(T(expected)), T(INFINITY));
  long double unit = std::isinf(next) ? std::abs(T(expected)) * std::numeric_limits<T>::epsilon()
                                      : next - std::abs(T(expected));
  return double(std::abs((static_cast<long double>(actual) - expected) / unit));
}

template <typename T, typename Reference>
void expectUnits(Compiled &compiled, Reference reference, double ulps) {
  auto *f = compiled.as<T(T)>();
  double worst = 0;
  for (T x : samples<T>()) {
    double apart = unitsApart(f(x), reference(static_cast<long double>(x)));
    ASSERT_LE(apart, ulps) << "x = " << x << ": " << f(x) << ", expected "
                           << double(reference(static_cast<long double>(x)));
    worst = std::max(worst, apart);
  }
  testing::Test::RecordProperty("worst", std::to_string(worst));
}

#define UNITS_TEST(Name, Op, Type, reference, ulps, scalar)                                        \
  TEST(MathExpansion, Name) {                                                                      \
    Compiled compiled = functionOf<math::Op, Type>(scalar);                                        \
    expectUnits<Type>(compiled, [](long double x) { return reference(x); }, ulps);                 \
  }
UNITS_TEST(Exp, ExpOp, double, std::exp, 2, true)
UNITS_TEST(Exp2, Exp2Op, double, std::exp2, 2, true)
UNITS_TEST(Log, LogOp, double, std::log, 2, true)
UNITS_TEST(Log2, Log2Op, double, std::log2, 3, true)
UNITS_TEST(Sin, SinOp, double, std::sin, 3, true)
UNITS_TEST(Cos, CosOp, double, std::cos, 3, true)
UNITS_TEST(Tanh, TanhOp, double, std::tanh, 3, true)
UNITS_TEST(Erf, ErfOp, double, std::erf, 3, true)
UNITS_TEST(SinOfSingle, SinOp, float, std::sin, 2, true)
UNITS_TEST(CosOfSingle, CosOp, float, std::cos, 2, true)
UNITS_TEST(ExpOfSingle, ExpOp, float, std::exp, 2, false)
UNITS_TEST(LogOfSingle, LogOp, float, std::log, 2, false)
UNITS_TEST(Log2OfSingle, Log2Op, float, std::log2, 3, false)
UNITS_TEST(TanhOfSingle, TanhOp, float, std::tanh, 3, false)
UNITS_TEST(ErfOfSingle, ErfOp, float, std::erf, 4, false)

template <typename T> void expectRemainders() {
  Compiled compiled = functionOf<arith::RemFOp, T>();
  auto *f = compiled.as<T(T, T)>();
  std::mt19937_64 bits(8);
  std::vector<T> all = samples<T>();
  for (int i = 0; i < 200000; ++i) {
    T x = all[bits() % all.size()], y = all[bits() % all.size()];
    T expected = std::fmod(x, y), actual = f(x, y);
    ASSERT_TRUE(actual == expected || (std::isnan(actual) && std::isnan(expected)))
        << x << " % " << y << ": " << actual << ", expected " << expected;
    ASSERT_EQ(std::signbit(actual), std::isnan(actual) ? std::signbit(actual) : std::signbit(expected));
  }
}
TEST(MathExpansion, RemaindersAreExact) { expectRemainders<double>(); }
TEST(MathExpansion, RemaindersOfSingleAreExact) { expectRemainders<float>(); }

//===-- fp8 -------------------------------------------------------------------------------------===//

class Fp8 : public testing::TestWithParam<bool> {
protected:
  static Type typeOf(Builder &b) {
    return GetParam() ? Type(Float8E4M3FNType::get(b.getContext()))
                      : Type(Float8E5M2Type::get(b.getContext()));
  }
  static const llvm::fltSemantics &semantics() {
    return GetParam() ? llvm::APFloat::Float8E4M3FN() : llvm::APFloat::Float8E5M2();
  }
};

TEST_P(Fp8, DecodesEveryCode) {
  Compiled compiled([](OpBuilder &b, Location loc) {
    emitFunction(b, loc, {b.getI8Type()}, b.getF32Type(), [&](ValueRange arguments) {
      return decodeFp8(b, loc, typeOf(b), arguments[0]);
    });
  });
  auto *f = compiled.as<float(uint8_t)>();
  for (unsigned code = 0; code < 256; ++code) {
    float expected = llvm::APFloat(semantics(), llvm::APInt(8, code)).convertToFloat();
    float actual = f(uint8_t(code));
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(actual)) << code;
    else
      EXPECT_EQ(std::bit_cast<uint32_t>(actual), std::bit_cast<uint32_t>(expected)) << code;
  }
}

TEST_P(Fp8, EncodesToNearestEvenAndSaturates) {
  Compiled compiled([](OpBuilder &b, Location loc) {
    emitFunction(b, loc, {b.getF32Type()}, b.getI8Type(), [&](ValueRange arguments) {
      return encodeFp8(b, loc, typeOf(b), arguments[0]);
    });
  });
  auto *f = compiled.as<uint8_t(float)>();
  float largest = llvm::APFloat::getLargest(semantics()).convertToFloat();
  std::vector<float> values = samples<float>();
  for (unsigned code = 0; code < 255; ++code) { // each value, and the middle to the next
    float x = llvm::APFloat(semantics(), llvm::APInt(8, code)).convertToFloat();
    float y = llvm::APFloat(semantics(), llvm::APInt(8, code + 1)).convertToFloat();
    float middle = (x + y) / 2;
    for (float value : {x, middle, std::nextafter(middle, 1e9f), std::nextafter(middle, -1e9f)})
      values.push_back(value);
  }
  for (float x : values) {
    unsigned actual = f(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(llvm::APFloat(semantics(), llvm::APInt(8, actual)).isNaN());
      continue;
    }
    llvm::APFloat expected(std::clamp(x, -largest, largest));
    bool lost;
    expected.convert(semantics(), llvm::APFloat::rmNearestTiesToEven, &lost);
    ASSERT_EQ(actual, expected.bitcastToAPInt().getZExtValue()) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Fp8, testing::Bool(), [](const auto &info) {
  return info.param ? "E4M3FN" : "E5M2";
});

} // namespace
} // namespace tilery
