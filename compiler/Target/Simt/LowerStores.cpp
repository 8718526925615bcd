// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Products' results leave through shared memory. Each warp stages what it holds, a part at a time, and
// starts copies of it; nothing but the warp itself has to meet. The copies are waited for before the next
// barrier (barrier()), which stands before whatever may see what they wrote.
//
// Registers come as asyncDotLayout says: bit 0 the neighbour, bit 1 eight rows below, bit 2 eight columns
// further. Halves are written by four matrices of 8 x 8 at a time, of which lane 8m + r says where row r of
// matrix m goes; wider elements by pairs.
#include "compiler/Target/Simt/Accesses.h"
#include "compiler/Target/Simt/Lowering.h"

#include "llvm/Support/MathExtras.h"

namespace tilery::simt {

static RowStage stageOf(Value tile, unsigned numWarps) {
  return RowStage(core::shapeOf(tile.getType()),
                  getElementTypeOrSelf(tile).getIntOrFloatBitWidth() / 8, numWarps);
}

/// The argument that a tensor map describes; null for one that the kernel makes.
static Value argumentOfMap(func::FuncOp kernel, int32_t map) {
  if (map < 0)
    return {};
  auto maps = kernel->getAttrOfType<ArrayAttr>("simt.tensor_maps");
  auto number = cast<DictionaryAttr>(maps[size_t(map)]).getAs<IntegerAttr>("pointer");
  return kernel.getArgument(unsigned(number.getInt()));
}

// One place for all stores of a kernel, which take turns.
void Lowering::allocateStage() {
  int64_t most = 0;
  auto note = [&](const RowStage &stage, int64_t bytesOfWarp) {
    storesCopy = true;
    most = std::max(most, bytesOfWarp * stage.warps());
  };
  constexpr uint64_t alignment = 16;
  kernel.walk([&](StoreTileOp op) {
    note(stageOf(op.getValue(), numWarps), RowStage::boxBytes * op.getSlots());
  });
  kernel.walk([&](StoreRowsOp op) {
    RowStage stage = stageOf(op.getValue(), numWarps);
    note(stage, stage.bytesOfRows(int64_t(op.getColumns())));
    postStride = std::max(postStride, int64_t(llvm::alignTo(uint64_t(stage.bytesOfPost()), alignment)));
  });
  if (!storesCopy)
    return;
  stageOffset = int64_t(llvm::alignTo(uint64_t(ringBytes), RowStage::boxBytes));
  postOffset = int64_t(llvm::alignTo(uint64_t(stageOffset + most), alignment));
  sharedBytes = ringBytes = postOffset + postStride * numWarps;
}

void Lowering::awaitCopiedStores() {
  machine.awaitStores(b, loc);
  awaitPost();
}

Value Lowering::stageOfWarp(int64_t bytes) {
  Value offset = arith::MulIOp::create(b, loc, warp(), i32(bytes));
  return sharedAddress(sharedBase, arith::AddIOp::create(b, loc, offset, i32(stageOffset)));
}

void Lowering::beforeCopiedStore() {
  if (unknownStores || unknownLoads || !pendingLoads.empty() || !pendingStores.empty())
    barrier();
  unknownStores = true;
}

// Whether other stores than copies may write the array of an argument (null: of any).
bool Lowering::mayBeStoredOtherwise(Value argument) {
  return kernel
      .walk([&](Operation *op) {
        if (isa<device::PutOp, device::GetOp>(op))
          return WalkResult::interrupt();
        Value pointer;
        if (auto store = dyn_cast<core::StoreOp>(op); store)
          pointer = store.getPointer();
        else if (isa<core::AtomicRMWOp, core::AtomicCASOp>(op))
          pointer = op->getOperand(0);
        Value other = pointer ? argumentOf(pointer) : Value();
        return pointer && (!argument || !other || other == argument) ? WalkResult::interrupt()
                                                                     : WalkResult::advance();
      })
      .wasInterrupted();
}

Elements Lowering::storedRegisters(Value tile) {
  Elements list;
  for (Value value : elements(tile))
    list.push_back(toStored(value));
  return list;
}

static Value paired(OpBuilder &b, Location loc, Value low, Value high) {
  auto type = VectorType::get({2}, low.getType());
  Value pair = LLVM::PoisonOp::create(b, loc, type);
  for (int64_t i : {0, 1})
    pair = LLVM::InsertElementOp::create(b, loc, pair, i ? high : low,
                                         arith::ConstantIntOp::create(b, loc, i, 32));
  return pair;
}

// The four matrices from register `first` on, as words.
static Elements matrixWords(OpBuilder &b, Location loc, ValueRange list, unsigned first) {
  Elements words;
  for (unsigned r = first; r < first + 8; r += 2)
    words.push_back(LLVM::BitcastOp::create(b, loc, b.getI32Type(),
                                            paired(b, loc, list[r], list[r + 1])));
  return words;
}

//===-- Boxes ----------------------------------------------------------------------------------------===//

LogicalResult Lowering::lowerStoreTile(StoreTileOp op) {
  beforeCopiedStore();
  awaitPost(); // what is staged for it
  RowStage stage = stageOf(op.getValue(), numWarps);
  Elements list = storedRegisters(op.getValue());
  Value ofWarp = stageOfWarp(RowStage::boxBytes * op.getSlots());
  int32_t width = int32_t(stage.width);
  SmallVector<int32_t> rowBases, columnBases;
  for (int32_t base : stage.tile.warps) {
    rowBases.push_back(base / width);
    columnBases.push_back(base % width);
  }
  Value warpRow = selectBases(warp(), rowBases), warpColumn = selectBases(warp(), columnBases);
  bool dividesColumns = stage.columns < stage.width;
  int64_t keptRows = int64_t(op.getKeptRows()), keptColumns = int64_t(op.getKeptColumns());
  bool stored = mayBeStoredOtherwise(argumentOfMap(kernel, int32_t(op.getMap())));
  unsigned started = 0;
  for (int64_t box = 0; box < stage.boxes(); ++box) {
    auto [row, column] = stage.boxStart(box);
    if (keptColumns && !dividesColumns && column >= keptColumns)
      continue;
    Value rowInTile = arith::AddIOp::create(b, loc, warpRow, i32(row));
    Value columnInTile = arith::AddIOp::create(b, loc, warpColumn, i32(column));
    Value enabled = scalar(op.getEnabled());
    auto within = [&](Value index, int64_t kept) {
      enabled = andI(enabled, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, i32(kept)));
    };
    if (keptRows)
      within(rowInTile, keptRows);
    if (keptColumns && dividesColumns)
      within(columnInTile, keptColumns);
    unsigned slot = started % op.getSlots();
    if (started == 0 || started >= op.getSlots())
      machine.awaitStage(b, loc, started == 0 ? 0 : op.getSlots() - 1);
    Value start = sharedAddress(ofWarp, i32(int64_t(slot) * RowStage::boxBytes));
    stageBox(list, stage, box, start);
    machine.publishStage(b, loc, stored);
    Elements at;
    for (Value coordinate : op.getCoordinates())
      at.push_back(scalar(coordinate));
    at[0] = arith::AddIOp::create(b, loc, at[0], columnInTile);
    at[1] = arith::AddIOp::create(b, loc, at[1], rowInTile);
    if (op.getBase())
      enabled = storeElements(op, at, start, enabled);
    machine.storeBox(b, loc, tensorMap(int32_t(op.getMap())), at, start, enabled);
    machine.commitStores(b, loc);
    ++started;
  }
  return success();
}

