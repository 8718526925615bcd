// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/direct_form.h"

namespace tilery::ops {

FormChoice chooseWithDirect(Call &call, const std::vector<std::string> &forms,
                            const std::function<std::string(bool peersBuffers)> &best) {
  std::string form = best(true);
  bool automatic = call.options.choice("form", forms) == 0;
  return {form, automatic && isDirect(form) ? best(false) : ""};
}

PeerBuffers buffersOf(const Call &call, const std::vector<size_t> &tensors) {
  std::vector<PeerBuffers::Buffer> list;
  for (size_t at : tensors)
    list.push_back({call.name(at), memory(call.tensor(at))});
  return PeerBuffers(std::move(list));
}

std::string possibleForm(Call &call, const FormChoice &choice, PeerBuffers &buffers) {
  if (!isDirect(choice.form))
    return choice.form;
  buffers.open(call.world());
  std::string problem = buffers.problem();
  if (problem.empty() && choice.form == "direct" && call.world().size() > int(PeerBuffers::MostRanks))
    problem = "its kernels take those of up to " + std::to_string(PeerBuffers::MostRanks) + " ranks, not of " +
              std::to_string(call.world().size());
  if (!problem.empty() && choice.otherwise.empty())
    call.fail("form '" + choice.form + "' uses the ranks' own buffers, but " + problem +
              "; leave 'form' at auto");
  return problem.empty() ? choice.form : choice.otherwise;
}

} // namespace tilery::ops
