// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/EmitPtx.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <csetjmp>
#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace llvm;

namespace tilery::nvidia {
namespace {

Expected<std::unique_ptr<TargetMachine>> createMachine(const NvidiaOptions &options) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError(message);
  TargetOptions codegen;
  codegen.AllowFPOpFusion = options.fpFusion ? FPOpFusion::Fast : FPOpFusion::Strict;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, options.arch(), "+ptx" + std::to_string(options.ptxVersion), codegen, Reloc::PIC_,
      std::nullopt, CodeGenOptLevel::Aggressive));
  if (!machine)
    return createStringError("LLVM has no code generator for " + triple.str());
  return machine;
}

// Lowering has chosen vectors; loops keep their form.
void optimise(llvm::Module &module, TargetMachine &machine) {
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  tuning.LoopUnrolling = false;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2).run(module, modules);
}

//===-- What LLVM cannot do ---------------------------------------------------------------------===//

// LLVM reports instructions that it cannot select to a handler that must not return, and ends the
// process after it. On a thread that generates code the handler jumps back here instead. What LLVM held
// is lost; the error is a bug of ours, which the user's process survives.
struct Landing {
  std::jmp_buf place;
  std::string reason;
};
thread_local Landing *landing = nullptr;

void onFatalError(void *, const char *reason, bool) {
  if (!landing)
    return;
  landing->reason = reason;
  std::longjmp(landing->place, 1);
}

/// Keeps errors that LLVM would print before it ends the process.
struct KeepErrors : DiagnosticHandler {
  explicit KeepErrors(std::string &text) : text(text) {}
  bool handleDiagnostics(const DiagnosticInfo &info) override {
    if (info.getSeverity() != DS_Error)
      return false;
    raw_string_ostream stream(text);
    DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    return true;
  }
  std::string &text;
};

Error cannotGenerate(StringRef reason) {
  return createStringError("LLVM has no instructions for a part of this kernel (" + reason.trim() +
                           "); this is a bug in tilery");
}

Expected<std::string> generate(llvm::Module &module, TargetMachine &machine) {
  static std::once_flag once;
  std::call_once(once, [] { install_fatal_error_handler(onFatalError); });
  std::string errors;
  module.getContext().setDiagnosticHandler(std::make_unique<KeepErrors>(errors));
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  auto passes = std::make_unique<legacy::PassManager>();
  if (machine.addPassesToEmitFile(*passes, stream, nullptr, CodeGenFileType::AssemblyFile))
    return createStringError("LLVM cannot emit PTX");
  Landing here;
  landing = &here;
  if (setjmp(here.place) == 0) {
    passes->run(module);
    landing = nullptr;
    module.getContext().setDiagnosticHandler(nullptr);
    if (!errors.empty())
      return cannotGenerate(errors);
    return std::string(bytes.begin(), bytes.end());
  }
  landing = nullptr;
  (void)passes.release(); // stopped in the middle: it must not be taken apart
  module.getContext().setDiagnosticHandler(nullptr);
  return cannotGenerate(errors.empty() ? here.reason : errors);
}

/// Whether inline text (Ptx.h) of the function has an instruction with this in its name.
bool usesInstruction(Function &function, StringRef name) {
  return llvm::any_of(instructions(function), [&](Instruction &instruction) {
    auto *call = dyn_cast<CallInst>(&instruction);
    auto *text = call ? dyn_cast<InlineAsm>(call->getCalledOperand()) : nullptr;
    return text && text->getAsmString().contains(name);
  });
}

// The number of a kernel's threads, without which ptxas plans for 1024.
void setUpKernels(mlir::ModuleOp source, llvm::Module &module, const NvidiaOptions &options) {
  for (auto function : source.getOps<mlir::LLVM::LLVMFuncOp>()) {
    auto threads = function->getAttrOfType<mlir::IntegerAttr>("simt.threads");
    if (!threads)
      continue;
    Function *kernel = module.getFunction(function.getName());
    kernel->addFnAttr("nvvm.reqntid", std::to_string(threads.getInt()));
    // Registers at the start are all that one instance can have, else setmaxnreg is ignored.
    if (usesInstruction(*kernel, "setmaxnreg"))
      kernel->addFnAttr("nvvm.minctasm", "1");
    if (options.maxRegisters)
      kernel->addFnAttr("nvvm.maxnreg", std::to_string(options.maxRegisters));
    kernel->setDoesNotThrow();
  }
}

