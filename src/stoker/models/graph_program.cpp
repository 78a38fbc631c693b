// torch.export writes each argument as an object with one key, its kind. The numbers of types and formats are those of
// torch/_export/serde/schema.py.
#include "stoker/models/graph_program.h"

#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/bridge/tensor.h"
#include "stoker/formats/pt2/pt2_check.h"
#include "stoker/formats/pt2/pt2_graph.h"

namespace stoker {
namespace {

using Json = nlohmann::json;
using c10::IValue;
using c10::TypeKind;

[[noreturn]] void damaged(std::string expected, std::string got) {
    throw DataError({}, {.where = "model.export", .expected = std::move(expected), .got = std::move(got)});
}

[[noreturn]] void unsupported(std::string expected, std::string got) {
    throw Unsupported({.where = "model.export",
                       .expected = std::move(expected),
                       .got = std::move(got),
                       .hint = "export the model with PyTorch " TORCH_VERSION});
}

template <typename Value, std::size_t N>
Value numbered(const Json& json, const std::array<Value, N>& values, const char* kind) {
    const auto number = json.get<std::int64_t>();
    if (number < 1 || number >= static_cast<std::int64_t>(N)) {
        unsupported(fmt::format("a {} of 1 to {}", kind, N - 1), fmt::to_string(number));
    }
    return values[static_cast<std::size_t>(number)];
}

at::ScalarType type_of(const Json& json) {
    using T = at::ScalarType;
    constexpr std::array kTypes = {T::Undefined,    T::Byte,          T::Char,  T::Short,   T::Int,
                                   T::Long,         T::Half,          T::Float, T::Double,  T::ComplexHalf,
                                   T::ComplexFloat, T::ComplexDouble, T::Bool,  T::BFloat16};
    return numbered(json, kTypes, "type");
}

at::MemoryFormat format_of(const Json& json) {
    using M = at::MemoryFormat;
    constexpr std::array kFormats = {M::Contiguous, M::Contiguous, M::ChannelsLast, M::ChannelsLast3d, M::Preserve};
    return numbered(json, kFormats, "memory format");
}

at::Layout layout_of(const Json& json) {
    constexpr int kStrided = 7;
    if (json.get<int>() != kStrided) {
        unsupported("dense tensors", fmt::format("layout {}", json.get<int>()));
    }
    return at::Layout::Strided;
}

// Numbers that JSON lacks are texts.
double real_of(const Json& json) {
    if (!json.is_string()) {
        return json.get<double>();
    }
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto text = json.get<std::string>();
    if (text != "Infinity" && text != "-Infinity" && text != "NaN") {
        damaged("a number", in_quotes(text));
    }
    return text == "NaN" ? std::numeric_limits<double>::quiet_NaN() : text == "Infinity" ? kInfinity : -kInfinity;
}

template <typename Element, typename Read>
IValue list_of(const Json& json, const Read& read) {
    c10::List<Element> list;
    for (const Json& item : json) {
        list.push_back(read(item));
    }
    return list;
}

struct ConstantKind {
    std::string_view name;
    IValue (*read)(const Json& json);
};
constexpr ConstantKind kConstants[] = {
    {"as_none", [](const Json&) { return IValue(); }},
    {"as_int", [](const Json& json) { return IValue(json.get<std::int64_t>()); }},
    {"as_float", [](const Json& json) { return IValue(real_of(json)); }},
    {"as_bool", [](const Json& json) { return IValue(json.get<bool>()); }},
    {"as_string", [](const Json& json) { return IValue(json.get<std::string>()); }},
    {"as_complex",
     [](const Json& json) { return IValue(c10::complex<double>(real_of(json.at("real")), real_of(json.at("imag")))); }},
    {"as_scalar_type", [](const Json& json) { return IValue(static_cast<std::int64_t>(type_of(json))); }},
    {"as_memory_format", [](const Json& json) { return IValue(static_cast<std::int64_t>(format_of(json))); }},
    {"as_layout", [](const Json& json) { return IValue(static_cast<std::int64_t>(layout_of(json))); }},
    {"as_ints",
     [](const Json& json) {
         return list_of<std::int64_t>(json, [](const Json& item) { return item.get<std::int64_t>(); });
     }},
    {"as_floats", [](const Json& json) { return list_of<double>(json, real_of); }},
    {"as_bools",
     [](const Json& json) { return list_of<bool>(json, [](const Json& item) { return item.get<bool>(); }); }},
};

const c10::Type& without_optional(const c10::TypePtr& type) {
    return type->kind() == TypeKind::OptionalType ? *type->expectRef<c10::OptionalType>().getElementType() : *type;
}

// As Python passes it on: whole numbers may stand for real ones, and the type of an empty list is unknown.
IValue fitted(IValue constant, const c10::Type& type) {
    if (constant.isInt() && type.kind() == TypeKind::FloatType) {
        return static_cast<double>(constant.toInt());
    }
    if (!constant.isIntList() || type.kind() != TypeKind::ListType) {
        return constant;
    }
    const std::vector<std::int64_t> numbers = constant.toIntVector();
    const c10::Type& element = *type.expectRef<c10::ListType>().getElementType();
    if (element.kind() == TypeKind::FloatType) {
        c10::List<double> list;
        for (const std::int64_t number : numbers) {
            list.push_back(static_cast<double>(number));
        }
        return list;
    }
    if (!numbers.empty()) {
        return constant;
    }
    if (element.kind() == TypeKind::TensorType) {
        return c10::List<at::Tensor>();
    }
    return element.kind() == TypeKind::OptionalType ? IValue(c10::List<std::optional<at::Tensor>>()) : constant;
}

std::vector<std::int64_t> sizes_of(const Json& json) {
    std::vector<std::int64_t> sizes;
    for (const Json& size : json) {
        sizes.push_back(size.at("as_int").get<std::int64_t>());
    }
    return sizes;
}

class ProgramReader {
  public:
    ProgramReader(const ZipFile& zip, std::string name, const at::Device& device)
        : zip_(zip), folder_(pt2_folder(zip)), name_(std::move(name)), device_(device) {}

