// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// From a GPU kernel's assembly text and description to a loaded kernel.
#include "capi/load_device.h"

#include "runtime/base/error.h"
#include "runtime/launch/device_kernel.h"

using namespace tilery;
using namespace tilery::capi;

// Postfix: what the runtime evaluates on each launch.
static void flatten(const HostExpression &expression, rt::HostProgram &program) {
  using From = HostExpression::Kind;
  using To = rt::HostStep::Kind;
  if (expression.lhs)
    flatten(*expression.lhs, program);
  if (expression.rhs)
    flatten(*expression.rhs, program);
  static_assert(int(From::Constant) == int(To::Constant) && int(From::Maximum) == int(To::Maximum) &&
                int(From::DivideSigned) == int(To::DivideSigned));
  program.push_back({To(int(expression.kind)), expression.value});
}

static rt::HostProgram programOf(const HostExpression &expression) {
  rt::HostProgram program;
  flatten(expression, program);
  return program;
}

static int32_t elementBytes(const std::string &element) {
  for (auto [suffix, bytes] : {std::pair{"64", 8}, {"32", 4}, {"16", 2}})
    if (element.ends_with(suffix))
      return bytes;
  return 1; // int8, uint8, int1, fp8e4nv, fp8e5
}

static rt::TensorMapPlan planOf(const TensorMapRecipe &recipe) {
  rt::TensorMapPlan plan;
  plan.pointer = recipe.pointer;
  plan.offsetElements = programOf(recipe.offsetElements);
  plan.element = recipe.element;
  plan.elementBytes = elementBytes(recipe.element);
  for (const HostExpression &extent : recipe.extents)
    plan.extents.push_back(programOf(extent));
  for (const HostExpression &stride : recipe.strides)
    plan.strides.push_back(programOf(stride));
  plan.box = recipe.box;
  plan.swizzleBytes = recipe.swizzleBytes;
  return plan;
}

static rt::DeviceCode describe(const KernelInfo &info, bool timeline) {
  rt::DeviceCode code;
  code.shape = {info.threads, info.sharedBytes, info.clusterExtent};
  for (const TensorMapRecipe &recipe : info.tensorMaps)
    code.maps.push_back(planOf(recipe));
  code.messages = info.messages;
  code.canFail = info.canFail;
  code.timeline = timeline;
  return code;
}

void capi::loadOnDevice(rt::KernelImage &image, const Machine &machine, const CompiledCode &code) {
  image.device = &rt::DeviceKernel::load(machine.device, image,
                                         describe(code.kernels.at(0), machine.timeline), code.object);
}
