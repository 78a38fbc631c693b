#include "stoker/records/line_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

constexpr std::size_t kMaxLine = std::size_t{1} << 16;

}  // namespace

std::string for_each_line(const std::filesystem::path& path,
                          const std::function<void(std::string_view, std::uint64_t)>& take) {
    const File file(path);
    const std::uint64_t size = file.info().size;
    std::string buffer;
    std::uint64_t done = 0;
    while (done < size) {
        constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
        const std::size_t before = buffer.size();
        buffer.resize(before + std::min(size - done, kPiece));
        file.read(done, std::as_writable_bytes(std::span(buffer).subspan(before)));
        const std::uint64_t first = done - before;  // the buffer's offset in the file
        done += buffer.size() - before;
        std::size_t at = 0;
        for (std::size_t end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n', at)) {
            take(std::string_view(buffer).substr(at, end - at), first + at);
            at = end + 1;
        }
        buffer.erase(0, at);
        if (buffer.size() > kMaxLine) {
            throw DataError({.path = path.string(), .offset = static_cast<std::int64_t>(first + at)},
                            {.where = path.string(),
                             .expected = "lines of text",
                             .got = fmt::format("a line of more than {} bytes", kMaxLine)});
        }
    }
    return buffer;
}

}  // namespace stoker
