// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Names of the error kinds.
#include "runtime/base/error.h"

namespace tilery::rt {

const char *kindName(tilery_status kind) {
  switch (kind) {
  case TILERY_OK: return "Ok";
  case TILERY_COMPILE_ERROR: return "CompileError";
  case TILERY_CONFIG_ERROR: return "ConfigError";
  case TILERY_TARGET_ERROR: return "TargetError";
  case TILERY_LAUNCH_ERROR: return "LaunchError";
  case TILERY_PEER_ERROR: return "PeerError";
  case TILERY_WAIT_TIMEOUT: return "WaitTimeout";
  case TILERY_INTERNAL_ERROR: return "InternalError";
  }
  return "InternalError";
}

} // namespace tilery::rt
