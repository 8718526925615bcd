// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Runs scenarios in worlds of processes: the test's own binary, started again once a rank.
#pragma once

#include "test/multirank/harness.h"

namespace tilery::test {

struct JobResult {
  int status = 0;
  std::string output;
  double seconds = 0;
};

/// By the code of `tilery run`.
JobResult runJob(int ranks, const std::string &scenario);

/// Starts this binary as one rank with the given environment ("NAME=value"); its process id.
int startRank(const std::string &scenario, const std::vector<std::string> &environment,
              const std::string &outputPath);
JobResult waitForRank(int pid, const std::string &outputPath);

/// For main: true when this process is a rank, whose exit status it then is.
bool isRank(int argc, char **argv, int &status);

int countOf(const std::string &text, const std::string &part);

} // namespace tilery::test
