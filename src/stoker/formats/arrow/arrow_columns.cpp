#include "stoker/formats/arrow/arrow_columns.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/formats/fields.h"

namespace stoker {
namespace {

bool is_media(const ArrowType& type) {
    const ArrowType* bytes = type.child("bytes");
    return bytes != nullptr && bytes->has_bytes() && type.child("path") != nullptr;
}

void add(const ArrowType& type, ArrowPath path, bool in_list, const std::map<std::string, HubFeature>& features,
         std::vector<ArrowColumn>& columns) {
    const ArrowType* inner = &type;
    while (inner->is_list()) {
        inner = &inner->children.front();
    }
    const bool media = is_media(*inner);
    if (inner->kind == ArrowKind::structure && !media) {
        for (const ArrowType& child : inner->children) {
            ArrowPath below = path;
            below.push_back(child.name);
            add(child, std::move(below), in_list || inner != &type, features, columns);
        }
        return;
    }
    ArrowColumn column{.path = std::move(path), .name = "", .type = type, .media = media, .in_list = in_list};
    column.name = dotted(column.path);
    if (const auto found = features.find(column.name); found != features.end()) {
        column.feature = found->second;
    }
    columns.push_back(std::move(column));
}

const ArrowColumn* usual(const std::vector<ArrowColumn>& columns, std::span<const std::string_view> names,
                         const std::function<bool(const ArrowColumn&)>& fits) {
    for (const std::string_view name : names) {
        if (const ArrowColumn* found = find_column(columns, name); found != nullptr && fits(*found)) {
            return found;
        }
    }
    const auto first = std::ranges::find_if(columns, fits);
    return first == columns.end() ? nullptr : &*first;
}

const ArrowColumn* named(const std::vector<ArrowColumn>& columns, const std::string& name, const std::string& path) {
    const ArrowColumn* found = find_column(columns, name);
    if (found == nullptr) {
        throw DataError(
            {.path = path},
            {.where = "columns", .expected = fmt::format("a column named {}", name), .got = describe_columns(columns)});
    }
    return found;
}

}  // namespace

bool ArrowColumn::has_pixels() const {
    if (!type.tensor.empty()) {
        return type.tensor.size() >= 2;
    }
    return has_numbers(type) && type.is_list() && type.children.front().is_list();
}

bool ArrowColumn::may_be_label() const {
    return !in_list && !media &&
           (type.kind == ArrowKind::number || type.kind == ArrowKind::boolean || type.has_bytes());
}

bool ArrowColumn::may_be_path() const {
    constexpr std::string_view kNames[] = {"path",       "file",     "image",     "filename", "file_name",
                                           "image_path", "filepath", "file_path", "images"};
    return !in_list && !media && type.has_bytes() && std::ranges::find(kNames, name) != std::end(kNames);
}

std::vector<ArrowColumn> arrow_columns(const ArrowType& root, const std::map<std::string, HubFeature>& features) {
    std::vector<ArrowColumn> columns;
    for (const ArrowType& child : root.children) {
        add(child, {child.name}, false, features, columns);
    }
    return columns;
}

const ArrowColumn* find_column(const std::vector<ArrowColumn>& columns, std::string_view name) {
    const auto found = std::ranges::find(columns, name, &ArrowColumn::name);
    return found == columns.end() ? nullptr : &*found;
}

ArrowRoles choose_roles(const std::vector<ArrowColumn>& columns, const FieldNames& wanted,
                        const std::function<bool(const ArrowColumn&)>& holds_images,
                        const std::function<bool(const ArrowColumn&)>& holds_labels, const std::string& path) {
    const auto asked = [&](const ArrowColumn& column) {
        return std::ranges::find(wanted.more, column.name, &FieldRequest::source) != wanted.more.end();
    };
    ArrowRoles roles;
    if (!wanted.image.empty()) {
        roles.image = named(columns, wanted.image, path);
    } else {
        roles.image = usual(columns, usual_image_names(), [&](const ArrowColumn& column) {
            const bool usual_name = std::ranges::find(usual_image_names(), column.name) != usual_image_names().end();
            return !asked(column) && column.name != wanted.label &&
                   (column.media || (column.has_pixels() && usual_name) || holds_images(column));
        });
    }
    if (roles.image == nullptr && wanted.more.empty()) {
        throw DataError({.path = path},
                        {.where = "columns",
                         .expected = "a column of images, sounds or videos",
                         .got = describe_columns(columns),
                         .hint = "name it with data.fields.image (--image-field), or name fields to "
                                 "read samples without an image, such as --field tokens=COLUMN:tokens"});
    }
    if (wanted.unlabelled && find_column(columns, wanted.label) == nullptr) {
        return roles;
    }
    if (!wanted.label.empty()) {
        roles.label = named(columns, wanted.label, path);
        if (!roles.label->may_be_label() || (roles.label->type.element.is_float() && !holds_labels(*roles.label))) {
            throw Unsupported({.where = path,
                               .expected = fmt::format("integers or text in the column {}, for labels", wanted.label),
                               .got = arrow_type_name(roles.label->type)});
        }
        return roles;
    }
    const std::span<const std::string_view> names = usual_label_names();
    roles.label = usual(columns, names, [&](const ArrowColumn& column) {
        const bool usual_name = std::ranges::find(names, column.name) != names.end();
        const bool text = !column.type.has_bytes() || column.type.text ||
                          (column.type.kind == ArrowKind::dictionary && column.type.children.front().text);
        return &column != roles.image && !asked(column) && column.may_be_label() && text &&
               (usual_name || column.feature.type == "ClassLabel") &&
               (!column.type.element.is_float() || holds_labels(column));
    });
    return roles;
}

std::string describe_columns(const std::vector<ArrowColumn>& columns) {
    constexpr std::size_t kListed = 20;
    std::string text;
    for (std::size_t i = 0; i < std::min(columns.size(), kListed); ++i) {
        text += fmt::format("{}{} {}", i == 0 ? "" : ", ", columns[i].name, arrow_type_name(columns[i].type));
    }
    return columns.size() > kListed ? text + ", ..." : text.empty() ? "no columns" : text;
}

}  // namespace stoker
