// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// `tilery run -n N command...`: starts the ranks of a process world on this host.
#pragma once

#include <string>
#include <vector>

namespace tilery::tools {

struct RunOptions {
  int ranks = 1;
  /// How long the other ranks may take to notice that one has failed, before they are ended.
  double graceSeconds = 5;
};

/// Starts `command` once a rank, with torchrun's variables and a fresh job token, forwards
/// signals, and waits for all. Returns the exit status of the first rank that failed (128 + the
/// signal's number when one killed it), 0 when none did.
int runCommand(const RunOptions &options, const std::vector<std::string> &command);

} // namespace tilery::tools
