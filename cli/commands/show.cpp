// stoker show: samples as the model receives them, as a picture of a batch or as one array.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/command.h"
#include "cli/commands/dataset_options.h"
#include "cli/commands/image_grid.h"
#include "cli/commands/sample_fields.h"
#include "cli/commands/small_text.h"
#include "cli/commands/training_data.h"
#include "cli/terminal/npy_output.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/table.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/codecs/encode.h"

namespace stoker::cli {
namespace {

constexpr std::int64_t kMaxCells = 64;
constexpr const char* kSoftware = "stoker show";  // in the pictures that it writes

struct ShowArguments {
    std::string data;
    FieldNames fields;
    std::string recipe;
    std::vector<std::string> sets;
    std::optional<std::int64_t> epoch;
    std::optional<std::int64_t> seed;
    std::optional<std::int64_t> index;
    std::string picture = "grid.png";
    std::string npy;
    bool val = false;
    bool json = false;
};

struct Line {
    std::int64_t index = 0;
    std::string key;
    std::int64_t label = -1;
    std::string class_name;
    int height = 0;
    int width = 0;
    SampleFields fields = {};
    std::string error = {};  // why the sample could not be read
};

Line describe(const Dataset& dataset, std::int64_t index, std::int64_t label) {
    const auto classes = dataset.classes();
    const auto at = static_cast<std::size_t>(label);
    return {.index = index,
            .key = key_or_index(dataset, index),
            .label = label,
            .class_name = label >= 0 && at < classes.size() ? classes[at] : ""};
}

Line describe(TrainingData& data, std::int64_t index, ConstImageView pixels) {
    Line line = describe(data.dataset(), index, data.label());
    line.height = pixels.height;
    line.width = pixels.width;
    line.fields = sample_fields(data);
    return line;
}

// The class's name, or its number if the font lacks a letter of the name.
std::string label_text(const Line& line) {
    if (line.label < 0) {
        return "";
    }
    return line.class_name.empty() || !can_draw(line.class_name) ? fmt::to_string(line.label) : line.class_name;
}

// A sample that cannot be read or decoded leaves the image without pixels.
Line load(TrainingData& data, const SampledIndex& drawn, GridImage& to) {
    const auto bad = [&](std::string error) {
        const Dataset& dataset = data.dataset();
        Line line = describe(dataset, drawn.index, known_label(dataset, drawn.index).value_or(-1));
        line.error = std::move(error);
        return line;
    };
    try {
        const ConstImageView pixels = data.pixels(drawn);
        Line line = describe(data, drawn.index, pixels);
        to_rgb(pixels, to.image);
        add_overlays(data, to);
        return line;
    } catch (const DataError& error) {
        return bad(fmt::format("expected {}, got {}", error.info().expected, error.info().got));
    } catch (const Unsupported& error) {
        return bad(error.what());
    }
}

void write_sample(const ShowArguments& options, TrainingData& data, ConstImageView pixels) {
    if (options.recipe.empty()) {
        const std::int64_t frames = data.frames();
        Image rgb;
        Shape shape;
        std::vector<std::uint8_t> all;
        for (std::int64_t i = 0; i < std::max<std::int64_t>(frames, 1); ++i) {
            to_rgb(frames > 0 ? data.frame(i) : pixels, rgb);
            const ImageView view = rgb.view();
            all.insert(all.end(), view.data, view.data + view.height * view.stride);
            shape = {view.height, view.width, 3};
        }
        if (frames > 0) {
            shape.insert(shape.begin(), frames);
        }
        write_npy(options.npy, {reinterpret_cast<std::byte*>(all.data()), DType::uint8, shape});
        return;
    }
    std::vector<float> memory;
    write_npy(options.npy, data.values({.index = *options.index}, memory));
}

std::vector<Line> draw(const ShowArguments& options, TrainingData& data, const std::vector<SampledIndex>& draws,
                       int& columns) {
    std::vector<Line> lines;
    std::vector<GridImage> images(draws.size());
    for (std::size_t i = 0; i < draws.size(); ++i) {
        lines.push_back(load(data, draws[i], images[i]));
        images[i].label = label_text(lines.back());
    }
    const ImageGrid grid = make_grid(images);
    columns = grid.columns;
    const std::vector<std::byte> png = encode_png(grid.image.view(), kSoftware);
    write_file(options.picture, {reinterpret_cast<const char*>(png.data()), png.size()});
    return lines;
}

void print_table(const Dataset& dataset, const std::vector<Line>& lines, int columns) {
    const std::vector<Field> fields = shown_fields(dataset);
    Table table;
    for (const char* title : {"row", "col", "index", "label"}) {
        table.column(title);
    }
    table.column("class", Table::Align::left);
    table.column("height x width");
    for (const Field& field : fields) {
        table.column(field.name);
    }
    table.column("key", Table::Align::left);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const Line& line = lines[i];
        const auto cell = std::div(static_cast<int>(i), columns);
        std::vector<std::string> cells = {fmt::to_string(cell.quot + 1),
                                          fmt::to_string(cell.rem + 1),
                                          fmt::to_string(line.index),
                                          line.label < 0 ? "-" : fmt::to_string(line.label),
                                          line.class_name,
                                          line.error.empty() ? fmt::format("{} x {}", line.height, line.width) : "-"};
        std::ranges::copy(line.fields.cells, std::back_inserter(cells));
        cells.resize(cells.size() + fields.size() - line.fields.cells.size(), "-");
        cells.push_back(line.key);
        table.row(std::move(cells));
    }
    print_lines(table.text());
}

void print_json(const std::string& file, const TrainingData& data, const std::vector<Line>& lines) {
    nlohmann::ordered_json samples = nlohmann::ordered_json::array();
    for (const Line& line : lines) {
        nlohmann::ordered_json sample = {{"index", line.index},       {"key", line.key},       {"label", line.label},
                                         {"class", line.class_name},  {"height", line.height}, {"width", line.width},
                                         {"fields", line.fields.json}};
        if (!line.error.empty()) {
            sample["error"] = line.error;
        }
        samples.push_back(std::move(sample));
    }
    print_document({{"file", file}, {"seed", data.seed()}, {"epoch", data.epoch()}, {"samples", samples}});
}

// Prints a line for each sample that could not be read. Returns the exit status: 1 if all are bad.
int report_bad(const std::vector<Line>& lines) {
    std::size_t bad = 0;
    for (const Line& line : lines) {
        if (!line.error.empty()) {
            ++bad;
            print_stderr("{}: {}\n", for_terminal(line.key, 100), for_terminal(line.error, 300));
        }
    }
    return bad == lines.size() ? 1 : 0;
}

// A file of another origin stays: an earlier picture of this command, or an array, may be replaced.
void require_replaceable(const std::string& path, bool array) {
    constexpr std::size_t kBegin = 512;
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(path, unknown)) {
        return;
    }
    const MappedFile file{std::filesystem::path(path)};
    const std::string_view begin = as_text(file.bytes()).substr(0, kBegin);
    if (array ? !begin.starts_with("\x93NUMPY") : begin.find(kSoftware) == std::string_view::npos) {
        throw InvalidArgument({.where = path,
                               .expected = array ? "a new file, or an array to replace"
                                                 : "a new file, or a picture of `stoker show` to replace",
                               .got = "another file",
                               .hint = fmt::format("choose another name with {}", array ? "--npy" : "-o")});
    }
}

