//===- blurt.h - C ABI between compiled programs and the runtime -*- C -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A compiled model is one object file that defines exactly one public symbol,
//
//     const blurt_program blurt_program_main;
//
// and calls back into the runtime only through the functions declared at the
// end of this header. The runtime is linked statically into the executable; a
// table whose `abi_version` differs from BLURT_ABI_VERSION is refused.
//
// Everything the program touches lives in one arena per device. The table says
// where: a tensor is `base + offset`, in row-major order, little-endian, and at
// least 64-byte aligned. State (parameters, optimizer moments, caches) lies in
// the first `state_bytes` bytes at the same offsets for every entry of the
// table and survives between calls; the rest is scratch that an entry may
// overwrite, so inputs are written immediately before, and outputs read
// immediately after, a call of their own entry.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_BLURT_H
#define BLURT_BLURT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BLURT_ABI_VERSION 7
#define BLURT_ALIGNMENT 64

typedef enum blurt_dtype {
  BLURT_F64 = 0,
  BLURT_F32 = 1,
  BLURT_BF16 = 2,
  BLURT_I64 = 3,
  BLURT_I32 = 4,
  BLURT_I1 = 5 /* one byte an element, 0 or 1 */
} blurt_dtype;

typedef enum blurt_role {
  BLURT_PARAM = 0,   /* trained parameter                                   */
  BLURT_MOMENT1 = 1, /* optimizer state of the parameter of the same name,  */
                     /* or of all: AdamW's `updates`, i64                   */
  BLURT_MOMENT2 = 2, /* second optimizer state of the same name             */
  BLURT_CACHE = 3,   /* generation state; zeroed when a sequence begins     */
  BLURT_INPUT = 4,   /* written by the caller before an entry is called     */
  BLURT_OUTPUT = 5,  /* read by the caller after an entry returned          */
  BLURT_SCALAR = 6,  /* rank-0 input: lr, beta1, step, seed, position, …    */
  BLURT_GRADIENT = 7 /* output of `train`: gradient before clipping         */
} blurt_role;

typedef enum blurt_init_kind {
  BLURT_INIT_ZEROS = 0,
  BLURT_INIT_ONES = 1,
  BLURT_INIT_CONSTANT = 2, /* every element is init_a                        */
  BLURT_INIT_NORMAL = 3,   /* mean init_a, standard deviation init_b         */
  BLURT_INIT_UNIFORM = 4   /* uniform in [init_a, init_b)                    */
} blurt_init_kind;

/* One tensor of the program. A tensor declared inside a stack is stored as its
 * `stack_count` iterations one after the other: `shape` is the shape of one
 * iteration, iteration i lies at `offset + i * stack_stride` (only the first is
 * sure to be aligned), and `{i}` in
 * `name` and `export_name` stands for `stack_first + i`. A tensor outside any
 * stack has stack_count 0. Nested stacks are not expressible in ABI 1.
 */
typedef struct blurt_tensor {
  const char *name;        /* unique among the tensors of one role            */
  const char *export_name; /* name in weight files; equals `name` by default  */
  int32_t role;            /* blurt_role                                      */
  int32_t dtype;           /* blurt_dtype                                     */
  int32_t rank;            /* 0 … 8                                           */
  int32_t export_transpose; /* 1: weight files store the two dims swapped     */
  const int64_t *shape;  /* `rank` extents                                  */
  uint64_t offset;       /* bytes from the arena's base                     */
  int64_t stack_count;   /* iterations, 0 outside stacks                    */
  int64_t stack_first;   /* number of the first iteration                   */
  uint64_t stack_stride; /* bytes between iterations                        */
  int32_t init_kind;     /* blurt_init_kind, for BLURT_PARAM                */
  int32_t decay;         /* 1: weight decay applies                         */
  double init_a, init_b;

  /* Of state that is cut among the devices of a mesh, `shards` of them; else 0.
   * `shape` is then one extent, that of a device's piece: `shard_shape` in
   * row-major order is cut into pieces of ⌈elements/shards⌉, device d having
   * the d-th, zeros behind a short one.
   */
  int64_t shards;
  int64_t shard_rank;
  const int64_t *shard_shape;
} blurt_tensor;

