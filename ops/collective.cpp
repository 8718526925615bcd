// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Agreement and workspace of a collective.
#include "ops/collective.h"

#include <algorithm>

namespace tilery::ops {

std::vector<std::pair<std::string, std::string>> collectiveOptions(const char *form) {
  return {{"form", std::string("\"") + form + "\""}, {"instances", "1"}};
}

Collective::Collective(Call &call, const std::string &form, int64_t n, int64_t total, int32_t dtype,
                       int64_t root)
    : call(call), form(form), instances(call.options.integer("instances")),
      block(blockFor(n, 16, 1024)), dtype(static_cast<tilery_dtype>(dtype)) {
  if (instances < 1)
    call.fail("option 'instances' is " + std::to_string(instances) + ", needs 1 or more");
  call.agree({{"the number of elements", total},
              {"the element type", dtype},
              {"option 'instances'", instances},
              {"option 'form'", int64_t(std::hash<std::string>{}(form) >> 32)},
              {"option 'root'", root}});
  key = call.op + "_" + form + " x" + std::to_string(instances);
  int64_t ranks = call.world().size();
  int64_t bytes = ranks * std::max<int64_t>(n, 1) * tilery_dtype_size(this->dtype);
  ws = &workspace(call.world(), {key, instances, instances, bytes, bytes});
  capacity = ws->stageCapacity(this->dtype) / ranks;
}

} // namespace tilery::ops
