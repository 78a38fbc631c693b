// The inner loops of a fused training step, one table per instruction set. Every sum is one chain of fused
// multiply-adds whose order depends on the shapes alone, so all sets and any division of the work give the same bits.
// Internal to fused/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/fused/options.h"
#include "stoker/fused/update_rule.h"

namespace stoker {

// Activations are stored in panels of 64 samples: (panels, features, 64). Columns beyond the batch are finite.
inline constexpr int kPanel = 64;
// Kernels process the columns of a panel in groups of 16.
inline constexpr int kGroup = 16;

constexpr int round_up_to_group(int samples) {
    return (samples + kGroup - 1) / kGroup * kGroup;
}

// out[i][j] = start[i] + sum over k of a(i, k) * b[k][j]. At most kPanel columns, a multiple of kGroup. product_update
// takes any number of columns; rows of `b` must be readable up to the next multiple of kGroup.
struct Product {
    const float* a;
    std::ptrdiff_t a_row;        // from a(i, k) to a(i + 1, k)
    std::ptrdiff_t a_step;       // from a(i, k) to a(i, k + 1)
    std::ptrdiff_t a_panel = 0;  // from a(i, k) to a(i, k + kPanel), only for product_update
    const float* b;              // (depth, columns)
    std::ptrdiff_t b_stride;
    int rows;
    int columns;
    int depth;
    bool begins = true;  // false: continues the sums in `out`
};

// Rows of a matrix (rows, columns) that an update changes: weights and the optimiser's state.
struct ParameterRows {
    float* weight;
    float* first;   // momentum_buffer or exp_avg; unused by plain SGD
    float* second;  // exp_avg_sq; unused by SGD
    std::ptrdiff_t stride;

    // Null pointers stay null.
    ParameterRows offset_by(std::ptrdiff_t by) const {
        return {.weight = weight + by,
                .first = first == nullptr ? nullptr : first + by,
                .second = second == nullptr ? nullptr : second + by,
                .stride = stride};
    }
};

// Sums over each sample's logits for the loss.
struct SoftmaxSums {
    alignas(64) float highest[kPanel];  // the largest logit
    alignas(64) float exps[kPanel];     // sum of exp(logit - highest)
    alignas(64) float logits[kPanel];   // sum of the logits
};

struct FusedKernels {
    const char* name;  // plain, avx2, avx512

    // start: (rows), or null for zeros. out: (rows, kPanel).
    void (*product)(const Product& product, const float* start, float* out);
    // The product is a gradient, which updates the weights directly and is not stored.
    void (*product_update)(const Product& product, const UpdateRule& rule, const ParameterRows& updated);
    // The same update for a vector with gradient grad (count).
    void (*update)(const UpdateRule& rule, int count, const float* grad, const ParameterRows& updated);
    // from (rows, columns) to (columns, kPanel), at most kPanel rows; pads with zeros to a multiple of kGroup.
    void (*transpose)(const float* from, std::ptrdiff_t stride, int rows, int columns, float* to);
    // values (rows, kPanel) in place, columns a multiple of kGroup. For gelu, whose derivative is not a function of its
    // result, `derivatives` of the same shape receives it.
    void (*activate)(Activation activation, int rows, int columns, float* values, float* derivatives);
    // Multiplies grads (rows, kPanel) by the derivative; `from` holds the activation's results, or for gelu its
    // derivatives.
    void (*multiply_by_derivative)(Activation activation, int rows, int columns, const float* from, float* grads);
    // sums[i] = sum over samples of grads (panels, features, kPanel), with panels `panel_stride` apart.
    void (*sample_sums)(const float* grads, std::ptrdiff_t panel_stride, int rows, std::int64_t samples, float* sums);
    // logits (classes, kPanel) to grads = scale * softmax - share, and `sums`.
    void (*softmax)(const float* logits, int classes, int columns, float scale, float share, float* grads,
                    SoftmaxSums& sums);
};

extern const FusedKernels kPlainFusedKernels;

// All sets that this processor supports, slowest first; the last one is the best.
std::span<const FusedKernels> fused_kernels();
const FusedKernels& best_fused_kernels();

// Each of these is compiled for its instruction set; x86-64 only.
extern const FusedKernels kAvx2FusedKernels;
extern const FusedKernels kAvx512FusedKernels;

}  // namespace stoker
