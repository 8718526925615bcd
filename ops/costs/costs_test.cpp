// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Curves, fits, the text of figures, and what the formulas say of machines with round numbers.
#include "ops/costs/costs.h"

#include <gtest/gtest.h>

using namespace tilery::ops;

namespace {

// A link of `rate` bytes a microsecond behind `latency`.
std::string linkText(const std::string &name, double latency, double rate) {
  std::string text;
  for (double bytes : {1024.0, 1048576.0})
    text += ", \"" + name + "." + std::to_string(int64_t(bytes)) +
            "\": " + std::to_string(latency + bytes / rate);
  return text;
}

Calibration machine(double copyRate = 400e3) {
  return *Calibration::parse(
      "{\"version\": 6, \"sustained\": 700e6" + linkText("all_gather.flagged", 5, 50e3) +
      linkText("all_gather.push", 10, 200e3) + linkText("all_gather.copies", 30, copyRate) +
      linkText("link.copies", 20, copyRate) +
      ", \"ag_gemm.copies.start\": 5, \"ag_gemm.copies.factor\": 1"
      ", \"gemm_ar.one_shot.start\": 8, \"gemm_ar.one_shot.factor\": 1, \"gemm_ar.one_shot.exposed\": 0.5}");
}

double gather(const Calibration &figures, const char *form, int64_t bytes, int ranks = 2) {
  return collectiveMicroseconds(figures, "all_gather", form, ranks, bytes, 2);
}

const tilery_device_properties device{"test", "test", 132, 0, 0, 227 << 10};

ProductCase product(int64_t m, int64_t n, int64_t k, int ranks = 2, const char *op = "ag_gemm") {
  MatmulProblem problem{m, n, k, 1, TILERY_BF16, true};
  return productCase(op, problem, device, ranks, 132, 2, k);
}

double ideal(const ProductCase &p, const Calibration &figures = machine()) {
  return idealMatmul(figures, p.plan, p.problem, device);
}

/// In tiles as the operator `matmul` cuts them.
double whole(const ProductCase &p) {
  return idealMatmul(machine(), planMatmul(p.problem, device, {}), p.problem, device);
}

} // namespace

TEST(Curve, IsStraightBetweenPointsAndGoesOnFromTheLastTwo) {
  Curve curve;
  curve.add(3000, 30); // in any order
  curve.add(1000, 10);
  EXPECT_FALSE(Curve().isKnown());
  EXPECT_DOUBLE_EQ(curve.at(2000), 20);
  EXPECT_DOUBLE_EQ(curve.at(0), 10);
  EXPECT_DOUBLE_EQ(curve.at(5000), 50);
  EXPECT_DOUBLE_EQ(curve.rate(), 100);
}

TEST(Curve, GoesOnAsBeforeADisturbedPoint) {
  Curve curve;
  curve.add(1000, 10);
  curve.add(2000, 39); // disturbed
  curve.add(4000, 40);
  EXPECT_DOUBLE_EQ(curve.rate(), 100);
  EXPECT_DOUBLE_EQ(curve.at(9000), 90);
}

TEST(Fit, FindsTheTermsOfWhatWasMeasured) {
  std::vector<std::pair<Ideal, double>> measured;
  for (Ideal ideal : {Ideal{10, 1}, {10, 30}, {100, 3}, {100, 100}, {1000, 80}})
    measured.emplace_back(ideal, 15 + 1.2 * ideal.product + 0.6 * ideal.sending);
  Fit fit = fitted(measured);
  EXPECT_NEAR(fit.start, 15, 1e-3);
  EXPECT_NEAR(fit.factor, 1.2, 1e-4);
  EXPECT_NEAR(fit.exposed, 0.6, 1e-4);
}

TEST(Fit, TakesNoLessThanTheProductAlone) {
  Fit fit = fitted({{{10}, 5}, {{100}, 95}});
  EXPECT_EQ(fit.start, 0);
  EXPECT_EQ(fit.exposed, 0);
  EXPECT_EQ(fit.factor, 1);
  fit = fitted({{{10}, 95}, {{100}, 5}});
  EXPECT_EQ(fit.factor, 1);
  EXPECT_NEAR(fitted({{{10}, 20}}).at({10}), 20, 1e-6);
}

