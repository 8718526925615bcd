// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Specialisation as Triton's: types, constants, integers equal to 1, divisibility by 16; and by 8 of
// integers, because rows of so many halves still are aligned to 16 bytes.
#include "capi/specialize.h"

#include "capi/bindings.h"
#include "capi/targets.h"
#include "runtime/base/knobs.h"
#include "runtime/hal/driver.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>

using namespace tilery;
using namespace tilery::capi;
using frontend::DType;
using frontend::ElementType;
using frontend::ParameterSpec;

namespace {


/// What of an argument distinguishes specialisations. Comparable as bytes.
struct ArgKey {
  uint64_t bits = 0; // of constants
  uint8_t kind = 0, dtype = 0, flags = 0, pad[5] = {};
};
enum : uint8_t { FlagDivisible = 1, FlagOne = 2, FlagSymmetric = 4, FlagHalfDivisible = 8, FlagRegistered = 16 };

/// Where the memory of a launch's arguments is.
class ArgumentDevice {
public:
  ArgumentDevice(const tilery_function &function, const rt::World *world,
                 std::span<const tilery_arg> args)
      : function(function), world(world), args(args) {}

  /// 0 for the host, also when there is no memory among the arguments of a world of the host.
  int32_t find() const {
    ptrdiff_t first = -1;
    int32_t found = world ? world->deviceNumber() : 0;
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].kind != TILERY_ARG_POINTER || args[i].bits == 0 || args[i].bytes == 0)
        continue;
      int32_t device = deviceOf(args[i]);
      if (first >= 0 && device != found)
        refuse(size_t(first), found, i, device);
      if (first < 0)
        first = ptrdiff_t(i);
      found = device;
    }
    return found;
  }

private:
  int32_t deviceOf(const tilery_arg &arg) const {
    auto address = reinterpret_cast<const void *>(arg.bits);
    if (world && world->inHeap(address))
      return world->deviceNumber();
    if (arg.device == TILERY_DEVICE_BY_ADDRESS)
      return rt::hal::deviceNumberOf(address);
    return int32_t(arg.device);
  }

  [[noreturn]] void refuse(size_t first, int32_t firstDevice, size_t second,
                           int32_t secondDevice) const {
    rt::raise(TILERY_LAUNCH_ERROR,
              "argument '{}' of '{}' is in memory of {}, argument '{}' in memory of {}\nhint: "
              "copy one of them; a kernel runs where all of its arrays are",
              function.parameters[first].name, function.value.definition->name,
              describeDevice(firstDevice), function.parameters[second].name,
              describeDevice(secondDevice));
  }

  static std::string describeDevice(int32_t number) {
    if (number == 0)
      return "the host";
    auto [driver, device] = rt::hal::deviceNumber(number);
    return fmt::format("{}:{}", driver->name(), device);
  }

  const tilery_function &function;
  const rt::World *world;
  std::span<const tilery_arg> args;
};

class Specialiser {
public:
  Specialiser(tilery_function &function, const rt::World *world, std::span<const tilery_arg> args)
      : function(function), world(world), args(args) {}

  Specialised find(const tilery_options *options) {
    if (args.size() != function.parameters.size())
      rt::raise(TILERY_LAUNCH_ERROR, "'{}' has {} parameters, but {} arguments are given", name(),
                function.parameters.size(), args.size());
    int32_t device = ArgumentDevice(function, world, args).find();
    bool timeline = world && world->trace.on();
    // Kept, so that a launch allocates nothing.
    static thread_local std::string key;
    key.assign(reinterpret_cast<const char *>(&options), sizeof(options));
    key.append(reinterpret_cast<const char *>(&device), sizeof(device));
    key.push_back(char(timeline));
    for (size_t i = 0; i < args.size(); ++i) {
      ArgKey part = keyOf(i);
      key.append(reinterpret_cast<const char *>(&part), sizeof(part));
    }
    std::lock_guard lock(function.mutex);
    std::unique_ptr<tilery_kernel> &kernel = function.kernels[key];
    if (!kernel)
      kernel = compileKernel(function, specs(), machineFor(device, options, timeline));
    return {*kernel, device};
  }

private:
  tilery_function &function;
  const rt::World *world;
  std::span<const tilery_arg> args;

  const std::string &name() const { return function.value.definition->name; }
  const ParameterInfo &parameter(size_t i) const { return function.parameters[i]; }

  [[noreturn]] void refuse(size_t i, const std::string &why, const std::string &hint) const {
    rt::raise(TILERY_LAUNCH_ERROR, "argument '{}' of '{}' {}{}", parameter(i).name, name(), why,
              hint.empty() ? "" : "\nhint: " + hint);
  }

