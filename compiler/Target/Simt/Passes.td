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
  let options = [Option<"numWarps", "num-warps", "unsigned", "4", "warps of a program instance">];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect",
                           "::mlir::math::MathDialect"];
}

#endif
