// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The list of targets.
#include "compiler/Target/Registry.h"

#include "compiler/Target/Cpu/CpuTarget.h"
#include "compiler/Target/Nvidia/NvidiaTarget.h"
#include "compiler/Target/Nvidia/Passes.h"
#include "compiler/Target/Simt/IR/Simt.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tilery {

static llvm::Expected<std::unique_ptr<Target>> makeCpu(llvm::StringRef,
                                                       const TargetOptions &options) {
  auto machine = cpu::CpuOptions::fromName(options.cpu);
  if (!machine)
    return machine.takeError();
  machine->fpFusion = options.fpFusion;
  return std::make_unique<cpu::CpuTarget>(std::move(*machine));
}

static llvm::Expected<std::unique_ptr<Target>> makeNvidia(llvm::StringRef name,
                                                          const TargetOptions &options) {
  auto machine = nvidia::NvidiaOptions::fromName(name);
  if (!machine)
    return machine.takeError();
  machine->numWarps = unsigned(options.numWarps);
  machine->numStages = unsigned(options.numStages);
  machine->maxRegisters = unsigned(options.maxRegisters);
  machine->fpFusion = options.fpFusion;
  machine->timeline = options.timeline;
  if (options.assemblyVersion)
    machine->limitPtx(unsigned(options.assemblyVersion));
  return std::make_unique<nvidia::NvidiaTarget>(*machine);
}

namespace {
struct Entry {
  const char *name;
  llvm::Expected<std::unique_ptr<Target>> (*make)(llvm::StringRef, const TargetOptions &);
};
} // namespace

static const Entry entries[] = {{"cpu", makeCpu},      {"sm_80", makeNvidia},
                                {"sm_86", makeNvidia}, {"sm_89", makeNvidia},
                                {"sm_90", makeNvidia}, {"sm_90a", makeNvidia}};

void registerTargetDialects(mlir::DialectRegistry &registry) {
  registry.insert<simt::SimtDialect, mlir::NVVM::NVVMDialect>();
  mlir::registerNVVMDialectTranslation(registry);
  mlir::registerConvertNVVMToLLVMInterface(registry);
}

void registerTargetPasses() { nvidia::registerPasses(); }

std::vector<std::string> targetNames() {
  std::vector<std::string> names;
  for (const Entry &entry : entries)
    names.push_back(entry.name);
  return names;
}

llvm::Expected<std::unique_ptr<Target>> makeTarget(llvm::StringRef name,
                                                   const TargetOptions &options) {
  for (const Entry &entry : entries)
    if (name == entry.name)
      return entry.make(name, options);
  return llvm::createStringError("there is no target '" + name + "'; the targets are " +
                                 llvm::join(targetNames(), ", "));
}

} // namespace tilery