  ArgKey keyOf(size_t i) const {
    const tilery_arg &arg = args[i];
    ArgKey key;
    key.kind = arg.kind;
    key.dtype = arg.dtype;
    switch (arg.kind) {
    case TILERY_ARG_POINTER:
      key.flags = pointerFlags(i);
      break;
    case TILERY_ARG_INT:
      if (!parameter(i).doNotSpecialize)
        key.flags = arg.bits % 16 == 0  ? FlagDivisible
                    : arg.bits % 8 == 0 ? FlagHalfDivisible
                    : arg.bits == 1     ? FlagOne
                                        : uint8_t(0);
      break;
    case TILERY_ARG_FLOAT:
    case TILERY_ARG_BOOL:
    case TILERY_ARG_DEFAULT:
      break;
    default:
      key.bits = arg.kind == TILERY_ARG_CONST_NONE || arg.kind == TILERY_ARG_CONST_DTYPE ? 0 : arg.bits;
      if (arg.kind > TILERY_ARG_DEFAULT)
        refuse(i, "has an unknown kind", "");
    }
    if (parameter(i).isConstexpr && arg.kind < TILERY_ARG_CONST_INT)
      refuse(i, arg.kind == TILERY_ARG_POINTER ? "is a tl.constexpr parameter, but memory is given"
                                               : "is a tl.constexpr parameter, but a run-time value is given",
             "pass a constant, or drop the annotation tl.constexpr");
    return key;
  }

  // Symmetric memory is found by its address; what must be symmetric is checked.
  uint8_t pointerFlags(size_t i) const {
    const tilery_arg &arg = args[i];
    const void *address = reinterpret_cast<const void *>(arg.bits);
    bool inside = world ? world->inHeap(address) : arg.symmetric == 1;
    uint8_t registered = 0;
    bool wanted = arg.symmetric == 1 || arg.dtype == TILERY_SIGNAL;
    size_t bytes = size_t(std::max<int64_t>(arg.bytes, 0));
    if (world && inside && !world->contains(address, bytes))
      refuse(i, world->whyNotContained(address, bytes), "");
    if (world && !inside && arg.dtype != TILERY_SIGNAL && world->registered(address, bytes)) {
      inside = true;
      registered = FlagRegistered;
    }
    if (wanted && !inside && world)
      refuse(i, "is not in the symmetric heap of this world",
             arg.dtype == TILERY_SIGNAL ? "allocate it with ty.signals(n)"
                                        : "allocate it with ty.empty or ty.zeros, or register it with ty.register");
    bool aligned = arg.bits % 16 == 0 && !parameter(i).doNotSpecialize;
    return uint8_t((aligned ? FlagDivisible : 0) | (inside ? FlagSymmetric : 0) | registered);
  }

  std::vector<ParameterSpec> specs() const {
    std::vector<ParameterSpec> result;
    for (size_t i = 0; i < args.size(); ++i)
      result.push_back(specOf(i));
    return result;
  }

  ParameterSpec specOf(size_t i) const {
    const tilery_arg &arg = args[i];
    ArgKey key = keyOf(i);
    ParameterSpec spec;
    spec.divisibility = key.flags & FlagDivisible ? 16 : key.flags & FlagHalfDivisible ? 8 : 1;
    spec.equalToOne = key.flags & FlagOne;
    if (arg.kind == TILERY_ARG_POINTER) {
      bool signal = arg.dtype == TILERY_SIGNAL;
      spec.element.kind = signal ? ElementType::Kind::Signal
                          : key.flags & FlagSymmetric ? ElementType::Kind::Symmetric
                                                      : ElementType::Kind::Pointer;
      spec.registered = key.flags & FlagRegistered;
      spec.element.dtype = signal ? DType::UInt64 : dtypeOf(arg.dtype);
    } else if (arg.kind == TILERY_ARG_INT || arg.kind == TILERY_ARG_FLOAT) {
      spec.element.dtype = dtypeOf(arg.dtype);
    } else if (arg.kind == TILERY_ARG_BOOL) {
      spec.element.dtype = DType::Int1;
    } else {
      spec.constant = constantOf(i);
    }
    return spec;
  }

  frontend::Value constantOf(size_t i) const {
    const tilery_arg &arg = args[i];
    double real;
    switch (arg.kind) {
    case TILERY_ARG_CONST_INT:
      if (arg.dtype == TILERY_UINT64)
        return frontend::Int{__int128(arg.bits)};
      return frontend::Int{int64_t(arg.bits)};
    case TILERY_ARG_CONST_FLOAT:
      std::memcpy(&real, &arg.bits, sizeof(real));
      return real;
    case TILERY_ARG_CONST_BOOL: return arg.bits != 0;
    case TILERY_ARG_CONST_NONE: return frontend::None{};
    case TILERY_ARG_CONST_DTYPE: return frontend::TypeValue{{ElementType::Kind::Scalar, dtypeOf(arg.dtype)}};
    case TILERY_ARG_CONST_OTHER: return internedConstant(arg.bits);
    default: break; // TILERY_ARG_DEFAULT
    }
    if (!parameter(i).defaultValue)
      refuse(i, "is missing", "");
    return *parameter(i).defaultValue;
  }
};

