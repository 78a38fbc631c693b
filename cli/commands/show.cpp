// stoker show: samples as the model receives them, as a picture of a batch or as one array.
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/dataset_options.h"
#include "cli/commands/image_grid.h"
#include "cli/commands/training_data.h"
#include "cli/terminal/npy_output.h"
#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/codecs/encode.h"

namespace stoker::cli {
namespace {

constexpr std::int64_t kMaxCells = 64;

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
    const auto classes = data.dataset().classes();
    const auto label = static_cast<std::size_t>(data.label());
    return {.index = index,
            .key = data.dataset().key(index),
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

std::vector<Line> draw(const Options& options, TrainingData& data, const std::vector<SampledIndex>& draws,
                       int& columns) {
    std::vector<Line> lines;
    std::vector<Image> images(draws.size());
    for (std::size_t i = 0; i < draws.size(); ++i) {
        const ConstImageView pixels = data.pixels(draws[i]);
        to_rgb(pixels, images[i]);
        lines.push_back(describe(data, draws[i].index, pixels));
    }
    const ImageGrid grid = make_grid(images);
    columns = grid.columns;
    const std::vector<std::byte> png = encode_png(grid.image.view());
    write_file(options.picture, {reinterpret_cast<const char*>(png.data()), png.size()});
    return lines;
}

void print_table(const std::vector<Line>& lines, int columns) {
    Table table;
    for (const char* title : {"row", "col", "index", "label"}) {
        table.column(title);
    }
    table.column("class", Table::Align::left);
    table.column("height x width");
    table.column("key", Table::Align::left);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const Line& line = lines[i];
        const auto cell = std::div(static_cast<int>(i), columns);
        table.row({fmt::to_string(cell.quot + 1), fmt::to_string(cell.rem + 1), fmt::to_string(line.index),
                   fmt::to_string(line.label), line.class_name, fmt::format("{} x {}", line.height, line.width),
                   line.key});
    }
    print_lines(table.text());
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
    print_document({{"file", file}, {"seed", data.seed()}, {"epoch", data.epoch()}, {"samples", samples}});
}

int run(const Options& options) {
    TrainingData data({.data = options.data,
                       .recipe = options.recipe,
                       .sets = options.sets,
                       .epoch = options.epoch,
                       .seed = options.seed,
                       .fields = options.fields});
    if (options.index && *options.index >= data.dataset().size()) {
        throw InvalidArgument({.where = "--index",
                               .expected = fmt::format("a sample from 0 to {}", data.dataset().size() - 1),
                               .got = fmt::to_string(*options.index)});
    }
    if (options.index && data.held_back(*options.index)) {
        print_stderr("note: the recipe holds sample {} back for evaluation; shown with the training ops\n",
                     *options.index);
    }
    std::vector<Line> lines;
    int columns = 1;
    if (!options.npy.empty()) {
        const ConstImageView pixels = data.pixels({.index = *options.index});
        write_sample(options, data, pixels);
        lines = {describe(data, *options.index, pixels)};
    } else {
        lines = draw(options, data,
                     options.index ? std::vector{SampledIndex{.index = *options.index}} : data.first_batch(kMaxCells),
                     columns);
    }
    const std::string& file = options.npy.empty() ? options.picture : options.npy;
    if (options.json) {
        print_json(file, data, lines);
    } else {
        print_table(lines, columns);
        print_stderr("written to {}\n", file);
    }
    return 0;
}

}  // namespace

Command add_show(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("data", options->data, "a data set as in recipes (default: data.train of --recipe)");
    add_field_options(app, options->fields);
    auto* recipe =
        app.add_option("--recipe", options->recipe, "use the training ops and the sample order of this recipe")
            ->type_name("FILE");
    add_set_option(app, options->sets, "data.batch_size=16")->needs(recipe);
    app.add_option("--epoch", options->epoch, "sample order and augmentation of this epoch, from 0")
        ->type_name("E")
        ->check(CLI::Range(std::int64_t{0}, (std::int64_t{1} << 32) - 1).description(""));
    app.add_option("--seed", options->seed, "seed of sample order and augmentation (default: the recipe's)")
        ->type_name("S")
        ->check(CLI::NonNegativeNumber.description(""));
    auto* index =
        app.add_option("--index", options->index, "show this sample, counted from 0, instead of the first batch")
            ->type_name("I")
            ->check(CLI::NonNegativeNumber.description(""));
    auto* picture = app.add_option("-o,--out", options->picture, "the picture to write (default: grid.png)")
                        ->type_name("FILE.png")
                        ->check([](const std::string& name) {
                            return name.ends_with(".png")
                                       ? ""
                                       : fmt::format("expected a file name that ends in .png, got {}", name);
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
