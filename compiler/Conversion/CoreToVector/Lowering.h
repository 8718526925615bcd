// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The state of lowering one kernel, shared by the files of this folder.
//
// A tile is *lazy* (its operation is evaluated at chosen coordinates inside the consumer's
// loops) or *stored* in a buffer. Scalars are emitted where they are defined.
#pragma once

#include "compiler/Conversion/CoreToVector/Buffers.h"
#include "compiler/Conversion/CoreToVector/CoreToVector.h"
#include "compiler/Conversion/CoreToVector/Forms.h"
#include "compiler/Conversion/CoreToVector/Nest.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

#include <map>
#include <optional>
#include <vector>

namespace tilery::vec {

class Lowering {
public:
  Lowering(func::FuncOp kernel, const CoreToVectorOptions &options);

  /// Replaces the kernel by its lowered form.
  LogicalResult run();

  //===-- Control (Kernel.cpp, ControlFlow.cpp) ----------------------------------------===//
  LogicalResult lowerBlock(Block &block);
  LogicalResult lowerOp(Operation *op);
  LogicalResult lowerScalar(Operation *op);
  LogicalResult lowerFor(scf::ForOp op);
  LogicalResult lowerIf(scf::IfOp op);
  LogicalResult lowerWhile(scf::WhileOp op);
  /// Writes `values` to `buffers` as if all at once.
  LogicalResult assign(ArrayRef<Value> values, ArrayRef<Buffer> buffers);

  //===-- Scalars ------------------------------------------------------------------------===//
  Value scalar(Value old); ///< the lowered form of a scalar of the source program
  void setScalar(Value old, Value lowered) { scalars[old] = lowered; }
  /// A scalar integer of the source program as i64, its arithmetic redone in 64 bits.
  Value wideScalar(Value old, Extend extend);

  //===-- Evaluation (TileEvaluator.cpp) -----------------------------------------------------===//
  /// The elements of `tile` at `coords`: a vector of nest.lanes elements when the lane
  /// dimension takes part, else a scalar. Pointers are !llvm.ptr as scalars, i64 in vectors.
  Value evaluate(Nest &nest, Value tile, const Coords &coords);
  /// An integer tile as i64, its arithmetic redone in 64 bits so that it cannot wrap.
  Value evaluateWide(Nest &nest, Value tile, const Coords &coords, Extend extend = Extend::Sign);
  /// Difference between neighbouring lanes: of integers, or of addresses in bytes. None when
  /// it is not the same constant for all.
  std::optional<int64_t> laneStride(Nest &nest, Value tile, const Coords &coords);
  /// The same, taking remainders of consecutive numbers for consecutive (see areConsecutive).
  std::optional<int64_t> laneStrideBetweenWraps(Nest &nest, Value tile, const Coords &coords,
                                                SmallVectorImpl<Wrap> &wraps);
  Value areConsecutive(Nest &nest, ArrayRef<Wrap> wraps);
  /// Coordinates of the source of a broadcast, expand_dims or trans at coordinates of its
  /// result; none for other operations.
  std::optional<Coords> sourceCoords(Operation *op, const Coords &coords);
  bool isStored(Value tile) const { return buffers.count(tile); }
  const Buffer &bufferOf(Value tile) const { return buffers.find(tile)->second; }
  void setBuffer(Value tile, Buffer buffer) { buffers[tile] = std::move(buffer); }
  /// Whether to store this elementwise result when it is defined.
  bool shouldStore(Operation *op);
  /// Rough cost of evaluating a lazy tile once.
  int expressionCost(Value tile);

  //===-- Elementwise (Elementwise.cpp, MathExpansion.cpp) ----------------------------------------===//
  /// One arith, math or core elementwise operation on lowered operands.
  SmallVector<Value> emitElementwise(OpBuilder &b, Operation *op, ArrayRef<Value> operands);
  static bool isElementwise(Operation *op);
  /// The body of a combine region on `arguments` (scalars, or vectors of one width).
  SmallVector<Value> emitCombine(OpBuilder &b, Region &combine, ArrayRef<Value> arguments);
  Value splat(OpBuilder &b, Location loc, Value scalar, int64_t lanes);

