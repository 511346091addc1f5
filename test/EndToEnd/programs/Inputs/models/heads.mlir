// Two untied heads over one vocabulary of 61: a linear map with a bias whose
// logits become rows, and a product with a matrix of columns.
blu.model @heads(%tokens: tensor<?x?xi32> {blu.name = "tokens"}, %targets: tensor<?x?xi32> {blu.name = "targets"}) -> (tensor<f32> {blu.name = "loss"}) attributes {blu.vocab_size = 61 : i64} {
  %e = blu.param "e" init(#blu.normal<0.0, 0.5>) : tensor<61x12xf32>
  %w = blu.param "w" init(#blu.normal<0.0, 0.5>) : tensor<61x12xf32>
  %b = blu.param "b" init(#blu.normal<0.0, 0.5>) : tensor<61xf32>
  %v = blu.param "v" init(#blu.normal<0.0, 0.5>) export("head" transpose) : tensor<12x61xf32>
  %x = blu.embedding %e, %tokens : (tensor<61x12xf32>, tensor<?x?xi32>) -> tensor<?x?x12xf32>
  %y = blu.tanh %x : tensor<?x?x12xf32>
  %z = blu.linear %y, %w, %b : (tensor<?x?x12xf32>, tensor<61x12xf32>, tensor<61xf32>) -> tensor<?x?x61xf32>
  %rows = blu.reshape %z [-1, 61] : (tensor<?x?x61xf32>) -> tensor<?x61xf32>
  %labels = blu.reshape %targets [-1] : (tensor<?x?xi32>) -> tensor<?xi32>
  %l = blu.cross_entropy %rows, %labels ignore_index = -100 reduction(mean) : (tensor<?x61xf32>, tensor<?xi32>) -> tensor<f32>
  %u = blu.matmul %y, %v : (tensor<?x?x12xf32>, tensor<12x61xf32>) -> tensor<?x?x61xf32>
  %k = blu.cross_entropy %u, %targets ignore_index = -100 reduction(mean) : (tensor<?x?x61xf32>, tensor<?x?xi32>) -> tensor<f32>
  %loss = blu.add %l, %k : (tensor<f32>, tensor<f32>) -> tensor<f32>
  blu.return %loss : tensor<f32>
}
