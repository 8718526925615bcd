// RUN: %opt %s --split-input-file --verify-diagnostics --tilery-device-find-peers

func.func @either(%heap: !device.symm<f32>, %x: !device.symm<f32> {device.registered}, %which: i1, %rank: i32)
    attributes {core.parameters = ["heap", "x", "which", "rank"]} {
  %p = arith.select %which, %heap, %x : !device.symm<f32>
  // expected-error @below {{dl.symm_at: the pointer comes from 'x' or from 'heap', which lie at different distances on other ranks, since 'x' is registered memory}}
  %q = device.symm_at %p, %rank : !device.symm<f32> -> !core.ptr<f32, remote>
  return
}
