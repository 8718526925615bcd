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

std::string placeText(const SourceSite &site) { return fmt::format("{}:{}", site.file, site.line); }

std::string signalText(const SourceSite &site) {
  size_t open = site.text.find('(');
  if (open == std::string::npos)
    return "a signal";
  size_t end = open + 1;
  for (int depth = 0; end < site.text.size(); ++end) {
    char c = site.text[end];
    if (depth == 0 && (c == ',' || c == ')'))
      break;
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
  }
  std::string argument = site.text.substr(open + 1, end - open - 1);
  std::string function = site.text.substr(0, open);
  return argument.empty() ? function.substr(function.find_last_of(". ") + 1) : argument;
}

std::string outOfBoundsText(const std::string &access, int64_t index, int64_t count) {
  return fmt::format("{} out of bounds: element {} of {}\nhint: mask the access or check the offsets",
                     access, index, count);
}

} // namespace tilery::rt
