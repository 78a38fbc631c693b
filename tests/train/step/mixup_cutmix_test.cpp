// Mixing on the device against the ops that work on plain memory, from the same draws.
#include "stoker/train/step/mixup_cutmix.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "stoker/bridge/tensor.h"
#include "stoker/models/init.h"
#include "stoker/ops/batch_mix.h"
#include "stoker/ops/cutmix.h"
#include "stoker/ops/mixup.h"

namespace stoker {
namespace {

DeviceBatch batch_of(std::int64_t samples, bool channels_last) {
    at::Generator generator = make_generator(7);
    const at::Tensor image = at::randn({samples, 3, 9, 6}, generator);
    return {.image = channels_last ? image.contiguous(at::MemoryFormat::ChannelsLast) : image,
            .label = at::arange(samples, at::kLong).remainder(4)};
}

at::Tensor targets_of(const at::Tensor& label, double lambda) {
    const at::Tensor targets = at::zeros({label.size(0), 4});
    soft_targets({label.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(label.size(0))}, lambda,
                 view_of(targets));
    return targets;
}

TEST(Mix, MixupIsTheOps) {
    for (std::int64_t number = 0; number < 5; ++number) {
        const DeviceBatch given = batch_of(5, number % 2 == 1);
        DeviceBatch batch = {given.image.clone(), given.label};
        mix(batch, {.mixup = 0.4, .classes = 4, .seed = 3}, 2, number);
        Rng rng = batch_rng(3, 2, static_cast<std::uint64_t>(number), BatchOp::mixup);
        const double lambda = draw_mixup({.alpha = 0.4}, rng);
        const at::Tensor expected = given.image.contiguous().clone();
        Buffer scratch;
        mixup(view_of(expected), lambda, scratch);
        EXPECT_TRUE(at::equal(batch.image, expected)) << number;
        EXPECT_TRUE(at::equal(batch.label, targets_of(given.label, lambda))) << number;
    }
}

TEST(Mix, CutmixIsTheOps) {
    for (std::int64_t number = 0; number < 5; ++number) {
        const DeviceBatch given = batch_of(5, number % 2 == 1);
        DeviceBatch batch = {given.image.clone(), given.label};
        mix(batch, {.cutmix = 1, .classes = 4, .seed = 3}, 2, number);
        Rng rng = batch_rng(3, 2, static_cast<std::uint64_t>(number), BatchOp::cutmix);
        const CutMixParams drawn = draw_cutmix({.alpha = 1}, 9, 6, rng);
        const at::Tensor expected = given.image.contiguous().clone();
        Buffer scratch;
        cutmix(view_of(expected), Layout::chw, drawn.box, scratch);
        EXPECT_TRUE(at::equal(batch.image, expected)) << number;
        EXPECT_TRUE(at::equal(batch.label, targets_of(given.label, drawn.lambda))) << number;
    }
}

TEST(Mix, WithBothACoinDecides) {
    int cut = 0;
    for (std::int64_t number = 0; number < 200; ++number) {
        DeviceBatch batch = batch_of(2, false);
        const at::Tensor before = batch.image.clone();
        mix(batch, {.mixup = 1, .cutmix = 1, .classes = 4}, 0, number);
        // Cutmix leaves pixels as they were or takes them as they were.
        const bool taken = batch.image.eq(before).logical_or(batch.image.eq(before.roll(1, 0))).all().item<bool>();
        cut += taken ? 1 : 0;
    }
    EXPECT_GT(cut, 70);
    EXPECT_LT(cut, 130);
}

}  // namespace
}  // namespace stoker
