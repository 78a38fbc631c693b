// The program for test_parity_fields.py: the batches of a recipe's training loader, and what its ops drew.
//   loader_reference RECIPE OUT EPOCHS
// OUT is a safetensors file: "index", "epoch", the fields of the batches, and "draws", float64 (samples, ops, 6): the
// box of random_resized_crop (top, left, height, width), whether a flip flips, the angle of random_rotation, the
// angle, shift, scale and shear of random_affine. Images are uint8.
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "stoker/base/parse_number.h"
#include "stoker/formats/arrays/safetensors.h"
#include "stoker/pipeline/loader.h"
#include "stoker/pipeline/recipe_data.h"

namespace stoker {
namespace {

constexpr std::size_t kNumbers = 6;

// The numbers of one op, for an image of `size`, which becomes that after the op.
struct Draw {
    ImageSize& size;
    Rng& rng;

    std::vector<double> operator()(const RandomResizedCrop& op) const {
        const Box box = draw_random_resized_crop(op, size.height, size.width, rng);
        size = {op.height, op.width};
        return {double(box.top), double(box.left), double(box.height), double(box.width)};
    }
    std::vector<double> operator()(const HorizontalFlip& op) const {
        return {draw_horizontal_flip(op, rng) ? 1.0 : 0.0};
    }
    std::vector<double> operator()(const Resize& op) const {
        size = target_size(op, size);
        return {};
    }
    std::vector<double> operator()(const PixelOp& op) const {
        if (const auto* flip = std::get_if<VerticalFlip>(&op)) {
            return {draw_vertical_flip(*flip, rng) ? 1.0 : 0.0};
        }
        if (const auto* rotation = std::get_if<RandomRotation>(&op)) {
            return {draw_random_rotation(*rotation, rng)};
        }
        const AffineParams move = draw_random_affine(std::get<RandomAffine>(op), size, rng);
        return {move.angle, move.translate[0], move.translate[1], move.scale, move.shear[0], move.shear[1]};
    }
    std::vector<double> operator()(const auto& /*op*/) const { return {}; }
};

void add_draws(const Transform& transform, RngKey key, ImageSize size, std::vector<double>& draws) {
    for (std::size_t at = 0; at < transform.ops().size(); ++at) {
        key.op = static_cast<std::uint16_t>(at);
        Rng rng(key);
        std::vector<double> numbers = std::visit(Draw{size, rng}, transform.ops()[at]);
        numbers.resize(kNumbers);
        draws.insert(draws.end(), numbers.begin(), numbers.end());
    }
}

struct Column {
    DType dtype = DType::uint8;
    Shape shape = {};  // of one sample
    std::string bytes = {};
};

template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

void write(const std::string& path, std::map<std::string, Column>& columns, std::int64_t samples) {
    std::vector<NamedView> views;
    for (auto& [name, column] : columns) {
        Shape shape = {samples};
        shape.insert(shape.end(), column.shape.begin(), column.shape.end());
        views.push_back(
            {name, {.data = reinterpret_cast<std::byte*>(column.bytes.data()), .dtype = column.dtype, .shape = shape}});
    }
    write_safetensors(path, views);
}

void run(const std::string& recipe_path, const std::string& out, int epochs) {
    const Recipe recipe = read_recipe(recipe_path);
    const RecipeData data = open_train_data(recipe.data);
    const Transform transform(recipe.data.train_ops, transform_options(recipe.data));
    LoaderOptions options = train_loader_options(recipe, data);
    std::get<PixelImages>(options.images).dtype = DType::uint8;
    options.workers = 2;
    options.epochs = epochs;
    Loader loader(data.train, transform, options);
    std::map<std::string, Column> columns;
    std::vector<std::int64_t> numbers;
    std::vector<double> draws;
    std::int64_t samples = 0;
    Sample sample;
    for (int epoch = 0; epoch < epochs; ++epoch) {
        while (const auto batch = loader.next()) {
            for (const FieldSpec& spec : batch->fields()) {
                if (spec.ragged) {
                    continue;
                }
                const TensorView values = batch->field(spec.name);
                Column& column = columns[spec.name];
                column.dtype = values.dtype;
                column.shape = {values.shape.begin() + 1, values.shape.end()};
                column.bytes.append(reinterpret_cast<const char*>(values.data), values.bytes());
            }
            for (const std::int64_t index : batch->field(kIndexField).as<std::int64_t>()) {
                data.train->read(index, sample);
                add_draws(transform,
                          {.seed = recipe.seed,
                           .epoch = static_cast<std::uint32_t>(epoch),
                           .sample = static_cast<std::uint64_t>(index)},
                          {sample.height, sample.width}, draws);
                numbers.push_back(epoch);
                ++samples;
            }
        }
    }
    columns["epoch"] = {.dtype = DType::int64, .bytes = bytes_of(numbers)};
    columns["draws"] = {
        .dtype = DType::float64,
        .shape = {static_cast<std::int64_t>(transform.ops().size()), static_cast<std::int64_t>(kNumbers)},
        .bytes = bytes_of(draws)};
    write(out, columns, samples);
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
    try {
        stoker::run(argv[1], argv[2], stoker::parse_number<int>(argc == 4 ? argv[3] : "").value());
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
