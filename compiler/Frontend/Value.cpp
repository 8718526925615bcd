// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Questions about compile-time values, and their run-time parts.
#include "compiler/Frontend/Value.h"

#include "compiler/Dialect/Core/IR/Core.h"

#include <algorithm>

namespace tilery::frontend {

std::string ElementType::str() const {
  std::string name = nameOf(dtype);
  switch (kind) {
  case Kind::Scalar: return name;
  case Kind::Pointer: return "pointer<" + name + ">";
  case Kind::Symmetric: return "symmetric pointer<" + name + ">";
  case Kind::Remote: return "remote pointer<" + name + ">";
  case Kind::Signal: return "signal";
  }
  return name;
}

llvm::ArrayRef<int64_t> Tile::shape() const { return core::shapeOf(value.getType()); }

static std::string listOf(llvm::ArrayRef<int64_t> extents) {
  std::string out = "[";
  for (int64_t extent : extents)
    out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
  return out + "]";
}

std::string Tile::typeName() const {
  return isScalar() ? element.str() : element.str() + listOf(shape());
}

std::string toString(__int128 value) {
  if (value == 0)
    return "0";
  bool negative = value < 0;
  std::string digits;
  for (; value != 0; value /= 10)
    digits += char('0' + int(negative ? -(value % 10) : value % 10));
  if (negative)
    digits += '-';
  return {digits.rbegin(), digits.rend()};
}

std::optional<__int128> Value::asInt() const {
  if (auto *integer = get<Int>())
    return integer->value;
  if (auto *boolean = get<bool>())
    return *boolean;
  return std::nullopt;
}

std::string Value::describe() const {
  struct Describe {
    std::string operator()(None) { return "None"; }
    std::string operator()(bool value) { return value ? "True" : "False"; }
    std::string operator()(Int value) { return "int " + toString(value.value); }
    std::string operator()(double value) { return "float " + std::to_string(value); }
    std::string operator()(const std::string &value) { return "'" + value + "'"; }
    std::string operator()(const Tile &tile) { return tile.typeName(); }
    std::string operator()(const TypeValue &type) { return "the type " + type.element.str(); }
    std::string operator()(const EnumValue &value) { return value.kind + "." + value.member; }
    std::string operator()(const std::shared_ptr<Tuple> &tuple) {
      std::string out, name = tuple->fields ? tuple->fields->className : "";
      for (const Value &element : tuple->elements)
        out += (out.empty() ? "" : ", ") + element.describe();
      return name + "(" + out + ")";
    }
    std::string operator()(const TupleClass &tuple) {
      return "the class " + tuple.fields->className;
    }
    std::string operator()(const ModuleValue &module) { return "the module " + module.name; }
    std::string operator()(const FunctionValue &function) {
      return "the function " + function.definition->name;
    }
    std::string operator()(const std::shared_ptr<LambdaValue> &) { return "a lambda"; }
    std::string operator()(const BuiltinValue &) { return "a function of the language"; }
    std::string operator()(const MethodValue &) { return "a method"; }
    std::string operator()(SliceValue) { return "a slice"; }
    std::string operator()(EllipsisValue) { return "..."; }
    std::string operator()(const std::shared_ptr<BlockPointer> &block) {
      return (block->isDescriptor ? "a descriptor of " : "a block pointer to ") +
             block->base.element.str() + listOf(block->block);
    }
    std::string operator()(const std::shared_ptr<RangeValue> &) { return "a range"; }
  };
  return std::visit(Describe{}, data);
}

Value makeTuple(std::vector<Value> elements, std::shared_ptr<const TupleFields> fields) {
  return std::make_shared<Tuple>(Tuple{std::move(elements), std::move(fields)});
}

bool sameConstant(const Value &a, const Value &b) {
  if (auto ia = a.asInt(), ib = b.asInt(); ia && ib)
    return *ia == *ib && bool(a.get<bool>()) == bool(b.get<bool>());
  if (a.data.index() != b.data.index())
    return false;
  if (auto *tuple = a.tuple()) {
    const Tuple *other = b.tuple();
    return tuple->elements.size() == other->elements.size() &&
           std::equal(tuple->elements.begin(), tuple->elements.end(), other->elements.begin(),
                      sameConstant);
  }
  if (auto *x = a.get<double>())
    return *x == *b.get<double>();
  if (auto *x = a.get<std::string>())
    return *x == *b.get<std::string>();
  if (auto *x = a.get<TypeValue>())
    return x->element == b.get<TypeValue>()->element;
  if (auto *x = a.get<EnumValue>())
    return x->kind == b.get<EnumValue>()->kind && x->value == b.get<EnumValue>()->value;
  if (auto *x = a.get<FunctionValue>())
    return x->definition == b.get<FunctionValue>()->definition;
  if (auto *x = a.get<BuiltinValue>())
    return x->builtin == b.get<BuiltinValue>()->builtin;
  if (auto *x = a.get<TupleClass>())
    return x->fields == b.get<TupleClass>()->fields;
  if (auto *x = a.get<ModuleValue>())
    return x->name == b.get<ModuleValue>()->name;
  return a.isNone() || a.get<EllipsisValue>();
}

void flatten(const Value &value, std::vector<Tile> &tiles) {
  if (const Tile *tile = value.tile())
    tiles.push_back(*tile);
  if (const Tuple *tuple = value.tuple())
    for (const Value &element : tuple->elements)
      flatten(element, tiles);
  if (const BlockPointer *block = value.block()) {
    tiles.push_back(block->base);
    for (const auto *list : {&block->shape, &block->strides, &block->offsets})
      tiles.insert(tiles.end(), list->begin(), list->end());
  }
}

Value unflatten(const Value &like, llvm::ArrayRef<Tile> tiles, size_t &next) {
  Value result = like;
  if (like.tile())
    result.data = tiles[next++];
  if (const Tuple *tuple = like.tuple()) {
    std::vector<Value> elements;
    for (const Value &element : tuple->elements)
      elements.push_back(unflatten(element, tiles, next));
    result.data = makeTuple(std::move(elements), tuple->fields).data;
  }
  if (const BlockPointer *block = like.block()) {
    auto copy = std::make_shared<BlockPointer>(*block);
    copy->base = tiles[next++];
    for (auto *list : {&copy->shape, &copy->strides, &copy->offsets})
      for (Tile &tile : *list)
        tile = tiles[next++];
    result.data = copy;
  }
  return result;
}

} // namespace tilery::frontend
