// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Constants between the C interface and the front end.
#pragma once

#include "capi/error.h"
#include "compiler/Frontend/Value.h"
#include "compiler/Support/Diagnostic.h"

#include "llvm/Support/JSON.h"

namespace tilery::capi {

/// Raises a ConfigError that names `what` when `text` is not a JSON object.
llvm::json::Object parseObject(const char *text, const char *what);
/// A constant as a binding of tilery.h; null for what has no JSON form.
llvm::json::Value bindingOf(const frontend::Value &value);
/// The constant that tilery_constant_intern gave `id`.
frontend::Value internedConstant(uint64_t id);
/// The run-time's dtype numbers are the front end's.
frontend::DType dtypeOf(uint8_t dtype);

/// TILERY_OK, or what the exception of `action` says; the user's source errors included.
template <typename Action> tilery_status guardedCompile(Action action) {
  return guarded([&] {
    try {
      action();
    } catch (const CompileError &error) {
      throw rt::Error(TILERY_COMPILE_ERROR, error.render());
    } catch (const std::invalid_argument &error) {
      throw rt::Error(TILERY_CONFIG_ERROR, error.what());
    }
  });
}

} // namespace tilery::capi
