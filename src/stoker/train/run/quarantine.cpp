// Bad samples are rare, so the file is opened for each batch that has some and written at once.
#include "stoker/train/run/quarantine.h"

#include <fcntl.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const Json& line) {
    return json_text(line.at("source")) + json_text(line.at("key"));
}

}  // namespace

void Quarantine::open(const std::filesystem::path& file) {
    file_ = file;
    listed_.clear();
    std::error_code unknown;
    if (!std::filesystem::exists(file, unknown)) {
        return;
    }
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        const Json json = parse_json<Json>(line);
        if (json.is_object() && json.contains("source") && json.contains("key")) {
            listed_.insert(name_of(json));
        }
    }
    torn_ = std::filesystem::file_size(file, unknown) > 0 && !read_text(file).ends_with('\n');
}

std::string Quarantine::lines(std::span<const BadSample> samples, const Dataset& dataset, int rank) {
    std::string lines;
    for (const BadSample& bad : samples) {
        const Json json = {{"source", dataset.path()},
                           {"key", bad.key},
                           {"offset", bad.offset ? Json(*bad.offset) : Json(nullptr)},
                           {"reason", bad.reason},
                           {"replaced_by", bad.replaced_by ? Json(dataset.key(*bad.replaced_by)) : Json(nullptr)},
                           {"rank", rank}};
        lines += json_text(json) + "\n";
    }
    return lines;
}

void Quarantine::add(const std::string& lines) {
    if (file_.empty() || lines.empty()) {
        return;
    }
    std::istringstream all(lines);
    std::string added;
    for (std::string line; std::getline(all, line);) {
        if (listed_.insert(name_of(parse_own_json<Json>(line))).second) {
            added += line + "\n";
        }
    }
    if (added.empty()) {
        return;
    }
    // A line that was truncated when the process was killed stays; its sample is listed again.
    added.insert(0, std::exchange(torn_, false) ? "\n" : "");
    const Descriptor out(::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (out.get() < 0 || write_bytes(out.get(), as_bytes(added)) < added.size()) {
        throw errno_error(file_.string(), "room to write");
    }
}

}  // namespace stoker
