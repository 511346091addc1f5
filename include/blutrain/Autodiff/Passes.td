//===- Passes.td - from a model to its training step -------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_AUTODIFF_PASSES_TD
#define BLUTRAIN_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def InstantiateProgramsPass : Pass<"blu-instantiate-programs", "::mlir::ModuleOp"> {
  let summary = "one model of static shapes for each program of the executable";
  let description = [{
    Replaces the module's only `blu.model` by a copy for each program it can be run
    as, with the results that program needs and every unknown dim replaced: dim 0
    of an argument by the batch, dim 1 by the sequence length. `train` keeps
    `loss`; `eval` keeps `loss`, `token_loss` and, if their rank is 2, `logits`.
    `prefill` (a chunk of the prompt) and `decode` (one token) keep
    `logits` and run on one sequence; a model has them if it has an argument
    `tokens`, a result `logits` and the attribute `blu.context`, and all its
    attention is causal, within at most one stack, without uses of its lse. Only
    `train` keeps checkpoint regions; elsewhere they are inlined. An unknown dim that
    is left over is an error.

    ```mlir
    blu.model @m(%x: tensor<?x4xf32> {blu.name = "x"}) -> (tensor<f32> {blu.name = "loss"}) {…}
    // batch=8 becomes
    blu.model @train(%x: tensor<8x4xf32> …) -> (tensor<f32> …) attributes {blu.program = 0 : i32, …} {…}
    blu.model @eval(%x: tensor<8x4xf32> …) -> (tensor<f32> …) attributes {blu.program = 1 : i32, …} {…}
    ```
  }];
  let options = [
    Option<"batch", "batch", "int64_t", /*default=*/"0",
           "sequences or samples a microbatch; 0 if the model says it">,
    Option<"seq", "seq", "int64_t", /*default=*/"0",
           "tokens a sequence; 0 if the model says it or has none">,
    Option<"trainOnly", "train-only", "bool", /*default=*/"false",
           "only the train program">
  ];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def PadVocabularyPass : Pass<"blu-pad-vocabulary", "::mlir::ModuleOp"> {
  let summary = "logits of an aligned number of columns";
  let description = [{
    Where what a product computes goes into a `blu.cross_entropy`, and the number of
    classes is no multiple of 8, zeros are appended to the weight (and the bias) up
    to a multiple of `multiple`, unless that is more than a sixteenth of the classes. The
    loss is told how many of the columns are `classes`; whatever else reads the
    logits gets a slice of them. Parameters stay what they are: the padding is of
    the value that the product reads.

    ```mlir
    %z = blu.linear %x, %w : (tensor<8x4xf32>, tensor<61x4xf32>) -> tensor<8x61xf32>
    %l = blu.cross_entropy %z, %t ignore_index = -100 reduction(mean) : …
    // multiple=64 becomes
    %0 = blu.constant dense<0.0> : tensor<3x4xf32>
    %v = blu.concat dim = 0 %w, %0 : (tensor<61x4xf32>, tensor<3x4xf32>) -> tensor<64x4xf32>
    %z = blu.linear %x, %v : (tensor<8x4xf32>, tensor<64x4xf32>) -> tensor<8x64xf32>
    %l = blu.cross_entropy %z, %t ignore_index = -100 reduction(mean) classes = 61 : …
    ```
  }];
  let options = [Option<"multiple", "multiple", "int64_t", /*default=*/"64",
                        "columns are a multiple of this; 0 disables the pass">];
  let statistics = [Statistic<"numPadded", "padded",
                              "products with padded columns">];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def SetPrecisionPass : Pass<"blu-set-precision", "::mlir::ModuleOp"> {
  let summary = "element types by precision policy";
  let description = [{
    `fp32` leaves models, which are written in f32, as they are; `fp64` makes every
    f32 an f64. `tf32` leaves them, too, and sets the module's `blu.tf32`, from
    which `blurt-set-tf32` marks products and attention; so does `fp32tc` with
    `blu.split` for `blurt-set-split`.

    `bf16` rounds activations, by casts: what computes is in f32, between a cast of
    its operands and one of its result, but for products, attention, and elementwise
    ops all of whose operands are activations, which have bf16 operands and results.
    Parameters stay f32 and are cast for products, once a step. Probabilities,
    losses, other reductions, exp and log, and what they go into elementwise, stay
    f32, as do the model's inputs and results, and a residual stream, which a stack
    carries and every iteration adds to. Anything else that a stack carries is
    rounded (if its rank is at least 2). A product that is nothing but a result is
    wide.

    ```mlir
    %y = blu.linear %x, %w : (tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<8x2xf32>
    %z = blu.tanh %y : tensor<8x2xf32>
    // policy=bf16, with %x an activation and %w a parameter, becomes
    %v = blu.cast %w : tensor<2x4xf32> to tensor<2x4xbf16>
    %y = blu.linear %x, %v : (tensor<8x4xbf16>, tensor<2x4xbf16>) -> tensor<8x2xbf16>
    %a = blu.cast %y : tensor<8x2xbf16> to tensor<8x2xf32>
    %b = blu.tanh %a : tensor<8x2xf32>
    %z = blu.cast %b : tensor<8x2xf32> to tensor<8x2xbf16>
    ```
  }];
  let options = [Option<"policy", "policy", "std::string", /*default=*/"\"fp32\"",
                        "fp64, fp32, fp32tc, tf32 or bf16">];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def RematerializePass : Pass<"blu-rematerialize", "::mlir::ModuleOp"> {
  let summary = "a checkpoint region around the body of each outermost stack";
  let description = [{
    Then only what goes from iteration to iteration is saved. Only the train program.

    ```mlir
    %y = blu.stack "b" [0 to 4] iteration(%i) carry(%h = %x) : … { %n = blu.exp %h : …  blu.yield %n : … }
    // becomes
    %y = blu.stack "b" [0 to 4] iteration(%i) carry(%h = %x) : … {
      %c = blu.checkpoint -> … { %n = blu.exp %h : …  blu.yield %n : … }
      blu.yield %c : …
    }
    ```
  }];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def HoistCastsPass : Pass<"blu-hoist-casts", "::mlir::ModuleOp"> {
  let summary = "casts of a stack's slices become slices of casts";
  let description = [{
    The weights of all iterations are then rounded at once, at the head of the step,
    and their rounded copies serve the backward pass as well.

    ```mlir
    %y = blu.stack "b" [0 to 4] carry(%h = %x) slices(%w = %ws) : … { %v = blu.cast %w : …  … }
    // becomes
    %vs = blu.cast %ws : …
    %y = blu.stack "b" [0 to 4] carry(%h = %x) slices(%w = %ws, %v = %vs) : … { … }
    ```
  }];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def KeyDropoutPass : Pass<"blu-key-dropout", "::mlir::ModuleOp"> {
  let summary = "keys for dropout in training, no dropout elsewhere";
  let description = [{
    Sets the rate of every `blu.dropout` of the train program if asked to and gives
    it a key of the scalars `seed` and `step`, its place in the model and the
    iterations of the stacks around it. Other programs lose their dropout, and so
    does the train program at rate 0.

    ```mlir
    %y = blu.dropout %x rate = 1.000000e-01 : tensor<8xf32>
    // becomes
    %k = blu.random_key %seed, %step site = 0 : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %y = blu.dropout %x key %k rate = 1.000000e-01 : tensor<8xf32>
    ```
  }];
  let options = [Option<"rate", "rate", "double", /*default=*/"-1.0",
                        "rate of every dropout; negative keeps the model's">];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def MaterializeStatePass : Pass<"blu-materialize-state", "::mlir::ModuleOp"> {
  let summary = "models become steps, parameters become arguments";
  let description = [{
    Each `blu.model` with a program becomes a `blu.step`. A parameter becomes an
    argument of role `param`; those of a stack become one argument with the
    iterations along dim 0, and a slice of the stack.

    ```mlir
    blu.model @eval(%x: tensor<8x4xf32> {blu.name = "x"}) -> (tensor<8x4xf32> {blu.name = "y"}) attributes {blu.program = 1 : i32} {
      %w = blu.param "w" init(#blu.ones) : tensor<4xf32>
      …
    // becomes
    blu.step @eval program(eval) (%w: tensor<4xf32> {blu.tensor = {name = "w", role = "param", init = "ones", …}},
                   %x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}})
        -> (tensor<8x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
    ```
  }];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def CacheAttentionPass : Pass<"blu-cache-attention", "::mlir::ModuleOp"> {
  let summary = "generation attends over a key-value cache";
  let description = [{
    In the steps prefill and decode, each `blu.attention` becomes a
    `blu.cached_attention` over caches of the model's context length, state of the
    step with role `cache`; `blu.positions` starts at the scalar `position`.

    ```mlir
    %o, %lse = blu.attention %q, %k, %v scale = 0.125 causal : …
    // becomes
    %o, %kc1, %vc1 = blu.cached_attention %q, %k, %v, %kc, %vc at %position scale = 0.125 : …
    ```
  }];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def DifferentiateLossPass : Pass<"blu-differentiate", "::mlir::ModuleOp"> {
  let summary = "the backward pass of the train step";
  let description = [{
    Adds to the train step one result of role `gradient` for each parameter: the
    derivative of the result `loss`. With microbatches the loss and its gradient
    are divided by their number, so that they add up to the mean. A mean over
    counted labels is one over those of all microbatches: `blu.cross_entropy` with
    `reduction(mean)` becomes a sum, divided by the scalar `countedN` and multiplied
    by the number of microbatches; the microbatch's own count becomes a result of
    role `count` and that name.

    ```mlir
    blu.step @train program(train) (%w: …) -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}})
    // becomes
    blu.step @train program(train) (%w: …) -> (tensor<f32> {…"loss"…}, tensor<4xf32> {blu.tensor = {name = "w", role = "gradient"}})
    ```
  }];
  let options = [
    Option<"microbatches", "microbatches", "int64_t", /*default=*/"1",
           "microbatches a step">,
    Option<"recompute", "recompute", "std::string", /*default=*/"\"cheap\"",
           "what stacks compute again in the backward pass: views, cheap">
  ];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def ChunkLossHeadPass : Pass<"blu-chunk-loss-head", "::mlir::ModuleOp"> {
  let summary = "loss and its gradient by chunks of rows, without full logits";
  let description = [{
    A `blu.linear` without bias whose result only goes into `blu.cross_entropy`,
    `blu.cross_entropy_grad` and the two products of its gradient is computed,
    with all of these, chunk by chunk of rows in a stack. The number of counted rows
    is known beforehand, so nothing is computed twice.

    ```mlir
    %z = blu.linear %x, %w : (tensor<64x8xf32>, tensor<1000x8xf32>) -> tensor<64x1000xf32>
    %l = blu.cross_entropy %z, %t ignore_index = -100 reduction(mean) : …
    // becomes
    %sum = blu.stack "loss_head" [0 to 4] iteration(%i) carry(%s = %zero) slices(%xc = …, %tc = …) : … {
      %z = blu.linear %xc, %w : (tensor<16x8xf32>, tensor<1000x8xf32>) -> tensor<16x1000xf32>
      %l = blu.cross_entropy %z, %tc ignore_index = -100 reduction(sum) : …
      …
    ```
  }];
  let options = [Option<"bytes", "bytes", "int64_t", /*default=*/"16777216",
                        "most bytes of logits a chunk; 0 disables the pass">];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def AccumulateGradientsPass : Pass<"blu-accumulate-gradients", "::mlir::ModuleOp"> {
  let summary = "the step over several microbatches";
  let description = [{
    Moves the body of the train step into a `blu.accumulate` over `microbatches`;
    inputs get a new dim 0 of that extent. What results of role `count` are computed
    from is done in a `blu.accumulate` before that one, as well; its sums take the
    place of the scalars of their names.

    ```mlir
    %g = … %x …
    // becomes
    %g = blu.accumulate [4] iteration(%k) slices(%x = %xs) : … { %g1 = … %x …  blu.yield %g1 : … }
    ```
  }];
  let options = [Option<"microbatches", "microbatches", "int64_t",
                        /*default=*/"1", "microbatches a step">];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def AppendOptimizerPass : Pass<"blu-append-optimizer", "::mlir::ModuleOp"> {
  let summary = "norm, clipping and parameter updates at the end of the step";
  let description = [{
    Adds to the train step the optimizer's state as arguments, hyperparameters as
    scalars, and new state as donated results; the global norm of the gradients
    becomes the output `grad_norm`. Gradients stay outputs, as they are before
    clipping.

    Each of `groups` is `PATTERN:lr=FACTOR:decay=FACTOR`, one factor or both: the
    learning rate and the weight decay of the parameters whose name, in the model or
    in weight files, matches the glob pattern are multiplied by them; `decay=1` lets
    decay what by itself does not. Later groups win over earlier ones.

    The updates are guarded: where the loss or the norm is not finite, or not below
    the scalars `loss_limit` and `norm_limit`, state stays as it is, and the output
    `applied` is false. AdamW's step is a count of the updates that took effect,
    which is state too: `updates`, of role `moment1`.

    ```mlir
    blu.return %loss, %g : …
    // becomes
    %n = blu.global_norm %g : (tensor<4xf32>) -> tensor<f32>
    %s = blu.clip_scale %n, %clip : (tensor<f32>, tensor<f64>) -> tensor<f32>
    %c = blu.mul %g, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %ok = … %loss … %n … %loss_limit … %norm_limit … : tensor<i1>
    %t = blu.add %updates, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %u1 = blu.select %ok, %t, %updates : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
    %w1, %m1, %v1 = blu.adamw %w, %c, %m, %v step %u1 lr %lr betas %b1, %b2 eps %e weight_decay %wd when %ok : tensor<4xf32>
    blu.return %loss, %g, %u1, %w1, %m1, %v1, %n, %ok : …
    ```
  }];
  let options = [Option<"optimizer", "optimizer", "std::string",
                        /*default=*/"\"adamw\"", "adamw or sgd">,
                 ListOption<"groups", "groups", "std::string",
                            "factors of learning rate and weight decay by "
                            "parameter name">];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

def VjpPass : Pass<"blu-vjp", "::mlir::ModuleOp"> {
  let summary = "a step that computes a model's results and vector-Jacobian product";
  let description = [{
    For tests and experiments: replaces the module's only `blu.model`, whose shapes
    are static, by the step `vjp`. Beside the model's inputs it has an input
    `gout.R` for each float result R; it returns each result and, for each float
    argument or parameter A, `gin.A`: the derivative of Σ_R Σ R·gout.R by A.

    ```mlir
    blu.model @m(%x: tensor<4xf32> {blu.name = "x"}) -> (tensor<4xf32> {blu.name = "y"}) {…}
    // becomes
    blu.step @vjp program(vjp) (%x: … "x" …, %g: … "gout.y" …) -> (… "y" …, … "gin.x" …) {…}
    ```
  }];
  let options = [
    Option<"recompute", "recompute", "std::string", /*default=*/"\"cheap\"",
           "what stacks compute again in the backward pass: views, cheap">
  ];
  let dependentDialects = ["::mlir::blu::BluDialect"];
}

#endif // BLUTRAIN_AUTODIFF_PASSES_TD
