// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Finds the stores of products' results that tensor maps describe; Passes.td says which.
#include "compiler/Dialect/Device/IR/Device.h"
#include "compiler/Target/Nvidia/KernelMaps.h"
#include "compiler/Target/Nvidia/Passes.h"
#include "compiler/Target/Nvidia/TensorMaps.h"
#include "compiler/Target/Simt/RingMemory.h"
#include "compiler/Target/Simt/RowStage.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tilery::simt;

namespace tilery::nvidia {
#define GEN_PASS_DEF_STORETILES
#include "compiler/Target/Nvidia/Passes.h.inc"

namespace {

class Tiles {
public:
  Tiles(func::FuncOp kernel, const StoreTilesOptions &options)
      : kernel(kernel), numWarps(options.numWarps), sharedBytes(options.sharedBytes),
        kernelMakesMaps(options.kernelMakesMaps) {}

  void run() {
    kernel.walk([&](AsyncDotOp dot) { products.push_back(core::shapeOf(dot.getType())); });
    if (products.empty())
      return;
    if (auto made = kernel->getAttrOfType<ArrayAttr>("simt.tensor_maps"))
      llvm::append_range(maps, made);
    sendsRows = kernel.walk([](device::SymmAtOp) { return WalkResult::interrupt(); }).wasInterrupted();
    SmallVector<core::StoreOp> stores;
    kernel.walk([&](core::StoreOp store) { stores.push_back(store); });
    llvm::for_each(stores, [&](core::StoreOp store) { convert(store); });
    Builder b(kernel.getContext());
    kernel->setAttr("simt.tensor_maps", b.getArrayAttr(maps));
    if (kernelMaps.empty())
      return;
    kernelMaps.emit();
    kernel->setAttr("simt.store_maps", b.getI32IntegerAttr(kernelMaps.count()));
  }

private:
  static constexpr unsigned mostMaps = 16; // that a launch has (runtime/launch/device_kernel.h)

  /// Boxes of each warp that shared memory has room for beside the rings, 0 when none.
  unsigned slotsFor(const RowStage &stage) {
    int64_t left = sharedBytes - ringMemory(kernel).bytes - RowStage::boxBytes; // to align them
    if (sendsRows)
      left -= (stage.bytesOfPost() + 16) * stage.warps();
    int64_t fitting = left / (RowStage::boxBytes * stage.warps());
    return unsigned(std::clamp<int64_t>(fitting, 0, stage.boxes()));
  }

  /// What is true or false for the whole tile, apart from the rest of the mask; both may become null.
  static void splitMask(OpBuilder &b, Value &mask, Value &condition) {
    if (!mask)
      return;
    Operation *op = mask.getDefiningOp();
    if (auto same = dyn_cast_or_null<core::SplatOp>(op)) {
      condition = condition ? arith::AndIOp::create(b, op->getLoc(), condition, same.getSource())
                            : same.getSource();
      mask = {};
    } else if (auto both = dyn_cast_or_null<arith::AndIOp>(op)) {
      Value lhs = both.getLhs(), rhs = both.getRhs();
      splitMask(b, lhs, condition);
      splitMask(b, rhs, condition);
      if (lhs != both.getLhs() || rhs != both.getRhs())
        mask = lhs && rhs ? arith::AndIOp::create(b, op->getLoc(), lhs, rhs).getResult()
                          : lhs ? lhs : rhs;
    }
  }

  /// The map's number; none when nobody can make it.
  std::optional<int32_t> mapOf(AffineAccess access, unsigned slots) {
    int64_t columns = 128 / (access.element.getIntOrFloatBitWidth() / 8);
    access.dims[1].box = RowStage::boxRows;
    auto box =
        BufferType::get(kernel.getContext(), {RowStage::boxRows, columns}, access.element, 1);
    if (access.maker == MadeBy::Kernel)
      return kernelMaps.addForStores(access, box, slots);
    Attribute map = tensorMapAttr(access, box);
    if (!map)
      return std::nullopt;
    auto known = llvm::find(maps, map);
    if (known == maps.end() && maps.size() == mostMaps)
      return std::nullopt;
    auto number = int32_t(known - maps.begin());
    if (known == maps.end())
      maps.push_back(map);
    return number;
  }

  /// The access with its map; none when it is of another kind.
  std::optional<std::pair<AffineAccess, int32_t>> placeOf(Value pointer, Value mask,
                                                          const RowStage &stage, unsigned slots) {
    for (MadeBy maker : {MadeBy::Launcher, MadeBy::Kernel}) {
      if (maker == MadeBy::Kernel && !kernelMakesMaps)
        break;
      auto access = affineAccess(pointer, mask, maker);
      bool fits = access && access->fastest == 1 &&
                  access->dims[0].kept % stage.boxColumns() == 0 &&
                  access->dims[1].kept % RowStage::boxRows == 0;
      if (auto map = fits ? mapOf(*access, slots) : std::nullopt)
        return std::make_pair(*access, *map);
    }
    return std::nullopt;
  }

  void convert(core::StoreOp store) {
    ArrayRef<int64_t> shape = core::shapeOf(store.getValue().getType());
    Type element = getElementTypeOrSelf(store.getValue());
    unsigned bytes = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() / 8 : 0;
    if (!llvm::is_contained(products, shape) || (bytes != 2 && bytes != 4))
      return;
    RowStage stage(shape, bytes, numWarps);
    unsigned slots = slotsFor(stage);
    if (stage.boxes() == 0 || slots == 0)
      return;
    OpBuilder b(store);
    Value mask = store.getMask(), condition;
    splitMask(b, mask, condition);
    auto place = placeOf(store.getPointer(), mask, stage, slots);
    if (!place)
      return;
    auto &[access, map] = *place;
    if (!condition)
      condition = arith::ConstantIntOp::create(b, store.getLoc(), 1, 1);
    SmallVector<Value> coordinates;
    for (const AccessDim &dim : access.dims)
      coordinates.push_back(emitStart(b, store.getLoc(), dim));
    // Bulk loads take coordinates below 0, bulk stores are an illegal instruction there (H200).
    MapOperands otherwise;
    if (llvm::any_of(access.dims, [](const AccessDim &dim) { return dim.startsBefore; }))
      otherwise = MapOperands::of(b, store.getLoc(), access);
    StoreTileOp::create(b, store.getLoc(), store.getValue(), uint32_t(map), slots,
                        access.dims[1].kept, access.dims[0].kept, condition, coordinates,
                        otherwise.base, otherwise.extents, otherwise.strides);
    store.erase();
  }

  func::FuncOp kernel;
  unsigned numWarps;
  int64_t sharedBytes;
  bool kernelMakesMaps;
  bool sendsRows = false; ///< perhaps: tilery-simt-store-rows comes later
  SmallVector<ArrayRef<int64_t>> products;
  SmallVector<Attribute> maps;
  KernelMaps kernelMaps;
};

struct StoreTiles : impl::StoreTilesBase<StoreTiles> {
  using StoreTilesBase::StoreTilesBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<func::FuncOp>())
      Tiles(kernel, {numWarps, sharedBytes, kernelMakesMaps}).run();
  }
};

} // namespace

} // namespace tilery::nvidia
