// The fields that a data set holds and that were not asked for: `inspect` lists them, and `pack` and `unpack` say that
// they leave them out.
#pragma once

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker::cli {

// Whether the request reads the field `name`. A table's field may have several columns: "left,top,right,bottom".
inline bool reads(const FieldRequest& request, const std::string& name) {
    std::string_view from = request.source();
    while (true) {
        const std::size_t comma = from.find(',');
        const std::string_view part = from.substr(0, comma);
        if (part.substr(std::min(part.find_first_not_of(' '), part.size())) == name) {
            return true;
        }
        if (comma == std::string_view::npos) {
            return request.source() == name;
        }
        from.remove_prefix(comma + 1);
    }
}

// Under their names in the data. Kinds are guesses. Throws what Dataset::stored_fields throws.
inline std::vector<Field> unread_fields(const Dataset& dataset, const FieldNames& names) {
    std::vector<Field> fields = dataset.stored_fields();
    std::erase_if(fields, [&](const Field& field) {
        return std::ranges::any_of(names.more, [&](const FieldRequest& more) { return reads(more, field.name); }) ||
               std::ranges::find(dataset.fields(), field.name, &Field::name) != dataset.fields().end();
    });
    return fields;
}

inline std::vector<std::string> names_of(const std::vector<Field>& fields) {
    std::vector<std::string> names;
    std::ranges::transform(fields, std::back_inserter(names), &Field::name);
    return names;
}

// "cx, cy (--field NAME keeps them)"
inline std::string left_out_text(const std::vector<Field>& fields) {
    constexpr std::size_t kListed = 20;
    std::vector<std::string> names = names_of(fields);
    if (names.size() > kListed) {
        names.resize(kListed);
        names.push_back(fmt::format("{} more", fields.size() - kListed));
    }
    return fmt::format("{} (--field NAME keeps {})", fmt::join(names, ", "), fields.size() == 1 ? "it" : "them");
}

}  // namespace stoker::cli
