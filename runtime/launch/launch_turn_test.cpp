// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// When ranks of one process launch, on the fake libcuda.
#include "runtime/base/clock.h"
#include "runtime/launch/device_kernel.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/launch_test_support.h"
#include "runtime/launch/launch_turn.h"
#include "runtime/world/group.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

namespace tilery::rt {
namespace {

using test::onDevice;

// A thread's work that has to be held for as long as this says.
class Held {
public:
  explicit Held(std::function<void()> action)
      : thread([this, action = std::move(action)] {
          action();
          done = true;
        }) {}
  ~Held() { thread.join(); }
  bool isHeld() {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return !done;
  }

private:
  std::atomic<bool> done = false;
  std::thread thread;
};

class LaunchTurns : public testing::Test {
protected:
  /// A kernel whose instances wait for those of other ranks, when it `communicates`.
  KernelImage load(const std::string &name, bool communicates = true) {
    std::string text = ".version 8.0\n.entry " + name + "(.param .u64 context) { ret; }";
    KernelImage image;
    image.name = name;
    image.communicates = communicates;
    image.suspends = true;
    DeviceCode code;
    code.shape.threads = 128;
    image.device = &DeviceKernel::load(hal::deviceNumber(1), image, code, text);
    return image;
  }
  void launch(World &world, const KernelImage &image) {
    launchKernel(&world, image, {1, 1, 1}, nullptr);
  }

  Group group{onDevice(2)};
  std::unique_ptr<World> first = group.bind(0), second = group.bind(1);
};

TEST_F(LaunchTurns, TheFirstLaunchWaitsForRanksThatLoadTheirKernels) {
  KernelImage image = load("ready");
  std::optional<Preparation> loading(std::in_place, second.get());
  std::atomic<bool> launched = false;
  std::thread rank([&] {
    launch(*first, image);
    launched = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_FALSE(launched);
  loading.reset();
  launch(*second, image);
  rank.join();
}

TEST_F(LaunchTurns, EveryLaunchThatWaitsMeetsTheOthers) {
  KernelImage image = load("meets");
  for (int i = 0; i < 3; ++i) { // held also when the kernel is known
    Held rank([&] { launch(*first, image); });
    EXPECT_TRUE(rank.isHeld()) << i;
    launch(*second, image);
  }
  // Nobody waits for a grid of this one, and it is not counted.
  KernelImage alone = load("alone", /*communicates=*/false);
  launch(*first, alone);
  EXPECT_EQ(first->gate->ranks[0].announced, 3u);
  EXPECT_EQ(first->gate->ranks[0].made, 3u);
}

TEST_F(LaunchTurns, TeamsMeetByThemselves) {
  std::unique_ptr<World> ofFirst, ofSecond;
  std::thread rank([&] { ofSecond = second->split(1, 0, "own"); });
  ofFirst = first->split(0, 0, "own");
  rank.join();
  EXPECT_NE(ofFirst->gate, first->gate);
  EXPECT_NE(ofFirst->gate, ofSecond->gate);
  EXPECT_EQ(first->gate, second->gate);
  Group apart(onDevice(1));
  EXPECT_EQ(apart.bind(0)->gate, nullptr) << "one rank meets nobody";
}

TEST_F(LaunchTurns, RanksThatLaunchAloneAreHeldLessAndLess) {
  KernelImage image = load("lonely");
  int64_t begin = nowNs();
  for (int i = 0; i < 50; ++i)
    launch(*first, image);
  double seconds = double(nowNs() - begin) * 1e-9;
  EXPECT_GT(seconds, 0.15) << "others may only be late";
  EXPECT_LT(seconds, 2.0);
  for (int i = 0; i < 50; ++i) // none of these has to wait
    launch(*second, image);
  Held rank([&] { launch(*first, image); });
  launch(*second, image);
}

TEST_F(LaunchTurns, LoadingWaitsForTheLaunchesThatGridsUnderWayMeet) {
  LaunchGate::Rank &own = first->gate->ranks[0], &other = first->gate->ranks[1];
  own.announced = own.made = other.announced = 1;
  {
    Held loading([&] { Preparation preparation(first.get()); });
    EXPECT_TRUE(loading.isHeld()) << "rank 1 is about to make its first launch";
    other.made = 1;
  }
  other.announced = 2; // for this launch it waits itself
  Preparation preparation(first.get());
  EXPECT_EQ(first->domain->preparing, 1);
}

} // namespace
} // namespace tilery::rt
