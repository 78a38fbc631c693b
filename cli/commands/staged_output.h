// A new folder in the making: filled under a temporary name beside the target, which it takes in the end, so that
// what bears the given name is whole. Ended before that, it goes with everything in it.
#pragma once

#include <filesystem>
#include <string>

namespace stoker::cli {

class Staging {
  public:
    // Throws IoError where `target` is a file or a folder with files in it.
    explicit Staging(const std::string& target);
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging();

    const std::filesystem::path& folder() const { return folder_; }
    void commit();

  private:
    std::filesystem::path target_;
    std::filesystem::path folder_;
};

}  // namespace stoker::cli