  //===-- Buffers (Buffers.cpp, Materialise.cpp) -------------------------------------------------------===//
  Buffer allocate(RankedTensorType type, Location loc, ArrayRef<int64_t> order = {});
  Buffer allocateAs(ArrayRef<int64_t> shape, Type element, Location loc,
                    ArrayRef<int64_t> order = {});
  /// Evaluates all of `tile` into `buffer`.
  LogicalResult evaluateInto(Value tile, const Buffer &buffer, Location loc);
  /// `tile` in a buffer: its own, or a new one.
  FailureOr<Buffer> materialise(Value tile, Location loc);
  Value loadBuffer(Nest &nest, const Buffer &buffer, const Coords &coords);
  void storeBuffer(Nest &nest, const Buffer &buffer, const Coords &coords, Value value);
  Value bufferAddress(Nest &nest, const Buffer &buffer, const Coords &coords);
  Value fromStored(Value value, Type element); ///< from its form in memory
  Value toStored(Value value, Type element);
  void copyBuffer(const Buffer &from, const Buffer &to);
  LogicalResult storeConstant(DenseElementsAttr constant, const Buffer &buffer);
  /// Loops over all of `shape` in chunks of lanes along `laneDim` (-1 for none).
  void forEachChunk(Location loc, ArrayRef<int64_t> shape, int laneDim, int64_t lanes,
                    llvm::function_ref<void(Nest &, const Coords &)> body);
  int64_t lanesFor(int64_t extent) const;
  int lastDim(ArrayRef<int64_t> shape) const; ///< last dimension with extent > 1, or -1

  //===-- Memory (MemoryOps.cpp, Atomics.cpp) ----------------------------------------------------------===//
  LogicalResult lowerLoad(core::LoadOp op);
  LogicalResult lowerStore(core::StoreOp op);
  LogicalResult lowerAtomicRMW(core::AtomicRMWOp op);
  LogicalResult lowerAtomicCAS(core::AtomicCASOp op);
  using EmitElement = llvm::function_ref<Value(Nest &, const Coords &, Value address)>;
  LogicalResult lowerAtomic(Operation *op, Value pointer, Value mask,
                            core::MemorySemantic semantic, EmitElement emit);
  void emitRelease(core::MemorySemantic semantic);
  Value emitMasked(Value mask, Type type, llvm::function_ref<Value()> emit);
  /// One chunk or element of a load, and of a store.
  Value emitLoad(Nest &nest, core::LoadOp op, const Coords &coords);
  void emitStore(Nest &nest, core::StoreOp op, const Coords &coords);
  Value emitDirectLoad(Nest &nest, core::LoadOp op, const Coords &coords, Value mask, Value other);
  void emitDirectStore(Nest &nest, core::StoreOp op, const Coords &coords, Value value,
                       Value mask);
  Value emitVectorLoad(core::LoadOp op, int64_t lanes, Value address, Value mask, Value other);
  Value emitWrappedLoad(Nest &nest, core::LoadOp op, const Coords &coords, Value mask,
                        Value other);
  Value emitGather(Nest &nest, core::LoadOp op, const Coords &coords, Value mask, Value other);
  /// Through the runtime when the instance's remote accesses are routed, else directly.
  Value emitRemoteLoad(Nest &nest, core::LoadOp op, const Coords &coords, Value mask, Value other);
  void emitRemoteStore(Nest &nest, core::StoreOp op, const Coords &coords, Value value,
                       Value mask);
  Value evaluateFirstLane(Nest &nest, Value tile, const Coords &coords);
  Value spillRemote(Value addresses, Value mask, Value &valueSlot, Value &maskSlot);
  /// The dimension along which the addresses of a tile are consecutive; else the last.
  int chooseLaneDim(Value pointers, ArrayRef<int64_t> shape);
  /// Loads that their only user evaluates itself, without a buffer between.
  bool isFusedLoad(core::LoadOp op);

