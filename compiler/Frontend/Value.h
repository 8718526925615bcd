// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Values while a kernel is being compiled: Python constants, and tiles that exist at run time.
#pragma once

#include "compiler/Frontend/Ast.h"
#include "compiler/Frontend/DType.h"

#include "mlir/IR/Value.h"

#include <functional>
#include <map>
#include <memory>
#include <variant>

namespace tilery::frontend {

struct Value;
struct Builtin;
struct Scope;
class Module;

/// What the elements of a run-time value are. The IR types carry no signs; this does.
struct ElementType {
  enum class Kind { Scalar, Pointer, Symmetric, Remote, Signal };
  Kind kind = Kind::Scalar;
  DType dtype = DType::Int32; // of the element, or of what the pointer points to

  bool isScalar() const { return kind == Kind::Scalar; }
  bool isPointer() const { return kind != Kind::Scalar && kind != Kind::Signal; }
  bool operator==(const ElementType &) const = default;
  /// "fp32", "pointer<fp32>", "symmetric pointer<fp32>", "signal".
  std::string str() const;
};

/// A scalar or tile that the kernel computes.
struct Tile {
  mlir::Value value;
  ElementType element;

  llvm::ArrayRef<int64_t> shape() const;
  bool isScalar() const { return shape().empty(); }
  /// "fp32", "fp32[64, 32]".
  std::string typeName() const;
};

/// A Python int; wide enough for uint64 and int64 and checked after each operation.
struct Int {
  __int128 value;
  bool operator==(const Int &) const = default;
};
struct None {
  bool operator==(const None &) const = default;
};
/// Names of a named tuple's elements, and the class that has them.
struct TupleFields {
  std::string className;
  std::vector<std::string> names;
  std::vector<std::optional<Value>> defaults; // one for each name
};
struct Tuple {
  std::vector<Value> elements;
  std::shared_ptr<const TupleFields> fields; // null for plain tuples
};
/// A NamedTuple class; calling it makes a tuple with fields.
struct TupleClass {
  std::shared_ptr<const TupleFields> fields;
};
/// A dtype, or a pointer to it (`ptr.dtype`).
struct TypeValue {
  ElementType element;
};
/// A member of Compare, SignalOp or Scope.
struct EnumValue {
  std::string kind, member;
  int value;
};
struct ModuleValue {
  std::string name; // "tilery.language"
};
/// A jit function of the user, with the module that its names resolve in.
struct FunctionValue {
  std::shared_ptr<const FunctionDef> definition;
  std::shared_ptr<Module> module;
};
struct LambdaValue {
  const LambdaExpr *expr;
  std::shared_ptr<Scope> scope;
};
struct BuiltinValue {
  const Builtin *builtin;
};
/// `x.sum`, `desc.load`: the method's builtin with its first argument.
struct MethodValue {
  const Builtin *builtin;
  std::shared_ptr<Value> self;
};
struct SliceValue {
  bool full; // `:`
};
struct EllipsisValue {};
/// A block pointer or a tensor descriptor: scalars that describe a block of a tensor.
struct BlockPointer {
  Tile base;
  std::vector<Tile> shape, strides, offsets;
  std::vector<int64_t> block;
  bool isDescriptor = false;
  bool padNaN = false;
};
/// The value of range(...) in a `for`.
struct RangeValue {
  std::vector<Value> bounds; // start, end, step
  bool isStatic = false;
  std::vector<std::pair<std::string, int64_t>> hints; // num_stages, ...
};

struct Value {
  std::variant<None, bool, Int, double, std::string, Tile, TypeValue, EnumValue,
               std::shared_ptr<Tuple>, TupleClass, ModuleValue, FunctionValue, std::shared_ptr<LambdaValue>,
               BuiltinValue, MethodValue, SliceValue, EllipsisValue,
               std::shared_ptr<BlockPointer>, std::shared_ptr<RangeValue>>
      data;
  /// Where it was assigned; for errors about a variable's type.
  SourceRange assigned;

  Value() = default;
  template <typename T> Value(T value) : data(std::move(value)) {}

  template <typename T> const T *get() const { return std::get_if<T>(&data); }
  bool isNone() const { return get<None>(); }
  const Tile *tile() const { return get<Tile>(); }
  const Tuple *tuple() const {
    auto *pointer = get<std::shared_ptr<Tuple>>();
    return pointer ? pointer->get() : nullptr;
  }
  const BlockPointer *block() const {
    auto *pointer = get<std::shared_ptr<BlockPointer>>();
    return pointer ? pointer->get() : nullptr;
  }
  /// A Python number: bool, int or float.
  bool isNumber() const { return get<bool>() || get<Int>() || get<double>(); }
  std::optional<__int128> asInt() const;
  /// "int 3", "fp32[64]", "tuple", for errors.
  std::string describe() const;
};

Value makeTuple(std::vector<Value> elements, std::shared_ptr<const TupleFields> fields = nullptr);
std::string toString(__int128 value);
/// Python equality of constants; false when either is not one.
bool sameConstant(const Value &a, const Value &b);

/// The run-time parts of a value, in a fixed order; constants have none.
void flatten(const Value &value, std::vector<Tile> &tiles);
/// The same value with its run-time parts replaced, in flatten's order.
Value unflatten(const Value &like, llvm::ArrayRef<Tile> tiles, size_t &next);

/// Names of one function body (or lambda), resolved from inside out.
struct Scope {
  std::map<std::string, Value> names;
  std::shared_ptr<Scope> parent;
};

} // namespace tilery::frontend
