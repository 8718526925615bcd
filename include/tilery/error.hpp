// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Failures of the C interface as exceptions.
#pragma once

#include "tilery/tilery.h"

#include <stdexcept>
#include <string>

namespace tilery {

/// Who is at fault; the values are those of tilery_status.
enum class Kind {
  Compile = TILERY_COMPILE_ERROR,
  Config = TILERY_CONFIG_ERROR,
  Target = TILERY_TARGET_ERROR,
  Launch = TILERY_LAUNCH_ERROR,
  Peer = TILERY_PEER_ERROR,
  WaitTimeout = TILERY_WAIT_TIMEOUT,
  Internal = TILERY_INTERNAL_ERROR
};

class Error : public std::runtime_error {
public:
  Error(Kind kind, const std::string &message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

private:
  Kind kind_;
};

/// Throws the error that `status` stands for, with the calling thread's last message.
inline void check(tilery_status status) {
  if (status != TILERY_OK)
    throw Error(static_cast<Kind>(status), tilery_error_message());
}

} // namespace tilery
