// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Generates core + device IR from a kernel's syntax tree: resolves names, evaluates constants,
// infers types, inlines calls, and keeps the user's file, line and column in every location.
#pragma once

#include "compiler/Dialect/Device/IR/Device.h"
#include "compiler/Frontend/Builtin.h"
#include "compiler/Frontend/Checks.h"
#include "compiler/Frontend/Module.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tilery::frontend {

/// How one parameter of the kernel is given.
struct ParameterSpec {
  /// Set for constexpr parameters (and None): its value. Otherwise the run-time type.
  std::optional<Value> constant;
  ElementType element;
  int32_t divisibility = 1; ///< 16 or 8 where the value divides by it
  bool equalToOne = false;
  bool registered = false; ///< symmetric memory that the user made: on each rank at an address of its own
};

struct GeneratedKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> warnings;
};

/// Throws CompileError.
GeneratedKernel generateKernel(mlir::MLIRContext &context, const FunctionValue &function,
                               const std::vector<ParameterSpec> &parameters, Checks checks = {});

class Generator {
public:
  explicit Generator(mlir::MLIRContext &context) : builder(&context) {}
  /// A lambda keeps the scope that it is kept in: this parts them.
  ~Generator();

  mlir::OpBuilder builder;
  std::vector<std::string> warnings;
  Checks checks;
  /// Evaluating a module-level constant: nothing may be emitted.
  bool constantsOnly = false;

  // -- Places ------------------------------------------------------------------------------
  /// What is being generated, for errors and locations.
  const SourceRange &range() const { return ranges.back(); }
  mlir::Location loc();
  [[noreturn]] void fail(std::string message, std::string hint = "");
  void warn(const std::string &message);

  // -- Conversion.cpp: numbers, types, shapes ---------------------------------------------------
  Tile toTile(const Value &value);
  Tile number(const Value &number, DType type);
  Tile integer(int64_t value, DType type = DType::Int32);
  Tile cast(Tile tile, DType to);
  Tile bitcast(Tile tile, ElementType to);
  Tile broadcastTo(Tile tile, llvm::ArrayRef<int64_t> shape);
  void broadcastTogether(Tile &a, Tile &b);
  Tile expandDims(Tile tile, int64_t axis);
  Tile reshape(Tile tile, llvm::ArrayRef<int64_t> shape);
  Tile splat(Tile scalar, llvm::ArrayRef<int64_t> shape);
  Tile rangeTile(int64_t start, int64_t end);
  /// A scalar or tile of i1 that says whether the value is true.
  Tile truth(const Value &value);
  mlir::Type typeOf(ElementType element, llvm::ArrayRef<int64_t> shape = {});

  // Requirements on arguments; `what` names the argument in the error.
  int64_t constantInt(const Value &value, const std::string &what);
  bool constantBool(const Value &value, const std::string &what);
  std::string constantString(const Value &value, const std::string &what);
  DType dtypeOf(const Value &value, const std::string &what);
  std::vector<int64_t> shapeArgument(const Value &value, const std::string &what);
  std::vector<Value> sequence(const Value &value, const std::string &what);
  int64_t axisArgument(const Value &value, int64_t rank, const std::string &what);
  Tile scalarInt(const Value &value, const std::string &what);

  // -- Arithmetic.cpp ---------------------------------------------------------------------------
  Value binary(BinaryOp op, const Value &lhs, const Value &rhs);
  Value compare(CompareOp op, const Value &lhs, const Value &rhs);
  Value unary(UnaryOp op, const Value &operand);
  Value select(Tile condition, const Value &whenTrue, const Value &whenFalse);
  /// Converts both to one shape and type; tiles of numbers only.
  void promoteTogether(const Value &lhs, const Value &rhs, bool division, const std::string &op,
                       Tile &a, Tile &b);
  Tile arithmetic(BinaryOp op, Tile a, Tile b);
  Tile comparison(CompareOp op, Tile a, Tile b);
  Tile addPointer(Tile pointer, Tile offset);
  Tile maximum(Tile a, Tile b, bool propagateNaN);
  Tile minimum(Tile a, Tile b, bool propagateNaN);

  // -- Expressions.cpp, Calls.cpp ------------------------------------------------------------------
  Value evaluate(const Expr &expr);
  Value call(const Value &callee, std::vector<Value> arguments,
             std::vector<std::pair<std::string, Value>> keywords);
  Value attribute(const Value &value, const std::string &name);
  Value subscript(const Value &value, const std::vector<Value> &indices);
  /// Runs a function or lambda on values, for reduce and scan.
  Value apply(const Value &function, std::vector<Value> arguments) {
    return call(function, std::move(arguments), {});
  }

