module {
  blu.model @gpt2(%tokens: tensor<?x?xi32> {blu.name = "tokens"}, %targets: tensor<?x?xi32> {blu.name = "targets"}) -> (tensor<f32> {blu.name = "loss"}, tensor<?x?xf32> {blu.name = "token_loss"}, tensor<?x?x256xf32> {blu.name = "logits"}) attributes {blu.context = 32 : i64, blu.heads = 4 : i64, blu.vocab_size = 256 : i64} {
    %wte.weight = blu.param "wte.weight" init(#blu.normal<0.000000e+00, 2.000000e-02>) export("wte.weight") : tensor<256x64xf32>
    %wpe.weight = blu.param "wpe.weight" init(#blu.normal<0.000000e+00, 2.000000e-02>) export("wpe.weight") : tensor<32x64xf32>
    %0 = blu.positions %tokens dim = 1 : (tensor<?x?xi32>) -> tensor<?xi32>
    %1 = blu.embedding %wte.weight, %tokens : (tensor<256x64xf32>, tensor<?x?xi32>) -> tensor<?x?x64xf32>
    %2 = blu.embedding %wpe.weight, %0 : (tensor<32x64xf32>, tensor<?xi32>) -> tensor<?x64xf32>
    %3 = blu.add %1, %2 : (tensor<?x?x64xf32>, tensor<?x64xf32>) -> tensor<?x?x64xf32>
    %4 = blu.dropout %3 rate = 0.000000e+00 : tensor<?x?x64xf32>
    %5 = blu.stack "block" [0 to 2] iteration(%iteration) carry(%arg0 = %4) : (tensor<?x?x64xf32>) -> tensor<?x?x64xf32> {
      %ln_1.weight = blu.param "ln_1.weight" init(#blu.ones) export("h.{i}.ln_1.weight") : tensor<64xf32>
      %ln_1.bias = blu.param "ln_1.bias" init(#blu.zeros) export("h.{i}.ln_1.bias") : tensor<64xf32>
      %10 = blu.layer_norm %arg0, %ln_1.weight, %ln_1.bias eps = 1.000000e-05 : (tensor<?x?x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<?x?x64xf32>
      %attn.c_attn.weight = blu.param "attn.c_attn.weight" init(#blu.normal<0.000000e+00, 2.000000e-02>) export("h.{i}.attn.c_attn.weight" transpose) : tensor<192x64xf32>
      %attn.c_attn.bias = blu.param "attn.c_attn.bias" init(#blu.zeros) export("h.{i}.attn.c_attn.bias") : tensor<192xf32>
      %11 = blu.linear %10, %attn.c_attn.weight, %attn.c_attn.bias : (tensor<?x?x64xf32>, tensor<192x64xf32>, tensor<192xf32>) -> tensor<?x?x192xf32>
      %12:3 = blu.split %11 dim = 2 [64, 64, 64] : (tensor<?x?x192xf32>) -> (tensor<?x?x64xf32>, tensor<?x?x64xf32>, tensor<?x?x64xf32>)
      %13 = blu.reshape %12#0 [0, 0, 4, -1] : (tensor<?x?x64xf32>) -> tensor<?x?x4x16xf32>
      %14 = blu.reshape %12#1 [0, 0, 4, -1] : (tensor<?x?x64xf32>) -> tensor<?x?x4x16xf32>
      %15 = blu.reshape %12#2 [0, 0, 4, -1] : (tensor<?x?x64xf32>) -> tensor<?x?x4x16xf32>
      %result, %lse = blu.attention %13, %14, %15 scale = 2.500000e-01 causal : (tensor<?x?x4x16xf32>, tensor<?x?x4x16xf32>, tensor<?x?x4x16xf32>) -> (tensor<?x?x4x16xf32>, tensor<?x4x?xf32>)
      %16 = blu.reshape %result [0, 0, -1] : (tensor<?x?x4x16xf32>) -> tensor<?x?x64xf32>
      %attn.c_proj.weight = blu.param "attn.c_proj.weight" init(#blu.normal<0.000000e+00, 1.000000e-02>) export("h.{i}.attn.c_proj.weight" transpose) : tensor<64x64xf32>
      %attn.c_proj.bias = blu.param "attn.c_proj.bias" init(#blu.zeros) export("h.{i}.attn.c_proj.bias") : tensor<64xf32>
      %17 = blu.linear %16, %attn.c_proj.weight, %attn.c_proj.bias : (tensor<?x?x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<?x?x64xf32>
      %18 = blu.dropout %17 rate = 0.000000e+00 : tensor<?x?x64xf32>
      %19 = blu.add %arg0, %18 : (tensor<?x?x64xf32>, tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
      %ln_2.weight = blu.param "ln_2.weight" init(#blu.ones) export("h.{i}.ln_2.weight") : tensor<64xf32>
      %ln_2.bias = blu.param "ln_2.bias" init(#blu.zeros) export("h.{i}.ln_2.bias") : tensor<64xf32>
      %20 = blu.layer_norm %19, %ln_2.weight, %ln_2.bias eps = 1.000000e-05 : (tensor<?x?x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<?x?x64xf32>
      %mlp.c_fc.weight = blu.param "mlp.c_fc.weight" init(#blu.normal<0.000000e+00, 2.000000e-02>) export("h.{i}.mlp.c_fc.weight" transpose) : tensor<256x64xf32>
      %mlp.c_fc.bias = blu.param "mlp.c_fc.bias" init(#blu.zeros) export("h.{i}.mlp.c_fc.bias") : tensor<256xf32>
      %21 = blu.linear %20, %mlp.c_fc.weight, %mlp.c_fc.bias : (tensor<?x?x64xf32>, tensor<256x64xf32>, tensor<256xf32>) -> tensor<?x?x256xf32>
      %22 = blu.gelu %21 approximate(tanh) : tensor<?x?x256xf32>
      %mlp.c_proj.weight = blu.param "mlp.c_proj.weight" init(#blu.normal<0.000000e+00, 1.000000e-02>) export("h.{i}.mlp.c_proj.weight" transpose) : tensor<64x256xf32>
      %mlp.c_proj.bias = blu.param "mlp.c_proj.bias" init(#blu.zeros) export("h.{i}.mlp.c_proj.bias") : tensor<64xf32>
      %23 = blu.linear %22, %mlp.c_proj.weight, %mlp.c_proj.bias : (tensor<?x?x256xf32>, tensor<64x256xf32>, tensor<64xf32>) -> tensor<?x?x64xf32>
      %24 = blu.dropout %23 rate = 0.000000e+00 : tensor<?x?x64xf32>
      %25 = blu.add %19, %24 : (tensor<?x?x64xf32>, tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
      blu.yield %25 : tensor<?x?x64xf32>
    }
    %ln_f.weight = blu.param "ln_f.weight" init(#blu.ones) export("ln_f.weight") : tensor<64xf32>
    %ln_f.bias = blu.param "ln_f.bias" init(#blu.zeros) export("ln_f.bias") : tensor<64xf32>
    %6 = blu.layer_norm %5, %ln_f.weight, %ln_f.bias eps = 1.000000e-05 : (tensor<?x?x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<?x?x64xf32>
    %7 = blu.linear %6, %wte.weight : (tensor<?x?x64xf32>, tensor<256x64xf32>) -> tensor<?x?x256xf32>
    %8 = blu.cross_entropy %7, %targets ignore_index = -100 reduction(mean) : (tensor<?x?x256xf32>, tensor<?x?xi32>) -> tensor<f32>
    %9 = blu.cross_entropy %7, %targets ignore_index = -100 reduction(none) : (tensor<?x?x256xf32>, tensor<?x?xi32>) -> tensor<?x?xf32>
    blu.return %8, %9, %7 : tensor<f32>, tensor<?x?xf32>, tensor<?x?x256xf32>
  }
}
