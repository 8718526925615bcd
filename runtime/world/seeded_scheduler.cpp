// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Drives all ranks of an in-process world by one random sequence.
#include "runtime/world/seeded_scheduler.h"

#include "runtime/world/domain.h"

#include <chrono>

namespace tilery::rt {

static constexpr auto LookAround = std::chrono::milliseconds(50);

SeededScheduler::SeededScheduler(Domain &domain, uint64_t seed)
    : domain(domain), seats(size_t(domain.size())), present(domain.size()), random(seed) {}

bool SeededScheduler::wait(int rank, const HostWait &wait) {
  return block(rank, Seat::Kind::Waiting, &wait, nullptr);
}

bool SeededScheduler::run(int rank, TaskSet &tasks) {
  return block(rank, Seat::Kind::Running, nullptr, &tasks);
}

bool SeededScheduler::block(int rank, Seat::Kind kind, const HostWait *wait, TaskSet *tasks) {
  std::unique_lock lock(mutex);
  Seat &mine = seats[size_t(rank)];
  mine.kind = kind;
  mine.wait = wait;
  mine.tasks = tasks;
  ++blocked;
  while (mine.kind != Seat::Kind::Outside) {
    if (domain.failed())
      release(rank);
    else if (everyoneBlocked())
      drive();
    else if (mine.wake.wait_for(lock, LookAround) == std::cv_status::timeout)
      checkDeadlines();
  }
  bool good = !domain.failed();
  if (!good)
    delayed.dropAll();
  return good;
}

void SeededScheduler::leave(int rank) {
  std::lock_guard lock(mutex);
  Seat &seat = seats[size_t(rank)];
  if (seat.kind == Seat::Kind::Gone)
    return;
  seat.kind = Seat::Kind::Gone;
  --present;
  // Any one of them can drive now.
  for (Seat &other : seats)
    other.wake.notify_one();
}

void SeededScheduler::failureHappened() {
  // Without the mutex, which the failing thread may hold; the waiters look around anyway.
  for (Seat &seat : seats)
    seat.wake.notify_one();
}

void SeededScheduler::release(int rank) {
  Seat &seat = seats[size_t(rank)];
  seat.kind = Seat::Kind::Outside;
  --blocked;
  seat.wake.notify_one();
}

void SeededScheduler::note(int rank, int64_t what) {
  scheduleHash = (scheduleHash ^ uint64_t(rank)) * 0x100000001b3ull;
  scheduleHash = (scheduleHash ^ uint64_t(what)) * 0x100000001b3ull;
}

void SeededScheduler::drive() {
  while (present > 0 && everyoneBlocked() && !domain.failed()) {
    if ((++steps & 255) == 0)
      checkDeadlines();
    if (!choose())
      reportDeadlock();
  }
}

bool SeededScheduler::choose() {
  constexpr uint64_t OneIn = 3;
  if (delayed.pending() && random.below(OneIn) == 0) {
    note(-1, 0);
    delayed.deliverOne(random);
    return true;
  }
  size_t start = random.below(seats.size());
  for (size_t k = 0; k < seats.size(); ++k)
    if (stepRank(int((start + k) % seats.size())))
      return true;
  if (!delayed.pending())
    return false;
  note(-1, 1);
  delayed.deliverOne(random);
  return true;
}

bool SeededScheduler::stepRank(int rank) {
  Seat &seat = seats[size_t(rank)];
  if (seat.kind == Seat::Kind::Running)
    return stepTasks(rank, *seat.tasks);
  if (seat.kind != Seat::Kind::Waiting || !seat.wait->predicate.holds())
    return false;
  note(rank, -1);
  release(rank);
  return true;
}

bool SeededScheduler::stepTasks(int rank, TaskSet &tasks) {
  if (tasks.complete() || tasks.failed) {
    note(rank, -2);
    delayed.flushRank(rank);
    release(rank);
    return true;
  }
  size_t live = tasks.live.size();
  size_t choices = live + (tasks.canStart() ? 1 : 0);
  size_t start = random.below(choices);
  for (size_t k = 0; k < choices; ++k) {
    size_t index = (start + k) % choices;
    if (index == live) {
      Task *task = tasks.start(random.next());
      if (!task)
        return true;
      tasks.live.push_back(task);
    } else if (!tasks.live[index]->runnable()) {
      continue;
    }
    note(rank, tasks.live[index]->number());
    tasks.step(index);
    return true;
  }
  return false;
}

bool SeededScheduler::expired(const Seat &seat, int64_t now, std::string &report) const {
  if (seat.kind == Seat::Kind::Waiting && seat.wait->deadline.passed(now)) {
    report = seat.wait->describe();
    return true;
  }
  if (seat.kind != Seat::Kind::Running)
    return false;
  for (const Task *task : seat.tasks->live)
    if (task->waiting() && task->deadline.passed(now)) {
      report = task->report();
      return true;
    }
  return false;
}

void SeededScheduler::checkDeadlines() {
  int64_t now = nowNs();
  std::string report;
  for (size_t rank = 0; rank < seats.size(); ++rank)
    if (!domain.failed() && expired(seats[rank], now, report))
      domain.fail(int(rank), TILERY_WAIT_TIMEOUT,
                  fmt::format("wait timed out\n  {}{}", report, domain.describePeers(int(rank))));
}

void SeededScheduler::collectReports(const Seat &seat, std::vector<std::string> &reports) const {
  if (seat.kind == Seat::Kind::Waiting)
    reports.push_back(seat.wait->describe());
  if (seat.kind == Seat::Kind::Running)
    for (const Task *task : seat.tasks->live)
      reports.push_back(task->report());
}

void SeededScheduler::reportDeadlock() {
  constexpr size_t MaxListed = 8;
  std::vector<std::string> reports;
  std::string text;
  for (const Seat &seat : seats)
    collectReports(seat, reports);
  for (size_t i = 0; i < std::min(reports.size(), MaxListed); ++i)
    text += "\n  " + reports[i];
  if (reports.size() > MaxListed)
    text += fmt::format("\n  ... and {} more", reports.size() - MaxListed);
  for (size_t rank = 0; rank < seats.size(); ++rank)
    if (seats[rank].kind == Seat::Kind::Gone)
      text += fmt::format("\n  rank {} has left the world", rank);
  for (size_t rank = 0; rank < seats.size(); ++rank)
    if (seats[rank].kind == Seat::Kind::Running && seats[rank].tasks->canStart() == false &&
        seats[rank].tasks->live.empty())
      text += fmt::format("\n  rank {} has finished its kernel", rank);
  domain.fail(Domain::Everyone, TILERY_WAIT_TIMEOUT,
              fmt::format("deadlock: {} waits, none can end and nothing is in flight{}\nhint: find "
                          "the notify that should come before each wait; no rank will run it now",
                          reports.size(), text));
}

} // namespace tilery::rt