// A box that starts before the array, of which no copy can be made: each lane stores its columns of
// all rows. Gives whether the box is still to be copied.
Value Lowering::storeElements(StoreTileOp op, ValueRange at, Value start, Value enabled) {
  Value zero = i32(0);
  Value lowest = arith::MinSIOp::create(b, loc, at[0], at[1]);
  auto compare = [&](arith::CmpIPredicate predicate, Value lhs, Value rhs) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, lhs, rhs);
  };
  emitIf(andI(enabled, compare(arith::CmpIPredicate::slt, lowest, zero)), [&] {
    auto rows = scf::ForOp::create(b, loc, zero, i32(RowStage::boxRows), i32(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rows.getBody());
    storeElementsOfRow(op, at, start, rows.getInductionVar());
    b.setInsertionPointAfter(rows);
    machine.publishStage(b, loc, /*global=*/true); // before copies behind the next barrier
  });
  return andI(enabled, compare(arith::CmpIPredicate::sge, lowest, zero));
}

void Lowering::storeElementsOfRow(StoreTileOp op, ValueRange at, Value start, Value row) {
  Type element = getElementTypeOrSelf(op.getValue());
  int64_t bytes = element.getIntOrFloatBitWidth() / 8, lanes = int64_t(1) << machine.laneBits();
  auto wide = [&](Value value) -> Value {
    return value.getType().isInteger(64)
               ? value
               : arith::ExtSIOp::create(b, loc, b.getI64Type(), value).getResult();
  };
  auto isInside = [&](Value index, Value extent) -> Value { // below 0 is far outside
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, wide(index),
                                 wide(scalar(extent)));
  };
  Value y = arith::AddIOp::create(b, loc, at[1], row);
  Value insideRow = isInside(y, op.getExtents()[1]);
  Value rowStart = arith::MulIOp::create(b, loc, wide(y), scalar(op.getStrides()[0]));
  for (auto [stride, index] : llvm::zip(op.getStrides().drop_front(), at.drop_front(2)))
    rowStart = arith::AddIOp::create(b, loc, rowStart,
                                     arith::MulIOp::create(b, loc, wide(index), scalar(stride)));
  Value swizzle = arith::AndIOp::create(b, loc, row, i32(7));
  for (int64_t first = 0; first < 128 / bytes; first += lanes) {
    Value column = arith::AddIOp::create(b, loc, lane(), i32(first));
    Value inRow = arith::MulIOp::create(b, loc, column, i32(bytes));
    Value chunk =
        arith::XOrIOp::create(b, loc, inRow, arith::MulIOp::create(b, loc, swizzle, i32(16)));
    Value place =
        arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, row, i32(128)), chunk);
    Value x = arith::AddIOp::create(b, loc, at[0], column);
    emitIf(andI(insideRow, isInside(x, op.getExtents()[0])), [&] {
      Type word = integerOfBits(unsigned(bytes) * 8);
      Value bits = LLVM::LoadOp::create(b, loc, word, sharedAddress(start, place));
      Value offset = arith::MulIOp::create(b, loc, wide(x), i64(bytes));
      offset = arith::AddIOp::create(b, loc, offset, rowStart);
      LLVM::StoreOp::create(b, loc, bits, byteOffset(scalar(op.getBase()), offset),
                            unsigned(bytes));
    });
  }
}

