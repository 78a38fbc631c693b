#include "stoker/train/task/task.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>
#include <sstream>

#include "stoker/base/error.h"
#include "stoker/bridge/tensor.h"
#include "stoker/formats/tokens/packed_documents.h"
#include "stoker/models/model.h"

namespace stoker {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"classification", "multilabel", "regression",
                                                    "segmentation",   "language",   "custom"};
constexpr std::int64_t kIgnoredPixel = 255;
constexpr std::int64_t kIgnoredToken = -100;
constexpr const char* kLengthSuffix = "_length";  // of a padded field's lengths

struct TargetKind {
    FieldKind kind;
    const char* name;
};

TargetKind target_kind(TaskKind task) {
    switch (task) {
        case TaskKind::multilabel:
            return {FieldKind::label, "label"};
        case TaskKind::regression:
            return {FieldKind::value, "value"};
        case TaskKind::segmentation:
            return {FieldKind::mask, "mask"};
        default:
            return {FieldKind::tokens, "tokens"};
    }
}

const FieldSpec* find_spec(std::span<const FieldSpec> specs, std::string_view name) {
    const auto found = std::ranges::find(specs, name, &FieldSpec::name);
    return found == specs.end() ? nullptr : &*found;
}

std::string describe_specs(std::span<const FieldSpec> specs) {
    std::vector<std::string_view> names;
    for (const FieldSpec& spec : specs) {
        names.push_back(spec.name);
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

// The first field of the task's kind, as batches hold it.
const FieldSpec& target_spec(TaskKind task, const Loader& loader) {
    const TargetKind wanted = target_kind(task);
    const auto fields = loader.dataset().fields();
    const auto holds_target = [&](const Field& field) {
        const bool one_class = task == TaskKind::multilabel && field.shape.empty() && field.classes.size() > 1;
        return field.kind == wanted.kind && !one_class;
    };
    const auto field = std::ranges::find_if(fields, holds_target);
    if (field == fields.end()) {
        throw InvalidArgument(
            {.where = "task",
             .expected = fmt::format("a field of kind {} for {}", wanted.name, task_name(task)),
             .got = fmt::format("the fields: {}", describe_fields(fields)),
             .hint = fmt::format("name it in the recipe: [data.fields.NAME] with is = \"{}\"{}", wanted.name,
                                 std::ranges::find(fields, wanted.kind, &Field::kind) == fields.end()
                                     ? ""
                                     : "; a column of class names is a target of classification")});
    }
    const FieldSpec& spec = *find_spec(loader.field_specs(), field->name);
    if (spec.ragged) {
        throw InvalidArgument({.where = "data.fields." + spec.name,
                               .expected = fmt::format("one length for all samples, as {} needs", task_name(task)),
                               .got = "any length",
                               .hint = "set its `pad`"});
    }
    return spec;
}

LossKind loss_kind(TaskKind task, const std::string& name) {
    if (task == TaskKind::multilabel) {
        return LossKind::binary_cross_entropy;
    }
    if (task != TaskKind::regression) {
        return LossKind::cross_entropy;
    }
    return name == "l1" ? LossKind::l1 : name == "huber" ? LossKind::huber : LossKind::mse;
}

// For data without classes: names the field that may hold them.
std::string classes_hint(const Dataset& dataset) {
    const auto stored = dataset.stored_fields();
    const auto label = std::ranges::find(stored, FieldKind::label, &Field::kind);
    return label == stored.end()
               ? "no labels, or labels without class names: set model.classes to the number of classes, or "
                 "data.fields.label to the field of the labels"
               : fmt::format("set data.fields.label = \"{}\", or the field that holds the labels", label->name);
}

// Outputs as wide as the target.
std::int64_t target_width(const Recipe& recipe, const FieldSpec& spec) {
    const std::int64_t width = element_count(spec.shape);
    if (recipe.model.classes.value_or(width) != width) {
        throw InvalidArgument({.where = "model.classes",
                               .expected = fmt::format("{}, as the field {} has", width, spec.name),
                               .got = fmt::to_string(*recipe.model.classes),
                               .hint = "leave it out"});
    }
    return width;
}

// The columns of a table that a field was read from, "cx, cy".
std::vector<std::string> column_names(const FieldsRecipe& fields, const std::string& field) {
    const auto found = std::ranges::find(fields.more, field, &FieldRecipe::name);
    std::vector<std::string> names;
    std::istringstream from(found == fields.more.end() ? "" : found->from);
    for (std::string name; std::getline(from, name, ',');) {
        name.erase(0, name.find_first_not_of(' '));
        name.erase(name.find_last_not_of(' ') + 1);
        names.push_back(std::move(name));
    }
    return names;
}

// Names of the outputs that learn `field`; a table has columns for several of them.
std::vector<std::string> target_names(const Recipe& recipe, const Dataset& dataset, const Task& task) {
    const auto field = std::ranges::find(dataset.fields(), task.fields.target, &Field::name);
    if (field != dataset.fields().end() && !field->classes.empty()) {
        return field->classes;
    }
    std::vector<std::string> columns = column_names(recipe.data.fields, task.fields.target);
    return task.outputs > 1 && std::ssize(columns) == task.outputs ? columns : std::vector<std::string>();
}

bool is_for_each_token(std::string_view name) {
    return name == kSegmentIds || name == kPositionIds;
}

// The field as `prepare` leaves it: the first T of T + 1 values that a language has for its tokens.
FieldSpec in_step(const Task& task, const FieldSpec& spec) {
    FieldSpec found = spec;
    if (task.kind == TaskKind::language && is_for_each_token(spec.name)) {
        found.shape = task.input;
    }
    return found;
}

void add_tokens(Task& task, const FieldSpec& spec, std::span<const FieldSpec> specs) {
    if (spec.shape.size() != 1 || spec.shape.front() < 2) {
        throw InvalidArgument({.where = "data.fields." + spec.name,
                               .expected = "at least two tokens a sample",
                               .got = fmt::format("the shape ({})", fmt::join(spec.shape, ", "))});
    }
    task.fields.input = spec.name;
    task.input = task.target = {spec.shape.front() - 1};
    for (const std::string& name : {spec.name + kLengthSuffix, std::string(kSegmentIds)}) {
        if (const FieldSpec* found = find_spec(specs, name)) {
            task.fields.more.push_back(name);
            task.more.push_back(in_step(task, *found));
        }
    }
}

// All fields of the data set with a fixed shape, and the lengths of padded ones.
void add_all_fields(Task& task, std::span<const FieldSpec> specs) {
    for (const FieldSpec& spec : specs) {
        const bool own = spec.name == kImageField || spec.name == kLabelField || spec.name == kIndexField;
        if (!own && !spec.ragged) {
            task.fields.more.push_back(spec.name);
            task.more.push_back(spec);
        }
    }
}

// The label for "balanced", -1 where it is a bad one. Throws InvalidArgument where labels are not known.
std::int64_t counted_label(const Dataset& dataset, std::int64_t index) {
    try {
        const std::optional<std::int64_t> label = dataset.label(index);
        if (!label) {
            throw InvalidArgument({.where = "train.class_weights",
                                   .expected = "data whose labels are known without reading it, for \"balanced\"",
                                   .got = dataset.path(),
                                   .hint = "give one weight for each class, or pack the data (stoker pack)"});
        }
        return *label;
    } catch (const DataError&) {  // reported when the sample is read
        return -1;
    }
}

std::vector<double> balanced_weights(const Dataset& dataset, std::int64_t classes) {
    std::vector<double> counts(static_cast<std::size_t>(classes));
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        if (const std::int64_t label = counted_label(dataset, i); label >= 0 && label < classes) {
            ++counts[static_cast<std::size_t>(label)];
        }
    }
    const auto all = static_cast<double>(dataset.size());
    for (double& count : counts) {
        count = count == 0 ? 0 : all / (static_cast<double>(classes) * count);
    }
    return counts;
}

std::vector<std::int64_t> with_samples(std::int64_t samples, const Shape& shape) {
    std::vector<std::int64_t> all = shape;
    all.insert(all.begin(), samples);
    return all;
}

// The type of a field's values in the step.
at::ScalarType value_type(const FieldSpec& spec) {
    return spec.deferred || spec.dtype == DType::float64 ? at::kFloat : scalar_type(spec.dtype);
}

at::ScalarType input_type(const Task& task) {
    if (task.kind == TaskKind::language) {
        return at::kLong;
    }
    const FieldSpec* field = find_spec(task.more, task.fields.input);
    return field != nullptr ? value_type(*field) : at::kFloat;
}

// Tokens (N, T + 1), in `target`, become inputs and targets; the ids of segments and positions keep the first T.
// Targets in the padding are ignored, and so are those in another document than the token before them.
void split_tokens(const Task& task, DeviceBatch& batch) {
    const at::Tensor tokens = batch.target.to(at::kLong);
    const std::int64_t length = tokens.size(1) - 1;          // of a batch by length, less than task.input
    batch.input = tokens.narrow(1, 0, length).contiguous();  // (N, T)
    batch.target = tokens.narrow(1, 1, length).contiguous();
    if (const at::Tensor* lengths = batch.find(task.fields.target + kLengthSuffix)) {
        const at::Tensor position = at::arange(1, length + 1, tokens.options());  // (T)
        const at::Tensor padding = position.ge(lengths->unsqueeze(1));            // (N, T)
        batch.target = batch.target.masked_fill(padding, task.loss.ignore_index);
    }
    if (const at::Tensor* segments = batch.find(kSegmentIds)) {  // (N, T + 1)
        const at::Tensor next = segments->narrow(1, 1, length);
        const at::Tensor others = next.ne(segments->narrow(1, 0, length)).logical_or_(next.eq(0));
        batch.target = batch.target.masked_fill(others, task.loss.ignore_index);
    }
    for (DeviceField& field : batch.fields) {
        if (is_for_each_token(field.name)) {
            field.tensor = field.tensor.narrow(1, 0, length).contiguous();
        }
    }
}

}  // namespace

