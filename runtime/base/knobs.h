// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Typed access to the environment variables listed in knobs.def.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tilery::rt {

enum class KnobType { Text, Real, Integer, Flag };

struct Knobs {
  using Text = std::string;
  using Real = double;
  using Integer = int64_t;
  using Flag = bool;
#define TILERY_KNOB(field, name, type, value, sentence) type field = value;
#include "runtime/base/knobs.def"
};

struct KnobInfo {
  std::string_view name;
  KnobType type;
  std::string_view defaultText;
  std::string_view sentence;
};

/// Read from the environment once, at first use. A value that does not parse raises a
/// ConfigError; an unknown TILERY_* variable warns once, with the nearest name.
const Knobs &knobs();

/// Reads the environment anew.
Knobs readKnobs();

std::span<const KnobInfo> knobTable();

/// The variable's text, or `fallback` when it is unset or empty.
std::string readKnobText(const char *name, std::string_view fallback);

/// "64G" -> 68719476736; raises a ConfigError that names `what`.
int64_t parseBytes(std::string_view text, std::string_view what);

} // namespace tilery::rt
