// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The device dialect: ranks, symmetric memory and signals.
// Every primitive carries what a protocol verifier needs: which signal, which index (through
// core.addptr), count, value, comparison, scope; no untyped integers.
#ifndef TILERY_DEVICE_OPS
#define TILERY_DEVICE_OPS

include "compiler/Dialect/Core/IR/CoreBase.td"
include "compiler/Dialect/Device/IR/DeviceEnums.td"

def Device_Dialect : Dialect {
  let name = "device";
  let cppNamespace = "::tilery::device";
  let summary = "communication between ranks";
  let description = [{
    Symmetric pointers and signals are types of their own, so that a peer's address cannot be
    translated twice and a signal cannot be waited on with the wrong operation.
  }];
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::tilery::core::CoreDialect"];
}

def Device_SymmType : TypeDef<Device_Dialect, "Symm"> {
  let mnemonic = "symm";
  let summary = "this rank's address of an element of a symmetric object";
  let parameters = (ins "::mlir::Type":$pointee);
  let assemblyFormat = "`<` $pointee `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$pointee), [{
    return $_get(pointee.getContext(), pointee);
  }]>];
}

def Device_SignalType : TypeDef<Device_Dialect, "Signal"> {
  let mnemonic = "signal";
  let summary = "this rank's 64-bit signal in symmetric memory";
}

class Device_Op<string mnemonic, list<Trait> traits = []> : Op<Device_Dialect, mnemonic, traits>;
// Synchronisation orders all memory of the program instance.
class Device_SyncOp<string mnemonic, list<Trait> traits = []>
    : Device_Op<mnemonic, !listconcat(traits, [MemoryEffects<[MemRead, MemWrite]>])>;

class Device_RankOp<string mnemonic> : Device_Op<mnemonic, [Pure]> {
  let arguments = (ins DefaultValuedAttr<I32Attr, "-1">:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}
def Device_RankIdOp : Device_RankOp<"rank"> {
  let summary = "this rank, in the world (axis -1) or along one axis of the mesh";
}
def Device_NumRanksOp : Device_RankOp<"num_ranks"> {
  let summary = "number of ranks, in the world (axis -1) or along one axis of the mesh";
}

def Device_LocalOp : Device_Op<"local", [Pure]> {
  let summary = "a symmetric pointer used as this rank's ordinary pointer";
  let arguments = (ins AnyType:$source);
  let results = (outs Core_LocalOrRemotePointer:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Device_SymmAtOp : Device_Op<"symm_at", [MemoryEffects<[MemRead]>]> {
  let summary = "address of the same symmetric object on another rank";
  let description = [{
    `peers`, here and in transfers: address of a table with the distance in bytes from this rank's object
    to that of each rank, which is not the one between their heaps (tilery-device-find-peers).
  }];
  let arguments = (ins Device_SymmType:$source, I32:$rank, Optional<I64>:$peers);
  let results = (outs Core_PointerType:$result);
  let assemblyFormat = "$source `,` $rank (`peers` $peers^)? attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Device_NotifyOp : Device_SyncOp<"notify"> {
  let summary = "release by the whole program instance, then one update of the signal on `rank`";
  let arguments = (ins Device_SignalType:$signal, I32:$rank, I64:$value,
                       Device_SignalOp:$update, Core_MemoryScope:$scope);
  let assemblyFormat = "$signal `,` $rank `,` $value `,` $update `,` $scope attr-dict";
}

def Device_WaitOp : Device_SyncOp<"wait"> {
  let summary = "wait until `count` consecutive signals compare true; acquire for the whole program instance";
  let arguments = (ins Device_SignalType:$signal, I64:$count, I64:$value,
                       Device_Compare:$compare, Core_MemoryScope:$scope);
  let assemblyFormat = "$signal `,` $count `,` $value `,` $compare `,` $scope attr-dict";
}

def Device_PutOp : Device_SyncOp<"put", [AttrSizedOperandSegments]> {
  let summary = "copy `count` elements to `destination` on `rank`, then update the signal if there is one";
  let description = "Data is delivered before the signal; a count of 0 still signals.";
  let arguments = (ins Device_SymmType:$destination, Core_PointerType:$source, I64:$count, I32:$rank,
                       Optional<Device_SignalType>:$signal, Optional<I64>:$value, Optional<I64>:$peers,
                       DefaultValuedAttr<Device_SignalOp, "::tilery::device::SignalUpdate::Set">:$update,
                       UnitAttr:$nonblocking);
  let assemblyFormat = [{
    $destination `,` $source `,` $count `,` $rank (`signal` $signal^ `,` $value)? (`peers` $peers^)? attr-dict
    `:` type($destination) `,` type($source)
  }];
  let hasVerifier = 1;
}
def Device_GetOp : Device_SyncOp<"get"> {
  let summary = "copy `count` elements from `source` on `rank` to local memory";
  let arguments = (ins Core_PointerType:$destination, Device_SymmType:$source, I64:$count, I32:$rank,
                       Optional<I64>:$peers, UnitAttr:$nonblocking);
  let assemblyFormat = "$destination `,` $source `,` $count `,` $rank (`peers` $peers^)? attr-dict `:` type($destination) `,` type($source)";
  let hasVerifier = 1;
}

class Device_OrderOp<string mnemonic, string text> : Device_SyncOp<mnemonic> {
  let summary = text;
  let assemblyFormat = "attr-dict";
}
def Device_FenceOp : Device_OrderOp<"fence", "order this instance's puts to each rank">;
def Device_QuietOp : Device_OrderOp<"quiet", "complete all of this instance's puts">;
def Device_BarrierAllOp : Device_OrderOp<"barrier_all", "quiet, then meet one program instance of every rank">;
def Device_SyncAllOp : Device_OrderOp<"sync_all", "meet one program instance of every rank">;

#endif