// Points of 5 microseconds more each: 5 of 10 are as many as 50 of 100.
TEST(Fit, ErrorsAreRelative) {
  Fit fit = fitted({{{10}, 15}, {{1000}, 1000}, {{2000}, 2000}});
  EXPECT_NEAR(fit.at({10}), 15, 0.5);
  EXPECT_NEAR(fit.at({2000}), 2000, 20);
}

TEST(Figures, ComeBackFromTheirText) {
  Calibration figures = machine();
  std::optional<Calibration> again = Calibration::parse(figures.text());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->text(), figures.text());
  EXPECT_DOUBLE_EQ(again->curve("all_gather.push")->at(1024), 10 + 1024 / 200e3);
  EXPECT_EQ(again->fit("ag_gemm.copies")->start, 5);
  EXPECT_EQ(again->fit("gemm_ar.one_shot")->exposed, 0.5);
  EXPECT_EQ(again->number("sustained"), 700e6);
  EXPECT_EQ(again->curve("all_gather.pull"), nullptr);
}

TEST(Figures, OfAnotherVersionOrDamagedAreNone) {
  for (const char *text : {"", "{", "{}", "{\"version\": 1}", "{\"version\": 6, \"sustained\": \"x\"}",
                           "{\"version\": 6, \"sustained\": -1}", "{\"version\": 6, \"sustained\": 1", "off"})
    EXPECT_FALSE(Calibration::parse(text)) << text;
  EXPECT_TRUE(Calibration::builtIn().fit("gemm_ar.two_shot"));
}

TEST(Collectives, WordsWithFlagsThenInstancesThenCopies) {
  Calibration figures = machine();
  EXPECT_LT(gather(figures, "flagged", 4096), gather(figures, "push", 4096));
  EXPECT_LT(gather(figures, "push", 1 << 20), gather(figures, "flagged", 1 << 20));
  EXPECT_LT(gather(figures, "push", 1 << 20), gather(figures, "copies", 1 << 20));
  EXPECT_LT(gather(figures, "copies", 16 << 20), gather(figures, "push", 16 << 20));
  EXPECT_EQ(collectiveMicroseconds(figures, "all_gather", 2, 4096, 2), gather(figures, "flagged", 4096));
}

TEST(Collectives, WordsWithFlagsTakeElementsOf2Or4Bytes) {
  Calibration figures = machine();
  EXPECT_EQ(collectiveMicroseconds(figures, "all_gather", "flagged", 2, 4096, 8), Never);
  EXPECT_LT(collectiveMicroseconds(figures, "all_gather", "flagged", 2, 4096, 4), Never);
  EXPECT_EQ(gather(figures, "pull", 4096), Never); // not measured
}

// 10 + b / 200e3 = 30 + b / rate: at 8e6 bytes for 400e3, at 20 * 300e3 * 200e3 / 100e3 for 300e3.
TEST(Collectives, SlowerCopyEnginesAreChosenLater) {
  for (auto [rate, meeting] : {std::pair(400e3, 8e6), std::pair(300e3, 12e6)}) {
    Calibration figures = machine(rate);
    auto below = int64_t(0.99 * meeting), above = int64_t(1.01 * meeting);
    EXPECT_LT(gather(figures, "push", below), gather(figures, "copies", below)) << rate;
    EXPECT_GT(gather(figures, "push", above), gather(figures, "copies", above)) << rate;
  }
}

TEST(Collectives, SendToEachOfTheOthers) {
  Calibration figures = machine();
  EXPECT_NEAR(gather(figures, "push", 1 << 20, 5), 10 + 4 * 1048576 / 200e3, 1e-6);
  EXPECT_EQ(sentBytes("all_reduce", "one_shot", 4, 1000), 3000);
  EXPECT_EQ(sentBytes("all_reduce", "two_shot", 4, 1000), 1500);
}

