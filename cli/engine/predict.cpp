// stoker predict: what a trained model says of images, one row each, in the order of the data.
#include <cerrno>
#include <chrono>
#include <fmt/format.h>

#include "checkpoint.h"
#include "commands.h"
#include "prediction_file.h"
#include "progress.h"
#include "stoker/base/error.h"
#include "stoker/formats/image_files.h"
#include "stoker/pipeline/data.h"
#include "stoker/train/predict.h"
#include "stoker/train/run_folder.h"
#include "stoker/train/setup.h"

namespace stoker::cli {
namespace {

struct Options : TrainedOptions {
    std::string data;
    std::string out;
    std::int64_t top = 0;
};

std::shared_ptr<const Source> open_images(const std::string& data, const DataRecipe& recipe) {
    if (ImageFiles::holds(data)) {
        return std::make_shared<ImageFiles>(data);
    }
    return open_source(data, Split::test, open_options(recipe));
}

int run(const Options& options) {
    Recipe recipe = read_recipe(options.recipe, options.sets);
    recipe.data.cache = "none";  // each image is read once
    const auto checkpoint = open_checkpoint(options.checkpoint, recipe);
    const std::vector<std::string> classes = class_names(recipe, checkpoint);
    const auto source = open_images(options.data, recipe.data);
    const at::Device device = prepare_device(recipe);
    const auto loader = make_predict_loader(recipe, source, device, uses_channels_last(recipe, nullptr));
    const auto model = make_trained_model(recipe, read_model(checkpoint), loader->image_shape(),
                                          static_cast<std::int64_t>(classes.size()), device);
    PredictionFile file(options.out, classes, options.top);
    ProgressBar progress;
    const auto begin = std::chrono::steady_clock::now();
    std::int64_t done = 0;
    std::int64_t bad = 0;
    predict(*model, *loader, device, [&](const std::vector<Prediction>& batch) {
        for (const Prediction& prediction : batch) {
            file.write(prediction);
            if (!prediction.error.empty()) {
                ++bad;
                progress.clear();
                fmt::print(stderr, "{}: {}\n", prediction.key, prediction.error);
            }
        }
        done += static_cast<std::int64_t>(batch.size());
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
        const double rate = static_cast<double>(done) / spent.count();
        progress.update("predict", done, source->size(), rate, "images",
                        static_cast<double>(source->size() - done) / rate);
    });
    file.finish();
    progress.clear();
    fmt::print(stderr, "{}: {} images{}\n", source->path(), done, bad > 0 ? fmt::format(", {} of them bad", bad) : "");
    return 0;
}

}  // namespace

Command add_predict(CLI::App& app) {
    auto options = std::make_shared<Options>();
    add_trained_options(app, *options);
    app.add_option("data", options->data, "an image, a folder of images, or any data set")->required();
    app.add_option("-o,--out", options->out, "OUT.csv or OUT.json (default: CSV on stdout)")->type_name("OUT");
    app.add_option("--top", options->top, "only the K most probable classes (default: the probabilities of all)")
        ->type_name("K")
        ->check(CLI::PositiveNumber);
    example(app,
            "  stoker predict recipes/digits.toml --checkpoint runs/digits scans -o scans.csv\n"
            "  stoker predict recipes/digits.toml --checkpoint runs/digits scan.png --top 3\n"
            "An image that cannot be read gets a row with the reason, and a line on stderr.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
