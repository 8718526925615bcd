// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the disk cache keeps of a GPU kernel comes back as it was.
#include "capi/kernel_info.h"

#include <gtest/gtest.h>

namespace tilery {
namespace {

using Kind = HostExpression::Kind;

HostExpression constant(int64_t value) { return {Kind::Constant, value, nullptr, nullptr}; }
HostExpression argument(int64_t index) { return {Kind::Argument, index, nullptr, nullptr}; }
HostExpression binary(Kind kind, HostExpression lhs, HostExpression rhs) {
  return {kind, 0, std::make_shared<HostExpression>(lhs), std::make_shared<HostExpression>(rhs)};
}

TEST(KernelInfo, SurvivesTheCache) {
  KernelInfo info;
  info.name = "matmul";
  info.scratchBytes = 64;
  info.suspends = info.communicates = info.canFail = true;
  info.sites = {{"a.py", 3, 5}};
  info.extents = {2, 0};
  info.peers = {1};
  info.threads = 384;
  info.sharedBytes = 200000;
  info.clusterExtent = {2, 1, 1};
  info.messages = {"x \"must\" be positive"};
  TensorMapRecipe map;
  map.pointer = 1;
  map.offsetElements = binary(Kind::Multiply, argument(2), constant(-7));
  map.element = "bf16";
  map.extents = {argument(3), binary(Kind::Minimum, argument(4), constant(int64_t(1) << 40))};
  map.strides = {binary(Kind::DivideSigned, binary(Kind::Maximum, argument(5), constant(1)),
                        binary(Kind::Subtract, constant(3), binary(Kind::Add, argument(0), constant(1))))};
  map.box = {64, 128};
  map.swizzleBytes = 128;
  info.tensorMaps = {map};

  llvm::json::Object described = capi::describeKernelInfo(info);
  KernelInfo back = capi::parseKernelInfo(described);
  EXPECT_EQ(llvm::json::Value(capi::describeKernelInfo(back)), llvm::json::Value(std::move(described)));
  EXPECT_EQ(back.extents, info.extents);
  EXPECT_EQ(back.peers, info.peers);
  EXPECT_EQ(back.threads, 384);
  EXPECT_EQ(back.sharedBytes, 200000);
  EXPECT_EQ(back.clusterExtent[0], 2);
  EXPECT_EQ(back.messages, info.messages);
  EXPECT_TRUE(back.canFail && back.suspends && back.communicates);
  ASSERT_EQ(back.tensorMaps.size(), 1u);
  const TensorMapRecipe &found = back.tensorMaps[0];
  EXPECT_EQ(found.pointer, 1);
  EXPECT_EQ(found.offsetElements.kind, Kind::Multiply);
  EXPECT_EQ(found.offsetElements.rhs->value, -7);
  EXPECT_EQ(found.extents[1].rhs->value, int64_t(1) << 40);
  EXPECT_EQ(found.strides[0].lhs->kind, Kind::Maximum);
  EXPECT_EQ(found.strides[0].rhs->rhs->lhs->kind, Kind::Argument);
  EXPECT_EQ(found.box, (std::vector<int32_t>{64, 128}));
}

} // namespace
} // namespace tilery