/// One entry of a signature; throws ConfigError.
ParameterSpec parseEntry(llvm::StringRef entry, const ParameterInfo &parameter) {
  ParameterSpec spec;
  llvm::StringRef text = entry.trim();
  auto bad = [&]() {
    rt::raise(TILERY_CONFIG_ERROR,
              "'{}' is not a type or constant for parameter '{}'\nhint: write for example *fp32, "
              "symm *bf16, registered *bf16, signal, i32, i32:16, or a literal or dtype for a tl.constexpr parameter",
              text.str(), parameter.name);
  };
  if (parameter.isConstexpr || text == "None") {
    if (std::optional<DType> dtype = frontend::dtypeNamed(text))
      spec.constant = frontend::TypeValue{{ElementType::Kind::Scalar, *dtype}};
    else
      spec.constant = *frontend::Module::fromText("<signature>", "value = " + text.str() + "\n")
                           ->lookup("value");
    return spec;
  }
  auto [type, suffix] = text.split(':');
  spec.divisibility = suffix.trim() == "16" ? 16 : suffix.trim() == "8" ? 8 : 1;
  spec.equalToOne = suffix.trim() == "1";
  if (!suffix.empty() && spec.divisibility == 1 && !spec.equalToOne)
    bad();
  type = type.trim();
  if (type == "signal") {
    spec.element = {ElementType::Kind::Signal, DType::UInt64};
    return spec;
  }
  spec.registered = type.consume_front("registered");
  bool symmetric = spec.registered || type.consume_front("symm");
  type = type.trim();
  bool pointer = type.consume_front("*");
  std::optional<DType> dtype = frontend::dtypeNamed(type.trim());
  bool hinted = spec.divisibility > 1 || spec.equalToOne;
  if (!dtype || (symmetric && !pointer) || (hinted && !pointer && frontend::isFloat(*dtype)) ||
      text.ends_with(":"))
    bad();
  spec.element = {symmetric ? ElementType::Kind::Symmetric
                  : pointer ? ElementType::Kind::Pointer : ElementType::Kind::Scalar, *dtype};
  return spec;
}

// A run-time parameter's default comes as a constant; slots need its bits only when it is not
// compiled in, which defaults always are. Floats travel in their own format.
uint64_t slotOf(const tilery_arg &arg) {
  if (arg.kind != TILERY_ARG_FLOAT)
    return arg.bits;
  double real;
  std::memcpy(&real, &arg.bits, sizeof(real));
  if (arg.dtype == TILERY_FP64)
    return arg.bits;
  const llvm::fltSemantics &format = arg.dtype == TILERY_FP16   ? llvm::APFloat::IEEEhalf()
                                     : arg.dtype == TILERY_BF16 ? llvm::APFloat::BFloat()
                                                                : llvm::APFloat::IEEEsingle();
  llvm::APFloat value(real);
  bool lost;
  value.convert(format, llvm::APFloat::rmNearestTiesToEven, &lost);
  return value.bitcastToAPInt().getZExtValue();
}

} // namespace

Specialised capi::specialise(tilery_function &function, const rt::World *world,
                             const tilery_options *options, std::span<const tilery_arg> args) {
  return Specialiser(function, world, args).find(options);
}

tilery_kernel &capi::specialiseSignature(tilery_function &function, const tilery_options *options,
                                         const char *signature) {
  llvm::SmallVector<llvm::StringRef> entries;
  llvm::StringRef(signature).split(entries, ',');
  if (function.parameters.empty())
    entries.clear();
  if (entries.size() != function.parameters.size())
    rt::raise(TILERY_CONFIG_ERROR, "'{}' has {} parameters, but the signature has {} entries",
              function.value.definition->name, function.parameters.size(), entries.size());
  std::vector<ParameterSpec> specs;
  for (size_t i = 0; i < entries.size(); ++i)
    specs.push_back(parseEntry(entries[i], function.parameters[i]));
  std::lock_guard lock(function.mutex);
  std::string key(reinterpret_cast<const char *>(&options), sizeof(options));
  std::unique_ptr<tilery_kernel> &kernel = function.kernels[key + signature];
  if (!kernel)
    kernel = compileKernel(function, std::move(specs), machineFor(0, options, !rt::knobs().trace.empty()));
  return *kernel;
}

ArgumentSlots::ArgumentSlots(const tilery_kernel &kernel, rt::World *world,
                             std::span<const tilery_arg> args) {
  const std::vector<int32_t> &parameters = kernel.runTimeParameters, &extents = kernel.image.extents;
  const std::vector<int32_t> &peers = kernel.image.peers;
  size_t count = parameters.size() + extents.size() + peers.size();
  if (count > few.size())
    many.resize(count);
  uint64_t *slot = many.empty() ? few.data() : many.data();
  for (int32_t parameter : parameters)
    *slot++ = slotOf(args[size_t(parameter)]);
  for (int32_t argument : extents)
    *slot++ = uint64_t(args[size_t(parameters[size_t(argument)])].bytes);
  for (int32_t argument : peers) {
    uint64_t address = args[size_t(parameters[size_t(argument)])].bits;
    *slot++ = reinterpret_cast<uint64_t>(world->share->registered.distances(*world, reinterpret_cast<void *>(address)));
  }
}
