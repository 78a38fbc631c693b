#include "stoker/base/cgroup.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>

namespace stoker {
namespace {

// The group of this process in the hierarchy of `controller` (empty in v2); "/" if it is not listed.
std::filesystem::path own_group(const std::string& listing, const std::string& controller) {
    std::ifstream file(listing);
    for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/a/b" in v1, "0::/a/b" in v2
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) {
            continue;
        }
        const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
        if (controllers.find(fmt::format(",{},", controller)) != std::string::npos) {
            return line.substr(second + 1);
        }
    }
    return "/";
}

}  // namespace

std::vector<std::string> cgroup_folders(const std::string& mount, const std::string& controller,
                                        const std::string& listing) {
    std::vector<std::string> folders = {mount};
    for (auto group = own_group(listing, controller); group.has_relative_path(); group = group.parent_path()) {
        folders.push_back(mount + group.string());
    }
    return folders;
}

}  // namespace stoker
