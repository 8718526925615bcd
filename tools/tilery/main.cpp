// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// `tilery`: run ranks, compile kernels, look at the machine.
#include "tools/tilery/commands.h"
#include "tools/tilery/run.h"

#include "runtime/base/nearest_name.h"
#include "tilery/tilery.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>

using namespace tilery;

static void addRun(CLI::App &app, tools::RunOptions &options) {
  CLI::App *run = app.add_subcommand("run", "start a program once for each rank on this host");
  run->add_option("-n,--ranks", options.ranks, "number of ranks")->required()->check(CLI::Range(1, 4096));
  run->add_option("--grace", options.graceSeconds,
                  "seconds that the other ranks get to notice a failed one")
      ->check(CLI::NonNegativeNumber);
  run->prefix_command(); // what follows is the program with its own options
  run->footer("Example: tilery run -n 4 python train.py --steps 10");
}

static void addProfile(CLI::App &app, cli::ProfileRequest &request) {
  CLI::App *profile = app.add_subcommand(
      "profile", "where kernels waited: from a timeline, or of a program while it runs");
  profile->add_option("--top", request.top, "lines of the table; default: 20")
      ->check(CLI::Range(1, 1 << 20));
  profile->add_flag("--json", request.json, "print JSON");
  profile->add_option("-n,--ranks", request.ranks, "processes to start, as by tilery run")
      ->check(CLI::Range(1, 4096));
  profile->add_option("-o,--output", request.output, "keep the timeline in this file");
  profile->prefix_command();
  profile->footer("Examples: tilery profile --top 10 timeline.json\n"
                  "          tilery profile -n 2 python train.py");
}

static void addCompile(CLI::App &app, cli::CompileRequest &request) {
  CLI::App *compile = app.add_subcommand("compile", "compile a kernel without running it");
  compile->add_option("file", request.file, "a Python file with the kernel")->required();
  compile->add_option("-f,--function", request.function, "the kernel's name; default: the file's name");
  compile->add_option("-s,--signature", request.signature,
                      "parameter types: \"*fp32, symm *bf16, signal, i32, i32:16, 64\"");
  compile->add_option("-e,--emit", request.emit,
                      "core, vector, llvm, asm, metadata or object; of a GPU simt and ptx");
  compile->add_option("-t,--target", request.target,
                      "the machine, which need not be there: cpu, sm_80, sm_89, sm_90a");
  compile->add_option("-O,--option", request.options,
                      "an option of the launch, such as num_warps=8; may be repeated");
  compile->add_option("-o,--output", request.output, "file to write; default: standard output");
}

namespace {
struct BenchRequest {
  std::string output;
  cli::OverlapRequest overlap;
  cli::PlotRequest plot;
};
} // namespace