// The 16 bytes with number c of row r lie at number c ^ (r % 8), as copies expect them ("Swizzling Modes"
// in the PTX ISA).
void Lowering::stageBox(ValueRange list, const RowStage &stage, int64_t box, Value start) {
  bool isHalf = stage.elementBytes == 2;
  auto bits = [&](unsigned shift, int64_t mask) -> Value {
    return arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, lane(), i32(shift)), i32(mask));
  };
  // Halves: this lane's row of the matrices, and which of two columns of matrices. Else: its row, and
  // which half of a matrix, of which a row is 32 bytes.
  Value row = isHalf ? bits(0, 15) : bits(2, 7), chunk = isHalf ? bits(4, 1) : bits(1, 1);
  Value swizzled = arith::XOrIOp::create(b, loc, chunk, arith::AndIOp::create(b, loc, row, i32(7)));
  Value offset = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, row, i32(128)),
                                       arith::MulIOp::create(b, loc, swizzled, i32(16)));
  if (!isHalf)
    offset = arith::AddIOp::create(b, loc, offset, arith::MulIOp::create(b, loc, bits(0, 1), i32(8)));
  auto placed = [&](int64_t chunkOf, int64_t below) { // starts at an even chunk
    Value moved = arith::XOrIOp::create(b, loc, offset, i32(chunkOf * 16));
    return sharedAddress(start, arith::AddIOp::create(b, loc, moved, i32(below * 128)));
  };
  for (unsigned r = 0; r < stage.tile.numRegisters(); r += isHalf ? 8 : 2) {
    int32_t element = stage.tile.ofRegister(r);
    int64_t own = stage.ownRow(element), column = element % stage.width;
    int64_t across = stage.columns / stage.boxColumns();
    if (own / RowStage::boxRows * across + column / stage.boxColumns() != box)
      continue;
    int64_t chunkOf = column % stage.boxColumns() * stage.elementBytes / 16;
    if (isHalf)
      machine.storeMatrices(b, loc, placed(chunkOf, 0), matrixWords(b, loc, list, r));
    else
      LLVM::StoreOp::create(b, loc, paired(b, loc, list[r], list[r + 1]),
                            placed(chunkOf, own % RowStage::boxRows), 8);
  }
}