/*===----------------------------------------------------------------------===*
 * Device code; programs for the CPU have none of it
 *===----------------------------------------------------------------------===*/

typedef enum blurt_image_kind {
  BLURT_IMAGE_CUBIN = 0, /* runs on devices of its major version and at least
                            its minor one; with `specific`, on just its own   */
  BLURT_IMAGE_PTX = 1    /* text, ends in a 0 byte that `size` counts; the
                            driver compiles it for any device from `arch` on  */
} blurt_image_kind;

/* A box of a tensor that a kernel copies to shared memory at a time: what the
 * driver's tensor maps describe. Dimension 0 is the innermost one, whose
 * elements lie side by side; elements beyond an extent read as zero. The
 * address of the tensor is the kernel's argument `operand`.
 */
#define BLURT_MAP_RANK 5
typedef struct blurt_device_map {
  int32_t operand;
  int32_t dtype;   /* BLURT_F32 or BLURT_BF16                                */
  int32_t rank;    /* 1 … 5                                                  */
  int32_t swizzle; /* 0, or 128: chunk c of 16 bytes of a row of 128 bytes
                      lies at c ^ (row mod 8); or 64: of a row of 64 bytes at
                      c ^ (row / 2 mod 4)                                    */
  int64_t extents[BLURT_MAP_RANK];
  int64_t strides[BLURT_MAP_RANK]; /* bytes between elements; the first one is
                                      an element's size                      */
  int32_t box[BLURT_MAP_RANK];
  int32_t reserved; /* 0 */
} blurt_device_map;

/* How one kernel is launched. Its parameters are `num_args` device addresses,
 * then `num_maps` tensor maps by value.
 */
typedef struct blurt_device_kernel {
  const char *symbol; /* name in the image                                  */
  const char *source; /* the op it came from and where that was written     */
  uint32_t grid[3];   /* blocks                                             */
  uint32_t block[3];  /* threads a block                                    */
  uint32_t shared_bytes; /* dynamic shared memory of a block                  */
  uint32_t num_args;
  uint32_t num_maps;
  uint32_t reserved; /* 0 */
  const blurt_device_map *maps;

  /* Of one launch, for profiles: what it must read and write, each operand
   * once, and its arithmetic operations; 0 if not known.
   */
  uint64_t bytes, flops;
} blurt_device_kernel;

/* All kernels of the program for one architecture. Kernel i computes the same
 * from the same arguments in every image; how it is launched, and the last bits
 * of its results, may differ.
 */
typedef struct blurt_image {
  int32_t kind;     /* blurt_image_kind                                       */
  int32_t arch;     /* 80, 89, 90, …: compute capability × 10                 */
  int32_t specific; /* 1: `sm_90a`, which runs on capability 9.0 alone        */
  int32_t reserved; /* 0                                                      */
  uint64_t size;    /* bytes                                                  */
  const void *data;
  const blurt_device_kernel *kernels; /* as many as the device code says      */
} blurt_image;

typedef enum blurt_compute {
  BLURT_COMPUTE_F32 = 0,  /* IEEE FP32 products and sums                      */
  BLURT_COMPUTE_TF32 = 1, /* operands rounded to TF32, FP32 sums              */
  BLURT_COMPUTE_BF16 = 2  /* bf16 operands, FP32 sums                         */
} blurt_compute;

typedef enum blurt_epilogue {
  BLURT_EPILOGUE_NONE = 0,
  BLURT_EPILOGUE_BIAS = 1 /* adds extra[n] to every row                       */
} blurt_epilogue;

