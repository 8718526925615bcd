// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The stream that a thread's launches take when they name none.
#pragma once

namespace tilery::capi {

/// What tilery_stream_use set, or null.
void *threadStream();

} // namespace tilery::capi
