// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Logging to stderr at the level of TILERY_LOG.
#pragma once

#include <string_view>

namespace tilery::rt {

enum class LogLevel { Debug, Info, Warning };

bool logEnabled(LogLevel level);
void log(LogLevel level, std::string_view text);
inline void warn(std::string_view text) { log(LogLevel::Warning, text); }

} // namespace tilery::rt