//===-- Rows ------------------------------------------------------------------------------------------===//

LogicalResult Lowering::lowerStoreRows(StoreRowsOp op) {
  beforeCopiedStore();
  RowStage stage = stageOf(op.getValue(), numWarps);
  Elements list = storedRegisters(op.getValue());
  machine.awaitStage(b, loc, 0);
  for (int64_t first = 0; first < stage.columns; first += int64_t(op.getColumns())) {
    awaitPost();
    stageRows(list, stage, first, int64_t(op.getColumns()));
    sendStagedRows(op, stage, first);
  }
  return success();
}

void Lowering::stageRows(ValueRange list, const RowStage &stage, int64_t first, int64_t staged) {
  bool isHalf = stage.elementBytes == 2;
  int64_t pitch = stage.pitch(staged), bytes = stage.elementBytes;
  Value row = isHalf ? arith::AndIOp::create(b, loc, lane(), i32(15)).getResult()
                     : arith::ShRUIOp::create(b, loc, lane(), i32(2)).getResult();
  Value inRow = isHalf ? arith::MulIOp::create(b, loc, arith::ShRUIOp::create(b, loc, lane(), i32(4)),
                                               i32(16))
                       : arith::MulIOp::create(b, loc, arith::AndIOp::create(b, loc, lane(), i32(3)),
                                               i32(2 * bytes));
  Value offset = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, row, i32(pitch)), inRow);
  Value start = sharedAddress(stageOfWarp(stage.bytesOfRows(staged)), offset);
  for (unsigned r = 0; r < stage.tile.numRegisters(); r += isHalf ? 8 : 2) {
    int32_t element = stage.tile.ofRegister(r);
    int64_t column = element % stage.width - first;
    if (column < 0 || column >= staged)
      continue;
    Value place = sharedAddress(start, i32(stage.ownRow(element) * pitch + column * bytes));
    if (isHalf)
      machine.storeMatrices(b, loc, place, matrixWords(b, loc, list, r));
    else
      LLVM::StoreOp::create(b, loc, paired(b, loc, list[r], list[r + 1]), place, unsigned(2 * bytes));
  }
}

// `count` elements of the tile's row are stored; this warp has staged those from `before` on.
void Lowering::sendStagedRows(StoreRowsOp op, const RowStage &stage, int64_t first) {
  int64_t staged = int64_t(op.getColumns());
  SmallVector<int32_t> columns;
  for (int32_t base : stage.tile.warps)
    columns.push_back(int32_t(base % stage.width));
  Value before = arith::AddIOp::create(b, loc, selectBases(warp(), columns), i32(first));
  Value left = arith::SubIOp::create(b, loc, scalar(op.getCount()), before);
  left = arith::MinSIOp::create(b, loc, arith::MaxSIOp::create(b, loc, left, i32(0)), i32(staged));
  Value offset = arith::MulIOp::create(b, loc, before, i32(stage.elementBytes));
  StagedRows rows{stageOfWarp(stage.bytesOfRows(staged)),
                  arith::MulIOp::create(b, loc, left, i32(stage.elementBytes)),
                  stage.pitch(staged), stage.rowsOfWarp(), {}};
  int64_t inLanes = std::min<int64_t>(stage.rowsOfWarp(), int64_t(1) << machine.laneBits());
  Value row = arith::AndIOp::create(b, loc, lane(), i32(inLanes - 1));
  for (unsigned r = 0; r < stage.rows.numRegisters(); ++r) {
    Value start = byteOffset(elements(op.getRows())[r], offset);
    Value address = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), start);
    if (op.getMask())
      address = arith::SelectOp::create(b, loc, elements(op.getMask())[r], address, i64(0));
    rows.destinations.push_back({arith::AddIOp::create(b, loc, row, i32(int64_t(r) * inLanes)), address});
  }
  postRows(rows);
}

} // namespace tilery::simt
