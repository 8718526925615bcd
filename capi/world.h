// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What is behind the handles of worlds and groups.
#pragma once

#include "runtime/world/process_world.h"
#include "runtime/world/group.h"

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>

namespace tilery::capi {
struct Gate {
  /// Shared by the calls in flight; exclusive while the rank leaves the world.
  std::shared_mutex users;
  /// Set first, so that threads that keep calling cannot keep the rank from leaving.
  std::atomic<bool> leaving = false;
};
} // namespace tilery::capi

struct tilery_world {
  std::unique_ptr<tilery::rt::World> world;
  /// Another one for each handle of this process: addresses come back.
  const uint64_t serial = ++lastSerial;
  std::string description;
  std::string summary;
  std::shared_ptr<tilery::capi::Gate> gate = std::make_shared<tilery::capi::Gate>();
  /// Of the whole world, for a team: its calls in flight are the world's as well.
  std::shared_ptr<tilery::capi::Gate> wholeGate = nullptr;

private:
  static inline std::atomic<uint64_t> lastSerial = 0;
};

struct tilery_group {
  explicit tilery_group(tilery::rt::WorldOptions options) : group(std::move(options)) {}
  tilery::rt::Group group;
};

namespace tilery::capi {

/// A call in flight: the rank does not leave the world before it ends. LaunchError when it has
/// left already.
class WorldUse {
public:
  explicit WorldUse(const tilery_world &handle)
      : wholeGate(handle.wholeGate ? handle.wholeGate : handle.gate), wholeCalls(wholeGate->users),
        world(*handle.world) {
    if (handle.wholeGate)
      teamCalls = std::shared_lock(handle.gate->users);
    if (wholeGate->leaving || handle.gate->leaving)
      world.raiseFinalized();
  }
  rt::World *operator->() const { return &world; }
  rt::World *get() const { return &world; }

private:
  std::shared_ptr<Gate> wholeGate;
  std::shared_lock<std::shared_mutex> wholeCalls, teamCalls;
  rt::World &world;
};

struct InitOptions {
  rt::JobOptions job;
  rt::WorldOptions world;
};

/// Null text: {}. ConfigError for what is no JSON, unknown keys and wrong types.
InitOptions parseInitOptions(const char *json);
rt::WorldOptions parseGroupOptions(const char *json);

} // namespace tilery::capi