/* C[b] = op(A[b]) · op(B[b]) + beta · C[b], matrices as in blurt_gemm_f32
 * below. Identical problems share one entry of the table.
 */
typedef struct blurt_device_gemm {
  const char *source;  /* the op it came from and where that was written  */
  int32_t compute;     /* blurt_compute                                   */
  int32_t epilogue;    /* blurt_epilogue                                  */
  int32_t dtype_ab;    /* blurt_dtype of A and B                          */
  int32_t dtype_c;     /* blurt_dtype of C                                */
  int32_t dtype_extra; /* blurt_dtype of the epilogue's operand           */
  int32_t trans_a, trans_b;
  int32_t accumulate; /* 1: beta is 1, else 0                            */
  int64_t batch, m, n, k;
  int64_t lda, ldb, ldc;                /* elements between rows              */
  int64_t stride_a, stride_b, stride_c; /* elements between matrices          */
  int32_t align_a, align_b, align_c;    /* bytes, a power of two: what the
                                           addresses are multiples of         */
  int32_t reserved;                     /* 0                                  */
} blurt_device_gemm;

/* What kernels count in the arena, 64-bit numbers one after the other. They
 * begin at 0 and only grow.
 */
typedef enum blurt_counter {
  BLURT_COUNTER_BF16_PRODUCTS = 0,   /* products in three bf16 pieces         */
  BLURT_COUNTER_RECOMPUTED_ROWS = 1, /* rows of tiles computed in FP32        */
  BLURT_NUM_COUNTERS = 2
} blurt_counter;

/* What a program for CUDA adds. The workspace is a part of the arena in which
 * GEMMs and reductions keep partial results, one operation at a time.
 */
typedef struct blurt_device_code {
  int32_t num_images, num_kernels, num_gemms;
  int32_t reserved; /* 0 */
  const blurt_image *images;
  const blurt_device_gemm *gemms;
  uint64_t workspace_offset, workspace_bytes;
  uint64_t counters_offset; /* 0 if nothing is counted                        */
} blurt_device_code;

/* One entry: `train`, `eval`, `prefill` or `decode`. `run` executes one step on
 * the arena at `arena`; it allocates nothing. On the CPU it returns when all is
 * done; on a device `arena` is a device address, `run` returns when all is in
 * the queue, and nothing in it waits for the device.
 * `ctx` is the runtime's, passed through to the callbacks below.
 *
 * Well-known inputs:  `tokens`, `targets` (i32, batch × seq), or whatever the
 *                     model declares (`image`, `label`, …). With
 *                     `microbatches` K > 1 every input has a leading dim of K.
 * Well-known scalars: `lr`, `beta1`, `beta2`, `eps`, `weight_decay`,
 *                     `momentum`, `clip` (f64; clip 0 disables clipping),
 *                     `loss_limit`, `norm_limit` (f64; at or above them, as
 *                     where a number is not finite, `train` leaves state as it
 *                     is),
 *                     `dp_index` (i64: the device's number along axis dp),
 *                     `step` (i64, from 1), `seed` (i64), `position` (i64,
 *                     tokens already in the cache). An entry lists those it
 *                     reads; the others need not be set.
 * Well-known outputs: `loss`, `grad_norm`, `applied` (i1: whether `train`
 *                     changed state), `logits`, `token_loss`.
 */
typedef struct blurt_entry {
  const char *name;
  void (*run)(void *ctx, void *arena);
  uint64_t peak_bytes; /* arena bytes this entry needs, state included        */
  int64_t batch;       /* sequences (samples) a microbatch                    */
  int64_t seq;         /* tokens a sequence; 0 if the model has no seq dim    */
  int64_t microbatches;
  int32_t num_tensors; /* inputs, outputs, scalars, gradients, caches         */
  const blurt_tensor *tensors;
} blurt_entry;

/*===----------------------------------------------------------------------===*
 * Collectives; programs for one device have none
 *===----------------------------------------------------------------------===*/

