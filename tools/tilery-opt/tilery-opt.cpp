// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// mlir-opt with Tilery's dialects and passes, for tests and for looking at one pass.
#include "compiler/Conversion/CoreToVector/CoreToVector.h"
#include "compiler/Dialect/Core/Transforms/Passes.h"
#include "compiler/Dialect/Device/Transforms/Passes.h"
#include "compiler/Pipeline/Lower.h"
#include "compiler/Target/Registry.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  tilery::registerLoweringDialects(registry);
  mlir::registerTransformsPasses();
  mlir::registerSCFToControlFlowPass();
  mlir::registerConvertVectorToLLVMPass();
  mlir::registerConvertMathToLLVMPass();
  mlir::registerConvertMathToLibmPass();
  mlir::registerArithToLLVMConversionPass();
  mlir::registerConvertFuncToLLVMPass();
  mlir::registerConvertControlFlowToLLVMPass();
  mlir::registerReconcileUnrealizedCastsPass();
  tilery::core::registerCorePasses();
  tilery::device::registerDevicePasses();
  tilery::registerCoreToVectorPass();
  tilery::registerTargetPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Tilery optimizer driver\n", registry));
}
