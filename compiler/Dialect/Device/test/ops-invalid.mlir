// RUN: %opt %s -split-input-file -verify-diagnostics

func.func @twice(%s: !core.ptr<f32, remote>, %r: i32) {
  // expected-error @+1 {{custom op 'device.symm_at' invalid kind of type specified}}
  %0 = device.symm_at %s, %r : !core.ptr<f32, remote> -> !core.ptr<f32, remote>
  return
}

// -----

func.func @not_remote(%s: !device.symm<f32>, %r: i32) {
  // expected-error @+1 {{gives a remote pointer, which cannot be translated again}}
  %0 = device.symm_at %s, %r : !device.symm<f32> -> !core.ptr<f32>
  return
}

// -----

func.func @element(%s: !device.symm<f32>, %p: !core.ptr<i32>, %n: i64, %r: i32) {
  // expected-error @+1 {{moves elements of one type, not 'f32' and 'i32'}}
  device.put %s, %p, %n, %r : !device.symm<f32>, !core.ptr<i32>
  return
}

// -----

func.func @remote_source(%s: !device.symm<f32>, %p: !core.ptr<f32, remote>, %n: i64, %r: i32) {
  // expected-error @+1 {{needs local memory on this rank's side, not a remote pointer}}
  device.put %s, %p, %n, %r : !device.symm<f32>, !core.ptr<f32, remote>
  return
}

// -----

func.func @local(%p: !core.ptr<f32>) {
  // expected-error @+1 {{takes a symmetric pointer, not '!core.ptr<f32>'}}
  %0 = device.local %p : !core.ptr<f32> -> !core.ptr<f32>
  return
}

// -----

func.func @local_element(%s: !device.symm<f32>) {
  // expected-error @+1 {{gives this rank's pointer to 'f32'}}
  %0 = device.local %s : !device.symm<f32> -> !core.ptr<i32>
  return
}

// -----

func.func @offset_element(%s: !device.symm<f32>, %n: i32) {
  // expected-error @+1 {{keeps the element type 'f32'}}
  %0 = device.symm_at %s, %n : !device.symm<f32> -> !core.ptr<i32, remote>
  return
}
