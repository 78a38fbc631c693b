#include "engine/tune/page_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include "stoker/base/file.h"

namespace stoker::cli {

namespace fs = std::filesystem;

void drop_from_page_cache(const fs::path& path, bool write) {
    std::error_code unknown;
    if (fs::is_directory(path, unknown)) {
        for (const fs::directory_entry& entry : fs::directory_iterator(path, unknown)) {
            drop_from_page_cache(entry.path(), write);
        }
        return;
    }
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() >= 0) {
        if (write) {
            fdatasync(file.get());
        }
        posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
}

}  // namespace stoker::cli
