//===- GradientCases.cpp - one or more models an op -----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GradientCases.h"

#include <cmath>

using namespace blutrain::test;

using Result = std::vector<std::pair<std::string, std::string>>;

/// A case of one op `%y = OP %x… : TYPE`.
static Case unary(const std::string &op, const std::string &suffix,
                  const std::string &shape, Fill fill, double scale = 1) {
  std::string type = "t<" + shape + ">";
  // `op` is "blu.exp" or "blu.gelu approximate(tanh)": attributes follow %x.
  size_t space = op.find(' ');
  std::string attrs = space == std::string::npos ? "" : op.substr(space);
  Case c = {op + "_" + suffix,
            {{"x", type, fill}},
            "%y = " + op.substr(0, space) + " %x" + attrs + " : " + type,
            {{"y", type}}};
  c.scale = scale;
  return c;
}

static Case binary(const std::string &op, const std::string &suffix, Arg a,
                   Arg b, const std::string &result, double scale = 1) {
  Case c = {op + "_" + suffix,
            {a, b},
            "%y = " + op + " %" + a.name + ", %" + b.name + " : (" + a.type +
                ", " + b.type + ") -> " + result,
            {{"y", result}}};
  c.scale = scale;
  return c;
}

std::vector<Case> blutrain::test::elementwiseCases() {
  std::vector<Case> cases;
  // Broadcasting, odd sizes, dims of 1, scalars, on every binary op. The two
  // operands are apart, for maximum and minimum, and b is away from 0.
  for (const char *name : {"add", "sub", "mul", "div", "maximum", "minimum"}) {
    std::string op = std::string("blu.") + name;
    Fill a = signedUniform(0.25, 0.75, 1), b = signedUniform(1, 2, 2);
    cases.push_back(
        binary(op, "same", {"a", "t<3x5>", a}, {"b", "t<3x5>", b}, "t<3x5>"));
    cases.push_back(binary(op, "inner", {"a", "t<3x1x5>", a},
                           {"b", "t<4x1>", b}, "t<3x4x5>"));
    cases.push_back(
        binary(op, "scalar", {"a", "t<7>", a}, {"b", "t<>", b}, "t<7>"));
    cases.push_back(binary(op, "scalar_left", {"a", "t<>", a},
                           {"b", "t<2x1x3>", b}, "t<2x1x3>"));
    cases.push_back(
        binary(op, "ones", {"a", "t<1x1>", a}, {"b", "t<1>", b}, "t<1x1>"));
    cases.push_back(
        binary(op, "both", {"a", "t<5x1>", a}, {"b", "t<1x3>", b}, "t<5x3>"));
    // Both operands one value: their cotangents add up.
    if (op == "blu.maximum" || op == "blu.minimum")
      continue;
    Case twice =
        binary(op, "itself", {"x", "t<5>", b}, {"x", "t<5>", b}, "t<5>");
    twice.args.pop_back();
    cases.push_back(twice);
  }
  cases.push_back(binary("blu.mul", "large",
                         {"a", "t<5>", signedUniform(1e99, 3e99, 3)},
                         {"b", "t<5>", signedUniform(1e99, 3e99, 4)}, "t<5>",
                         /*scale=*/0));
  cases.push_back(binary("blu.div", "small",
                         {"a", "t<5>", signedUniform(1e-90, 3e-90, 3)},
                         {"b", "t<5>", signedUniform(1e-70, 3e-70, 4)}, "t<5>",
                         /*scale=*/0));
  // At ties the central difference is the mean of the one-sided ones: a half.
  for (std::string op : {"blu.maximum", "blu.minimum"})
    cases.push_back(binary(op, "tie", {"a", "t<4>", values({1, -2, 0, 3})},
                           {"b", "t<4>", values({1, -2, 0, 1})}, "t<4>"));

  for (std::string shape : {"7x5", "1", "", "2x1x3"}) {
    std::string suffix = "shape" + (shape.empty() ? "0d" : shape);
    for (const char *op :
         {"blu.neg", "blu.exp", "blu.tanh", "blu.sigmoid", "blu.silu",
          "blu.gelu approximate(tanh)", "blu.gelu approximate(erf)"})
      cases.push_back(unary(op, suffix, shape, uniform(-3, 3, 5)));
    for (const char *op : {"blu.abs", "blu.relu"})
      cases.push_back(unary(op, suffix, shape, signedUniform(0.1, 2, 6)));
    for (const char *op : {"blu.log", "blu.sqrt", "blu.rsqrt"})
      cases.push_back(unary(op, suffix, shape, uniform(0.5, 3, 7), 0));
  }
  cases.push_back(unary("blu.exp", "large", "5", uniform(600, 700, 8)));
  cases.push_back(unary("blu.exp", "small", "5", uniform(-700, -600, 8)));
  for (const char *op : {"blu.log", "blu.sqrt", "blu.rsqrt"}) {
    cases.push_back(unary(op, "large", "5", uniform(1e200, 2e200, 9), 0));
    cases.push_back(unary(op, "small", "5", uniform(1e-200, 2e-200, 9), 0));
  }
  // Saturated: slopes of 0 or 1 without NaN.
  for (const char *op :
       {"blu.tanh", "blu.sigmoid", "blu.silu", "blu.gelu approximate(tanh)",
        "blu.gelu approximate(erf)"})
    for (double at : {40.0, 700.0, 1e8})
      cases.push_back(unary(op, "saturated" + std::to_string(int(at)), "4",
                            signedUniform(at, 1.5 * at, 10), 0));
  // Subgradient 0 at 0, which is also what the central difference gives.
  cases.push_back(unary("blu.abs", "zero", "2", values({0, 1})));

  for (auto [suffix, c, a, b, y] :
       {std::tuple{"same", "b<3x4>", "t<3x4>", "t<3x4>", "t<3x4>"},
        std::tuple{"broadcast", "b<4>", "t<3x1>", "t<>", "t<3x4>"},
        std::tuple{"condition_wide", "b<2x3x4>", "t<4>", "t<3x1>", "t<2x3x4>"}})
    cases.push_back({std::string("blu.select_") + suffix,
                     {{"c", c, values({1, 0, 0, 1, 1})}, {"p", a}, {"q", b}},
                     std::string("%y = blu.select %c, %p, %q : (") + c + ", " +
                         a + ", " + b + ") -> " + y,
                     {{"y", y}}});
  // The values not chosen do not matter, whatever they are.
  cases.push_back({"blu.select_guards",
                   {{"x", "t<4>", values({1, -1, 2, -2})}},
                   R"(%zero = blu.constant dense<0.0> : t<>
                      %one = blu.constant dense<1.0> : t<>
                      %c = blu.compare gt %x, %zero : (t<4>, t<>) -> b<4>
                      %safe = blu.select %c, %x, %one : (b<4>, t<4>, t<>) -> t<4>
                      %l = blu.log %safe : t<4>
                      %y = blu.select %c, %l, %x : (b<4>, t<4>, t<4>) -> t<4>)",
                   {{"y", "t<4>"}}});
  cases.push_back({"blu.cast_float",
                   {{"x", "t<3x2>"}},
                   R"(%c = blu.cast %x : t<3x2> to f<3x2>
                      %e = blu.exp %c : f<3x2>
                      %y = blu.cast %e : f<3x2> to t<3x2>)",
                   {{"y", "t<3x2>"}}});
  // No gradient through an integer: only the other factor counts.
  cases.push_back({"blu.cast_integer",
                   {{"x", "t<4>", values({0.5, 1.25, -2.75, 3.5})}},
                   R"(%i = blu.cast %x : t<4> to i<4>
                      %f = blu.cast %i : i<4> to t<4>
                      %y = blu.mul %f, %x : (t<4>, t<4>) -> t<4>)",
                   {{"y", "t<4>"}}});
  for (double rate : {0.1, 0.5, 0.0})
    cases.push_back({"blu.dropout_rate" + std::to_string(int(10 * rate)),
                     {{"x", "t<5x7>"}, {"key", "l<>", values({12345})}},
                     "%y = blu.dropout %x key %key rate = " +
                         std::to_string(rate) + " : t<5x7>",
                     {{"y", "t<5x7>"}}});
  cases.push_back({"blu.dropout_mark",
                   {{"x", "t<5>"}},
                   "%y = blu.dropout %x rate = 0.5 : t<5>",
                   {{"y", "t<5>"}}});
  return cases;
}