TEST(Products, LongOnesTakeWhatPowerAllows) {
  ProductCase large = product(8192, 8192, 8192), small = product(128, 4096, 4096);
  double arithmetic = 2 * 8192.0 * 8192 * 8192;
  auto limited = [&](const ProductCase &p, double rate) {
    std::string text = "{\"version\": 6, \"sustained\": " + std::to_string(rate) + "}";
    return ideal(p, *Calibration::parse(text));
  };
  EXPECT_NEAR(limited(large, 300e6), arithmetic / 300e6, 0.02 * arithmetic / 300e6);
  EXPECT_EQ(limited(small, 700e6), expectedMicroseconds(small.plan, small.problem, device, 700e6));
  large.problem.dtype = TILERY_INT8;
  EXPECT_NEAR(limited(large, 300e6), arithmetic / 600e6, 0.02 * arithmetic / 600e6);
}

TEST(Products, RowsThatArriveInTimeCostNothingButTheSmallestCopy) {
  ProductCase large = product(8192, 4096, 8192);
  double alone = ideal(large), smallest = 20;
  EXPECT_NEAR(productMicroseconds(machine(), large, "copies"), 5 + smallest + alone, alone / 100);
  // 64 MiB at 20e3 bytes a microsecond take longer than the product: what remains is the last step.
  double bound = productMicroseconds(machine(20e3), large, "copies");
  double arrival = smallest + 4096.0 * 8192 * 2 / 20e3;
  EXPECT_GT(bound, arrival);
  EXPECT_LT(bound, arrival + alone / 2);
}

TEST(Products, TilesOfAllRanksRowsWaitForThem) {
  for (int64_t n : {4096, 65536}) { // one round, and many
    ProductCase small = product(128, n, 4096);
    double arrival = 20 + 64.0 * 4096 * 2 / 400e3;
    EXPECT_NEAR(productMicroseconds(machine(), small, "copies"), 5 + arrival + ideal(small), 0.1);
  }
}

// The memory for all of B takes half of the arithmetic of a rank's rows.
TEST(Products, EachRanksRowsNeedAllOfB) {
  double copies = productMicroseconds(machine(), product(512, 28672, 8192), "copies");
  EXPECT_GT(copies, 25 + 1.15 * ideal(product(512, 28672, 8192)));
  copies = productMicroseconds(machine(), product(4096, 28672, 8192), "copies");
  EXPECT_LT(copies, 25 + 1.05 * ideal(product(4096, 28672, 8192)));
}

// It has no `a` that bulk copies could bring, and the kernel is slow without them.
TEST(Products, OfRanksWithoutRowsAreGatheredFirst) {
  EXPECT_EQ(productMicroseconds(machine(), product(1, 4096, 4096), "copies"), Never);
  EXPECT_EQ(productMicroseconds(machine(), product(6, 4096, 4096, 4), "copies"), Never); // 2, 2, 2, none
  EXPECT_LT(productMicroseconds(machine(), product(7, 4096, 4096, 4), "copies"), Never);
  EXPECT_LT(productMicroseconds(machine(), product(1, 4096, 4096), "unfused"), Never);
}

TEST(Products, HideAPartOfSending) {
  ProductCase p = product(512, 4096, 4096, 3, "gemm_ar");
  EXPECT_NEAR(productMicroseconds(machine(), p, "one_shot"),
              1.05 * (8 + idealProduct(machine(), p, "one_shot").product + 0.5 * 512 * 4096 * 2 * 2 / 200e3),
              0.1);
}

// 114 MiB take 30 microseconds at 3.9 TB/s; the arithmetic of 16 rows next to nothing.
TEST(Products, WhatMemoryBoundsTakesUpToAQuarterLonger) {
  ProductCase small = product(16, 4096, 14336, 2, "gemm_rs"), large = product(8192, 4096, 8192, 2, "gemm_rs");
  double memory = memoryMicroseconds(small.problem, device);
  EXPECT_NEAR(memory, 30, 1);
  EXPECT_GT(idealProduct(machine(), small, "overlapped").product, ideal(small) + 0.17 * memory);
  EXPECT_NEAR(idealProduct(machine(), large, "overlapped").product, ideal(large), ideal(large) / 50);
}

