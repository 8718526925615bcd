// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/options.h"

#include "tilery/error.hpp"

#include <gtest/gtest.h>

using tilery::ops::nearestName;
using tilery::ops::Options;

static const std::vector<std::pair<std::string, std::string>> known = {{"eps", "1e-05"},
                                                                       {"form", "\"push\""},
                                                                       {"causal", "false"},
                                                                       {"chunks", "0"},
                                                                       {"scale", "null"}};

static std::string failure(const char *json) {
  try {
    Options options = Options::parse("op", json, known);
    options.integer("chunks");
    options.flag("causal");
    options.real("eps");
    options.choice("form", {"push", "pull"});
  } catch (const tilery::Error &error) {
    EXPECT_EQ(error.kind(), tilery::Kind::Config);
    return error.what();
  }
  return "";
}

TEST(Options, DefaultsAndValues) {
  Options options = Options::parse("op", nullptr, known);
  EXPECT_EQ(options.real("eps"), 1e-5);
  EXPECT_EQ(options.text("form"), "push");
  EXPECT_TRUE(options.isNull("scale"));
  options = Options::parse(
      "op", R"( { "chunks" : 3, "form":"pull" ,"causal":true,"eps":-2.5e1,"scale":0.5})", known);
  EXPECT_EQ(options.integer("chunks"), 3);
  EXPECT_EQ(options.choice("form", {"push", "pull"}), 1);
  EXPECT_TRUE(options.flag("causal"));
  EXPECT_EQ(options.real("eps"), -25);
  EXPECT_EQ(options.real("scale"), 0.5);
}

TEST(Options, Errors) {
  EXPECT_EQ(failure(R"({"chunk": 1})"), "op has no option 'chunk'; did you mean 'chunks'?");
  EXPECT_EQ(failure(R"({"chunks": 1.5})"), "op: option 'chunks' is 1.5, needs an integer of 64 bits");
  EXPECT_EQ(failure(R"({"chunks": 9223372036854775808})"),
            "op: option 'chunks' is 9223372036854775808, needs an integer of 64 bits");
  EXPECT_EQ(failure(R"({"causal": 1})"), "op: option 'causal' is 1, needs true or false");
  EXPECT_EQ(failure(R"({"form": "pusch"})"),
            "op: option 'form' is 'pusch', needs one of push, pull");
  EXPECT_EQ(failure(R"({"form": 3})"), "op: option 'form' is 3, needs a string");
  EXPECT_EQ(failure(R"({"eps": })"), "op: option 'eps' is , needs a number");
  for (const char *broken :
       {"[", "{", "{\"eps\"", "{\"eps\":", "{\"eps\":1", "{eps:1}", "{\"a", "{\"a\\"})
    EXPECT_NE(failure(broken), "") << broken;
}

TEST(Options, NearestName) {
  EXPECT_EQ(nearestName("matmull", {"softmax", "matmul"}), "matmul");
  EXPECT_EQ(nearestName("x", {}), "");
}
