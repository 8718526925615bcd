// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Kernels: load a file of the kernel language, launch with C++ values.
#pragma once

#include "tilery/world.hpp"

#include <array>
#include <bit>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilery {

/// A pointer with its extent, when the type of the pointer alone does not say enough.
struct Memory {
  const void *data;
  tilery_dtype dtype;
  int64_t bytes = -1;     // -1: unknown
  bool symmetric = false; // must lie in the symmetric heap
  uint32_t device = TILERY_DEVICE_BY_ADDRESS;
};

/// Text for a tl.constexpr parameter, such as MASK="keep".
struct Text {
  std::string value;
};

struct Launch {
  int64_t x = 1, y = 1, z = 1; // the grid
  const tilery_options *options = nullptr;
  double timeoutSeconds = -1; // each wait; negative: the world's
  void *stream = nullptr;     // the device's own handle
  std::span<const tilery_transfer> transfers = {}; // copies beside the grid
};

namespace detail {

inline tilery_arg record(uint64_t bits, int kind, int dtype = 0, bool symmetric = false,
                         int64_t bytes = -1) {
  tilery_arg arg{};
  arg.bits = bits;
  arg.kind = static_cast<uint8_t>(kind);
  arg.dtype = static_cast<uint8_t>(dtype);
  arg.symmetric = symmetric;
  arg.bytes = bytes;
  return arg;
}

inline uint64_t address(const void *pointer) { return std::bit_cast<uintptr_t>(pointer); }

inline tilery_arg encode(const Memory &m, bool) {
  tilery_arg arg = record(address(m.data), TILERY_ARG_POINTER, m.dtype, m.symmetric, m.bytes);
  arg.device = m.device;
  return arg;
}
template <typename T> tilery_arg encode(const Symmetric<T> &s, bool) {
  int64_t bytes = int64_t(s.size() * sizeof(T));
  return encode(Memory{s.data(), dtypeOf<T>(), bytes, true}, false);
}
template <typename T> tilery_arg encode(const std::vector<T> &v, bool) {
  return record(address(v.data()), TILERY_ARG_POINTER, dtypeOf<T>(), false, v.size() * sizeof(T));
}
template <typename T> tilery_arg encode(T *pointer, bool) {
  return encode(Memory{pointer, dtypeOf<T>()}, false);
}
inline tilery_arg encode(std::nullptr_t, bool) { return record(0, TILERY_ARG_CONST_NONE); }
template <typename T> tilery_arg encode(const std::optional<T> &value, bool constant) {
  return value ? encode(*value, constant) : encode(nullptr, constant);
}
inline tilery_arg encode(tilery_dtype dtype, bool) {
  return record(0, TILERY_ARG_CONST_DTYPE, dtype);
}
inline tilery_arg encode(bool value, bool constant) {
  return record(value, constant ? TILERY_ARG_CONST_BOOL : TILERY_ARG_BOOL);
}
inline tilery_arg encode(double value, bool constant) {
  return record(std::bit_cast<uint64_t>(value),
                constant ? TILERY_ARG_CONST_FLOAT : TILERY_ARG_FLOAT, TILERY_FP32);
}
inline tilery_arg encode(float value, bool constant) { return encode(double(value), constant); }
template <typename T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) tilery_arg
    encode(T value, bool constant) {
  bool small = std::in_range<int32_t>(value);
  int dtype = small ? TILERY_INT32 : std::in_range<int64_t>(value) ? TILERY_INT64 : TILERY_UINT64;
  return record(static_cast<uint64_t>(value), constant ? TILERY_ARG_CONST_INT : TILERY_ARG_INT,
                dtype);
}
inline tilery_arg encode(const Text &text, bool) {
  uint64_t id = 0;
  check(tilery_constant_intern(("{\"str\":\"" + text.value + "\"}").c_str(), &id));
  return record(id, TILERY_ARG_CONST_OTHER);
}

/// Which parameters are tl.constexpr, from tilery_function_describe.
inline std::vector<bool> constants(std::string_view description) {
  std::vector<bool> flags;
  constexpr std::string_view key = "\"constexpr\":";
  for (size_t at = description.find(key); at != std::string_view::npos;
       at = description.find(key, at)) {
    at += key.size();
    while (at < description.size() && description[at] == ' ')
      ++at;
    flags.push_back(description.substr(at, 4) == "true");
  }
  return flags;
}

inline std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else
      result += c;
  }
  return result + "\"";
}

} // namespace detail

/// A file whose text is at hand: what `from .module import name` of a kernel file can find.
struct SourceFile {
  std::string_view path;
  std::string_view text;
};

/// A kernel; compiled at the first launch with new types, specialisations or constants.
class Kernel {
public:
  /// `name` in the kernel file at `path`.
  static Kernel load(const std::string &path, const std::string &name) {
    tilery_function *function = nullptr;
    check(tilery_function_load(path.c_str(), name.c_str(), &function));
    return Kernel(function);
  }
  /// `name` in the text of a whole file; `path` names it in errors, and imports are looked up
  /// relative to it, among `imported` before the disk.
  static Kernel fromText(std::string_view path, std::string_view text, std::string_view name,
                         std::span<const SourceFile> imported = {}) {
    std::string request = "{\"source\":" + detail::quoted(text) +
                          ",\"file\":" + detail::quoted(path) +
                          ",\"line\":1,\"name\":" + detail::quoted(name) +
                          ",\"bindings\":{},\"files\":{";
    for (const SourceFile &file : imported)
      request += (request.back() == '{' ? "" : ",") + detail::quoted(file.path) + ":" +
                 detail::quoted(file.text);
    request += "}}";
    tilery_function *function = nullptr;
    check(tilery_function_create(request.c_str(), &function));
    return Kernel(function);
  }
  Kernel(Kernel &&other) noexcept
      : function(std::exchange(other.function, nullptr)), constexprs(std::move(other.constexprs)) {}
  Kernel(const Kernel &) = delete;
  ~Kernel() { tilery_function_destroy(function); }

  /// Runs the kernel over the grid with arguments in parameter order, constants included:
  /// numbers, pointers, vectors, Symmetric, Memory, nullptr (None), std::optional of these,
  /// tilery_dtype, Text.
  template <typename... Args> void launch(World &world, const Launch &how, const Args &...args) {
    launchOn(world.handle(), how, args...);
  }
  /// The same for kernels that do not communicate.
  template <typename... Args> void launch(const Launch &how, const Args &...args) {
    launchOn(nullptr, how, args...);
  }
  template <typename... Args>
  void launchOn(tilery_world *world, const Launch &how, const Args &...args) {
    size_t at = 0;
    auto isConstant = [&] { return at < constexprs.size() ? bool(constexprs[at++]) : false; };
    std::array<tilery_arg, sizeof...(Args)> records{detail::encode(args, isConstant())...};
    tilery_launch launch{
        {how.x, how.y, how.z}, how.options,          how.stream,
        how.timeoutSeconds,    how.transfers.data(), int32_t(how.transfers.size())};
    check(
        tilery_function_launch(function, world, &launch, records.data(), int32_t(records.size())));
  }

private:
  explicit Kernel(tilery_function *function)
      : function(function), constexprs(detail::constants(tilery_function_describe(function))) {}
  tilery_function *function;
  std::vector<bool> constexprs;
};

} // namespace tilery