    GraphProgram read() {
        const Json module = read_pt2_json(zip_, fmt::format("models/{}.json", name_)).at("graph_module");
        const Json& graph = module.at("graph");
        const Json& specs = module.at("signature").at("input_specs");
        for (std::size_t i = 0; i < specs.size(); ++i) {
            add_input(graph.at("inputs").at(i), specs[i]);
        }
        for (const Json& node : graph.at("nodes")) {
            program_.nodes.push_back(node_of(node));
        }
        for (const Json& output : graph.at("outputs")) {
            program_.outputs.push_back(use(output.at("as_tensor"), Kind::tensor));
        }
        program_.values = kinds_.size();
        find_last_uses();
        return std::move(program_);
    }

  private:
    enum class Kind : std::uint8_t { tensor, number };

    at::Device device_of(const Json& json) const {
        const auto type = json.at("type").get<std::string>();
        if (type != "cpu" && type != "cuda") {
            unsupported("tensors on cpu or cuda", in_quotes(type));
        }
        const at::Device stated(type);
        return stated.type() == device_.type() ? device_ : stated;
    }

    int define(const std::string& name, Kind kind) {
        if (!numbers_.emplace(name, static_cast<int>(kinds_.size())).second) {
            damaged("each value once", in_quotes(name) + " twice");
        }
        kinds_.push_back(kind);
        return static_cast<int>(kinds_.size()) - 1;
    }

    // {"name": "x"}, of an input, a tensor of the graph or an earlier node.
    int use(const Json& json, Kind kind) const { return use(json.at("name").get<std::string>(), kind); }

    int use(const std::string& name, Kind kind) const {
        const auto found = numbers_.find(name);
        if (found == numbers_.end() || kinds_[static_cast<std::size_t>(found->second)] != kind) {
            damaged(
                fmt::format("a {} {} of an earlier node", kind == Kind::tensor ? "tensor" : "number", in_quotes(name)),
                found == numbers_.end() ? "none" : "a value of another kind");
        }
        return found->second;
    }

    void add_input(const Json& input, const Json& spec) {
        const int value = define(input.at("as_tensor").at("name").get<std::string>(), Kind::tensor);
        const std::string& kind = kind_of(spec);
        if (kind == "user_input") {
            program_.inputs.push_back(value);
        } else {
            program_.tensors.emplace_back(value, stored(kind == "tensor_constant" ? "constants" : "weights",
                                                        spec.at(kind).at(kind + "_name").get<std::string>()));
        }
    }

