// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The stream that a thread's launches take when they name none.
#pragma once

#include "tilery/tilery.h"

namespace tilery::capi {

/// What tilery_stream_use set, or null.
void *threadStream();
/// That, or else the world's, if there is one.
void *launchStream(tilery_world *world);

} // namespace tilery::capi
