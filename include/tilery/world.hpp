// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// A rank's world and its symmetric memory.
#pragma once

#include "tilery/error.hpp"
#include "tilery/kernel_abi.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace tilery {

/// Halves as bits; arithmetic is the kernels' business.
struct float16 {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};
/// One signal word; only notify, put_signal and wait touch it.
struct signal {
  uint64_t word;
};

/// The element type of kernels that `T` stands for.
template <typename T> constexpr tilery_dtype dtypeOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return TILERY_INT1;
  else if constexpr (std::is_same_v<U, int8_t>)
    return TILERY_INT8;
  else if constexpr (std::is_same_v<U, int16_t>)
    return TILERY_INT16;
  else if constexpr (std::is_same_v<U, int32_t>)
    return TILERY_INT32;
  else if constexpr (std::is_same_v<U, int64_t>)
    return TILERY_INT64;
  else if constexpr (std::is_same_v<U, uint8_t>)
    return TILERY_UINT8;
  else if constexpr (std::is_same_v<U, uint16_t>)
    return TILERY_UINT16;
  else if constexpr (std::is_same_v<U, uint32_t>)
    return TILERY_UINT32;
  else if constexpr (std::is_same_v<U, uint64_t>)
    return TILERY_UINT64;
  else if constexpr (std::is_same_v<U, float16>)
    return TILERY_FP16;
  else if constexpr (std::is_same_v<U, bfloat16>)
    return TILERY_BF16;
  else if constexpr (std::is_same_v<U, float>)
    return TILERY_FP32;
  else if constexpr (std::is_same_v<U, double>)
    return TILERY_FP64;
  else if constexpr (std::is_same_v<U, signal>)
    return TILERY_SIGNAL;
  else
    static_assert(!sizeof(U), "kernels have no element type like this one");
}

/// This rank's copy of a symmetric object of `size()` elements; freed with the world.
template <typename T> class Symmetric {
public:
  Symmetric(tilery_world *world, T *data, size_t size)
      : world(world), elements(data), count(size) {}
  T *data() const { return elements; }
  size_t size() const { return count; }
  T &operator[](size_t i) const { return elements[i]; }
  T *begin() const { return elements; }
  T *end() const { return elements + count; }
  /// The same object on `rank`, where it is mapped.
  T *at(int rank) const {
    void *peer = nullptr;
    check(tilery_symmetric_at(world, elements, rank, &peer));
    return static_cast<T *>(peer);
  }

private:
  tilery_world *world;
  T *elements;
  size_t count;
};

/// One rank's view of all ranks, or of a team. Collective calls are made by every rank in one order.
class World {
public:
  /// What the destructor does: nothing, release the handle (teams), or finalize the world.
  enum class Owns { Nothing, Handle, World };

  /// The world that the launcher's environment describes, or a single rank.
  /// options: JSON of tilery_world_init.
  static World init(const char *options = nullptr) {
    tilery_world *handle = nullptr;
    check(tilery_world_init(options, &handle));
    return World(handle);
  }
  explicit World(tilery_world *handle, Owns owns = Owns::World) : handle_(handle), owns(owns) {}
  World(World &&other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), owns(other.owns) {}
  World(const World &) = delete;
  ~World() {
    if (handle_ && owns == Owns::World)
      tilery_world_finalize(handle_); // reports nothing: a destructor cannot fail
    if (handle_ && owns == Owns::Handle)
      tilery_world_destroy(handle_);
  }

  /// Collective: the team of these ranks, numbered in this order. A world too; it must not be used
  /// on ranks that are not in the list, where its rank() is -1.
  World team(std::span<const int> ranks, const char *label) {
    tilery_world *handle = nullptr;
    check(tilery_team_create(handle_, ranks.data(), static_cast<int32_t>(ranks.size()), label,
                             &handle));
    return World(handle, Owns::Handle);
  }
  /// Collective: ranks of one color form a team, in the order of key; a color below 0 joins none.
  World split(int color, int key, const char *label) {
    tilery_world *handle = nullptr;
    check(tilery_world_split(handle_, color, key, label, &handle));
    return World(handle, Owns::Handle);
  }

  int rank() const { return tilery_world_rank(handle_); }
  int size() const { return tilery_world_size(handle_); }
  tilery_world *handle() const { return handle_; }
  /// timeout in seconds; negative: the world's.
  void barrier(double timeout = -1) { check(tilery_world_barrier(handle_, timeout)); }
  /// Collective over a team too, whose memory it frees.
  void finalize() {
    if (handle_ && owns != Owns::Nothing)
      check(tilery_world_finalize(std::exchange(handle_, nullptr)));
  }

  /// Collective: `count` zeroed elements on every rank. `label` names them in errors.
  template <typename T> Symmetric<T> zeros(size_t count, const char *label) {
    void *data = nullptr;
    check(tilery_symmetric_alloc(handle_, count * sizeof(T), label, &data));
    return {handle_, static_cast<T *>(data), count};
  }
  Symmetric<signal> signals(size_t count, const char *label) { return zeros<signal>(count, label); }
  /// Collective: `count` elements at `data`, which each rank has made itself, become a symmetric object.
  /// They must stay until free(), or the world's end.
  template <typename T> Symmetric<T> registered(T *data, size_t count, const char *label) {
    check(tilery_symmetric_register(handle_, data, count * sizeof(T), label, nullptr));
    return {handle_, data, count};
  }
  template <typename T> void free(const Symmetric<T> &object) {
    check(tilery_symmetric_free(handle_, object.data()));
  }

  /// Collective: every rank's `value`, in rank order. `purpose` is what errors call it.
  template <typename T> std::vector<T> allGather(const T &value, const char *purpose = nullptr) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(size());
    check(tilery_world_all_gather_bytes(handle_, &value, all.data(), sizeof(T), purpose));
    return all;
  }
  /// What this rank tells the others of a buffer that they are to use where it is.
  tilery_place placeOf(const void *data, size_t bytes) {
    tilery_place place = {};
    check(tilery_place_of(handle_, data, bytes, &place));
    return place;
  }
  /// This rank's addresses of all ranks' places, `count` of each; null where there is none. Collective
  /// when one of them is new.
  std::vector<void *> open(std::vector<tilery_place> &places, int count) {
    std::vector<void *> addresses(places.size());
    check(tilery_places_open(handle_, places.data(), count, addresses.data()));
    return addresses;
  }
  void notify(signal *target, int rank, uint64_t value, tilery_signal_op op = TILERY_SIGNAL_SET) {
    check(tilery_signal_notify(handle_, &target->word, rank, value, op));
  }
  void wait(signal *source, uint64_t value, tilery_compare compare = TILERY_CMP_GE,
            double timeout = -1) {
    check(tilery_signal_wait(handle_, &source->word, value, compare, timeout));
  }

private:
  tilery_world *handle_;
  Owns owns;
};

} // namespace tilery
