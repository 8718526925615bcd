// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How a failed program instance is reported.
#include "runtime/launch/report.h"

#include <fmt/format.h>

namespace tilery::rt {

std::string locatedText(const std::string &message, const SourceSite *where,
                        const std::string &instance) {
  size_t end = std::min(message.find("\nhint: "), message.size());
  std::string what = message.substr(0, end), hint = message.substr(end);
  if (where)
    what = fmt::format("{}:{}:{}: error: {}\n        {}", where->file, where->line, where->column,
                       what, where->text);
  return fmt::format("{}\n  {}{}", what, instance, hint);
}

std::string outOfBoundsText(const std::string &access, int64_t index, int64_t count) {
  return fmt::format("{} out of bounds: element {} of {}\nhint: mask the access or check the offsets",
                     access, index, count);
}

} // namespace tilery::rt
