// Mixing on the device compared with the references on plain memory, with the same drawn parameters.
#include "stoker/train/step/mixup_cutmix.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/mixup_cutmix_reference.h"
#include "stoker/bridge/tensor.h"
#include "stoker/models/init.h"
#include "stoker/ops/mixup_cutmix_params.h"

namespace stoker {
namespace {

DeviceBatch batch_of(std::int64_t samples, bool channels_last) {
    at::Generator generator = make_generator(7);
    const at::Tensor image = at::randn({samples, 3, 9, 6}, generator);
    return {.input = channels_last ? image.contiguous(at::MemoryFormat::ChannelsLast) : image,
            .target = at::arange(samples, at::kLong).remainder(4)};
}

at::Tensor targets_of(const at::Tensor& label, double lambda) {
    at::Tensor targets = at::zeros({label.size(0), 4});
    testing::soft_targets_reference({label.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(label.size(0))},
                                    lambda, view_of(targets));
    return targets;
}

TEST(Mix, MixupEqualsTheReference) {
    for (std::int64_t number = 0; number < 5; ++number) {
        const DeviceBatch given = batch_of(5, number % 2 == 1);
        DeviceBatch batch = {given.input.clone(), given.target};
        mix(batch, {.mixup = 0.4, .classes = 4, .seed = 3}, 2, number);
        Rng rng = batch_rng(3, 2, static_cast<std::uint64_t>(number), BatchOp::mixup);
        const double lambda = draw_beta(0.4, rng);
        const at::Tensor expected = given.input.contiguous().clone();
        testing::mixup_reference(view_of(expected), lambda);
        EXPECT_TRUE(at::equal(batch.input, expected)) << number;
        EXPECT_TRUE(at::equal(batch.target, targets_of(given.target, lambda))) << number;
    }
}

TEST(Mix, CutmixEqualsTheReference) {
    for (std::int64_t number = 0; number < 5; ++number) {
        const DeviceBatch given = batch_of(5, number % 2 == 1);
        DeviceBatch batch = {given.input.clone(), given.target};
        mix(batch, {.cutmix = 1, .classes = 4, .seed = 3}, 2, number);
        Rng rng = batch_rng(3, 2, static_cast<std::uint64_t>(number), BatchOp::cutmix);
        const CutMixParams drawn = draw_cutmix(1, 9, 6, rng);
        const at::Tensor expected = given.input.contiguous().clone();
        testing::cutmix_reference(view_of(expected), drawn.box);
        EXPECT_TRUE(at::equal(batch.input, expected)) << number;
        EXPECT_TRUE(at::equal(batch.target, targets_of(given.target, drawn.lambda))) << number;
    }
}

TEST(Mix, WithBothEachBatchGetsOne) {
    int cut = 0;
    for (std::int64_t number = 0; number < 200; ++number) {
        DeviceBatch batch = batch_of(2, false);
        const at::Tensor before = batch.input.clone();
        mix(batch, {.mixup = 1, .cutmix = 1, .classes = 4}, 0, number);
        // Cutmix only moves pixels and never changes their values.
        const bool taken = batch.input.eq(before).logical_or(batch.input.eq(before.roll(1, 0))).all().item<bool>();
        cut += taken ? 1 : 0;
    }
    EXPECT_GT(cut, 70);
    EXPECT_LT(cut, 130);
}

}  // namespace
}  // namespace stoker
