// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The pass: every kernel of the module is lowered on its own.
#include "compiler/Conversion/CoreToVector/CoreToVector.h"

#include "compiler/Conversion/CoreToVector/Lowering.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace tilery {
namespace {

struct CoreToVector : PassWrapper<CoreToVector, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CoreToVector)
  CoreToVector() = default;
  CoreToVector(const CoreToVector &other) : PassWrapper(other) { copyOptionValuesFrom(&other); }
  explicit CoreToVector(const CoreToVectorOptions &options) {
    vectorBits = options.vectorBits;
    bf16Dot = options.hasBf16Dot;
  }

  StringRef getArgument() const override { return "convert-core-to-vector"; }
  StringRef getDescription() const override {
    return "turn kernels on tiles into loops over vectors";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
                    math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    SmallVector<func::FuncOp> kernels;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function->hasAttr("core.kernel"))
        kernels.push_back(function);
    }
    for (func::FuncOp kernel : kernels)
      if (failed(vec::Lowering(kernel, {vectorBits, bf16Dot}).run()))
        return signalPassFailure();
  }

  Option<unsigned> vectorBits{*this, "vector-bits", llvm::cl::desc("width of vector registers"),
                              llvm::cl::init(512)};
  Option<bool> bf16Dot{*this, "bf16-dot",
                       llvm::cl::desc("use the AVX512-BF16 dot instruction"),
                       llvm::cl::init(false)};
};

} // namespace

std::unique_ptr<Pass> createCoreToVectorPass(const CoreToVectorOptions &options) {
  return std::make_unique<CoreToVector>(options);
}

void registerCoreToVectorPass() { PassRegistration<CoreToVector>(); }

} // namespace tilery
