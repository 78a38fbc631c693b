// The loader and its batches. Python waits without the interpreter's lock and looks for signals meanwhile.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/loader_handle.h"
#include "stoker/base/error.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/recipe/op_spec.h"

namespace stoker::python {
namespace {

DType pixel_dtype(const std::string& name) {
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8}) {
        if (dtype_name(dtype) == name) {
            return dtype;
        }
    }
    throw InvalidArgument(
        {.where = "dtype", .expected = "float32, float16, bfloat16 or uint8", .got = fmt::format("\"{}\"", name)});
}

// [data.fields.NAME] of the fields with padding or ops of their own.
std::vector<FieldRecipe> field_recipes(const std::map<std::string, std::int64_t>& pad,
                                       const std::map<std::string, nb::object>& field_ops) {
    std::map<std::string, FieldRecipe> all;
    for (const auto& [name, entries] : pad) {
        all[name].pad = entries;
    }
    for (const auto& [name, ops] : field_ops) {
        all[name].train_ops = read_ops(toml_value(ops), {.key = fmt::format("field_ops[\"{}\"]", name)});
    }
    std::vector<FieldRecipe> fields;
    for (auto& [name, field] : all) {
        field.name = name;
        fields.push_back(std::move(field));
    }
    return fields;
}

// Those of data.train and data.mix.
std::vector<std::shared_ptr<const Dataset>> datasets_of(const OpenData& data) {
    return data.parts.empty() ? std::vector{data.dataset} : data.parts;
}

RecipeData recipe_data(const OpenData& data, const DataRecipe& recipe) {
    RecipeData sets{.train = clips_of(data.dataset, recipe),
                    .val = nullptr,
                    .clips_per_video = recipe.clips_per_video,
                    .caches_bytes = false};
    for (const auto& dataset : datasets_of(data)) {
        sets.train_parts.push_back(dataset->size() * recipe.clips_per_video);
    }
    return sets;
}

// With the settings of a recipe, so that a run loads the same batches.
std::unique_ptr<LoaderHandle> make_loader(const OpenData& data, const nb::dict& settings, int rank, int world_size,
                                          const std::string& dtype, bool channels_last,
                                          const std::map<std::string, std::int64_t>& pad,
                                          const std::map<std::string, nb::object>& field_ops) {
    Recipe recipe = read_settings(settings);
    recipe.data.fields.more = field_recipes(pad, field_ops);
    recipe.data.batch_size *= world_size;
    recipe.data.batch_tokens *= world_size;
    for (const auto& dataset : datasets_of(data)) {
        recipe.data.mix.push_back(dataset->path());
    }
    recipe.data.train = recipe.data.mix.front();
    recipe.data.mix.erase(recipe.data.mix.begin());
    const nb::gil_scoped_release release;
    const Transform transform(recipe.data.train_ops, transform_options(recipe.data));
    const RecipeData sets = recipe_data(data, recipe.data);
    LoaderOptions options = train_loader_options(recipe, sets);
    if (const auto conflict = find_conflict(recipe)) {
        throw InvalidArgument({conflict->key, conflict->expected, conflict->got, conflict->hint});
    }
    options.epochs = 0;
    options.workers = recipe.data.workers.value_or(auto_workers(/*on_gpu=*/false));
    options.rank = rank;
    options.world_size = world_size;
    std::get<PixelImages>(options.images).dtype = pixel_dtype(dtype);
    options.layout = channels_last ? Layout::hwc : Layout::chw;
    return std::make_unique<LoaderHandle>(sets.train, transform, options);
}

nb::list keys_of(Batch& batch) {
    nb::list keys;
    for (std::int64_t i = 0; i < batch.size(); ++i) {
        keys.append(text(batch.payload(kKeyField, i)));
    }
    return keys;
}

// All values of a ragged field, and where each sample begins.
nb::object ragged_of(const Batch& batch, const std::string& name) {
    RaggedView view = batch.ragged(name);
    nb::object values = as_array(std::move(view.storage), view.values.dtype, view.values.shape);
    return nb::make_tuple(std::move(values), view.offsets);
}

// An array of a field of fixed shape. A label that a program keeps would keep the images of its batch, so small fields
// are copied.
nb::object fixed_of(const Batch& batch, const FieldSpec& spec, nb::handle owner) {
    constexpr std::size_t kSmall = 1 << 16;  // bytes
    const TensorView view = batch.field(spec.name);
    const std::size_t bytes = batch.used_bytes(spec.name);
    if (bytes == 0 || bytes > kSmall || spec.layout == FieldLayout::channels_last) {
        return as_array(view, owner, spec.layout);
    }
    Buffer memory(bytes);
    std::memcpy(memory.data(), view.data, bytes);
    return as_array(std::move(memory), view.dtype, view.shape);
}

using Names = std::optional<std::vector<std::string>>;

// The fields of these names (empty: all): an array, (values, offsets) of a ragged one, or the list of keys.
nb::dict arrays_of(const std::shared_ptr<Batch>& batch, const Names& names) {
    const nb::capsule owner = HeldBatch::capsule(batch);
    nb::dict result;
    for (const FieldSpec& spec : batch->fields()) {
        if (names && std::ranges::find(*names, spec.name) == names->end()) {
            continue;
        }
        const char* name = spec.name.c_str();
        if (spec.name == kKeyField) {
            result[name] = keys_of(*batch);
        } else if (spec.ragged) {
            result[name] = ragged_of(*batch, spec.name);
        } else {
            result[name] = fixed_of(*batch, spec, owner);
        }
    }
    return result;
}

nb::list bad_samples_of(const Batch& batch) {
    nb::list list;
    for (const BadSample& bad : batch.bad_samples()) {
        list.append(nb::make_tuple(bad.index, text(bad.key), text(name_arguments(bad.reason)), bad.replaced_by));
    }
    return list;
}

// (fields, bad samples), or None at the end of an epoch.
nb::object next_batch(LoaderHandle& loader, const Names& names) {
    const std::shared_ptr<Batch> batch = loader.next();
    if (batch == nullptr) {
        return nb::none();
    }
    return nb::make_tuple(arrays_of(batch, names), bad_samples_of(*batch));
}

}  // namespace

void bind_pipeline(nb::module_& module) {
    nb::class_<LoaderHandle>(module, "Loader")
        .def(nb::new_(&make_loader), nb::arg("data"), nb::arg("settings"), nb::arg("rank"), nb::arg("world_size"),
             nb::arg("dtype"), nb::arg("channels_last"), nb::arg("pad"), nb::arg("field_ops"))
        .def("next", &next_batch, nb::arg("names").none())
        .def("fields", &LoaderHandle::fields)
        .def("state", &LoaderHandle::state)
        .def("restore", &LoaderHandle::restore, nb::arg("state"))
        .def("batches", &LoaderHandle::batches)
        .def("workers", &LoaderHandle::workers)
        .def("close", &LoaderHandle::close);
}

}  // namespace stoker::python