std::string_view task_name(TaskKind kind) {
    return kNames[static_cast<std::size_t>(kind)];
}

TaskKind task_named(std::string_view name) {
    const auto* const found = std::ranges::find(kNames, name);
    if (found == kNames.end()) {
        throw InvalidArgument(
            {.where = "task", .expected = fmt::format("{}", fmt::join(kNames, ", ")), .got = std::string(name)});
    }
    return static_cast<TaskKind>(found - kNames.begin());
}

Task make_task(const Recipe& recipe, const Loader& loader, const CustomTask& custom) {
    Task task{.kind = task_named(recipe.task), .input = loader.image_shape(), .metrics = custom.metrics};
    task.loss = {.kind = loss_kind(task.kind, recipe.train.loss),
                 .label_smoothing = recipe.train.label_smoothing,
                 .focal_gamma = recipe.train.focal_gamma,
                 .function = custom.loss};
    if (task.input.empty() && task.kind != TaskKind::language && task.kind != TaskKind::custom) {
        throw InvalidArgument({.where = "task",
                               .expected = fmt::format("images for {}", task_name(task.kind)),
                               .got = fmt::format("a data set without images, {}", loader.dataset().format())});
    }
    if (task.classifies()) {
        task.outputs = class_count(recipe, loader.dataset());
        task.classes.assign(loader.dataset().classes().begin(), loader.dataset().classes().end());
        return task;
    }
    if (task.kind == TaskKind::custom) {
        add_all_fields(task, loader.field_specs());
        task.outputs = recipe.model.classes.value_or(0);
        if (task.input.empty() && !task.more.empty()) {
            task.fields.input = task.more.front().name;
            task.input = task.more.front().shape;
        }
        return task;
    }
    const FieldSpec& spec = target_spec(task.kind, loader);
    task.fields.target = spec.name;
    if (task.needs_own_model()) {
        const std::int64_t ignored = task.kind == TaskKind::segmentation ? kIgnoredPixel : kIgnoredToken;
        task.loss.ignore_index = recipe.train.ignore_index.value_or(ignored);
        task.outputs = recipe.model.classes.value_or(0);
        task.target = spec.shape;
    } else {
        task.outputs = target_width(recipe, spec);
        task.target = {task.outputs};
    }
    task.classes = target_names(recipe, loader.dataset(), task);
    if (task.outputs == 0 && gives_pixels(recipe.model)) {
        const auto own = std::ranges::find(recipe.data.fields.more, spec.name, &FieldRecipe::name);
        const bool listed = own != recipe.data.fields.more.end() && !own->values.empty();
        task.outputs = listed ? std::ssize(own->values) : std::ssize(task.classes);
    }
    if (task.kind == TaskKind::language) {
        add_tokens(task, spec, loader.field_specs());
    }
    return task;
}

