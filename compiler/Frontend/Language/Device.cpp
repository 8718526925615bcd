// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The device level: ranks, symmetric memory, signals, one-sided transfers (language.md, 3).
#include "compiler/Frontend/Generator.h"

using namespace mlir;

namespace tilery::frontend {

static constexpr const char *device = "tilery.language.device";

static mlir::Value scalar(Generator &gen, const Value &value, DType type, const std::string &what) {
  return gen.cast(gen.scalarInt(value, what), type).value;
}

// A rank outside int32 must not wrap to one that exists: it becomes the nearest int32, which the
// runtime refuses.
static mlir::Value rankOf(Generator &gen, const Value &value, const std::string &what) {
  Tile rank = gen.scalarInt(value, "the rank of " + what);
  if (bitWidth(rank.element.dtype) >= 32 && rank.element.dtype != DType::Int32) {
    if (rank.element.dtype == DType::UInt64) // the top half is out of range either way
      rank = gen.minimum(rank, gen.number(Int{INT64_MAX}, DType::UInt64), false);
    rank = gen.cast(rank, DType::Int64);
    rank = gen.minimum(rank, gen.integer(INT32_MAX, DType::Int64), false);
    rank = gen.maximum(rank, gen.integer(INT32_MIN, DType::Int64), false);
  }
  return gen.cast(rank, DType::Int32).value;
}

// A member of one enumeration, or its name; members of another are refused (language.md, 3).
static int choice(Generator &gen, const Value &value, const std::string &kind,
                  const std::vector<std::string> &names, const std::string &what) {
  if (auto *member = value.get<EnumValue>()) {
    if (member->kind == kind)
      return member->value;
    gen.fail(what + " takes a dl." + kind + ", not dl." + member->kind + "." + member->member);
  }
  std::string listed;
  for (size_t i = 0; i < names.size(); ++i) {
    if (auto *text = value.get<std::string>(); text && llvm::StringRef(*text).lower() == names[i])
      return int(i);
    listed += (i ? ", \"" : "\"") + names[i] + "\"";
  }
  gen.fail(what + " is one of " + listed + ", not " + value.describe());
}

static tilery::device::Compare compareOf(Generator &gen, const Value &value) {
  return tilery::device::Compare(choice(gen, value, "Compare", {"eq", "ne", "gt", "le", "lt", "ge"},
                                        "cmp of dl.wait"));
}

static tilery::device::SignalUpdate updateOf(Generator &gen, const Value &value,
                                             const std::string &what) {
  return tilery::device::SignalUpdate(choice(gen, value, "SignalOp", {"set", "add"}, "sig_op of " + what));
}

// Triton-distributed's names stand for ours: inside a node and between nodes is the system.
static core::MemoryScope scopeOf(Generator &gen, const Value &value, const std::string &what) {
  if (auto *text = value.get<std::string>()) {
    static const std::map<std::string, core::MemoryScope> names = {
        {"cta", core::MemoryScope::Instance},     {"gpu", core::MemoryScope::Device},
        {"sys", core::MemoryScope::System},       {"instance", core::MemoryScope::Instance},
        {"device", core::MemoryScope::Device},    {"system", core::MemoryScope::System},
        {"intra_node", core::MemoryScope::System}, {"inter_node", core::MemoryScope::System}};
    if (auto found = names.find(*text); found != names.end())
      return found->second;
  }
  return core::MemoryScope(choice(gen, value, "Scope", {"cta", "gpu", "sys"}, "the scope of " + what));
}

static mlir::Value signalOf(Generator &gen, const Value &value, const std::string &what) {
  const Tile *tile = value.tile();
  if (!tile || tile->element.kind != ElementType::Kind::Signal)
    gen.fail(what + " needs a signal, not " + value.describe(), "allocate it with ty.signals(n)");
  return tile->value;
}

static Tile symmetric(Generator &gen, const Value &value, const std::string &what) {
  const Tile *tile = value.tile();
  if (!tile || tile->element.isScalar())
    gen.fail(what + " needs a pointer, not " + value.describe());
  switch (tile->element.kind) {
  case ElementType::Kind::Remote:
    gen.fail(what + " of a remote pointer: it is already an address on another rank",
             "translate the local symmetric pointer");
  case ElementType::Kind::Signal:
    gen.fail(what + " does not take signals", "dl.notify names the rank itself");
  case ElementType::Kind::Symmetric: break;
  default:
    gen.fail(what + ": '" + gen.range().text() + "' uses memory that is not in the symmetric heap",
             "allocate the argument with ty.empty or ty.zeros, or register it with ty.register");
  }
  if (!tile->isScalar())
    gen.fail(what + " takes one pointer, not a tile of them",
             "translate the base pointer, then add the offsets");
  return *tile;
}

static Value symmAt(Generator &gen, Arguments &args) {
  Tile tile = symmetric(gen, args[0], "dl.symm_at");
  ElementType remote{ElementType::Kind::Remote, tile.element.dtype};
  return Tile{tilery::device::SymmAtOp::create(gen.builder, gen.loc(), gen.typeOf(remote), tile.value,
                                               rankOf(gen, args[1], "dl.symm_at"), mlir::Value()),
              remote};
}

static Value notify(Generator &gen, Arguments &args) {
  mlir::Value signal = signalOf(gen, args[0], "dl.notify");
  mlir::Value rank = rankOf(gen, args[1], "dl.notify");
  mlir::Value value = scalar(gen, args[2], DType::Int64, "the value of dl.notify");
  tilery::device::NotifyOp::create(gen.builder, gen.loc(), signal, rank, value,
                                   updateOf(gen, args[3], "dl.notify"),
                                   scopeOf(gen, args[4], "dl.notify"));
  return None{};
}

static Value wait(Generator &gen, Arguments &args) {
  mlir::Value signal = signalOf(gen, args[0], "dl.wait");
  if (args[1].asInt() && *args[1].asInt() < 0)
    gen.fail("the count of dl.wait is " + toString(*args[1].asInt()) + ", it must not be negative");
  mlir::Value count = scalar(gen, args[1], DType::Int64, "the count of dl.wait");
  mlir::Value value = scalar(gen, args[4], DType::Int64, "waitValue");
  std::string semantic = gen.constantString(args[3], "the semantic of dl.wait");
  if (semantic != "acquire" && semantic != "acq_rel")
    gen.fail("the semantic of dl.wait is \"acquire\", not \"" + semantic + "\"");
  tilery::device::WaitOp::create(gen.builder, gen.loc(), signal, count, value,
                                 compareOf(gen, args[5]), scopeOf(gen, args[2], "dl.wait"));
  return gen.integer(0); // the token
}

static Tile localPointer(Generator &gen, const Value &value, const std::string &what) {
  const Tile *tile = value.tile();
  if (!tile || !tile->element.isPointer() || !tile->isScalar())
    gen.fail(what + " needs a pointer to local memory, not " + value.describe());
  if (tile->element.kind == ElementType::Kind::Remote)
    gen.fail(what + " needs local memory on this rank's side, not a remote pointer",
             "dl.put and dl.get name the rank themselves");
  if (tile->element.kind != ElementType::Kind::Symmetric)
    return *tile;
  ElementType local{ElementType::Kind::Pointer, tile->element.dtype};
  return {tilery::device::LocalOp::create(gen.builder, gen.loc(), gen.typeOf(local), tile->value), local};
}

static void checkElements(Generator &gen, const Tile &a, const Tile &b, const std::string &what) {
  if (a.element.dtype != b.element.dtype)
    gen.fail(what + " moves elements of one type, not " + nameOf(a.element.dtype) + " and " +
             nameOf(b.element.dtype));
}

// dst, src, n, rank[, sig, signal, sig_op]
static Value put(Generator &gen, Arguments &args, const std::string &name, bool nonblocking) {
  std::string what = "dl." + name;
  Tile to = symmetric(gen, args[0], what), from = localPointer(gen, args[1], what);
  checkElements(gen, to, from, what);
  mlir::Value count = scalar(gen, args[2], DType::Int64, "the count of " + what);
  mlir::Value rank = rankOf(gen, args[3], what), signal, value;
  auto update = tilery::device::SignalUpdate::Set;
  if (args.size() > 4) {
    signal = signalOf(gen, args[4], what);
    value = scalar(gen, args[5], DType::Int64, "the signal's value");
    update = updateOf(gen, args[6], what);
  }
  tilery::device::PutOp::create(gen.builder, gen.loc(), to.value, from.value, count, rank, signal,
                                value, mlir::Value(), update, nonblocking);
  return None{};
}

static Value get(Generator &gen, Arguments &args, const std::string &name, bool nonblocking) {
  std::string what = "dl." + name;
  Tile to = localPointer(gen, args[0], what), from = symmetric(gen, args[1], what);
  checkElements(gen, to, from, what);
  mlir::Value count = scalar(gen, args[2], DType::Int64, "the count of " + what);
  tilery::device::GetOp::create(gen.builder, gen.loc(), to.value, from.value, count,
                                rankOf(gen, args[3], what), mlir::Value(), nonblocking);
  return None{};
}

template <typename Op> static Value rankQuery(Generator &gen, Arguments &args) {
  int64_t axis = gen.constantInt(args[0], "the axis of the mesh");
  return Tile{Op::create(gen.builder, gen.loc(), gen.builder.getI32Type(), int32_t(axis)), {}};
}

template <typename Op> static Value order(Generator &gen, Arguments &) {
  Op::create(gen.builder, gen.loc());
  return None{};
}

void addDeviceBuiltins(BuiltinTable &table) {
  table.add(device, "rank", "axis=-1", rankQuery<tilery::device::RankIdOp>);
  table.add(device, "num_ranks", "axis=-1", rankQuery<tilery::device::NumRanksOp>);
  table.add(device, "symm_at", "ptr, rank", symmAt);
  table.add(device, "notify", "sig, rank, signal=1, sig_op='set', comm_scope='sys'", notify);
  table.add(device, "wait", "sig, count=1, scope='sys', semantic='acquire', waitValue=1, cmp='eq'",
            wait);
  table.add(device, "consume_token", "value, token",
            [](Generator &, Arguments &args) { return args[0]; });
  for (bool nbi : {false, true}) {
    std::string suffix = nbi ? "_nbi" : "";
    auto addPut = [&](const std::string &name, const char *signature) {
      table.add(device, name, signature,
                [=](Generator &gen, Arguments &args) { return put(gen, args, name, nbi); });
    };
    addPut("put" + suffix, "dst, src, n, rank");
    addPut("put_signal" + suffix, "dst, src, n, rank, sig, signal=1, sig_op='set'");
    std::string name = "get" + suffix;
    table.add(device, name, "dst, src, n, rank",
              [=](Generator &gen, Arguments &args) { return get(gen, args, name, nbi); });
  }
  table.add(device, "fence", "", order<tilery::device::FenceOp>);
  table.add(device, "quiet", "", order<tilery::device::QuietOp>);
  table.add(device, "barrier_all", "", order<tilery::device::BarrierAllOp>);
  table.add(device, "sync_all", "", order<tilery::device::SyncAllOp>);
}

} // namespace tilery::frontend
