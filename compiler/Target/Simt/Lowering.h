// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The state of lowering one kernel to threads, shared by the files of this folder.
//
// A tile is a list of scalars, one for each register of its layout. Scalars of the source are the
// same on all threads of a program instance, and so is control flow.
#pragma once

#include "compiler/Dialect/Device/IR/Device.h"
#include "compiler/Target/Simt/AxisInfo.h"
#include "compiler/Target/Simt/Passes.h"
#include "compiler/Target/Simt/RingMemory.h"
#include "compiler/Target/Simt/RowStage.h"
#include "compiler/Target/Simt/SharedMemory.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <tuple>
#include <vector>

namespace tilery::simt {

using namespace mlir;
using Elements = SmallVector<Value>;

/// A tile in shared memory that is read by register, each access when a register of its is asked for.
struct SharedTile {
  Value base;
  LinearLayout offsets; ///< in bytes, of this thread's registers
  Type stored;
  std::optional<MatrixRows> matrices = std::nullopt;
  Elements list = {}; ///< null: not read yet
};

/// Registers are given and taken by groups of four warps: one brings operands, the others may send.
constexpr unsigned producerWarps = 4, senderWarps = producerWarps - 1;

class Lowering {
public:
  Lowering(func::FuncOp kernel, const Machine &machine, unsigned numWarps, bool timeline);

  /// Replaces the kernel by an LLVM function of the same name.
  LogicalResult run();

private:
  //===-- Control (LowerTiles.cpp, LowerControlFlow.cpp) ---------------------------------===//
  LogicalResult lowerBlock(Block &block);
  LogicalResult lowerOp(Operation *op);
  LogicalResult lowerFor(scf::ForOp op);
  LogicalResult lowerIf(scf::IfOp op);
  LogicalResult lowerWhile(scf::WhileOp op);
  void defineArguments();
  void describe();

  //===-- Values ---------------------------------------------------------------------------===//
  const Elements &elements(Value value);
  Value scalar(Value value) { return elements(value)[0]; }
  void define(Value value, Elements list) { values[value] = std::move(list); }
  SmallVector<Type> loweredTypes(TypeRange types); ///< of all registers
  Elements flattened(ValueRange list);
  /// Binds `list` (old values) to consecutive members of `flat`.
  void bind(ValueRange list, ValueRange flat);
  Type loweredElement(Type element);
  LinearLayout layoutOf(Value tile) { return LinearLayout::of(tile.getType()); }

  //===-- Elementwise (LowerElementwise.cpp) ---------------------------------------------------===//
  LogicalResult lowerElementwise(Operation *op);
  /// One operation on scalars.
  Elements emitScalar(Operation *op, ValueRange operands);
  Value emitAddPtr(Type pointee, Value pointer, Value offset);
  Elements emitCombine(Region &combine, ValueRange arguments);
  static bool isHalf(Type element); ///< of 16 bits or fewer, which are computed in fp32
  /// `element`: the language's type; an fp8 is an i8 here.
  Value toF32(Value value, Type element);
  Value fromF32(Value wide, Type element);
  Value emitFp8Cast(Value value, Type from, Type to);
  LogicalResult lowerExtendedProduct(arith::MulUIExtendedOp op);
  /// A partial result, which is fp32 when `element` is a half.
  Value fromF32Or(Value value, Type element) {
    return value.getType() == loweredElement(element) ? value : fromF32(value, element);
  }
  Elements truncateAll(ValueRange wide, Type element); ///< in pairs where that is one instruction

  //===-- Shapes (LowerShapes.cpp) -----------------------------------------------------------------===//
  LogicalResult lowerShape(Operation *op);
  LogicalResult lowerRange(core::RangeOp op);
  LogicalResult lowerConstant(arith::ConstantOp op);
  Value emitConstant(TypedAttr value);
  LogicalResult lowerBroadcast(core::BroadcastOp op);
  /// The result's registers in the order of the source's, by the elements that they hold.
  LogicalResult lowerMove(Operation *op, ArrayRef<int32_t> images);
  LogicalResult lowerGather(core::GatherOp op);

  //===-- Positions ------------------------------------------------------------------------------------===//
  Value thread();   ///< i32 within the program instance
  Value lane();
  Value warp();
  /// The XOR of the bases of this thread's lane and warp: i32.
  Value threadPart(const LinearLayout &layout);
  /// The index of the element in register r: i32.
  Value elementIndex(const LinearLayout &layout, unsigned r);
  /// True on one of the threads that hold the same elements; null when there are no copies.
  Value isFirstCopy(const LinearLayout &layout);
  Value isFirstThread();
  Value selectBases(Value number, ArrayRef<int32_t> bases);

