// RUN: %opt %s --split-input-file --verify-diagnostics --tilery-device-check-bounds

// A pointer made of an integer belongs to no argument; said once.
func.func @integer(%address: i64) attributes {core.check_bounds} {
  %p = core.int_to_ptr %address : i64 -> !core.ptr<f32>
  // expected-warning @below {{this access is not checked: its pointer is not traced to one of the kernel's arguments}}
  %v = core.load %p : !core.ptr<f32> -> f32
  core.store %p, %v : !core.ptr<f32>, f32
  return
}

// -----

func.func @shapes(%inside: tensor<4xi1>, %index: tensor<8xi64>, %count: i64) {
  // expected-error @below {{takes a condition and 64-bit indices of one shape, not 'tensor<4xi1>' and 'tensor<8xi64>'}}
  core.check_bounds %inside, %index of %count, "tl.load reads argument 'x'" : tensor<4xi1>, tensor<8xi64>
  return
}
