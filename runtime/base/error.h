// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The one exception class of the runtime; the C interface turns it into a tilery_status
// and a message.
#pragma once

#include "tilery/tilery.h"

#include <exception>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace tilery::rt {

/// Lower-case text without a final period; a last line "hint: ..." says how to fix it.
class Error : public std::exception {
public:
  Error(tilery_status kind, std::string message) : kind(kind), message(std::move(message)) {}
  const char *what() const noexcept override { return message.c_str(); }

  tilery_status kind;
  std::string message;
};

template <typename... Args>
[[noreturn]] void raise(tilery_status kind, fmt::format_string<Args...> format, Args &&...args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// The name users know an error kind by: "WaitTimeout".
const char *kindName(tilery_status kind);

} // namespace tilery::rt
