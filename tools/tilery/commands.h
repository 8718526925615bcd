// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The subcommands of `tilery`; each returns the exit status.
#pragma once

#include <string>
#include <vector>

namespace tilery::cli {

struct CompileRequest {
  std::string file, function, signature, emit = "core", output, target;
  std::vector<std::string> options; // name=value
};

struct ProfileRequest {
  int ranks = 1, top = 20;
  bool json = false;
  std::string output; // where the timeline of a program is kept
};

struct OverlapRequest {
  int ranks = 2;
  std::string output = "overlap.json", python = "python3";
  std::string ops, rows; // as bench/gpu_overlap.py takes them; empty: all
  bool explain = false;  // every form beside what was expected of it
  int drawn = 0;         // shapes instead of those of models
};

struct PlotRequest {
  std::string results, output; // JSON; .svg or .png
  std::string python = "python3"; // that has resvg_py, for .png
};

struct CalibrateRequest {
  int ranks = 2;
  std::string output;
};

int compileCommand(const CompileRequest &request);
int doctorCommand(bool json);
int cacheCommand(bool clear);
int opsCommand(bool json);
/// Times the operators on this machine; prints a table, writes JSON when `output` is not empty.
int benchCommand(const std::string &output);
/// Overlapped products beside NCCL, cuBLAS and torch: a table, JSON, and an SVG beside it.
int benchOverlapCommand(const OverlapRequest &request);
/// Measures what communication costs between GPUs and keeps it, or writes it to `output`.
int calibrateCommand(const CalibrateRequest &request);
/// Draws what bench/gpu_overlap.py or bench/gpu_collectives.py wrote.
int benchPlotCommand(const PlotRequest &request);

/// `words`: a timeline, or a program to run with its arguments.
int profileCommand(const ProfileRequest &request, const std::vector<std::string> &words);

/// Prints "tilery: <kind>: <message>" for the last failure; returns 1.
int reportFailure(int status);

} // namespace tilery::cli
