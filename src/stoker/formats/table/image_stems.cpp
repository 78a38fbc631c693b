#include "stoker/formats/table/image_stems.h"

#include <filesystem>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/formats/folder_walk.h"
#include "stoker/formats/image_kind.h"

namespace stoker {

namespace fs = std::filesystem;

ImageStems::ImageStems(const std::string& folder) {
    const fs::path root = folder.empty() ? "." : folder;
    std::error_code error;
    std::error_code unknown;  // an entry of unknown type is not a folder
    constexpr auto kOptions =
        fs::directory_options::skip_permission_denied | fs::directory_options::follow_directory_symlink;
    fs::recursive_directory_iterator entry(root, kOptions, error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        const fs::path& file = entry->path();
        if (entry->is_symlink(unknown) && entry->is_directory(unknown) && !folder_above(file, root).empty()) {
            entry.disable_recursion_pending();
        }
        if (!is_image_name(file.filename().string())) {
            continue;
        }
        const fs::path path = file.lexically_relative(root);
        const auto add = [&](std::string stem) {
            const auto [known, is_new] =
                by_stem_.try_emplace(std::move(stem), Found{.path = path.string(), .other = ""});
            if (!is_new && known->second.path != path && known->second.other.empty()) {
                known->second.other = path.string();
            }
        };
        add(file.stem().string());
        if (path.has_parent_path()) {
            add((path.parent_path() / path.stem()).string());
        }
    }
    if (error) {
        throw errno_error(root.string(), "a readable folder", error.value());
    }
}

std::string_view ImageStems::find(std::string_view name) const {
    const auto found = by_stem_.find(std::string(name));
    if (found == by_stem_.end()) {
        return "";
    }
    if (const auto& [path, other] = found->second; !other.empty()) {
        throw DataError({}, {.where = "table",
                             .expected = fmt::format("one image called \"{}\" with an ending", name.substr(0, 200)),
                             .got = fmt::format("{} and {}", path, other),
                             .hint = "write the paths into the table, or copy it into one of the folders"});
    }
    return found->second.path;
}

}  // namespace stoker
