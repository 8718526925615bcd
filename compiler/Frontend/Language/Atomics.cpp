// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Atomic operations with semantics and scope.
#include "compiler/Frontend/Language/Memory.h"

using namespace mlir;

namespace tilery::frontend {

static constexpr const char *language = "tilery.language";

static core::MemorySemantic semanticOf(Generator &gen, const Value &value) {
  if (value.isNone())
    return core::MemorySemantic::AcqRel;
  std::string text = gen.constantString(value, "sem");
  if (auto semantic = core::symbolizeMemorySemantic(text))
    return *semantic;
  gen.fail("sem is \"relaxed\", \"acquire\", \"release\" or \"acq_rel\", not \"" + text + "\"");
}

// Memory that other ranks reach defaults to system scope; a narrower one is probably a mistake.
static core::MemoryScope scopeOf(Generator &gen, const Value &value, const Tile &pointer) {
  bool shared = pointer.element.kind != ElementType::Kind::Pointer;
  if (value.isNone())
    return shared ? core::MemoryScope::System : core::MemoryScope::Device;
  std::string text = gen.constantString(value, "scope");
  auto scope = core::symbolizeMemoryScope(text);
  if (!scope)
    gen.fail("scope is \"cta\", \"gpu\" or \"sys\", not \"" + text + "\"");
  if (shared && *scope != core::MemoryScope::System)
    gen.warn("scope \"" + text + "\" on symmetric memory: other ranks may not see this atomic; "
             "use scope=\"sys\"");
  return *scope;
}

static std::optional<core::AtomicKind> kindFor(const std::string &name, DType type) {
  using Kind = core::AtomicKind;
  bool real = isFloat(type), isUnsigned = isUnsignedInt(type);
  if (name == "add")
    return real ? Kind::FAdd : Kind::Add;
  if (name == "xchg")
    return Kind::Xchg;
  if (name == "max")
    return real ? Kind::FMax : isUnsigned ? Kind::UMax : Kind::Max;
  if (name == "min")
    return real ? Kind::FMin : isUnsigned ? Kind::UMin : Kind::Min;
  if (real)
    return std::nullopt;
  return name == "and" ? Kind::And : name == "or" ? Kind::Or : Kind::Xor;
}

// Machines update whole bytes; nothing says what the other bits would be.
static void refuseBits(Generator &gen, const std::string &what, DType type) {
  if (type == DType::Int1)
    gen.fail(what + " cannot update int1", "use int8 or a wider type");
}

static Value atomic(Generator &gen, Arguments &args, const std::string &name) {
  std::string what = "tl.atomic_" + name;
  const Tile *given = args[0].tile();
  Tile pointer = accessible(gen, args[0], what);
  DType type = pointer.element.dtype;
  std::optional<core::AtomicKind> kind = kindFor(name, type);
  refuseBits(gen, what, type);
  if (!kind)
    gen.fail(what + " needs integers, not " + nameOf(type));
  Tile value = args[1].isNumber() ? gen.number(args[1], type) : gen.cast(gen.toTile(args[1]), type);
  std::optional<Tile> mask;
  if (!args[2].isNone()) {
    mask = gen.truth(args[2]);
    gen.broadcastTogether(pointer, *mask);
  }
  value = gen.broadcastTo(value, pointer.shape());
  Type result = value.value.getType();
  core::MemorySemantic semantic = semanticOf(gen, args[3]);
  core::MemoryScope scope = scopeOf(gen, args[4], *given);
  return Tile{core::AtomicRMWOp::create(gen.builder, gen.loc(), result, *kind, semantic, scope,
                                        pointer.value, value.value,
                                        mask ? mask->value : mlir::Value()),
              value.element};
}

static Value compareAndSwap(Generator &gen, Arguments &args) {
  const Tile *given = args[0].tile();
  Tile pointer = accessible(gen, args[0], "tl.atomic_cas");
  DType type = pointer.element.dtype;
  refuseBits(gen, "tl.atomic_cas", type);
  auto operand = [&](const Value &value) {
    Tile tile = value.isNumber() ? gen.number(value, type) : gen.cast(gen.toTile(value), type);
    return gen.broadcastTo(tile, pointer.shape());
  };
  Tile expected = operand(args[1]), value = operand(args[2]);
  core::MemorySemantic semantic = semanticOf(gen, args[3]);
  core::MemoryScope scope = scopeOf(gen, args[4], *given);
  return Tile{core::AtomicCASOp::create(gen.builder, gen.loc(), value.value.getType(), semantic,
                                        scope, pointer.value, expected.value, value.value),
              value.element};
}

void addAtomicBuiltins(BuiltinTable &table) {
  for (const char *name : {"add", "and", "max", "min", "or", "xchg", "xor"})
    table.add(language, std::string("atomic_") + name, "pointer, val, mask=None, sem=None, scope=None",
              [name](Generator &gen, Arguments &args) { return atomic(gen, args, name); });
  table.add(language, "atomic_cas", "pointer, cmp, val, sem=None, scope=None", compareAndSwap);
}

} // namespace tilery::frontend
