// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The choice of an operator's form: the one that is expected to take the least.
#pragma once

#include "ops/costs/calibration.h"
#include "ops/op.h"

#include <functional>
#include <vector>

namespace tilery::ops {

/// What a form takes, in microseconds; `Never` where it is not possible.
using FormCost = std::function<double(const Calibration &figures, const std::string &form)>;

/// Option 'form', one of `forms`, or by cost where that is left at "auto", the first of them;
/// `onHost` where program instances take turns on the host's processor, so that rules do. Collective
/// where the form is not given: all ranks must ask with the same costs. `depends` is all that an operator's
/// costs depend on, besides the world: the same is not computed again.
std::string chooseForm(Call &call, const std::vector<std::string> &forms, const char *onHost,
                       std::vector<int64_t> depends, const FormCost &cost);

/// Collective: measures and keeps the figures of this world; their text.
const std::string &calibrate(World &world);

/// Ends a call of which only the explanation was asked for.
struct Explained {};

} // namespace tilery::ops
