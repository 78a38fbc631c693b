// stoker export: a trained model as a file for other programs.
#include <fmt/format.h>

#include "cli/terminal/out_path.h"
#include "engine/commands.h"
#include "engine/commands/checkpoint_argument.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/models/torchscript_export.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/run/run_setup.h"

namespace stoker::cli {
namespace {

struct Options : TrainedOptions {
    std::string out;
};

// (C, H, W) of what the recipe's validation ops, or else its training ops, make of its data.
Shape image_shape(const Recipe& recipe, const ModelMetadata& about) {
    const at::Device cpu = at::kCPU;
    RecipeData data = open_data(recipe.data);
    Recipe one = recipe;
    one.data.workers = 0;
    one.data.cache = "none";
    const auto loader = make_predict_loader(one, data.val != nullptr ? data.val : data.train, cpu, false, about);
    return loader->image_shape();
}

int run(const Options& options) {
    const bool script = options.out.ends_with(".pt");
    if (!script && !options.out.ends_with(".safetensors")) {
        throw InvalidArgument({.where = "-o",
                               .expected = "a name that ends in .safetensors (the weights) or .pt (TorchScript)",
                               .got = options.out});
    }
    require_writable_file(options.out);
    if (script && !open_recipe(options).model.exported.empty()) {
        throw Unsupported({.where = "-o",
                           .expected = "the weights of an exported model, which fit the Python model that it came from",
                           .got = "TorchScript",
                           .hint = "-o OUT.safetensors"});
    }
    const auto [recipe, checkpoint] = open_trained(options);
    const ModelFile weights = read_model(checkpoint);
    if (!script) {
        write_tensors(options.out, weights.tensors, weights.about);
    } else {
        with_stoker_errors([&] {
            const Shape image = image_shape(recipe, weights.about);
            const auto classes = static_cast<std::int64_t>(class_names(recipe, checkpoint).size());
            const auto model = make_trained_model(recipe, weights, image, classes, at::kCPU);
            save_torchscript(*model, image, options.out, to_json(weights.about));
        });
    }
    fmt::print(stderr, "{}: {} of {}\n", options.out, pluralize(std::ssize(weights.tensors), "tensor"),
               checkpoint.string());
    return 0;
}

}  // namespace

Command add_export(CLI::App& app) {
    auto options = std::make_shared<Options>();
    add_trained_options(app, *options);
    app.add_option("-o,--out", options->out, "OUT.safetensors: the weights; OUT.pt: TorchScript, the whole model")
        ->type_name("OUT")
        ->required();
    example(app,
            "  stoker export runs/digits -o digits.pt\n"
            "  stoker export runs/digits -o digits.safetensors\n"
            "Averaged weights are taken where there are any (train.ema).");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
