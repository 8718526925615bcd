// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes over the core dialect.
#ifndef TILERY_CORE_PASSES
#define TILERY_CORE_PASSES

include "mlir/Pass/PassBase.td"

def MarkPollingLoads : Pass<"tilery-core-mark-polling-loads"> {
  let summary = "make loads in the condition of a while loop volatile";
  let description = [{
    `while tl.load(flag) != 1: pass` waits for another program instance. To the simplifications
    a loop that only reads is dead code.

    ```mlir
    scf.while : () -> () {
      %v = core.load %flag : !core.ptr<i32> -> i32
    ```
    becomes
    ```mlir
    scf.while : () -> () {
      %v = core.load %flag {isVolatile} : !core.ptr<i32> -> i32
    ```
    Runs before everything else, since any canonicalisation may remove the loop.
  }];
}

def ScalarizeCarriedOffsets : Pass<"tilery-core-scalarize-carried-offsets"> {
  let summary = "carry a scalar offset instead of a tile of pointers or integers";
  let description = [{
    A loop that advances a tile of pointers by a uniform step, as Triton kernels do, hides
    from the target that the tile's addresses stay consecutive. The tile becomes its initial
    value plus a carried scalar.

    ```mlir
    %r = scf.for ... iter_args(%p = %init) -> (tensor<64x!core.ptr<f32>>) {
      %next = core.addptr %p, %step : tensor<64x!core.ptr<f32>>, tensor<64xi32>
      scf.yield %next
    }
    ```
    where `%step` is a splat of a scalar defined outside, becomes
    ```mlir
    %r = scf.for ... iter_args(%o = %zero) -> (i64) {
      %tile = core.splat %o
      %p = core.addptr %init, %tile
      %next = arith.addi %o, %scalarStep
      scf.yield %next
    }
    ```
    Runs after CSE, which makes steps comparable; before loop-invariant code motion, which
    then hoists what depends on the initial tile only. Leaves alone steps that are not the
    same for all elements, and steps that change from one iteration to the next are allowed
    when they are splats of a scalar computed in the loop.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def UnwrapIndices : Pass<"tilery-core-unwrap-indices"> {
  let summary = "a mask instead of indices that wrap around to stay inside of an array";
  let description = [{
    Triton's matrix product loads rows `(start + tl.arange(0, BLOCK)) % M`, so that no mask is needed, and
    stores those below M. The remainder hides that rows follow each other. Where elements that wrap around
    reach nothing but stores that leave them out, they need not be loaded.

    ```mlir
    %rows = arith.remsi %index, %M
    %x = core.load %base[%rows, ..]
    core.store %c[%index, ..], f(%x) mask %index < %M
    ```
    becomes
    ```mlir
    %x = core.load %base[%index, ..] mask %index < %M other 0
    core.store %c[%index, ..], f(%x) mask %index < %M
    ```
    The index must not be negative; sizes and divisors count as positive. Runs after CSE, which makes
    the indices of loads and stores one value, and after offsets that loops carry have become scalars.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // TILERY_CORE_PASSES