std::vector<Case> blutrain::test::shapeCases() {
  std::vector<Case> cases;
  auto add = [&](const char *name, std::vector<Arg> args, const char *body,
                 Result results) {
    cases.push_back({name, std::move(args), body, std::move(results)});
  };
  add("blu.reshape_split", {{"x", "t<2x6>"}},
      "%y = blu.reshape %x [0, 3, -1] : (t<2x6>) -> t<2x3x2>",
      {{"y", "t<2x3x2>"}});
  add("blu.reshape_scalar", {{"x", "t<1x1>"}},
      "%y = blu.reshape %x [] : (t<1x1>) -> t<>", {{"y", "t<>"}});
  add("blu.reshape_flat", {{"x", "t<3x1x5>"}},
      "%y = blu.reshape %x [-1] : (t<3x1x5>) -> t<15>", {{"y", "t<15>"}});
  add("blu.transpose_2d", {{"x", "t<3x5>"}},
      "%y = blu.transpose %x [1, 0] : (t<3x5>) -> t<5x3>", {{"y", "t<5x3>"}});
  // A permutation that is not its own inverse.
  add("blu.transpose_cycle", {{"x", "t<2x3x1x5>"}},
      "%y = blu.transpose %x [2, 0, 3, 1] : (t<2x3x1x5>) -> t<1x2x5x3>",
      {{"y", "t<1x2x5x3>"}});
  add("blu.broadcast_new_dims", {{"x", "t<3x1>"}},
      "%y = blu.broadcast %x : (t<3x1>) -> t<2x3x4>", {{"y", "t<2x3x4>"}});
  add("blu.broadcast_scalar", {{"x", "t<>"}},
      "%y = blu.broadcast %x : (t<>) -> t<2x3>", {{"y", "t<2x3>"}});
  add("blu.broadcast_same", {{"x", "t<3>"}},
      "%y = blu.broadcast %x : (t<3>) -> t<3>", {{"y", "t<3>"}});
  add("blu.slice_middle", {{"x", "t<3x7>"}},
      "%y = blu.slice %x dim = 1 start = 2 size = 3 : (t<3x7>) -> t<3x3>",
      {{"y", "t<3x3>"}});
  add("blu.slice_first", {{"x", "t<5x2>"}},
      "%y = blu.slice %x dim = 0 start = 0 size = 1 : (t<5x2>) -> t<1x2>",
      {{"y", "t<1x2>"}});
  add("blu.slice_last", {{"x", "t<2x5x3>"}},
      "%y = blu.slice %x dim = 1 start = 4 size = 1 : (t<2x5x3>) -> t<2x1x3>",
      {{"y", "t<2x1x3>"}});
  add("blu.slice_all", {{"x", "t<5>"}},
      "%y = blu.slice %x dim = 0 start = 0 size = 5 : (t<5>) -> t<5>",
      {{"y", "t<5>"}});
  add("blu.slice_overlap", {{"x", "t<6>"}},
      R"(%a = blu.slice %x dim = 0 start = 0 size = 4 : (t<6>) -> t<4>
         %b = blu.slice %x dim = 0 start = 2 size = 4 : (t<6>) -> t<4>
         %y = blu.mul %a, %b : (t<4>, t<4>) -> t<4>)",
      {{"y", "t<4>"}});
  add("blu.split_all", {{"x", "t<3x6>"}},
      R"(%a, %b, %c = blu.split %x dim = 1 [1, 2, 3] : (t<3x6>) -> (t<3x1>, t<3x2>, t<3x3>)
         %p = blu.mul %a, %b : (t<3x1>, t<3x2>) -> t<3x2>)",
      {{"p", "t<3x2>"}, {"c", "t<3x3>"}});
  // A part that nothing uses has a zero cotangent.
  add("blu.split_unused", {{"x", "t<5x2>"}},
      "%a, %b, %c = blu.split %x dim = 0 [2, 1, 2] : (t<5x2>) -> (t<2x2>, "
      "t<1x2>, t<2x2>)",
      {{"a", "t<2x2>"}, {"c", "t<2x2>"}});
  add("blu.split_one", {{"x", "t<5>"}},
      "%a = blu.split %x dim = 0 [5] : (t<5>) -> (t<5>)", {{"a", "t<5>"}});
  add("blu.concat_three", {{"p", "t<2x1>"}, {"q", "t<2x3>"}, {"r", "t<2x2>"}},
      "%y = blu.concat dim = 1 %p, %q, %r : (t<2x1>, t<2x3>, t<2x2>) -> t<2x6>",
      {{"y", "t<2x6>"}});
  add("blu.concat_same", {{"p", "t<2x3>"}},
      "%y = blu.concat dim = 0 %p, %p : (t<2x3>, t<2x3>) -> t<4x3>",
      {{"y", "t<4x3>"}});
  add("blu.concat_one", {{"p", "t<3>"}},
      "%y = blu.concat dim = 0 %p : (t<3>) -> t<3>", {{"y", "t<3>"}});
  return cases;
}

