// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How exceptions become a tilery_status and the calling thread's error message.
#pragma once

#include "runtime/base/error.h"

#include <string>
#include <utility>

namespace tilery::capi {

/// Keeps the text for tilery_error_message() on this thread; returns `status`.
tilery_status setError(tilery_status status, std::string message);

/// TILERY_OK, or what the exception of `action` says.
template <typename Action> tilery_status guarded(Action action) {
  try {
    action();
    return TILERY_OK;
  } catch (const rt::Error &error) {
    return setError(error.kind, error.message);
  } catch (const std::bad_alloc &) {
    return setError(TILERY_LAUNCH_ERROR, "out of memory");
  } catch (const std::exception &error) {
    return setError(TILERY_INTERNAL_ERROR,
                    fmt::format("{}; this is a bug in tilery", error.what()));
  }
}

/// Raises a ConfigError when the caller passed null for `what`.
template <typename T> T &require(T *pointer, const char *what) {
  if (!pointer)
    rt::raise(TILERY_CONFIG_ERROR, "{} is null", what);
  return *pointer;
}

} // namespace tilery::capi
