// Predictions as CSV or as JSON, written row by row.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "stoker/train/run/predict.h"

namespace stoker::cli {

class PredictionFile {
  public:
    // Throws InvalidArgument and IoError for a path that cannot be written or has no such name.
    static void check(const std::string& path);

    // `path` ends in .csv or .json; empty: CSV on stdout. `top`: so many classes a row, 0 for all of them in their own
    // order. Throws what `check` throws.
    PredictionFile(const std::string& path, std::vector<std::string> classes, std::int64_t top);
    PredictionFile(const PredictionFile&) = delete;
    PredictionFile& operator=(const PredictionFile&) = delete;
    ~PredictionFile();

    void write(const Prediction& prediction);
    // Throws IoError where not all could be written. Until then a file of that name stays what it was.
    void finish();

  private:
    std::vector<std::size_t> most_probable(const Prediction& prediction) const;
    std::string csv_header() const;
    std::string csv_row(const Prediction& prediction) const;
    std::string json_row(const Prediction& prediction);

    std::filesystem::path path_;
    std::filesystem::path written_;  // beside it until the end; the same for what is no regular file
    std::vector<std::string> classes_;
    std::size_t top_;
    bool json_;
    bool first_ = true;
    std::FILE* file_;
};

}  // namespace stoker::cli