    at::Tensor stored(const std::string& part, const std::string& tensor) const {
        const Json config = read_pt2_json(zip_, fmt::format("data/{0}/{1}_{0}_config.json", part, name_));
        const Json& found = config.at("config").at(tensor);
        const Json& meta = found.at("tensor_meta");
        const std::string member = fmt::format("data/{}/{}", part, found.at("path_name").get<std::string>());
        const ZipEntry* entry = zip_.find(folder_ + member);
        if (entry == nullptr) {
            damaged("a member " + in_quotes(member), "none");
        }
        const at::ScalarType type = type_of(meta.at("dtype"));
        const auto item = static_cast<std::int64_t>(c10::elementSize(type));
        auto* bytes = const_cast<std::byte*>(zip_.stored(*entry).data());  // copy_of only reads
        const std::int64_t whole = static_cast<std::int64_t>(entry->size) / item * item;
        return copy_of({.data = bytes, .dtype = DType::uint8, .shape = {whole}})
            .view(type)
            .as_strided(sizes_of(meta.at("sizes")), sizes_of(meta.at("strides")),
                        meta.at("storage_offset").at("as_int").get<std::int64_t>())
            .to(device_of(meta.at("device")));
    }

    // {"as_name": "s0"}, {"as_int": 3}, {"as_float": 0.5} or {"as_bool": true}
    GraphItem number_of(const Json& json) const {
        const std::string& kind = kind_of(json);
        if (kind == "as_name") {
            return {.value = use(json.at(kind).get<std::string>(), Kind::number)};
        }
        return {.constant = constant_of(kind, json.at(kind))};
    }

    // {"as_tensor": {"name": "x"}} or {"as_none": true}
    GraphItem optional_tensor(const Json& json) const {
        return kind_of(json) == "as_tensor" ? GraphItem{.value = use(json.at("as_tensor"), Kind::tensor)} : GraphItem{};
    }

    IValue constant_of(std::string_view kind, const Json& json) const {
        if (kind == "as_device") {
            return device_of(json);
        }
        const auto* const found = std::ranges::find(kConstants, kind, &ConstantKind::name);
        if (found == std::end(kConstants)) {
            unsupported("arguments of tensors and numbers", in_quotes(kind));
        }
        return found->read(json);
    }

    GraphArgument argument_of(const Json& json) const {
        using Kinds = GraphArgument::Kind;
        const std::string& kind = kind_of(json);
        const Json& value = json.at(kind);
        GraphArgument argument;
        if (kind == "as_tensor") {
            argument.items = {{.value = use(value, Kind::tensor)}};
        } else if (kind == "as_optional_tensor") {
            argument.items = {optional_tensor(value)};
        } else if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
            argument.items = {number_of(value)};
        } else if (kind == "as_sym_ints") {
            argument.kind = Kinds::ints;
            std::ranges::transform(value, std::back_inserter(argument.items),
                                   [&](const Json& item) { return number_of(item); });
        } else if (kind == "as_tensors") {
            argument.kind = Kinds::tensors;
            std::ranges::transform(value, std::back_inserter(argument.items),
                                   [&](const Json& item) { return GraphItem{.value = use(item, Kind::tensor)}; });
        } else if (kind == "as_optional_tensors") {
            argument.kind = Kinds::optional_tensors;
            std::ranges::transform(value, std::back_inserter(argument.items),
                                   [&](const Json& item) { return optional_tensor(item); });
        } else {
            argument.items = {{.constant = constant_of(kind, value)}};
        }
        return argument;
    }

    // LibTorch does not check the numbers of these.
    static void require_enumeration(const c10::Type& type, const std::string& kind, const std::string& target) {
        const std::string_view wanted = type.kind() == TypeKind::ScalarTypeType     ? "as_scalar_type"
                                        : type.kind() == TypeKind::LayoutType       ? "as_layout"
                                        : type.kind() == TypeKind::MemoryFormatType ? "as_memory_format"
                                                                                    : "";
        if (!wanted.empty() && kind != wanted && kind != "as_none") {
            damaged(fmt::format("{} for an argument of {}", wanted, target), kind);
        }
    }

    GraphArgument argument_for(const c10::Argument& wanted, const Json& inputs, const std::string& target) const {
        const auto given =
            std::ranges::find_if(inputs, [&](const Json& input) { return input.at("name") == wanted.name(); });
        const c10::Type& type = without_optional(wanted.real_type());
        if (given == inputs.end()) {
            if (!wanted.default_value() && wanted.type()->kind() != TypeKind::OptionalType) {
                damaged(fmt::format("an argument {} of {}", wanted.name(), target), "none");
            }
            return {.items = {{.constant = wanted.default_value().value_or(IValue())}}};
        }
        require_enumeration(type, kind_of(given->at("arg")), target);
        GraphArgument argument = argument_of(given->at("arg"));
        argument.is_tensor = argument.kind == GraphArgument::Kind::single && type.kind() == TypeKind::TensorType;
        for (GraphItem& item : argument.items) {
            if (item.value < 0 && argument.kind == GraphArgument::Kind::single) {
                item.constant = fitted(std::move(item.constant), type);
            }
        }
        return argument;
    }