  //===-- Layout conversions (LowerConvert.cpp) ------------------------------------------------------------===//
  LogicalResult lowerConvert(ConvertLayoutOp op);
  FailureOr<Elements> convert(ValueRange source, RankedTensorType type, const LinearLayout &from,
                              const LinearLayout &to);
  FailureOr<Elements> convertByMemory(ValueRange source, RankedTensorType type,
                                      const LinearLayout &from, const LinearLayout &to);
  std::optional<Elements> convertInRegisters(ValueRange source, const LinearLayout &from,
                                             const LinearLayout &to);
  std::optional<Elements> convertByShuffles(ValueRange source, const LinearLayout &from,
                                            const LinearLayout &to);
  void exchange(MutableArrayRef<Value> registers, unsigned registerBit, unsigned laneBit);
  Value shuffleXor(Value value, unsigned mask); ///< any type up to 64 bits
  Value shuffleFrom(Value value, Value lane);

  //===-- Shared memory (LowerShared.cpp, LowerConvert.cpp) ------------------------------------------------------------------===//
  /// Room for `bytes` that no earlier use still reads.
  FailureOr<Value> scratch(int64_t bytes);
  /// Writes of all threads become visible, then reads may start.
  void scratchWritten();
  void scratchRead() { sharedBusy = true; }
  void barrier();
  Value sharedAddress(Value base, Value byteOffset);
  void storeShared(Value base, const LinearLayout &layout, ValueRange list, const Swizzle &swizzle);
  Elements loadShared(Value base, const LinearLayout &layout, Type element, const Swizzle &swizzle,
                      bool byMatrices = false);
  static unsigned vectorBytes(const LinearLayout &layout, unsigned elementBytes);
  static LinearLayout inBytes(const LinearLayout &layout, unsigned elementBytes,
                              const Swizzle &swizzle);
  /// None where the machine or the layout does not have them.
  std::optional<MatrixRows> matricesOf(const LinearLayout &offsets, unsigned elementBytes);
  Elements &loadAll(SharedTile &tile);
  Value loadRegister(SharedTile &tile, unsigned r);
  void loadMatrices(SharedTile &tile, unsigned r);
  void loadVector(SharedTile &tile, unsigned r);
  Value toStored(Value value);   ///< i1 as i8, pointers as i64
  Value fromStored(Value value, Type element);
  Type storedType(Type element);
  /// A scalar of the first thread on all threads.
  FailureOr<Value> fromFirstThread(Value value);

  //===-- Memory (LowerMemory.cpp, LowerAtomics.cpp) -----------------------------------------------------------===//
  LogicalResult lowerLoad(core::LoadOp op);
  LogicalResult lowerKeepWords(KeepWordsOp op);
  LogicalResult lowerScalarLoad(core::LoadOp op);
  LogicalResult lowerStore(core::StoreOp op);
  LogicalResult lowerAtomicRMW(core::AtomicRMWOp op);
  LogicalResult lowerAtomicCAS(core::AtomicCASOp op);
  Value emitFloatExtreme(core::AtomicRMWOp op, Value address, Value value);
  LogicalResult lowerAtomic(Operation *op, Value pointer, Value mask,
                            core::MemorySemantic semantic, core::MemoryScope scope,
                            llvm::function_ref<Value(Value address, unsigned r)> emit);
  /// In a loop that polls memory: fails the wait when it lasts too long or others have failed.
  /// A loop that polls: addresses of variables, how often it has, and since when (0: not known yet).
  struct Polling {
    Value tries, since; ///< i32, i64
  };
  void checkPolling(const Polling &polling);
  /// `emit`'s value where `condition` holds (always when null), else `otherwise`.
  Value emitIf(Value condition, Type type, llvm::function_ref<Value()> emit,
               llvm::function_ref<Value()> otherwise);
  void emitIf(Value condition, llvm::function_ref<void()> emit);
  unsigned accessWidth(Value pointer, Value mask, const LinearLayout &layout,
                       SmallVectorImpl<unsigned> &bits);
  void beforeLoad(Value pointer);
  void beforeStore(Value pointer);
  void ordered(); ///< a barrier was made: nothing before it is pending
  void enterLoop(Region &body);

  //===-- Reductions (LowerReduce.cpp, LowerScan.cpp) -----------------------------------------------------------===//
  LogicalResult lowerReduce(core::ReduceOp op);
  LogicalResult lowerScan(core::ScanOp op);
  FailureOr<SmallVector<Elements>> combineWarps(core::ReduceOp op, SmallVector<Elements> partial,
                                                const LinearLayout &layout);
  Elements combinePair(Region &combine, ValueRange left, ValueRange right);

  //===-- Products (LowerDot.cpp) ----------------------------------------------------------------------------------===//
  LogicalResult lowerDot(core::DotOp op);
  LogicalResult lowerMatrixDot(core::DotOp op, const MatrixInstruction &instruction);
  LogicalResult lowerSharedDot(core::DotOp op);
  /// A product's operand by register, read from shared memory when it is asked for.
  std::function<Value(unsigned)> operandRegisters(Value operand);

