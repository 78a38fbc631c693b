// The program for test_models_parity.py: one training pass of a built-in model on given weights and a given batch.
//   model_pass IN OUT NAME STEM [channels_last] [checkpointing] [bf16]
// IN is a safetensors file of the model's state, "image" and "label"; OUT gets "logits" in evaluation mode, then
// "loss", "grad.<parameter>" and "state.<buffer>" after one training pass, without an optimiser step.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "stoker/bridge/tensor.h"
#include "stoker/formats/arrays/safetensors.h"
#include "stoker/models/model.h"

namespace stoker {
namespace {

constexpr std::uint64_t kSeed = 5;  // of dropout

struct Given {
    std::vector<NamedTensor> state;
    at::Tensor image;  // (N, C, H, W)
    at::Tensor label;  // (N)
};

Given read(const std::string& path) {
    Given given;
    const SafetensorsFile file(path);
    for (const auto& [name, view] : file.tensors()) {
        if (name == "image") {
            given.image = copy_of(view);
        } else if (name == "label") {
            given.label = copy_of(view);
        } else {
            given.state.push_back({name, copy_of(view)});
        }
    }
    return given;
}

void write(const std::string& path, std::vector<NamedTensor> tensors) {
    std::vector<NamedView> views;
    for (auto& [name, tensor] : tensors) {
        tensor = tensor.detach().contiguous();
        views.push_back({name, view_of(tensor)});
    }
    write_safetensors(path, views);
}

at::Tensor loss_of(Model& model, const Given& given, bool bf16) {
    at::autocast::set_autocast_enabled(at::kCPU, bf16);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
    at::Tensor loss = model.loss({.input = given.image, .target = given.label});
    if (at::autocast::decrement_nesting() == 0) {
        at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(at::kCPU, false);
    return loss;
}

void run(const std::vector<std::string>& arguments) {
    const auto has_option = [&](const char* option) {
        return std::find(arguments.begin() + 4, arguments.end(), option) != arguments.end();
    };
    Given given = read(arguments[0]);
    ModelRecipe recipe;
    recipe.name = arguments[2];
    recipe.stem = arguments[3];
    const auto sizes = given.image.sizes();
    const auto last = std::ranges::find_if(given.state, [](const NamedTensor& entry) {
        return entry.name == "fc.bias" || entry.name == "fc3.bias" || entry.name == "heads.head.bias" ||
               entry.name == "classifier.4.bias";
    });
    const auto model = make_model(recipe, {sizes[1], sizes[2], sizes[3]}, last->tensor.size(0), 0);
    model->load(given.state);
    model->to(at::kCPU, has_option("channels_last"));
    if (has_option("channels_last")) {
        given.image = given.image.to(given.image.options(), false, false, at::MemoryFormat::ChannelsLast);
    }
    if (has_option("checkpointing")) {
        model->enable_gradient_checkpointing();
    }
    std::vector<NamedTensor> results;
    model->train(false);
    {
        const c10::NoGradGuard no_grad;
        results.push_back({"logits", model->forward(given.image)});
    }
    model->train(true);
    at::manual_seed(kSeed);
    const at::Tensor loss = loss_of(*model, given, has_option("bf16"));
    model->backward(loss);
    results.push_back({"loss", loss});
    for (const auto& [name, tensor] : model->parameters()) {
        results.push_back({"grad." + name, tensor.grad()});
    }
    for (const auto& [name, tensor] : model->buffers()) {
        results.push_back({"state." + name, tensor});
    }
    write(arguments[1], std::move(results));
}

}  // namespace
}  // namespace stoker

int main(int count, char** values) {
    const std::vector<std::string> arguments(values + 1, values + count);
    if (arguments.size() < 4) {
        std::fputs("model_pass IN OUT NAME STEM [channels_last] [checkpointing] [bf16]\n", stderr);
        return 2;
    }
    try {
        at::set_num_threads(1);
        stoker::run(arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "model_pass: %s\n", error.what());
        return 1;
    }
    return 0;
}
