// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// `tilery bench overlap` and `tilery bench plot`: operators beside NCCL, cuBLAS and torch.
#include "tools/tilery/commands.h"
#include "tools/tilery/contests.h"
#include "tools/tilery/run.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>

namespace tilery::cli {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// In the wheel beside the folder of this program, in a checkout at the root of its build folders.
static fs::path benchProgram(const std::string &name) {
  for (fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
       folder.has_relative_path(); folder = folder.parent_path())
    if (fs::path program = folder / "bench" / name; fs::exists(program))
      return program;
  throw std::runtime_error(
      fmt::format("{} is neither in the package nor in a folder around the "
                  "program\nhint: install the wheel, or run it from a checkout",
                  name));
}

static void write(const std::string &path, const std::string &text) {
  std::ofstream file(path);
  file << text;
  if (!file.good())
    throw std::runtime_error(fmt::format("cannot write '{}'", path));
}

static std::string cell(const Json &times, const char *name) {
  return times.contains(name) ? fmt::format("{:.1f}", times[name].get<double>()) : "-";
}

static void printTimes(const Json &entry, const Json &times, const char *how) {
  fmt::print("{:<8} {:>6} {:>6} {:>6}  {:<6} {:>10} {:>14} {:>10}\n", entry.value("op", ""),
             entry.value("m", 0), entry.value("n", 0), entry.value("k", 0), how,
             cell(times, "ours"), cell(times, "nccl"), cell(times, "torch"));
}

static void printTable(const Json &results) {
  fmt::print("{} x {}, us\n{:<8} {:>6} {:>6} {:>6}  {:<6} {:>10} {:>14} {:>10}\n",
             results.value("ranks", 1), results.value("gpu", "GPU"), "op", "M", "N", "K", "calls",
             "tilery", "NCCL + cuBLAS", "torch");
  for (const Json &entry : results["results"]) {
    printTimes(entry, entry, "graph");
    if (entry.contains("eager"))
      printTimes(entry, entry["eager"], "eager");
  }
}

static int measure(const OverlapRequest &request) {
  std::vector<std::string> command = {request.python, benchProgram("gpu_overlap.py"),
                                      request.explain ? "--explain" : "--eager", "--output", request.output};
  if (request.drawn)
    command.insert(command.end(), {"--random", std::to_string(request.drawn)});
  for (auto [option, value] : {std::pair("--ops", request.ops), std::pair("--rows", request.rows)})
    if (!value.empty())
      command.insert(command.end(), {option, value});
  fs::remove(request.output);
  return tools::runCommand({request.ranks}, command);
}

// Regret: how much longer the form that was chosen takes than the fastest one.
static void printForms(const Json &results) {
  fmt::print("{} x {}, us: measured (expected), * chosen\n", results.value("ranks", 1),
             results.value("gpu", "GPU"));
  for (const Json &entry : results["results"]) {
    std::string forms;
    for (const auto &[form, expected] : entry["expected"].items())
      forms += fmt::format("  {}{} {} ({:.1f})", form == entry.value("chosen", "") ? "*" : "", form,
                           cell(entry, ("form " + form).c_str()), expected.get<double>());
    std::string regret =
        entry.contains("regret") ? fmt::format("{:.1f} %", 100 * entry["regret"].get<double>()) : "-";
    fmt::print("{:<8} {:>6} {:>6} {:>6}  regret {:>7}{}\n", entry.value("op", ""), entry.value("m", 0),
               entry.value("n", 0), entry.value("k", 0), regret, forms);
  }
}

/// What `command` returns; its errors are printed.
template <typename Command> static int reporting(Command command) {
  try {
    return command();
  } catch (const std::exception &error) {
    fmt::print(stderr, "tilery: {}\n", error.what());
    return 1;
  }
}

// Results that are wrong are measured, shown, and end in a status other than 0.
int benchOverlapCommand(const OverlapRequest &request) {
  return reporting([&] {
    int status = measure(request);
    if (!fs::exists(request.output))
      return status ? status : 1;
    Json results = readResults(request.output);
    if (request.explain) {
      printForms(results);
      fmt::print("{}\n", request.output);
      return status;
    }
    printTable(results);
    std::string plot = fs::path(request.output).replace_extension(".svg");
    write(plot, plotOf(contestsOf(results)));
    fmt::print("{}\n{}\n", request.output, plot);
    return status;
  });
}

// The plot itself is made in one way: a PNG is a picture of the SVG.
static int drawPng(const PlotRequest &request, const std::string &svg) {
  fs::path source = fs::path(request.output).replace_extension(".png.svg");
  write(source, svg);
  int status = tools::runCommand({1}, {request.python, benchProgram("svg_to_png.py"), source, request.output});
  fs::remove(source);
  return status;
}

int benchPlotCommand(const PlotRequest &request) {
  return reporting([&] {
    std::string svg = plotOf(contestsOf(readResults(request.results)));
    std::string kind = fs::path(request.output).extension();
    if (kind == ".png")
      return drawPng(request, svg);
    if (kind != ".svg")
      throw std::runtime_error(fmt::format("a plot is an .svg or a .png file, not '{}'", request.output));
    write(request.output, svg);
    return 0;
  });
}

} // namespace tilery::cli