  //===-- Slots (LowerSlots.cpp) --------------------------------------------------------------------------------------------===//
  LogicalResult lowerAllocSlots(AllocSlotsOp op);
  LogicalResult lowerFreeSlots(FreeSlotsOp op);
  LogicalResult lowerCopySlot(CopySlotOp op);
  LogicalResult lowerAwaitCopies(AwaitCopiesOp op);
  LogicalResult lowerReadSlot(ReadSlotOp op);
  bool isReadByDot(ReadSlotOp op);
  SharedTile slotTile(ReadSlotOp op);
  Value slotStart(Value slots, Value slot);

  //===-- Roles and rings (LowerRoles.cpp) --------------------------------------------------------------------------------===//
  struct Ring : RingPlace {
    Value slot, phase; ///< variables of the role that is lowered now
  };
  void allocateRings();
  void initialiseRings();
  void startRings(bool producer);
  void advance(const Ring &ring);
  Value variable(Value initial); ///< address of an integer that LLVM turns into a register
  Value read(Value variable);
  Value sharedInteger();
  Value slotAddress(const Ring &ring, unsigned tile, Value slot);
  Value slotBarrier(const Ring &ring, Value slot, bool full);
  Value tensorMap(int32_t index);
  void findKernelMaps(bool producer);
  void awaitFilled(ArrayRef<int32_t> rings);
  Value failureToWatch();
  LogicalResult lowerRoles(RolesOp op);
  LogicalResult lowerMakeMap(MakeMapOp op);
  LogicalResult lowerProduce(ProduceOp op);
  LogicalResult lowerConsume(ConsumeOp op);
  LogicalResult lowerRelease(ReleaseOp op);
  LogicalResult lowerAsyncDot(AsyncDotOp op);
  LogicalResult lowerDotWait(DotWaitOp op);

  //===-- Results that leave by copies (LowerStores.cpp) --------------------------------------------------------------------===//
  void allocateStage();
  void beforeCopiedStore();
  bool mayBeStoredOtherwise(Value argument);
  LogicalResult lowerStoreTile(StoreTileOp op);
  LogicalResult lowerStoreRows(StoreRowsOp op);
  Elements storedRegisters(Value tile);
  Value storeElements(StoreTileOp op, ValueRange at, Value start, Value enabled);
  void storeElementsOfRow(StoreTileOp op, ValueRange at, Value start, Value row);
  void stageBox(ValueRange list, const RowStage &stage, int64_t box, Value start);
  void stageRows(ValueRange list, const RowStage &stage, int64_t first, int64_t staged);
  void sendStagedRows(StoreRowsOp op, const RowStage &stage, int64_t first);
  Value stageOfWarp(int64_t bytes);
  void awaitCopiedStores(); ///< until all of this thread's warp are complete

  //===-- Warps that carry rows to peers (LowerSenders.cpp) ---------------------------------------------------------------===//
  /// Rows in shared memory, and where each goes.
  struct StagedRows {
    Value source, bytes; ///< of the first row; of each, i32
    int64_t pitch, rows;
    SmallVector<std::pair<Value, Value>> destinations; ///< number of a row (i32), address (i64, 0: nowhere)
  };
  Value postOfWarp(Value warpNumber);
  Value postBarrier(Value post, bool full);
  void initialisePosts();
  void startPosts();
  void awaitPost();
  void post(ArrayRef<std::pair<int64_t, Value>> fields);
  void postRows(const StagedRows &staged);
  void endPosts();
  Value pauseOfRows(int64_t rows);
  void lowerSenders(Value number);
  Value carryPosts(Value first, Value phase);
  void carryRow(Value post, Value row);

  //===-- Ranks, checks, prints (LowerDevice.cpp, LowerDebug.cpp) ---------------------------------------------------===//
  LogicalResult lowerDevice(Operation *op);
  LogicalResult lowerPut(device::PutOp op);
  LogicalResult lowerGet(device::GetOp op);
  /// Of the same symmetric object on `rank`; of registered memory with its table of distances.
  Value distances(Value peers);
  Value peerAddress(Value local, Value rank, Value distances = {});
  void checkRank(Value rank);
  void fence(core::MemoryScope scope);
  void updateSignal(Value signal, Value rank, Value value, device::SignalUpdate update,
                    core::MemoryScope scope);
  struct SignalCondition {
    Value signal, count, value;
    device::Compare compare;
    core::MemoryScope scope;
  };
  void waitFor(const SignalCondition &condition);
  void waitBeforeCopies(const SignalCondition &condition);
  Value pollSignals(const SignalCondition &condition, bool together);
  Value isTurn(Value tries, int64_t every);
  Value isLate(Value since, llvm::function_ref<Value(Value)> agreed);
  void pauseAfter(Value tries);
  Value othersFailed(Value tries, llvm::function_ref<Value(Value)> agreed);
  Value failureKind();
  void copyBytes(Value destination, Value source, Value bytes);
  void barrierAll();
  Value rankAlong(int32_t axis, bool extent);

