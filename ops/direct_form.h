// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Forms that use the other ranks' tensors where they are, "direct" and "direct_copies": when they are chosen,
// and what is taken instead where a tensor cannot be used.
#pragma once

#include "ops/op.h"

#include <functional>

namespace tilery::ops {

inline bool isDirect(const std::string &form) { return form.starts_with("direct"); }

/// Who moves the data.
struct FormChoice {
  std::string form;
  /// Taken instead where the form needs buffers that the ranks cannot use of each other; "": it is an
  /// error then.
  std::string otherwise;
};
/// Option 'form', one of `forms`, or what is best (a form of `forms`) with and without direct ones.
FormChoice chooseWithDirect(Call &call, const std::vector<std::string> &forms,
                            const std::function<std::string(bool peersBuffers)> &best);

/// Tensors that a direct form uses of other ranks, to agree on (Call::agree).
PeerBuffers buffersOf(const Call &call, const std::vector<size_t> &tensors);
/// The choice, or what is taken instead; the same on all ranks, and a LaunchError on all where that is
/// nothing. Collective when a direct form is chosen and somebody's buffers are new.
std::string possibleForm(Call &call, const FormChoice &choice, PeerBuffers &buffers);

} // namespace tilery::ops
