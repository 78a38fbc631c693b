// docs/cpp.md's model, compiled and run as a test.
#include <cstdio>
#include <memory>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/linear.h>

#include "stoker/models/torch_module.h"
#include "stoker/train/trainer.h"

struct TwoLayers : torch::nn::Module {
    torch::nn::Linear first{784, 64};
    torch::nn::Linear second{64, 10};
    TwoLayers() { register_module("first", first), register_module("second", second); }
    at::Tensor forward(at::Tensor images) { return second(torch::relu(first(images.flatten(1)))); }
};

int main() try {
    stoker::Recipe recipe;
    recipe.data.train = "synth:digits?count=2000";
    recipe.data.val = "10%";  // of the samples
    recipe.data.train_ops = recipe.data.val_ops = {{"normalize", {{"preset", "mnist"}}}};
    recipe.train.epochs = 2;
    stoker::Trainer trainer(recipe, stoker::open_data(recipe.data),
                            std::make_unique<stoker::TorchModule<TwoLayers>>(std::make_shared<TwoLayers>()));
    const stoker::TrainResult result = trainer.fit();
    const double accuracy = result.epochs.back().val_accuracy.value();
    std::printf("accuracy %.1f %%\n", 100 * accuracy);
    return accuracy > 0.8 ? 0 : 1;
} catch (const stoker::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
