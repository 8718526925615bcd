// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The kernel's own function: parameters, specialisation, the module around it.
#include "compiler/Frontend/Generator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tilery::frontend {

// Run-time parameters become arguments; constants become names. An integer that is known to
// be 1 stays an argument, so that argument slots do not depend on values, but reads as 1.
static void bindKernelParameters(Generator &gen, const FunctionDef &definition,
                                 const std::vector<ParameterSpec> &specs, func::FuncOp kernel,
                                 Scope &scope) {
  unsigned slot = 0;
  for (auto [parameter, spec] : llvm::zip(definition.parameters, specs)) {
    RangeScope range(gen, parameter.range);
    Value value;
    if (spec.constant) {
      value = *spec.constant;
    } else {
      value = Tile{kernel.getArgument(slot), spec.element};
      if (spec.divisibility > 1)
        kernel.setArgAttr(slot, "core.divisibility",
                          gen.builder.getI32IntegerAttr(spec.divisibility));
      if (spec.registered)
        kernel.setArgAttr(slot, "device.registered", gen.builder.getUnitAttr());
      if (spec.equalToOne)
        value = gen.integer(1, spec.element.dtype);
      ++slot;
    }
    value.assigned = parameter.range;
    scope.names[parameter.name] = std::move(value);
  }
}

static ArrayAttr parameterNames(Generator &gen, const FunctionDef &definition,
                                const std::vector<ParameterSpec> &specs) {
  SmallVector<Attribute> names;
  for (auto [parameter, spec] : llvm::zip(definition.parameters, specs))
    if (!spec.constant)
      names.push_back(gen.builder.getStringAttr(parameter.name));
  return gen.builder.getArrayAttr(names);
}

std::shared_ptr<Scope> Generator::makeScope() {
  auto scope = std::make_shared<Scope>();
  scopes.push_back(scope);
  return scope;
}

Generator::~Generator() {
  if (constantsOnly) // the constant may be a lambda
    return;
  for (const std::weak_ptr<Scope> &made : scopes)
    if (std::shared_ptr<Scope> scope = made.lock())
      scope->names.clear();
}

GeneratedKernel Generator::run(const FunctionValue &function,
                               const std::vector<ParameterSpec> &specs) {
  const FunctionDef &definition = *function.definition;
  RangeScope scope(*this, definition.range);
  if (specs.size() != definition.parameters.size())
    fail("'" + definition.name + "' has " + std::to_string(definition.parameters.size()) +
         " parameters, but " + std::to_string(specs.size()) + " arguments are given");
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc());
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> types;
  for (const ParameterSpec &spec : specs)
    if (!spec.constant)
      types.push_back(typeOf(spec.element));
  auto kernel = func::FuncOp::create(builder, loc(), definition.name,
                                     builder.getFunctionType(types, {}));
  kernel->setAttr("core.kernel", builder.getUnitAttr());
  if (checks.bounds)
    kernel->setAttr("core.check_bounds", builder.getUnitAttr());
  kernel->setAttr("core.parameters", parameterNames(*this, definition, specs));
  builder.setInsertionPointToStart(kernel.addEntryBlock());
  Frame outermost;
  outermost.module = function.module;
  outermost.definition = &definition;
  outermost.scope = makeScope();
  frame = &outermost;
  bindKernelParameters(*this, definition, specs, kernel, *outermost.scope);
  runBlock(definition.body, 0, nullptr);
  if (!outermost.returned.isNone())
    throw CompileError(outermost.returned.assigned, "a kernel returns nothing")
        .hint("write results to memory with tl.store");
  func::ReturnOp::create(builder, loc());
  frame = nullptr;
  return {std::move(module), std::move(warnings)};
}

GeneratedKernel generateKernel(MLIRContext &context, const FunctionValue &function,
                               const std::vector<ParameterSpec> &parameters, Checks checks) {
  context.loadDialect<core::CoreDialect, device::DeviceDialect, arith::ArithDialect,
                      math::MathDialect, scf::SCFDialect, func::FuncDialect>();
  Generator generator(context);
  generator.checks = checks;
  return generator.run(function, parameters);
}

// Module-level constants use the same evaluator, which may then create no operations.
Value evaluateConstant(Module &module, const Expr &expr) {
  static MLIRContext context(MLIRContext::Threading::DISABLED);
  Generator gen(context);
  gen.constantsOnly = true;
  Generator::Frame frame;
  frame.module = module.shared_from_this();
  frame.scope = std::make_shared<Scope>();
  gen.frame = &frame;
  RangeScope scope(gen, expr.range);
  Value value = gen.evaluate(expr);
  value.assigned = expr.range;
  return value;
}

} // namespace tilery::frontend