typedef enum blurt_collective_kind {
  BLURT_REDUCE_SCATTER = 0, /* sums, of which a device keeps its piece */
  BLURT_ALL_GATHER = 1, /* pieces of all devices, on each                  */
  BLURT_LOCAL_SHARD = 2 /* a device's own piece of what all have           */
} blurt_collective_kind;

/* `batch` rows of `count` elements, each cut into pieces of `piece` elements:
 * device d's are [d·piece, (d+1)·piece) of a row, zeros beyond `count`.
 */
typedef struct blurt_collective_value {
  int64_t batch, count, piece;
  int32_t dtype; /* blurt_dtype: floats                                       */
  int32_t reserved; /* 0                                                      */
} blurt_collective_value;

typedef struct blurt_collective {
  int32_t kind; /* blurt_collective_kind                                      */
  int32_t num_values;
  int64_t size;       /* devices that take part                               */
  const char *axis;   /* of the mesh, along which these devices lie           */
  const char *source; /* the op it came from and where that was written       */
  const blurt_collective_value *values;
} blurt_collective;

typedef struct blurt_key_value {
  const char *key, *value;
} blurt_key_value;

typedef struct blurt_program {
  int32_t abi_version;
  int32_t num_entries;
  const char *name;      /* the model's symbol, `gpt2`                        */
  const char *target;    /* `cpu` or `cuda`                                   */
  const char *precision; /* `fp64`, `fp32`, …                                 */
  const char *optimizer; /* `adamw`, `sgd`                                    */
  const char *plan_hash; /* hex digest of the planned module                  */
  const blurt_entry *entries;
  const blurt_tensor *state; /* parameters, moments                           */
  int32_t num_state;
  int32_t num_metadata;
  const blurt_key_value *metadata; /* free-form: `vocab_size`, `context`,
                                      `compiler`, `source`, …                 */
  uint64_t state_bytes;
  uint64_t peak_bytes; /* arena size: the largest entry's peak                */
  const blurt_device_code *device; /* null unless the target is `cuda`        */
  int32_t num_collectives;
  int32_t reserved; /* 0                                                      */
  int64_t devices;  /* of the mesh, one process each; 1 without               */
  const blurt_collective *collectives;
} blurt_program;

extern const blurt_program blurt_program_main;

/*===----------------------------------------------------------------------===*
 * Called by compiled code
 *===----------------------------------------------------------------------===*/

/* A kernel computes tasks [begin, end) of its task range. `args` are the
 * addresses of its operands in the order the compiler laid down. What a task
 * computes, and in which order it adds, never depends on how the range is cut
 * among threads.
 */
typedef void (*blurt_kernel)(void *const *args, int64_t begin, int64_t end);

/* Runs tasks [0, tasks) of `kernel` on the thread pool of `ctx` and returns
 * when all are done. `grain` is the least number of tasks worth giving to a
 * thread.
 */
void blurt_parallel(void *ctx, blurt_kernel kernel, void *const *args,
                    int64_t tasks, int64_t grain);

/* Collective `number` of the program's table over the addresses of its inputs,
 * then of its outputs. Devices add in the order of their numbers. On the CPU it
 * is done on return, on a device it is queued. Does not return if another
 * device is missing: the process ends with a message.
 */
void blurt_collective_run(void *ctx, int32_t number, void *const *args);

/* The same in two parts: `wait` is queued before what comes behind it. What is
 * queued between them may run at the same time, so that until then nothing
 * writes what the collective reads or touches what it writes. Collectives run
 * in the order that they are started in. A wait for one that has not been
 * started since the last wait for it does nothing; an entry waits for all that
 * it starts.
 */
void blurt_collective_start(void *ctx, int32_t number, void *const *args);
void blurt_collective_wait(void *ctx, int32_t number);