  //===-- Timeline (LowerTimeline.cpp) ------------------------------------------------------------------------------------===//
  // Nothing of this emits anything unless the kernel is compiled with a timeline.
  struct Event {
    int32_t kind; ///< tilery_gpu_event_kind
    Value begin, amount, peer; ///< i64, i64, i32; may be null
  };
  void beginInstanceEvent();
  void endInstanceEvent();
  void beginConsumerEvents();
  void beginProducerEvents(Region &producer);
  Value eventBegin(); ///< now; null without a timeline
  /// For a single thread of each role, the one that took a ticket at its begin.
  void recordEvent(const Event &event);
  void recordOnFirstThread(const Event &event);
  void recordWait(Value begin, Value tries, Value value, bool together);
  bool isTileLoop(scf::ForOp loop);
  void takeTicket(Value ring, Value variable);
  void takeFirstTickets(Value onlyThread, ArrayRef<Value> variables);
  Value eventVariable();

  LogicalResult lowerAssert(core::AssertOp op);
  LogicalResult lowerCheckBounds(core::CheckBoundsOp op);
  LogicalResult lowerPrint(core::PrintOp op);
  Value loadContext(int64_t offset, Type type);
  int32_t site(Location loc);
  int32_t message(StringRef text);
  /// Writes the failure record (once a launch) and ends the instance where `failed` holds.
  struct FailureValues {
    Value address, expected, seen; ///< i64, may be null
    int32_t compare = 0;
  };
  void failWhere(Value failed, int32_t kind, int32_t messageIndex, FailureValues details);
  void failUniformly(Value failed, int32_t kind, int32_t messageIndex, const FailureValues &details);
  void writeFailure(int32_t kind, int32_t messageIndex, const FailureValues &details);

  //===-- Small emitters -----------------------------------------------------------------------------------------------===//
  Value i32(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); }
  Value i64(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 64); }
  Value trueValue() { return arith::ConstantIntOp::create(b, loc, 1, 1); }
  Value falseValue() { return arith::ConstantIntOp::create(b, loc, 0, 1); }
  Value andI(Value x, Value y);
  Value zero(Type type);
  Value bitcast(Value value, Type type);
  Type integerOfBits(unsigned bits) { return b.getIntegerType(bits); }
  Type pointerType(unsigned space) { return LLVM::LLVMPointerType::get(b.getContext(), space); }
  Value byteOffset(Value pointer, Value offset); ///< offset: i32 or i64
  Value fieldOf(Value base, int64_t offset, Type type);

  func::FuncOp kernel;
  LLVM::LLVMFuncOp function;
  const Machine &machine;
  unsigned numWarps;
  bool timeline;
  OpBuilder b;
  Location loc; ///< of the current source operation
  AxisAnalysis axes;
  DenseMap<Value, Elements> values;
  Value threadValue, contextPointer, sharedBase;
  DenseMap<Attribute, Value> threadParts;

  int64_t sharedBytes = 0, ringBytes = 0;
  SmallVector<Ring> rings;
  Value kernelMaps;            ///< address of those that this instance makes; null: none
  int64_t kernelMapBytes = 0;  ///< of an instance
  int64_t mapStage = 0;        ///< where in shared memory the producer makes them
  int64_t stageOffset = 0;   ///< where results are staged in shared memory
  int64_t postOffset = 0, postStride = 0; ///< of the warps' post boxes; no stride: there are none
  Value postPhase, postTime; ///< addresses of variables; null where nothing is posted
  bool storesCopy = false;   ///< copies of results may be under way
  unsigned meetingThreads = 0; ///< at barriers; 0: all of the block
  unsigned extraWarps = 0;
  bool inProducer = false;
  bool inTileLoop = false;
  Value eventTicket, instanceTicket, instanceBegin; ///< addresses of variables
  Value brokenAddress; ///< of what is not 0 when this instance or another has failed; null if none can
  bool sharedBusy = false;      ///< threads may still read scratch memory
  /// Accesses of global memory since the last barrier.
  SmallVector<Value> pendingLoads, pendingStores;
  bool unknownLoads = false, unknownStores = false;

  bool keepHalvesInF32 = false; ///< inside the combine region of a reduction of halves
  bool canFail = false, communicates = false, suspends = false;
  std::vector<std::tuple<std::string, int64_t, int64_t>> sites;
  std::vector<std::string> messages;
};

} // namespace tilery::simt
