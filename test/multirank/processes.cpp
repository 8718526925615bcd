// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Starting ranks and collecting what they print.
#include "test/multirank/processes.h"

#include "runtime/base/clock.h"
#include "runtime/world/process_world.h"
#include "tools/tilery/run.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace tilery::test {

static std::string ownPath() { return std::filesystem::read_symlink("/proc/self/exe"); }

static std::string newOutputPath() {
  static int count = 0;
  return fmt::format("{}/tilery-test-{}-{}.out",
                     std::filesystem::temp_directory_path().string(), getpid(), count++);
}

static void redirectOutput(const std::string &path) {
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(file, 1);
  dup2(file, 2);
}

static std::string takeFile(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::remove(path.c_str());
  return text.str();
}

JobResult waitForRank(int pid, const std::string &outputPath) {
  int64_t begin = rt::nowNs();
  int result = 0;
  waitpid(pid, &result, 0);
  return {WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result), takeFile(outputPath),
          double(rt::nowNs() - begin) / 1e9};
}

JobResult runJob(int ranks, const std::string &scenario) {
  std::string path = newOutputPath();
  std::fflush(nullptr);
  pid_t pid = fork();
  if (pid == 0) {
    redirectOutput(path);
    tools::RunOptions options;
    options.ranks = ranks;
    int status = tools::runCommand(options, {ownPath(), "--scenario", scenario});
    std::fflush(nullptr);
    _exit(status);
  }
  return waitForRank(pid, path);
}

int startRank(const std::string &scenario, const std::vector<std::string> &environment,
              const std::string &outputPath) {
  std::fflush(nullptr);
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  redirectOutput(outputPath);
  for (const std::string &entry : environment)
    putenv(strdup(entry.c_str()));
  execl(ownPath().c_str(), "rank", "--scenario", scenario.c_str(), nullptr);
  _exit(127);
}

static int runScenario(const std::string &name) {
  rt::WorldOptions options;
  options.heapBytes = size_t(16) << 30;
  try {
    std::unique_ptr<World> world = rt::joinWorld({}, options);
    for (const Scenario &scenario : scenarios())
      if (scenario.name == name) {
        scenario.body(*world);
        world->finalize();
        return 0;
      }
    std::fprintf(stderr, "no scenario %s\n", name.c_str());
  } catch (const Error &error) {
    std::fprintf(stderr, "%s: %s\n", rt::kindName(error.kind), error.message.c_str());
  }
  return 1;
}

bool isRank(int argc, char **argv, int &status) {
  if (argc != 3 || std::strcmp(argv[1], "--scenario") != 0)
    return false;
  status = runScenario(argv[2]);
  return true;
}

int countOf(const std::string &text, const std::string &part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

} // namespace tilery::test