/* C[b] = op(A[b]) · op(B[b]) + beta · C[b] for `batch` row-major matrices;
 * op(A) is m×k, op(B) k×n, C m×n. `lda`, `ldb`, `ldc` are elements between rows
 * as stored, `stride_*` elements between matrices (0 broadcasts). beta is 0 or
 * 1; with beta 0, C is only written. The product is cut into tiles by shape
 * alone and each tile is one single-threaded library call, so the result does
 * not depend on the number of threads.
 */
void blurt_gemm_f32(void *ctx, int32_t trans_a, int32_t trans_b, int64_t batch,
                    int64_t m, int64_t n, int64_t k, const float *a,
                    int64_t lda, int64_t stride_a, const float *b, int64_t ldb,
                    int64_t stride_b, float beta, float *c, int64_t ldc,
                    int64_t stride_c);
void blurt_gemm_f64(void *ctx, int32_t trans_a, int32_t trans_b, int64_t batch,
                    int64_t m, int64_t n, int64_t k, const double *a,
                    int64_t lda, int64_t stride_a, const double *b, int64_t ldb,
                    int64_t stride_b, double beta, double *c, int64_t ldc,
                    int64_t stride_c);

/* A and B of bf16, products and sums of f32; C is of f32, or of bf16, rounded
 * once, where `narrow` is not 0.
 */
void blurt_gemm_bf16(void *ctx, int32_t trans_a, int32_t trans_b, int64_t batch,
                     int64_t m, int64_t n, int64_t k, const uint16_t *a,
                     int64_t lda, int64_t stride_a, const uint16_t *b,
                     int64_t ldb, int64_t stride_b, float beta, int32_t narrow,
                     void *c, int64_t ldc, int64_t stride_c);

/* blurt_gemm_f32 and blurt_gemm_f64 for one matrix on the calling thread, for
 * use inside kernels.
 */
void blurt_gemm_tile_f32(int32_t trans_a, int32_t trans_b, int64_t m, int64_t n,
                         int64_t k, float alpha, const float *a, int64_t lda,
                         const float *b, int64_t ldb, float beta, float *c,
                         int64_t ldc);
void blurt_gemm_tile_f64(int32_t trans_a, int32_t trans_b, int64_t m, int64_t n,
                         int64_t k, double alpha, const double *a, int64_t lda,
                         const double *b, int64_t ldb, double beta, double *c,
                         int64_t ldc);

/* Queue kernel or product `index` of the device code's tables on the program's
 * stream; `args`, `a`, `b`, `c` and `extra` are device addresses, `extra` null
 * without an epilogue that reads it. The first failure is kept and reported
 * once `run` has returned; what comes after it is not queued.
 */
void blurt_launch(void *ctx, int32_t index, void *const *args);
void blurt_device_product(void *ctx, int32_t index, const void *a,
                          const void *b, void *c, const void *extra);
/* Queues the store of `value` to the device address `to`. */
void blurt_device_store_i64(void *ctx, void *to, int64_t value);

/* Debug builds of a program (bt-compile --debug-memory) call these around every
 * operation: `use` fails the run if [ptr, ptr+bytes) is not live or was never
 * written, `retire` poisons a dead range. Both also feed the high-water mark
 * that `info --memory` prints.
 */
void blurt_debug_define(void *ctx, const void *ptr, uint64_t bytes,
                        const char *what);
void blurt_debug_use(void *ctx, const void *ptr, uint64_t bytes,
                     const char *what);
void blurt_debug_retire(void *ctx, void *ptr, uint64_t bytes, const char *what);

/* Builds for `train --debug-nonfinite` call this behind every operation, with
 * each of its results that are floats of `width` bytes (f64, f32, bf16), and
 * before the first one with the entry's arguments. It does nothing unless a
 * step is being looked through.
 */
void blurt_debug_finite(void *ctx, const void *ptr, uint64_t bytes,
                        const char *what, int64_t width);

#ifdef __cplusplus
}
#endif

#endif /* BLURT_BLURT_H */
