// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @slice_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.slice' op dim is 2, the input has rank 2}}
  %y = blu.slice %x dim = 2 start = 0 size = 1 : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @slice_C2(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.slice' op range of 3 from 2 does not lie within dim 1 of extent 4}}
  %y = blu.slice %x dim = 1 start = 2 size = 3 : (tensor<3x4xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @slice_C2_unknown_extent(%x: tensor<?xf32>) {
  // expected-error @+1 {{'blu.slice' op range of 0 from 1 does not lie within dim 0 of extent ?}}
  %y = blu.slice %x dim = 0 start = 1 size = 0 : (tensor<?xf32>) -> tensor<0xf32>
  return
}

// -----

func.func @slice_C2_overflow(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.slice' op range of 9223372036854775807 from 2 does not lie within dim 1 of extent 4}}
  %y = blu.slice %x dim = 1 start = 2 size = 9223372036854775807 : (tensor<3x4xf32>) -> tensor<3x3xf32>
  return
}
