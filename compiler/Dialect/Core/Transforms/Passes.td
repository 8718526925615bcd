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

#endif // TILERY_CORE_PASSES