static void addBench(CLI::App &app, BenchRequest &request) {
  CLI::App *bench = app.add_subcommand("bench", "time the operators on this machine");
  bench->add_option("-o,--output", request.output, "JSON file to write");
  CLI::App *overlap = bench->add_subcommand(
      "overlap", "overlapped products on several GPUs beside NCCL and cuBLAS, and torch");
  overlap->add_option("-n,--ranks", request.overlap.ranks, "GPUs; default: 2")->check(CLI::Range(1, 4096));
  overlap->add_option("-o,--output", request.overlap.output,
                      "JSON file to write, with an SVG beside it; default: overlap.json");
  overlap->add_option("--python", request.overlap.python, "a Python that has PyTorch; default: python3");
  overlap->add_option("--ops", request.overlap.ops, "some operators only: ag_gemm,gemm_rs");
  overlap->add_option("--rows", request.overlap.rows, "some M only: 64,8192");
  CLI::Option *explain = overlap->add_flag("--explain", request.overlap.explain,
                                           "each form of each operator, beside what was expected of it");
  overlap->add_option("--random", request.overlap.drawn, "so many drawn shapes instead of those of models")
      ->check(CLI::Range(1, 100'000))
      ->needs(explain);
  CLI::App *plot = bench->add_subcommand("plot", "draw results of bench overlap as SVG or PNG");
  plot->add_option("results", request.plot.results, "their JSON file")->required();
  plot->add_option("-o,--output", request.plot.output, ".svg or .png file to write")->required();
  plot->add_option("--python", request.plot.python, "for PNG: a Python that has resvg_py; default: python3");
  bench->require_subcommand(0, 1);
  bench->footer("Example: tilery bench overlap -n 2 -o overlap.json");
}

static void addCalibrate(CLI::App &app, cli::CalibrateRequest &request) {
  CLI::App *calibrate = app.add_subcommand(
      "calibrate", "measure what communication costs between GPUs, by which operators choose their form");
  calibrate->add_option("-n,--ranks", request.ranks, "GPUs; default: 2")->check(CLI::Range(2, 4096));
  calibrate->add_option("-o,--output", request.output,
                        "JSON file to write besides, for TILERY_CALIBRATION");
  calibrate->footer("Example: tilery calibrate -n 8; of several hosts: torchrun ... --no-python tilery calibrate");
}

static int runBench(const CLI::App &bench, const BenchRequest &request) {
  if (bench.got_subcommand("overlap"))
    return cli::benchOverlapCommand(request.overlap);
  if (bench.got_subcommand("plot"))
    return cli::benchPlotCommand(request.plot);
  return cli::benchCommand(request.output);
}

/// The first argument, when it is neither an option nor a subcommand.
static bool refuseUnknown(const CLI::App &app, int argc, char **argv) {
  std::string_view word = argc > 1 ? argv[1] : "-";
  std::vector<std::string_view> known;
  for (const CLI::App *command : app.get_subcommands(nullptr))
    known.push_back(command->get_name());
  if (word.starts_with('-') || std::ranges::find(known, word) != known.end())
    return false;
  fmt::print(stderr, "tilery: there is no command '{}'{}\nthe commands are {}\n", word,
             rt::didYouMean(word, known), fmt::join(known, ", "));
  return true;
}

/// The arguments without the `--` that may stand between the options of a command and a program: a
/// CLI11 subcommand that keeps what follows as it is does not take one.
static std::vector<char *> withoutSeparator(const CLI::App &app, int argc, char **argv) {
  std::vector<char *> words(argv, argv + argc);
  const CLI::App *command = nullptr;
  for (const CLI::App *known : app.get_subcommands(nullptr))
    if (argc > 1 && known->get_name() == words[1])
      command = known;
  if (!command || !command->get_prefix_command())
    return words;
  for (size_t i = 2; i < words.size() && words[i][0] == '-'; ++i) {
    const CLI::Option *option = command->get_option_no_throw(words[i]);
    if (std::string_view(words[i]) == "--") {
      words.erase(words.begin() + ptrdiff_t(i));
      break;
    }
    bool valueFollows = option && option->get_items_expected() > 0;
    i += valueFollows ? 1 : 0;
  }
  return words;
}

int main(int argc, char **argv) {
  CLI::App app{"Tilery: kernels that compute and communicate at the same time"};
  app.set_version_flag("--version", tilery_version());
  app.require_subcommand(1);
  tools::RunOptions runOptions;
  cli::CompileRequest compileRequest;
  cli::ProfileRequest profileRequest;
  bool json = false, clear = false;
  BenchRequest benchRequest;
  addRun(app, runOptions);
  addProfile(app, profileRequest);
  addCompile(app, compileRequest);
  app.add_subcommand("doctor", "what was found on this machine, what was not and why")
      ->add_flag("--json", json, "print JSON");
  app.add_subcommand("cache", "the cache of compiled kernels")
      ->add_flag("--clear", clear, "remove all entries");
  app.add_subcommand("ops", "the operators and their options")->add_flag("--json", json, "print JSON");
  addBench(app, benchRequest);
  cli::CalibrateRequest calibrateRequest;
  addCalibrate(app, calibrateRequest);
  constexpr int UsageError = 2;
  if (refuseUnknown(app, argc, argv))
    return UsageError;
  std::vector<char *> words = withoutSeparator(app, argc, argv);
  CLI11_PARSE(app, int(words.size()), words.data());
  if (app.got_subcommand("run")) {
    std::vector<std::string> command = app.get_subcommand("run")->remaining();
    if (command.empty())
      return app.exit(CLI::RequiredError("the program to run"));
    return tools::runCommand(runOptions, command);
  }
  if (app.got_subcommand("profile")) {
    std::vector<std::string> words = app.get_subcommand("profile")->remaining();
    if (words.empty())
      return app.exit(CLI::RequiredError("a timeline, or the program to run"));
    return cli::profileCommand(profileRequest, words);
  }
  if (app.got_subcommand("compile"))
    return cli::compileCommand(compileRequest);
  if (app.got_subcommand("doctor"))
    return cli::doctorCommand(json);
  if (app.got_subcommand("cache"))
    return cli::cacheCommand(clear);
  if (app.got_subcommand("ops"))
    return cli::opsCommand(json);
  if (app.got_subcommand("calibrate"))
    return cli::calibrateCommand(calibrateRequest);
  return runBench(*app.get_subcommand("bench"), benchRequest);
}
