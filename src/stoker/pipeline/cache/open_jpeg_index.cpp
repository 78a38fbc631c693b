// The file's name is a hash of the data set's place. Its records are found by the images' own bytes, so an
// index of other data under the same name is only of no use.
#include "stoker/pipeline/cache/open_jpeg_index.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "stoker/base/url_secrets.h"
#include "stoker/base/user_cache.h"
#include "stoker/io/byte_file.h"

namespace stoker {
namespace {

// Changes with the file's format, and with the distance of points.
constexpr std::string_view kKind = "jpeg_index_1";

std::string place_of(const std::string& data) {
    if (is_remote(data)) {
        return shown_url(data);  // without a signature, which each run may have anew
    }
    std::error_code unknown;
    const std::filesystem::path absolute = std::filesystem::absolute(data, unknown);
    const std::filesystem::path path = unknown ? absolute : std::filesystem::weakly_canonical(absolute, unknown);
    return unknown ? data : (path / "").lexically_normal().parent_path().string();
}

}  // namespace

std::shared_ptr<JpegIndex> open_jpeg_index(const std::string& data) {
    const std::filesystem::path file = user_cache_file(kKind, place_of(data));
    return file.empty() ? nullptr : std::make_shared<JpegIndex>(file);
}

}  // namespace stoker
