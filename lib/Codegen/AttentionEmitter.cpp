#include "HostEmitter.h"
using namespace mlir;
using namespace mlir::blurt;
LogicalResult blurt::emitAttention(AttentionOp op, HostEmitter &host) { return failure(); }
LogicalResult blurt::emitAttentionGrad(AttentionGradOp op, HostEmitter &host) { return failure(); }
