// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// compile, doctor, cache and ops, over the C interface.
#include "tools/tilery/commands.h"

#include "tilery/tilery.hpp"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tilery::cli {

using Json = nlohmann::json;

int reportFailure(int status) {
  static const char *const kinds[] = {"ok",          "CompileError", "ConfigError", "TargetError",
                                      "LaunchError", "PeerError",    "WaitTimeout", "InternalError"};
  const char *kind = status >= 0 && status < 8 ? kinds[status] : "InternalError";
  fmt::print(stderr, "tilery: {}: {}\n", kind, tilery_error_message());
  return 1;
}

static int writeText(const std::string &path, const char *text) {
  if (path.empty()) {
    fmt::print("{}\n", text);
    return 0;
  }
  std::ofstream file(path);
  file << text << '\n';
  if (file.close(); file)
    return 0;
  fmt::print(stderr, "tilery: ConfigError: cannot write '{}'\n", path);
  return 1;
}

static int emit(tilery_kernel *kernel, const CompileRequest &request) {
  if (request.emit == "object") {
    std::string path = request.output.empty() ? request.function + ".o" : request.output;
    int status = tilery_kernel_write_object(kernel, path.c_str());
    return status ? reportFailure(status) : 0;
  }
  const char *text = tilery_kernel_text(kernel, request.emit.c_str());
  return text ? writeText(request.output, text) : reportFailure(TILERY_CONFIG_ERROR);
}

static std::string optionsOf(const CompileRequest &request) {
  Json options = Json::object();
  if (!request.target.empty())
    options["target"] = request.target;
  for (const std::string &entry : request.options) {
    size_t equals = entry.find('=');
    std::string value = equals == entry.npos ? "true" : entry.substr(equals + 1);
    Json parsed = Json::parse(value, nullptr, false);
    options[entry.substr(0, equals)] = parsed.is_discarded() ? Json(value) : parsed;
  }
  return options.dump();
}

int compileCommand(const CompileRequest &given) {
  CompileRequest request = given;
  if (std::filesystem::is_directory(request.file)) {
    fmt::print(stderr, "tilery: ConfigError: '{}' is a directory; give a Python file\n",
               request.file);
    return 1;
  }
  if (request.function.empty())
    request.function = std::filesystem::path(request.file).stem().string();
  tilery_function *function = nullptr;
  tilery_kernel *kernel = nullptr;
  int status = tilery_function_load(request.file.c_str(), request.function.c_str(), &function);
  if (status)
    return reportFailure(status);
  const tilery_options *options = nullptr;
  status = tilery_options_intern(optionsOf(request).c_str(), &options);
  if (!status)
    status = tilery_function_compile_signature(function, options, request.signature.c_str(), &kernel);
  int result = status ? reportFailure(status) : emit(kernel, request);
  tilery_function_destroy(function);
  return result;
}

// Two ranks add up each other's numbers; the sum is known.
static std::string selfTest() {
  auto start = std::chrono::steady_clock::now();
  constexpr int ranks = 2;
  constexpr int64_t count = 1000;
  spawn(ranks, [](World &world) {
    auto x = world.zeros<float>(count, "x"), sum = world.zeros<float>(count, "sum");
    for (int64_t i = 0; i < count; ++i)
      x[size_t(i)] = float(i * (world.rank() + 1));
    int64_t shape[] = {count};
    tilery_tensor tensors[] = {{x.data(), shape, nullptr, 1, TILERY_FP32, 0, 0},
                               {sum.data(), shape, nullptr, 1, TILERY_FP32, 0, 0}};
    check(tilery_op_call("all_reduce", world.handle(), tensors, 2, "{}"));
    for (int64_t i = 0; i < count; ++i)
      if (sum[size_t(i)] != float(i * 3))
        throw std::runtime_error(fmt::format("element {} is {}, it must be {}", i, sum[size_t(i)], i * 3));
  });
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return fmt::format("all_reduce over {} ranks: right, {:.2f} s", ranks, seconds.count());
}

static void printTarget(const Json &target) {
  fmt::print("{:<10} {}{}\n", target["name"].get<std::string>(),
             target["found"] ? "found" : "not found",
             target.contains("note") ? ": " + target["note"].get<std::string>() : "");
  for (const Json &device : target.value("devices", Json::array()))
    fmt::print("  {:<8} {}: {} processors, {} GiB of memory\n", device["target"].get<std::string>(),
               device["name"].get<std::string>(), device["processors"].get<int>(),
               device["memory_bytes"].get<int64_t>() >> 30);
}

static void printDoctor(const Json &report) {
  fmt::print("tilery {} (build {})\n", report["version"].get<std::string>(),
             report["build"].get<std::string>().substr(0, 12));
  const Json &cpu = report["cpu"];
  fmt::print("cpu        {}, {} hardware threads\n", cpu["name"].get<std::string>(), cpu["threads"].get<int>());
  for (const Json &code : cpu["code"]) {
    std::string choice = code["choice"];
    if (code["usable"])
      fmt::print("  {:<8} {}-bit vectors{}\n", choice, code["vector_bits"].get<int>(),
                 code["bf16_dot"] ? ", bf16 dot" : "");
    else
      fmt::print("  {:<8} not usable: {}\n", choice, code["reason"].get<std::string>());
  }
  for (const Json &target : report["targets"])
    printTarget(target);
  const Json &world = report["world"];
  fmt::print("launcher   {}{}\n", world["launcher"].get<std::string>(),
             world.contains("note") ? ": " + world["note"].get<std::string>() : "");
  const Json &cache = report["cache"];
  fmt::print("cache      {}: {} kernels, {} bytes\n", cache["path"].get<std::string>(),
             cache["entries"].get<int64_t>(), cache["bytes"].get<int64_t>());
}

int doctorCommand(bool json) {
  const char *found = tilery_doctor();
  if (!found)
    return reportFailure(TILERY_CONFIG_ERROR);
  Json report = Json::parse(found);
  std::string result;
  bool passed = true;
  try {
    result = selfTest();
  } catch (const std::exception &error) {
    result = std::string("failed: ") + error.what();
    passed = false;
  }
  report["self_test"] = {{"passed", passed}, {"text", result}};
  if (json)
    fmt::print("{}\n", report.dump(2));
  else {
    printDoctor(report);
    fmt::print("self-test  {}\n", result);
  }
  return passed ? 0 : 1;
}

int cacheCommand(bool clear) {
  if (clear)
    if (int status = tilery_cache_clear())
      return reportFailure(status);
  const char *found = tilery_cache_describe();
  if (!found)
    return reportFailure(TILERY_CONFIG_ERROR);
  Json cache = Json::parse(found);
  fmt::print("{}: {} kernels, {} bytes\n", cache["path"].get<std::string>(),
             cache["entries"].get<int64_t>(), cache["bytes"].get<int64_t>());
  return 0;
}

int opsCommand(bool json) {
  Json ops = Json::parse(tilery_ops_list());
  if (json) {
    fmt::print("{}\n", ops.dump(2));
    return 0;
  }
  for (const Json &op : ops) {
    std::string tensors, options;
    for (const Json &tensor : op["tensors"])
      tensors += (tensors.empty() ? "" : ", ") + tensor.get<std::string>();
    for (const auto &[name, value] : op["options"].items())
      options += fmt::format("  {}={}", name, value.dump());
    fmt::print("{:<15} ({})  {}\n", op["name"].get<std::string>(), tensors, op["summary"].get<std::string>());
    if (!options.empty())
      fmt::print("{:<15}{}\n", "", options);
  }
  return 0;
}

} // namespace tilery::cli
