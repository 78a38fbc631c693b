// A user's loop that is saved and resumed in another process trains to the last bit as one that never stopped: weights,
// averages, loss scale, order of the data, and the model's random numbers.
#include "stoker/train/run/own_checkpoint.h"

#include <ATen/ops/randn.h>

#include "stoker/base/error.h"
#include "stoker/train/step/seed_step.h"
#include "train/support.h"

namespace stoker {
namespace {

using testing::kStepsAnEpoch;
using testing::same_weights;
using testing::TempDir;

struct OwnLoop {
    explicit OwnLoop(std::uint64_t order = 3)
        : optimizer(model.trainable_parameters(), OptimizerRecipe()),
          step(make_step({model,
                          optimizer,
                          account,
                          at::kCPU,
                          {.precision = {.autocast = at::kHalf, .loss_scaling = true},
                           .ema = 0.9,
                           .scaler = {.growth_interval = 3}}})),
          loader(std::make_shared<testing::SquareDataset>(100), Transform(), {.batch_size = 16, .seed = order}) {
        model.on_logits = [](const at::Tensor& logits) { logits.add_(at::randn({4})); };
    }

    void train_until(std::int64_t end) {
        DeviceCopier copier(at::kCPU);
        while (steps < end) {
            if (const std::shared_ptr<Batch> batch = loader.next()) {
                seed_step(7, steps, at::kCPU);
                step->run(copier.copy(batch), 0.01);
                ++steps;
            }
        }
    }
    void save(const std::filesystem::path& path) const { save_checkpoint(path, steps, model, *step, loader); }
    void resume(const std::filesystem::path& path) { steps = resume_from(path, model, *step, loader); }

    testing::LinearModel model;
    Optimizer optimizer;
    Account account;
    std::unique_ptr<Step> step;
    Loader loader;
    std::int64_t steps = 0;
};

std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors) {
    std::vector<NamedTensor> copied;
    for (const auto& [name, tensor] : tensors) {
        copied.push_back({name, tensor.detach().clone()});
    }
    return copied;
}

TEST(OwnCheckpoint, AResumedLoopTrainsAsOneThatNeverStopped) {
    OwnLoop whole;
    whole.train_until(12);
    for (const std::int64_t stop : {std::int64_t{5}, kStepsAnEpoch}) {
        const TempDir folder;
        OwnLoop first;
        first.train_until(stop);
        first.save(folder / "loop");
        at::manual_seed(1);
        OwnLoop second;
        second.resume(folder / "loop");
        EXPECT_EQ(second.steps, stop);
        second.train_until(12);
        EXPECT_TRUE(same_weights(second.model.state(), whole.model.state())) << stop;
        EXPECT_TRUE(same_weights(second.optimizer.state(), whole.optimizer.state())) << stop;
        EXPECT_TRUE(same_weights(second.step->ema().state(), whole.step->ema().state())) << stop;
        EXPECT_TRUE(same_weights(second.step->scaler().state(), whole.step->scaler().state())) << stop;
        EXPECT_EQ(second.loader.state(), whole.loader.state()) << stop;
    }
}

TEST(OwnCheckpoint, ANewOneReplacesTheOldOne) {
    const TempDir folder;
    OwnLoop loop;
    for (const std::int64_t steps : {1, 2}) {
        loop.train_until(steps);
        loop.save(folder / "loop/");
        EXPECT_EQ(read_step(folder / "loop"), steps);
    }
    EXPECT_TRUE(same_weights(read_model(folder / "loop").tensors, loop.step->ema().state()));
    const std::filesystem::directory_iterator entries(folder.path());
    EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "a temporary folder is left";
}

TEST(OwnCheckpoint, WithoutOneNothingChanges) {
    const TempDir folder;
    OwnLoop loop;
    const std::vector<NamedTensor> before = copies(loop.model.state());
    loop.resume(folder / "loop");
    EXPECT_EQ(loop.steps, 0);
    EXPECT_TRUE(same_weights(loop.model.state(), before));
}

TEST(OwnCheckpoint, OfAnotherOrderIsRefused) {
    const TempDir folder;
    OwnLoop loop;
    loop.train_until(2);
    loop.save(folder / "loop");
    OwnLoop other(/*order=*/4);
    const std::vector<NamedTensor> before = copies(other.model.state());
    EXPECT_THROW(other.resume(folder / "loop"), InvalidArgument);
    EXPECT_TRUE(same_weights(other.model.state(), before));
}

}  // namespace
}  // namespace stoker
