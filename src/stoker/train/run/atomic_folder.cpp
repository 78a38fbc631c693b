// A folder that is replaced keeps a name until the new one has it, so no name ever holds half a folder.
#include "stoker/train/run/atomic_folder.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <fmt/format.h>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {

namespace fs = std::filesystem;

void make_directories(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) {
        throw errno_error(path.string(), "a folder that can be made", error.value());
    }
}

void rename_folder(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::rename(from, to, error);
    if (error) {
        throw errno_error(to.string(), "a free name", error.value());
    }
}

void remove_path(const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) {
        throw errno_error(path.string(), "something that can be removed", error.value());
    }
}

void require_no_link(const fs::path& path) {
    std::error_code unknown;
    if (fs::is_symlink(path, unknown)) {
        throw InvalidArgument({.where = path.string(),
                               .expected = "a file or folder, since a run writes it",
                               .got = fmt::format("a symbolic link to {}", fs::read_symlink(path, unknown).string()),
                               .hint = "replace it by what it leads to, if that is yours"});
    }
}

fs::path new_folder(const fs::path& name, const fs::path& temporaries) {
    make_directories(temporaries);
    fs::path temporary = temporaries / (".writing-" + name.filename().string());
    remove_path(temporary);
    make_directories(temporary);
    return temporary;
}

// The step may already have a checkpoint, written before the epoch's evaluation: the two are exchanged atomically and
// the old one is removed, so that there is one at every moment. A file system that cannot exchange names, such as NFS,
// has none between two renames: restore_replaced() gives the old one its name again.
void commit_folder(const fs::path& temporary, const fs::path& name) {
    if (!fs::exists(name)) {
        rename_folder(temporary, name);
        return;
    }
    fs::path old = temporary;
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE) != 0) {
        if (errno != EINVAL && errno != ENOSYS) {
            throw errno_error(name.string(), "a checkpoint that can be replaced", errno);
        }
        old = temporary.parent_path() / (std::string(kReplaced) + name.filename().string());
        remove_path(old);
        rename_folder(name, old);
        rename_folder(temporary, name);
    }
    std::error_code kept;  // the new checkpoint is safe; a later one removes what is left of the old one
    fs::remove_all(old, kept);
}

void restore_replaced(const fs::path& final_name, const fs::path& temporaries) {
    const fs::path replaced = temporaries / (std::string(kReplaced) + final_name.filename().string());
    if (fs::exists(replaced) && !fs::exists(final_name)) {
        rename_folder(replaced, final_name);
    }
}

}  // namespace stoker
