// docs/cpp.md: a user's training loop that resumes after a kill.
#include <cstdio>
#include <memory>

#include "stoker/bridge/device_copier.h"
#include "stoker/formats/open.h"
#include "stoker/train/run/own_checkpoint.h"
#include "stoker/train/step/schedule.h"
#include "stoker/train/step/seed_step.h"

int main() {
    constexpr std::int64_t kEpochs = 2;
    const stoker::Recipe recipe;  // an mlp, and Adam with a constant rate
    const at::Device device = stoker::pick_device("auto");
    stoker::Loader loader(stoker::open_dataset("synth:digits?count=2000", stoker::Split::train),
                          stoker::Transform{stoker::kMnistNormalize}, {.batch_size = 100, .workers = 2});
    const std::unique_ptr<stoker::Model> model = stoker::make_model(recipe.model, {1, 28, 28}, 10, recipe.seed, device);
    model->to(device, /*channels_last=*/false);
    stoker::Optimizer optimizer(model->trainable_parameters(), recipe.optimizer);
    stoker::Account account;
    const std::unique_ptr<stoker::Step> step = stoker::make_step({*model, optimizer, account, device});
    stoker::DeviceCopier copier(device);
    const std::int64_t an_epoch = loader.batches_per_epoch();
    std::int64_t steps = stoker::resume_from("runs/own_loop", *model, *step, loader);  // 0: a new run
    while (loader.state().epoch < kEpochs) {
        while (const std::shared_ptr<stoker::Batch> batch = loader.next()) {  // null at the end of an epoch
            const double lr =
                stoker::learning_rate(recipe.schedule, recipe.optimizer.lr,
                                      {.step = steps, .total = kEpochs * an_epoch, .steps_per_epoch = an_epoch});
            stoker::seed_step(recipe.seed, steps, device);  // for dropout
            step->run(copier.copy(batch), lr);
            ++steps;
            if (steps % 10 == 0 || steps == kEpochs * an_epoch) {
                stoker::save_checkpoint("runs/own_loop", steps, *model, *step, loader);
            }
        }
    }
    for (const double loss : step->take_losses()) {
        std::printf("%.3f\n", loss);
    }
    return steps == kEpochs * an_epoch ? 0 : 1;
}
