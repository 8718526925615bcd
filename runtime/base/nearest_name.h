// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known name closest to a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tilery::rt {

/// Number of insertions, deletions, substitutions and swaps between two names.
size_t editDistance(std::string_view left, std::string_view right);

/// The closest of `known`, or "" when none is close enough to be meant.
std::string_view nearestName(std::string_view name, std::span<const std::string_view> known);

/// "; did you mean 'x'?" or "".
std::string didYouMean(std::string_view name, std::span<const std::string_view> known);

} // namespace tilery::rt