  //===-- Tile operations (Reductions.cpp, Dot.cpp, Shape.cpp) ---------------------------------------------===//
  LogicalResult lowerReduce(core::ReduceOp op);
  LogicalResult lowerScan(core::ScanOp op);
  LogicalResult lowerDot(core::DotOp op);
  LogicalResult lowerReshape(core::ReshapeOp op);
  LogicalResult lowerJoin(core::JoinOp op);
  LogicalResult lowerSplit(core::SplitOp op);
  LogicalResult lowerCat(core::CatOp op);
  LogicalResult lowerGather(core::GatherOp op);

  //===-- Runtime (conversion of device operations and debugging: RuntimeCalls.cpp) --------------------------===//
  LogicalResult lowerDevice(Operation *op);
  LogicalResult lowerRank(Operation *op, int64_t axis, Field world, Api alongAxis);
  LogicalResult lowerPut(device::PutOp op);
  Value transferBytes(Value count, Type pointee);
  LogicalResult lowerAssert(core::AssertOp op);
  LogicalResult lowerCheckBounds(core::CheckBoundsOp op);
  void failUnless(Value condition, llvm::function_ref<void()> report);
  LogicalResult lowerPrint(core::PrintOp op);
  Value callApi(Api slot, Type result, ValueRange arguments);
  /// Stack memory for arguments of a call; calls share it by purpose and size.
  enum class Slot { Text, Shape, Remote };
  Value entryAlloca(Slot purpose, int64_t bytes);
  Value loadField(Field field, Type type, int64_t offset = 0);
  Value isRouted();
  Value site(Location loc); ///< i32
  Value constantText(StringRef text);
  void emitYield(Location loc);

  //===-- Small emitters ------------------------------------------------------------------------------------===//
  Value i64(int64_t value);
  Value i32(int64_t value);
  Value ptrAt(Value base, Value byteOffset);
  Value ptrAt(Value base, int64_t byteOffset);
  Value addI(Value a, Value b);
  Value mulI(Value a, Value b);
  /// Scalar type of the lowered program: pointers become !llvm.ptr.
  Type lowered(Type element) const;

  OpBuilder builder;
  Location loc; ///< of the current source operation
  CoreToVectorOptions options;
  Type ptrType;
  bool suspends = false, communicates = false;

private:
  Value evaluateHere(Nest &nest, Value tile, const Coords &coords);
  Value evaluateWideHere(Nest &nest, Value tile, const Coords &coords, Extend extend);
  Value evaluateAddPtr(Nest &nest, core::AddPtrOp op, const Coords &coords);
  std::optional<int64_t> hintedStride(Nest &nest, core::HintOp hint, const Coords &coords);
  LogicalResult prepareCarried(Operation *loop, ValueRange inits, SmallVectorImpl<Buffer> &tiles,
                               SmallVectorImpl<Value> &scalarInits);
  void bindCarried(ValueRange values, ArrayRef<Buffer> tiles, ValueRange lowered);
  FailureOr<SmallVector<Value>> finishRegion(ValueRange yielded, ArrayRef<Buffer> tiles);
  LogicalResult forwardTiles(scf::WhileOp op, SmallVectorImpl<Buffer> &tiles);
  void describe(func::FuncOp result);

  func::FuncOp kernel;
  Value instance, arguments, scratch;
  Block *entry = nullptr;
  BufferAllocator allocator;
  DenseMap<Value, Value> scalars;
  DenseMap<Value, Buffer> buffers;
  DenseMap<Value, int> expressionCosts;
  SmallVectorImpl<Wrap> *wraps = nullptr; ///< set during laneStrideBetweenWraps
  bool keepHalvesInF32 = false; ///< inside the combine region of a reduction of halves
  std::map<std::pair<int, int64_t>, Value> entrySlots;
  /// File, line, column of each site; its position is its number.
  std::vector<std::tuple<std::string, int64_t, int64_t>> sites;
};

} // namespace tilery::vec
