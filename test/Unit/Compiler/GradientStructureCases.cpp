//===- GradientStructureCases.cpp - stacks, checkpoints, sharing ----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GradientCases.h"

using namespace blutrain::test;

/// GPT-2 in the small: two blocks of causal attention and MLP with residuals, a
/// head tied to the token embedding.
static const char gpt2[] = R"(
  %wte = blu.param "wte" init(#blu.zeros) : t<7x4>
  %wpe = blu.param "wpe" init(#blu.zeros) : t<3x4>
  %tok = blu.embedding %wte, %tokens : (t<7x4>, i<2x3>) -> t<2x3x4>
  %at = blu.positions %tokens dim = 1 : (i<2x3>) -> i<3>
  %pos = blu.embedding %wpe, %at : (t<3x4>, i<3>) -> t<3x4>
  %h0 = blu.add %tok, %pos : (t<2x3x4>, t<3x4>) -> t<2x3x4>
  %hn = blu.stack "block" [0 to 2] carry(%h = %h0) : (t<2x3x4>) -> (t<2x3x4>) {
    %g1 = blu.param "ln1.w" init(#blu.ones) : t<4>
    %b1 = blu.param "ln1.b" init(#blu.zeros) : t<4>
    %n1 = blu.layer_norm %h, %g1, %b1 eps = 1.0e-2 : (t<2x3x4>, t<4>, t<4>) -> t<2x3x4>
    %wqkv = blu.param "qkv.w" init(#blu.zeros) : t<12x4>
    %bqkv = blu.param "qkv.b" init(#blu.zeros) : t<12>
    %qkv = blu.linear %n1, %wqkv, %bqkv : (t<2x3x4>, t<12x4>, t<12>) -> t<2x3x12>
    %q0, %k0, %v0 = blu.split %qkv dim = 2 [4, 4, 4] : (t<2x3x12>) -> (t<2x3x4>, t<2x3x4>, t<2x3x4>)
    %q = blu.reshape %q0 [0, 0, 2, 2] : (t<2x3x4>) -> t<2x3x2x2>
    %k = blu.reshape %k0 [0, 0, 2, 2] : (t<2x3x4>) -> t<2x3x2x2>
    %v = blu.reshape %v0 [0, 0, 2, 2] : (t<2x3x4>) -> t<2x3x2x2>
    %o, %lse = blu.attention %q, %k, %v scale = 0.7 causal : (t<2x3x2x2>, t<2x3x2x2>, t<2x3x2x2>) -> (t<2x3x2x2>, t<2x2x3>)
    %o1 = blu.reshape %o [0, 0, 4] : (t<2x3x2x2>) -> t<2x3x4>
    %wp = blu.param "proj.w" init(#blu.zeros) : t<4x4>
    %bp = blu.param "proj.b" init(#blu.zeros) : t<4>
    %p = blu.linear %o1, %wp, %bp : (t<2x3x4>, t<4x4>, t<4>) -> t<2x3x4>
    %h1 = blu.add %h, %p : (t<2x3x4>, t<2x3x4>) -> t<2x3x4>
    %g2 = blu.param "ln2.w" init(#blu.ones) : t<4>
    %b2 = blu.param "ln2.b" init(#blu.zeros) : t<4>
    %n2 = blu.layer_norm %h1, %g2, %b2 eps = 1.0e-2 : (t<2x3x4>, t<4>, t<4>) -> t<2x3x4>
    %wf = blu.param "fc.w" init(#blu.zeros) : t<8x4>
    %bf = blu.param "fc.b" init(#blu.zeros) : t<8>
    %f = blu.linear %n2, %wf, %bf : (t<2x3x4>, t<8x4>, t<8>) -> t<2x3x8>
    %a = blu.gelu %f approximate(tanh) : t<2x3x8>
    %wf2 = blu.param "fc2.w" init(#blu.zeros) : t<4x8>
    %bf2 = blu.param "fc2.b" init(#blu.zeros) : t<4>
    %m = blu.linear %a, %wf2, %bf2 : (t<2x3x8>, t<4x8>, t<4>) -> t<2x3x4>
    %h2 = blu.add %h1, %m : (t<2x3x4>, t<2x3x4>) -> t<2x3x4>
    blu.yield %h2 : t<2x3x4>
  }
  %gf = blu.param "lnf.w" init(#blu.ones) : t<4>
  %bfin = blu.param "lnf.b" init(#blu.zeros) : t<4>
  %n = blu.layer_norm %hn, %gf, %bfin eps = 1.0e-2 : (t<2x3x4>, t<4>, t<4>) -> t<2x3x4>
  %logits = blu.linear %n, %wte : (t<2x3x4>, t<7x4>) -> t<2x3x7>
  %loss = blu.cross_entropy %logits, %targets ignore_index = -100 reduction(mean) : (t<2x3x7>, i<2x3>) -> t<>)";

std::vector<Case> blutrain::test::structureCases() {
  std::vector<Case> cases;
  cases.push_back(
      {"stack_of_parameters",
       {{"x", "t<2x3>"}},
       R"(%y = blu.stack "block" [0 to 3] carry(%h = %x) : (t<2x3>) -> (t<2x3>) {
                        %w = blu.param "w" init(#blu.zeros) : t<3x3>
                        %n = blu.linear %h, %w : (t<2x3>, t<3x3>) -> t<2x3>
                        %a = blu.tanh %n : t<2x3>
                        blu.yield %a : t<2x3>
                      })",
       {{"y", "t<2x3>"}}});
  cases.push_back(
      {"stack_from_three",
       {{"x", "t<2>"}},
       R"(%y = blu.stack "block" [3 to 5] carry(%h = %x) : (t<2>) -> (t<2>) {
                        %w = blu.param "w" init(#blu.zeros) : t<2>
                        %n = blu.mul %h, %w : (t<2>, t<2>) -> t<2>
                        blu.yield %n : t<2>
                      })",
       {{"y", "t<2>"}}});
  cases.push_back(
      {"stack_once",
       {{"x", "t<2>"}},
       R"(%y = blu.stack "block" [0 to 1] carry(%h = %x) : (t<2>) -> (t<2>) {
                        %w = blu.param "w" init(#blu.zeros) : t<2>
                        %n = blu.mul %h, %w : (t<2>, t<2>) -> t<2>
                        blu.yield %n : t<2>
                      })",
       {{"y", "t<2>"}}});
  // The captured value's cotangent adds up over the iterations.
  cases.push_back({"stack_capture",
                   {{"x", "t<2x3>"}, {"c", "t<3>"}},
                   R"(%k = blu.exp %c : t<3>
                      %y = blu.stack "block" [0 to 3] carry(%h = %x) : (t<2x3>) -> (t<2x3>) {
                        %s = blu.sigmoid %h : t<2x3>
                        %n = blu.mul %s, %k : (t<2x3>, t<3>) -> t<2x3>
                        blu.yield %n : t<2x3>
                      })",
                   {{"y", "t<2x3>"}}});
  cases.push_back(
      {"stack_two_carries",
       {{"a", "t<3>"}, {"b", "t<3>"}},
       R"(%p, %q = blu.stack "block" [0 to 4] carry(%u = %a, %v = %b) : (t<3>, t<3>) -> (t<3>, t<3>) {
                        %n = blu.mul %u, %v : (t<3>, t<3>) -> t<3>
                        %m = blu.tanh %u : t<3>
                        blu.yield %n, %m : t<3>, t<3>
                      })",
       {{"p", "t<3>"}, {"q", "t<3>"}}});
  // One of the two carried results is not used.
  cases.push_back(
      {"stack_unused_carry",
       {{"a", "t<3>"}, {"b", "t<3>"}},
       R"(%p, %q = blu.stack "block" [0 to 3] carry(%u = %a, %v = %b) : (t<3>, t<3>) -> (t<3>, t<3>) {
                        %n = blu.mul %u, %v : (t<3>, t<3>) -> t<3>
                        %m = blu.tanh %n : t<3>
                        blu.yield %n, %m : t<3>, t<3>
                      })",
       {{"q", "t<3>"}}});
  // A carried integer takes no part; the iteration selects.
  cases.push_back({"stack_iteration",
                   {{"x", "t<3>"}, {"ids", "i<3>", values({0, 1, 2})}},
                   R"(%one = blu.constant dense<1> : i<>
                      %table = blu.param "table" init(#blu.zeros) : t<6x3>
                      %y, %last = blu.stack "block" [0 to 3] iteration(%i) carry(%h = %x, %n = %ids) : (t<3>, i<3>) -> (t<3>, i<3>) {
                        %e = blu.embedding %table, %n : (t<6x3>, i<3>) -> t<3x3>
                        %s = blu.reduce_sum %e [0] : (t<3x3>) -> t<3>
                        %f = blu.cast %i : l<> to t<>
                        %g = blu.mul %s, %f : (t<3>, t<>) -> t<3>
                        %m = blu.mul %h, %g : (t<3>, t<3>) -> t<3>
                        %k = blu.add %h, %m : (t<3>, t<3>) -> t<3>
                        %next = blu.add %n, %one : (i<3>, i<>) -> i<3>
                        blu.yield %k, %next : t<3>, i<3>
                      })",
                   {{"y", "t<3>"}}});
  cases.push_back(
      {"stack_slices_and_collections",
       {{"x", "t<3>"}, {"ws", "t<4x3>"}},
       R"(%y, %all = blu.stack "block" [0 to 4] carry(%h = %x) slices(%w = %ws) : (t<3>, t<4x3>) -> (t<3>, t<4x3>) {
                        %n = blu.mul %h, %w : (t<3>, t<3>) -> t<3>
                        %a = blu.silu %n : t<3>
                        %z = blu.tanh %h : t<3>
                        blu.yield %a, %z : t<3>, t<3>
                      })",
       {{"y", "t<3>"}, {"all", "t<4x3>"}}});
  cases.push_back(
      {"stack_reverse",
       {{"x", "t<3>"}, {"ws", "t<4x3>"}},
       R"(%y, %all = blu.stack "block" [0 to 4] carry(%h = %x) slices(%w = %ws) reverse : (t<3>, t<4x3>) -> (t<3>, t<4x3>) {
                        %n = blu.mul %h, %w : (t<3>, t<3>) -> t<3>
                        %a = blu.silu %n : t<3>
                        blu.yield %a, %n : t<3>, t<3>
                      })",
       {{"y", "t<3>"}, {"all", "t<4x3>"}}});
  cases.push_back(
      {"stack_nested",
       {{"x", "t<3>"}, {"c", "t<3>"}},
       R"(%y = blu.stack "outer" [0 to 2] carry(%h = %x) : (t<3>) -> (t<3>) {
                        %w = blu.param "w" init(#blu.zeros) : t<3>
                        %s = blu.mul %w, %c : (t<3>, t<3>) -> t<3>
                        %z = blu.stack "inner" [0 to 3] carry(%g = %h) : (t<3>) -> (t<3>) {
                          %n = blu.mul %g, %s : (t<3>, t<3>) -> t<3>
                          %m = blu.add %n, %c : (t<3>, t<3>) -> t<3>
                          %a = blu.tanh %m : t<3>
                          blu.yield %a : t<3>
                        }
                        %o = blu.add %z, %h : (t<3>, t<3>) -> t<3>
                        blu.yield %o : t<3>
                      })",
       {{"y", "t<3>"}}});
  cases.push_back(
      {"stack_in_checkpoint_in_stack",
       {{"x", "t<3>"}},
       R"(%y = blu.stack "outer" [0 to 2] carry(%h = %x) : (t<3>) -> (t<3>) {
                        %w = blu.param "w" init(#blu.zeros) : t<3>
                        %c = blu.checkpoint -> t<3> {
                          %z = blu.stack "inner" [0 to 2] carry(%g = %h) : (t<3>) -> (t<3>) {
                            %n = blu.mul %g, %w : (t<3>, t<3>) -> t<3>
                            %a = blu.silu %n : t<3>
                            blu.yield %a : t<3>
                          }
                          blu.yield %z : t<3>
                        }
                        blu.yield %c : t<3>
                      })",
       {{"y", "t<3>"}}});
  // Two stacks, whose parameters have names of their own.
  cases.push_back(
      {"stacks_in_a_row",
       {{"x", "t<3>"}},
       R"(%a = blu.stack "one" [0 to 2] carry(%h = %x) : (t<3>) -> (t<3>) {
                        %w = blu.param "w" init(#blu.zeros) : t<3>
                        %n = blu.mul %h, %w : (t<3>, t<3>) -> t<3>
                        blu.yield %n : t<3>
                      }
                      %s = blu.param "w" init(#blu.zeros) : t<3>
                      %b = blu.add %a, %s : (t<3>, t<3>) -> t<3>
                      %y = blu.stack "two" [0 to 2] carry(%h = %b) : (t<3>) -> (t<3>) {
                        %w = blu.param "w" init(#blu.zeros) : t<3>
                        %n = blu.mul %h, %w : (t<3>, t<3>) -> t<3>
                        blu.yield %n : t<3>
                      })",
       {{"y", "t<3>"}}});
  cases.push_back({"checkpoint",
                   {{"x", "t<4>"}, {"c", "t<4>"}},
                   R"(%p, %q = blu.checkpoint -> t<4>, t<4> {
                        %e = blu.exp %x : t<4>
                        %s = blu.sigmoid %e : t<4>
                        %m = blu.mul %s, %c : (t<4>, t<4>) -> t<4>
                        blu.yield %m, %e : t<4>, t<4>
                      }
                      %y = blu.mul %p, %q : (t<4>, t<4>) -> t<4>)",
                   {{"y", "t<4>"}}});
  cases.push_back({"checkpoint_nested",
                   {{"x", "t<4>"}},
                   R"(%y = blu.checkpoint -> t<4> {
                        %w = blu.param "w" init(#blu.zeros) : t<4>
                        %i = blu.checkpoint -> t<4> {
                          %t = blu.tanh %x : t<4>
                          %m = blu.mul %t, %w : (t<4>, t<4>) -> t<4>
                          blu.yield %m : t<4>
                        }
                        %s = blu.silu %i : t<4>
                        blu.yield %s : t<4>
                      })",
                   {{"y", "t<4>"}}});
  cases.push_back(
      {"checkpoint_in_stack",
       {{"x", "t<3>"}},
       R"(%y = blu.stack "block" [0 to 3] carry(%h = %x) : (t<3>) -> (t<3>) {
                        %w = blu.param "w" init(#blu.zeros) : t<3>
                        %c = blu.checkpoint -> t<3> {
                          %n = blu.mul %h, %w : (t<3>, t<3>) -> t<3>
                          %s = blu.silu %n : t<3>
                          blu.yield %s : t<3>
                        }
                        %o = blu.add %c, %h : (t<3>, t<3>) -> t<3>
                        blu.yield %o : t<3>
                      })",
       {{"y", "t<3>"}}});
  cases.push_back({"checkpoint_dropout",
                   {{"x", "t<9>"}, {"key", "l<>", values({7})}},
                   R"(%y = blu.checkpoint -> t<9> {
                        %d = blu.dropout %x key %key rate = 0.5 : t<9>
                        %e = blu.exp %d : t<9>
                        blu.yield %e : t<9>
                      })",
                   {{"y", "t<9>"}}});
  cases.push_back({"shared_parameter",
                   {{"x", "t<2x3>"}},
                   R"(%w = blu.param "w" init(#blu.zeros) : t<3x3>
                      %a = blu.linear %x, %w : (t<2x3>, t<3x3>) -> t<2x3>
                      %t = blu.tanh %a : t<2x3>
                      %y = blu.matmul %t, %w : (t<2x3>, t<3x3>) -> t<2x3>)",
                   {{"y", "t<2x3>"}}});
  // A parameter outside a stack that each iteration uses, and the head too.
  cases.push_back({"shared_with_stack",
                   {{"x", "t<3>"}},
                   R"(%w = blu.param "w" init(#blu.zeros) : t<3>
                      %h1 = blu.stack "block" [0 to 2] carry(%h = %x) : (t<3>) -> (t<3>) {
                        %n = blu.mul %h, %w : (t<3>, t<3>) -> t<3>
                        %o = blu.tanh %n : t<3>
                        blu.yield %o : t<3>
                      }
                      %y = blu.add %h1, %w : (t<3>, t<3>) -> t<3>)",
                   {{"y", "t<3>"}}});
  cases.push_back({"fan_out",
                   {{"x", "t<4>"}},
                   R"(%e = blu.exp %x : t<4>
                      %t = blu.tanh %e : t<4>
                      %m = blu.mul %e, %t : (t<4>, t<4>) -> t<4>
                      %y = blu.add %m, %e : (t<4>, t<4>) -> t<4>)",
                   {{"y", "t<4>"}, {"t", "t<4>"}, {"e", "t<4>"}}});
  // A result that is an argument, one that is a constant, an unused argument.
  cases.push_back({"degenerate_results",
                   {{"x", "t<2>"}, {"unused", "t<3>"}},
                   "%c = blu.constant dense<[1.0, 2.0]> : t<2>",
                   {{"x", "t<2>"}, {"c", "t<2>"}}});
  cases.push_back({"gpt2",
                   {{"tokens", "i<2x3>", values({1, 4, 6, 1, 0, 3})},
                    {"targets", "i<2x3>", values({4, 6, 2, 0, -100, 5})}},
                   gpt2,
                   {{"loss", "t<>"}, {"logits", "t<2x3x7>"}}});
  return cases;
}
