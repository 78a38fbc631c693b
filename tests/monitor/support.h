// A made-up /proc and /sys: write files into it, and give its root to what reads counters.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_dir.h"

namespace stoker::testing {

class MadeUpTree {
  public:
    void write(const std::string& name, const std::string& text) const {
        const std::filesystem::path path = folder_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    std::string root() const { return folder_.path().string(); }

  private:
    TempDir folder_;
};

}  // namespace stoker::testing
