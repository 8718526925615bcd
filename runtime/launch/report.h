// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How a failed program instance is reported, wherever it ran.
#pragma once

#include "runtime/launch/kernel_image.h"

#include <string>

namespace tilery::rt {

/// The error at its place in the source, and behind it the instance that failed ("rank 0, kernel
/// 'k', ..."); a hint at the end of `message` stays at the end. `where` may be null.
std::string locatedText(const std::string &message, const SourceSite *where,
                        const std::string &instance);

/// "ring.py:12".
std::string placeText(const SourceSite &site);
/// What a wait or a notify at this place is about, in the words of the source: "ready + owner" of
/// "dl.wait(ready + owner, waitValue=8)", "barrier_all" of "dl.barrier_all()".
std::string signalText(const SourceSite &site);

/// `access`: who accesses what, as in "tl.load reads argument 'x'".
std::string outOfBoundsText(const std::string &access, int64_t index, int64_t count);

} // namespace tilery::rt
