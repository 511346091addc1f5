//===- FuseCases.cpp - steps that conversion and fusion are tried on ------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "FuseCases.h"

using namespace blutrain::test;

/// `%r0 = blu.OP %a0, %a1 : (…) -> …`
static FuseCase binary(const std::string &op, const std::string &a,
                       const std::string &b, const std::string &result) {
  return {op + "_" + a + "_" + b,
          {a, b},
          {result},
          "%r0 = blu." + op + " %a0, %a1 : (tensor<" + a + ">, tensor<" + b +
              ">) -> tensor<" + result + ">",
          -1,
          result.find("bf16") == std::string::npos ? 2e-6 : 1e-2};
}

/// `%r0 = blu.OP %a0 : type`
static FuseCase unary(const std::string &op, const std::string &type) {
  return {op + "_" + type,
          {type},
          {type},
          "%r0 = blu." + op + " %a0 : tensor<" + type + ">",
          1,
          type.find("bf16") == std::string::npos ? 2e-6 : 1e-2};
}

static std::string tensor(const std::string &type) {
  return "tensor<" + type + ">";
}

static FuseCase matmul(const std::string &a, const std::string &b,
                       const std::string &result,
                       const std::string &flags = "") {
  return {"matmul_" + a + "_" + b + flags,
          {a, b},
          {result},
          "%r0 = blu.matmul %a0, %a1 " + flags + " : (" + tensor(a) + ", " +
              tensor(b) + ") -> " + tensor(result),
          -1,
          result.find("bf16") == std::string::npos ? 4e-6 : 2e-2};
}

static FuseCase reduction(const std::string &op, const std::string &a,
                          const std::string &dims, const std::string &result) {
  return {op + "_" + a + dims,
          {a},
          {result},
          "%r0 = blu." + op + " %a0 " + dims + " : (" + tensor(a) + ") -> " +
              tensor(result),
          -1,
          result.find("bf16") == std::string::npos ? 1e-5 : 1e-2};
}

static void addElementwise(std::vector<FuseCase> &cases) {
  for (const char *op : {"add", "sub", "mul", "div", "maximum", "minimum"}) {
    cases.push_back(binary(op, "3x5xf32", "5xf32", "3x5xf32"));
    cases.push_back(binary(op, "3x1xf32", "1x7xf32", "3x7xf32"));
    cases.push_back(binary(op, "f32", "2x3xf32", "2x3xf32"));
    cases.push_back(binary(op, "f64", "f64", "f64"));
    cases.push_back(binary(op, "4xbf16", "4xbf16", "4xbf16"));
  }
  cases.push_back(binary("add", "1x1xf32", "1xf32", "1x1xf32"));
  cases.push_back(binary("sub", "2x1x3xi32", "2x1xi32", "2x2x3xi32"));
  for (const char *op :
       {"neg", "abs", "exp", "tanh", "sigmoid", "silu", "relu"})
    for (const char *type : {"3x1x7xf32", "f32", "5xf64", "2x3xbf16"})
      cases.push_back(unary(op, type));
  cases.push_back({"compare",
                   {"3x5xf32", "5xf32"},
                   {"3x5xi1"},
                   "%r0 = blu.compare gt %a0, %a1 : (tensor<3x5xf32>, "
                   "tensor<5xf32>) -> tensor<3x5xi1>"});
  cases.push_back({"select",
                   {"4xf32", "2x4xf32", "f32"},
                   {"2x4xf32"},
                   "%c = blu.compare lt %a0, %a2 : (tensor<4xf32>, "
                   "tensor<f32>) -> tensor<4xi1>\n"
                   "%r0 = blu.select %c, %a1, %a2 : (tensor<4xi1>, "
                   "tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>",
                   1});
  for (const char *kind : {"tanh", "erf"}) {
    std::string how = std::string(" approximate(") + kind + ") : ";
    cases.push_back({std::string("gelu_") + kind,
                     {"3x5xf32"},
                     {"3x5xf32"},
                     "%r0 = blu.gelu %a0" + how + "tensor<3x5xf32>",
                     1});
    cases.push_back({std::string("gelu_grad_") + kind,
                     {"3x5xf32", "3x5xf32"},
                     {"3x5xf32"},
                     "%r0 = blu.gelu_grad %a0, %a1" + how + "tensor<3x5xf32>",
                     1});
  }
  cases.push_back({"casts",
                   {"5xf32"},
                   {"5xbf16", "5xi32", "5xf64", "5xi1"},
                   "%r0 = blu.cast %a0 : tensor<5xf32> to tensor<5xbf16>\n"
                   "%r1 = blu.cast %a0 : tensor<5xf32> to tensor<5xi32>\n"
                   "%r2 = blu.cast %r0 : tensor<5xbf16> to tensor<5xf64>\n"
                   "%r3 = blu.cast %r1 : tensor<5xi32> to tensor<5xi1>",
                   1});
  cases.push_back({"constants",
                   {"2x3xf32"},
                   {"2x3xf32", "2xf32", "3xi64"},
                   "%c = blu.constant dense<0.5> : tensor<f32>\n"
                   "%r0 = blu.mul %a0, %c : (tensor<2x3xf32>, tensor<f32>) -> "
                   "tensor<2x3xf32>\n"
                   "%r1 = blu.constant dense<2.0> : tensor<2xf32>\n"
                   "%r2 = blu.constant dense<[4, -1, 7]> : tensor<3xi64>"});
}

