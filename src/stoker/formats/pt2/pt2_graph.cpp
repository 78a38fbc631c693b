// A node's target decides what runs: an ATen operator, arithmetic on sizes, or what only LibTorch's own runtimes have,
// such as custom operators, and delegates that open shared libraries of the file.
#include "stoker/formats/pt2/pt2_graph.h"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/pt2/pt2_check.h"
#include "stoker/formats/pt2/pt2_operators.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

[[noreturn]] void damaged(std::string expected, std::string got) {
    throw DataError({}, {.where = "pt2", .expected = std::move(expected), .got = std::move(got)});
}

[[noreturn]] void refuse_native(const std::string& found) {
    throw DataError({}, {.where = "pt2",
                         .expected = "plain graphs of ATen operators, which run no native code of the file",
                         .got = found,
                         .hint = "set STOKER_TRUST_NATIVE=1 if you trust its author"});
}

void require_operators(const Json& nodes, const std::string& graph) {
    for (const Json& node : nodes) {
        const auto& target = node.at("target").get_ref<const std::string&>();
        if (!is_plain_operator(target)) {
            refuse_native(fmt::format("a graph {} that calls {}", in_quotes(graph), in_quotes(target)));
        }
        std::set<std::string> names;
        for (const Json& input : node.at("inputs")) {
            kind_of(input.at("arg"));
            const auto& name = input.at("name").get_ref<const std::string&>();
            if (!name.empty() && !names.insert(name).second) {  // operands of arithmetic have no names
                damaged("each argument once", in_quotes(name) + " twice");
            }
        }
        for (const Json& output : node.at("outputs")) {
            kind_of(output);
        }
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

    // Whether a tensor is the second result of a max pooling, its indices.
    bool is_pool_index(const std::string& tensor) const {
        const Producer* from = find(origin(tensor));
        return from != nullptr && from->output == 1 &&
               operator_name(from->node->at("target").get_ref<const std::string&>()).find("max_pool") !=
                   std::string_view::npos;
    }

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
        // Other operators might change them in place, or give views that do.
        if (name != "alias" && name != "detach" && !name.ends_with(kEnd) && !name.starts_with("max_unpool")) {
            for (const Json& input : node.at("inputs")) {
                const Json& argument = input.at("arg");
                if (argument.contains("as_tensor") &&
                    producers.is_pool_index(argument.at("as_tensor").at("name").get<std::string>())) {
                    refuse_native(fmt::format("a graph {} that calls {} with the indices of a max pooling",
                                              in_quotes(graph), name));
                }
            }
        }
        if (name.find("max_pool") == std::string_view::npos || !name.ends_with(kEnd)) {
            continue;
        }
        name.remove_suffix(kEnd.size());
        const auto* from = producers.find(producers.origin(tensor_input(node, "indices")));
        const std::string self = producers.origin(tensor_input(node, "self"));
        const bool same = from != nullptr && from->output == 1 && !self.empty() &&
                          operator_name(from->node->at("target").get_ref<const std::string&>()) == name &&
                          producers.origin(tensor_input(*from->node, "self")) == self;
        if (!same) {
            refuse_native(fmt::format("a graph {} whose gradient of {} has other indices than it returned",
                                      in_quotes(graph), name));
        }
    }
}

}  // namespace

const std::string& kind_of(const Json& value) {
    if (!value.is_object() || value.size() != 1) {
        damaged("an object with one key", fmt::format("{} with {}", value.type_name(), value.size()));
    }
    return value.begin().key();
}

std::string in_quotes(std::string_view text) {
    return fmt::format("{:?}", text.substr(0, 100));
}

Json read_pt2_json(const ZipFile& zip, const std::string& member) {
    const ZipEntry* entry = zip.find(pt2_folder(zip) + member);
    if (entry == nullptr) {
        damaged("a member " + in_quotes(member), "none");
    }
    Json json = with_memory_place(member, [&] { return parse_json<Json>(as_text(zip.stored(*entry))); });
    if (json.is_discarded()) {
        damaged(fmt::format("JSON of at most {} levels in {}", kMaxJsonDepth, in_quotes(member)), "another text");
    }
    return json;
}

void require_plain_graph(const Json& program, const std::string& name) {
    try {
        const Json& nodes = program.at("graph_module").at("graph").at("nodes");
        require_operators(nodes, name);
        require_pool_indices(nodes, name);
    } catch (const Json::exception& error) {
        damaged(fmt::format("a graph {:?} of torch.export", name), error.what());
    }
}

}  // namespace stoker
