// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The passes of NVIDIA GPUs and what distinguishes one GPU's code from another's.
#include "compiler/Target/Nvidia/NvidiaTarget.h"

#include "compiler/Target/Nvidia/EmitPtx.h"
#include "compiler/Target/Nvidia/Passes.h"
#include "compiler/Target/Nvidia/TensorMaps.h"
#include "compiler/Target/Simt/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

namespace tilery::nvidia {

llvm::Expected<NvidiaOptions> NvidiaOptions::fromName(llvm::StringRef arch) {
  NvidiaOptions options;
  llvm::StringRef digits = arch;
  bool known = digits.consume_front("sm_");
  options.archSpecific = digits.consume_back("a");
  known = known && llvm::to_integer(digits, options.capability, 10) && options.capability >= 80;
  if (!known)
    return llvm::createStringError("'" + arch + "' is not a GPU that this compiler knows; write sm_80, "
                                   "sm_86, sm_89, sm_90 or sm_90a");
  if (options.capability >= 89) // products of fp8
    options.ptxVersion = 84;
  if (options.archSpecific) // tensor maps that kernels make
    options.ptxVersion = 85;
  return options;
}

void NvidiaOptions::limitPtx(unsigned newest) {
  constexpr unsigned newestOfLlvm = 90;
  ptxVersion = std::min(newest, newestOfLlvm);
}

std::string NvidiaOptions::arch() const {
  return "sm_" + std::to_string(capability) + (archSpecific ? "a" : "");
}

std::string NvidiaTarget::description() const {
  return options.arch() + " ptx" + std::to_string(options.ptxVersion) + " warps" +
         std::to_string(options.numWarps) + " stages" + std::to_string(options.numStages) +
         " registers" + std::to_string(options.maxRegisters) + (options.fpFusion ? "" : " nofma") +
         (options.timeline ? " timeline" : "");
}

bool NvidiaTarget::hasRoles() const {
  return options.capability == 90 && options.archSpecific && options.roles;
}

// The slots of rings are planned before it is known what else needs shared memory.
std::unique_ptr<Target> NvidiaTarget::withLess() const {
  NvidiaOptions less = options;
  if (!hasRoles()) {
    if (options.mostStages == 1)
      return nullptr;
    less.mostStages = std::min(options.mostStages, std::max(options.numStages, 4u)) - 1;
  } else if (options.stagedStores) {
    less.stagedStores = false; // they take what rings leave
  } else if (options.numStages > 2) {
    less.numStages = options.numStages - 1;
  } else {
    less.roles = false;
  }
  return std::make_unique<NvidiaTarget>(less);
}

void NvidiaTarget::addTilePasses(mlir::OpPassManager &passes) const {
  // Before layouts, so that they see one form of every offset.
  passes.addPass(simt::createWidenOffsets());
  passes.addPass(mlir::createCanonicalizerPass());
  passes.addPass(mlir::createCSEPass());
  // While loads still are plain tiles: those that copies bring get no layout.
  if (hasRoles())
    passes.addPass(createSpecialiseWarps(
        {options.numWarps, options.numStages, machine.sharedBytes(), machine.makesMaps()}));
  passes.addPass(mlir::createCanonicalizerPass());
  passes.addPass(mlir::createCSEPass());
  // Behind the rings, which come first where shared memory is short.
  if (hasRoles() && options.stagedStores) {
    passes.addPass(
        createStoreTiles({options.numWarps, machine.sharedBytes(), machine.makesMaps()}));
    passes.addPass(simt::createStoreRows(machine, options.numWarps));
    passes.addPass(mlir::createCanonicalizerPass());
  }
  passes.addPass(simt::createAssignLayouts(machine, options.numWarps));
  // Equal requests by different users become one.
  passes.addPass(mlir::createCSEPass());
  // What only depends on the arguments leaves the loops, in the layout its user needs.
  passes.addPass(mlir::createLoopInvariantCodeMotionPass());
  // With layouts, which say how wide copies are; roles have rings of their own.
  passes.addPass(simt::createPipelineLoads(machine, options.numStages, options.mostStages));
  // Last, as nothing may merge its copies.
  passes.addPass(simt::createRecomputeTiles({options.numWarps}));
}

void NvidiaTarget::addFinalPasses(mlir::OpPassManager &passes) const {
  passes.addPass(simt::createLowerTiles(machine, options.numWarps, options.timeline));
  passes.addPass(mlir::createCSEPass());
  // Structured loops first: the conversions below do not look into regions.
  passes.addPass(mlir::createSCFToControlFlowPass());
  passes.addPass(mlir::createConvertNVVMToLLVMPass());
  passes.addPass(mlir::createConvertMathToLLVMPass());
  passes.addPass(mlir::createArithToLLVMConversionPass());
  passes.addPass(mlir::createConvertControlFlowToLLVMPass());
  passes.addPass(mlir::createReconcileUnrealizedCastsPass());
}

void NvidiaTarget::describe(mlir::Operation *function, KernelInfo &info) const {
  if (auto maps = function->getAttrOfType<mlir::ArrayAttr>("simt.tensor_maps"))
    for (mlir::Attribute map : maps)
      info.tensorMaps.push_back(recipeOf(map));
}

llvm::Expected<CompiledCode> NvidiaTarget::emit(mlir::ModuleOp module,
                                                const EmitOptions &emit) const {
  return emitPtx(module, options, emit);
}

} // namespace tilery::nvidia
