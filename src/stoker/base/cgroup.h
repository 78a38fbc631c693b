// The folders in /sys/fs/cgroup whose limits apply to this process.
#pragma once

#include <string>
#include <vector>

namespace stoker {

// The root of the hierarchy mounted at `mount`, then this process's group and its parents; the limits of all of them
// apply. `controller` is empty for cgroup v2, and for example "cpu" for v1. `listing` is the file that lists the
// process's groups. A container often sees its own group mounted as the root: then only the first folder exists.
std::vector<std::string> cgroup_folders(const std::string& mount, const std::string& controller,
                                        const std::string& listing = "/proc/self/cgroup");

}  // namespace stoker
