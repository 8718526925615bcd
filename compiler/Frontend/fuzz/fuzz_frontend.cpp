// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any text as a kernel file gives IR or a CompileError, never a crash.
#include "compiler/Frontend/Generator.h"

#include "mlir/IR/Verifier.h"

using namespace tilery;
using namespace tilery::frontend;

static std::vector<ParameterSpec> specsFor(const FunctionDef &function) {
  std::vector<ParameterSpec> specs;
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    ParameterSpec spec;
    using Kind = ElementType::Kind;
    static const ElementType kinds[] = {{Kind::Pointer, DType::FP32}, {Kind::Scalar, DType::Int32},
                                        {Kind::Symmetric, DType::FP16}, {Kind::Signal, DType::UInt64}};
    spec.element = kinds[i % std::size(kinds)];
    if (function.parameters[i].annotation)
      spec.constant = Int{16};
    specs.push_back(spec);
  }
  return specs;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  try {
    auto module = Module::fromText("fuzz.py", text);
    auto function = module->function("kernel");
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.printOpOnDiagnostic(false);
    GeneratedKernel kernel = generateKernel(context, {function, module}, specsFor(*function));
    if (mlir::verify(*kernel.module).failed())
      __builtin_trap();
  } catch (const CompileError &) {
  }
  return 0;
}
