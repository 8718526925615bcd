// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The pass list, as a table of contents: one line a pass, the reason for its place beside it.
#include "compiler/Pipeline/Lower.h"

#include "compiler/Dialect/Core/IR/Core.h"
#include "compiler/Dialect/Core/Transforms/Passes.h"
#include "compiler/Dialect/Device/IR/Device.h"
#include "compiler/Dialect/Device/Transforms/Passes.h"
#include "compiler/Target/Registry.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tilery {
namespace {

// What every target gets: simpler core + device IR.
void addCorePasses(OpPassManager &passes, const Target &target) {
  // Before anything that would take a loop which waits for memory for dead code.
  passes.addPass(core::createMarkPollingLoads());
  // While pointers are made as the source says, so that they are found to be the arguments'.
  passes.addPass(device::createCheckBounds({.signals = !target.runtimeChecksSignals()}));
  // Also while pointers are the arguments'.
  if (!target.runtimeChecksSignals())
    passes.addPass(device::createFindPeers());
  // Folds constants and dead code that specialisation left, so that later passes see little.
  passes.addPass(createCanonicalizerPass());
  // One definition for equal offsets and masks: later passes compare them by identity.
  passes.addPass(createCSEPass());
  // Folds comparisons that the ranges of program ids decide: a step by num_programs is not 0.
  passes.addPass(arith::createIntRangeOptimizationsPass());
  // After CSE, which makes the loop's pointer chains visible; before hoisting, which then
  // finds the tiles of offsets invariant.
  passes.addPass(core::createScalarizeCarriedOffsets());
  // While the indices of loads and stores are one value each.
  passes.addPass(core::createUnwrapIndices());
  // Takes what the previous passes made invariant out of the loops.
  passes.addPass(createLoopInvariantCodeMotionPass());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

LogicalResult run(ModuleOp module, const LowerOptions &options,
                  llvm::function_ref<void(OpPassManager &)> add) {
  PassManager passes(module.getContext());
  add(passes);
  if (options.timePasses)
    passes.enableTiming();
  if (!options.dumpAfter.empty()) {
    module.getContext()->disableMultithreading();
    passes.enableIRPrinting(
        nullptr, [&](Pass *pass, Operation *) {
          return options.dumpAfter == "all" || pass->getArgument() == options.dumpAfter;
        });
  }
  return passes.run(module);
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

/// One try of a target's passes, on a module of its own where another may follow.
struct Attempt {
  ModuleOp module;
  OwningOpRef<ModuleOp> own;
  const Target *target;
  std::unique_ptr<Target> ownTarget;
  std::string tileText;
};

LogicalResult runTargetPasses(Attempt &attempt, const LowerOptions &options) {
  const Target &target = *attempt.target;
  if (run(attempt.module, options, [&](auto &passes) { target.addTilePasses(passes); }).failed())
    return failure();
  if (llvm::is_contained(options.capture, target.tileStage()))
    attempt.tileText = textOf(attempt.module);
  return run(attempt.module, options, [&](auto &passes) { target.addFinalPasses(passes); });
}

// What does not fit is tried again with less; errors count when there is no less.
LogicalResult lowerUntilItFits(Attempt &attempt, const LowerOptions &options) {
  while (std::unique_ptr<Target> less = attempt.target->withLess()) {
    OwningOpRef<ModuleOp> copy(attempt.module.clone());
    ScopedDiagnosticHandler quiet(attempt.module.getContext(), [](Diagnostic &) { return success(); });
    if (runTargetPasses(attempt, options).succeeded())
      return success();
    attempt.module = *copy;
    attempt.own = std::move(copy);
    attempt.ownTarget = std::move(less);
    attempt.target = attempt.ownTarget.get();
  }
  return runTargetPasses(attempt, options);
}

SourceSite siteOf(ArrayAttr triple) {
  return {cast<StringAttr>(triple[0]).str(), int32_t(cast<IntegerAttr>(triple[1]).getInt()),
          int32_t(cast<IntegerAttr>(triple[2]).getInt())};
}

void addThreadInfo(LLVM::LLVMFuncOp function, int32_t threads, KernelInfo &info) {
  info.threads = threads;
  info.sharedBytes = int32_t(function->getAttrOfType<IntegerAttr>(kSharedBytesAttr).getInt());
  info.canFail = function->hasAttr(kCanFailAttr);
  for (Attribute text : function->getAttrOfType<ArrayAttr>(kMessagesAttr))
    info.messages.push_back(cast<StringAttr>(text).str());
}

KernelInfo infoOf(LLVM::LLVMFuncOp function) {
  KernelInfo info;
  info.name = function.getName().str();
  info.scratchBytes = function->getAttrOfType<IntegerAttr>(kScratchBytesAttr).getInt();
  info.suspends = function->hasAttr(kSuspendsAttr);
  info.communicates = function->hasAttr(kCommunicatesAttr);
  for (Attribute site : function->getAttrOfType<ArrayAttr>(kSitesAttr))
    info.sites.push_back(siteOf(cast<ArrayAttr>(site)));
  if (auto extents = function->getAttrOfType<DenseI32ArrayAttr>(kExtentsAttr))
    info.extents.assign(extents.asArrayRef().begin(), extents.asArrayRef().end());
  if (auto peers = function->getAttrOfType<DenseI32ArrayAttr>(kPeersAttr))
    info.peers.assign(peers.asArrayRef().begin(), peers.asArrayRef().end());
  if (auto threads = function->getAttrOfType<IntegerAttr>(kThreadsAttr))
    addThreadInfo(function, int32_t(threads.getInt()), info);
  return info;
}

} // namespace

void registerLoweringDialects(DialectRegistry &registry) {
  registry.insert<core::CoreDialect, device::DeviceDialect, arith::ArithDialect,
                  cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                  math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
  registerTargetDialects(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

llvm::Expected<CompiledCode> compileModule(ModuleOp module, const Target &target,
                                           const LowerOptions &options) {
  auto wants = [&](llvm::StringRef stage) { return llvm::is_contained(options.capture, stage); };
  std::map<std::string, std::string> text;
  auto failed = [] { return llvm::createStringError("lowering failed"); };

  if (run(module, options, [&](auto &passes) { addCorePasses(passes, target); }).failed())
    return failed();
  if (wants("core"))
    text["core"] = textOf(module);
  Attempt lowered{module, {}, &target, nullptr, {}};
  if (lowerUntilItFits(lowered, options).failed())
    return failed();
  if (wants(target.tileStage()))
    text[target.tileStage().str()] = lowered.tileText;

  std::vector<KernelInfo> kernels;
  for (auto function : lowered.module.getOps<LLVM::LLVMFuncOp>())
    if (function->hasAttr(kScratchBytesAttr))
      lowered.target->describe(function, kernels.emplace_back(infoOf(function)));
  auto code = lowered.target->emit(lowered.module, {wants("llvm"), wants(target.assemblyStage())});
  if (!code)
    return code.takeError();
  code->kernels = std::move(kernels);
  code->text.merge(text);
  return code;
}

} // namespace tilery
