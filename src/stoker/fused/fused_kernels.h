// The inner loops of a fused training step, once per instruction set. Every sum is one chain of fused multiply-adds in
// an order that shapes alone decide, so all sets, and any split of the work, give the same bits. Internal to fused/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/fused/options.h"

namespace stoker {

// Activations lie in panels of 64 samples: (panels, features, 64), zeros or finite numbers where the batch ends.
inline constexpr int kPanel = 64;
// Columns of a panel are computed in groups of 16.
inline constexpr int kGroup = 16;

constexpr int in_groups(int samples) {
    return (samples + kGroup - 1) / kGroup * kGroup;
}

// out[i][j] = start[i] + sum over k of a(i, k) * b[k][j]. At most kPanel columns, a multiple of kGroup; for
// product_update any number, with rows of `b` that can be read up to the next multiple.
struct Product {
    const float* a;
    std::ptrdiff_t a_row;        // from a(i, k) to a(i + 1, k)
    std::ptrdiff_t a_step;       // from a(i, k) to a(i, k + 1)
    std::ptrdiff_t a_panel = 0;  // from a(i, k) to a(i, k + kPanel), for product_update alone
    const float* b;              // (depth, columns)
    std::ptrdiff_t b_stride;
    int rows;
    int columns;
    int depth;
    bool begins = true;  // false: `out` holds the sums over earlier k
};

// torch.optim's update of one weight, with what a step has in common worked out.
struct UpdateRule {
    enum class Kind { sgd, momentum, adam };
    Kind kind;
    float step;      // SGD: -lr; Adam: -lr / (1 - beta1^t)
    float keep = 1;  // AdamW: 1 - lr * weight_decay
    float l2 = 0;    // SGD, Adam: weight_decay
    float momentum = 0;
    float from_grad = 0;  // what a weight moves by: from_grad * grad + from_buffer * buffer
    float from_buffer = 1;
    float beta2 = 0;
    float rest1 = 0;       // 1 - beta1
    float rest2 = 0;       // 1 - beta2
    float root_scale = 0;  // 1 / sqrt(1 - beta2^t)
    float eps = 0;
};

// Rows of a matrix (rows, columns) that an update changes: weights and the optimiser's state.
struct Updated {
    float* weight;
    float* first;   // momentum_buffer or exp_avg; unused by plain SGD
    float* second;  // exp_avg_sq; unused by SGD
    std::ptrdiff_t stride;

    // Memory that is absent stays so.
    Updated moved(std::ptrdiff_t by) const {
        return {.weight = weight + by,
                .first = first == nullptr ? nullptr : first + by,
                .second = second == nullptr ? nullptr : second + by,
                .stride = stride};
    }
};

// What the loss needs of each sample's logits.
struct SoftmaxSums {
    alignas(64) float highest[kPanel];  // the largest logit
    alignas(64) float exps[kPanel];     // sum of exp(logit - highest)
    alignas(64) float logits[kPanel];   // sum of the logits
};

struct FusedKernels {
    const char* name;  // plain, avx2, avx512

    // start (rows), or null for zeros. out (rows, kPanel).
    void (*product)(const Product& product, const float* start, float* out);
    // The product is a weight's gradient: it is used at once and stored nowhere.
    void (*product_update)(const Product& product, const UpdateRule& rule, const Updated& updated);
    // grad (count): the same update of a vector.
    void (*update)(const UpdateRule& rule, int count, const float* grad, const Updated& updated);
    // from (rows, columns) to (columns, kPanel), rows of at most kPanel; zeros up to the next multiple of kGroup rows.
    void (*transpose)(const float* from, std::ptrdiff_t stride, int rows, int columns, float* to);
    // values (rows, kPanel) in place, columns a multiple of kGroup; `slopes` of the same shape where the derivative is
    // not a function of the result.
    void (*activate)(Activation activation, int rows, int columns, float* values, float* slopes);
    // grads (rows, kPanel) times the derivative, `from` being the activation's results, or slopes for gelu.
    void (*times_slope)(Activation activation, int rows, int columns, const float* from, float* grads);
    // sums[i] = sum over samples of grads (panels, features, kPanel), `panel_stride` apart.
    void (*sample_sums)(const float* grads, std::ptrdiff_t panel_stride, int rows, std::int64_t samples, float* sums);
    // logits (classes, kPanel) to grads = scale * softmax - share.
    void (*softmax)(const float* logits, int classes, int columns, float scale, float share, float* grads,
                    SoftmaxSums& sums);
};

extern const FusedKernels kPlainFusedKernels;

// All sets that this processor runs, slowest first, and the one that is used: the last.
std::span<const FusedKernels> fused_kernels();
const FusedKernels& best_fused_kernels();

// The sets for vector instructions; each is a file compiled for that set, present on x86-64 alone.
extern const FusedKernels kAvx2FusedKernels;
extern const FusedKernels kAvx512FusedKernels;

}  // namespace stoker
