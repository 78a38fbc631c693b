// stoker show: samples as the model sees them, as a picture of a batch or as one array.
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/field_options.h"
#include "cli/commands/grid.h"
#include "cli/terminal/npy_output.h"
#include "cli/commands/training_data.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/codecs/encode.h"

namespace stoker::cli {
namespace {

constexpr std::int64_t kMostCells = 64;

struct Options {
    std::string data;
    FieldNames fields;
    std::string recipe;
    std::vector<std::string> sets;
    std::optional<std::int64_t> epoch;
    std::optional<std::int64_t> seed;
    std::optional<std::int64_t> index;
    std::string picture = "grid.png";
    std::string npy;
    bool json = false;
};

struct Line {
    std::int64_t index = 0;
    std::string key;
    std::int64_t label = -1;
    std::string class_name;
    int height = 0;
    int width = 0;
};

Line describe(const TrainingData& data, std::int64_t index, ConstImageView pixels) {
    const auto classes = data.source().classes();
    const auto label = static_cast<std::size_t>(data.label());
    return {.index = index,
            .key = data.source().key(index),
            .label = data.label(),
            .class_name = data.label() >= 0 && label < classes.size() ? classes[label] : "",
            .height = pixels.height,
            .width = pixels.width};
}

void write_sample(const Options& options, TrainingData& data, ConstImageView pixels) {
    if (options.recipe.empty()) {
        Image rgb;
        to_rgb(pixels, rgb);
        const ImageView view = rgb.view();
        write_npy(options.npy, {reinterpret_cast<std::byte*>(view.data), DType::uint8, {view.height, view.width, 3}});
        return;
    }
    std::vector<float> values = data.values({.index = *options.index});
    const Shape shape{pixels.channels, pixels.height, pixels.width};
    write_npy(options.npy, {reinterpret_cast<std::byte*>(values.data()), DType::float32, shape});
}

std::vector<Line> draw(const Options& options, TrainingData& data, const std::vector<Draw>& draws, int& columns) {
    std::vector<Line> lines;
    std::vector<Image> images(draws.size());
    for (std::size_t i = 0; i < draws.size(); ++i) {
        const ConstImageView pixels = data.pixels(draws[i]);
        to_rgb(pixels, images[i]);
        lines.push_back(describe(data, draws[i].index, pixels));
    }
    const Grid grid = draw_grid(images);
    columns = grid.columns;
    const std::vector<std::byte> png = encode_png(grid.image.view());
    write_file(options.picture, {reinterpret_cast<const char*>(png.data()), png.size()});
    return lines;
}

void print_table(const std::vector<Line>& lines, int columns) {
    const auto widest = [&](std::size_t least, auto text) {
        for (const Line& line : lines) {
            least = std::max(least, text(line).size());
        }
        return least;
    };
    const std::size_t index = widest(5, [](const Line& line) { return fmt::to_string(line.index); });
    const std::size_t name = widest(5, [](const Line& line) { return line.class_name; });
    fmt::print("row col  {:>{}}  label  {:<{}}  height x width  key\n", "index", index, "class", name);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const Line& line = lines[i];
        const auto cell = std::div(static_cast<int>(i), columns);
        fmt::print("{:>3} {:>3}  {:>{}}  {:>5}  {:<{}}  {:>6} x {:<5}  {}\n", cell.quot + 1, cell.rem + 1, line.index,
                   index, line.label, line.class_name, name, line.height, line.width, line.key);
    }
}

void print_json(const std::string& file, const TrainingData& data, const std::vector<Line>& lines) {
    nlohmann::ordered_json samples = nlohmann::ordered_json::array();
    for (const Line& line : lines) {
        samples.push_back({{"index", line.index},
                           {"key", line.key},
                           {"label", line.label},
                           {"class", line.class_name},
                           {"height", line.height},
                           {"width", line.width}});
    }
    const nlohmann::ordered_json json = {
        {"file", file}, {"seed", data.seed()}, {"epoch", data.epoch()}, {"samples", samples}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int run(const Options& options) {
    TrainingData data({.data = options.data,
                       .recipe = options.recipe,
                       .sets = options.sets,
                       .epoch = options.epoch,
                       .seed = options.seed,
                       .fields = options.fields});
    if (options.index && *options.index >= data.source().size()) {
        throw InvalidArgument({.where = "--index",
                               .expected = fmt::format("a sample from 0 to {}", data.source().size() - 1),
                               .got = fmt::to_string(*options.index)});
    }
    if (options.index && data.held_back(*options.index)) {
        fmt::print(stderr, "note: the recipe holds sample {} back for evaluation; shown as if it were trained on\n",
                   *options.index);
    }
    std::vector<Line> lines;
    int columns = 1;
    if (!options.npy.empty()) {
        const ConstImageView pixels = data.pixels({.index = *options.index});
        write_sample(options, data, pixels);
        lines = {describe(data, *options.index, pixels)};
    } else {
        lines =
            draw(options, data,
                 options.index ? std::vector{Draw{.index = *options.index}} : data.first_batch(kMostCells), columns);
    }
    const std::string& file = options.npy.empty() ? options.picture : options.npy;
    if (options.json) {
        print_json(file, data, lines);
    } else {
        print_table(lines, columns);
        fmt::print(stderr, "written to {}\n", file);
    }
    return 0;
}

}  // namespace

Command add_show(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("data", options->data, "a data set as recipes name them; with --recipe: instead of its data.train");
    add_field_options(app, options->fields);
    auto* recipe = app.add_option("--recipe", options->recipe, "apply the training ops of this recipe, in its order")
                       ->type_name("FILE");
    app.add_option("--set", options->sets, "change a key of the recipe: --set data.batch_size=16")
        ->type_name("KEY=VALUE")
        ->take_all()
        ->allow_extra_args(false)
        ->needs(recipe);
    app.add_option("--epoch", options->epoch, "order and augmentation of this epoch, from 0")
        ->type_name("E")
        ->check(CLI::Range(std::int64_t{0}, (std::int64_t{1} << 32) - 1).description(""));
    app.add_option("--seed", options->seed, "order and augmentation of this seed (default: the recipe's)")
        ->type_name("S")
        ->check(CLI::NonNegativeNumber.description(""));
    auto* index = app.add_option("--index", options->index, "this one sample instead of the first batch, from 0")
                      ->type_name("I")
                      ->check(CLI::NonNegativeNumber.description(""));
    auto* picture =
        app.add_option("-o,--out", options->picture, "the picture to write (default: grid.png)")
            ->type_name("FILE.png")
            ->check([](const std::string& name) {
                return name.ends_with(".png") ? "" : fmt::format("expected a name that ends in .png, got {}", name);
            });
    app.add_option("--npy", options->npy,
                   "write the sample of --index as an array: uint8 (H, W, 3), or with "
                   "--recipe float32 (C, H, W)")
        ->type_name("FILE")
        ->needs(index)
        ->excludes(picture);
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the table");
    app.callback([options] {
        if (options->data.empty() && options->recipe.empty()) {
            throw CLI::RequiredError("a data set or --recipe");
        }
    });
    example(app,
            "  stoker show data/train -o first.png\n"
            "  stoker show data/train --recipe recipes/imagefolder_resnet18.toml --epoch 3\n"
            "  stoker show data/train --index 17 --npy sample.npy");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