// Of 300 rows 3 tiles of 128, or 2 for each of two ranks.
TEST(Products, TilesAreOfOneRanksRows) {
  auto compared = [](int64_t m) {
    ProductCase p = product(m, 17152, 4096, 2, "gemm_rs");
    auto ideally = [&](const char *form) { return idealProduct(machine(), p, form).product; };
    return std::pair(ideally("two_shot") / ideally("one_shot"), ideally("overlapped") / ideally("two_shot"));
  };
  ProductCase ar = product(300, 17152, 4096, 2, "gemm_ar");
  EXPECT_EQ(idealProduct(machine(), ar, "direct").product, idealProduct(machine(), ar, "two_shot").product);
  EXPECT_EQ(idealProduct(machine(), ar, "direct").sending, 2 * 150 * 17152 * 2 / 200e3);
  auto [more, same] = compared(300);
  EXPECT_LT(more, 4.0 / 3); // of the tiles, beside what memory takes
  EXPECT_GT(more, 1.15);
  EXPECT_EQ(same, 1);
  EXPECT_EQ(compared(512), std::pair(1.0, 1.0));
  EXPECT_LT(compared(100).second, 0.8); // few rows share tiles, but not in two steps
}

TEST(Senders, AreAsFewAsBringRowsInTime) {
  Senders idle = bestSenders(1000, 2 * 132, 132, 2, 1e5);
  EXPECT_EQ(idle.count, 1);
  EXPECT_NEAR(idle.microseconds, 1500, 1); // a round more, for the tile that it leaves out
  Senders busy = bestSenders(1000, 10 * 132 - 16, 132, 2, 12e6); // places for 16 in the last round
  EXPECT_EQ(busy.count, 16);
  EXPECT_NEAR(busy.microseconds, 1000, 1);
  EXPECT_EQ(bestSenders(10, 1, 1, 2, 1e3).count, 1);
}

TEST(Products, OneAfterTheOtherAddUp) {
  ProductCase p = product(256, 4096, 4096);
  EXPECT_NEAR(productMicroseconds(machine(), p, "unfused"),
              whole(p) + collectiveMicroseconds(machine(), "all_gather", 2, 128 * 8192, 2), 1e-6);
  EXPECT_EQ(productMicroseconds(machine(), p, "instances"), Never); // not measured
}

TEST(Products, ScatteredSumsAreGatheredAfterwards) {
  ProductCase p = product(2048, 5120, 12800, 2, "gemm_ar"), rows = product(2048, 5120, 12800, 2, "gemm_rs");
  EXPECT_NEAR(productMicroseconds(Calibration::builtIn(), p, "scattered"),
              productMicroseconds(Calibration::builtIn(), rows, "overlapped") +
                  collectiveMicroseconds(Calibration::builtIn(), "all_gather", 2, 1024 * 5120 * 2, 2),
              1e-6);
}

// As measured on two H200s (bench/results/gpu_collectives.json).
TEST(BuiltIn, TheQuickestFormsOfAnAllGather) {
  auto quickest = [](int64_t bytes) {
    std::string best;
    double least = Never;
    for (const char *form : {"flagged", "push", "copies", "direct", "direct_copies"})
      if (double time = gather(Calibration::builtIn(), form, bytes); time < least)
        least = time, best = form;
    return best;
  };
  EXPECT_EQ(quickest(64 << 10), "flagged");
  EXPECT_EQ(quickest(4 << 20), "direct");
  EXPECT_EQ(quickest(256 << 20), "direct_copies");
}

TEST(Products, OfOneRankAreJustProducts) {
  ProductCase p = product(256, 4096, 4096, 1);
  EXPECT_NEAR(productMicroseconds(machine(), p, "unfused"), whole(p), 1e-6);
}
