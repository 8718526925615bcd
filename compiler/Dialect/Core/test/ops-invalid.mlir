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
