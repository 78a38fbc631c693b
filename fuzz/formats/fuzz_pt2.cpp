// Arbitrary bytes as a .pt2 file, and as the graph in one that is otherwise sound. A graph that the check accepts has
// nothing but ATen's operators, found here by another walk over the JSON.
#include <nlohmann/json.hpp>

#include "formats/pt2/pt2_support.h"
#include "fuzz/formats/sources.h"
#include "stoker/base/ascii.h"
#include "stoker/formats/pt2/pt2_check.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

// Neither the name of an operator outside of ATen nor a subgraph or object, at any depth.
void require_harmless(const nlohmann::json& value) {
    for (const auto& [key, entry] : value.items()) {
        if (value.is_object() && (key == "as_graph" || key == "as_custom_obj" || key == "custom_obj")) {
            require(false);
        }
        if (entry.is_structured()) {
            require_harmless(entry);
        }
    }
}

void require_harmless_graph(const nlohmann::json& graph) {
    for (const auto& node : graph.at("nodes")) {
        const std::string target = node.at("target");
        require(target.find("higher_order") == std::string::npos && target.find("file") == std::string::npos);
        require(target.starts_with("torch.ops.aten.") || !target.starts_with("torch.ops"));
        require_harmless(node.at("inputs"));
        require_harmless(node.at("outputs"));
    }
}

void check(std::span<const std::byte> file) {
    if (!succeeds([&] { require_plain_graphs(ZipFile(file)); })) {
        return;
    }
    const ZipFile zip(file);
    int graphs = 0;
    for (const ZipEntry& entry : zip.entries()) {
        const std::string name = lower_case(entry.name);
        require(!name.ends_with(".so") && name.find("aotinductor") == std::string::npos);
        if (name.find("/models/") != std::string::npos) {
            const auto text = zip.stored(entry);
            const auto json = nlohmann::json::parse(reinterpret_cast<const char*>(text.data()),
                                                    reinterpret_cast<const char*>(text.data()) + text.size());
            require_harmless_graph(json.at("graph_module").at("graph"));
            ++graphs;
        }
    }
    require(graphs == 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = as_input(data, size);
    check(input);
    const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
    check(as_bytes(stoker::testing::zip(stoker::testing::pt2_members({{"net/models/train.json", text}}))));
    return 0;
}
