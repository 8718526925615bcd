// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes by name, for tilery-opt.
#include "compiler/Target/Nvidia/NvidiaTarget.h"
#include "compiler/Target/Nvidia/Passes.h"
#include "compiler/Target/Simt/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace tilery::nvidia {
namespace {

struct GpuOptions : PassPipelineOptions<GpuOptions> {
  Option<std::string> arch{*this, "arch", llvm::cl::desc("the GPU"), llvm::cl::init("sm_90a")};
  Option<unsigned> numWarps{*this, "num-warps", llvm::cl::desc("warps of a program instance"),
                            llvm::cl::init(4)};
  Option<unsigned> numStages{*this, "num-stages", llvm::cl::desc("slots of a ring, where they fit"),
                             llvm::cl::init(3)};
};

// Passes keep a reference to the target's machine, so it lives as long as the process.
const NvidiaTarget &targetFor(const GpuOptions &given) {
  auto options = NvidiaOptions::fromName(given.arch);
  if (!options)
    llvm::report_fatal_error(options.takeError(), /*gen_crash_diag=*/false);
  options->numWarps = given.numWarps;
  options->numStages = given.numStages;
  static std::vector<std::unique_ptr<NvidiaTarget>> targets;
  return *targets.emplace_back(std::make_unique<NvidiaTarget>(*options));
}

} // namespace

void registerPasses() {
  static const NvidiaMachine hopper(90);
  registerPass([] { return simt::createWidenOffsets(); });
  registerPass([] { return simt::createAssignLayouts(hopper, 4); });
  registerPass([] { return simt::createPipelineLoads(hopper, 3, 16); });
  registerPass([] { return simt::createRecomputeTiles({32}); });
  registerPass([] { return simt::createStoreRows(hopper, 4); });
  registerPass([] { return simt::createLowerTiles(hopper, 4); });
  registerPass([] { return createSpecialiseWarps({4, 3, hopper.sharedBytes(), true}); });
  registerPass([] { return createStoreTiles({4, hopper.sharedBytes(), true}); });
  PassPipelineRegistration<GpuOptions>(
      "tilery-nvidia-tiles", "from core to tiles with layouts",
      [](OpPassManager &passes, const GpuOptions &given) { targetFor(given).addTilePasses(passes); });
  PassPipelineRegistration<GpuOptions>(
      "tilery-nvidia-threads", "from tiles with layouts to the LLVM dialect",
      [](OpPassManager &passes, const GpuOptions &given) { targetFor(given).addFinalPasses(passes); });
}

} // namespace tilery::nvidia
