// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What is behind the handles of worlds and groups.
#pragma once

#include "runtime/world/process_world.h"
#include "runtime/world/world.h"

#include <memory>
#include <string>

struct tilery_world {
  std::unique_ptr<tilery::rt::World> world;
  std::string description;
  std::string summary;
};

struct tilery_group {
  explicit tilery_group(tilery::rt::WorldOptions options) : group(std::move(options)) {}
  tilery::rt::Group group;
};

namespace tilery::capi {

struct InitOptions {
  rt::JobOptions job;
  rt::WorldOptions world;
};

/// Null text: {}. ConfigError for what is no JSON, unknown keys and wrong types.
InitOptions parseInitOptions(const char *json);
rt::WorldOptions parseGroupOptions(const char *json);

} // namespace tilery::capi
