// The file's name is a hash of the data set's absolute path. Its records are found by the images' own bytes, so an
// index of other data under the same name is only of no use.
#include "stoker/pipeline/cache/open_jpeg_index.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "stoker/base/user_cache.h"
#include "stoker/io/byte_file.h"

namespace stoker {

std::shared_ptr<JpegIndex> open_jpeg_index(const std::string& data, std::int64_t images) {
    constexpr std::string_view kKind = "jpeg_index";
    std::error_code unknown;
    const std::filesystem::path absolute = std::filesystem::absolute(data, unknown).lexically_normal();
    const std::string name = is_remote(data) || unknown ? data : absolute.string();
    const std::filesystem::path file = user_cache_file(kKind, name);
    return file.empty() ? nullptr : std::make_shared<JpegIndex>(file, images);
}

}  // namespace stoker