static void addShape(std::vector<FuseCase> &cases) {
  cases.push_back({"broadcast",
                   {"3x1xf32"},
                   {"2x3x4xf32"},
                   "%r0 = blu.broadcast %a0 : (tensor<3x1xf32>) -> "
                   "tensor<2x3x4xf32>"});
  cases.push_back({"views",
                   {"2x3x4xf32"},
                   {"4x6xf32", "2x4xf32", "3x2x2xf32"},
                   "%t = blu.transpose %a0 [2, 0, 1] : (tensor<2x3x4xf32>) -> "
                   "tensor<4x2x3xf32>\n"
                   "%r0 = blu.reshape %t [4, 6] : (tensor<4x2x3xf32>) -> "
                   "tensor<4x6xf32>\n"
                   "%s = blu.slice %a0 dim = 1 start = 1 size = 1 : "
                   "(tensor<2x3x4xf32>) -> tensor<2x1x4xf32>\n"
                   "%r1 = blu.reshape %s [2, 4] : (tensor<2x1x4xf32>) -> "
                   "tensor<2x4xf32>\n"
                   "%p, %q = blu.split %a0 dim = 2 [2, 2] : "
                   "(tensor<2x3x4xf32>) -> (tensor<2x3x2xf32>, "
                   "tensor<2x3x2xf32>)\n"
                   "%r2 = blu.transpose %q [1, 0, 2] : (tensor<2x3x2xf32>) -> "
                   "tensor<3x2x2xf32>"});
  cases.push_back({"concat",
                   {"2x3xf32", "2x1xf32"},
                   {"2x4xf32"},
                   "%e = blu.exp %a0 : tensor<2x3xf32>\n"
                   "%r0 = blu.concat dim = 1 %e, %a1 : (tensor<2x3xf32>, "
                   "tensor<2x1xf32>) -> tensor<2x4xf32>",
                   1});
  cases.push_back({"positions",
                   {"2x5xi32", "i64"},
                   {"5xi32", "5xi32"},
                   "%r0 = blu.positions %a0 dim = 1 : (tensor<2x5xi32>) -> "
                   "tensor<5xi32>\n"
                   "%r1 = blu.positions %a0 at %a1 dim = 1 : (tensor<2x5xi32>, "
                   "tensor<i64>) -> tensor<5xi32>"});
  // Elementwise work through reshapes and transposes.
  cases.push_back({"chain_through_views",
                   {"6x4xf32", "4xf32"},
                   {"2x4x3xf32"},
                   "%b = blu.add %a0, %a1 : (tensor<6x4xf32>, tensor<4xf32>) "
                   "-> tensor<6x4xf32>\n"
                   "%v = blu.reshape %b [2, 3, 4] : (tensor<6x4xf32>) -> "
                   "tensor<2x3x4xf32>\n"
                   "%t = blu.transpose %v [0, 2, 1] : (tensor<2x3x4xf32>) -> "
                   "tensor<2x4x3xf32>\n"
                   "%r0 = blu.exp %t : tensor<2x4x3xf32>",
                   1});
  cases.push_back({"incompatible_reshape",
                   {"6x4xf32", "4xf32", "9xf32"},
                   {"4x6xf32"},
                   "%b = blu.exp %a0 : tensor<6x4xf32>\n"
                   "%c = blu.mul %b, %a1 : (tensor<6x4xf32>, tensor<4xf32>) -> "
                   "tensor<6x4xf32>\n"
                   "%v = blu.reshape %c [4, 6] : (tensor<6x4xf32>) -> "
                   "tensor<4x6xf32>\n"
                   "%w = blu.slice %a2 dim = 0 start = 2 size = 6 : "
                   "(tensor<9xf32>) -> tensor<6xf32>\n"
                   "%r0 = blu.mul %v, %w : (tensor<4x6xf32>, tensor<6xf32>) "
                   "-> tensor<4x6xf32>",
                   2});
  cases.push_back({"transpose_of_itself",
                   {"3x3xf32"},
                   {"3x3xf32"},
                   "%e = blu.exp %a0 : tensor<3x3xf32>\n"
                   "%t = blu.transpose %e [1, 0] : (tensor<3x3xf32>) -> "
                   "tensor<3x3xf32>\n"
                   "%r0 = blu.sub %e, %t : (tensor<3x3xf32>, tensor<3x3xf32>) "
                   "-> tensor<3x3xf32>",
                   2});
}