    void add_call(GraphNode& node, const Json& json, const std::string& target) const {
        constexpr std::string_view kPrefix = "torch.ops.";
        const std::string_view path = std::string_view(target).substr(std::min(kPrefix.size(), target.size()));
        const std::size_t name = path.find('.') + 1;
        const std::size_t overload = path.find('.', name) + 1;
        if (!target.starts_with(kPrefix) || name == 0 || overload == 0) {
            damaged("the name of an operator", in_quotes(target));
        }
        const std::string_view variant = path.substr(overload);
        node.operation = c10::Dispatcher::singleton().findSchema(
            {fmt::format("{}::{}", path.substr(0, name - 1), path.substr(name, overload - 1 - name)),
             std::string(variant == "default" ? "" : variant)});
        if (!node.operation) {
            unsupported("operators that this LibTorch has", in_quotes(target));
        }
        const Json& inputs = json.at("inputs");
        const std::vector<c10::Argument>& wanted = node.operation->schema().arguments();
        for (const Json& input : inputs) {
            const auto known = [&](const c10::Argument& argument) { return input.at("name") == argument.name(); };
            if (std::ranges::none_of(wanted, known)) {
                unsupported(fmt::format("arguments that {} has in this LibTorch", target),
                            in_quotes(input.at("name").get<std::string>()));
            }
        }
        for (const c10::Argument& argument : wanted) {
            node.arguments.push_back(argument_for(argument, inputs, target));
        }
    }

    GraphResult result_of(const Json& json) {
        const std::string& kind = kind_of(json);
        const Json& value = json.at(kind);
        GraphResult result{.is_list = kind == "as_tensors"};
        if (result.is_list) {
            for (const Json& item : value) {
                result.values.push_back(define(item.at("name").get<std::string>(), Kind::tensor));
            }
        } else if (kind == "as_tensor") {
            result.values.push_back(define(value.at("name").get<std::string>(), Kind::tensor));
        } else if (kind != "as_none") {
            result.values.push_back(define(value.at("as_name").get<std::string>(), Kind::number));
        }
        return result;
    }

    GraphNode node_of(const Json& json) {
        GraphNode node;
        const auto target = json.at("target").get<std::string>();
        node.arithmetic = find_size_function(target);
        if (node.arithmetic == nullptr) {
            add_call(node, json, target);
        } else {
            for (const Json& input : json.at("inputs")) {
                node.arguments.push_back(argument_of(input.at("arg")));
            }
        }
        for (const Json& output : json.at("outputs")) {
            node.results.push_back(result_of(output));
        }
        return node;
    }

    void find_last_uses() {
        std::vector<bool> used(kinds_.size());
        for (const int output : program_.outputs) {
            used[static_cast<std::size_t>(output)] = true;
        }
        for (auto node = program_.nodes.rbegin(); node != program_.nodes.rend(); ++node) {
            const auto see = [&](int value) {
                if (value >= 0 && !used[static_cast<std::size_t>(value)]) {
                    used[static_cast<std::size_t>(value)] = true;
                    node->released.push_back(value);
                }
            };
            for (const GraphResult& result : node->results) {
                std::ranges::for_each(result.values, see);
            }
            for (const GraphArgument& argument : node->arguments) {
                std::ranges::for_each(argument.items, see, &GraphItem::value);
            }
        }
    }

    const ZipFile& zip_;
    std::string folder_;
    std::string name_;
    at::Device device_;
    GraphProgram program_;
    std::map<std::string, int, std::less<>> numbers_;  // of the values, by name
    std::vector<Kind> kinds_;                          // of each value
};

}  // namespace

GraphProgram read_graph_program(const ZipFile& zip, const std::string& name, const at::Device& device) {
    try {
        return ProgramReader(zip, name, device).read();
    } catch (const Json::exception& error) {
        damaged(fmt::format("a graph {:?} of torch.export", name), error.what());
    }
}

}  // namespace stoker
