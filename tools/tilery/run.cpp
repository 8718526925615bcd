// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Starts, watches and ends the ranks of a job.
#include "tools/tilery/run.h"

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tilery::tools {

using Clock = std::chrono::steady_clock;

namespace {
struct Child {
  pid_t pid = -1;
  bool running = false;
};

struct Signals {
  sigset_t watched;
  sigset_t before;
};
} // namespace

/// 128 random bits in hexadecimal.
static std::string makeToken() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != ssize_t(sizeof(bytes)))
    return "";
  std::string text;
  for (unsigned char byte : bytes)
    text += fmt::format("{:02x}", byte);
  return text;
}

/// A TCP port that is free now. Tilery itself only uses it to name the job; other libraries that
/// the ranks load may listen there.
static int freePort() {
  int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bool good = probe >= 0 && bind(probe, reinterpret_cast<sockaddr *>(&address), length) == 0 &&
              getsockname(probe, reinterpret_cast<sockaddr *>(&address), &length) == 0;
  if (probe >= 0)
    close(probe);
  return good ? ntohs(address.sin_port) : 29500;
}

static void setVariable(const char *name, const std::string &value) {
  setenv(name, value.c_str(), 1);
}

static Signals blockSignals() {
  Signals signals;
  sigemptyset(&signals.watched);
  for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    sigaddset(&signals.watched, number);
  sigprocmask(SIG_BLOCK, &signals.watched, &signals.before);
  return signals;
}

[[noreturn]] static void becomeRank(int rank, const RunOptions &options, const Signals &signals,
                                    const std::vector<std::string> &command, pid_t parent) {
  // The ranks do not outlive a launcher that is killed.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent)
    _exit(1);
  sigprocmask(SIG_SETMASK, &signals.before, nullptr);
  setVariable("RANK", std::to_string(rank));
  setVariable("LOCAL_RANK", std::to_string(rank));
  setVariable("WORLD_SIZE", std::to_string(options.ranks));
  setVariable("LOCAL_WORLD_SIZE", std::to_string(options.ranks));
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  fmt::print(stderr, "tilery run: cannot start '{}': {}\n", command[0], std::strerror(errno));
  _exit(127);
}

namespace {
class JobRun {
public:
  JobRun(const RunOptions &options, const std::vector<std::string> &command)
      : options(options), command(command), signals(blockSignals()),
        children(size_t(options.ranks)) {}
  ~JobRun() { sigprocmask(SIG_SETMASK, &signals.before, nullptr); }

  int run() {
    pid_t parent = getpid();
    for (int rank = 0; rank < options.ranks; ++rank)
      start(rank, parent);
    while (running > 0) {
      handleSignal();
      reap();
      endStragglers();
    }
    return status;
  }

private:
  void start(int rank, pid_t parent) {
    Child &child = children[size_t(rank)];
    std::fflush(nullptr);
    child.pid = fork();
    if (child.pid == 0)
      becomeRank(rank, options, signals, command, parent);
    child.running = child.pid > 0;
    running += child.running;
    if (!child.running)
      noteFailure(1, fmt::format("rank {} could not be started: {}", rank, std::strerror(errno)));
  }

  void handleSignal() {
    timespec limit{0, 100'000'000};
    siginfo_t info;
    int number = sigtimedwait(&signals.watched, &info, &limit);
    if (number <= 0 || number == SIGCHLD)
      return;
    // The terminal has sent its own signals to the whole group.
    if (info.si_code != SI_KERNEL)
      sendAll(number);
    bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    if (ends)
      noteFailure(128 + number, "");
  }

  void sendAll(int number) {
    for (const Child &child : children)
      if (child.running)
        kill(child.pid, number);
  }

  void reap() {
    int result;
    for (size_t rank = 0; rank < children.size(); ++rank) {
      Child &child = children[rank];
      if (!child.running || waitpid(child.pid, &result, WNOHANG) != child.pid)
        continue;
      child.running = false;
      --running;
      noteEnd(int(rank), child.pid, result);
    }
  }

  void noteEnd(int rank, pid_t pid, int result) {
    if (WIFSIGNALED(result)) {
      int number = WTERMSIG(result);
      noteFailure(128 + number, fmt::format("rank {} (pid {}) was killed by signal {} ({})", rank,
                                            pid, number, strsignal(number)));
    } else if (int code = WEXITSTATUS(result); code != 0) {
      noteFailure(code, fmt::format("rank {} (pid {}) ended with status {}", rank, pid, code));
    }
  }

  /// The first failure decides the status and starts the clock for the others.
  void noteFailure(int code, const std::string &text) {
    if (status != 0)
      return;
    status = code;
    failedAt = Clock::now();
    if (!text.empty())
      fmt::print(stderr, "tilery run: {}\n", text);
  }

  void endStragglers() {
    if (status == 0)
      return;
    std::chrono::duration<double> since = Clock::now() - failedAt;
    constexpr double UntilKill = 2;
    if (since.count() > options.graceSeconds + UntilKill)
      sendAll(SIGKILL);
    else if (since.count() > options.graceSeconds && !asked) {
      sendAll(SIGTERM);
      asked = true;
    }
  }

  const RunOptions &options;
  const std::vector<std::string> &command;
  const Signals signals;
  std::vector<Child> children;
  int running = 0;
  int status = 0;
  bool asked = false;
  Clock::time_point failedAt;
};
} // namespace

int runCommand(const RunOptions &options, const std::vector<std::string> &command) {
  if (options.ranks < 1 || command.empty()) {
    fmt::print(stderr, "tilery run: give at least one rank and a command\n");
    return 2;
  }
  std::string token = makeToken();
  if (token.empty()) {
    fmt::print(stderr, "tilery run: no random numbers for the job token: {}\n",
               std::strerror(errno));
    return 1;
  }
  setVariable("MASTER_ADDR", "127.0.0.1");
  setVariable("MASTER_PORT", std::to_string(freePort()));
  setVariable("TILERY_JOB_TOKEN", token);
  return JobRun(options, command).run();
}

} // namespace tilery::tools
