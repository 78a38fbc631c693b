#include "stoker/formats/sample_files.h"

#include <algorithm>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/formats/checked_growth.h"
#include "stoker/formats/image_kind.h"

namespace stoker {

namespace fs = std::filesystem;

bool stays_within_folder(std::string_view path) {
    if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos) {
        return false;
    }
    while (true) {
        const std::size_t slash = path.find('/');
        if (path.substr(0, slash) == "..") {
            return false;
        }
        if (slash == std::string_view::npos) {
            return true;
        }
        path.remove_prefix(slash + 1);
    }
}

SampleFiles::SampleFiles(const fs::path& folder, std::size_t columns)
    : path_(folder),
      folder_(folder),
      columns_(columns),
      prefetcher_([this](std::int64_t index) { return fetch(index); }) {}

void SampleFiles::add(std::size_t column, std::string_view name) {
    Names& names = columns_.at(column);
    append_checked(names.text, name);
    push_checked<std::uint64_t>(names.ends, names.text.size());
}

std::string_view SampleFiles::name(std::size_t column, std::int64_t index) const {
    const Names& names = columns_[column];
    const auto at = static_cast<std::size_t>(index);
    const std::uint64_t begin = at == 0 ? 0 : names.ends[at - 1];
    return std::string_view(names.text).substr(begin, names.ends[at] - begin);
}

void SampleFiles::read(std::size_t column, std::int64_t index, FieldValue& value) const {
    const std::string_view file = name(column, index);
    if (file.empty()) {
        throw DataError({.path = path_.string()}, {.where = "file", .expected = "a name", .got = "none"});
    }
    if (!folder_.read_file(file, value.storage)) {
        prefetcher_.report_wait();
    }
    set_image_file(value.storage.bytes(), value);
}

// True if all files of the sample were in memory.
bool SampleFiles::fetch(std::int64_t index) const {
    bool in_memory = true;
    for (std::size_t column = 0; index >= 0 && index < size() && column < columns_.size(); ++column) {
        const std::string_view file = name(column, index);
        in_memory = (file.empty() || folder_.will_need(file)) && in_memory;
    }
    return in_memory;
}

std::int64_t SampleFiles::bytes() const {
    std::int64_t total = 0;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
        for (std::int64_t i = 0; i < size(); ++i) {
            std::error_code missing;
            const std::string_view file = name(column, i);
            const auto bytes = file.empty() ? 0 : fs::file_size(path_ / file, missing);
            total += missing ? 0 : static_cast<std::int64_t>(bytes);
        }
    }
    return total;
}

}  // namespace stoker
