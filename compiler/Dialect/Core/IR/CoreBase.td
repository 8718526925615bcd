// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The core dialect, its types and operand constraints: small static tiles (ranked tensors)
// inside one program instance.
#ifndef TILERY_CORE_BASE
#define TILERY_CORE_BASE

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferIntRangeInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "compiler/Dialect/Core/IR/CoreEnums.td"

def Core_Dialect : Dialect {
  let name = "core";
  let cppNamespace = "::tilery::core";
  let summary = "tiles inside one program instance";
  let description = [{
    A kernel is a `func.func` with the unit attribute `core.kernel`. Tiles have static shapes
    whose dimensions are powers of two. A program instance is sequential: memory operations
    on overlapping addresses take effect in program order.
  }];
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

//===-- Types ------------------------------------------------------------------------===//

def Core_PointerType : TypeDef<Core_Dialect, "Pointer"> {
  let mnemonic = "ptr";
  let summary = "address of an element in memory that this program instance can reach";
  let description = [{
    `!core.ptr<f32>` is local memory; `!core.ptr<f32, remote>` is memory of another rank, made
    by `device.symm_at`. A remote pointer cannot be translated again.
  }];
  let parameters = (ins "::mlir::Type":$pointee, DefaultValuedParameter<"bool", "false">:$remote);
  let hasCustomAssemblyFormat = 1;
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$pointee,
      CArg<"bool", "false">:$remote), [{
    return $_get(pointee.getContext(), pointee, remote);
  }]>];
  let skipDefaultBuilders = 1;
}

//===-- Operand types -------------------------------------------------------------------===//

// A pointer of any level (core or device), through the interface-free check in Core.h.
def Core_AnyPointer : Type<CPred<"::tilery::core::isPointerLike($_self)">, "pointer">;
def Core_PointerLike : Type<CPred<"::tilery::core::isPointerLike("
    "::mlir::getElementTypeOrSelf($_self))">, "pointer or tile of pointers">;
def Core_LocalOrRemotePointer : Type<CPred<"::mlir::isa<::tilery::core::PointerType>("
    "::mlir::getElementTypeOrSelf($_self))">, "core pointer or tile of core pointers">;
def Core_Tile : Type<CPred<"::tilery::core::isTile($_self)">,
    "tile (static dimensions, each a power of two)">;
def Core_TileOrScalar : Type<CPred<"::tilery::core::isTile($_self) || "
    "::tilery::core::isTileElement($_self)">, "tile or scalar">;

#endif