static void addReductions(std::vector<FuseCase> &cases) {
  for (const char *op : {"reduce_sum", "reduce_mean", "reduce_max"}) {
    cases.push_back(reduction(op, "4x9x5xf32", "[1]", "4x5xf32"));
    cases.push_back(reduction(op, "4x9x5xf32", "[0, 2]", "9xf32"));
    cases.push_back(reduction(op, "4x9x5xf32", "[0, 1, 2]", "f32"));
    cases.push_back(
        reduction(op, "4x1x5xf32", "[1, 2] keep_dims", "4x1x1xf32"));
    cases.push_back(reduction(op, "4x1x5xf32", "[1]", "4x5xf32"));
    cases.push_back(reduction(op, "7xbf16", "[0]", "bf16"));
    cases.push_back(reduction(op, "3x7xi32", "[1]", "3xi32"));
    cases.push_back(reduction(op, "1x1xf32", "[0, 1]", "f32"));
    cases.push_back(reduction(op, "40x512xf32", "[0, 1]", "f32"));
    cases.push_back(reduction(op, "17011xf32", "[0]", "f32"));
  }
  for (const char *op : {"softmax", "log_softmax"})
    for (int dim : {0, 1, 2})
      cases.push_back({op + std::to_string(dim),
                       {"3x5x2xf32"},
                       {"3x5x2xf32"},
                       std::string("%r0 = blu.") + op + " %a0 dim = " +
                           std::to_string(dim) + " : tensor<3x5x2xf32>",
                       1});
  cases.push_back({"softmax_by_hand",
                   {"3x5xf32"},
                   {"3x5xf32"},
                   "%m = blu.reduce_max %a0 [1] keep_dims : (tensor<3x5xf32>) "
                   "-> tensor<3x1xf32>\n"
                   "%d = blu.sub %a0, %m : (tensor<3x5xf32>, tensor<3x1xf32>) "
                   "-> tensor<3x5xf32>\n"
                   "%e = blu.exp %d : tensor<3x5xf32>\n"
                   "%s = blu.reduce_sum %e [1] keep_dims : (tensor<3x5xf32>) "
                   "-> tensor<3x1xf32>\n"
                   "%r0 = blu.div %e, %s : (tensor<3x5xf32>, tensor<3x1xf32>) "
                   "-> tensor<3x5xf32>",
                   1});
  cases.push_back({"columns_then_broadcast",
                   {"3x5xf32"},
                   {"3x5xf32"},
                   "%m = blu.reduce_sum %a0 [0] keep_dims : (tensor<3x5xf32>) "
                   "-> tensor<1x5xf32>\n"
                   "%r0 = blu.div %a0, %m : (tensor<3x5xf32>, "
                   "tensor<1x5xf32>) -> tensor<3x5xf32>",
                   2,
                   1e-4});
  cases.push_back({"different_reduced_dims",
                   {"3x5xf32"},
                   {"3xf32", "5xf32"},
                   "%e = blu.exp %a0 : tensor<3x5xf32>\n"
                   "%r0 = blu.reduce_sum %e [1] : (tensor<3x5xf32>) -> "
                   "tensor<3xf32>\n"
                   "%r1 = blu.reduce_sum %e [0] : (tensor<3x5xf32>) -> "
                   "tensor<5xf32>",
                   2});
}

