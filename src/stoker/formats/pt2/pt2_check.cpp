#include "stoker/formats/pt2/pt2_check.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/formats/pt2/pt2_graph.h"

namespace stoker {

std::string pt2_folder(const ZipFile& zip) {
    const std::string_view first = zip.entries().empty() ? std::string_view() : zip.entries().front().name;
    const std::size_t slash = first.find('/');
    if (slash == std::string_view::npos) {
        throw DataError({}, {.where = "pt2", .expected = "members below a folder", .got = in_quotes(first)});
    }
    return std::string(first.substr(0, slash + 1));
}

void require_plain_graphs(const ZipFile& zip) {
    for (const char* graph : {"train", "eval"}) {
        require_plain_graph(read_pt2_json(zip, fmt::format("models/{}.json", graph)), graph);
    }
}

}  // namespace stoker