std::vector<Case> blutrain::test::reductionCases() {
  std::vector<Case> cases;
  // Apart by more than the steps, so that no maximum changes hands.
  Fill distinct = [](int64_t i) { return 0.125 * double((i * 37) % 101); };
  for (auto [dims, plain, kept] : {std::tuple{"[0]", "t<3x5>", "t<1x3x5>"},
                                   std::tuple{"[1]", "t<4x5>", "t<4x1x5>"},
                                   std::tuple{"[2]", "t<4x3>", "t<4x3x1>"},
                                   std::tuple{"[0, 2]", "t<3>", "t<1x3x1>"},
                                   std::tuple{"[0, 1, 2]", "t<>", "t<1x1x1>"},
                                   std::tuple{"[]", "t<4x3x5>", "t<4x3x5>"}})
    for (const char *op :
         {"blu.reduce_sum", "blu.reduce_mean", "blu.reduce_max"})
      for (bool keep : {false, true}) {
        std::string result = keep ? kept : plain;
        cases.push_back({std::string(op) + dims + (keep ? "_keep" : ""),
                         {{"x", "t<4x3x5>", distinct}},
                         std::string("%y = ") + op + " %x " + dims +
                             (keep ? " keep_dims" : "") + " : (t<4x3x5>) -> " +
                             result,
                         {{"y", result}}});
      }
  for (const char *op :
       {"blu.reduce_sum", "blu.reduce_mean", "blu.reduce_max"}) {
    cases.push_back({std::string(op) + "_ones",
                     {{"x", "t<1x1>"}},
                     std::string("%y = ") + op + " %x [1] : (t<1x1>) -> t<1>",
                     {{"y", "t<1>"}}});
    Case large = {
        std::string(op) + "_large",
        {{"x", "t<2x3>", values({1e150, -2e150, 4e150, 3e150, 1e150, -1e150})}},
        std::string("%y = ") + op + " %x [1] : (t<2x3>) -> t<2>",
        {{"y", "t<2>"}}};
    large.scale = 1e150;
    cases.push_back(large);
  }
  return cases;
}

