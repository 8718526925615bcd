// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which device each rank of a world uses.
#pragma once

#include "runtime/world/domain.h"
#include "runtime/world/job.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tilery::rt {

/// The device number of each rank of a world in this process. One name is all ranks' device, more
/// are one a rank; fewer than there are ranks are taken in turn where ranks may share a device. A
/// ConfigError otherwise.
std::vector<int32_t> placeRanks(const WorldOptions &options);

/// The device number of this rank of a job. A name without a number ("cuda") leaves the choice to
/// the rank's number on this host: each takes the next device.
int32_t placeProcess(const WorldOptions &options, const Job &job);

/// "cuda:1 (NVIDIA H200)" or "the host".
std::string deviceText(hal::DeviceRef where);

} // namespace tilery::rt
