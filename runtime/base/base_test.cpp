// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Names, knobs and random numbers.
#include "runtime/base/error.h"
#include "runtime/base/knobs.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/random.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace tilery::rt {
namespace {

TEST(NearestName, Distance) {
  EXPECT_EQ(editDistance("", ""), 0u);
  EXPECT_EQ(editDistance("seed", "sede"), 1u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(editDistance("", "abc"), 3u);
}

TEST(NearestName, OnlyWhenClose) {
  constexpr std::string_view known[] = {"num_warps", "num_stages", "num_ctas"};
  EXPECT_EQ(nearestName("num_warp", known), "num_warps");
  EXPECT_EQ(nearestName("numstages", known), "num_stages");
  EXPECT_EQ(nearestName("color", known), "");
  EXPECT_EQ(didYouMean("num_cta", known), "; did you mean 'num_ctas'?");
  EXPECT_EQ(didYouMean("color", known), "");
}

std::string knobError(const char *name, const char *value) {
  setenv(name, value, 1);
  std::string message;
  try {
    readKnobs();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, TILERY_CONFIG_ERROR);
    message = error.message;
  }
  unsetenv(name);
  return message;
}

TEST(Knobs, Defaults) {
  Knobs defaults;
  EXPECT_EQ(defaults.timeoutSeconds, 60.0);
  EXPECT_EQ(defaults.heapBytes, int64_t(64) << 30);
  EXPECT_FALSE(defaults.check);
}

TEST(Knobs, AreParsed) {
  setenv("TILERY_TIMEOUT_S", "2.5", 1);
  setenv("TILERY_HEAP_BYTES", "3G", 1);
  setenv("TILERY_CHECK", "on", 1);
  Knobs knobs = readKnobs();
  EXPECT_EQ(knobs.timeoutSeconds, 2.5);
  EXPECT_EQ(knobs.heapBytes, int64_t(3) << 30);
  EXPECT_TRUE(knobs.check);
  unsetenv("TILERY_TIMEOUT_S");
  unsetenv("TILERY_HEAP_BYTES");
  unsetenv("TILERY_CHECK");
}

TEST(Knobs, RejectNonsense) {
  EXPECT_EQ(knobError("TILERY_TIMEOUT_S", "soon"), "TILERY_TIMEOUT_S is 'soon', which is not a number");
  EXPECT_EQ(knobError("TILERY_CHECK", "maybe"), "TILERY_CHECK is 'maybe', which is not 1 or 0");
  for (const char *text : {"1X", "G", "9999999999G", "12 k"})
    EXPECT_EQ(knobError("TILERY_HEAP_BYTES", text),
              fmt::format("TILERY_HEAP_BYTES is '{}', which is not a whole number (k, M, G and T "
                          "multiply by 1024)",
                          text));
}

TEST(Knobs, RejectWhatIsOutOfRange) {
  const char *refused[][3] = {
      {"TILERY_TIMEOUT_S", "nan", "a number of seconds, 0 for none"},
      {"TILERY_TIMEOUT_S", "-1", "a number of seconds, 0 for none"},
      {"TILERY_HEAP_BYTES", "0", "1 or more"},
      {"TILERY_SEED", "-7", "0 or more, or -1 for none"},
      {"TILERY_SPIN_US", "-5", "0 or more"},
      {"TILERY_LOG", "loud", "debug, info, warning, error or off"}};
  for (auto [name, text, wanted] : refused)
    EXPECT_EQ(knobError(name, text), fmt::format("{} is '{}', which is not {}", name, text, wanted));
}

TEST(Knobs, UnknownNameWarnsWithTheNearest) {
  setenv("TILERY_TIMEOUT", "1", 1);
  testing::internal::CaptureStderr();
  knobs();
  knobs();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tilery: warning: unknown environment variable TILERY_TIMEOUT is ignored; did you mean "
            "'TILERY_TIMEOUT_S'?\n");
  unsetenv("TILERY_TIMEOUT");
}

TEST(Knobs, TableHasASentenceForEach) {
  EXPECT_GE(knobTable().size(), 10u);
  for (const KnobInfo &knob : knobTable()) {
    EXPECT_TRUE(knob.name.starts_with("TILERY_"));
    EXPECT_TRUE(knob.sentence.ends_with("."));
  }
}

// From the reference implementation by Vigna with seed 1234567.
TEST(Random, SameOnEveryMachine) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  for (int i = 0; i < 1000; ++i)
    EXPECT_LT(random.below(7), 7u);
}

} // namespace
} // namespace tilery::rt