// Barriers, shuffles and products by several threads are text here (Ptx.h), of which LLVM must not
// make copies in branches that threads take differently.
void markConvergent(llvm::Module &module) {
  for (Function &function : module)
    for (BasicBlock &block : function)
      for (Instruction &instruction : block) {
        auto *call = dyn_cast<CallInst>(&instruction);
        if (!call || !call->isInlineAsm())
          continue;
        call->setConvergent();
        function.setConvergent();
      }
}

// Tiles are lowered one operation after the other, so that a chain of operations would hold all
// elements of each tile in registers at a time, and the assembler keeps about the order it is given
// (measured: a product followed by silu spills 336 bytes a thread, afterwards none). Here an
// element's chain stands before what needs it: stores, shuffles and other effects keep their order,
// and each is preceded by the pure instructions that it needs, depth first.
class DepthFirst {
public:
  explicit DepthFirst(BasicBlock &block) : block(block) {}

  void run() {
    std::vector<Instruction *> original;
    for (Instruction &instruction : block)
      if (!isa<PHINode>(instruction))
        original.push_back(&instruction);
    for (Instruction *instruction : original)
      if (!isPure(*instruction) && !instruction->isTerminator())
        place(instruction);
    for (Instruction *instruction : original) // what other blocks use, then the end
      place(instruction);
    for (Instruction *instruction : order)
      instruction->moveBefore(block, block.end());
  }

private:
  static bool isPure(const Instruction &instruction) {
    auto *call = dyn_cast<CallBase>(&instruction);
    return !instruction.mayHaveSideEffects() && !instruction.mayReadFromMemory() &&
           !instruction.isTerminator() && !isa<AllocaInst>(instruction) &&
           !(call && (call->isConvergent() || call->isInlineAsm()));
  }

  // Without recursion: chains are as long as a tile has registers.
  void place(Instruction *root) {
    SmallVector<std::pair<Instruction *, unsigned>> stack = {{root, 0}};
    while (!stack.empty()) {
      auto &[instruction, operand] = stack.back();
      if (operand == 0 && placed.contains(instruction)) {
        stack.pop_back();
        continue;
      }
      if (operand == instruction->getNumOperands()) {
        if (placed.insert(instruction).second)
          order.push_back(instruction);
        stack.pop_back();
        continue;
      }
      auto *needed = dyn_cast<Instruction>(instruction->getOperand(operand++));
      if (needed && needed->getParent() == &block && !isa<PHINode>(needed))
        stack.push_back({needed, 0});
    }
  }

  BasicBlock &block;
  std::vector<Instruction *> order;
  DenseSet<Instruction *> placed;
};

// Only beside accumulators: where no registers are taken by them, the assembler's own order is better
// (rows of 32768 elements, 64 registers a thread, spill by it).
void orderDepthFirst(llvm::Module &module) {
  for (Function &function : module)
    if (usesInstruction(function, "mma"))
      for (BasicBlock &block : function)
        DepthFirst(block).run();
}

} // namespace

Expected<CompiledCode> emitPtx(mlir::ModuleOp module, const NvidiaOptions &options,
                               const EmitOptions &emit) {
  auto machine = createMachine(options);
  if (!machine)
    return machine.takeError();
  LLVMContext context;
  std::unique_ptr<llvm::Module> ir = mlir::translateModuleToLLVMIR(module, context);
  if (!ir)
    return createStringError("translation to LLVM IR failed");
  ir->setTargetTriple((*machine)->getTargetTriple());
  ir->setDataLayout((*machine)->createDataLayout());
  setUpKernels(module, *ir, options);
  markConvergent(*ir);
  optimise(*ir, **machine);
  orderDepthFirst(*ir);
  CompiledCode code;
  if (emit.llvmText) {
    raw_string_ostream stream(code.text["llvm"]);
    ir->print(stream, nullptr);
  }
  auto text = generate(*ir, **machine);
  if (!text)
    return text.takeError();
  code.object = std::move(*text);
  if (emit.asmText)
    code.text["ptx"] = code.object;
  return code;
}

} // namespace tilery::nvidia
