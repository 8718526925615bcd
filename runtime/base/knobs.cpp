// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Parses the environment variables listed in knobs.def.
#include "runtime/base/knobs.h"

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/nearest_name.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

extern char **environ;

namespace tilery::rt {

std::string readKnobText(const char *name, std::string_view fallback) {
  const char *value = std::getenv(name);
  return std::string(value && *value ? std::string_view(value) : fallback);
}

[[noreturn]] static void rejectValue(std::string_view what, std::string_view text,
                                     std::string_view wanted) {
  raise(TILERY_CONFIG_ERROR, "{} is '{}', which is not {}", what, text, wanted);
}

static int suffixShift(std::string_view suffix) {
  if (suffix.empty())
    return 0;
  switch (suffix[0]) {
  case 'k': case 'K': return 10;
  case 'm': case 'M': return 20;
  case 'g': case 'G': return 30;
  case 't': case 'T': return 40;
  default: return -1;
  }
}

int64_t parseBytes(std::string_view text, std::string_view what) {
  int64_t value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view suffix = text.substr(size_t(end - text.data()));
  int shift = suffix.size() > 1 ? -1 : suffixShift(suffix);
  bool overflows = shift > 0 && value > (INT64_MAX >> shift);
  if (failure != std::errc() || shift < 0 || overflows)
    rejectValue(what, text, "a whole number (k, M, G and T multiply by 1024)");
  return value << shift;
}

static void parse(std::string_view name, std::string_view text, std::string &result) {
  result = text;
}
static void parse(std::string_view name, std::string_view text, int64_t &result) {
  result = parseBytes(text, name);
}
static void parse(std::string_view name, std::string_view text, double &result) {
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (failure != std::errc() || end != text.data() + text.size())
    rejectValue(name, text, "a number");
}
static void parse(std::string_view name, std::string_view text, bool &result) {
  if (text == "1" || text == "on" || text == "true")
    result = true;
  else if (text == "0" || text == "off" || text == "false")
    result = false;
  else
    rejectValue(name, text, "1 or 0");
}

std::span<const KnobInfo> knobTable() {
  static const std::vector<KnobInfo> table = {
#define TILERY_KNOB(field, name, type, value, sentence) {#name, KnobType::type, #value, sentence},
#include "runtime/base/knobs.def"
  };
  return table;
}

static void warnAboutUnknown() {
  std::vector<std::string_view> known;
  for (const KnobInfo &knob : knobTable())
    known.push_back(knob.name);
  for (char **entry = environ; *entry; ++entry) {
    std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    bool ours = name.starts_with("TILERY_");
    bool listed = std::find(known.begin(), known.end(), name) != known.end();
    if (ours && !listed)
      warn(fmt::format("unknown environment variable {} is ignored{}", name,
                       didYouMean(name, known)));
  }
}

static void requireAllowed(bool allowed, const char *name, std::string_view wanted) {
  if (!allowed)
    rejectValue(name, readKnobText(name, ""), wanted);
}

static void checkRanges(const Knobs &knobs) {
  static constexpr std::string_view levels[] = {"debug", "info", "warning", "error", "off"};
  requireAllowed(std::isfinite(knobs.timeoutSeconds) && knobs.timeoutSeconds >= 0,
                 "TILERY_TIMEOUT_S", "a number of seconds, 0 for none");
  requireAllowed(knobs.heapBytes >= 1, "TILERY_HEAP_BYTES", "1 or more");
  requireAllowed(knobs.cacheBytes >= 0, "TILERY_CACHE_BYTES", "0 or more");
  requireAllowed(knobs.seed >= -1, "TILERY_SEED", "0 or more, or -1 for none");
  requireAllowed(knobs.spinMicroseconds >= 0, "TILERY_SPIN_US", "0 or more");
  requireAllowed(std::ranges::find(levels, knobs.log) != std::end(levels), "TILERY_LOG",
                 "debug, info, warning, error or off");
}

Knobs readKnobs() {
  Knobs result;
  std::string text;
#define TILERY_KNOB(field, name, type, value, sentence)                                            \
  if (text = readKnobText(#name, ""); !text.empty())                                               \
    parse(#name, text, result.field);
#include "runtime/base/knobs.def"
  checkRanges(result);
  return result;
}

const Knobs &knobs() {
  static const Knobs instance = [] {
    warnAboutUnknown();
    return readKnobs();
  }();
  return instance;
}

} // namespace tilery::rt
