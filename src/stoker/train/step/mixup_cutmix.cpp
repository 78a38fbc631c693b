// torchvision v2's MixUp and CutMix; with both, its RandomChoice.
#include "stoker/train/step/mixup_cutmix.h"

#include <ATen/ops/one_hot.h>

#include "stoker/bridge/pixels.h"
#include "stoker/ops/mixup_cutmix_params.h"

namespace stoker {
namespace {

// Both return lambda, the share of the sample itself in the result.
double apply_mixup(at::Tensor& image, double alpha, Rng& rng, const RollSamples& roll) {
    const double lambda = draw_beta(alpha, rng);
    const at::Tensor before = roll(image).mul_(1 - lambda);
    image.mul_(lambda).add_(before);
    return lambda;
}

double apply_cutmix(at::Tensor& image, double alpha, Rng& rng, const RollSamples& roll) {
    const CutMixParams drawn =
        draw_cutmix(alpha, static_cast<int>(image.size(-2)), static_cast<int>(image.size(-1)), rng);
    const Box& box = drawn.box;
    const at::Tensor part = image.narrow(-2, box.top, box.height).narrow(-1, box.left, box.width);
    part.copy_(roll(part));
    return drawn.lambda;
}

}  // namespace

at::Tensor roll_samples(const at::Tensor& samples) {
    return samples.roll(1, 0);
}

void mix(DeviceBatch& batch, const MixupCutmixOptions& options, std::int64_t epoch, std::int64_t number,
         const RollSamples& roll) {
    normalize_pixels(batch);
    batch.input = batch.input.to(at::kFloat);  // from LoaderOptions::planes
    const bool both = options.mixup > 0 && options.cutmix > 0;
    const BatchOp stream = options.mixup > 0 ? BatchOp::mixup : BatchOp::cutmix;
    Rng rng = batch_rng(options.seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint64_t>(number), stream);
    const bool cut = both ? rng.uniform() < 0.5f : options.cutmix > 0;
    const double lambda =
        cut ? apply_cutmix(batch.input, options.cutmix, rng, roll) : apply_mixup(batch.input, options.mixup, rng, roll);
    const at::Tensor own = at::one_hot(batch.target, options.classes).to(at::kFloat);  // (N, classes)
    batch.target = own.mul(lambda).add_(roll(own).mul(1 - lambda));
    batch.in_slot = false;
}

}  // namespace stoker
