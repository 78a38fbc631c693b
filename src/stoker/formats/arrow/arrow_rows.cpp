#include "stoker/formats/arrow/arrow_rows.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"

namespace stoker {

ArrowHeld value_at(ArrowCell row, std::span<const std::string> path) {
    while (!path.empty() && row.type->kind == ArrowKind::structure && !row.is_null()) {
        const auto found = std::ranges::find(row.type->children, path.front(), &ArrowType::name);
        if (found == row.type->children.end()) {
            throw DataError({}, {.where = "column", .expected = dotted(path), .got = arrow_type_name(*row.type)});
        }
        row = row.child(static_cast<std::size_t>(found - row.type->children.begin()));
        path = path.subspan(1);
    }
    return {.cell = row, .inside = path};
}

const ArrowType* type_at(const ArrowType& root, std::span<const std::string> path) {
    const ArrowType* type = &root;
    for (const std::string& name : path) {
        while (type->is_list()) {
            type = &type->children.front();
        }
        type = type->child(name);
        if (type == nullptr) {
            return nullptr;
        }
    }
    return type;
}

std::string dotted(std::span<const std::string> path) {
    return fmt::format("{}", fmt::join(path, "."));
}

}  // namespace stoker
