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

/// `access`: who accesses what, as in "tl.load reads argument 'x'".
std::string outOfBoundsText(const std::string &access, int64_t index, int64_t count);

} // namespace tilery::rt
