// RUN: %opt %s -split-input-file -verify-diagnostics

func.func @range() {
  // expected-error @+1 {{from 0 to 8 does not have 16 elements}}
  %0 = core.range 0, 8 : tensor<16xi32>
  return
}

// -----

func.func @power_of_two() {
  // expected-error @+1 {{tile (static dimensions, each a power of two)}}
  %0 = core.range 0, 12 : tensor<12xi32>
  return
}

// -----

func.func @broadcast(%t: tensor<2x4xf32>) {
  // expected-error @+1 {{can repeat only extents of 1, but dimension 0 goes from 2 to 8}}
  %0 = core.broadcast %t : tensor<2x4xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @trans(%t: tensor<2x4xf32>) {
  // expected-error @+1 {{order must name each of the 2 dimensions once}}
  %0 = core.trans %t [1, 1] : tensor<2x4xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @load(%p: tensor<4x!core.ptr<f32>>) {
  // expected-error @+1 {{moves 'tensor<4xf32>', not 'tensor<4xi32>'}}
  %0 = core.load %p : tensor<4x!core.ptr<f32>> -> tensor<4xi32>
  return
}

// -----

func.func @mask(%p: tensor<4x!core.ptr<f32>>, %m: tensor<8xi1>) {
  // expected-error @+1 {{mask must be a tile of i1 of the pointer's shape}}
  %0 = core.load %p mask %m : tensor<4x!core.ptr<f32>>, tensor<8xi1> -> tensor<4xf32>
  return
}

// -----

func.func @dot(%a: tensor<4x8xf32>, %b: tensor<4x4xf32>, %c: tensor<4x4xf32>) {
  // expected-error @+1 {{inner extents differ: 8 and 4}}
  %0 = core.dot %a, %b, %c, ieee : tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  return
}

// -----

func.func @reduce(%t: tensor<4x8xf32>) {
  // expected-error @+1 {{axis 2 is outside a tile of 2 dimensions}}
  %0 = core.reduce %t axis 2 : tensor<4x8xf32> -> tensor<4xf32> {
  ^bb0(%x: f32, %y: f32):
    core.yield %x : f32
  }
  return
}

// -----

func.func @combine(%t: tensor<4x8xf32>) {
  // expected-error @+1 {{combine takes two elements of each source}}
  %0 = core.reduce %t axis 1 : tensor<4x8xf32> -> tensor<4xf32> {
  ^bb0(%x: f32):
    core.yield %x : f32
  }
  return
}

// -----

func.func @offset(%p: tensor<4x!core.ptr<f32>>, %o: tensor<4xf32>) {
  // expected-error @+1 {{offset must be an integer}}
  %0 = core.addptr %p, %o : tensor<4x!core.ptr<f32>>, tensor<4xf32>
  return
}

// -----

func.func @range_type() {
  // expected-error @+1 {{gives a one-dimensional tile of i32, not 'tensor<8xi64>'}}
  %0 = core.range 0, 8 : tensor<8xi64>
  return
}

// -----

func.func @broadcast_type(%t: tensor<1x4xf32>) {
  // expected-error @+1 {{keeps element type and number of dimensions, but goes from}}
  %0 = core.broadcast %t : tensor<1x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @expand_result(%t: tensor<4xf32>) {
  // expected-error @+1 {{result must be the source with an extent of 1 at axis 0}}
  %0 = core.expand_dims %t, 0 : tensor<4xf32> -> tensor<4x1xf32>
  return
}

// -----

func.func @trans_result(%t: tensor<2x4xf32>) {
  // expected-error @+1 {{result shape does not follow the order}}
  %0 = core.trans %t [1, 0] : tensor<2x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @cast_pointer(%p: tensor<4x!core.ptr<f32>>) {
  // expected-error @+1 {{changes only the element type}}
  %0 = core.ptr_cast %p : tensor<4x!core.ptr<f32>> -> tensor<8x!core.ptr<i32>>
  return
}

// -----

func.func @offset_shape(%p: tensor<4x!core.ptr<f32>>, %n: tensor<8xi32>) {
  // expected-error @+1 {{pointer and offset must have one shape, not}}
  %0 = core.addptr %p, %n : tensor<4x!core.ptr<f32>>, tensor<8xi32>
  return
}

// -----

func.func @split_result(%t: tensor<8x2xf32>) {
  // expected-error @+1 {{results must be the source without its last dimension}}
  %0:2 = core.split %t : tensor<8x2xf32> -> tensor<4xf32>
  return
}

// -----

func.func @cat_result(%t: tensor<8xf32>) {
  // expected-error @+1 {{result must have twice the extent along dimension 0}}
  %0 = core.cat %t, %t : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @gather_axis(%t: tensor<4x8xf32>, %i: tensor<8xi32>) {
  // expected-error @+1 {{needs an axis of the source and an index of equal rank}}
  %0 = core.gather %t[%i] 1 : tensor<4x8xf32>, tensor<8xi32> -> tensor<8xf32>
  return
}

// -----

func.func @gather_result(%t: tensor<4x8xf32>, %i: tensor<4x8xi32>) {
  // expected-error @+1 {{result has the index's shape and the source's element type}}
  %0 = core.gather %t[%i] 1 : tensor<4x8xf32>, tensor<4x8xi32> -> tensor<4x4xf32>
  return
}

// -----

func.func @gather_extents(%t: tensor<4x8xf32>, %i: tensor<2x8xi32>) {
  // expected-error @+1 {{source and index differ in dimension 0}}
  %0 = core.gather %t[%i] 1 : tensor<4x8xf32>, tensor<2x8xi32> -> tensor<2x8xf32>
  return
}

// -----

func.func @dot_types(%a: tensor<4x4xf32>, %b: tensor<4x4xf16>, %c: tensor<4x4xf32>) {
  // expected-error @+1 {{operands must have one element type, not}}
  %0 = core.dot %a, %b, %c, ieee : tensor<4x4xf32>, tensor<4x4xf16>, tensor<4x4xf32>
  return
}

// -----

func.func @dot_accumulator(%a: tensor<4x4xf32>, %c: tensor<8x4xf32>) {
  // expected-error @+1 {{accumulator must be 4x4}}
  %0 = core.dot %a, %a, %c, ieee : tensor<4x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @dot_batch(%a: tensor<2x4x4xf32>, %b: tensor<4x4x4xf32>, %c: tensor<2x4x4xf32>) {
  // expected-error @+1 {{op batch extents differ}}
  %0 = core.dot %a, %b, %c, ieee : tensor<2x4x4xf32>, tensor<4x4x4xf32>, tensor<2x4x4xf32>
  return
}

// -----

func.func @reduce_sources(%a: tensor<4xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{op sources must have one shape}}
  %0:2 = core.reduce %a, %b axis 0 : tensor<4xf32>, tensor<8xf32> -> f32, f32 {
  ^bb0(%x: f32, %y: f32, %z: f32, %w: f32):
    core.yield %x, %y : f32, f32
  }
  return
}

// -----

func.func @reduce_result(%a: tensor<4x2xf32>) {
  // expected-error @+1 {{result must be the source without axis 0}}
  %0 = core.reduce %a axis 0 : tensor<4x2xf32> -> tensor<4xf32> {
  ^bb0(%x: f32, %y: f32):
    core.yield %x : f32
  }
  return
}

// -----

func.func @reduce_results(%a: tensor<4xf32>) {
  // expected-error @+1 {{gives one result for each source}}
  %0:2 = core.reduce %a axis 0 : tensor<4xf32> -> f32, f32 {
  ^bb0(%x: f32, %y: f32):
    core.yield %x : f32
  }
  return
}

// -----

func.func @scan_result(%a: tensor<4xf32>) {
  // expected-error @+1 {{result must have the source's type}}
  %0 = core.scan %a axis 0 : tensor<4xf32> -> tensor<8xf32> {
  ^bb0(%x: f32, %y: f32):
    core.yield %x : f32
  }
  return
}

// -----

func.func @other_type(%p: tensor<4x!core.ptr<f32>>, %m: tensor<4xi1>, %o: tensor<4xi32>) {
  // expected-error @+1 {{`other` must have the result's type}}
  %0 = core.load %p mask %m other %o : tensor<4x!core.ptr<f32>>, tensor<4xi1>, tensor<4xi32> -> tensor<4xf32>
  return
}
