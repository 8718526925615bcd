// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes of NVIDIA GPUs.
#ifndef TILERY_NVIDIA_PASSES
#define TILERY_NVIDIA_PASSES

include "mlir/Pass/PassBase.td"

def SpecialiseWarps : Pass<"tilery-nvidia-specialise-warps", "::mlir::ModuleOp"> {
  let summary = "loops of products become producer and consumer warps";
  let description = [{
    Loads that only products use, and whose addresses and masks a tensor map describes, become bulk
    copies by one thread of warps of their own; the other warps multiply what has arrived. The two meet
    in rings of slots in shared memory. Loops that follow each other share a ring.

    ```mlir
    %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
      %a = core.load %ap mask %am : tensor<128x64x!core.ptr<bf16>>, ... -> tensor<128x64xbf16>
      %b = core.load %bp mask %bm : tensor<64x128x!core.ptr<bf16>>, ... -> tensor<64x128xbf16>
      %next = core.dot %a, %b, %sum, ieee : ...
      scf.yield %next : tensor<128x128xf32>
    }
    core.store %cp, %acc : ...
    ```
    becomes
    ```mlir
    simt.roles producer {
      scf.for %k = %c0 to %K step %c64 : i32 {
        simt.produce 0 maps [0, 1] ranks [2, 2] at %k, %row, %column, %k
      }
    } consumer {
      %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
        %a, %b = simt.consume 0 : !simt.buffer<128x64xbf16, 1>, !simt.buffer<64x128xbf16, 1>
        %next = simt.async_dot %a, %b, %sum : ...
        simt.dot_wait 1
        %later = arith.cmpi ne, %k, %c0 : i32
        scf.if %later { simt.release 0, 1 }
        scf.yield %next : tensor<128x128xf32>
      }
      %done = simt.dot_wait 0, %acc : ...
      %ran = arith.cmpi slt, %c0, %K : i32
      scf.if %ran { simt.release 0, 0 }
      core.store %cp, %done : ...
    }
    ```
    Runs after offsets are widened, so that they have one form. Runs before layouts are assigned: tiles
    that copies bring get none.

    Where the launcher does not know base, strides or extents, as those of a group that the kernel reads from
    memory, the producer makes the tensor map itself, in front of the loop that uses it (`simt.make_map`). Base
    and strides must then be promised to be multiples of 16 bytes, as tl.make_tensor_descriptor does.

    Leaves a kernel alone, which then runs as on older GPUs, when one of its products has an operand that
    copies cannot bring (a mask of another kind, rows that are not aligned to 16 bytes, an array that the
    kernel also writes) or of a type or shape that the instruction does not take, when shared memory does
    not hold two stages, or when the two roles would have to agree on more than slots: assertions, waits,
    `while` loops that look at memory.
  }];
  let options = [
    Option<"numWarps", "num-warps", "unsigned", "4", "warps of a program instance">,
    Option<"numStages", "num-stages", "unsigned", "3", "slots of a ring, where they fit">,
    Option<"sharedBytes", "shared-bytes", "int64_t", "232448", "shared memory of a program instance">,
    Option<"kernelMakesMaps", "kernel-makes-maps", "bool", "true",
           "the kernel makes tensor maps of what the launcher does not know">];
  let dependentDialects = ["::tilery::simt::SimtDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def StoreTiles : Pass<"tilery-nvidia-store-tiles", "::mlir::ModuleOp"> {
  let summary = "results of products leave through shared memory by bulk copies";
  let description = [{
    In kernels with roles, a store of a product's result becomes `simt.store_tile` where a tensor map
    describes it as it would a load: the mask cuts off what lies behind the array's end, and whole boxes of
    16 rows or 128 bytes of columns. What starts before the array leaves shared memory by its elements. The copies run while the
    next tile is computed, and neither exchanges between lanes nor registers for addresses are needed.

    ```mlir
    core.store %p, %v, %m : tensor<128x256x!core.ptr<bf16>>, tensor<128x256xbf16>, tensor<128x256xi1>
    ```
    becomes
    ```mlir
    simt.store_tile %v map 2 at %column, %row if %true slots 2 kept 0, 0 : tensor<128x256xbf16>
    ```
    Runs after warps are specialised, which says how much shared memory is left: without room for one box a
    warp, stores stay. Runs before layouts are assigned.
  }];
  let options = [
    Option<"numWarps", "num-warps", "unsigned", "4", "warps of a program instance">,
    Option<"sharedBytes", "shared-bytes", "int64_t", "232448", "shared memory of a program instance">,
    Option<"kernelMakesMaps", "kernel-makes-maps", "bool", "true",
           "the kernel makes tensor maps of what the launcher does not know">];
  let dependentDialects = ["::tilery::simt::SimtDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

#endif
