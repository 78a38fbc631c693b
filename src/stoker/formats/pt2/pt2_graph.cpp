// nativert decides by a node's target what runs: a name of an ATen operator, or one of higher-order operators, custom
// operators and delegates; some of these open shared libraries of the file. It does not check most of the JSON, so the
// counts and sizes that it relies on are checked here too.
#include "stoker/formats/pt2/pt2_graph.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/pt2/pt2_operators.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

[[noreturn]] void damaged(std::string expected, std::string got) {
    throw DataError({.path = ""}, {.where = "pt2", .expected = std::move(expected), .got = std::move(got)});
}

// An argument is an object with one key, its kind. as_graph, as_custom_obj, as_operator and as_string_to_argument are
// for higher-order operators.
constexpr std::array<std::string_view, 25> kArguments = {
    "as_none",      "as_tensor",      "as_tensors",       "as_optional_tensor", "as_optional_tensors",
    "as_int",       "as_ints",        "as_int_lists",     "as_float",           "as_floats",
    "as_bool",      "as_bools",       "as_string",        "as_strings",         "as_complex",
    "as_sym_int",   "as_sym_ints",    "as_sym_float",     "as_sym_floats",      "as_sym_bool",
    "as_sym_bools", "as_scalar_type", "as_memory_format", "as_layout",          "as_device"};

// The only key of an object: the kind of a value of several possible kinds.
const std::string& kind_of(const Json& value) {
    if (!value.is_object() || value.size() != 1) {
        damaged("an object with one key", fmt::format("{} with {}", value.type_name(), value.size()));
    }
    return value.begin().key();
}

void require_argument(const Json& argument, const std::string& graph) {
    const std::string& kind = kind_of(argument);
    if (std::ranges::find(kArguments, kind) == kArguments.end()) {
        refuse_native(fmt::format("a graph {} that has a value of kind {}", in_quotes(graph), in_quotes(kind)));
    }
}

void require_arguments(const Json& arguments, const std::string& graph) {
    for (const Json& argument : arguments) {
        require_argument(argument, graph);
    }
}

void require_nodes(const Json& nodes, const std::string& graph) {
    for (const Json& node : nodes) {
        const auto& target = node.at("target").get_ref<const std::string&>();
        if (!is_plain_operator(target)) {
            refuse_native(fmt::format("a graph {} that calls {}", in_quotes(graph), in_quotes(target)));
        }
        for (const Json& input : node.at("inputs")) {
            require_argument(input.at("arg"), graph);
        }
        require_arguments(node.at("outputs"), graph);
    }
}

// "max_pool2d" of "torch.ops.aten.max_pool2d.default".
std::string_view operator_name(std::string_view target) {
    constexpr std::string_view kPrefix = "torch.ops.aten.";
    return target.starts_with(kPrefix)
               ? target.substr(kPrefix.size(), target.find('.', kPrefix.size()) - kPrefix.size())
               : std::string_view();
}

// The name of the tensor that a node is given as `name`; empty if there is none.
std::string tensor_input(const Json& node, std::string_view name) {
    for (const Json& input : node.at("inputs")) {
        if (input.at("name") == name && input.at("arg").contains("as_tensor")) {
            return input.at("arg").at("as_tensor").at("name").get<std::string>();
        }
    }
    return {};
}

// The nodes of a graph by the tensors that they return.
class Producers {
  public:
    explicit Producers(const Json& nodes) {
        for (const Json& node : nodes) {
            std::size_t place = 0;
            for (const Json& output : node.at("outputs")) {
                if (output.contains("as_tensor")) {
                    of_.insert_or_assign(output.at("as_tensor").at("name").get<std::string>(), Producer{&node, place});
                }
                ++place;
            }
        }
    }

    struct Producer {
        const Json* node = nullptr;
        std::size_t output = 0;
    };

    // Follows a tensor through nodes that return their input.
    std::string origin(std::string tensor) const {
        for (std::size_t i = 0; i <= of_.size(); ++i) {  // a damaged graph may go in a circle
            const auto found = of_.find(tensor);
            const std::string_view name =
                found == of_.end() ? "" : operator_name(found->second.node->at("target").get_ref<const std::string&>());
            if (name != "alias" && name != "detach") {
                break;
            }
            tensor = tensor_input(*found->second.node, "self");
        }
        return tensor;
    }

    const Producer* find(const std::string& tensor) const {
        const auto found = of_.find(tensor);
        return found == of_.end() ? nullptr : &found->second;
    }

  private:
    std::map<std::string, Producer> of_;
};

// The gradient of max pooling adds to the places that its indices name, without checking them all. They must be those
// that the forward operator returned for the same tensor.
void require_pool_indices(const Json& nodes, const std::string& graph) {
    const Producers producers(nodes);
    for (const Json& node : nodes) {
        constexpr std::string_view kEnd = "_backward";
        std::string_view name = operator_name(node.at("target").get_ref<const std::string&>());
        if (name.find("max_pool") == std::string_view::npos || !name.ends_with(kEnd)) {
            continue;
        }
        name.remove_suffix(kEnd.size());
        const auto* from = producers.find(producers.origin(tensor_input(node, "indices")));
        const bool same =
            from != nullptr && from->output == 1 &&
            operator_name(from->node->at("target").get_ref<const std::string&>()) == name &&
            producers.origin(tensor_input(*from->node, "self")) == producers.origin(tensor_input(node, "self"));
        if (!same) {
            refuse_native(fmt::format("a graph {} whose gradient of {} has other indices than it returned",
                                      in_quotes(graph), name));
        }
    }
}

