// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The CPU target's passes and what distinguishes one CPU's code from another's.
#include "compiler/Target/Cpu/CpuTarget.h"

#include "compiler/Conversion/CoreToVector/CoreToVector.h"
#include "compiler/Target/Cpu/EmitObject.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Transforms/Passes.h"

namespace tilery::cpu {

std::string CpuTarget::description() const {
  return "x86_64 " + options.cpu + " " + options.features + " v" +
         std::to_string(options.vectorBits) + (options.hasBf16Dot ? " bf16dot" : "") +
         (options.fpFusion ? "" : " nofma");
}

void CpuTarget::addTilePasses(mlir::OpPassManager &passes) const {
  // Tiles become loops over vectors, device operations calls through the runtime's table.
  passes.addPass(createCoreToVectorPass({options.vectorBits, options.hasBf16Dot}));
  // The conversion writes straightforward index arithmetic; fold it before the loops go.
  passes.addPass(mlir::createCanonicalizerPass());
  passes.addPass(mlir::createCSEPass());
}

void CpuTarget::addFinalPasses(mlir::OpPassManager &passes) const {
  // Structured loops first: the conversions below do not look into regions.
  passes.addPass(mlir::createSCFToControlFlowPass());
  passes.addPass(mlir::createConvertVectorToLLVMPass());
  // What LLVM has no intrinsic for becomes libm calls, which need func to be present.
  mlir::ConvertMathToLLVMPassOptions math;
  math.approximateLog1p = false;
  passes.addPass(mlir::createConvertMathToLLVMPass(math));
  passes.addPass(mlir::createConvertMathToLibmPass());
  passes.addPass(mlir::createArithToLLVMConversionPass());
  passes.addPass(mlir::createConvertFuncToLLVMPass());
  passes.addPass(mlir::createConvertControlFlowToLLVMPass());
  // libm calls on vectors were unrolled through vector.extract and insert.
  passes.addPass(mlir::createConvertVectorToLLVMPass());
  passes.addPass(mlir::createReconcileUnrealizedCastsPass());
}

llvm::Expected<CompiledCode> CpuTarget::emit(mlir::ModuleOp module,
                                             const EmitOptions &emit) const {
  return emitObject(module, options, emit);
}

} // namespace tilery::cpu