int run(const ShowArguments& options) {
    TrainingData data({.data = options.data,
                       .recipe = options.recipe,
                       .sets = options.sets,
                       .epoch = options.epoch,
                       .seed = options.seed,
                       .fields = options.fields,
                       .val = options.val});
    if (!data.dataset().has_image()) {
        throw InvalidArgument({.where = data.dataset().path(),
                               .expected = "samples with images, clips or sounds",
                               .got = fmt::format("others, with {}", describe_fields(data.dataset().fields())),
                               .hint = "stoker.open in Python gives their values"});
    }
    const std::string& file = options.npy.empty() ? options.picture : options.npy;
    require_outside_data(file, {options.data, data.dataset().path()});
    require_replaceable(file, !options.npy.empty());
    if (options.index && *options.index >= data.dataset().size()) {
        throw InvalidArgument({.where = "--index",
                               .expected = fmt::format("a sample from 0 to {}", data.dataset().size() - 1),
                               .got = fmt::to_string(*options.index)});
    }
    if (options.index && !options.val && data.held_back(*options.index)) {
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
    if (options.json) {
        print_json(file, data, lines);
    } else {
        print_table(data.dataset(), lines, columns);
        print_stderr("written to {}\n", file);
    }
    return report_bad(lines);
}

}  // namespace

Command add_show(CLI::App& app) {
    auto options = std::make_shared<ShowArguments>();
    app.add_option("data", options->data,
                   "a data set as in recipes (default: data.train of --recipe; with --val, its validation data)");
    add_field_options(app, options->fields);
    add_further_fields_option(app, options->fields);
    add_memory_option(app);
    auto* recipe =
        app.add_option("--recipe", options->recipe, "use the training ops and the sample order of this recipe")
            ->type_name("FILE");
    add_set_option(app, options->sets, "data.batch_size=16")->needs(recipe);
    auto* val = app.add_flag("--val", options->val,
                             "the recipe's validation data and data.val_ops instead of the training data and its ops")
                    ->needs(recipe);
    app.add_option("--epoch", options->epoch, "sample order and augmentation of this epoch, from 0")
        ->type_name("E")
        ->check(CLI::Range(std::int64_t{0}, (std::int64_t{1} << 32) - 1).description(""))
        ->excludes(val);
    app.add_option("--seed", options->seed, "seed of sample order and augmentation (default: the recipe's)")
        ->type_name("S")
        ->check(not_negative());
    auto* index =
        app.add_option("--index", options->index, "show this sample, counted from 0, instead of the first batch")
            ->type_name("I")
            ->check(not_negative());
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
    example(
        app,
        "  stoker show data/train -o first.png\n"
        "  stoker show data/train --recipe recipes/imagefolder_resnet18.toml --epoch 3\n"
        "  stoker show --recipe recipes/imagefolder_resnet18.toml --val\n"
        "  stoker show street.stk --field mask:mask --field boxes:boxes\n"
        "  stoker show data/train --index 17 --npy sample.npy\n"
        "Masks tint the picture where their class is above 0, and boxes are outlines; both after the recipe's ops. "
        "The\n"
        "table has the values of further fields, and --json all of them.\n"
        "A sample that cannot be read is a crossed-out cell, and a line on stderr. If no sample can be read, the exit\n"
        "status is 1.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