void add_inputs(Task& task, std::span<const std::string> names, std::span<const FieldSpec> specs) {
    for (const std::string& name : names) {
        const FieldSpec* spec = find_spec(specs, name);
        const bool is_input = name == task.fields.input || (spec == nullptr && name == names.front());
        if (is_input) {
            continue;
        }
        if (spec == nullptr || spec->ragged) {
            throw InvalidArgument(
                {.where = "model",
                 .expected =
                     fmt::format("a field \"{}\" of the data, as the model takes {}", name, fmt::join(names, ", ")),
                 .got = spec == nullptr ? fmt::format("the fields {}", describe_specs(specs)) : "one of any length",
                 .hint = spec == nullptr ? fmt::format("name it in the recipe: [data.fields.{}]", name)
                                         : fmt::format("set data.fields.{}.pad", name)});
        }
        task.inputs.push_back(name);
        if (find_spec(task.more, name) == nullptr) {
            task.fields.more.push_back(name);
            task.more.push_back(in_step(task, *spec));
        }
    }
}

void set_weights(Task& task, const ClassWeights& weights, const Dataset& dataset, const at::Device& device) {
    if (!weights.balanced && weights.values.empty()) {
        return;
    }
    const std::vector<double> values = weights.balanced ? balanced_weights(dataset, task.outputs) : weights.values;
    if (std::ssize(values) != task.outputs) {
        throw InvalidArgument({.where = "train.class_weights",
                               .expected = fmt::format("{} weights, one for each class", task.outputs),
                               .got = fmt::to_string(values.size())});
    }
    const at::Tensor host = at::empty({task.outputs}, at::kFloat);
    std::ranges::transform(values, host.mutable_data_ptr<float>(),
                           [](double value) { return static_cast<float>(value); });
    task.loss.weight = host.to(device);
}

