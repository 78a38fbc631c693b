#include "engine/commands/mask_folder.h"

#include <array>
#include <fmt/format.h>
#include <span>
#include <system_error>
#include <utility>

#include "cli/terminal/output_path.h"
#include "engine/commands/prediction_file.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/hash.h"
#include "stoker/formats/image_kind.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

// A key comes from the data: its path must not lead out of the folder.
std::string inside(const fs::path& folder, const std::string& key) {
    fs::path path = folder;
    for (const fs::path& part : fs::path(key).relative_path()) {
        if (part != ".." && part != "." && !part.empty()) {
            path /= part;
        }
    }
    return path.string();
}

}  // namespace

void MaskFolder::check(const std::string& folder) {
    if (folder.empty() || is_image_name(folder) || PredictionFile::is_named(folder)) {
        throw BadSetting(
            {.where = "-o", .expected = "a folder for the masks", .got = folder.empty() ? "none" : folder});
    }
}

MaskFolder::MaskFolder(fs::path folder) : folder_(std::move(folder)) {
    require_writable_folder(folder_);
}

fs::path MaskFolder::free_name(const std::string& key) {
    const std::string ending = is_image_name(key) ? fs::path(key).extension().string() : "";
    const std::string name = inside(folder_, key.substr(0, key.size() - ending.size()));
    std::int64_t& number = number_[hash_text(name)];
    std::string path;
    do {
        path = ++number == 1 ? name + ".png" : fmt::format("{}-{}.png", name, number);
    } while (!written_.insert(hash_text(path)).second);
    numbered_ += number > 1 ? 1 : 0;
    return path;
}

void MaskFolder::write(const Prediction& prediction) {
    if (prediction.mask.empty()) {
        return;
    }
    const fs::path path = free_name(prediction.key);
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
        throw errno_error(path.parent_path().string(), "a folder that can be made", error.value());
    }
    const std::array<std::span<const std::byte>, 1> pieces = {prediction.mask};
    write_file(path, pieces, /*sync=*/false);
}

}  // namespace stoker::cli