static void addMatmuls(std::vector<FuseCase> &cases) {
  cases.push_back(matmul("3x4xf32", "4x5xf32", "3x5xf32"));
  cases.push_back(matmul("4x3xf32", "5x4xf32", "3x5xf32", "trans_a trans_b"));
  cases.push_back(matmul("4xf32", "4x5xf32", "5xf32"));
  cases.push_back(matmul("3x4xf32", "4xf32", "3xf32"));
  cases.push_back(matmul("4xf32", "4xf32", "f32"));
  cases.push_back(matmul("2x3x4xf32", "2x4x5xf32", "2x3x5xf32"));
  cases.push_back(matmul("2x3x4x5xf32", "5x6xf32", "2x3x4x6xf32"));
  cases.push_back(matmul("2x5x4xf32", "5x6xf32", "2x4x6xf32", "trans_a"));
  cases.push_back(matmul("4x5xf32", "2x3x5x6xf32", "2x3x4x6xf32"));
  cases.push_back(matmul("2x1x4x5xf32", "3x5x6xf32", "2x3x4x6xf32"));
  cases.push_back(matmul("2x1x4xf32", "1x4x1xf32", "2x1x1xf32"));
  cases.push_back(matmul("3x4xbf16", "4x5xbf16", "3x5xbf16"));
  cases.push_back({"linear_bias",
                   {"2x3x4xf32", "5x4xf32", "5xf32"},
                   {"2x3x5xf32"},
                   "%r0 = blu.linear %a0, %a1, %a2 : (tensor<2x3x4xf32>, "
                   "tensor<5x4xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>",
                   1,
                   4e-6});
  cases.push_back({"transposed_operand",
                   {"2x4x3xf32", "2x4x5xf32"},
                   {"2x3x5xf32"},
                   "%t = blu.transpose %a0 [0, 2, 1] : (tensor<2x4x3xf32>) -> "
                   "tensor<2x3x4xf32>\n"
                   "%r0 = blu.matmul %t, %a1 : (tensor<2x3x4xf32>, "
                   "tensor<2x4x5xf32>) -> tensor<2x3x5xf32>",
                   0,
                   4e-6});
  cases.push_back({"heads_to_batch",
                   {"2x4x3x5xf32", "2x4x3x5xf32"},
                   {"2x3x4x4xf32"},
                   "%q = blu.transpose %a0 [0, 2, 1, 3] : "
                   "(tensor<2x4x3x5xf32>) -> tensor<2x3x4x5xf32>\n"
                   "%k = blu.transpose %a1 [0, 2, 3, 1] : "
                   "(tensor<2x4x3x5xf32>) -> tensor<2x3x5x4xf32>\n"
                   "%r0 = blu.matmul %q, %k : (tensor<2x3x4x5xf32>, "
                   "tensor<2x3x5x4xf32>) -> tensor<2x3x4x4xf32>",
                   -1,
                   4e-6});
  cases.push_back({"accumulated_products",
                   {"3x4xf32", "4x5xf32", "3x4xf32", "4x5xf32"},
                   {"3x5xf32"},
                   "%x = blu.matmul %a0, %a1 : (tensor<3x4xf32>, "
                   "tensor<4x5xf32>) -> tensor<3x5xf32>\n"
                   "%y = blu.matmul %a2, %a3 : (tensor<3x4xf32>, "
                   "tensor<4x5xf32>) -> tensor<3x5xf32>\n"
                   "%r0 = blu.add %x, %y : (tensor<3x5xf32>, tensor<3x5xf32>) "
                   "-> tensor<3x5xf32>",
                   0,
                   4e-6});
}

