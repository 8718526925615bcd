// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes shared by all machines of lanes and warps.
#ifndef TILERY_SIMT_PASSES
#define TILERY_SIMT_PASSES

include "mlir/Pass/PassBase.td"

def WidenOffsets : Pass<"tilery-simt-widen-offsets"> {
  let summary = "compute offsets of pointers in 64 bits";
  let description = [{
    An int32 offset must not wrap (language.md, section 2), and a 64-bit sum lets constant parts
    become immediate offsets of memory instructions.

    ```mlir
    %row = arith.muli %i, %stride : tensor<64xi32>
    %p = core.addptr %base, %row : tensor<64x!core.ptr<f32>>, tensor<64xi32>
    ```
    becomes
    ```mlir
    %wi = arith.extsi %i : tensor<64xi32> to tensor<64xi64>
    %ws = arith.extsi %stride : tensor<64xi32> to tensor<64xi64>
    %row = arith.muli %wi, %ws : tensor<64xi64>
    %p = core.addptr %base, %row : tensor<64x!core.ptr<f32>>, tensor<64xi64>
    ```
    Runs before layouts are assigned, which would have to treat the copies as well.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def AssignLayouts : Pass<"tilery-simt-assign-layouts"> {
  let summary = "give every tile a layout";
  let description = [{
    Anchors choose: memory accesses the layout in which neighbouring lanes touch neighbouring
    addresses, products the layout of the matrix instruction. From there layouts flow forwards;
    where two meet, the one that is dearer to change wins. Values that are cheap to compute again
    (ranges, constants, index arithmetic, broadcasts) have no layout of their own: each use gets them
    in the layout that it needs. `simt.convert_layout` stands where nothing else helps.

    ```mlir
    %x = core.load %p : tensor<64x!core.ptr<f32>> -> tensor<64xf32>
    ```
    becomes
    ```mlir
    %x = core.load %p : tensor<64x!core.ptr<f32>, #l> -> tensor<64xf32, #l>
    ```
    Runs after all passes that change tiles; before the conversion to the machine's code.
  }];
  let options = [Option<"numWarps", "num-warps", "unsigned", "4", "warps of a program instance">];
  let dependentDialects = ["::tilery::simt::SimtDialect"];
}

def StoreRows : Pass<"tilery-simt-store-rows"> {
  let summary = "results of products go to other ranks through shared memory, row by row";
  let description = [{
    In kernels with roles, a store of a product's result to another rank becomes `simt.store_rows` where
    each row is consecutive in memory, aligned to 16 bytes, and the mask takes away whole rows and ends of
    rows only. Warps that compute nothing carry them while the next tile is computed; stores would hold the
    warps of the product up at the rate of the link. No tensor map describes the memory of a rank that is known at run time only.

    ```mlir
    core.store %p, %v, %m : tensor<128x256x!core.ptr<bf16>>, tensor<128x256xbf16>, tensor<128x256xi1>
    ```
    becomes
    ```mlir
    simt.store_rows %starts, %v first %count mask %rows columns 128
        : tensor<128x!core.ptr<bf16>>, tensor<128x256xbf16>, tensor<128xi1>
    ```
    Runs after warps are specialised, which says how much shared memory is left, and before layouts are
    assigned.
  }];
  let options = [Option<"numWarps", "num-warps", "unsigned", "4", "warps of a program instance">];
  let dependentDialects = ["::tilery::simt::SimtDialect", "::mlir::arith::ArithDialect"];
}

def PipelineLoads : Pass<"tilery-simt-pipeline-loads", "::mlir::ModuleOp"> {
  let summary = "loads of products are copied to shared memory iterations ahead";
  let description = [{
    In an innermost loop, loads that only matrix products use (in a loop that says itself how many stages it
    wants, all loads of tiles) become copies to slots in shared memory,
    which threads start and do not wait for. With n stages there are n slots; iteration i waits for its
    own tile, meets the other threads once, and starts the copies of iteration i + n - 1 into the slot
    that iteration i - 1 has read. The first n - 1 copies are started before the loop. What addresses and
    masks need of the loop's values is computed ahead, by a second set of carried values.

    ```mlir
    scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) {
      %a = core.load %pa : ...
      %x = simt.convert_layout %a : ...
      %next = core.dot %x, %y, %sum, ieee : ...
    ```
    becomes
    ```mlir
    %slots = simt.alloc_slots : !simt.slots<2 of 128x64xbf16, 1, 3, 112>
    simt.copy_slot %slots[%zero] if %runs from %pa0 width 8 : ...
    simt.commit_copies
    scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero, %slot = %zero) {
      simt.await_copies 0
      simt.copy_slot %slots[%other] if %goesOn from %ahead width 8 : ...
      simt.commit_copies
      %x = simt.read_slot %slots[%slot] : ...
      %next = core.dot %x, %y, %sum, ieee : ...
    }
    simt.free_slots
    ```
    Where only one slot fits, an iteration copies its own tile and waits for it. What all iterations load again
    gets one slot, filled before the loop, where that leaves two for the others.

    Runs after layouts are assigned, which say how wide copies are and how products want operands.

    Leaves a load alone that others use too (unless the loop asks), that is volatile, whose mask fills with something else than
    0, whose accesses are narrower than the machine copies, whose address needs what the loop loads, or
    whose array the kernel may write; all loads of loops with atomics, assertions or barriers; and
    kernels with ranks, signals, checks, `while` loops that look at memory or roles.
  }];
  let options = [
    Option<"numStages", "num-stages", "unsigned", "3", "tiles in shared memory at a time">,
    Option<"mostStages", "most-stages", "unsigned", "16", "limit for loops that say how many">];
  let dependentDialects = ["::tilery::simt::SimtDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def RecomputeTiles : Pass<"tilery-simt-recompute-tiles"> {
  let summary = "read large tiles from slots again instead of keeping them in registers";
  let description = [{
    In loops over rows that fill most of an instance's registers, what is cheap to compute from a slot is
    computed again behind each reduction, and halves that were loaded before the loop stay packed, two a
    register, until they are used.

    ```mlir
    %x = simt.read_slot %slots[%i] : ... -> tensor<32768xbf16>
    %v = arith.extf %x : ...
    %sum = core.reduce %v axis 0 : ...
    %d = arith.subf %v, %mean : tensor<32768xf32>
    ```
    becomes
    ```mlir
    %x = simt.read_slot %slots[%i] : ... -> tensor<32768xbf16>
    %v = arith.extf %x : ...
    %sum = core.reduce %v axis 0 : ...
    %again = simt.read_slot %slots[%i] : ... -> tensor<32768xbf16>
    %w = arith.extf %again : ...
    %d = arith.subf %w, %mean : tensor<32768xf32>
    ```
    Runs after loads have become slots. Nothing may merge the copies again before tiles are lowered, whose
    barriers then keep them apart.
  }];
  let options = [Option<"numWarps", "num-warps", "unsigned", "4", "warps of a program instance">];
}

def LowerTiles : Pass<"tilery-simt-lower-tiles", "::mlir::ModuleOp"> {
  let summary = "from tiles with layouts to threads, registers and shared memory";
  let description = [{
    A tile becomes one value for each register of its layout. The result is an LLVM function whose
    control flow is still structured; arithmetic is `arith` on scalars.

    ```mlir
    %y = arith.addf %x, %x : tensor<64xf32, #simt.layout<registers = [1], ...>>
    ```
    becomes
    ```mlir
    %y0 = arith.addf %x0, %x0 : f32
    %y1 = arith.addf %x1, %x1 : f32
    ```
    Refuses tiles that need more shared memory than the machine has.
  }];
  let options = [Option<"numWarps", "num-warps", "unsigned", "4", "warps of a program instance">,
                 Option<"timeline", "timeline", "bool", "false", "write events (gpu_abi.h)">];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect",
                           "::mlir::math::MathDialect"];
}

#endif
