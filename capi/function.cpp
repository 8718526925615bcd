// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Functions of the C interface: made from a file or from text, described, launched.
#include "capi/function.h"

#include "capi/bindings.h"
#include "capi/device.h"
#include "capi/error.h"
#include "capi/specialize.h"
#include "capi/world.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/launch_turn.h"

#include <optional>

using namespace tilery;
using namespace tilery::capi;
using frontend::FunctionDef;
using frontend::Module;

namespace {

bool annotatedConstexpr(const frontend::Parameter &parameter) {
  std::string text = parameter.annotation ? parameter.annotation->range.text() : "";
  return text == "constexpr" || text.ends_with(".constexpr");
}

// @ty.jit(do_not_specialize=["n", 3]) names parameters or their positions.
void applyDecorators(const FunctionDef &definition, Module &module,
                     std::vector<ParameterInfo> &parameters) {
  for (const frontend::ExprPtr &decorator : definition.decorators) {
    auto *call = llvm::dyn_cast<frontend::CallExpr>(decorator.get());
    if (!call)
      continue;
    for (const frontend::Keyword &keyword : call->keywords) {
      if (keyword.name != "do_not_specialize")
        continue;
      frontend::Value listed = frontend::evaluateConstant(module, *keyword.value);
      if (!listed.tuple())
        throw CompileError(keyword.range, "do_not_specialize must be a list of parameter names");
      for (const frontend::Value &entry : listed.tuple()->elements)
        for (size_t i = 0; i < parameters.size(); ++i)
          if ((entry.get<std::string>() && *entry.get<std::string>() == parameters[i].name) ||
              (entry.asInt() && *entry.asInt() == __int128(i)))
            parameters[i].doNotSpecialize = true;
    }
  }
}

std::vector<ParameterInfo> parametersOf(const FunctionDef &definition, Module &module) {
  std::vector<ParameterInfo> parameters;
  for (const frontend::Parameter &parameter : definition.parameters) {
    if (parameter.form == frontend::Parameter::Form::VarArgs)
      throw CompileError(parameter.range, "a kernel cannot take *arguments")
          .hint("name each parameter");
    ParameterInfo info;
    info.name = parameter.name;
    info.isConstexpr = annotatedConstexpr(parameter);
    if (parameter.defaultValue)
      info.defaultValue = frontend::evaluateConstant(module, *parameter.defaultValue);
    parameters.push_back(std::move(info));
  }
  applyDecorators(definition, module, parameters);
  return parameters;
}

std::string describe(const FunctionDef &definition, const std::vector<ParameterInfo> &parameters) {
  llvm::json::Array list;
  for (const ParameterInfo &parameter : parameters) {
    llvm::json::Object entry{{"name", parameter.name},
                             {"constexpr", parameter.isConstexpr},
                             {"do_not_specialize", parameter.doNotSpecialize}};
    if (parameter.defaultValue)
      entry["default"] = bindingOf(*parameter.defaultValue);
    list.push_back(std::move(entry));
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::json::Value(llvm::json::Object{{"name", definition.name},
                                                 {"file", definition.range.source->file},
                                                 {"line", definition.range.line},
                                                 {"parameters", std::move(list)}});
  return text;
}

void refuseReadOnly(const tilery_kernel &kernel, const tilery_function &function,
                    std::span<const tilery_arg> args) {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].kind == TILERY_ARG_POINTER && args[i].read_only && kernel.written.test(unsigned(i)))
      rt::raise(TILERY_LAUNCH_ERROR,
                "argument '{}' of '{}' is read-only, but the kernel writes it\n"
                "hint: pass a writable copy",
                function.parameters[i].name, kernel.image.name);
}

void requireLoaded(const tilery_kernel &kernel) {
  if (!kernel.image.entry && !kernel.image.device)
    rt::raise(TILERY_LAUNCH_ERROR,
              "kernel '{}' was compiled for '{}' with the option 'target', which only compiles\n"
              "hint: launch without it; the arguments' memory says where the kernel runs",
              kernel.image.name, kernel.target->name().str());
}

tilery_function *makeFunction(std::shared_ptr<Module> module, const std::string &name) {
  auto function = std::make_unique<tilery_function>();
  function->value = {module->function(name), module};
  function->parameters = parametersOf(*function->value.definition, *module);
  function->description = describe(*function->value.definition, function->parameters);
  return function.release();
}

} // namespace

extern "C" {

tilery_status tilery_function_load(const char *path, const char *name, tilery_function **function) {
  return guardedCompile([&] {
    require(path, "the path");
    require(name, "the name");
    std::shared_ptr<Module> module;
    try {
      module = Module::fromFile(path);
    } catch (const std::runtime_error &error) {
      throw rt::Error(TILERY_CONFIG_ERROR, error.what());
    }
    require(function, "the result") = makeFunction(module, name);
  });
}

tilery_status tilery_function_create(const char *request_json, tilery_function **function) {
  return guardedCompile([&] {
    require(request_json, "the request");
    llvm::json::Object request = parseObject(request_json, "the request");
    std::shared_ptr<Module> module = Module::fromRequest(request);
    require(function, "the result") =
        makeFunction(module, request.getString("name").value_or("").str());
  });
}

void tilery_function_destroy(tilery_function *function) { delete function; }

const char *tilery_function_describe(const tilery_function *function) {
  return function ? function->description.c_str() : "{}";
}

tilery_status tilery_function_launch(tilery_function *function, tilery_world *world,
                                     const tilery_launch *launch, const tilery_arg *args,
                                     int32_t num_args) {
  return guardedCompile([&] {
    require(function, "the function");
    require(launch, "the launch");
    std::optional<capi::WorldUse> use;
    if (world)
      use.emplace(*world);
    rt::World *ranks = use ? use->get() : nullptr;
    if (ranks) // before the arguments, which a rank outside of a team cannot have right
      ranks->requireUsable();
    std::span<const tilery_arg> given(args, size_t(num_args));
    std::optional<rt::Preparation> preparation(std::in_place, ranks);
    tilery_kernel &kernel = specialise(*function, ranks, launch->options, given).kernel;
    preparation.reset();
    requireLoaded(kernel);
    refuseReadOnly(kernel, *function, given);
    ArgumentSlots slots(kernel, ranks, given);
    rt::launchKernel(ranks, kernel.image, {launch->grid[0], launch->grid[1], launch->grid[2]},
                     slots.data(),
                     {launch->timeout_s,
                      launch->stream ? launch->stream : threadStream(),
                      {launch->transfers, size_t(launch->num_transfers)}});
  });
}

tilery_status tilery_function_compile(tilery_function *function, const tilery_options *options,
                                      const tilery_arg *args, int32_t num_args,
                                      tilery_kernel **kernel) {
  return guardedCompile([&] {
    std::span<const tilery_arg> given(args, size_t(num_args));
    require(kernel, "the result") =
        &specialise(require(function, "the function"), nullptr, options, given).kernel;
  });
}

tilery_status tilery_function_compile_signature(tilery_function *function,
                                                const tilery_options *options,
                                                const char *signature, tilery_kernel **kernel) {
  return guardedCompile([&] {
    require(signature, "the signature");
    require(kernel, "the result") =
        &specialiseSignature(require(function, "the function"), options, signature);
  });
}

const char *tilery_kernel_text(tilery_kernel *kernel, const char *stage) {
  const char *text = nullptr;
  guardedCompile([&] {
    require(stage, "the stage");
    text = kernelText(require(kernel, "the kernel"), stage).c_str();
  });
  return text;
}

} // extern "C"
