// Arbitrary bytes as a .pt2 file, and as the graph in one that is otherwise sound. A graph that the check accepts has
// nothing but ATen's operators, found here by another walk over the JSON.
#include <nlohmann/json.hpp>

#include "formats/pt2/pt2_support.h"
#include "fuzz/formats/sources.h"
#include "stoker/formats/pt2/pt2_check.h"
#include "stoker/formats/pt2/pt2_graph.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

void require_harmless_graph(const nlohmann::json& graph) {
    for (const auto& node : graph.at("nodes")) {
        const std::string target = node.at("target");
        require(target.find("higher_order") == std::string::npos && target.find("file") == std::string::npos);
        require(target.starts_with("torch.ops.aten.") || !target.starts_with("torch.ops"));
    }
}

void check(std::span<const std::byte> file) {
    if (!succeeds([&] { require_plain_graphs(ZipFile(file)); })) {
        return;
    }
    const ZipFile zip(file);
    for (const char* name : {"models/train.json", "models/eval.json"}) {
        require_harmless_graph(read_pt2_json(zip, name).at("graph_module").at("graph"));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = as_input(data, size);
    check(input);
    const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
    check(as_bytes(stoker::testing::zip(stoker::testing::pt2_members({{"net/models/train.json", text}}))));
    return 0;
}
