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

int compileCommand(const CompileRequest &request);
int doctorCommand(bool json);
int cacheCommand(bool clear);
int opsCommand(bool json);
/// Times the operators on this machine; prints a table, writes JSON when `output` is not empty.
int benchCommand(const std::string &output);

/// Prints "tilery: <kind>: <message>" for the last failure; returns 1.
int reportFailure(int status);

} // namespace tilery::cli
