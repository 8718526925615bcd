// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Passes over core and device operations.
#ifndef TILERY_DEVICE_PASSES
#define TILERY_DEVICE_PASSES

include "mlir/Pass/PassBase.td"

def CheckBounds : Pass<"tilery-device-check-bounds", "::mlir::ModuleOp"> {
  let summary = "compare what a kernel accesses with the extents of its arguments";
  let description = [{
    In a kernel with the attribute `core.check_bounds` every load, store, atomic, transfer and
    use of a signal is compared with the memory of the argument that its pointer comes from, and
    every index of a gather with the extent that it indexes. Extents come in bytes behind the
    other arguments, those of the parameters in `core.extents`; -1 is an unknown one, which
    holds everything.

    ```mlir
    func.func @f(%x: !core.ptr<f32>, %i: i32) attributes {core.check_bounds, core.parameters = ["x", "i"]} {
      %p = core.addptr %x, %i : !core.ptr<f32>, i32
      %v = core.load %p : !core.ptr<f32> -> f32
    ```
    becomes
    ```mlir
    func.func @f(%x: !core.ptr<f32>, %i: i32, %extent: i64) attributes {..., core.extents = array<i32: 0>} {
      %p = core.addptr %x, %i : !core.ptr<f32>, i32
      ... // offset = address of %p - address of %x, inside = offset < extent - 3
      core.check_bounds %inside, %index of %count, "tl.load reads argument 'x'" : i1, i64
      %v = core.load %p : !core.ptr<f32> -> f32
    ```
    Memory of another rank is compared with this rank's, since symmetric objects have one size.
    Pointers that come from one of several arguments must be inside one of them. Pointers made of
    integers, and addresses on other ranks that are made in a branch and used behind it, are
    not checked, which is one warning.

    With the option `signals`, for targets on which no function of the runtime looks at them, other
    kernels have their signals and the symmetric ends of their transfers checked.

    Runs before everything that simplifies addresses, as the source says most about them; after
    the marking of polling loads, which looks at loops as they are written.
  }];
  let options = [Option<"signals", "signals", "bool", "false",
                        "check signals and symmetric ends of transfers in all kernels">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tilery::core::CoreDialect"];
}

def FindPeers : Pass<"tilery-device-find-peers", "::mlir::ModuleOp"> {
  let summary = "tell uses of registered memory on other ranks where it lies there";
  let description = [{
    Arguments with the attribute `device.registered` are symmetric memory that the user made: not at the
    distance of the heaps, but each at an address of its own. Of each that is used on other ranks the kernel
    gets a table of distances, whose address comes behind the other arguments, those of the parameters in
    `device.peers`.

    ```mlir
    func.func @f(%x: !device.symm<f32> {device.registered}, %rank: i32) {
      %p = device.symm_at %x, %rank : !device.symm<f32> -> !core.ptr<f32, remote>
    ```
    becomes
    ```mlir
    func.func @f(%x: !device.symm<f32> {device.registered}, %rank: i32, %peers: i64)
        attributes {device.peers = array<i32: 0>} {
      %p = device.symm_at %x, %rank peers %peers : !device.symm<f32> -> !core.ptr<f32, remote>
    ```
    A pointer that may come from several arguments, one of them registered, is refused.

    Runs for targets on which no function of the runtime finds the peers' addresses; with
    tilery-device-check-bounds, before everything that simplifies addresses, and after it, since hidden
    arguments of extents come first.
  }];
}

#endif // TILERY_DEVICE_PASSES