std::vector<Case> blutrain::test::matmulCases() {
  std::vector<Case> cases;
  for (auto [suffix, a, b, attrs, y] :
       {std::tuple{"plain", "t<3x5>", "t<5x2>", "", "t<3x2>"},
        std::tuple{"ta", "t<5x3>", "t<5x2>", " trans_a", "t<3x2>"},
        std::tuple{"tb", "t<3x5>", "t<2x5>", " trans_b", "t<3x2>"},
        std::tuple{"tab", "t<5x3>", "t<2x5>", " trans_a trans_b", "t<3x2>"},
        std::tuple{"k1", "t<3x1>", "t<1x4>", "", "t<3x4>"},
        std::tuple{"ones", "t<1x1>", "t<1x1>", "", "t<1x1>"},
        std::tuple{"batch", "t<2x3x4>", "t<2x4x2>", "", "t<2x3x2>"},
        std::tuple{"batch_ta", "t<2x4x3>", "t<2x4x2>", " trans_a", "t<2x3x2>"},
        std::tuple{"bcast", "t<2x1x3x4>", "t<3x4x2>", "", "t<2x3x3x2>"},
        std::tuple{"bcast_ta_tb", "t<2x1x4x3>", "t<3x2x4>", " trans_a trans_b",
                   "t<2x3x3x2>"},
        std::tuple{"bcast_right", "t<2x3x4>", "t<4x2>", "", "t<2x3x2>"},
        std::tuple{"bcast_left_tb", "t<3x4>", "t<2x2x4>", " trans_b",
                   "t<2x3x2>"},
        std::tuple{"bcast_left_ta", "t<4x3>", "t<2x4x2>", " trans_a",
                   "t<2x3x2>"},
        std::tuple{"matvec", "t<3x4>", "t<4>", "", "t<3>"},
        std::tuple{"matvec_ta", "t<4x3>", "t<4>", " trans_a", "t<3>"},
        std::tuple{"matvec_batch", "t<2x3x4>", "t<4>", "", "t<2x3>"},
        std::tuple{"vecmat", "t<4>", "t<4x3>", "", "t<3>"},
        std::tuple{"vecmat_tb", "t<4>", "t<3x4>", " trans_b", "t<3>"},
        std::tuple{"vecmat_batch", "t<4>", "t<2x4x3>", "", "t<2x3>"},
        std::tuple{"dot", "t<5>", "t<5>", "", "t<>"}})
    cases.push_back({std::string("blu.matmul_") + suffix,
                     {{"a", a, uniform(-1, 1, 1)}, {"b", b, uniform(-1, 1, 2)}},
                     std::string("%y = blu.matmul %a, %b") + attrs + " : (" +
                         a + ", " + b + ") -> " + y,
                     {{"y", y}}});
  cases.push_back(
      {"blu.matmul_itself",
       {{"a", "t<3x3>"}},
       "%y = blu.matmul %a, %a trans_b : (t<3x3>, t<3x3>) -> t<3x3>",
       {{"y", "t<3x3>"}}});
  for (auto [suffix, x, w, b, y] :
       {std::tuple{"2d", "t<3x5>", "t<2x5>", "t<2>", "t<3x2>"},
        std::tuple{"3d", "t<2x3x5>", "t<4x5>", "t<4>", "t<2x3x4>"},
        std::tuple{"1d", "t<5>", "t<2x5>", "t<2>", "t<2>"},
        std::tuple{"ones", "t<1x1>", "t<1x1>", "t<1>", "t<1x1>"},
        std::tuple{"no_bias", "t<2x3x5>", "t<4x5>", "", "t<2x3x4>"}}) {
    bool hasBias = *b != 0;
    Case c = {std::string("blu.linear_") + suffix,
              {{"x", x, uniform(-1, 1, 1)}, {"w", w, uniform(-1, 1, 2)}},
              std::string("%y = blu.linear %x, %w") + (hasBias ? ", %b" : "") +
                  " : (" + x + ", " + w +
                  (hasBias ? std::string(", ") + b : "") + ") -> " + y,
              {{"y", y}}};
    if (hasBias)
      c.args.push_back({"b", b, uniform(-1, 1, 3)});
    cases.push_back(c);
  }
  return cases;
}

