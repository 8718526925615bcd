// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// LLVM IR of a lowered module, its optimisation, and the relocatable object.
#include "compiler/Target/Cpu/EmitObject.h"

#include "compiler/Target/Cpu/OneLaneStores.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <mutex>

using namespace llvm;

namespace tilery::cpu {
namespace {

Expected<std::unique_ptr<TargetMachine>> createMachine(const CpuOptions &options) {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    InitializeNativeTargetAsmParser();
  });
  Triple triple(sys::getProcessTriple());
  std::string message;
  const llvm::Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError(message);
  TargetOptions codegen;
  // The language allows a*b+c to be fused, and no other rearrangement of floats. What asks for a
  // fused operation (dot, tl.fma) gets one either way.
  codegen.AllowFPOpFusion = options.fpFusion ? FPOpFusion::Fast : FPOpFusion::Standard;
  std::unique_ptr<TargetMachine> machine(
      target->createTargetMachine(triple, options.cpu, options.features, codegen, Reloc::PIC_,
                                  std::nullopt, CodeGenOptLevel::Default));
  if (!machine)
    return createStringError("LLVM has no code generator for " + triple.str());
  return machine;
}

// Lowering has chosen the vectors: the vectorisers would only cost time.
void optimise(llvm::Module &module, TargetMachine &machine) {
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
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

Expected<std::string> generate(llvm::Module &module, TargetMachine &machine,
                               CodeGenFileType kind) {
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind))
    return createStringError("LLVM cannot emit this kind of file");
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

void setUpFunctions(llvm::Module &module, const CpuOptions &options) {
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", options.cpu);
    function.addFnAttr("target-features", options.features);
    function.addFnAttr("prefer-vector-width", std::to_string(options.vectorBits));
    function.addFnAttr("min-legal-vector-width", std::to_string(options.vectorBits));
    function.setDoesNotThrow();
  }
}

} // namespace

Expected<CompiledCode> emitObject(mlir::ModuleOp module, const CpuOptions &options,
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
  setUpFunctions(*ir, options);
  optimise(*ir, **machine);
  scalariseOneLaneStores(*ir);
  CompiledCode code;
  if (emit.llvmText) {
    raw_string_ostream stream(code.text["llvm"]);
    ir->print(stream, nullptr);
  }
  if (emit.asmText) {
    // Code generation changes the module, so the text is made from a copy.
    auto text = generate(*CloneModule(*ir), **machine, CodeGenFileType::AssemblyFile);
    if (!text)
      return text.takeError();
    code.text["asm"] = std::move(*text);
  }
  auto object = generate(*ir, **machine, CodeGenFileType::ObjectFile);
  if (!object)
    return object.takeError();
  code.object = std::move(*object);
  return code;
}

} // namespace tilery::cpu
