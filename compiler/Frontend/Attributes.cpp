// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Attributes of modules, tiles, types and block pointers.
#include "compiler/Frontend/Generator.h"

using namespace mlir;

namespace tilery::frontend {

[[noreturn]] static void noAttribute(Generator &gen, const std::string &owner,
                                     const std::string &name,
                                     const std::vector<std::string> &known) {
  std::string nearest = nearestName(name, known);
  gen.fail(owner + " has no attribute '" + name + "'",
           nearest.empty() ? "" : "did you mean '" + nearest + "'?");
}

Value Generator::attribute(const Value &value, const std::string &name) {
  if (auto *module = value.get<ModuleValue>())
    return moduleMember(*module, name);
  if (auto *tile = value.tile())
    return tileAttribute(*tile, name);
  if (auto *type = value.get<TypeValue>())
    return typeAttribute(*type, name);
  if (value.block())
    return blockAttribute(value, name);
  if (const Tuple *tuple = value.tuple(); tuple && tuple->fields) {
    const std::vector<std::string> &names = tuple->fields->names;
    auto field = llvm::find(names, name);
    if (field == names.end())
      noAttribute(*this, value.describe(), name, names);
    return tuple->elements[size_t(field - names.begin())];
  }
  if (name == "value") // x.value of a tl.constexpr
    return value;
  if (value.isNumber() && (name == "to" || name == "dtype"))
    return tileAttribute(toTile(value), name);
  noAttribute(*this, value.describe(), name, {});
}

Value Generator::moduleMember(const ModuleValue &module, const std::string &name) {
  if (std::optional<Value> member = languageMember(module.name, name))
    return *member;
  noAttribute(*this, "'" + module.name + "'", name, builtinNames(module.name));
}

static Value shapeTuple(ArrayRef<int64_t> shape) {
  std::vector<Value> extents;
  for (int64_t extent : shape)
    extents.push_back(Int{extent});
  return makeTuple(std::move(extents));
}

Value Generator::tileAttribute(const Tile &tile, const std::string &name) {
  if (name == "dtype" || name == "type")
    return TypeValue{tile.element};
  if (name == "shape")
    return shapeTuple(tile.shape());
  if (name == "numel") {
    int64_t count = 1;
    for (int64_t extent : tile.shape())
      count *= extent;
    return Int{count};
  }
  if (name == "T") {
    if (tile.shape().size() != 2)
      fail(".T needs a tile of two dimensions, not " + tile.typeName(), "use tl.permute");
    return call(BuiltinValue{findBuiltin("tilery.language", "trans")}, {tile}, {});
  }
  if (const Builtin *method = findMethod(name))
    return MethodValue{method, std::make_shared<Value>(tile)};
  noAttribute(*this, "a tile (" + tile.typeName() + ")", name, builtinNames("tilery.language"));
}

Value Generator::typeAttribute(const TypeValue &type, const std::string &name) {
  ElementType element = type.element;
  DType dtype = element.dtype;
  bool scalar = element.isScalar();
  if (name == "element_ty" && !scalar)
    return TypeValue{{ElementType::Kind::Scalar, dtype}};
  if (name == "scalar")
    return type;
  if (name == "name")
    return std::string(element.str());
  if (name == "primitive_bitwidth" || name == "int_bitwidth")
    return Int{scalar ? bitWidth(dtype) : 64};
  if (name == "itemsize")
    return Int{scalar ? (bitWidth(dtype) + 7) / 8 : 8};
  static const std::map<std::string, std::function<bool(bool, DType)>> questions = {
      {"is_ptr", [](bool scalar, DType) { return !scalar; }},
      {"is_floating", [](bool scalar, DType type) { return scalar && isFloat(type); }},
      {"is_int", [](bool scalar, DType type) { return scalar && isInt(type); }},
      {"is_bool", [](bool scalar, DType type) { return scalar && type == DType::Int1; }},
      {"is_int_signed", [](bool scalar, DType type) { return scalar && isSignedInt(type); }},
      {"is_int_unsigned", [](bool scalar, DType type) { return scalar && isUnsignedInt(type); }},
      {"is_fp8", [](bool scalar, DType type) { return scalar && type >= DType::FP8E4NV; }},
      {"is_fp16", [](bool scalar, DType type) { return scalar && type == DType::FP16; }},
      {"is_bf16", [](bool scalar, DType type) { return scalar && type == DType::BF16; }},
      {"is_fp32", [](bool scalar, DType type) { return scalar && type == DType::FP32; }},
      {"is_fp64", [](bool scalar, DType type) { return scalar && type == DType::FP64; }}};
  if (auto found = questions.find(name); found != questions.end()) {
    static const Builtin answer{"type question", {{"self", std::nullopt, false}},
                                [](Generator &, Arguments &args) { return args[0]; }, true};
    return MethodValue{&answer, std::make_shared<Value>(found->second(scalar, dtype))};
  }
  noAttribute(*this, "the type " + element.str(), name, {"element_ty", "is_floating", "is_ptr"});
}

Value Generator::blockAttribute(const Value &value, const std::string &name) {
  const BlockPointer &block = *value.block();
  if (name == "dtype" || name == "type")
    return TypeValue{block.isDescriptor ? ElementType{ElementType::Kind::Scalar, block.base.element.dtype}
                                        : block.base.element};
  if (name == "block_shape" || (name == "shape" && !block.isDescriptor))
    return shapeTuple(block.block);
  if (name == "shape" || name == "strides") {
    std::vector<Value> parts;
    for (const Tile &tile : name == "shape" ? block.shape : block.strides)
      parts.push_back(tile);
    return makeTuple(std::move(parts));
  }
  const char *function = nullptr;
  if (block.isDescriptor)
    function = name == "load" ? "load_tensor_descriptor"
                              : name == "store" ? "store_tensor_descriptor" : nullptr;
  else if (name == "advance")
    function = "advance";
  if (function)
    return MethodValue{findBuiltin("tilery.language", function), std::make_shared<Value>(value)};
  noAttribute(*this, value.describe(), name, {"load", "store", "block_shape", "advance"});
}

} // namespace tilery::frontend