std::vector<Case> blutrain::test::normalizationCases() {
  std::vector<Case> cases;
  auto layerNorm = [&](const std::string &suffix, const std::string &shape,
                       const std::string &n, const char *eps, Fill fill,
                       double scale, double amplification) {
    Case c = {"blu.layer_norm_" + suffix,
              {{"x", "t<" + shape + ">", fill, scale},
               {"w", "t<" + n + ">", uniform(0.5, 1.5, 2)},
               {"b", "t<" + n + ">", uniform(-1, 1, 3)}},
              "%y = blu.layer_norm %x, %w, %b eps = " + std::string(eps) +
                  " : (t<" + shape + ">, t<" + n + ">, t<" + n + ">) -> t<" +
                  shape + ">",
              {{"y", "t<" + shape + ">"}}};
    c.amplification = amplification;
    cases.push_back(c);
  };
  layerNorm("2d", "3x7", "7", "1.0e-5", uniform(-1, 1, 1), 0.25, 1);
  layerNorm("3d", "2x3x5", "5", "1.0e-2", uniform(-1, 1, 1), 0.25, 1);
  layerNorm("1d", "6", "6", "1.0e-5", uniform(-1, 1, 1), 0.25, 1);
  // A row of one element is its bias, whatever it is.
  layerNorm("length1", "3x1", "1", "1.0e-1", uniform(-1, 1, 1), 0.25, 1);
  // Mean 1000, spread 1: a thousandfold cancellation. The step follows the
  // spread, since x is around 0 before the mean is added.
  Case offset = {"blu.layer_norm_offset",
                 {{"x", "t<2x5>"},
                  {"w", "t<5>", uniform(0.5, 1.5, 2)},
                  {"b", "t<5>", uniform(-1, 1, 3)}},
                 R"(%mean = blu.constant dense<1000.0> : t<>
                    %far = blu.add %x, %mean : (t<2x5>, t<>) -> t<2x5>
                    %y = blu.layer_norm %far, %w, %b eps = 1.0e-5 : (t<2x5>, t<5>, t<5>) -> t<2x5>)",
                 {{"y", "t<2x5>"}}};
  offset.scale = 0.25;
  offset.amplification = 4000; // mean over the smallest spread of a row
  cases.push_back(offset);
  layerNorm("large", "2x5", "5", "1.0e-5", uniform(-1e120, 1e120, 1), 2.5e119,
            1);
  // The variance is far below eps: y is linear in x.
  layerNorm("tiny", "2x5", "5", "1.0e-5", uniform(-1e-9, 1e-9, 1), 1e-3, 1);
  // Equal elements: variance 0, and x̂ is 0.
  layerNorm("constant", "2x4", "4", "1.0e-2", values({0.5}), 0.125, 1);

  for (const char *op : {"blu.softmax", "blu.log_softmax"}) {
    for (auto [shape, dim] :
         {std::pair{"3x7", "1"}, std::pair{"3x7", "0"}, std::pair{"2x5x3", "1"},
          std::pair{"2x1x3", "1"}, std::pair{"5", "0"}})
      cases.push_back(
          {std::string(op) + "_" + shape + "_" + dim,
           {{"x", "t<" + std::string(shape) + ">", uniform(-2, 2, 1)}},
           std::string("%y = ") + op + " %x dim = " + dim + " : t<" + shape +
               ">",
           {{"y", "t<" + std::string(shape) + ">"}}});
    // e^x overflows without the maximum; the rounding of x - m weighs as m.
    Case large = {std::string(op) + "_large",
                  {{"x", "t<2x4>", values({0, 1, -0.5, 0.25, 0, -1, 1, -0.5})}},
                  "%m = blu.constant dense<2000.0> : t<>\n"
                  "%far = blu.add %x, %m : (t<2x4>, t<>) -> t<2x4>\n"
                  "%y = " +
                      std::string(op) + " %far dim = 1 : t<2x4>",
                  {{"y", "t<2x4>"}}};
    large.amplification = 2000;
    cases.push_back(large);
    // One element far above: the others' probabilities underflow.
    cases.push_back({std::string(op) + "_peaked",
                     {{"x", "t<4>", values({0, 800, 1, -3})}},
                     std::string("%y = ") + op + " %x dim = 0 : t<4>",
                     {{"y", "t<4>"}}});
  }
  return cases;
}

