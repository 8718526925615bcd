// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Memory that launches in one stream share, one after the other.
#pragma once

#include "runtime/hal/driver.h"

namespace tilery::rt {

/// At least `bytes`, zeroed when it is made. The same memory for each call with this stream until a
/// call needs more; while the stream is recorded, memory of that recording alone, because it is
/// replayed beside other work. It lives as long as the process.
void *deviceWorkspace(hal::DeviceRef where, hal::Stream stream, size_t bytes);

} // namespace tilery::rt
