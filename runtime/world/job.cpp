// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Recognises torchrun, `tilery run`, Open MPI, PMI launchers and Slurm by their variables.
#include "runtime/world/job.h"

#include "runtime/base/error.h"
#include "runtime/base/knobs.h"

#include <charconv>
#include <cstdlib>
#include <unistd.h>
#include <vector>

namespace tilery::rt {

namespace {
/// One launcher: where it puts rank and size, and what names its job.
struct Launcher {
  const char *name;
  const char *rank;
  const char *size;
  const char *localRank;
  const char *localSize;
  /// Must be set too; null: nothing more.
  const char *required;
  std::vector<const char *> identity;
};
} // namespace

// In the order of preference. An sbatch script has SLURM_PROCID without being a rank, so Slurm
// counts only within a step.
static const std::vector<Launcher> &launchers() {
  static const std::vector<Launcher> table = {
      {"torchrun (RANK, WORLD_SIZE)", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr,
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
      {"Open MPI (OMPI_COMM_WORLD_RANK)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr,
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"}},
      {"PMI (PMI_RANK)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr, {}},
      {"Slurm (SLURM_PROCID)", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, "SLURM_STEP_ID",
       {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
  };
  return table;
}

static std::string variable(const char *name) { return name ? readKnobText(name, "") : ""; }

static int parseInteger(const std::string &name, const std::string &text) {
  int value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size())
    raise(TILERY_CONFIG_ERROR, "{} is '{}', which is not a whole number", name, text);
  return value;
}

static void checkRank(const Job &job) {
  if (job.size < 1 || job.rank < 0 || job.rank >= job.size)
    raise(TILERY_CONFIG_ERROR, "rank {} of a world of size {} makes no sense ({})", job.rank,
          job.size, job.launcher);
}

// Without anything that names the job, the launcher's process does: it started all ranks.
static std::string nameJob(const Job &job, const std::vector<const char *> &identity) {
  std::string name;
  for (const char *part : identity)
    name += variable(part) + "|";
  bool anonymous = name.find_first_not_of('|') == std::string::npos && job.masterPort.empty();
  if (anonymous)
    name += fmt::format("parent {}", getppid());
  return fmt::format("{}|{}|{}", name, job.masterAddress, job.masterPort);
}

static std::optional<Job> jobOf(const Launcher &launcher) {
  std::string rank = variable(launcher.rank), size = variable(launcher.size);
  bool present = !rank.empty() && !size.empty();
  if (!present || (launcher.required && variable(launcher.required).empty()))
    return std::nullopt;
  Job job;
  job.launcher = launcher.name;
  job.rank = parseInteger(launcher.rank, rank);
  job.size = parseInteger(launcher.size, size);
  job.localRank = job.rank;
  if (std::string local = variable(launcher.localRank); !local.empty())
    job.localRank = parseInteger(launcher.localRank, local);
  if (std::string local = variable(launcher.localSize); !local.empty())
    job.localSize = parseInteger(launcher.localSize, local);
  return job;
}

static void fillIn(Job &job, const JobOptions &options, const std::vector<const char *> &identity) {
  auto first = [](const std::string &a, const std::string &b) { return a.empty() ? b : a; };
  job.masterAddress = first(options.masterAddress, variable("MASTER_ADDR"));
  job.masterPort = first(options.masterPort, variable("MASTER_PORT"));
  job.token = first(options.token, variable("TILERY_JOB_TOKEN"));
  job.name = nameJob(job, identity);
  checkRank(job);
}

std::optional<Job> findJob(const JobOptions &options) {
  if (options.rank.has_value() != options.size.has_value())
    raise(TILERY_CONFIG_ERROR, "give both 'rank' and 'size', or neither");
  if (options.rank) {
    Job job;
    job.launcher = "explicit rank and size";
    job.rank = job.localRank = *options.rank;
    job.size = *options.size;
    fillIn(job, options, {});
    return job;
  }
  for (const Launcher &launcher : launchers())
    if (std::optional<Job> job = jobOf(launcher)) {
      fillIn(*job, options, launcher.identity);
      return job;
    }
  if (!variable("RANK").empty() != !variable("WORLD_SIZE").empty())
    raise(TILERY_CONFIG_ERROR,
          "only one of RANK and WORLD_SIZE is set\nhint: set both, or neither for one rank");
  return std::nullopt;
}

} // namespace tilery::rt