std::vector<Case> blutrain::test::attentionCases() {
  std::vector<Case> cases;
  // q, then k and v, then what follows scale, then lse.
  for (auto [suffix, q, kv, attrs, lse] :
       {std::tuple{"causal", "t<1x4x2x3>", "t<1x4x2x3>", "0.5 causal",
                   "t<1x2x4>"},
        std::tuple{"full", "t<2x3x1x2>", "t<2x3x1x2>", "1.0", "t<2x1x3>"},
        std::tuple{"cross", "t<1x2x2x3>", "t<1x5x2x3>", "0.7", "t<1x2x2>"},
        std::tuple{"causal_longer", "t<1x2x1x3>", "t<1x5x1x3>", "0.7 causal",
                   "t<1x1x2>"},
        std::tuple{"grouped", "t<1x3x4x2>", "t<1x3x2x2>", "0.7 causal",
                   "t<1x4x3>"},
        std::tuple{"one_kv_head", "t<1x3x3x2>", "t<1x3x1x2>", "0.7",
                   "t<1x3x3>"},
        std::tuple{"one_key", "t<1x1x1x2>", "t<1x1x1x2>", "1.0 causal",
                   "t<1x1x1>"},
        std::tuple{"sharp", "t<1x3x1x2>", "t<1x3x1x2>", "20.0 causal",
                   "t<1x1x3>"}})
    cases.push_back(
        {std::string("blu.attention_") + suffix,
         {{"q", q, uniform(-1, 1, 1)},
          {"k", kv, uniform(-1, 1, 2)},
          {"v", kv, uniform(-1, 1, 3)}},
         std::string("%y, %lse = blu.attention %q, %k, %v scale = ") + attrs +
             " : (" + q + ", " + kv + ", " + kv + ") -> (" + q + ", " + lse +
             ")",
         {{"y", q}}});
  cases.back().scale = 0.125; // a score moves 20 times as far as q
  return cases;
}