static void addNetworks(std::vector<FuseCase> &cases) {
  cases.push_back({"layer_norm",
                   {"2x3x6xf32", "6xf32", "6xf32"},
                   {"2x3x6xf32"},
                   "%r0 = blu.layer_norm %a0, %a1, %a2 eps = 1.0e-05 : "
                   "(tensor<2x3x6xf32>, tensor<6xf32>, tensor<6xf32>) -> "
                   "tensor<2x3x6xf32>",
                   1,
                   1e-5});
  cases.push_back({"residual_norm",
                   {"2x3x6xf32", "2x3x6xf32", "6xf32", "6xf32"},
                   {"2x3x6xf32", "2x3x6xf32"},
                   "%r0 = blu.add %a0, %a1 : (tensor<2x3x6xf32>, "
                   "tensor<2x3x6xf32>) -> tensor<2x3x6xf32>\n"
                   "%r1 = blu.layer_norm %r0, %a2, %a3 eps = 1.0e-05 : "
                   "(tensor<2x3x6xf32>, tensor<6xf32>, tensor<6xf32>) -> "
                   "tensor<2x3x6xf32>",
                   1,
                   1e-5});
  cases.push_back({"residual_norm_bf16",
                   {"4x6xbf16", "4x6xbf16", "6xbf16", "6xbf16"},
                   {"4x6xbf16", "4x6xbf16"},
                   "%r0 = blu.add %a0, %a1 : (tensor<4x6xbf16>, "
                   "tensor<4x6xbf16>) -> tensor<4x6xbf16>\n"
                   "%r1 = blu.layer_norm %r0, %a2, %a3 eps = 1.0e-05 : "
                   "(tensor<4x6xbf16>, tensor<6xbf16>, tensor<6xbf16>) -> "
                   "tensor<4x6xbf16>",
                   1,
                   2e-2});
  cases.push_back({"layer_norm_grad",
                   {"2x3x6xf32", "6xf32", "2x3x6xf32", "2x3x6xf32"},
                   {"2x3x6xf32", "6xf32", "6xf32"},
                   "%d, %r1, %r2 = blu.layer_norm_grad %a0, %a1, %a2 eps = "
                   "1.0e-05 : (tensor<2x3x6xf32>, tensor<6xf32>, "
                   "tensor<2x3x6xf32>) -> (tensor<2x3x6xf32>, tensor<6xf32>, "
                   "tensor<6xf32>)\n"
                   "%r0 = blu.add %d, %a3 : (tensor<2x3x6xf32>, "
                   "tensor<2x3x6xf32>) -> tensor<2x3x6xf32>",
                   2,
                   1e-5});
  for (const char *how : {"mean", "sum", "none"}) {
    std::string result = how == std::string("none") ? "2x3xf32" : "f32";
    cases.push_back({std::string("cross_entropy_") + how,
                     {"2x3x7xf32", "2x3xi32"},
                     {result},
                     "%r0 = blu.cross_entropy %a0, %a1 ignore_index = 2 "
                     "reduction(" +
                         std::string(how) +
                         ") : (tensor<2x3x7xf32>, tensor<2x3xi32>) -> tensor<" +
                         result + ">",
                     -1,
                     1e-5});
  }
  cases.push_back({"loss_head",
                   {"6x7xf32", "6xi32", "f32"},
                   {"f32", "6x7xf32"},
                   "%r0 = blu.cross_entropy %a0, %a1 ignore_index = -100 "
                   "reduction(mean) : (tensor<6x7xf32>, tensor<6xi32>) -> "
                   "tensor<f32>\n"
                   "%r1 = blu.cross_entropy_grad %a0, %a1, %a2 ignore_index = "
                   "-100 : (tensor<6x7xf32>, tensor<6xi32>, tensor<f32>) -> "
                   "tensor<6x7xf32>",
                   2,
                   1e-5});
  cases.push_back({"embedding",
                   {"7x4xf32", "2x3xi32", "2x3x4xf32"},
                   {"2x3x4xf32", "7x4xf32"},
                   "%r0 = blu.embedding %a0, %a1 : (tensor<7x4xf32>, "
                   "tensor<2x3xi32>) -> tensor<2x3x4xf32>\n"
                   "%r1 = blu.embedding_grad %a1, %a2 rows = 7 : "
                   "(tensor<2x3xi32>, tensor<2x3x4xf32>) -> tensor<7x4xf32>",
                   1});
  cases.push_back({"embeddings_and_positions",
                   {"7x4xf32", "5x4xf32", "2x3xi32"},
                   {"2x3x4xf32"},
                   "%t = blu.embedding %a0, %a2 : (tensor<7x4xf32>, "
                   "tensor<2x3xi32>) -> tensor<2x3x4xf32>\n"
                   "%i = blu.positions %a2 dim = 1 : (tensor<2x3xi32>) -> "
                   "tensor<3xi32>\n"
                   "%p = blu.embedding %a1, %i : (tensor<5x4xf32>, "
                   "tensor<3xi32>) -> tensor<3x4xf32>\n"
                   "%r0 = blu.add %t, %p : (tensor<2x3x4xf32>, "
                   "tensor<3x4xf32>) -> tensor<2x3x4xf32>"});
  cases.push_back({"mlp_backward",
                   {"6x8xf32", "6x8xf32", "8x4xf32"},
                   {"6x4xf32", "8xf32"},
                   "%d = blu.gelu_grad %a0, %a1 approximate(tanh) : "
                   "tensor<6x8xf32>\n"
                   "%r0 = blu.matmul %d, %a2 : (tensor<6x8xf32>, "
                   "tensor<8x4xf32>) -> tensor<6x4xf32>\n"
                   "%r1 = blu.reduce_sum %d [0] : (tensor<6x8xf32>) -> "
                   "tensor<8xf32>",
                   1,
                   1e-5});
  cases.push_back({"attention",
                   {"2x3x4x5xf32", "2x3x2x5xf32", "2x3x2x5xf32"},
                   {"2x3x4x5xf32", "2x4x3xf32"},
                   "%r0, %r1 = blu.attention %a0, %a1, %a2 scale = 0.5 causal "
                   ": (tensor<2x3x4x5xf32>, tensor<2x3x2x5xf32>, "
                   "tensor<2x3x2x5xf32>) -> (tensor<2x3x4x5xf32>, "
                   "tensor<2x4x3xf32>)",
                   0,
                   1e-5});
  cases.push_back({"stack",
                   {"3x4xf32", "2x4x4xf32"},
                   {"3x4xf32", "2x3x4xf32"},
                   "%r0, %r1 = blu.stack \"block\" [0 to 2] iteration(%i) "
                   "carry(%h = %a0) slices(%w = %a1) : (tensor<3x4xf32>, "
                   "tensor<2x4x4xf32>) -> (tensor<3x4xf32>, "
                   "tensor<2x3x4xf32>) {\n"
                   "%y = blu.matmul %h, %w : (tensor<3x4xf32>, "
                   "tensor<4x4xf32>) -> tensor<3x4xf32>\n"
                   "%z = blu.tanh %y : tensor<3x4xf32>\n"
                   "%n = blu.add %z, %h : (tensor<3x4xf32>, tensor<3x4xf32>) "
                   "-> tensor<3x4xf32>\n"
                   "blu.yield %n, %h : tensor<3x4xf32>, tensor<3x4xf32>\n}",
                   1,
                   1e-5});
  cases.push_back({"accumulate",
                   {"2x3x4xf32", "2x3x5xf32"},
                   {"4x5xf32", "3x4xf32"},
                   "%r0, %r1 = blu.accumulate [2] iteration(%k) slices(%x = "
                   "%a0, %y = %a1) : (tensor<2x3x4xf32>, tensor<2x3x5xf32>) -> "
                   "(tensor<4x5xf32>, tensor<3x4xf32>) {\n"
                   "%p = blu.matmul %x, %y trans_a : (tensor<3x4xf32>, "
                   "tensor<3x5xf32>) -> tensor<4x5xf32>\n"
                   "%e = blu.exp %x : tensor<3x4xf32>\n"
                   "blu.yield %p, %e : tensor<4x5xf32>, tensor<3x4xf32>\n}",
                   -1,
                   1e-5});
  cases.push_back({"dropout",
                   {"3x5xf32", "i64", "i64"},
                   {"3x5xf32", "3x5xf32"},
                   "%k = blu.random_key %a1, %a2 site = 3 : (tensor<i64>, "
                   "tensor<i64>) -> tensor<i64>\n"
                   "%r0 = blu.dropout %a0 key %k rate = 0.3 : tensor<3x5xf32>\n"
                   "%r1 = blu.add %r0, %a0 : (tensor<3x5xf32>, "
                   "tensor<3x5xf32>) -> tensor<3x5xf32>",
                   1});
}