  std::shared_ptr<Scope> makeScope();
  GeneratedKernel run(const FunctionValue &function, const std::vector<ParameterSpec> &parameters);

private:
  std::vector<std::weak_ptr<Scope>> scopes;
  friend struct RangeScope;
  /// Statements that follow the current block on the way to the end of the function.
  struct Continuation {
    const Block *block;
    size_t index;
    const Continuation *next;
  };
  enum class Flow { Next, Returned };
  struct Frame {
    std::shared_ptr<Scope> scope;
    std::shared_ptr<Module> module;
    const FunctionDef *definition = nullptr;
    Value returned;
    int loops = 0; // run-time loops around the current statement
    std::map<std::string, SourceRange> lost; // names that may be undefined here
  };
  std::vector<SourceRange> ranges;
  std::vector<mlir::Location> callSites;
  Frame *frame = nullptr;

  std::map<std::string, Value> &names() { return frame->scope->names; }

  // Expressions.cpp
  Value evaluateName(const NameExpr &name);
  Value evaluateLogical(const LogicalExpr &logical);
  Value logicalPair(const Value &lhs, const Expr &rhs, bool isAnd);
  Value evaluateCompare(const CompareExpr &compare);
  Value evaluateConditional(const ConditionalExpr &conditional);
  Value evaluateCall(const CallExpr &call);
  Value evaluateSubscript(const SubscriptExpr &subscript);
  Value evaluateFString(const FStringExpr &string);
  Value moduleMember(const ModuleValue &module, const std::string &name);
  Value tileAttribute(const Tile &tile, const std::string &name);
  Value typeAttribute(const TypeValue &type, const std::string &name);
  Value blockAttribute(const Value &block, const std::string &name);

  // Calls.cpp
  Value callBuiltin(const Builtin &builtin, std::vector<Value> arguments,
                    const std::vector<std::pair<std::string, Value>> &keywords);
  Value callFunction(const FunctionValue &function, std::vector<Value> arguments,
                     const std::vector<std::pair<std::string, Value>> &keywords);
  Value makeNamedTuple(const TupleClass &tuple, std::vector<Value> arguments,
                       const std::vector<std::pair<std::string, Value>> &keywords);
  Value callLambda(const LambdaValue &lambda, std::vector<Value> arguments);
  void bindParameters(const FunctionDef &definition, std::vector<Value> arguments,
                      const std::vector<std::pair<std::string, Value>> &keywords, Scope &scope);
  Value defaultOf(const Parameter &parameter);

  // Statements.cpp
  Flow runBlock(const Block &block, size_t index, const Continuation *rest);
  Flow runStatement(const Stmt &stmt);
  void assign(const Expr &target, Value value);
  void runAssert(const AssertStmt &stmt);

  // ControlFlow.cpp
  Flow runIf(const IfStmt &stmt, const Continuation &rest, bool &restDone);
  /// An expression's value that depends on a run-time condition; only one side runs.
  Value branch(Tile condition, llvm::function_ref<Value()> whenTrue,
               llvm::function_ref<Value()> whenFalse);
  Flow runDynamicIf(const IfStmt &stmt, Tile condition, const Continuation *rest);
  Flow runFor(const ForStmt &stmt);
  Flow runStaticFor(const ForStmt &stmt, const RangeValue &range);
  struct LoopBounds;
  LoopBounds loopBounds(const RangeValue &range);
  void runDynamicFor(const ForStmt &stmt, const RangeValue &range);
  void runWhile(const WhileStmt &stmt);
  /// Builds an scf.if from two generated branches and merges `names` and the return value.
  struct Branch;
  void mergeBranches(mlir::Value condition, Branch &whenTrue, Branch &whenFalse,
                     const std::vector<std::string> &assigned, bool returns);
  void unify(Value &a, Value &b, Branch &inA, Branch &inB, const std::string &name);
  std::vector<std::string> carriedNames(const std::vector<std::string> &assigned);
  /// Values of the names as run-time tiles, numbers converted.
  std::vector<Tile> carriedTiles(const std::vector<std::string> &carried);
  void bindCarried(const std::vector<std::string> &carried, mlir::ValueRange values,
                   const std::vector<Tile> &types);
  std::vector<mlir::Value> yieldedValues(const std::vector<std::string> &carried,
                                         const std::map<std::string, Value> &before);
  void forget(const std::map<std::string, Value> &before, const std::vector<std::string> &assigned);

  friend Value evaluateConstant(Module &module, const Expr &expr);
};

/// Names that the statements assign, in order of first assignment.
std::vector<std::string> assignedNames(const Block &block);
bool containsReturn(const Block &block);

/// A module-level expression: constants only. Throws CompileError.
Value evaluateConstant(Module &module, const Expr &expr);

/// Marks what is being generated while it lives.
struct RangeScope {
  RangeScope(Generator &generator, const SourceRange &range) : generator(generator) {
    generator.ranges.push_back(range);
  }
  ~RangeScope() { generator.ranges.pop_back(); }
  Generator &generator;
};

} // namespace tilery::frontend