// The graph's own tensors are inputs that the signature names.
void require_inputs(const Json& graph, const Json& specs, const std::string& name, const StoredTensors& tensors) {
    if (specs.size() != graph.at("inputs").size()) {
        damaged(fmt::format("{} inputs in the signature of {:?}", graph.at("inputs").size(), name),
                fmt::format("{}", specs.size()));
    }
    for (const Json& spec : specs) {
        const std::string& kind = kind_of(spec);
        if (kind == "user_input" || kind == "constant_input") {
            continue;
        }
        if (kind != "parameter" && kind != "buffer" && kind != "tensor_constant") {
            refuse_native(fmt::format("a graph {} that has an input of kind {}", in_quotes(name), in_quotes(kind)));
        }
        const Json& input = spec.at(kind);
        const auto tensor = input.at(kind + "_name").get<std::string>();
        const auto stored = tensors.find(tensor);
        if (stored == tensors.end()) {
            damaged("a stored tensor " + in_quotes(tensor), "none");
        }
        const auto value = input.at("arg").at("name").get<std::string>();
        const Json& metas = graph.at("tensor_values");
        if (!metas.contains(value)) {
            damaged("a type of " + in_quotes(value), "none");
        }
        require_stored(metas.at(value), tensor, stored->second);
    }
}

std::uint64_t number(const Json& value) {
    if (!value.is_number_unsigned()) {
        damaged("a number that is not negative", value.type_name());
    }
    return value.get<std::uint64_t>();
}

// Bytes of an element, by torch.export's number of the type; 0 for types that are not supported.
std::uint64_t item_size(std::uint64_t dtype) {
    constexpr std::array<std::uint8_t, 14> kSizes = {0, 1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 2};
    return dtype < kSizes.size() ? kSizes[dtype] : 0;
}

}  // namespace

std::string in_quotes(std::string_view text) {
    return fmt::format("{:?}", text.substr(0, 100));
}

void refuse_native(const std::string& found) {
    throw DataError({.path = ""}, {.where = "pt2",
                                   .expected = "plain graphs of ATen operators, which run no native code of the file",
                                   .got = found,
                                   .hint = "set STOKER_TRUST_NATIVE=1 if you trust its author"});
}

Json parse_unambiguous_json(std::span<const std::byte> text, const std::string& name) {
    if (json_depth(as_text(text)) > kMaxJsonDepth) {
        damaged(fmt::format("JSON of at most {} levels in {}", kMaxJsonDepth, in_quotes(name)), "more");
    }
    require_memory(kParsedJsonRatio * text.size(), name);
    std::vector<std::set<std::string>> keys;  // of the open objects
    const auto on_event = [&](int, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::object_start) {
            keys.emplace_back();
        } else if (event == Json::parse_event_t::object_end) {
            keys.pop_back();
        } else if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
            damaged("each key once", in_quotes(value.get<std::string>()) + " twice");
        }
        return true;
    };
    const auto* begin = reinterpret_cast<const char*>(text.data());
    try {
        return Json::parse(begin, begin + text.size(), on_event);
    } catch (const Json::parse_error& error) {  // its text has bytes of the file
        damaged("JSON", fmt::format("other text at byte {}", error.byte));
    }
}

void require_stored(const Json& meta, const std::string& name, std::uint64_t stored) {
    const std::uint64_t item = item_size(number(meta.at("dtype")));
    if (item == 0 || number(meta.at("layout")) != 7) {  // 7: strided
        damaged("a dense type of " + in_quotes(name), "another one");
    }
    const Json& sizes = meta.at("sizes");
    const Json& strides = meta.at("strides");
    if (sizes.size() != strides.size()) {
        damaged(fmt::format("{} strides of {}", sizes.size(), in_quotes(name)), fmt::format("{}", strides.size()));
    }
    const std::uint64_t elements = stored / item;
    std::uint64_t last = number(meta.at("storage_offset").at("as_int"));
    bool fits = last < elements;
    bool empty = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::uint64_t size = number(sizes[i].at("as_int"));
        const std::uint64_t stride = number(strides[i].at("as_int"));
        empty = empty || size == 0;
        fits = fits && size <= elements && (size < 2 || stride <= (elements - 1 - last) / (size - 1));
        last += fits && size > 1 ? (size - 1) * stride : 0;
    }
    if (!fits && !empty) {
        damaged("all elements of " + in_quotes(name), fmt::format("{} bytes", stored));
    }
}

void require_plain_graph(const Json& program, const std::string& name, const StoredTensors& tensors) {
    const Json& module = program.at("graph_module");
    const Json& graph = module.at("graph");
    const Json& signature = module.at("signature");
    require_arguments(graph.at("inputs"), name);
    require_arguments(graph.at("outputs"), name);
    require_nodes(graph.at("nodes"), name);
    require_pool_indices(graph.at("nodes"), name);
    require_inputs(graph, signature.at("input_specs"), name, tensors);
    if (signature.at("output_specs").size() != graph.at("outputs").size()) {
        damaged(fmt::format("{} outputs in the signature of {:?}", graph.at("outputs").size(), name),
                fmt::format("{}", signature.at("output_specs").size()));
    }
    const Json& calls = module.at("module_call_graph");
    if (!calls.is_array() || calls.empty() || !calls[0].at("signature").is_object()) {
        damaged(fmt::format("a call of the whole graph {:?}", name), "none");
    }
}

}  // namespace stoker
