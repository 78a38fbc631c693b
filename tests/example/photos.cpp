// docs/tutorials/cpp.md's program, compiled and run as a test.
#include <cstdio>

#include "stoker/train/trainer.h"

int main(int argc, char** argv) try {
    stoker::Recipe recipe;
    recipe.data.train = argc > 1 ? argv[1] : "data/train";  // a folder with one subfolder of images for each class
    recipe.data.val = "10%";
    recipe.data.batch_size = 64;
    recipe.data.train_ops = {
        {"random_resized_crop", {{"size", 224.0}}}, {"horizontal_flip"}, {"normalize", {{"preset", "imagenet"}}}};
    recipe.data.val_ops = {
        {"resize", {{"size", 256.0}}}, {"center_crop", {{"size", 224.0}}}, {"normalize", {{"preset", "imagenet"}}}};
    recipe.model.name = "resnet18";
    recipe.optimizer = {.name = "sgd", .lr = 0.025, .momentum = 0.9, .weight_decay = 1e-4};
    recipe.schedule = {.name = "cosine", .warmup = {.count = 1}};  // of one epoch
    recipe.train.epochs = 3;
    recipe.train.accumulate = 2;  // two micro-batches of 32 a step

    stoker::Trainer trainer(recipe);
    stoker::FitOptions options{.out = "runs/photos", .resume = "auto"};
    options.on_epoch = [](const stoker::EpochResult& epoch) {
        std::printf("epoch %lld: loss %.3f, accuracy %.1f %%, %.0f images/s\n", static_cast<long long>(epoch.epoch),
                    epoch.train_loss, 100 * epoch.val_accuracy.value_or(0), epoch.images_per_second);
    };
    const stoker::TrainResult result = trainer.fit(options);
    std::printf("waited for data: %.1f %% of the time\n", 100 * result.account.share(stoker::Phase::wait));
} catch (const stoker::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());  // one line: where, expected, got, what to do
    return 1;
}