static void addOptimizers(std::vector<FuseCase> &cases) {
  std::string scalars = "tensor<f64>";
  cases.push_back(
      {"clipped_adamw",
       {"3x4xf32", "3x4xf32", "3x4xf32", "5xf32", "5xf32", "5xf32", "f64"},
       {"3x4xf32", "3x4xf32", "3x4xf32", "5xf32", "f32"},
       "%r4 = blu.global_norm %a1, %a4 : (tensor<3x4xf32>, tensor<5xf32>) -> "
       "tensor<f32>\n"
       "%s = blu.clip_scale %r4, %a6 : (tensor<f32>, tensor<f64>) -> "
       "tensor<f32>\n"
       "%g = blu.mul %a1, %s : (tensor<3x4xf32>, tensor<f32>) -> "
       "tensor<3x4xf32>\n"
       "%g2 = blu.mul %a4, %s : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>\n"
       "%t = blu.constant dense<3> : tensor<i64>\n"
       "%lr = blu.constant dense<0.01> : tensor<f64>\n"
       "%b1 = blu.constant dense<0.9> : tensor<f64>\n"
       "%b2 = blu.constant dense<0.95> : tensor<f64>\n"
       "%e = blu.constant dense<1.0e-8> : tensor<f64>\n"
       "%v = blu.mul %a2, %a2 : (tensor<3x4xf32>, tensor<3x4xf32>) -> "
       "tensor<3x4xf32>\n"
       "%r0, %r1, %r2 = blu.adamw %a0, %g, %a2, %v step %t lr %lr betas %b1, "
       "%b2 eps %e weight_decay %lr decay : tensor<3x4xf32>\n"
       "%r3, %m = blu.sgd %a3, %g2, %a5 lr %lr momentum %b1 weight_decay %lr "
       ": tensor<5xf32>",
       -1,
       1e-5});
}

std::vector<FuseCase> blutrain::test::getFuseCases() {
  std::vector<FuseCase> cases;
  addElementwise(cases);
  addShape(cases);
  addReductions(cases);
  addMatmuls(cases);
  addNetworks(cases);
  addOptimizers(cases);
  return cases;
}
