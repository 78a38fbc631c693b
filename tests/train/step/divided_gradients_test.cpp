// Norms and overflows of gradients that are divided between two ranks are those of whole gradients.
#include "stoker/train/step/divided_gradients.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "stoker/train/step/clip.h"
#include "support/ranks.h"

namespace stoker {
namespace {

using testing::as_ranks;
using ::testing::Each;

TEST(DividedGradients, AreClippedByTheNormOfTheWhole) {
    const at::Tensor divided = at::arange(1, 9, at::kFloat);  // (8): four elements on each rank
    const at::Tensor shared = at::full({3}, 2.0F);
    std::vector<at::Tensor> whole = {divided.clone(), shared.clone()};
    const at::Tensor norm = clip_norm(whole, 1);
    EXPECT_THAT(as_ranks(2,
                         [&](const std::shared_ptr<Group>& group) {
                             const std::int64_t begin = 4 * group->rank();
                             std::vector<at::Tensor> own = {divided.narrow(0, begin, 4).clone(), shared.clone()};
                             const at::Tensor found = clip_norm(
                                 own, 1, {.places = {0}, .sum = [&](const at::Tensor& x) { group->all_reduce(x); }});
                             EXPECT_NEAR(found.item<float>(), norm.item<float>(), 1e-5);
                             EXPECT_TRUE(at::allclose(own[0], whole[0].narrow(0, begin, 4)));
                             EXPECT_TRUE(at::allclose(own[1], whole[1])) << "counted once";
                         }),
                Each(""));
}

TEST(DividedGradients, OfTwoStagesAreClippedByTheNormOfAll) {
    const at::Tensor first = at::arange(1, 9, at::kFloat);
    const at::Tensor second = at::full({3}, 2.0F);
    std::vector<at::Tensor> whole = {first.clone(), second.clone()};
    const at::Tensor norm = clip_norm(whole, 1);
    EXPECT_THAT(as_ranks(2,
                         [&](const std::shared_ptr<Group>& group) {
                             std::vector<at::Tensor> own = {(group->first() ? first : second).clone()};
                             const at::Tensor found =
                                 clip_norm(own, 1, {.sum_parts = [&](const at::Tensor& x) { group->all_reduce(x); }});
                             EXPECT_NEAR(found.item<float>(), norm.item<float>(), 1e-5);
                             EXPECT_TRUE(at::allclose(own[0], whole[group->first() ? 0 : 1]));
                         }),
                Each(""));
}

TEST(DividedGradients, AnOverflowOnOneRankIsOneOnAll) {
    for (const int overflows : {0, 1, 2}) {  // ranks
        EXPECT_THAT(as_ranks(2,
                             [&](const std::shared_ptr<Group>& group) {
                                 const at::Tensor found_inf = at::full({}, group->rank() < overflows ? 1.0F : 0.0F);
                                 share_overflow(found_inf, [&](const at::Tensor& x) { group->all_reduce(x); });
                                 EXPECT_EQ(found_inf.item<float>(), overflows > 0 ? 1 : 0);
                             }),
                    Each(""));
    }
}

}  // namespace
}  // namespace stoker