std::vector<Case> blutrain::test::lossCases() {
  std::vector<Case> cases;
  for (auto [reduction, result] :
       {std::pair{"mean", "t<>"}, std::pair{"sum", "t<>"},
        std::pair{"none", "t<5>"}}) {
    cases.push_back(
        {std::string("blu.cross_entropy_") + reduction,
         {{"x", "t<5x7>", uniform(-2, 2, 1)},
          {"target", "i<5>", values({3, -100, 0, 6, 3})}},
         std::string("%y = blu.cross_entropy %x, %target ignore_index = -100 "
                     "reduction(") +
             reduction + ") : (t<5x7>, i<5>) -> " + result,
         {{"y", result}}});
    cases.push_back(
        {std::string("blu.cross_entropy_class_") + reduction,
         {{"x", "t<5x3>", uniform(-2, 2, 1)},
          {"target", "l<5>", values({2, 1, 0, 1, 2})}},
         std::string("%y = blu.cross_entropy %x, %target ignore_index = 1 "
                     "reduction(") +
             reduction + ") : (t<5x3>, l<5>) -> " + result,
         {{"y", result}}});
  }
  cases.push_back({"blu.cross_entropy_batch",
                   {{"x", "t<2x3x4>", uniform(-2, 2, 1)},
                    {"target", "i<2x3>", values({3, 0, -1, 1, 1, 2})}},
                   "%y = blu.cross_entropy %x, %target ignore_index = -1 "
                   "reduction(mean) : (t<2x3x4>, i<2x3>) -> t<>",
                   {{"y", "t<>"}}});
  cases.push_back(
      {"blu.cross_entropy_one_row",
       {{"x", "t<3>", uniform(-2, 2, 1)}, {"target", "i<>", values({1})}},
       "%y = blu.cross_entropy %x, %target ignore_index = -1 "
       "reduction(none) : (t<3>, i<>) -> t<>",
       {{"y", "t<>"}}});
  cases.push_back({"blu.cross_entropy_one_class",
                   {{"x", "t<2x1>"}, {"target", "i<2>", values({0})}},
                   "%y = blu.cross_entropy %x, %target ignore_index = -1 "
                   "reduction(sum) : (t<2x1>, i<2>) -> t<>",
                   {{"y", "t<>"}}});
  Case large = {
      "blu.cross_entropy_large",
      {{"x", "t<3x4>", values({0, 1, -0.5, 0.25, 900, 1, 0, 2, 0, -900, 1, 3})},
       {"target", "i<3>", values({2, 0, 1})}},
      "%m = blu.constant dense<1000.0> : t<>\n"
      "%far = blu.add %x, %m : (t<3x4>, t<>) -> t<3x4>\n"
      "%y = blu.cross_entropy %far, %target ignore_index = -100 "
      "reduction(mean) : (t<3x4>, i<3>) -> t<>",
      {{"y", "t<>"}}};
  large.amplification = 10; // logits of 1900 in a loss of hundreds
  cases.push_back(large);

  cases.push_back({"blu.embedding_repeats",
                   {{"table", "t<7x3>"},
                    {"ids", "i<2x4>", values({3, 0, 3, 6, 1, 3, 0, 2})}},
                   "%y = blu.embedding %table, %ids : (t<7x3>, i<2x4>) -> "
                   "t<2x4x3>",
                   {{"y", "t<2x4x3>"}}});
  cases.push_back({"blu.embedding_scalar",
                   {{"table", "t<4x1>"}, {"ids", "l<>", values({2})}},
                   "%y = blu.embedding %table, %ids : (t<4x1>, l<>) -> t<1>",
                   {{"y", "t<1>"}}});
  return cases;
}

std::vector<Case> blutrain::test::gradientCases() {
  std::vector<Case> all;
  for (auto family :
       {elementwiseCases, shapeCases, reductionCases, matmulCases,
        normalizationCases, attentionCases, lossCases, structureCases})
    for (Case &c : family())
      all.push_back(std::move(c));
  return all;
}
