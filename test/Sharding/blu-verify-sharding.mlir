// RUN: bt-opt %s -blu-verify-sharding -split-input-file -verify-diagnostics

module attributes {blu.mesh = {dp = 4 : i64, tp = 2 : i64}} {
blu.step @fine program(eval) (
    %x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}, blu.sharding = {dims = [["dp", "tp"], []]}})
    -> (tensor<8x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %y = blu.exp %x {blu.sharding = [{dims = [["dp"], ["tp"]]}]} : tensor<8x4xf32>
  blu.return %y : tensor<8x4xf32>
}
}

// -----

module attributes {blu.mesh = {dp = 4 : i64}} {
blu.step @does_not_divide program(eval) (
    // expected-error @+1 {{input 'x': dim 0 of 6 does not divide by axis 'dp' of 4}}
    %x: tensor<6x4xf32> {blu.tensor = {name = "x", role = "input"}, blu.sharding = {dims = [["dp"], []]}})
    -> (tensor<6x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{'blu.exp' op dim 0 of 6 does not divide by axis 'dp' of 4}}
  %y = blu.exp %x {blu.sharding = [{dims = [["dp"], []]}]} : tensor<6x4xf32>
  blu.return %y : tensor<6x4xf32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @bad program(eval) (
    %x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{'blu.exp' op sharding uses axis 'dp' twice in one tensor}}
  %a = blu.exp %x {blu.sharding = [{dims = [["dp"], ["dp"]]}]} : tensor<8x4xf32>
  // expected-error @+1 {{'blu.exp' op sharding uses axis 'dp' twice in one tensor}}
  %b = blu.exp %a {blu.sharding = [{dims = [["dp"], []], partial = ["dp"]}]} : tensor<8x4xf32>
  // expected-error @+1 {{'blu.exp' op sharding uses axis 'tp', which the mesh lacks}}
  %c = blu.exp %b {blu.sharding = [{dims = [["tp"], []]}]} : tensor<8x4xf32>
  // expected-error @+1 {{'blu.exp' op sharding has 1 dims, expected 2}}
  %d = blu.exp %c {blu.sharding = [{dims = [["dp"]]}]} : tensor<8x4xf32>
  // expected-error @+1 {{'blu.exp' op attribute 'blu.sharding' has no entry for each result}}
  %e = blu.exp %d {blu.sharding = []} : tensor<8x4xf32>
  // expected-error @+1 {{'blu.exp' op attribute 'blu.sharding' is "dp", expected dims and partial}}
  %f = blu.exp %e {blu.sharding = ["dp"]} : tensor<8x4xf32>
  blu.return %f : tensor<8x4xf32>
}
}