void cast_doubles(DeviceBatch& batch) {
    const auto cast = [&](at::Tensor& values) {
        if (values.scalar_type() == at::kDouble) {
            values = values.to(at::kFloat);
            batch.in_slot = false;
        }
    };
    cast(batch.input);
    for (DeviceField& field : batch.fields) {
        cast(field.tensor);
    }
}

void prepare(const Task& task, DeviceBatch& batch) {
    cast_doubles(batch);
    const at::Tensor copied = batch.target;
    switch (task.kind) {
        case TaskKind::multilabel:
        case TaskKind::regression:
            batch.target = batch.target.reshape({batch.size(), task.outputs}).to(at::kFloat);
            break;
        case TaskKind::segmentation:
            batch.target = batch.target.to(at::kLong);  // uint8 until here, an eighth of the bytes to copy
            break;
        case TaskKind::language:
            split_tokens(task, batch);
            break;
        default:
            break;
    }
    batch.in_slot = batch.in_slot && batch.target.is_alias_of(copied);
}

DeviceBatch zero_batch(const Task& task, std::int64_t samples, const at::Device& device) {
    const auto zeros = [&](const Shape& shape, at::ScalarType type) {
        return at::zeros(with_samples(samples, shape), at::TensorOptions(device).dtype(type));
    };
    const bool values = task.kind == TaskKind::multilabel || task.kind == TaskKind::regression;
    DeviceBatch batch{.input = zeros(task.input, input_type(task)),
                      .target = zeros(task.target, values ? at::kFloat : at::kLong)};
    batch.input_name = task.fields.input;
    for (const FieldSpec& spec : task.more) {
        batch.fields.push_back({spec.name, zeros(spec.value_shape(), value_type(spec))});
    }
    return batch;
}

DeviceBatch random_batch(const Task& task, std::int64_t samples, const at::Device& device) {
    DeviceBatch batch = zero_batch(task, samples, device);
    if (batch.input.is_floating_point()) {
        batch.input.normal_();
    }
    return batch;
}

std::int64_t class_count(const Recipe& recipe, const Dataset& dataset) {
    const auto in_data = static_cast<std::int64_t>(dataset.classes().size());
    const std::int64_t classes = recipe.model.classes.value_or(in_data);
    if (classes < 1 || classes < in_data) {
        throw InvalidArgument(
            {.where = "model.classes",
             .expected = in_data == 0 ? std::string("the number of classes")
                                      : fmt::format("at least the {} classes of the data", in_data),
             .got = fmt::to_string(classes),
             .hint = in_data == 0 ? classes_hint(dataset) : "leave it out to take the number from the data"});
    }
    return classes;
}

}  // namespace stoker
