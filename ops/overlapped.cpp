// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tiles, agreement and workspace of an overlapped product.
#include "ops/overlapped.h"

namespace tilery::ops {

std::vector<std::pair<std::string, std::string>>
overlappedOptions(std::vector<std::pair<std::string, std::string>> own) {
  std::vector<std::pair<std::string, std::string>> all = {
      {"block_m", "0"}, {"block_n", "0"}, {"block_k", "0"}, {"columns", "0"}, {"instances", "0"}};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

tilery_dtype partialType(const Call &call, int32_t result, int32_t operand) {
  bool asResult = call.options.choice("partials", {"out", "accumulator"}) == 0;
  return asResult ? static_cast<tilery_dtype>(result) : accumulator(operand);
}

// As many as a rank's share of its device runs at once; on the host they run one after the other, and
// more than a few only add switches.
static int64_t chooseInstances(Call &call, const tilery_device_properties &device) {
  int64_t wanted = call.options.integer("instances");
  if (wanted < 0)
    call.fail("option 'instances' is " + std::to_string(wanted) + ", needs 1 or more (0 chooses)");
  if (wanted)
    return wanted;
  int64_t share =
      std::max<int64_t>(device.processors / tilery_world_device_ranks(call.world().handle()), 1);
  return hasWarps(device) ? share : std::min<int64_t>(share, 8);
}

Overlapped::Overlapped(Call &call, const Matrix &a, const Matrix &b, int64_t depth)
    : call(call), device(call.device()), instances(chooseInstances(call, device)),
      columns(b.columns) {
  MatmulProblem problem = matmulProblem(a, b, 1, device);
  problem.k = depth;
  MatmulChoice choice = matmulChoice(call);
  choice.parts = 1;
  plan = planMatmul(problem, device, choice);
  checkColumns(call, plan);
}

Workspace &Overlapped::agree(const std::string &form, WorkspaceNeed need,
                             std::vector<std::pair<const char *, int64_t>> values) {
  values.emplace_back("the form of the operator", int64_t(std::hash<std::string>{}(form) >> 32));
  values.emplace_back("option 'instances'", instances);
  call.agree(values);
  key = call.op + " " + form + " x" + std::to_string(instances) + " " + need.key;
  need.key = key;
  need.instances = instances;
  return workspace(call.world(), need);
}

} // namespace tilery::ops
