// RUN: bt-opt %s --blurt-plan=report=%t.json -o /dev/null
// RUN: FileCheck %s --input-file=%t.json
// RUN: bt-opt %s --blurt-plan=report=%t.html -o /dev/null
// RUN: FileCheck %s --input-file=%t.html --check-prefix=HTML

// CHECK:      "peak_bytes": 768,
// CHECK-NEXT: "lower_bound": 768,
// CHECK-NEXT: "state_bytes": 256,
// CHECK-NEXT: "copies": 0,
// CHECK:      "entries": [
// CHECK:        "name": "eval",
// CHECK:      "owners": [
// CHECK:        "name": "w",
// CHECK-NEXT:   "category": "param",
// CHECK-NEXT:   "entry": "",
// CHECK:        "bytes": 256,
// CHECK-NEXT:   "offset": 0,
// CHECK:        "name": "x",
// CHECK-NEXT:   "category": "input",
// CHECK-NEXT:   "entry": "eval",
// CHECK-NEXT:   "location": "{{.*}}plan-report.mlir:[[#@LINE+31]]:{{[0-9]+}}",
// CHECK:        "name": "y",
// CHECK-NEXT:   "category": "output",
// CHECK:      "reserves": [],
// CHECK:      "kernels": [
// CHECK:        "name": "gemm",
// CHECK-NEXT:   "entry": "eval",
// CHECK-NEXT:   "count": 1
// CHECK:        "name": "scale",
// CHECK-NEXT:   "entry": "eval",
// CHECK-NEXT:   "count": 2
// CHECK:      "schedule": [
// CHECK:        "name": "gemm",
// CHECK-NEXT:   "entry": "eval",
// CHECK-NEXT:   "location": "{{.*}}plan-report.mlir:[[#@LINE+19]]:{{[0-9]+}}",
// CHECK-NEXT:   "position": [[#POSITION:]],
// CHECK-NEXT:   "depth": 0,
// CHECK-NEXT:   "count": 1
// CHECK:        "name": "scale",
// CHECK:        "position": [[#POSITION+1]],
// CHECK:      "collectives": []

// HTML:      <!doctype html>
// HTML-NOT:  {{http://|https://|src=|<link}}
// HTML:      const plan = {
// HTML-NEXT:   "peak_bytes": 768,
// HTML:      </script>
// HTML-NEXT: </body>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @eval(
    %w: tensor<8x8xf32> {blu.tensor = {name = "w", role = "param"}},
    %x: tensor<8x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8x8xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %a = blurt.gemm %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = blurt.group "scale" domain [8, 8] ins(%a [#id] : tensor<8x8xf32>) outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %c = blurt.group "scale" domain [8, 8] ins(%b [#id] : tensor<8x8xf32>) outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  return %c : tensor<8x8xf32>
}
