// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How values of the source program look after lowering: types in registers and in memory,
// and the layout of what the runtime passes.
#pragma once

#include "compiler/Dialect/Core/IR/Core.h"
#include "compiler/Dialect/Device/IR/Device.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

namespace tilery::vec {

using namespace mlir;

/// How an integer expression is widened to 64 bits for addresses.
enum class Extend { Sign, Zero };

/// Slots of tilery_device_api (kernel_abi.h), in order.
enum class Api {
  AxisRank, AxisSize, SymmAt, Wait, Notify, Put, Get, Fence, Quiet, BarrierAll, Yield, Release,
  RemoteStore, RemoteLoad, Fail, Print, OutOfBounds
};

/// Offsets in tilery_instance.
enum class Field : int64_t {
  Api = 0, ProgramId = 8, NumPrograms = 20, Rank = 32, NumRanks = 36, Scratch = 40, Flags = 48
};

/// Bytes of an element in memory and buffers; i1 takes one.
int64_t byteSize(Type element);
/// The type of an element in memory: i8 for i1, i64 for pointers in buffers.
Type storedType(Type element);
/// Bytes that an offset of one advances a pointer-like type.
int64_t pointeeBytes(Type pointer);
/// The vector type of `lanes` elements, or the element itself for 0.
Type vectorOr(Type element, int64_t lanes);
/// Lanes of a lowered value, 0 for a scalar.
int64_t lanesOf(Value value);
bool isConstantTrue(Value mask);

} // namespace tilery::vec
